//! Before anything is done on nodes: each gets a machine. Those that are there are found again, and the others are made.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{Cluster, NodeConfig};
use crate::down::{self, Extent};
use crate::launcher::{Launcher, Told};
use crate::provider::{Machine, ProviderError};
use crate::state::Record;
use crate::steps;
use crate::up::UpError;

/// A cluster whose nodes are where their machines are.
pub(crate) struct Provided {
    pub(crate) launcher: Arc<Launcher>,
    /// Nodes that have no machine, and why.
    pub(crate) failed: BTreeMap<String, ProviderError>,
}

/// Nodes whose machines are made from something else than the file says now: they have to be made again.
#[must_use]
pub fn replaced<'a>(cluster: &Cluster, records: &'a BTreeMap<String, Record>) -> Vec<&'a Record> {
    let is_other = |node: &NodeConfig, record: &Record| {
        record.node.machine.as_ref().is_some_and(|machine| machine.launch != node.launch)
    };
    let of = |node: &NodeConfig| records.get(&node.name).filter(|record| is_other(node, record));
    cluster.nodes.iter().filter_map(of).collect()
}

/// Sees to it that every node has a machine.
pub(crate) async fn provide(launcher: &Arc<Launcher>, parallel: usize) -> Result<Provided, UpError> {
    let has_files = !steps::mounts(&launcher.cluster, &launcher.folder).is_empty();
    steps::prepare(&launcher.cluster, &launcher.folder).await?;
    let mut provided = Launcher::clone(launcher);
    if !has_files {
        provided.cluster.mounts.extend(steps::mounts(&launcher.cluster, &launcher.folder));
    }
    let mut failed = BTreeMap::new();
    if !launcher.provider.makes_machines() {
        return Ok(Provided { launcher: Arc::new(provided), failed });
    }
    let records = launcher.records()?;
    let old: Vec<Record> = replaced(&launcher.cluster, &records).into_iter().cloned().collect();
    for outcome in down::stop_all(launcher, old, parallel, Extent::Nodes).await {
        if let Err(error) = outcome.result {
            failed.insert(outcome.node, ProviderError::Cannot(error.told()));
        }
    }
    launcher.provider.admit().await?;
    let there = launcher.provider.list().await?;
    let mut machines: BTreeMap<String, Machine> = BTreeMap::new();
    let mut missing: Vec<NodeConfig> = Vec::new();
    for node in &launcher.cluster.nodes {
        if failed.contains_key(&node.name) {
            continue;
        }
        match there.iter().find(|machine| machine.name == node.name) {
            Some(machine) if machine.launch != node.launch => {
                // It is unknown here, so its removal was not confirmed.
                failed.insert(node.name.clone(), ProviderError::Other(machine.id.clone()));
            }
            Some(machine) if machine.is_ready() => {
                machines.insert(node.name.clone(), machine.clone());
            }
            _ => {
                (launcher.tell)(&node.name, Told::Makes);
                missing.push(node.clone());
            }
        }
    }
    if !missing.is_empty() {
        let tell = launcher.tell.clone();
        let waits = move |name: &str, why: String| tell(name, Told::Waits(why));
        for (name, made) in launcher.provider.create(&missing, &waits).await? {
            match made {
                Ok(machine) => drop(machines.insert(name, machine)),
                Err(error) => drop(failed.insert(name, error)),
            }
        }
    }
    for node in &mut provided.cluster.nodes {
        if let Some(machine) = machines.get(&node.name) {
            machine.become_node(node);
        }
    }
    Ok(Provided { launcher: Arc::new(provided), failed })
}
