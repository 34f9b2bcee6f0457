//! A running cluster: its daemons, and what people ask of it.

mod client;
mod daemon;
mod devices;
mod exec;
mod home;

pub(super) use client::{cancel, explain, hold, job, jobs, logs, nodes, release, requeue, submit};
pub(super) use daemon::{head, keeper, worker};
pub(super) use exec::{beside, exec};
