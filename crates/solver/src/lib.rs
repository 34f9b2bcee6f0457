//! Matching and optimisation: pure functions on slices, with scratch memory that callers keep.

pub mod choice;
pub mod fairness;
pub mod matching;
