//! Mechanisms that reproduce published simulators, defects included. Nothing outside of simulations can reach them.

pub mod blox;
pub mod crius;
pub mod gavel;
pub mod muri;
pub mod sia;
