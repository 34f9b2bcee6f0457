//! Scheduling policies, one file or folder each, and the registry from name to factory.

pub mod registry;

pub use registry::{KnobInfo, PolicyInfo, UnknownPolicy, find, policies};
