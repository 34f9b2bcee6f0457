//! The vocabulary and the engine of Wharf: jobs, nodes, placements, the schedule, events and effects.
//!
//! Nothing here does I/O, reads a clock or the environment, starts a thread or iterates an unordered map
//! (`clippy.toml` beside `Cargo.toml` bans them): equal inputs give equal bytes.

pub mod cluster;
pub mod ids;
pub mod job;
pub mod time;

pub use cluster::{ClusterSpec, DEVICES_PER_NODE_MAX, DeviceSet, NodeShare, NodeSpec};
pub use ids::{DeviceTypeId, JobId, NodeId};
pub use job::{ArrayElement, Gang, JobSpec, StageTimes};
pub use time::Time;
