//! Recorded results of published systems, and inputs that their mechanisms refuse.

mod crius_golden;
mod muri_golden;
mod muri_inputs;
mod support;
