//! Who has what, read from a table.

use super::super::job::{Job, Quota};
use super::super::site::{Kind, Shape};
use super::super::table::{Owner, Table};
use super::super::world::World;

/// A job with devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) job: u32,
    pub(super) kind: Kind,
    pub(super) devices: u32,
    pub(super) hosts: u32,
    last: u32,
}

impl Held {
    /// A job that has nothing yet, as if it had what it asks for.
    pub(super) fn as_asked(world: &World, job: u32, kind: Kind, devices: u32) -> Self {
        let hosts = (devices / world.site().per_node(kind).max(1)).max(1);
        Self { job, kind, devices, hosts, last: 0 }
    }

    /// How it lies, taken as even.
    pub(super) fn shape(&self) -> Shape {
        Shape { hosts: self.hosts, per_host: self.devices / self.hosts }
    }
}

/// Reads tables, with memory that is used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    /// Jobs that use devices, in the order of those.
    pub(super) held: Vec<Held>,
    /// Each job's place in `held`, where it has one there.
    place: Vec<u32>,
}

impl Survey {
    /// Reads a table. Devices that are lent out, or on which a job is profiled, do not count.
    pub(super) fn read(&mut self, table: &Table, jobs: &[Job]) {
        for held in self.held.drain(..) {
            self.place[held.job as usize] = u32::MAX;
        }
        self.place.resize(jobs.len(), u32::MAX);
        let site = table.site();
        for node in 0..site.node_count() {
            let kind = site.kind_of(node);
            for device in site.devices(node) {
                let Some(job) = table.owner(device).as_job().filter(|_| table.is_used(device)) else {
                    continue;
                };
                let place = &mut self.place[job as usize];
                if *place == u32::MAX {
                    *place = self.held.len() as u32;
                    self.held.push(Held { job, kind, devices: 1, hosts: 1, last: node });
                    continue;
                }
                let held = &mut self.held[*place as usize];
                held.devices += 1;
                held.hosts += u32::from(held.last != node);
                held.last = node;
            }
        }
    }

    /// What a job has.
    pub(super) fn of(&self, job: u32) -> Option<&Held> {
        let place = *self.place.get(job as usize)?;
        self.held.get(place as usize)
    }

    /// Takes a table over as it is: all running jobs have what it says.
    pub(super) fn refresh(&mut self, world: &mut World) {
        self.read(&world.table, &world.jobs);
        for index in 0..world.running.len() {
            let job = world.running[index];
            if let Some(held) = self.of(job) {
                world.job_mut(job).quota =
                    Quota { kind: held.kind, devices: held.devices, shape: held.shape() };
            }
        }
    }
}

/// How a job lies on devices of a type.
pub(super) fn shape_of(table: &Table, job: u32, kind: Kind) -> Option<Shape> {
    let site = table.site();
    let range = site.kind(kind).devices.clone();
    let (mut devices, mut hosts, mut last) = (0, 0, u32::MAX);
    for device in range.start as usize..range.end as usize {
        if table.owner(device) == Owner::job(job) {
            let node = site.node_of(device);
            devices += 1;
            hosts += u32::from(node != last);
            last = node;
        }
    }
    (hosts > 0).then(|| Shape { hosts, per_host: devices / hosts })
}
