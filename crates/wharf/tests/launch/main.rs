//! `wharf up` and `wharf down`: clusters of processes of this machine, and of machines with real sshd.
//!
//! The machines are namespaces, which need root, `ip`, `unshare`, `nsenter`, `sshd` and `rsync`; what is missing is said on standard error.
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
#![expect(
    clippy::print_stderr,
    reason = "a test that did not run must say so, and a run's times are of interest"
)]

mod containers;
mod lab;
#[path = "../netns/machine.rs"]
mod machine;
mod machines;
#[path = "../../../launch/tests/providers/moto.rs"]
mod moto;
mod processes;
mod remote;
mod sequences;
#[expect(dead_code, reason = "others use more of it")]
#[path = "../pilot/slurm.rs"]
mod slurm;
mod ssh;
#[path = "../../../launch/tests/providers/sshd.rs"]
mod sshd;
mod terminal;
mod trouble;
