//! Cluster files: Ray's YAML with the keys of older versions and Wharf's additions, and Crius' `cluster_spec.json`.
//!
//! A document becomes a tree that knows its places. What is missing to fill in (`placeholders`) and old words (`legacy`) are dealt
//! with there; then it is read key by key (`ray`), and what the keys say together is checked (`nodes`, `mounts`). Nothing is touched
//! before all of that is done, and everything that is wrong is told at once.

mod container;
mod crius;
mod legacy;
mod machines;
mod mounts;
mod nodes;
mod placeholders;
mod ray;
mod section;
mod steps;
mod value_error;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_document::decode::Problem;
use wharf_document::node::{Node, Repeated};

pub use container::Container;
pub use machines::{AwsConfig, ExecConfig, Machines, Reach, SlurmConfig};
pub use mounts::Mount;
pub use nodes::{Node as NodeConfig, Role, Ssh};
pub use placeholders::{placeholders, render};

use crate::steps::Step;

/// A cluster as its file has it, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// What it is called: the name of its state, too.
    pub name: String,
    /// What the nodes are.
    pub provider: Provider,
    /// Where its machines come from.
    pub machines: Machines,
    /// The head first, then the workers.
    pub nodes: Vec<NodeConfig>,
    /// How many workers must come up.
    pub min_workers: usize,
    /// Ready-made set-up.
    pub steps: Vec<Step>,
    /// How many of the steps run before the nodes' own setup commands; the others run after them.
    pub steps_before: usize,
    /// What every node gets.
    pub mounts: Vec<Mount>,
    /// Paths of the head that workers get as well, where they are there.
    pub synced: Vec<String>,
    /// Patterns of what is not copied.
    pub exclude: Vec<String>,
    /// Names of files with more of them.
    pub filter: Vec<String>,
    /// What is started on the nodes.
    pub runtime: Runtime,
    /// How long a node that does not answer is tried again.
    pub start_timeout: Duration,
    /// What is odd, but no mistake.
    pub warnings: Vec<Problem>,
    /// What keeps new machines from being made; commands that make none do not need it.
    pub blockers: Vec<Problem>,
}

/// How long a node that does not answer is tried again, by default: long enough for one that boots.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// What nodes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Machines that are there, reached by ssh.
    Local,
    /// Folders and processes of this machine.
    Process,
    /// Machines of Amazon's cloud.
    Aws,
    /// Machines that a program of the user's makes.
    Exec,
    /// Allocations of a Slurm.
    Slurm,
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Process => "process",
            Self::Aws => "aws",
            Self::Exec => "exec",
            Self::Slurm => "slurm",
        })
    }
}

/// What is started on the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// Wharf's own head and workers.
    Wharf(WharfRuntime),
    /// Lines of the file, such as Ray's.
    Commands {
        /// On the head.
        head: Vec<String>,
        /// On the workers.
        worker: Vec<String>,
    },
}

/// How Wharf's own daemons are started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WharfRuntime {
    /// The program on the nodes; the launcher's own is copied there where this is not said.
    pub program: Option<String>,
    /// The head's port; 0 lets its system choose.
    pub port: u16,
    /// The policy that decides.
    pub policy: Option<String>,
}

/// Everything that is wrong with a cluster file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It states what cannot be.
    #[error("{}", Told(path, problems))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What, in the order of the lines.
        problems: Vec<Problem>,
    },
}

/// A problem in one line, with its hint.
#[must_use]
pub fn told(path: &Path, problem: &Problem) -> String {
    problem.told(path)
}

struct Told<'a>(&'a Path, &'a [Problem]);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.1.iter().map(|problem| told(self.0, problem)).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// What a reader finds on its way.
#[derive(Debug, Default)]
struct Findings {
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    blockers: Vec<Problem>,
}

/// The warning about a repeated key.
fn ignored(Repeated { place, ignored, field }: Repeated) -> Problem {
    let message =
        format!("the key is repeated: the value in line {} is ignored, the last one counts", ignored.line);
    Problem { place, field, message, hint: None }
}

/// Reads and checks a cluster file.
///
/// # Errors
/// Everything that is wrong with it, with lines.
pub fn read(path: &Path) -> Result<Cluster, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let invalid = |problems| ConfigError::Invalid { path: path.to_owned(), problems };
    if text.trim_start().starts_with('[') {
        let node = Node::from_json(&text).map_err(|error| invalid(vec![error.into()]))?;
        return crius::cluster(path, &node).map_err(|problem| invalid(vec![problem]));
    }
    let (node, repeated) = Node::from_yaml_last(&text).map_err(|error| invalid(vec![error.into()]))?;
    let mut findings = Findings::default();
    findings.warnings.extend(repeated.into_iter().map(ignored));
    let cluster = ray::cluster(node, path.parent().unwrap_or(Path::new(".")), &mut findings);
    findings.problems.sort_by_key(|problem| (problem.place.line, problem.place.column));
    match cluster {
        Some(cluster) if findings.problems.is_empty() => {
            Ok(Cluster { warnings: findings.warnings, blockers: findings.blockers, ..cluster })
        }
        _ => Err(invalid(findings.problems)),
    }
}
