//! The wall-clock driver: the same engine and policies as in the simulator, with real processes.
//!
//! For one host so far: jobs are child processes on declared devices ([`LocalCluster`]).

mod clock;
mod dispatcher;
mod execution;
mod gates;
mod journal;
mod local;
mod nodes;
mod ports;
mod process;
mod record;
mod server;
mod service;
mod submit;
mod tasks;
mod views;
mod wire;

pub use journal::{Damage, JournalError};
pub use local::{JobResult, LocalCluster, LocalError, LocalJob};
pub use server::{Head, HeadConfig, HeadError};
