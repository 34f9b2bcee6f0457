//! Read-only views of the head, its jobs, nodes and usage.

pub(crate) mod job_filter;
pub mod live;
pub(crate) mod usage;
pub(crate) mod views;
