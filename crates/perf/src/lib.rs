//! How fast a training job runs, alone and beside others.

pub mod analytic;
pub mod cells;
mod estimates;
pub mod interference;
pub mod interleave;
pub mod model;
pub mod opportunistic;
pub mod profile;
pub mod resolve;
pub mod speed;

pub use interleave::{Interleaving, Order, Stages};
pub use model::{Costs, Model, Sharing};
pub use profile::{Entry, Locality, PairEntry, Place, Profile, Workload, parse_plan, plan_name};
pub use resolve::{Unresolved, resolve};
pub use speed::{Source, Speed, relative_speeds};
