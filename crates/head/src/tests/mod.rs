//! Tests of the dispatcher from within, with a clock that is driven by hand.

mod amend;
mod causes;
mod containment;
mod decisions;
mod disks;
mod endings;
mod gates;
mod golden;
mod hostile;
mod incarnation;
mod journal;
mod leaving;
mod numbers;
mod plans;
mod preemption;
mod quarantine;
mod readers;
mod requests;
mod restarts;
mod rogue;
mod sharing;
mod stalls;
mod storage;
mod switching;
mod usage;
mod virtual_cluster;
