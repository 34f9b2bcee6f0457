//! Slurm syntax: recorded vectors and properties.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod properties;
mod vectors;
