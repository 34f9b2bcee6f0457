//! Set-up that many clusters need, ready-made: each step is a script that sees whether it is done already, does it otherwise, and states what to do
//! where it cannot. A step becomes one of the lines that set a node up, so that it is part of what set-up is known by.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::config::{Cluster, Mount, NodeConfig};
use crate::runner::{Log, RunError, Use};
use crate::shell::quote;
use crate::state::Folder;

const COMMON: &str = include_str!("common.sh");

/// A step, with what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nodes reach each other by ssh.
    NodeSsh,
    /// A file system that nodes share.
    Mount {
        /// What, as `HOST:/PATH`.
        source: String,
        /// Where.
        target: String,
        /// Options of mount.
        options: String,
        /// Its mode, where it is to be changed.
        mode: Option<String>,
        /// Where the server listens.
        port: u16,
    },
    /// The version of CUDA that `PREFIX/cuda` is.
    Cuda {
        /// Which.
        version: String,
        /// Where versions are.
        prefix: String,
    },
    /// NCCL from an archive.
    Nccl {
        /// Which, on the node.
        archive: String,
        /// Where to.
        prefix: String,
    },
    /// NVIDIA's Apex with its extensions.
    Apex {
        /// Where from.
        repository: String,
        /// Which revision.
        revision: Option<String>,
        /// Where it is built.
        folder: String,
        /// For which Python.
        python: String,
    },
    /// The interface for communication between nodes.
    Network {
        /// Which, where it is not to be searched for.
        interface: Option<String>,
    },
}

impl Step {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::NodeSsh => "node_ssh",
            Self::Mount { .. } => "mount",
            Self::Cuda { .. } => "cuda",
            Self::Nccl { .. } => "nccl",
            Self::Apex { .. } => "apex",
            Self::Network { .. } => "network",
        }
    }

    /// The step as a line of shell for a node.
    #[must_use]
    pub fn script(&self, cluster: &Cluster, node: &NodeConfig) -> String {
        let body = match self {
            Self::NodeSsh => include_str!("node_ssh.sh"),
            Self::Mount { .. } => include_str!("mount.sh"),
            Self::Cuda { .. } => include_str!("cuda.sh"),
            Self::Nccl { .. } => include_str!("nccl.sh"),
            Self::Apex { .. } => include_str!("apex.sh"),
            Self::Network { .. } => include_str!("network.sh"),
        };
        self.line(cluster, node, body)
    }

    fn line(&self, cluster: &Cluster, node: &NodeConfig, body: &str) -> String {
        let variables: String = self
            .variables(cluster, node)
            .into_iter()
            .map(|(name, value)| format!("{name}={}\n", quote(&value)))
            .collect();
        // A shell of its own: it may end, and what it sets is gone.
        format!(": step {}\nsh -c {}", self.name(), quote(&format!("{COMMON}{variables}{body}")))
    }

    fn variables(&self, cluster: &Cluster, node: &NodeConfig) -> Vec<(&'static str, String)> {
        let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
        match self {
            Self::NodeSsh => {
                let mut hosts: Vec<&str> = Vec::new();
                for node in &cluster.nodes {
                    let names = [node.inner_address.as_str(), node.address.as_str(), node.name.as_str()];
                    hosts.extend(names.iter().filter(|name| !name.is_empty()));
                }
                hosts.sort_unstable();
                hosts.dedup();
                vec![("CLUSTER", cluster.name.clone()), ("NODES", hosts.join(" "))]
            }
            Self::Mount { source, target, options, mode, port } => vec![
                ("SOURCE", source.clone()),
                ("TARGET", target.clone()),
                ("OPTIONS", options.clone()),
                ("MODE", or_empty(mode)),
                ("PORT", port.to_string()),
            ],
            Self::Cuda { version, prefix } => {
                vec![("VERSION", version.clone()), ("PREFIX", prefix.clone())]
            }
            Self::Nccl { archive, prefix } => {
                vec![("ARCHIVE", archive.clone()), ("PREFIX", prefix.clone())]
            }
            Self::Apex { repository, revision, folder, python } => vec![
                ("REPOSITORY", repository.clone()),
                ("REVISION", or_empty(revision)),
                ("FOLDER", folder.clone()),
                ("PYTHON", python.clone()),
            ],
            Self::Network { interface } => vec![
                ("INTERFACE", or_empty(interface)),
                ("ADDRESS", node.inner_address.clone()),
                ("HEAD", cluster.nodes[0].inner_address.clone()),
            ],
        }
    }
}

/// All lines that set a node up, in their order: steps, the file's own commands, and the steps that come after those.
#[must_use]
pub fn setup_lines(cluster: &Cluster, node: &NodeConfig) -> Vec<String> {
    let (before, after) = cluster.steps.split_at(cluster.steps_before.min(cluster.steps.len()));
    let scripts =
        |steps: &[Step]| -> Vec<String> { steps.iter().map(|step| step.script(cluster, node)).collect() };
    [scripts(before), node.setup.clone(), scripts(after)].concat()
}

/// What takes away what steps have put on a node for the time that the cluster is up; what they have installed stays. It is the same whatever the file
/// says: another one may have brought the cluster up, and where there is nothing of ours nothing is done.
#[must_use]
pub fn undo(cluster: &Cluster, node: &NodeConfig) -> String {
    Step::NodeSsh.line(cluster, node, include_str!("node_ssh_undo.sh"))
}

/// The files that steps need on every node, where they are there already.
pub(crate) fn mounts(cluster: &Cluster, folder: &Folder) -> Vec<Mount> {
    let key = key(folder);
    if !cluster.steps.contains(&Step::NodeSsh) || !key.exists() {
        return vec![];
    }
    let remote = format!("~/.ssh/wharf_{}", cluster.name);
    let public = Mount { remote: format!("{remote}.pub"), local: key.with_extension("pub") };
    vec![Mount { remote, local: key }, public]
}

fn key(folder: &Folder) -> PathBuf {
    folder.path().join("node-key")
}

/// Makes the files that steps need: the key with which nodes reach each other is the cluster's own, and goes with it.
pub(crate) async fn prepare(cluster: &Cluster, folder: &Folder) -> Result<(), RunError> {
    let key = key(folder);
    if !cluster.steps.contains(&Step::NodeSsh) || key.exists() {
        return Ok(());
    }
    let comment = format!("wharf-{}", cluster.name);
    let words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", &comment, "-f"];
    let argv: Vec<OsString> = words.map(OsString::from).into_iter().chain([key.into()]).collect();
    let log = Log::new(folder.provider_log());
    let ended = log.run(&argv, Use::default()).await?;
    if ended.code == 0 {
        return Ok(());
    }
    let source = std::io::Error::other(ended.said.trim().to_owned());
    Err(RunError::Start { program: "ssh-keygen".to_owned(), source })
}
