//! Node designs: devices, how many, and what a node sends to others.

/// A node design.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its devices.
    pub device_type: &'static str,
    /// How many.
    pub per_node: u32,
    /// What all its adapters send to other nodes, in 10⁹ bytes a second, one direction.
    pub network_gb_per_s: f64,
}

const fn node(name: &'static str, device_type: &'static str, per_node: u32, network_gb_per_s: f64) -> Node {
    Node { name, device_type, per_node, network_gb_per_s }
}

/// Sources: the makers' and providers' descriptions of the machines. Adapters are counted with 1/8 byte a bit.
const NODES: &[Node] = &[
    node("dgx-1", "v100-32gb", 8, 50.0),
    node("dgx-2", "v100-32gb", 16, 100.0),
    node("dgx-a100", "a100-80gb", 8, 200.0),
    node("dgx-a100-40gb", "a100", 8, 200.0),
    node("hgx-a100-4hdr", "a100-80gb", 8, 100.0),
    node("dgx-h100", "h100", 8, 400.0),
    node("dgx-h200", "h200", 8, 400.0),
    node("dgx-b200", "b200", 8, 400.0),
    node("gb200-nvl72", "gb200", 72, 3600.0),
    node("gh200", "gh200", 1, 50.0),
    node("gh200-4", "gh200", 4, 100.0),
    node("hgx-mi300x", "mi300x", 8, 400.0),
    node("frontier", "mi250x", 8, 100.0),
    node("p3.16xlarge", "v100", 8, 3.125),
    node("p3dn.24xlarge", "v100-32gb", 8, 12.5),
    node("p4d.24xlarge", "a100", 8, 50.0),
    node("p4de.24xlarge", "a100-80gb", 8, 50.0),
    node("p5.48xlarge", "h100", 8, 400.0),
    node("p5en.48xlarge", "h200", 8, 400.0),
    node("p6-b200.48xlarge", "b200", 8, 400.0),
    node("g5.48xlarge", "a10", 8, 12.5),
    node("g6.48xlarge", "l4", 8, 12.5),
    node("g6e.48xlarge", "l40s", 8, 50.0),
    node("a2-highgpu-8g", "a100", 8, 12.5),
    node("a2-ultragpu-8g", "a100-80gb", 8, 12.5),
    node("a3-highgpu-8g", "h100", 8, 100.0),
    node("a3-megagpu-8g", "h100", 8, 200.0),
    node("a3-ultragpu-8g", "h200", 8, 400.0),
    node("nd40rs-v2", "v100-32gb", 8, 12.5),
    node("nd96asr-v4", "a100", 8, 200.0),
    node("nd96amsr-a100-v4", "a100-80gb", 8, 200.0),
    node("nd96isr-h100-v5", "h100", 8, 400.0),
    node("nd96isr-h200-v5", "h200", 8, 400.0),
    node("bm.gpu.h100.8", "h100", 8, 400.0),
];

/// All of them.
#[must_use]
pub fn nodes() -> &'static [Node] {
    NODES
}

/// The design of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Node> {
    NODES.iter().find(|node| node.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices;

    #[test]
    fn nodes_have_devices_that_are_known_and_names_of_their_own() {
        for (index, node) in NODES.iter().enumerate() {
            assert!(devices::find(node.device_type).is_some(), "{}", node.name);
            assert!(NODES[..index].iter().all(|other| other.name != node.name), "{}", node.name);
        }
    }
}
