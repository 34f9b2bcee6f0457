//! Policies that choose types and numbers of devices, with jobs that can run on several: scenarios, and random mixed clusters
//! under checkers that add up the work.

mod crius;
mod invariants;
mod scenarios;
