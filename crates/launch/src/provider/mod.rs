//! What nodes are: a provider makes the machines of a cluster, finds them again, and gives them back; a channel turns what is done on
//! one into programs of this machine.
//!
//! A channel states how, and does nothing by itself: `runner` runs what it says, with logs and limits that are the same for all.

pub(crate) mod aws;
mod enter;
mod exec;
mod given;
mod here;
mod program;
mod slurm;
mod ssh;
mod waiting;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use aws::Aws;
pub use enter::Enter;
pub use exec::Exec;
pub use given::Given;
pub use here::Here;
pub use slurm::Slurm;
pub use ssh::Ssh;

use crate::config::{self, Cluster, Machines, NodeConfig};
use crate::runner::RunError;
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
    /// A login shell with the user's settings (`~/.bashrc` included), for the user's lines and what is started for good.
    Login,
}

/// Reads the settings of interactive shells, which a login shell does not read by itself. Ray's launcher does the same, and files rely on it:
/// one setup command writes `~/.bashrc`, the next one finds what it has set. Aliases such as `rm -i` are for people at a terminal.
pub(crate) const SETTINGS: &str = "[ ! -f ~/.bashrc ] || . ~/.bashrc; unalias -a";

/// Becomes a login shell that reads a script, with the arguments that follow it. Many settings of users end at once where the shell is not
/// interactive; without a terminal such a shell complains that it has no job control, which is left out of what it says while it starts. What it
/// starts itself must not inherit the way to the filter: the connection would stay open.
pub(crate) const INTERACTIVE: &str = r#"script=$1; shift
[ ! -t 0 ] || exec bash --login -i -c "$script" bash "$@"
exec {quiet}> >(exec sed -e '/^bash: cannot set terminal process group/d' -e '/^bash: no job control in this shell$/d' >&2)
exec bash --login -i -c "exec 2>&3 3>&-; $script" bash "$@" 3>&2 2>&$quiet {quiet}>&-"#;

impl Shell {
    /// A script with the settings that its shell is to have.
    fn with_settings(self, script: &str) -> String {
        match self {
            Self::Plain => script.to_owned(),
            Self::Login => format!("{SETTINGS}\n{script}"),
        }
    }
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

/// How things are done on nodes of one kind.
pub trait Channel: Send + Sync {
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
    fn is_here(&self) -> bool {
        false
    }

    /// Ends what is kept open to a node, if anything.
    fn hang_up(&self, _node: &NodeConfig) -> Option<Argv> {
        None
    }
}

/// A machine that a provider has for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The node that it is for.
    pub name: String,
    /// What the provider calls it.
    pub id: String,
    /// Where the launcher reaches it; empty as long as it cannot be reached, because it boots or waits.
    #[serde(default)]
    pub address: String,
    /// Where other nodes reach it; the same where nothing is said.
    #[serde(default)]
    pub inner_address: String,
    /// What it was made from, as a hash.
    #[serde(default)]
    pub launch: String,
    /// As whom it is reached, unless the file says it.
    #[serde(default)]
    pub ssh_user: Option<String>,
    /// At which port, unless the file says it.
    #[serde(default)]
    pub ssh_port: Option<u16>,
    /// With which key, unless the file says it.
    #[serde(default)]
    pub ssh_key: Option<PathBuf>,
    /// The program and its arguments in front of commands that are to run there, where it is not reached by ssh.
    #[serde(default)]
    pub enter: Vec<String>,
}

impl Machine {
    /// That of a node; where none was made, the one that is there.
    #[must_use]
    pub fn of(node: &NodeConfig) -> Self {
        let given = || Self {
            name: node.name.clone(),
            id: node.address.clone(),
            address: node.address.clone(),
            inner_address: node.inner_address.clone(),
            ..Self::default()
        };
        node.machine.clone().unwrap_or_else(given)
    }

    /// Whether something can be done there.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.address.is_empty()
    }

    /// Makes a node this machine's.
    pub fn become_node(&self, node: &mut NodeConfig) {
        node.address.clone_from(&self.address);
        let inner = if self.inner_address.is_empty() { &self.address } else { &self.inner_address };
        node.inner_address.clone_from(inner);
        node.ssh.user = node.ssh.user.take().or_else(|| self.ssh_user.clone());
        node.ssh.port = node.ssh.port.or(self.ssh_port);
        node.ssh.private_key = node.ssh.private_key.take().or_else(|| self.ssh_key.clone());
        node.machine = Some(self.clone());
    }
}

