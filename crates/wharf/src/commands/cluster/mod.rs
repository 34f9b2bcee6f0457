//! A running cluster: its daemons, and what people ask of it.

mod change;
mod connect;
mod daemon;
mod devices;
mod embedded;
mod exec;
mod follow;
mod frame;
mod home;
mod init;
mod jobs;
mod local;
mod nodes;
mod record;
mod report;
mod run;
mod submit;
mod token;
mod top;

pub(super) use change::{cancel, hold, release, requeue};
pub(super) use daemon::{check_keys, head, keeper, runtime, worker};
pub(super) use embedded::{Embedded, Hurry, Interruptions, Plan, WorkerPlan};
pub(super) use exec::{beside, exec};
pub(super) use frame::Frame;
pub(super) use jobs::{explain, job, jobs, logs};
pub(super) use local::local;
pub(super) use nodes::{node, nodes};
pub(super) use record::{record, unix_s};
pub(super) use report::report;
pub(super) use run::run;
pub(super) use submit::submit;
pub(super) use token::token;
pub(super) use top::{explain_waiting, top};
