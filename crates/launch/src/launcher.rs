//! A cluster and everything it takes to change it.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{Cluster, NodeConfig, Provider, WharfRuntime};
use crate::phase::Phase;
use crate::provider;
use crate::shell::quote_path;
use crate::state::{Folder, Record, StateError};
use crate::steps;

/// What is told while nodes change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A phase begins, for this reason.
    Begins(Phase, &'static str),
    /// Its machine is made.
    Makes,
    /// It does not answer yet.
    Waits(String),
    /// It is stopped.
    Stops,
}

/// What is known of a cluster cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KnownError {
    /// A record cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The file says something else.
    #[error("the cluster was created with the provider `{was}`, but the file now has `{is}`")]
    Provider {
        /// Of the nodes that are known.
        was: Provider,
        /// Of the file.
        is: Provider,
    },
    /// The provider does not state which machines there are.
    #[error("cannot list the provider's machines")]
    Machines(#[from] provider::ProviderError),
}

/// Who is told.
pub type Tell = Arc<dyn Fn(&str, Told) + Send + Sync>;

/// A cluster and everything it takes to change it.
#[derive(Clone)]
pub struct Launcher {
    /// What the file says.
    pub cluster: Cluster,
    /// What is known of it.
    pub folder: Folder,
    /// How things are done on its nodes.
    pub provider: Arc<dyn provider::Provider>,
    /// This program: what nodes run unless the file names another.
    pub program: PathBuf,
    /// Who is told.
    pub tell: Tell,
}

impl Launcher {
    /// Of a cluster. Nodes that have machines are found at what is known of those.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn new(
        mut cluster: Cluster,
        folder: Folder,
        program: PathBuf,
        tell: Tell,
    ) -> Result<Self, StateError> {
        let provider = provider::of(&cluster, &folder);
        if provider.makes_machines() {
            let records = folder.load()?;
            for node in &mut cluster.nodes {
                let machine = records.get(&node.name).and_then(|record| record.node.machine.as_ref());
                if let Some(machine) = machine {
                    machine.become_node(node);
                }
            }
        }
        cluster.mounts.extend(steps::mounts(&cluster, &folder));
        Ok(Self { cluster, folder, provider, program, tell })
    }

    /// What is known of every node.
    ///
    /// # Errors
    /// A record cannot be read, or is of another provider: its nodes are to be found in the file that it was made from only.
    pub fn records(&self) -> Result<BTreeMap<String, Record>, KnownError> {
        let records = self.folder.load()?;
        let is_other = |record: &&Record| record.provider != self.cluster.provider;
        match records.values().find(is_other) {
            None => Ok(records),
            Some(other) => Err(KnownError::Provider { was: other.provider, is: self.cluster.provider }),
        }
    }

    /// The node with the head. Every cluster that was read has one.
    pub(crate) fn head(&self) -> &NodeConfig {
        &self.cluster.nodes[0]
    }

    /// How things are done on a node.
    pub(crate) fn channel(&self, node: &NodeConfig) -> &dyn provider::Channel {
        self.provider.channel(node)
    }

    /// The folder of a node below its `~/.wharf`.
    pub(crate) fn place(&self, node: &NodeConfig) -> String {
        self.provider.place(&self.cluster.name, node)
    }

    /// Whether this program has to be copied to a node.
    pub(crate) fn copies_program(&self, wharf: &WharfRuntime, node: &NodeConfig) -> bool {
        wharf.program.is_none() && !self.has_programs(node)
    }

    /// Whether what is done on a node finds this machine's programs.
    fn has_programs(&self, node: &NodeConfig) -> bool {
        self.channel(node).is_here() && node.container.is_none()
    }

    /// Where a node has it when it was copied.
    pub(crate) fn copied_program(&self, node: &NodeConfig) -> String {
        format!("~/.wharf/{}/wharf", self.place(node))
    }

    /// The program's path on a node.
    pub(crate) fn program_on(&self, wharf: &WharfRuntime, node: &NodeConfig) -> String {
        match &wharf.program {
            Some(program) => program.clone(),
            None if self.has_programs(node) => self.program.to_string_lossy().into_owned(),
            None => self.copied_program(node),
        }
    }

    /// The same as a word of shell.
    pub(crate) fn program_word(&self, wharf: &WharfRuntime, node: &NodeConfig) -> String {
        // A container has it at the machine's path, not below its own home.
        if self.copies_program(wharf, node) {
            "\"$D\"/wharf".to_owned()
        } else {
            quote_path(&self.program_on(wharf, node))
        }
    }

    /// Leaves what clients of the head need in the cluster's folder, for its owner only.
    pub(crate) fn write_client(&self, address: &str, token: &str) -> Result<(), StateError> {
        let folder = self.folder.client();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|source| StateError { path: folder.clone(), source })?;
        for (name, text) in [("address", address), ("token", token)] {
            let path = folder.join(name);
            let mut options = std::fs::OpenOptions::new();
            let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
            let written = file.and_then(|mut file| writeln!(file, "{text}"));
            written.map_err(|source| StateError { path, source })?;
        }
        Ok(())
    }
}
