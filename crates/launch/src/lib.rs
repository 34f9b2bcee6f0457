//! The cluster launcher: what a cluster file says, and how its nodes come up and go down.
//!
//! [`config`] reads and checks the file. A [`provider`] has the machines and states how things are done there, [`runner`] does them.
//! [`phase`] decides what is due from what was done ([`state`]); [`up`] and [`down`] carry it out, under the cluster's [`lock`].
//! [`remote`] is what people do there afterwards.

pub mod bake;
pub mod config;
mod container;
pub mod down;
mod files;
mod hash;
mod launcher;
pub mod lock;
pub mod phase;
mod pool;
mod provide;
pub mod provider;
pub mod remote;
pub mod runner;
mod script;
pub mod shell;
mod start;
pub mod state;
pub mod steps;
pub mod up;
mod visit;

pub use config::{Cluster, ConfigError, read};
pub use hash::FilesError;
pub use launcher::{KnownError, Launcher, Tell, Told};
pub use provide::replaced;
pub use visit::NodeError;
