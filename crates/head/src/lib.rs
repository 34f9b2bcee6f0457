//! The wall-clock driver: the same engine and policies as in the simulator, with real processes.
//!
//! For one host so far: jobs are child processes on declared devices ([`LocalCluster`]).

mod auth;
mod clock;
mod dispatcher;
mod exec;
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
#[cfg(test)]
mod tests;
mod views;
mod wire;

pub use auth::{Access, AccessError, Setup, WORKER_LIFE};
pub use journal::{Damage, JournalError};
pub use local::{JobResult, LocalCluster, LocalError, LocalJob};
pub use server::{Head, HeadConfig, HeadError};
