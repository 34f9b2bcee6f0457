//! The wall-clock driver: the same engine and policies as in the simulator, with real processes.

mod auth;
mod curves;
mod dispatcher;
pub mod http;
mod jobs;
mod journal;
mod nodes;
pub mod notify;
mod policy;
mod query;
mod rpc;
mod server;
mod tasks;
#[cfg(test)]
mod tests;

pub use auth::{Access, AccessError, Setup, TOKEN_LIFE, WORKER_LIFE};
pub use jobs::checkpoints::CheckpointSettings;
pub use jobs::request_limits::Caps;
pub use journal::{Damage, JournalError};
pub use policy::active_policy::{MakeRegime, NeverResizes, PolicyChoice, UnusablePolicy};
pub use query::live;
pub use rpc::network::{Network, NotANetwork};
pub use server::{Head, HeadConfig, HeadError};
