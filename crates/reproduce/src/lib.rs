//! Published simulators, reproduced with their defects. Nothing outside of simulations can reach their mechanisms.

pub mod blox;
pub mod crius;
pub mod gavel;
mod mechanism;
pub mod muri;
pub mod sia;

pub use mechanism::{InputError, Mechanism, Policies, Refusal, Request};
