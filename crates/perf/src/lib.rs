//! How fast a training job runs, alone and beside others.

pub mod interference;
pub mod interleave;
pub mod model;
pub mod opportunistic;
pub mod profile;

pub use interleave::{Interleaving, Order, Stages};
pub use model::{Costs, Model, Sharing};
pub use profile::{Locality, Place, Profile, Workload};
