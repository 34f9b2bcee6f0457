//! `wharf up` and `wharf down`: clusters of processes of this machine, and of machines with real sshd.
//!
//! The machines are namespaces, see `wharf_testing::machine`.
#![expect(
    clippy::print_stderr,
    reason = "a test that did not run must report it, and a run's times are of interest"
)]

mod containers;
mod lab;
mod machines;
mod processes;
mod remote;
mod sequences;
mod ssh;
mod terminal;
mod trouble;
mod workflow;
