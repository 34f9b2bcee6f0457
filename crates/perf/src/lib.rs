//! How fast a training job runs, alone and beside others.

pub mod model;

pub use model::{Costs, Model, Sharing};
