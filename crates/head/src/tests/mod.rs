//! Tests of the dispatcher from within, with a clock that is driven by hand.

mod amend;
mod causes;
mod decisions;
mod gates;
mod incarnation;
mod journal;
mod leaving;
mod plans;
mod preemption;
mod readers;
mod restarts;
mod sharing;
mod switching;
mod usage;
mod virtual_cluster;
