//! Attacks by ordinary users, jobs, rogue workers and machines on the network, against a root head and a root worker with two
//! real Unix users. `docs/security.md` names the test behind each promise.
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod access;
mod containment;
#[path = "../it/daemon.rs"]
#[expect(dead_code, reason = "the other test binary uses the rest")]
mod daemon;
mod durability;
#[path = "../it/sandbox.rs"]
#[expect(dead_code, reason = "the other test binary uses the rest")]
mod sandbox;
mod scheduling;
mod site;
