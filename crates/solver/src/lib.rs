//! Matching and optimisation: pure functions on slices, with scratch memory that callers keep.

pub mod assignment;
pub mod choice;
pub mod lp;
pub mod matching;
pub mod packing;
pub mod sharing;
