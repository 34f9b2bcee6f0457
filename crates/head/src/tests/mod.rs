//! Tests of the dispatcher from within, with a clock that is driven by hand.

mod decisions;
mod gates;
mod journal;
mod preemption;
mod restarts;
mod virtual_cluster;
