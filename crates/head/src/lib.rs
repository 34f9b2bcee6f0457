//! The wall-clock driver: the same engine and policies as in the simulator, with real processes.

mod activity;
mod auth;
mod causes;
pub mod check;
mod clock;
mod dispatcher;
mod exec;
mod execution;
mod filter;
mod gates;
mod journal;
mod news;
mod nodes;
pub mod notify;
mod ports;
mod readers;
mod record;
mod server;
mod service;
mod submit;
mod tasks;
#[cfg(test)]
mod tests;
mod trouble;
mod usage;
mod views;
mod wire;

pub use auth::{Access, AccessError, Setup, WORKER_LIFE};
pub use journal::{Damage, JournalError};
pub use server::{Head, HeadConfig, HeadError};
