//! The wall-clock driver: the same engine and policies as in the simulator, with real processes.
//!
//! For one host so far: jobs are child processes on declared devices ([`LocalCluster`]).

mod local;
mod process;

pub use local::{JobResult, LocalCluster, LocalError, LocalJob};
