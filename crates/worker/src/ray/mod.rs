//! A Ray cluster on a job's gang: what runs on each of its nodes, instead of the job's command.
//!
//! The task of every node is this program again (`wharf ray-node`). It takes a block of ports ([`blocks`]), makes a folder, runs
//! `ray start --block` in a process group of its own, and ends everything below it when the time has come: by what it started and what
//! that started, never by name, because other clusters run on the same machine. On the first node it also waits until all
//! nodes are alive and runs the job's command, the *driver*, whose exit code is the job's. The supervisor sees one process with
//! descendants, as with any other task, so that restarts of head and worker change nothing.

mod blocks;
mod command;
mod folder;
mod gathering;
mod node;

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use node::ray_main;

/// The variable that a node's token comes in; what it starts finds it in a file.
pub(crate) const TOKEN: &str = "WHARF_RAY_TOKEN";

/// What a node's part in a cluster is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) job: u32,
    pub(crate) generation: u32,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// Of all nodes, by rank.
    pub(crate) addresses: Vec<String>,
    /// Where the first node tells the others what they need.
    pub(crate) port: u16,
    /// Its path, or a name that is searched for.
    pub(crate) program: String,
    pub(crate) cpus: u32,
    pub(crate) gpus: u32,
    /// 0: as Ray likes.
    pub(crate) object_store_bytes: u64,
    pub(crate) memory_bytes: u64,
    /// Further ones of `ray start`.
    pub(crate) arguments: Vec<String>,
    /// Where its folder is to be; none: where temporary files are, if that is not too far down.
    pub(crate) temp_dir: Option<PathBuf>,
    /// Where the dashboard listens; none: there is no dashboard.
    pub(crate) dashboard: Option<String>,
    pub(crate) ready_ms: u64,
    /// What it has from the signal to the kill.
    pub(crate) grace_ms: u64,
    /// The job itself states how many threads its processes use.
    pub(crate) has_threads: bool,
}

impl Plan {
    fn is_head(&self) -> bool {
        self.rank == 0
    }

    fn address(&self, rank: u32) -> &str {
        self.addresses.get(rank as usize).map_or("127.0.0.1", String::as_str)
    }

    fn own_address(&self) -> &str {
        self.address(self.rank)
    }

    /// What Ray is informed that this node's address is.
    ///
    /// Ray takes 127.0.0.1 for a mistake and searches for an address that others reach. If all nodes are on this machine no process
    /// should: another address of the loopback is taken as it is.
    fn rays_address(&self, rank: u32) -> &str {
        match self.address(rank) {
            "127.0.0.1" | "localhost" | "::1" => "127.0.0.2",
            other => other,
        }
    }

    fn head_address(&self) -> &str {
        self.address(0)
    }

    fn ready(&self) -> Duration {
        Duration::from_millis(self.ready_ms)
    }
}

/// How a process ended, as a shell tells it.
fn code_of(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}
