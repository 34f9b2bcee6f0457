//! How fast a training job runs, alone and beside others.

pub mod interleave;
pub mod opportunistic;

pub use interleave::{Interleaving, Order, Stages};
