//! The vocabulary and the engine of Wharf: jobs, nodes, placements, the schedule, events and effects.
//!
//! Nothing here does I/O, reads a clock or the environment, starts a thread or iterates an unordered map
//! (`clippy.toml` beside `Cargo.toml` bans them): equal inputs give equal bytes.

pub mod access;
pub mod accounts;
pub mod audit;
pub mod cluster;
mod duration;
pub mod effect;
pub mod engine;
pub mod event;
pub mod ids;
mod image;
pub mod job;
mod machine;
pub mod nearest;
pub mod node_set;
pub mod perf;
pub mod policy;
pub mod reason;
pub mod regime;
pub mod request;
pub mod reshape;
mod room;
pub mod schedule;
pub mod state;
pub mod time;
pub mod topology;
mod unmet;
pub mod vacancy;

pub use access::{Access, Scope};
pub use accounts::{Accounts, Dimension, MachineUse};
pub use audit::Violation;
pub use cluster::{ClusterSpec, DEVICES_PER_NODE_MAX, DeviceSet, NodeDetails, NodeShare, NodeSpec};
pub use duration::parse_seconds;
pub use effect::{Command, Effect, Ignored};
pub use engine::{Engine, Log};
pub use event::{Chosen, Detail, Event, JobEnd, StopReason};
pub use ids::{DeviceTypeId, JobId, NodeId};
pub use image::{JobImage, NodeImage};
pub use job::{ArrayElement, Gang, JobSpec, Needs, StageTimes};
pub use node_set::NodeSet;
pub use perf::{PerfModel, Plan};
pub use policy::{Change, Decision, Knowledge, Policy, RoundNotes, View};
pub use reason::{Names, Quota, Reason, made_room, reshaped};
pub use regime::{Cadence, Regime};
pub use request::{Amounts, Charge, Level, Request, WHOLE_MILLI, Within, is_slice};
pub use reshape::{Reshape, Reshapes};
pub use room::Scarcity;
pub use schedule::{SLOTS_MAX, Schedule};
pub use state::{GaveWay, JobState, Phase, PhaseCounts, State};
pub use time::Time;
pub use topology::{Node, Topology};
pub use unmet::Unmet;
pub use vacancy::{FreeIndex, FreeOfType, Vacancy};
