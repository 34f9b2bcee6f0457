//! The worker with real processes and real gRPC, against a head that does what each test says.

#[expect(clippy::unwrap_used, reason = "helpers of tests fail like them")]
mod apptainer;
#[expect(clippy::unwrap_used, reason = "helpers of tests fail like them")]
mod containers;
#[expect(clippy::unwrap_used, reason = "helpers of tests fail like them")]
mod devices;
#[expect(clippy::unwrap_used, reason = "helpers of tests fail like them")]
mod docker;
mod fencing;
#[expect(clippy::unwrap_used, reason = "helpers of tests fail like them")]
mod launching;
mod leases;
mod pace;
#[expect(clippy::unwrap_used, reason = "what serves tests fails like them")]
mod support;
mod survival;
mod tasks;
