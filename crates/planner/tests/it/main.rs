//! The planner as others use it: descriptions, and measurements that judge it.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
#![expect(clippy::disallowed_methods, reason = "tests read files")]

mod describe;
mod judge;
