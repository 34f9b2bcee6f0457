//! Solvers against oracles and recorded problems.

mod assignment;
mod choice;
mod lp;
mod matching;
mod packing;
mod sharing;
mod sharing_large;
mod sharing_recorded;
