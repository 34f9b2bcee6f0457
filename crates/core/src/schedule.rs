//! All placements in force, and what is free beside them.
//!
//! The schedule is what has been *decided*: a job that was requested to stop is out of it at once, though its
//! processes may still hold their devices (the [`State`](crate::state::State) knows about those).

use std::collections::BTreeMap;
use std::ops::Deref;

use crate::cluster::{DeviceSet, NodeShare};
use crate::ids::{JobId, NodeId};
use crate::job::Gang;
use crate::topology::Topology;
use crate::vacancy::{NodeUse, Vacancy};

/// Most jobs that can take turns on a device.
pub const SLOTS_MAX: usize = 4;

const NO_JOB: u32 = u32::MAX;

/// Placements of jobs. It dereferences to what is free beside them.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    slots: usize,
    /// Devices with more than one job.
    shared: u32,
    vacancy: Vacancy,
    /// For each device, the jobs placed on it, packed to the front.
    occupants: Vec<[u32; SLOTS_MAX]>,
    /// Jobs beyond those on devices that many have parts of, by the device's number.
    crowd: BTreeMap<u32, Vec<JobId>>,
    /// Jobs with tasks without devices, by node.
    guests: BTreeMap<NodeId, Vec<JobId>>,
    placements: Vec<Option<Box<[NodeShare]>>>,
    placed_count: u32,
}

impl Deref for Schedule {
    type Target = Vacancy;

    fn deref(&self) -> &Vacancy {
        &self.vacancy
    }
}

impl Schedule {
    /// An empty schedule over these nodes, with up to `slots` jobs on a device.
    pub fn new(topology: &Topology, slots: usize) -> Self {
        let mut schedule = Self {
            slots: slots.clamp(1, SLOTS_MAX),
            shared: 0,
            vacancy: Vacancy::default(),
            occupants: Vec::new(),
            crowd: BTreeMap::new(),
            guests: BTreeMap::new(),
            placements: Vec::new(),
            placed_count: 0,
        };
        for index in 0..topology.nodes().len() {
            schedule.add_node(topology, NodeId::from_index(index));
        }
        schedule
    }

    /// Jobs that a device can hold at once.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Whether a device can hold several jobs, or does: under a policy that was replaced it may have come to that.
    pub fn is_sharing(&self) -> bool {
        self.slots > 1 || self.shared > 0
    }

    /// Lets a device hold so many jobs from now on. What shares devices already is not disturbed.
    pub(crate) fn set_slots(&mut self, slots: usize) {
        self.slots = slots.clamp(1, SLOTS_MAX);
    }

    /// A job's devices.
    #[inline]
    pub fn placement(&self, job: JobId) -> Option<&[NodeShare]> {
        self.placements.get(job.index())?.as_deref()
    }

    /// How many jobs have a placement.
    pub fn placed_count(&self) -> u32 {
        self.placed_count
    }

    /// The jobs on a device.
    pub fn occupants(&self, topology: &Topology, node: NodeId, device: u32) -> impl Iterator<Item = JobId> {
        let number = topology.node(node).first_device + device;
        let crowd = if self.crowd.is_empty() { None } else { self.crowd.get(&number) };
        occupied(&self.occupants[number as usize]).chain(crowd.into_iter().flatten().copied())
    }

    /// The jobs with tasks without devices on a node.
    pub fn guests(&self, node: NodeId) -> &[JobId] {
        self.guests.get(&node).map_or(&[], Vec::as_slice)
    }

    /// The other jobs that share a device with this one, ascending.
    pub fn neighbours(&self, topology: &Topology, job: JobId) -> Vec<JobId> {
        let mut neighbours = Vec::new();
        if self.is_sharing() {
            for share in self.placement(job).unwrap_or_default() {
                for device in share.devices.iter() {
                    neighbours
                        .extend(self.occupants(topology, share.node, device).filter(|&other| other != job));
                }
            }
            neighbours.sort_unstable();
            neighbours.dedup();
        }
        neighbours
    }

