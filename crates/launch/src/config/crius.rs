//! Crius' `cluster_spec.json` with the nodes' addresses: the first is the head.

use std::path::Path;

use wharf_document::decode::Problem;
use wharf_document::node::{Node as Tree, Value};

use super::nodes::{Node, Role, Ssh, address as check_address};
use super::ray::check_name;
use super::{Cluster, Machines, Provider, Runtime, START_TIMEOUT, WharfRuntime};

/// Where a head listens: the file's ports are those of Crius' own daemons.
const PORT: u16 = 7717;

/// Reads it; the cluster is called as the file is.
pub(super) fn cluster(path: &Path, document: &Tree) -> Result<Cluster, Problem> {
    let problem = |message: String| Problem::new(document, "", message);
    if !has_addresses(document) {
        return Err(problem("the nodes have no addresses: add `ip_addr` to each type".to_owned()));
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    check_name(&name).map_err(|error| problem(error.message()))?;
    let spec = wharf_trace::parse_cluster_file(path).map_err(|error| problem(error.to_string()))?;
    let mut nodes: Vec<Node> = Vec::new();
    for node in &spec.nodes {
        // Where the file has ports, they are behind the addresses, and of no use here.
        let address = node.name.rsplit_once(':').map_or(&*node.name, |(address, _)| address).to_owned();
        check_address(&address).map_err(|error| problem(error.message()))?;
        if nodes.iter().any(|other| other.address == address) {
            return Err(problem(format!("duplicate address `{address}`")));
        }
        nodes.push(Node {
            name: address.clone(),
            role: if nodes.is_empty() { Role::Head } else { Role::Worker },
            inner_address: address.clone(),
            address,
            ssh: Ssh::default(),
            devices: Some(format!("{}:{}", node.device_type, node.devices)),
            kind: String::new(),
            launch: String::new(),
            machine: None,
            initialization: vec![],
            setup: vec![],
            container: None,
        });
    }
    Ok(Cluster {
        name,
        provider: Provider::Local,
        machines: Machines::Given,
        min_workers: nodes.len() - 1,
        nodes,
        steps: vec![],
        steps_before: 0,
        mounts: vec![],
        synced: vec![],
        exclude: vec![],
        filter: vec![],
        runtime: Runtime::Wharf(WharfRuntime { program: None, port: PORT, policy: None }),
        start_timeout: START_TIMEOUT,
        warnings: vec![],
        blockers: vec![],
    })
}

/// Whether every type of the document names its nodes' addresses.
fn has_addresses(document: &Tree) -> bool {
    let field = |node: &Tree, name: &str| match &node.value {
        Value::Map(entries) => {
            entries.iter().find(|entry| entry.key == name).map(|entry| entry.value.clone())
        }
        _ => None,
    };
    let Value::List(parts) = &document.value else { return false };
    parts.iter().all(|part| {
        let Some(types) = field(part, "gpu_type") else { return false };
        let Value::Map(types) = types.value else { return false };
        types.iter().all(|entry| field(&entry.value, "ip_addr").is_some())
    })
}
