//! Requests that no state of a cluster can satisfy, with the field to blame and what would fit.

use std::fmt;
use std::sync::Arc;

use crate::accounts::Dimension;
use crate::job::Gang;
use crate::request::WHOLE_MILLI;
use crate::room::Scarcity;
use crate::topology::Topology;
use crate::vacancy::Vacancy;

/// Why a gang can never run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// A part of several devices.
    PartOfSeveral {
        /// The number of devices.
        devices: u32,
    },
    /// A part that is more than a device.
    PartAboveWhole {
        /// The part in thousandths.
        milli: u32,
    },
    /// Devices that cannot be divided among tasks.
    Indivisible {
        /// All devices.
        devices: u32,
        /// Devices of a task.
        each: u32,
    },
    /// A device type, slice profile, resource or licence that the cluster does not have.
    Unknown {
        /// What it is: `device type`, `slice profile`, `resource`, `licence`.
        what: &'static str,
        /// Its name.
        name: Arc<str>,
        /// Those that the cluster has.
        known: Vec<Arc<str>>,
    },
    /// More of something than any node, or the cluster, has.
    TooMuch(Scarcity),
}

impl Unmet {
    /// The first thing about a gang that no state of the cluster can satisfy, apart from the number of its devices. `idle` is the
    /// cluster without jobs, and `is_placed` whether the placement strategy finds a place for a gang there.
    pub fn of(
        topology: &Topology,
        idle: &Vacancy,
        gang: &Gang,
        is_placed: impl FnMut(&Gang) -> bool,
    ) -> Option<Self> {
        Self::malformed(topology, gang)
            .or_else(|| Some(Self::TooMuch(idle.scarcity(topology, gang, is_placed)?)))
    }

    /// The first thing that is wrong with a request however much is free: it contradicts itself, or names what the cluster does not have.
    pub fn malformed(topology: &Topology, gang: &Gang) -> Option<Self> {
        gang.groups().find_map(|group| malformed(group).or_else(|| unknown(topology, group)))
    }

    /// Whether a slice profile is unknown.
    pub fn is_slice(&self) -> bool {
        matches!(self, Self::Unknown { what: "slice profile", .. })
    }

    /// The field of the request that is to blame.
    pub fn field(&self) -> &'static str {
        match self {
            Self::PartOfSeveral { .. } | Self::PartAboveWhole { .. } => "device_milli",
            Self::Indivisible { .. } => "tasks",
            Self::Unknown { what: "resource", .. } => "resources",
            Self::Unknown { what: "licence", .. } => "licences",
            Self::Unknown { .. } => "device_types",
            Self::TooMuch(scarcity) => match scarcity.what {
                Dimension::Devices => "devices",
                Dimension::DeviceParts => "device_milli",
                Dimension::Cpus => "cpus",
                Dimension::Memory => "memory",
                Dimension::Exclusive => "exclusive",
                Dimension::Resource(_) => "resources",
                Dimension::Licence(_) => "licences",
            },
        }
    }
}

/// What is wrong with a request whatever the cluster.
fn malformed(gang: &Gang) -> Option<Unmet> {
    let request = gang.request()?;
    let devices = gang.devices;
    if request.device_milli > 0 && (devices != 1 || request.devices != 1) {
        return Some(Unmet::PartOfSeveral { devices });
    }
    if request.device_milli > WHOLE_MILLI {
        return Some(Unmet::PartAboveWhole { milli: request.device_milli });
    }
    let is_divided = request.devices == 0 || devices.is_multiple_of(request.devices);
    (!is_divided).then_some(Unmet::Indivisible { devices, each: request.devices })
}

/// A name that the cluster does not know.
fn unknown(topology: &Topology, gang: &Gang) -> Option<Unmet> {
    let types = gang.device_types.iter().filter(|name| &***name != Gang::OTHERS);
    let has_type =
        gang.device_types.is_empty() || gang.device_types.iter().any(|name| &**name == Gang::OTHERS);
    if !has_type
        && types.clone().all(|name| topology.type_id(name).is_none())
        && let Some(name) = types.clone().next()
    {
        let what = if crate::request::is_slice(name) { "slice profile" } else { "device type" };
        let used = topology
            .nodes()
            .iter()
            .filter(|node| node.spec.devices > 0)
            .map(|node| node.spec.device_type.clone());
        return Some(Unmet::Unknown { what, name: name.clone(), known: sorted(used) });
    }
    let request = gang.request()?;
    let licences = topology.licences();
    if let Some((name, _)) =
        request.licences.iter().find(|(name, _)| licences.iter().all(|(known, _)| known != name))
    {
        let known = sorted(licences.iter().map(|(name, _)| name.clone()));
        return Some(Unmet::Unknown { what: "licence", name: name.clone(), known });
    }
    let details = || topology.nodes().iter().filter_map(|node| node.spec.details.as_deref());
    let resources = || details().flat_map(|details| details.resources.iter().map(|(name, _)| name));
    let mut asked = request.task.named.iter().chain(&request.node.named);
    let (name, _) = asked.find(|(name, _)| resources().all(|known| known != name))?;
    Some(Unmet::Unknown { what: "resource", name: name.clone(), known: sorted(resources().cloned()) })
}

fn sorted(names: impl Iterator<Item = Arc<str>>) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PartOfSeveral { devices } => {
                write!(f, "it asks for a part of {devices} devices: a part is of one device")
            }
            Self::PartAboveWhole { milli } => {
                write!(f, "it asks for {milli} thousandths of a device, at most {WHOLE_MILLI} are a part")
            }
            Self::Indivisible { devices, each } => {
                write!(f, "its {devices} devices cannot be divided among tasks with {each} devices each")
            }
            Self::Unknown { what, name, known } if known.is_empty() => {
                write!(f, "{what} `{name}` is unknown: the cluster has none")
            }
            Self::Unknown { what, name, known } => {
                write!(f, "{what} `{name}` is unknown: the cluster has {}", known.join(", "))
            }
            Self::TooMuch(scarcity) => write!(f, "it {scarcity}"),
        }
    }
}
