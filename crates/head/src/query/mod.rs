//! Read-only views of the head, its jobs, nodes and usage.

mod exported_images;
pub(crate) mod job_filter;
pub(crate) mod listing;
pub mod live;
pub(crate) mod usage;
pub(crate) mod views;
