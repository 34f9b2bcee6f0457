//! The engine against outsides that are slow, out of order and lossy.

mod engine;
mod requests;
