//! The parallel planner: how a model is best split over a gang, how long an iteration then takes and what memory it needs.
//!
//! A model is a row of layers ([`model`], built-in ones in [`families`]); a device type has peaks, memory and [`links`]. A plan
//! splits the samples over replicas, the layers over stages, and what is within a layer over devices ([`Degrees`]). All ways are
//! estimated ([`estimate`]) and put in order ([`search`]); the best of each number of stages are [`cells`].

mod block;
pub mod calibration;
pub mod cells;
pub mod comm;
pub mod describe;
pub mod devices;
mod eager;
pub mod estimate;
pub mod exact;
pub mod families;
pub mod fit;
pub mod framework;
pub mod hardware;
pub mod judge;
mod kernels;
pub mod layers;
pub mod links;
mod memory;
pub mod model;
pub mod nodes;
pub mod options;
pub mod search;
mod split;

pub use calibration::{Calibration, Correction, Run};
pub use estimate::{Degrees, Estimate, Gang, Parts};
pub use exact::Exact;
pub use framework::Framework;
pub use hardware::Hardware;
pub use layers::{LayerTimes, Part};
pub use memory::Memory;
pub use model::Model;
pub use options::{Attention, Fixed, Options, Recompute, Schedule};
pub use search::{PlanError, plans, plans_cut};
