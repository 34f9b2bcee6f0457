//! What users write, in YAML, TOML or JSON.
//!
//! A document becomes a tree that knows its places ([`node`]), and the tree typed values ([`decode`]). Every refusal names line, column
//! and field, and all formats behave alike. Words for a shell are quoted by [`shell`].

pub mod decode;
pub mod node;
pub mod shell;

pub use wharf_core::nearest::nearest;
