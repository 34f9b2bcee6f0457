//! The worker with real processes and real gRPC, against a head that does what each test says.

mod support;
mod survival;
mod tasks;
