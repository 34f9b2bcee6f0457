//! What the crate promises to its users, in tables that can be read as documentation.

mod accounting;
mod cluster;
mod edit;
mod gavel;
mod generator;
mod hostile;
mod lint_rules;
mod logs;
mod muri;
mod native;
mod pods;
mod stats;

/// A format by its name.
fn format(name: &str) -> wharf_trace::Format {
    name.parse().expect("a format of the table")
}
