//! User-defined policies: a program that receives events and answers with jobs to start and stop.
//!
//! The program reads one question a line from its standard input and writes one answer a line to its standard output, both JSON;
//! `docs/own-policies.md` has the words. It is told what has changed since it was last asked, so that an event costs what it
//! changed. What it answers is audited like any policy's decision.

mod message;
mod policy;
mod process;

pub use policy::External;
pub use process::{Program, Trouble};
