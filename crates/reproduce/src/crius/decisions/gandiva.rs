//! Gandiva as Crius's simulator has it: first come, first served with relaxed locality; when a job ends, jobs that lie on more nodes
//! than needed are gathered, and jobs on one node grow into its idle devices until another job needs those.
//!
//! | defect | effect |
//! |---|---|
//! | where a grown job was requested to shrink and the newcomer still does not fit, what was lent to it is forgotten although it keeps it | it counts as never grown, and can grow again |
//! | in that case a new job is dropped without a word | neither finished nor waiting |
//! | a job that waits is skipped in that case, and does not block its type | later jobs overtake it |

use std::collections::BTreeMap;

use super::Rules;
use super::fcfs::Fcfs;
use super::job::Quota;
use super::site::{Kind, Shape};
use super::table::{Owner, Share, Table};
use super::world::{Tried, World};

/// `gandiva`.
#[derive(Clone, Debug, Default)]
pub(super) struct Gandiva {
    /// Devices that were lent, with the job that has them.
    lent: BTreeMap<usize, u32>,
    /// The devices that each grown job had before.
    grown: BTreeMap<u32, Vec<usize>>,
}

/// The outcome of a job that was to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// It runs.
    Runs,
    /// There is no room, not even with what is lent.
    NoRoom,
    /// There would be, but a job does not give it back.
    Conflict,
}

impl Gandiva {
    /// Whether a job would fit if all that is lent were given back, and where.
    fn find(&self, world: &World, job: u32) -> Option<(Quota, Vec<u32>, Table)> {
        let mut table = world.table.clone();
        for &device in self.lent.keys() {
            table.set(device, false, Owner::FREE);
        }
        let asked = world.job(job).asked;
        let mut nodes = Vec::new();
        let shape = world.find(&table, job, asked, true, true, &mut nodes)?;
        Some((Quota::new(asked.kind, shape), nodes, table))
    }

    /// Runs a job, where need be on devices that others have to give back.
    fn fit(&mut self, world: &mut World, job: u32) -> Fit {
        let Some((quota, nodes, mut planned)) = self.find(world, job) else { return Fit::NoRoom };
        let owner = Owner::job(job);
        planned.place(owner, quota.devices, &nodes);
        let wanted: Vec<usize> = nodes
            .iter()
            .flat_map(|&node| world.site().devices(node))
            .filter(|&device| planned.owner(device) == owner)
            .collect();
        let mut table = world.table.clone();
        let mut holders: Vec<u32> = Vec::new();
        for &device in &wanted {
            if let Some(holder) = table.owner(device).as_job().filter(|_| table.is_used(device))
                && !holders.contains(&holder)
            {
                holders.push(holder);
            }
        }
        for &holder in &holders {
            self.shrink(holder, &mut table);
        }
        if wanted.iter().any(|&device| table.is_used(device)) {
            return Fit::Conflict;
        }
        for &device in &wanted {
            table.set(device, true, owner);
        }
        world.table = table;
        world.job_mut(job).quota = quota;
        for holder in holders {
            world.refresh(holder);
        }
        Fit::Runs
    }

    /// A grown job goes back to what it had. The books forget that it grew, whether or not the table is used.
    fn shrink(&mut self, job: u32, table: &mut Table) {
        let Some(devices) = self.grown.remove(&job) else { return };
        table.release(Owner::job(job));
        for device in devices {
            table.set(device, true, Owner::job(job));
        }
        self.lent.retain(|_, borrower| *borrower != job);
    }

    /// Gathers jobs that lie on more nodes than needed, one step at a time.
    fn gather(world: &mut World) {
        let is_scattered = |world: &World, job: u32| {
            let quota = world.job(job).quota;
            quota.shape.hosts > 1 && quota.shape.per_host < world.site().per_node(quota.kind)
        };
        let mut queue: Vec<u32> =
            world.running.iter().copied().filter(|job| is_scattered(world, *job)).collect();
        for _ in 0..world.options.migrations_max {
            let moved = queue.iter().position(|&job| {
                has_half_empty_node(world, world.job(job).quota.kind) && gather_one(world, job)
            });
            let Some(place) = moved else { return };
            let quota = world.job(queue[place]).quota;
            if quota.shape.per_host == world.site().best(quota.kind, quota.devices).per_host {
                queue.remove(place);
            }
        }
    }

