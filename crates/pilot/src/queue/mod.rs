//! A Slurm client: submits, lists and cancels jobs.

mod command;
mod rest;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

pub(crate) use command::usual_environment;
pub use command::{CommandQueue, sbatch_options};
pub use rest::{RestQueue, RestTarget};

/// The answer to a question, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, QueueError>> + Send + 'a>>;

/// A way to a Slurm.
pub trait Queue: Send + Sync {
    /// Hands a job in and returns its id.
    fn submit<'a>(&'a self, submission: &'a Submission) -> Answer<'a, String>;
    /// The user's own matching jobs, including recently ended ones.
    fn list<'a>(&'a self, filter: &'a Filter) -> Answer<'a, Vec<QueueJob>>;
    /// Takes a job out of the queue, or ends it. One that has ended already is no error.
    fn cancel<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;
}

/// Which jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Those of this name.
    Name(String),
    /// This one; of an array all elements.
    Id(String),
}

/// A job to hand in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Submission {
    /// What runs on the first node.
    pub script: String,
    /// What it is called.
    pub name: String,
    /// A word that comes back when it is listed.
    pub comment: String,
    /// Empty: the default.
    pub partition: String,
    /// Empty: the default.
    pub account: String,
    /// Empty: the default.
    pub qos: String,
    /// Minutes; 0: the partition's.
    pub limit_min: u32,
    /// How many nodes.
    pub nodes: u32,
    /// Processes of each step on each node; 0: as Slurm likes.
    pub tasks_per_node: u32,
    /// Processors of each process; 0: as Slurm likes.
    pub cpus: u32,
    /// Memory of each node; 0: as Slurm likes.
    pub memory_mib: u64,
    /// Generic resources of each node; empty: none.
    pub gres: String,
    /// Indexes of an array; empty: none.
    pub array: String,
    /// Where it runs.
    pub workdir: PathBuf,
    /// Where its output goes; Slurm's patterns.
    pub output: String,
    /// Where its standard error goes; empty: with the output.
    pub error: String,
    /// Its environment, beside what Slurm sets.
    pub env: BTreeMap<String, String>,
    /// It is run again when a node fails.
    pub requeue: bool,
    /// It waits for its release.
    pub hold: bool,
    /// Further options of sbatch.
    pub extra: Vec<String>,
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It waits.
    Pending,
    /// It has its nodes.
    Running,
    /// It gives its nodes back.
    Ending,
    /// It is over; how, in Slurm's word.
    Over(String),
}

impl JobState {
    fn of_word(word: &str) -> Self {
        match word {
            "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => {
                Self::Pending
            }
            "RUNNING" | "CONFIGURING" | "SUSPENDED" | "STOPPED" | "RESIZING" | "SIGNALING" => Self::Running,
            "COMPLETING" | "STAGE_OUT" => Self::Ending,
            over => Self::Over(over.to_owned()),
        }
    }
}

/// A job in the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueJob {
    /// Its id; of an element of an array `ARRAY_INDEX`.
    pub id: String,
    /// How far it is.
    pub state: JobState,
    /// When it got its nodes, in seconds since the Unix epoch.
    pub start_s: Option<f64>,
    /// When it ended, or will at the latest.
    pub end_s: Option<f64>,
    /// Why it waits, or ended so, in Slurm's word.
    pub reason: String,
    /// Where it runs or ran.
    pub nodes: String,
    /// What it was handed in with.
    pub comment: String,
    /// As `wait` has it: the exit code above the signal.
    pub wait_status: i32,
}

impl QueueJob {
    /// Its exit code, as a shell tells it; a state that is no success never gives 0.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        let (code, signal) = (self.wait_status >> 8 & 0xff, self.wait_status & 0x7f);
        match (&self.state, code, signal) {
            (_, 0, 1..) => 128 + signal,
            (JobState::Over(word), 0, 0) if word != "COMPLETED" => 1,
            _ => code,
        }
    }
}

/// Why a queue does not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// A program of Slurm's cannot be run.
    #[error("cannot run `{program}`")]
    Program {
        /// Which.
        program: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It took too long.
    #[error("{what} did not answer within {} s", limit.as_secs())]
    Silent {
        /// Who.
        what: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// Slurm said no.
    #[error("{what}: {message}")]
    Refused {
        /// The request.
        what: &'static str,
        /// What it said.
        message: String,
    },
    /// slurmrestd cannot be reached.
    #[error("cannot reach slurmrestd at {place}")]
    Unreached {
        /// Where it should be.
        place: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// slurmrestd closed the connection instead of answering; it is unknown whether it executed the request.
    #[error("slurmrestd closed the connection before it answered")]
    Cut {
        /// How that showed.
        #[source]
        source: hyper::Error,
    },
    /// The answer makes no sense.
    #[error("{what} gave an invalid answer: {message}")]
    Malformed {
        /// Who.
        what: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// This way to Slurm cannot do that.
    #[error("{what}")]
    Unsupported {
        /// What, and what to do instead.
        what: &'static str,
    },
    /// The file with the token cannot be used.
    #[error("cannot read the token in `{}`", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_equal_those_of_a_shell() {
        let job = |word: &str, wait_status| QueueJob {
            id: "1".into(),
            state: JobState::of_word(word),
            start_s: None,
            end_s: None,
            reason: String::new(),
            nodes: String::new(),
            comment: String::new(),
            wait_status,
        };
        for (word, status, expected) in [
            ("COMPLETED", 0, 0),
            ("FAILED", 7 << 8, 7),
            ("FAILED", 9, 137),
            ("TIMEOUT", 15, 143),
            ("CANCELLED", 0, 1),
            ("NODE_FAIL", 0, 1),
        ] {
            assert_eq!(job(word, status).exit_code(), expected, "{word} {status}");
        }
    }
}
