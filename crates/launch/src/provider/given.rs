//! Machines that are there, whether a cluster uses them or not; and this machine, on which each node has a home.

use std::io;
use std::path::PathBuf;

use super::{Channel, Doing, Here, Machine, Made, Provider, ProviderError, Ssh, Waits};
use crate::config::{Cluster, NodeConfig};
use crate::state::Folder;

/// Machines that are there.
pub struct Given {
    nodes: Vec<NodeConfig>,
    channel: Box<dyn Channel>,
    /// Where nodes' homes are, where they are this machine's.
    homes: Option<PathBuf>,
}

impl Given {
    /// Those of a cluster's file.
    #[must_use]
    pub fn remote(cluster: &Cluster, folder: &Folder) -> Self {
        Self { nodes: cluster.nodes.clone(), channel: Box::new(Ssh::new(folder)), homes: None }
    }

    /// Homes of a cluster's nodes on this machine.
    #[must_use]
    pub fn here(cluster: &Cluster, folder: &Folder) -> Self {
        let channel = Box::new(Here::new(folder));
        Self { nodes: cluster.nodes.clone(), channel, homes: Some(folder.homes()) }
    }

    fn remove_home(&self, machine: &Machine) -> Result<(), ProviderError> {
        let Some(home) = self.homes.as_ref().map(|homes| homes.join(&machine.name)) else { return Ok(()) };
        match std::fs::remove_dir_all(&home) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ProviderError::Cannot(format!("cannot remove `{}`: {error}", home.display())))
            }
            _ => Ok(()),
        }
    }
}

impl Provider for Given {
    fn list(&self) -> Doing<'_, Vec<Machine>> {
        Box::pin(async move { Ok(self.nodes.iter().map(Machine::of).collect()) })
    }

    fn create<'a>(&'a self, nodes: &'a [NodeConfig], _waits: &'a Waits) -> Doing<'a, Made> {
        Box::pin(
            async move { Ok(nodes.iter().map(|node| (node.name.clone(), Ok(Machine::of(node)))).collect()) },
        )
    }

    fn terminate<'a>(&'a self, machines: &'a [Machine]) -> Doing<'a, ()> {
        Box::pin(async move { machines.iter().try_for_each(|machine| self.remove_home(machine)) })
    }

    fn channel(&self, _node: &NodeConfig) -> &dyn Channel {
        &*self.channel
    }

    fn makes_machines(&self) -> bool {
        false
    }
}
