//! The wall-clock driver: the same engine and policies as in the simulator, with real processes.

pub mod check;
mod dispatcher;
mod execution;
mod journal;
pub mod notify;
mod record;
mod server;
mod service;
mod tasks;
mod views;
mod wire;

pub use journal::JournalError;
pub use server::{Head, HeadConfig, HeadError};
