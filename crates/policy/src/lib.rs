//! Scheduling policies, one file or folder each, and the registry from name to factory.

pub mod antman;
pub mod arena;
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
mod seating;
pub mod settings;
pub mod shortest;
pub mod sia;
pub mod themis;

pub use placement::{Placer, Strategy};
pub use registry::{
    BuildArgs, KnobInfo, PolicyInfo, PublishedPolicy, System, UnknownPolicy, find, policies, published,
};
pub use settings::{BadSetting, SettingError, Settings};
