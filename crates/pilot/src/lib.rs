//! Workers inside the allocations of an existing Slurm, scaled to demand.
//!
//! A *pilot* is a Slurm job that runs a worker on each of its nodes. The [`Manager`] checks what waits in the head, at the pilots
//! in Slurm and at the nodes they became, lets [`decide`] state how many more are wanted, and hands them in through a [`Queue`]. It
//! keeps little in memory: pilots are found again by what their Slurm jobs say of them, and what is left is in its folder.
//!
//! Two ways need no workers in between: [`direct`] is a job of a job file as a job of Slurm's, [`ray`] one as a job of an existing Ray
//! cluster.

pub mod container;
pub mod decide;
pub mod demand;
pub mod direct;
mod error;
mod head;
mod health;
mod manager;
pub mod node;
mod queue;
pub mod ray;
mod script;
mod settings;
mod store;

pub use error::PilotError;
pub use manager::{Manager, Stopping};
pub use queue::{
    Answer, CommandQueue, Filter, JobState, Queue, QueueError, QueueJob, RestQueue, RestTarget, Submission,
    sbatch_options,
};
pub use settings::{Backoff, Bounds, Settings, Shape};
pub use store::{PilotRow, Status, Store};
