//! Nodes whose disks are full get no jobs until there is space again.

use wharf_core::{Command, NodeId};
use wharf_proto::{Disk, Heartbeat, NodeFault};

use crate::dispatcher::Dispatcher;
use crate::journal::record::Record;

/// How the reason begins for which a node with a full disk is cordoned; one that an admin has given is left alone.
const FULL: &str = "disk full: ";

/// A node is opened again when so many times its reserve is available, so that it is not closed by the next task.
const OPEN_AT: u64 = 2;

/// Bytes of a path that are kept.
const PATH_BYTES_MAX: usize = 1000;

impl Dispatcher {
    /// Takes a node out that reports a fault of its own.
    pub(crate) fn on_node_fault(&mut self, node: NodeId, fault: NodeFault) {
        match fault {
            NodeFault::NoNodeFault => {}
            NodeFault::DiskFull => self.close_full(node),
        }
    }

    /// Stores a worker's disk report, cordons the node where its disk is full, and resumes it where there is space again.
    pub(crate) fn on_heartbeat(&mut self, node: NodeId, heartbeat: Heartbeat) {
        let Some(mut disk) = heartbeat.disk else { return };
        disk.path.truncate(disk.path.floor_char_boundary(PATH_BYTES_MAX));
        let Disk { available_bytes, reserve_bytes, .. } = disk;
        self.nodes.facts.entry(node).or_default().disk = Some(disk);
        let is_closed =
            self.log.state.node_reasons.get(&node.0).is_some_and(|reason| reason.starts_with(FULL));
        if available_bytes < reserve_bytes {
            self.close_full(node);
        } else if is_closed && available_bytes >= reserve_bytes.saturating_mul(OPEN_AT) {
            self.note(Record::NodeNoted { node: node.0, reason: String::new() });
            self.engine_command(Command::OpenNode(node));
            let name = self.engine.state().topology().node(node).spec.name.to_string();
            self.alert(&format!("node {name} has space on its disk again and gets jobs"));
        }
    }

    fn close_full(&mut self, node: NodeId) {
        if self.engine.state().schedule().is_cordoned(node) {
            return;
        }
        let path = self.nodes.facts(node).and_then(|facts| facts.disk.as_ref()).map(|disk| disk.path.clone());
        let place = path.unwrap_or_else(|| "its worker's state directory".to_owned());
        let reason =
            format!("{FULL}no space on the file system of {place}; the node gets jobs again when there is");
        let name = self.engine.state().topology().node(node).spec.name.to_string();
        self.engine_command(Command::CordonNode(node));
        self.alert(&format!("node {name} is cordoned: {reason}"));
        self.note(Record::NodeNoted { node: node.0, reason });
    }
}
