//! Short forms: `8x8`, `a100:4x8,v100:16x4`, `v100:36`.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_core::{ClusterSpec, DEVICES_PER_NODE_MAX, NodeSpec};

use super::{DEVICE_TYPE, DEVICES_MAX};
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
    /// A device type has other characters than it can have.
    #[error("{} is no device type (letters, digits, `-`, `_`, `.`)", shown(text))]
    DeviceType {
        /// The text.
        text: String,
    },
    /// A part has no `x`.
    #[error("{} is not nodes x devices", shown(text))]
    Size {
        /// The text.
        text: String,
    },
    /// A count is no number.
    #[error("{} is not a number of {what}", shown(text))]
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
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if device_type.is_empty() || !device_type.chars().all(is_name) {
        return Err(ShortFormError::DeviceType { text: device_type.to_owned() });
    }
    let (nodes, devices) = match size.split_once(['x', 'X', '×']) {
        Some((nodes, devices)) => (nodes, devices),
        None if text.contains(':') => (size, "1"),
        None => return Err(ShortFormError::Size { text: size.to_owned() }),
    };
    let nodes = parse_count(nodes, "nodes", DEVICES_MAX)?;
    let devices = parse_count(devices, "devices per node", DEVICES_PER_NODE_MAX)?;
    Ok(Group { device_type, nodes, devices })
}

fn parse_count(text: &str, what: &'static str, max: u32) -> Result<u32, ShortFormError> {
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
