//! What nodes are: a provider turns what is done on a node into programs of this machine.
//!
//! It says how, and does nothing by itself: `runner` runs what it says, with logs and limits that are the same for all.

mod process;
mod ssh;

use std::ffi::OsString;
use std::io;
use std::path::Path;

pub use process::Process;
pub use ssh::Ssh;

use crate::config::{self, Cluster, NodeConfig};
use crate::state::Folder;

/// Times of files are compared to the nanosecond: by default a file that changed within the second that it was copied in, and kept
/// its length, would not be copied again.
const EXACT_TIMES: &str = "--modify-window=-1";

/// A program and its arguments.
pub type Argv = Vec<OsString>;

/// Who reads a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// A plain `sh`, for the launcher's own scripts.
    Plain,
    /// A login shell with the user's settings, for the user's lines and what is started for good.
    Login,
}

/// Why a node was not reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreached {
    /// It will not be otherwise when tried again.
    Final(String),
    /// It may boot, or be cut off for a moment.
    Passing(String),
}

/// What is not copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left<'a> {
    /// Patterns.
    pub exclude: &'a [String],
    /// Names of files with more of them.
    pub filter: &'a [String],
}

impl Left<'_> {
    /// As rsync's arguments.
    pub(crate) fn args(&self) -> impl Iterator<Item = OsString> {
        let excludes = self.exclude.iter().flat_map(|pattern| ["--exclude".to_owned(), pattern.clone()]);
        let filters =
            self.filter.iter().flat_map(|name| ["--filter".to_owned(), format!("dir-merge,- {name}")]);
        excludes.chain(filters).map(OsString::from)
    }
}

/// Nodes of one kind.
pub trait Provider: Send + Sync {
    /// Makes what there is not yet of a node.
    ///
    /// # Errors
    /// Where it cannot be made.
    fn create(&self, node: &NodeConfig) -> io::Result<()>;

    /// Removes what `create` has made.
    ///
    /// # Errors
    /// Where it cannot be removed.
    fn remove(&self, node: &NodeConfig) -> io::Result<()>;

    /// Runs a script on a node, with variables.
    fn run(&self, node: &NodeConfig, shell: Shell, env: &[(&str, &str)], script: &str) -> Argv;

    /// Runs a script on a node for the person at the terminal; ports of the node are those of this machine meanwhile.
    fn attach(&self, node: &NodeConfig, script: &str, ports: &[u16]) -> Argv;

    /// Copies a file, or what is in a folder, to a node, where its folder is there already.
    fn upload(&self, node: &NodeConfig, from: &Path, to: &str, left: &Left<'_>) -> Argv;

    /// Copies a file or a folder from a node.
    fn download(&self, node: &NodeConfig, from: &str, to: &Path, left: &Left<'_>) -> Argv;

    /// Why a node was not reached, from how the attempt ended; `None` where it was.
    fn unreached(&self, code: i32, stderr: &str) -> Option<Unreached>;

    /// Whether nodes have this machine's programs.
    fn is_here(&self) -> bool;

    /// Ends what is kept open to a node, if anything.
    fn hang_up(&self, node: &NodeConfig) -> Option<Argv>;
}

/// The provider of a cluster; `None` where this launcher has none for it.
#[must_use]
pub fn of(cluster: &Cluster, folder: &Folder) -> Option<Box<dyn Provider>> {
    match cluster.provider {
        config::Provider::Local => Some(Box::new(Ssh::new(folder))),
        config::Provider::Process => Some(Box::new(Process::new(folder))),
        config::Provider::Aws => None,
    }
}

/// A folder's contents are copied, not the folder.
fn contents(path: &Path) -> OsString {
    let mut path = path.as_os_str().to_owned();
    if Path::new(&path).is_dir() {
        path.push("/");
    }
    path
}