/// Why a provider could not do something.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProviderError {
    /// A program of its failed.
    #[error("`{program}` failed: {said}")]
    Failed {
        /// Which.
        program: String,
        /// What it said.
        said: String,
    },
    /// A program cannot be run.
    #[error("{0}")]
    Run(String),
    /// It states what cannot be understood.
    #[error("`{program}` gave an invalid answer: {why}")]
    Answer {
        /// Which.
        program: String,
        /// Why not.
        why: String,
    },
    /// It takes too long.
    #[error("it was not ready after {seconds} s: {why}")]
    Late {
        /// How long was waited.
        seconds: u64,
        /// What is known of it.
        why: String,
    },
    /// It is made from something else than the file says now.
    #[error("its machine `{0}` was created from a different specification; take it down first")]
    Other(String),
    /// It cannot do that.
    #[error("{0}")]
    Cannot(String),
}

impl From<RunError> for ProviderError {
    fn from(error: RunError) -> Self {
        Self::Run(error.to_string())
    }
}

/// Something that takes time.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = Result<T, ProviderError>> + Send + 'a>>;

/// Who is told why a node's machine is not there yet.
pub type Waits = dyn Fn(&str, String) + Send + Sync;

/// The outcome of the machines that were wanted, by nodes' names.
pub type Made = Vec<(String, Result<Machine, ProviderError>)>;

/// The machines of one cluster.
///
/// What it knows is kept where the machines are (tags, comments of jobs), not with the launcher: a new launcher finds them again.
pub trait Provider: Send + Sync {
    /// All machines of the cluster that there are, ready or not.
    fn list(&self) -> Doing<'_, Vec<Machine>>;

    /// Sees to it that machines that are there accept exactly the users that the file names now.
    fn admit(&self) -> Doing<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Sees to it that nodes have machines, and waits until they can be reached. Nothing is made twice: not for nodes that have one,
    /// and not where an earlier attempt was interrupted.
    fn create<'a>(&'a self, nodes: &'a [NodeConfig], waits: &'a Waits) -> Doing<'a, Made>;

    /// Gives machines back; those that are gone already are no failure.
    fn terminate<'a>(&'a self, machines: &'a [Machine]) -> Doing<'a, ()>;

    /// How things are done on a node.
    fn channel(&self, node: &NodeConfig) -> &dyn Channel;

    /// Whether machines are made here, and end when they are given back.
    fn makes_machines(&self) -> bool {
        true
    }

    /// Whether nodes may have one home together.
    fn shares_homes(&self) -> bool {
        false
    }

    /// The folder of a node below `~/.wharf`; homes that nodes share need one for each.
    fn place(&self, cluster: &str, node: &NodeConfig) -> String {
        if self.shares_homes() { format!("{cluster}/{}", node.name) } else { cluster.to_owned() }
    }

    /// Whether it can turn machines into images.
    fn bakes(&self) -> bool {
        false
    }

    /// Turns a machine into an image of this name, and states what the image is called from then on. One of this name is used as it is.
    fn bake<'a>(&'a self, _machine: &'a Machine, _name: &'a str, _waits: &'a Waits) -> Doing<'a, String> {
        Box::pin(async { Err(ProviderError::Cannot("there are no images of such machines".to_owned())) })
    }
}

/// The provider of a cluster.
#[must_use]
pub fn of(cluster: &Cluster, folder: &Folder) -> Arc<dyn Provider> {
    match &cluster.machines {
        Machines::Given if cluster.provider == config::Provider::Process => {
            Arc::new(Given::here(cluster, folder))
        }
        Machines::Given => Arc::new(Given::remote(cluster, folder)),
        Machines::Exec(exec) => Arc::new(Exec::new(exec.clone(), cluster, folder)),
        Machines::Slurm(slurm) => Arc::new(Slurm::new(slurm.clone(), cluster, folder)),
        Machines::Aws(aws) => Arc::new(Aws::new(aws.clone(), cluster, folder)),
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
