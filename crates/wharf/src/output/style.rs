//! Colour on standard error, where it is wanted. Every message reads the same without it.

use std::io::IsTerminal as _;

use clap::builder::styling::{AnsiColor, Style};

use crate::args::ColorChoice;
use crate::args::env;

/// How words are set off.
#[derive(Clone, Copy, Debug)]
pub struct Styles {
    colored: bool,
}

impl Styles {
    /// No colour at all.
    pub const fn plain() -> Self {
        Self { colored: false }
    }

    /// What suits standard error: colour on a terminal, unless `NO_COLOR` is set or another choice is set.
    pub fn for_stderr(choice: ColorChoice) -> Self {
        let colored = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => std::io::stderr().is_terminal() && !env::NO_COLOR.is_set(),
        };
        Self { colored }
    }

    /// Whether there is colour.
    pub const fn is_colored(self) -> bool {
        self.colored
    }

    /// The word before an error.
    pub fn error(&self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    /// The word before a warning.
    pub fn warning(&self, text: &str) -> String {
        self.paint(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// The word before a hint.
    pub fn hint(&self, text: &str) -> String {
        self.paint(AnsiColor::Cyan.on_default().bold(), text)
    }

    /// Words that matter less.
    pub fn dim(&self, text: &str) -> String {
        self.paint(Style::new().dimmed(), text)
    }

    fn paint(&self, style: Style, text: &str) -> String {
        if self.colored { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}
