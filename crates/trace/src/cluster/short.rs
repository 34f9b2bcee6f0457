//! Short forms: `8x8`, `a100:4x8,v100:16x4`, `v100:36`.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_core::{ClusterSpec, DEVICES_PER_NODE_MAX, NodeSpec};

use super::{DEVICE_TYPE, DEVICES_MAX, mixed};
use crate::text::shown;

/// Why a text is no short form of a cluster; to be read after "as a short form".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShortFormError {
    /// More devices than are supported.
    #[error("it has {total} devices, the limit is {DEVICES_MAX}")]
    TooManyDevices {
        /// Number of devices.
        total: u64,
    },
    /// A part is empty.
    #[error("it has an empty part")]
    Empty,
    /// A name has other characters than it can have.
    #[error("{} is no {what} (letters, digits, `-`, `_`, `.`)", shown(text))]
    Name {
        /// The text.
        text: String,
        /// The kind of thing that has the name.
        what: &'static str,
    },
    /// A part has no `x`.
    #[error("{} is not nodes x devices", shown(text))]
    Size {
        /// The text.
        text: String,
    },
    /// A count is no number.
    #[error("{} is no number of {what}", shown(text))]
    NoNumber {
        /// The text.
        text: String,
        /// Nodes, or devices per node.
        what: &'static str,
    },
    /// A count is 0.
    #[error("it has 0 {what}")]
    Zero {
        /// Nodes, or devices per node.
        what: &'static str,
    },
    /// More nodes than are supported.
    #[error("it has {total} nodes, at most {DEVICES_MAX} are handled")]
    TooManyNodes {
        /// Number of nodes.
        total: u64,
    },
    /// Only licences.
    #[error("it has no nodes")]
    NoNodes,
    /// A node has more devices than are supported.
    #[error("a node has {devices} devices, at most {DEVICES_PER_NODE_MAX} are handled")]
    NodeDevices {
        /// Number of devices.
        devices: u64,
    },
    /// A node has two device groups of one type.
    #[error("a node has device type {} twice", shown(device_type))]
    RepeatedType {
        /// The type.
        device_type: String,
    },
    /// A parenthesis or bracket is not closed.
    #[error("{} has no closing {what}", shown(text))]
    Unclosed {
        /// The text.
        text: String,
        /// Parenthesis or bracket.
        what: &'static str,
    },
    /// A property of a node has no value.
    #[error("{} is no NAME=VALUE", shown(text))]
    NoValue {
        /// The text.
        text: String,
    },
    /// Memory is larger than is supported.
    #[error("{} is more memory than is handled", shown(text))]
    Memory {
        /// The text.
        text: String,
    },
    /// A part of a divided device is no slice.
    #[error("{} is no slice profile, such as 1g.10gb", shown(text))]
    SliceProfile {
        /// The text.
        text: String,
    },
    /// Slices of a device have more compute parts than the device.
    #[error("the slices of {} take {taken} of its {parts} parts", shown(device_type))]
    SliceParts {
        /// The device.
        device_type: String,
        /// Sum of the slices.
        taken: u64,
        /// Parts of the device.
        parts: u64,
    },
    /// Slices of a device have more memory than the device.
    #[error("the slices of {} take {taken} GB of its {memory} GB", shown(device_type))]
    SliceMemory {
        /// The device.
        device_type: String,
        /// Sum of the slices.
        taken: u64,
        /// Memory of the device.
        memory: u64,
    },
    /// A count is larger than is supported.
    #[error("{} is more than the limit of {max} {what}", shown(text))]
    TooMany {
        /// The text.
        text: String,
        /// Nodes, or devices per node.
        what: &'static str,
        /// The largest count.
        max: u32,
    },
}

/// Nodes of one kind.
struct Group<'a> {
    device_type: &'a str,
    nodes: u32,
    devices: u32,
}

/// The cluster that a short form describes, or what is wrong, to be read after "as a short form".
pub(super) fn parse(text: &str) -> Result<ClusterSpec, ShortFormError> {
    if text.contains(['+', '=', '[']) {
        return mixed::parse(text);
    }
    let groups = text.split(',').map(parse_group).collect::<Result<Vec<_>, _>>()?;
    let total: u64 = groups.iter().map(|group| u64::from(group.nodes) * u64::from(group.devices)).sum();
    if total > DEVICES_MAX.into() {
        return Err(ShortFormError::TooManyDevices { total });
    }
    let mut cluster = ClusterSpec::default();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for group in &groups {
        let device_type: Arc<str> = group.device_type.into();
        let count = counts.entry(group.device_type).or_default();
        for index in *count..*count + group.nodes {
            cluster.nodes.push(NodeSpec {
                name: format!("{device_type}-{index}").into(),
                device_type: device_type.clone(),
                devices: group.devices,
                cpus: NodeSpec::CPUS_PER_DEVICE * group.devices,
                memory_gib: NodeSpec::MEMORY_GIB_PER_DEVICE * group.devices,
                switch: 0,
                pool: NodeSpec::no_pool(),
                details: None,
            });
        }
        *count += group.nodes;
    }
    Ok(cluster)
}

fn parse_group(text: &str) -> Result<Group<'_>, ShortFormError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ShortFormError::Empty);
    }
    let (device_type, size) = match text.split_once(':') {
        Some((device_type, size)) => (device_type.trim(), size.trim()),
        None => (DEVICE_TYPE, text),
    };
    check_name(device_type, "device type")?;
    let (nodes, devices) = match size.split_once(['x', 'X', '×']) {
        Some((nodes, devices)) => (nodes, devices),
        None if text.contains(':') => (size, "1"),
        None => return Err(ShortFormError::Size { text: size.to_owned() }),
    };
    let nodes = parse_count(nodes, "nodes", DEVICES_MAX)?;
    let devices = parse_count(devices, "devices per node", DEVICES_PER_NODE_MAX)?;
    Ok(Group { device_type, nodes, devices })
}

/// Checks the name of a device type or resource.
pub(super) fn check_name(name: &str, what: &'static str) -> Result<(), ShortFormError> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(ShortFormError::Name { text: name.to_owned(), what });
    }
    Ok(())
}

pub(super) fn parse_count(text: &str, what: &'static str, max: u32) -> Result<u32, ShortFormError> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ShortFormError::NoNumber { text: text.to_owned(), what });
    }
    match text.parse::<u32>() {
        Ok(0) => Err(ShortFormError::Zero { what }),
        Ok(count) if count <= max => Ok(count),
        _ => Err(ShortFormError::TooMany { text: text.to_owned(), what, max }),
    }
}
