//! What a command says: data on standard output, everything else on standard error.

pub mod grid;
pub mod progress;
pub mod style;
mod terminal;

pub use progress::Progress;
pub use terminal::Terminal;
