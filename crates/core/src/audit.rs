//! An independent check of schedules. A violation is a bug of the policy: refused, reported, never executed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::accounts::{Accounts, Dimension};
use crate::cluster::{DeviceSet, NodeShare};
use crate::ids::{JobId, NodeId};
use crate::job::{Gang, Needs};
use crate::request::WHOLE_MILLI;
use crate::state::{Phase, State};

/// A rule that a schedule breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The job cannot be started: it runs already, or is over.
    NotWaiting {
        /// The job.
        job: JobId,
    },
    /// The job has no devices to give back.
    NotPlaced {
        /// The job.
        job: JobId,
    },
    /// The gang is not whole.
    GangSize {
        /// The job.
        job: JobId,
        /// Devices in the placement.
        given: u32,
        /// The fewest it takes.
        min: u32,
        /// The most it takes.
        max: u32,
    },
    /// A node is named twice, or a share is empty.
    MalformedShare {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// A device that the node does not have.
    NoSuchDevice {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
        /// The device's index.
        device: u32,
    },
    /// The node or the device is out.
    NodeOut {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// The device holds as many jobs as it can.
    SlotTaken {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
        /// The device's index.
        device: u32,
    },
    /// A device type that the job may not use.
    WrongType {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// More would be used of something than there is.
    Exceeded {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
        /// Of what.
        what: Dimension,
    },
    /// The node is not in the job's pool, or the shape is another.
    NeedsUnmet {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// Bookkeeping differs from what the placements say.
    FreeDiffers {
        /// The node.
        node: NodeId,
    },
    /// What the policy wants cannot even be tried.
    Senseless {
        /// What is wrong with it.
        why: String,
    },
    /// A job with a placement is in a phase that has none.
    PhaseDiffers {
        /// The job.
        job: JobId,
        /// Its phase.
        phase: Phase,
    },
}

impl Violation {
    /// The job.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::NotWaiting { job }
            | Self::NotPlaced { job }
            | Self::GangSize { job, .. }
            | Self::MalformedShare { job, .. }
            | Self::NoSuchDevice { job, .. }
            | Self::NodeOut { job, .. }
            | Self::SlotTaken { job, .. }
            | Self::WrongType { job, .. }
            | Self::NeedsUnmet { job, .. }
            | Self::Exceeded { job, .. }
            | Self::PhaseDiffers { job, .. } => Some(*job),
            _ => None,
        }
    }

    /// The node.
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::MalformedShare { node, .. }
            | Self::NoSuchDevice { node, .. }
            | Self::NodeOut { node, .. }
            | Self::SlotTaken { node, .. }
            | Self::WrongType { node, .. }
            | Self::NeedsUnmet { node, .. }
            | Self::Exceeded { node, .. }
            | Self::FreeDiffers { node } => Some(*node),
            _ => None,
        }
    }

    /// The violation with names for its job and its node.
    pub fn named(&self, job: &str, node: &str) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text, &job, &node);
        text
    }

    fn write(&self, f: &mut dyn fmt::Write, job: &dyn fmt::Display, node: &dyn fmt::Display) -> fmt::Result {
        match self {
            Self::NotWaiting { .. } => write!(f, "{job} is not waiting"),
            Self::NotPlaced { .. } => write!(f, "{job} has no placement"),
            Self::GangSize { given, min, max, .. } => {
                write!(f, "{job} was given {given} devices, but it runs on {min} to {max}")
            }
            Self::MalformedShare { .. } => {
                write!(f, "the placement of {job} names {node} twice or without devices")
            }
            Self::NoSuchDevice { device, .. } => {
                write!(f, "{job} was given device {device} of {node}, which has fewer")
            }
            Self::NodeOut { .. } => write!(f, "{job} was placed on {node}, which is out"),
            Self::SlotTaken { device, .. } => {
                write!(f, "{job} was given device {device} of {node}, whose slots are taken")
            }
            Self::WrongType { .. } => {
                write!(f, "{job} was placed on {node}, whose device type it may not use")
            }
            Self::NeedsUnmet { .. } => {
                write!(f, "{job} was placed on {node}, which does not offer what it needs")
            }
            Self::Exceeded { what, .. } => {
                write!(f, "{job} was placed on {node}, which has not enough {what} left for it")
            }
            Self::FreeDiffers { .. } => write!(f, "the free devices of {node} are not those without jobs"),
            Self::Senseless { why } => write!(f, "{why}"),
            Self::PhaseDiffers { phase, .. } => write!(f, "{job} is {phase:?} but has a placement"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = self.job().map_or_else(String::new, |job| job.to_string());
        let node = self.node().map_or_else(String::new, |node| node.to_string());
        self.write(f, &job, &node)
    }
}

impl std::error::Error for Violation {}

/// Checks one start against the current state; the cost follows the size of the gang. `is_kept_for` tells of a job that
/// may also be given nodes that are kept.
pub(crate) fn check_start(
    state: &State,
    job: JobId,
    placement: &[NodeShare],
    is_kept_for: bool,
) -> Result<(), Violation> {
    let startable = matches!(state.job(job).phase, Phase::Waiting | Phase::Stopping);
    if !startable || state.job(job).ending().is_some() || state.schedule().placement(job).is_some() {
        return Err(Violation::NotWaiting { job });
    }
    check_shape(state, job, placement)?;
    for share in placement {
        let node = share.node;
        let is_broken = !share.devices.intersection(state.schedule().broken(node)).is_empty();
        let schedule = state.schedule();
        let is_up = schedule.is_up(node) || is_kept_for && schedule.is_usable_if_kept(node);
        if !is_up || is_broken {
            return Err(Violation::NodeOut { job, node });
        }
        if schedule.is_exclusive(node) {
            return Err(Violation::Exceeded { job, node, what: Dimension::Exclusive });
        }
        let gang = &state.spec(job).gang;
        // Devices without any job have room; only shared ones need a closer look.
        let shared = share.devices.difference(state.schedule().free(node));
        match gang.group(share.group).and_then(Gang::device_part) {
            Some(milli) => check_parts(state, job, *share, shared, milli)?,
            None => check_slots(state, job, node, shared)?,
        }
    }
    check_amounts(state, job, placement)
}

/// Whether devices that have jobs can take turns with one more.
fn check_slots(state: &State, job: JobId, node: NodeId, devices: DeviceSet) -> Result<(), Violation> {
    let schedule = state.schedule();
    for device in devices.iter() {
        let occupants = schedule.occupants(state.topology(), node, device).count();
        if occupants >= schedule.slots() || schedule.accounts().part(node, device).is_some() {
            return Err(Violation::SlotTaken { job, node, device });
        }
    }
    Ok(())
}

/// Whether devices that have jobs are given in parts, and have so much left.
fn check_parts(
    state: &State,
    job: JobId,
    share: NodeShare,
    devices: DeviceSet,
    milli: u32,
) -> Result<(), Violation> {
    let node = share.node;
    for device in devices.iter() {
        match state.schedule().accounts().part(node, device) {
            Some(used) if used + milli <= WHOLE_MILLI => {}
            Some(_) => return Err(Violation::Exceeded { job, node, what: Dimension::DeviceParts }),
            None => return Err(Violation::SlotTaken { job, node, device }),
        }
    }
    Ok(())
}

/// Whether machines and the cluster have what a gang takes beside devices.
fn check_amounts(state: &State, job: JobId, placement: &[NodeShare]) -> Result<(), Violation> {
    let (topology, schedule) = (state.topology(), state.schedule());
    let gang = &state.spec(job).gang;
    if gang.needs.is_none() {
        return Ok(());
    }
    if let (Some(what), Some(first)) = (schedule.scarce_licence(topology, gang), placement.first()) {
        return Err(Violation::Exceeded { job, node: first.node, what });
    }
    let charged = placement.iter().filter_map(|share| Some((share, gang.charge(share)?)));
    let mut hosts = BTreeSet::new();
    for (share, charge) in charged {
        let host = topology.node(share.node).host;
        hosts.insert(host);
        let has_another =
            || placement.iter().filter(|other| topology.node(other.node).host == host).count() > 1;
        if charge.request.is_exclusive && (has_another() || !schedule.is_idle_machine(topology, host)) {
            return Err(Violation::Exceeded { job, node: share.node, what: Dimension::Exclusive });
        }
    }
    if hosts.is_empty() {
        return Ok(());
    }
    let mut after = Accounts::default();
    after.charge(|node| topology.node(node).host, gang, placement);
    for node in hosts {
        if let Some(what) = after.excess_with(schedule.accounts(), topology, node) {
            return Err(Violation::Exceeded { job, node, what });
        }
    }
    Ok(())
}

/// Rules for one placement that do not depend on other jobs.
fn check_shape(state: &State, job: JobId, placement: &[NodeShare]) -> Result<(), Violation> {
    let gang = &state.spec(job).gang;
    for (index, group) in (0..).zip(gang.groups()) {
        let shares = placement.iter().filter(|share| share.group == index);
        let given: u32 = shares.map(|share| group.size_in(share)).sum();
        let (min, max) = if group.has_devices() {
            (group.devices_min, group.devices_max)
        } else {
            (group.size(), group.size())
        };
        if !(min..=max).contains(&given) {
            return Err(Violation::GangSize { job, given, min, max });
        }
    }
    for (index, share) in placement.iter().enumerate() {
        let node = share.node;
        let is_same = |earlier: &NodeShare| (earlier.node, earlier.group) == (node, share.group);
        let Some(group) = gang.group(share.group) else {
            return Err(Violation::MalformedShare { job, node });
        };
        let is_empty = group.size_in(share) == 0 || group.has_devices() == share.devices.is_empty();
        let is_odd = share.devices.len() % group.step() > 0 || share.tasks > 0 && group.has_devices();
        if is_empty || is_odd || placement[..index].iter().any(is_same) {
            return Err(Violation::MalformedShare { job, node });
        }
        let spec = &state.topology().node(node).spec;
        if let Some(device) = share.devices.difference(DeviceSet::first(spec.devices)).iter().next() {
            return Err(Violation::NoSuchDevice { job, node, device });
        }
        if group.has_devices() && !group.allows(&spec.device_type) {
            return Err(Violation::WrongType { job, node });
        }
    }
    for (index, group) in (0..).zip(gang.groups()) {
        if let Some(needs) = &group.needs {
            check_needs(state, job, group, needs, || {
                placement.iter().filter(move |share| share.group == index)
            })?;
        }
    }
    Ok(())
}

/// Whether a group is on nodes that it can use, in the shape that it asks for.
fn check_needs<'a, I: Iterator<Item = &'a NodeShare>>(
    state: &State,
    job: JobId,
    group: &Gang,
    needs: &Needs,
    shares: impl Fn() -> I,
) -> Result<(), Violation> {
    let topology = state.topology();
    let each = needs.nodes.filter(|_| needs.is_even(group)).map(|nodes| group.size() / nodes.max(1));
    let limit = needs.request.tasks_per_node;
    for share in shares() {
        let is_sized = each.is_none_or(|each| group.size_in(share) == each);
        let is_within = limit == 0 || group.tasks_in(share) <= limit;
        if !is_sized || !is_within || !needs.allow(&topology.node(share.node).spec) {
            return Err(Violation::NeedsUnmet { job, node: share.node });
        }
    }
    let Some(first) = shares().next() else { return Ok(()) };
    let placement: Vec<NodeShare> = shares().copied().collect();
    let is_together = needs
        .request
        .within
        .filter(|within| within.is_required)
        .is_none_or(|within| topology.span(&placement).is_some_and(|span| span <= within.level));
    let is_complete = needs.nodes.is_none_or(|wanted| placement.len() == wanted as usize);
    if is_together && is_complete { Ok(()) } else { Err(Violation::NeedsUnmet { job, node: first.node }) }
}

/// Checks the whole schedule from first principles: it checks placements only, not at the schedule's own indexes.
/// Meant for tests and after recovery; the cost follows everything that exists.
pub fn check_all(state: &State) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut accounts = Accounts::default();
    // Devices given in parts: the number of their jobs, and what they have together.
    let mut parts: BTreeMap<(NodeId, u32), (u32, u32)> = BTreeMap::new();
    // A job on each machine.
    let mut last: BTreeMap<NodeId, JobId> = BTreeMap::new();
    let mut load: Vec<Vec<u32>> =
        state.topology().nodes().iter().map(|node| vec![0; node.spec.devices as usize]).collect();
    for (job, _, life) in state.jobs() {
        let Some(placement) = state.schedule().placement(job) else { continue };
        if matches!(life.phase, Phase::Waiting | Phase::Ended(_)) {
            violations.push(Violation::PhaseDiffers { job, phase: life.phase });
        }
        violations.extend(check_shape(state, job, placement).err());
        let nodes: BTreeSet<NodeId> = placement.iter().map(|share| share.node).collect();
        violations.extend(
            nodes
                .iter()
                .filter(|&&node| !state.schedule().is_there(node))
                .map(|&node| Violation::NodeOut { job, node }),
        );
        let gang = &state.spec(job).gang;
        accounts.charge(|node| state.topology().node(node).host, gang, placement);
        for share in placement {
            let part = gang.group(share.group).and_then(Gang::device_part);
            for device in share.devices.iter() {
                load[share.node.index()][device as usize] += 1;
                if let Some(milli) = part {
                    *parts.entry((share.node, device)).or_insert((0, 0)) = {
                        let (jobs, sum) = parts.get(&(share.node, device)).copied().unwrap_or_default();
                        (jobs + 1, sum + milli)
                    };
                }
            }
        }
        for share in placement {
            last.entry(state.topology().node(share.node).host).or_insert(job);
            for device in share.devices.iter() {
                let (count, node) = (load[share.node.index()][device as usize], share.node);
                match parts.get(&(node, device)) {
                    Some(&(jobs, sum)) if jobs != count || sum > WHOLE_MILLI => {
                        violations.push(Violation::Exceeded { job, node, what: Dimension::DeviceParts });
                    }
                    None if count > state.schedule().slots() as u32 => {
                        violations.push(Violation::SlotTaken { job, node, device });
                    }
                    _ => {}
                }
            }
        }
    }
    for (&node, &job) in &last {
        let is_alone = accounts.machine(node).exclusive == 0 || occupied_by(state, node) == 1;
        let excess = accounts.excess(state.topology(), node).or((!is_alone).then_some(Dimension::Exclusive));
        violations.extend(excess.map(|what| Violation::Exceeded { job, node, what }));
        if accounts.machine(node) != state.schedule().accounts().machine(node) {
            violations.push(Violation::FreeDiffers { node });
        }
    }
    if let (Some(what), Some((&node, &job))) =
        (accounts.licence_excess(state.topology()), last.first_key_value())
    {
        violations.push(Violation::Exceeded { job, node, what });
    }
    for node in state.nodes_up() {
        let (free, broken) = (state.schedule().free(node), state.schedule().broken(node));
        let differs = load[node.index()]
            .iter()
            .enumerate()
            .filter(|&(device, _)| !broken.contains(device as u32))
            .any(|(device, &count)| {
                let is_free = count == 0 && accounts.machine(state.topology().node(node).host).exclusive == 0;
                free.contains(device as u32) != is_free
            });
        if differs {
            violations.push(Violation::FreeDiffers { node });
        }
    }
    violations
}

/// How many jobs have anything of a machine.
fn occupied_by(state: &State, host: NodeId) -> usize {
    let is_here = |share: &NodeShare| state.topology().node(share.node).host == host;
    let placements = state.jobs().filter_map(|(job, ..)| state.schedule().placement(job));
    placements.filter(|placement| placement.iter().any(is_here)).count()
}
