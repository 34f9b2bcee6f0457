//! A running cluster: its daemons, and what people ask of it.

mod client;
mod connect;
mod daemon;
mod devices;
mod exec;
mod home;
mod init;
mod token;

pub(super) use client::{cancel, explain, hold, job, jobs, logs, nodes, release, requeue, submit};
pub(super) use daemon::{head, keeper, worker};
pub(super) use exec::{beside, exec};
pub(super) use token::token;
