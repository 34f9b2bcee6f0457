//! Tests of the dispatcher from within, with a clock that is driven by hand.

mod amendments;
mod containment;
mod decisions;
mod dependencies;
mod deregistration;
mod disks;
mod endings;
mod failures;
mod golden;
mod hostile;
mod incarnation;
mod journal;
mod journal_stall;
mod limits;
mod numbers;
mod output_readers;
mod plans;
mod policy_switch;
mod preemption;
mod quarantine;
mod requests;
mod restarts;
mod rogue;
mod stalls;
mod usage;
mod virtual_cluster;
