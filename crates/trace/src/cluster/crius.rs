//! The cluster file of the Crius simulator, `cluster_spec.json`, in both of its shapes: types with their numbers of nodes, for
//! simulations; and the same within `gpu_type`, with the nodes' addresses and ports.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use wharf_core::{ClusterSpec, DEVICES_PER_NODE_MAX, NodeSpec};

use super::{ClusterError, DEVICES_MAX};

/// Devices on a node: the file does not say.
const PER_NODE: [(&str, u32); 15] = [
    ("a100", 4),
    ("v100", 16),
    ("p100", 8),
    ("a40", 2),
    ("a10", 2),
    ("1080ti", 8),
    ("3090", 8),
    ("h100", 8),
    ("l20", 16),
    ("1080ti-r", 4),
    ("1080ti-2r", 2),
    ("p100-r", 4),
    ("a40-r", 2),
    ("3090-r", 4),
    ("a100-r", 1),
];

/// Nodes of one type.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    node_num: u32,
    /// Devices on each; an addition of Wharf's, for types that Crius does not know.
    gpu_num: Option<u32>,
    #[serde(default)]
    ip_addr: Vec<String>,
    #[serde(default)]
    port: Vec<u16>,
}

/// Groups in the order of the file, which is the order of the types.
struct Groups(Vec<(String, Group)>);

#[derive(Deserialize)]
#[serde(untagged)]
enum Document {
    Addressed { gpu_type: Groups },
    Plain(Groups),
}

impl<'de> Deserialize<'de> for Groups {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Groups;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("device types with their `node_num`")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Groups, M::Error> {
                let mut groups = Vec::new();
                while let Some(group) = map.next_entry()? {
                    groups.push(group);
                }
                Ok(Groups(groups))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Reads the text of a file.
pub(super) fn parse(text: &str, file: &str) -> Result<ClusterSpec, ClusterError> {
    let wrong = |problem: String| ClusterError::Document { file: file.to_owned(), problem };
    let documents: Vec<Document> = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let mut cluster = ClusterSpec::default();
    for document in documents {
        let (Document::Addressed { gpu_type: Groups(groups) } | Document::Plain(Groups(groups))) = document;
        for (device_type, group) in groups {
            add(&mut cluster, &device_type, &group)
                .map_err(|problem| wrong(format!("`{device_type}`: {problem}")))?;
        }
    }
    name(&mut cluster);
    if cluster.nodes.is_empty() { Err(wrong("it has no nodes".to_owned())) } else { Ok(cluster) }
}

/// Why the nodes of one type cannot be added.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum GroupError {
    #[error("the number of devices of a node is missing: add `gpu_num`")]
    NoDevices,
    #[error("`gpu_num` is {devices}, expected 1 to {DEVICES_PER_NODE_MAX}")]
    DevicesPerNode { devices: u32 },
    #[error("expected {nodes} addresses and ports, as many as `node_num`")]
    Addresses { nodes: usize },
    #[error("more than the limit of {DEVICES_MAX} devices")]
    TooManyDevices,
}

/// Adds the nodes of one type. Where there are addresses, these are their names.
fn add(cluster: &mut ClusterSpec, device_type: &str, group: &Group) -> Result<(), GroupError> {
    let known = PER_NODE.iter().find(|(name, _)| *name == device_type).map(|&(_, devices)| devices);
    let devices = group.gpu_num.or(known).ok_or(GroupError::NoDevices)?;
    if !(1..=DEVICES_PER_NODE_MAX).contains(&devices) {
        return Err(GroupError::DevicesPerNode { devices });
    }
    let nodes = group.node_num as usize;
    let has_others = |count: usize| count != 0 && count != nodes;
    if has_others(group.ip_addr.len()) || has_others(group.port.len()) {
        return Err(GroupError::Addresses { nodes });
    }
    let total: u64 = cluster.nodes.iter().map(|node| u64::from(node.devices)).sum();
    if total + u64::from(group.node_num) * u64::from(devices) > DEVICES_MAX.into() {
        return Err(GroupError::TooManyDevices);
    }
    let device_type: std::sync::Arc<str> = device_type.into();
    for index in 0..nodes {
        let address = match (group.ip_addr.get(index), group.port.get(index)) {
            (Some(address), Some(port)) => format!("{address}:{port}"),
            (Some(address), None) => address.clone(),
            (None, _) => String::new(),
        };
        cluster.nodes.push(NodeSpec {
            name: address.into(),
            device_type: device_type.clone(),
            devices,
            cpus: NodeSpec::CPUS_PER_DEVICE * devices,
            memory_gib: NodeSpec::MEMORY_GIB_PER_DEVICE * devices,
            switch: 0,
            pool: NodeSpec::no_pool(),
            details: None,
        });
    }
    Ok(())
}

/// Names nodes without an address as Crius does, by their numbers.
fn name(cluster: &mut ClusterSpec) {
    for (node, number) in cluster.nodes.iter_mut().zip(1..) {
        if node.name.is_empty() {
            node.name = format!("node_{number:02}").into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_are_read_in_their_order() {
        for (text, expected) in [
            (
                r#"[{"v100": {"node_num": 1}, "a40": {"node_num": 2}}]"#,
                "node_01 v100 16, node_02 a40 2, node_03 a40 2",
            ),
            (
                r#"[{"gpu_type": {"a40": {"node_num": 2, "ip_addr": ["10.0.0.1", "10.0.0.2"], "port": [4160, 4161]}}}]"#,
                "10.0.0.1:4160 a40 2, 10.0.0.2:4161 a40 2",
            ),
            (r#"[{"own": {"node_num": 1, "gpu_num": 3}}]"#, "node_01 own 3"),
        ] {
            let cluster = parse(text, "x.json").unwrap();
            let shown = cluster
                .nodes
                .iter()
                .map(|node| format!("{} {} {}", node.name, node.device_type, node.devices));
            assert_eq!(shown.collect::<Vec<_>>().join(", "), expected);
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("[]", "x.json: it has no nodes"),
            (
                r#"[{"own": {"node_num": 1}}]"#,
                "x.json: `own`: the number of devices of a node is missing: add `gpu_num`",
            ),
            (
                r#"[{"gpu_type": {"a40": {"node_num": 2, "ip_addr": ["10.0.0.1"]}}}]"#,
                "x.json: `a40`: expected 2 addresses and ports, as many as `node_num`",
            ),
            (
                r#"[{"a40": {"node_num": 4000000000}}]"#,
                "x.json: `a40`: more than the limit of 4000000 devices",
            ),
        ] {
            assert_eq!(parse(text, "x.json").unwrap_err().to_string(), expected);
        }
        assert!(parse("[{", "x.json").is_err());
    }
}
