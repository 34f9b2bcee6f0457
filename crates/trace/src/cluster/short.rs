//! Short forms: `8x8`, `a100:4x8,v100:16x4`, `v100:36`.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_core::{ClusterSpec, DEVICES_PER_NODE_MAX, NodeSpec};

use super::{DEVICE_TYPE, DEVICES_MAX};
use crate::text::shown;

/// Nodes of one kind.
struct Group<'a> {
    device_type: &'a str,
    nodes: u32,
    devices: u32,
}

/// The cluster that a short form describes, or what is wrong, to be read after "as a short form".
pub(super) fn parse(text: &str) -> Result<ClusterSpec, String> {
    let groups = text.split(',').map(parse_group).collect::<Result<Vec<_>, _>>()?;
    let total: u64 = groups.iter().map(|group| u64::from(group.nodes) * u64::from(group.devices)).sum();
    if total > DEVICES_MAX.into() {
        return Err(format!("it has {total} devices, the limit is {DEVICES_MAX}"));
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

fn parse_group(text: &str) -> Result<Group<'_>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("it has an empty part".into());
    }
    let (device_type, size) = match text.split_once(':') {
        Some((device_type, size)) => (device_type.trim(), size.trim()),
        None => (DEVICE_TYPE, text),
    };
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if device_type.is_empty() || !device_type.chars().all(is_name) {
        return Err(format!("{} is no device type (letters, digits, `-`, `_`, `.`)", shown(device_type)));
    }
    let (nodes, devices) = match size.split_once(['x', 'X', '×']) {
        Some((nodes, devices)) => (nodes, devices),
        None if text.contains(':') => (size, "1"),
        None => return Err(format!("{} is not nodes x devices", shown(size))),
    };
    let nodes = parse_count(nodes, "nodes", DEVICES_MAX)?;
    let devices = parse_count(devices, "devices per node", DEVICES_PER_NODE_MAX)?;
    Ok(Group { device_type, nodes, devices })
}

fn parse_count(text: &str, what: &str, max: u32) -> Result<u32, String> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{} is not a number of {what}", shown(text)));
    }
    match text.parse::<u32>() {
        Ok(0) => Err(format!("it has 0 {what}")),
        Ok(count) if count <= max => Ok(count),
        _ => Err(format!("{} is more than the limit of {max} {what}", shown(text))),
    }
}
