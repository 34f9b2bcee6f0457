//! A running cluster: its daemons, and what people ask of it.

mod client;
mod daemon;
mod embedded;
mod follow;
mod home;
mod jobs;
mod local;
mod nodes;
mod run;
mod submit;

pub(super) use daemon::{head, keeper, worker};
pub(super) use jobs::{cancel, explain, hold, job, jobs, logs, release, requeue};
pub(super) use local::local;
pub(super) use nodes::nodes;
pub(super) use run::run;
pub(super) use submit::submit;
