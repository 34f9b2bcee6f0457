//! Recorded results of published systems, and inputs that their mechanisms refuse.

mod adjust;
mod crius_golden;
mod fairness;
mod fgd_golden;
mod muri_golden;
mod muri_inputs;
mod support;
