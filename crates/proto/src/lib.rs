//! The gRPC contract between head, workers and clients. The only crate that knows protobuf's generated code.
//!
//! `generated.rs` is made from `proto/wharf.proto` by `cargo run` in `tools/gen-proto` and committed, so that a build needs no
//! protobuf compiler.

#[rustfmt::skip]
mod generated;
mod words;

pub use generated::*;
pub use {prost, tonic};

/// How the reason of a worker begins that leaves without having had a task.
pub const NO_JOB_CAME: &str = "no job came";