    /// The jobs with devices on a node, ascending; [`Schedule::guests`] has those without.
    pub fn jobs_on(&self, topology: &Topology, node: NodeId, jobs: &mut Vec<JobId>) {
        jobs.clear();
        let here = topology.node(node);
        let devices = here.first_device as usize..(here.first_device + here.spec.devices) as usize;
        for device in &self.occupants[devices] {
            for job in occupied(device) {
                if jobs.last() != Some(&job) {
                    jobs.push(job);
                }
            }
        }
        if !self.crowd.is_empty() {
            let numbers = here.first_device..here.first_device + here.spec.devices;
            jobs.extend(self.crowd.range(numbers).flat_map(|(_, jobs)| jobs));
        }
        jobs.sort_unstable();
        jobs.dedup();
    }

    pub(crate) fn add_node(&mut self, topology: &Topology, node: NodeId) {
        let spec = topology.node(node);
        let devices = spec.spec.devices;
        self.occupants.resize(self.occupants.len() + devices as usize, [NO_JOB; SLOTS_MAX]);
        let host = spec.host;
        self.vacancy.nodes.push(NodeUse::new(devices, spec.device_type, host));
        self.vacancy.nodes[host.index()].groups = node.0 - host.0 + 1;
        self.refresh(topology, node);
    }

    /// Takes in a node that was declared again. One with another number or type of devices must hold no placement.
    pub(crate) fn replace_node(&mut self, topology: &Topology, node: NodeId, first_before: u32) {
        let here = topology.node(node);
        self.occupants.resize(topology.numbers(), [NO_JOB; SLOTS_MAX]);
        self.vacancy.set_free(node, DeviceSet::EMPTY);
        let known = &mut self.vacancy.nodes[node.index()];
        if (known.devices, known.device_type) != (here.spec.devices, here.device_type) {
            let (from, to) = (first_before as usize, here.first_device as usize);
            for device in 0..known.devices.min(here.spec.devices) as usize {
                self.occupants[to + device] = self.occupants[from + device];
            }
            *known = NodeUse {
                groups: known.groups,
                ..NodeUse::new(here.spec.devices, here.device_type, here.host)
            };
        }
        known.is_there = true;
        self.refresh(topology, node);
    }

    /// Takes a node in or out. A node that goes out must hold no placement.
    pub(crate) fn set_there(&mut self, topology: &Topology, node: NodeId, is_there: bool) {
        self.vacancy.nodes[node.index()].is_there = is_there;
        self.refresh(topology, node);
    }

    /// Lets a node have new jobs or not; what runs there is not disturbed.
    pub(crate) fn set_cordoned(&mut self, topology: &Topology, node: NodeId, is_cordoned: bool) {
        self.vacancy.nodes[node.index()].is_cordoned = is_cordoned;
        self.refresh(topology, node);
    }

    /// Reserves a node or releases it; running jobs are not affected.
    pub(crate) fn set_closed(&mut self, topology: &Topology, node: NodeId, is_closed: bool) {
        self.vacancy.nodes[node.index()].is_closed = is_closed;
        self.refresh(topology, node);
    }

    /// Takes a device in or out. A device that goes out must hold no placement.
    pub(crate) fn set_broken(&mut self, topology: &Topology, node: NodeId, device: u32, is_broken: bool) {
        let broken = &mut self.vacancy.nodes[node.index()].broken;
        if is_broken {
            broken.insert(device);
        } else {
            *broken = broken.difference(DeviceSet::single(device));
        }
        self.refresh(topology, node);
    }

    /// A node's working devices without any job, whether or not the node is out, or reserved.
    pub fn idle(&self, topology: &Topology, node: NodeId) -> DeviceSet {
        let mut idle = DeviceSet::EMPTY;
        for device in 0..self.vacancy.nodes[node.index()].devices {
            if self.occupants(topology, node, device).next().is_none() {
                idle.insert(device);
            }
        }
        idle.difference(self.broken(node))
    }

