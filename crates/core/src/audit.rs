//! An independent check of schedules. A violation is a bug of the policy: refused, reported, never executed.

use std::collections::BTreeSet;
use std::fmt;

use crate::cluster::{DeviceSet, NodeShare};
use crate::ids::{JobId, NodeId};
use crate::job::Needs;
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
    /// The node is not in the job's pool, or has not the processors or memory, or the shape is another.
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
        if let Some(needs) = &state.spec(job).gang.needs {
            check_needs(state, job, *share, placement.len(), needs)?;
        }
        // Devices without any job have room; only shared ones need a closer look.
        let shared = share.devices.difference(state.schedule().free(node));
        for device in shared.iter() {
            let occupants = state.schedule().occupants(state.topology(), node, device).count();
            if occupants >= state.schedule().slots() {
                return Err(Violation::SlotTaken { job, node, device });
            }
        }
    }
    Ok(())
}

/// Whether a node is one that the job can use, with what it asks for beside devices.
fn check_needs(
    state: &State,
    job: JobId,
    share: NodeShare,
    nodes: usize,
    needs: &Needs,
) -> Result<(), Violation> {
    let node = share.node;
    let devices = u64::from(share.devices.len());
    let (cpus, memory_mib) = state.schedule().unpromised(state.topology(), node);
    let is_even = needs.nodes.is_none_or(|wanted| {
        let each = state.spec(job).gang.devices / wanted.max(1);
        nodes == wanted as usize && share.devices.len() == each
    });
    let is_allowed = needs.allow(&state.topology().node(node).spec);
    if is_even && is_allowed && needs.devices_within(cpus, memory_mib) >= devices {
        Ok(())
    } else {
        Err(Violation::NeedsUnmet { job, node })
    }
}

/// Rules for one placement that do not depend on other jobs.
fn check_shape(state: &State, job: JobId, placement: &[NodeShare]) -> Result<(), Violation> {
    let gang = &state.spec(job).gang;
    let given: u32 = placement.iter().map(|share| share.devices.len()).sum();
    if !(gang.devices_min..=gang.devices_max).contains(&given) {
        return Err(Violation::GangSize { job, given, min: gang.devices_min, max: gang.devices_max });
    }
    for (index, share) in placement.iter().enumerate() {
        let node = share.node;
        if share.devices.is_empty() || placement[..index].iter().any(|earlier| earlier.node == node) {
            return Err(Violation::MalformedShare { job, node });
        }
        let spec = &state.topology().node(node).spec;
        if let Some(device) = share.devices.difference(DeviceSet::first(spec.devices)).iter().next() {
            return Err(Violation::NoSuchDevice { job, node, device });
        }
        if !gang.allows(&spec.device_type) {
            return Err(Violation::WrongType { job, node });
        }
    }
    Ok(())
}

/// Checks the whole schedule from first principles: it checks placements only, not at the schedule's own indexes.
/// Meant for tests and after recovery; the cost follows everything that exists.
pub fn check_all(state: &State) -> Vec<Violation> {
    let mut violations = Vec::new();
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
        for share in placement {
            for device in share.devices.iter() {
                let count = &mut load[share.node.index()][device as usize];
                *count += 1;
                if *count > state.schedule().slots() as u32 {
                    violations.push(Violation::SlotTaken { job, node: share.node, device });
                }
            }
        }
    }
    for node in state.nodes_up() {
        let (free, broken) = (state.schedule().free(node), state.schedule().broken(node));
        let differs = load[node.index()]
            .iter()
            .enumerate()
            .filter(|&(device, _)| !broken.contains(device as u32))
            .any(|(device, &count)| free.contains(device as u32) != (count == 0));
        if differs {
            violations.push(Violation::FreeDiffers { node });
        }
    }
    violations
}
