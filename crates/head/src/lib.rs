//! The wall-clock driver: the same engine and policies as in the simulator, with real processes.

mod activity;
mod amend;
mod auth;
mod batch;
mod causes;
pub mod check;
mod chosen;
mod clock;
mod decisions;
mod dispatcher;
mod exec;
mod execution;
mod filter;
mod gates;
pub mod http;
mod journal;
mod leaving;
pub mod live;
mod meter;
mod news;
mod nodes;
pub mod notify;
mod parameters;
mod ports;
mod ray;
mod readers;
mod record;
mod regime;
mod series;
mod server;
mod service;
mod sharing;
mod spec_record;
mod submit;
mod tap;
mod tasks;
#[cfg(test)]
mod tests;
mod trouble;
mod usage;
mod views;
mod wire;

pub use auth::{Access, AccessError, Setup, WORKER_LIFE};
pub use journal::{Damage, JournalError};
pub use regime::{MakeRegime, PolicyChoice};
pub use server::{Head, HeadConfig, HeadError};
