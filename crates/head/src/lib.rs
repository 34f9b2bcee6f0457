//! The wall-clock driver: the same engine and policies as in the simulator, with real processes.
//!
//! For one host so far: jobs are child processes on declared devices ([`LocalCluster`]).

pub mod check;
mod dispatcher;
mod execution;
mod journal;
mod local;
pub mod notify;
mod process;
mod record;
mod server;
mod service;
mod tasks;
mod views;
mod wire;

pub use journal::JournalError;
pub use local::{JobResult, LocalCluster, LocalError, LocalJob};
pub use server::{Head, HeadConfig, HeadError};
