//! What a command says: data on standard output, everything else on standard error.

mod confirm;
mod escape;
pub(crate) mod events;
pub(crate) mod grid;
pub(crate) mod progress;
pub(crate) mod style;
mod terminal;

pub(crate) use confirm::confirm;
pub(crate) use escape::escaped;
pub(crate) use terminal::Terminal;

/// A number of things: `1 job`, `2 jobs`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
