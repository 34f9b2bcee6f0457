//! The cluster launcher: what a cluster file says, and how its nodes come up and go down.

pub mod config;

pub use config::{Cluster, ConfigError, read};
