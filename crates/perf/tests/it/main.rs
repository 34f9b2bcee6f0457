//! Speeds: analytic, interleaved, tabulated.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod analytic;
mod interleave;
mod speeds;
