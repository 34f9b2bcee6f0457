//! Published simulators, reproduced with their defects. Nothing outside of simulations can reach their mechanisms.

pub mod blox;
pub mod crius;
pub mod fgd;
pub mod gavel;
mod mechanism;
pub mod muri;
mod published;
mod registry;
pub mod sia;

pub use mechanism::{InputError, Mechanism, Policies, Refusal, Request};
pub use published::{PublishedPolicy, System, published};
pub use registry::{find, never_resizes, policies};