    /// Jobs on one node grow into its idle devices.
    fn grow(&mut self, world: &mut World) {
        for index in 0..world.running.len() {
            let job = world.running[index];
            let quota = world.job(job).quota;
            if quota.shape.hosts > 1
                || quota.devices >= world.site().per_node(quota.kind)
                || self.grown.contains_key(&job)
            {
                continue;
            }
            let owner = Owner::job(job);
            let Some(node) = first_node(&world.table, owner, quota.kind) else { continue };
            let most = world.table.idle(node) + quota.devices;
            let mut devices = quota.devices;
            while devices * 2 <= most {
                let (before, new) = (Shape::single(devices), Shape::single(devices * 2));
                if world.gain(job, (quota.kind, new), Some((quota.kind, before))) <= 0.0 {
                    break;
                }
                devices *= 2;
            }
            if devices > quota.devices {
                world.table.release_of(owner, quota.kind);
                world.table.place(owner, devices, &[node]);
                self.lend(world, job, node, quota.devices);
                world.job_mut(job).quota = Quota::new(quota.kind, Shape::single(devices));
            }
        }
    }

    /// All devices of a job but the first are lent.
    fn lend(&mut self, world: &World, job: u32, node: u32, own: u32) {
        let is_own = |device: &usize| world.table.owner(*device) == Owner::job(job);
        let mut devices = world.site().devices(node).filter(is_own);
        self.grown.insert(job, devices.by_ref().take(own as usize).collect());
        self.lent.extend(devices.map(|device| (device, job)));
    }
}

fn first_node(table: &Table, owner: Owner, kind: Kind) -> Option<u32> {
    let mut shares = Vec::new();
    table.shares_in(owner, kind, &mut shares);
    shares.first().map(|share: &Share| share.0)
}

/// Whether a node of a type is partly used and at least half idle.
fn has_half_empty_node(world: &World, kind: Kind) -> bool {
    let mut nodes = world.site().nodes(kind);
    nodes.any(|node| {
        let (idle, size) = (world.table.idle(node), world.site().devices(node).len() as u32);
        idle >= size / 2 && idle < size
    })
}

/// Puts a job onto fewer nodes: its own, or else others.
fn gather_one(world: &mut World, job: u32) -> bool {
    let quota = world.job(job).quota;
    let owner = Owner::job(job);
    let mut shares = Vec::new();
    world.table.shares_in(owner, quota.kind, &mut shares);
    let own: Vec<u32> = shares.iter().map(|share| share.0).collect();
    let best = world.site().best(quota.kind, quota.devices);
    let denser = || {
        std::iter::successors(Some(best), |shape| shape.halved())
            .take_while(|shape| shape.per_host > quota.shape.per_host)
    };
    let fullest = |mut nodes: Vec<u32>, shape: Shape| {
        nodes.sort_by_key(|node| world.table.idle(*node));
        nodes.truncate(shape.hosts as usize);
        (nodes.len() == shape.hosts as usize).then_some((shape, nodes))
    };
    let on_own = |shape: Shape| {
        let missing = shape.per_host - quota.shape.per_host;
        fullest(own.iter().copied().filter(|node| world.table.idle(*node) >= missing).collect(), shape)
    };
    let on_others = |shape: Shape| {
        let others = world.site().nodes(quota.kind).filter(|node| !own.contains(node));
        fullest(others.filter(|node| world.table.idle(*node) >= shape.per_host).collect(), shape)
    };
    let found = denser().find_map(on_own).or_else(|| denser().find_map(on_others));
    let Some((shape, nodes)) = found else { return false };
    world.table.release_of(owner, quota.kind);
    world.table.place(owner, quota.devices, &nodes);
    world.job_mut(job).quota = Quota::new(quota.kind, shape);
    true
}

impl Rules for Gandiva {
    fn on_ends(&mut self, world: &mut World) {
        for job in &world.ended {
            self.grown.remove(job);
            self.lent.retain(|device, _| world.table.owner(*device) != Owner::job(*job));
        }
        world.release_ended();
        Self::gather(world);
        world.retry(|world, job| match self.fit(world, job) {
            Fit::Runs => Tried::Runs,
            Fit::NoRoom => Tried::Blocks,
            Fit::Conflict => Tried::Waits,
        });
        self.grow(world);
    }

    fn on_arrivals(&mut self, world: &mut World) {
        Fcfs::drop_unfit(world);
        for job in std::mem::take(&mut world.submitted) {
            let is_behind = Fcfs::has_earlier(world, job);
            match if is_behind { Fit::NoRoom } else { self.fit(world, job) } {
                Fit::Runs => world.running.push(job),
                Fit::NoRoom => world.pending.push(job),
                // Without a word, as published.
                Fit::Conflict => {}
            }
        }
    }
}
