//! The policy in force, its decisions and the limits around it.

pub(crate) mod active_policy;
pub(crate) mod decisions;
pub(crate) mod limits;
