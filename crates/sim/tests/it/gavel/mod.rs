//! Gavel's published simulator: recorded runs against the same runs here, and inputs that it cannot run.

mod data;
mod golden;
mod inputs;
mod recorded;
