//! Scheduling policies, one file or folder each, and the registry from name to factory.

pub mod antman;
mod aside;
pub mod attained;
mod cost;
pub mod crius;
pub mod elastic;
pub mod elasticflow;
pub mod fair;
pub mod fifo;
pub mod fractional;
pub mod gittins;
pub mod governor;
pub mod muri;
pub mod pairing;
pub mod placement;
pub mod pollux;
pub mod priority;
pub mod rebuild;
pub mod registry;
mod reserve;
mod room;
pub mod seating;
pub mod settings;
pub mod shortest;
pub mod sia;
pub mod themis;

pub use aside::Aside;
pub use placement::{Placer, Strategy};
pub use registry::{BuildArgs, KnobInfo, PolicyInfo, UnknownPolicy, find, policies};
pub use settings::{BadSetting, SettingError, Settings};
