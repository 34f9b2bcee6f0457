//! The worker with real processes and real gRPC, against a head that does what each test says.

#[expect(clippy::unwrap_used, reason = "what serves tests fails like them")]
mod leases;
mod support;
mod survival;
mod tasks;
