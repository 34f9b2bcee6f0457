//! The tables of published systems.

pub(crate) mod gavel;
