//! Cluster files, launch steps, providers.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod config;
mod providers;
mod ray_files;
mod steps;
