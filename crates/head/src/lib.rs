//! The wall-clock driver: the same engine and policies as in the simulator, with real processes.

mod dispatcher;
mod execution;
mod journal;
mod record;
mod server;
mod service;
mod tasks;
mod views;
mod wire;

pub use journal::JournalError;
pub use server::{Head, HeadConfig, HeadError};