    /// Finds out again which devices of a node are free.
    fn refresh(&mut self, topology: &Topology, node: NodeId) {
        let is_free = self.is_up(node) && !self.is_exclusive(node);
        let free = if is_free { self.idle(topology, node) } else { DeviceSet::EMPTY };
        self.vacancy.set_free(node, free);
    }

    /// Gives a job its devices. The caller has audited them.
    pub(crate) fn place(&mut self, topology: &Topology, job: JobId, gang: &Gang, shares: &[NodeShare]) {
        self.vacancy.take(gang, shares);
        for share in shares {
            let first = topology.node(share.node).first_device;
            for device in share.devices.iter() {
                let occupants = &mut self.occupants[(first + device) as usize];
                match occupants.iter().position(|&slot| slot == NO_JOB) {
                    Some(index) => {
                        occupants[index] = job.0;
                        self.shared += u32::from(index == 1);
                    }
                    None => self.crowd.entry(first + device).or_default().push(job),
                }
            }
            if share.devices.is_empty() {
                self.guests.entry(share.node).or_default().push(job);
            }
        }
        if self.placements.len() <= job.index() {
            self.placements.resize(job.index() + 1, None);
        }
        self.placed_count += 1;
        self.placements[job.index()] = Some(shares.into());
    }

    /// Takes a job's devices back and returns them.
    pub(crate) fn release(
        &mut self,
        topology: &Topology,
        job: JobId,
        gang: &Gang,
    ) -> Option<Box<[NodeShare]>> {
        let shares = self.placements.get_mut(job.index())?.take()?;
        self.placed_count -= 1;
        self.vacancy.refund(gang, &shares);
        for share in &shares {
            let first = topology.node(share.node).first_device;
            let mut freed = DeviceSet::EMPTY;
            for device in share.devices.iter() {
                let occupants = &mut self.occupants[(first + device) as usize];
                let was_shared = occupants[1] != NO_JOB;
                if remove(occupants, job) {
                    refill(occupants, &mut self.crowd, first + device);
                } else {
                    leave(&mut self.crowd, &(first + device), job);
                }
                self.shared -= u32::from(was_shared && occupants[1] == NO_JOB);
                if occupants[0] == NO_JOB {
                    freed.insert(device);
                }
            }
            self.vacancy.add_free(share.node, freed);
            if share.devices.is_empty() {
                leave(&mut self.guests, &share.node, job);
            }
        }
        Some(shares)
    }
}

fn occupied(device: &[u32; SLOTS_MAX]) -> impl Iterator<Item = JobId> {
    device.iter().copied().take_while(|&job| job != NO_JOB).map(JobId)
}

/// Takes a job off a device, and returns whether it was there.
fn remove(device: &mut [u32; SLOTS_MAX], job: JobId) -> bool {
    let at = device.iter().position(|&slot| slot == job.0);
    if let Some(at) = at {
        device.copy_within(at + 1.., at);
        device[SLOTS_MAX - 1] = NO_JOB;
    }
    at.is_some()
}

/// Puts one of the jobs beyond a device's first ones in the place of one that left.
fn refill(device: &mut [u32; SLOTS_MAX], crowd: &mut BTreeMap<u32, Vec<JobId>>, number: u32) {
    if crowd.is_empty() {
        return;
    }
    if let Some(&next) = crowd.get(&number).and_then(|jobs| jobs.first()) {
        leave(crowd, &number, next);
        device[SLOTS_MAX - 1] = next.0;
    }
}

/// Takes a job off a list.
fn leave<K: Ord>(lists: &mut BTreeMap<K, Vec<JobId>>, key: &K, job: JobId) {
    let Some(jobs) = lists.get_mut(key) else { return };
    if let Some(at) = jobs.iter().position(|&other| other == job) {
        jobs.remove(at);
    }
    if jobs.is_empty() {
        lists.remove(key);
    }
}
