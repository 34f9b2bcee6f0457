//! Profiles: files, tables, the planner, published formats.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod crius;
mod files;
mod planner;
mod tables;
