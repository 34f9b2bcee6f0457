//! What a command fails with, and how it is told: `error:`, `caused by:`, `hint:`, each on its own line.

pub mod translate;

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io;
use std::path::Path;

use wharf_sim::nearest::nearest;

use crate::exit::Exit;
use crate::output::escaped;
use crate::output::style::Styles;

/// Whose move it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command line's.
    Usage,
    /// An input file's.
    Input,
    /// The disk's, or whatever else takes the output.
    Output,
    /// Another process is changing the same cluster.
    Busy,
    /// No error: the reader of standard output has exited, as in `| head`.
    BrokenPipe,
    /// Ours.
    Internal,
}

impl ErrorKind {
    /// The exit code that goes with it.
    pub fn exit(self) -> Exit {
        match self {
            Self::Usage => Exit::Usage,
            Self::Input => Exit::Input,
            Self::Output => Exit::Output,
            Self::Busy => Exit::Busy,
            Self::BrokenPipe => Exit::Ok,
            Self::Internal => Exit::Internal,
        }
    }
}

/// A failed command: one sentence, what caused it, and what may help.
#[derive(Debug)]
pub struct CliError {
    kind: ErrorKind,
    message: String,
    others: Vec<String>,
    causes: Vec<String>,
    hints: Vec<String>,
}

impl CliError {
    /// An error of that kind, told by `message`: lower case, no full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), others: vec![], causes: vec![], hints: vec![] }
    }

    /// The command line asks for something that cannot be.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// An input is unreadable or invalid.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    /// An error of a library, its own text as the message and its sources as causes.
    pub fn from_error(kind: ErrorKind, error: &dyn Error) -> Self {
        let message = error.to_string();
        Self { causes: causes(error), ..Self::new(kind, message) }
    }

    /// Writing to `path` failed.
    pub fn write(path: &Path, error: io::Error) -> Self {
        Self::new(ErrorKind::Output, format!("cannot write `{}`", path.display())).caused_by(error)
    }

    /// Reading `path` failed.
    pub fn read(path: &Path, error: io::Error) -> Self {
        Self::input(format!("cannot read `{}`", path.display())).caused_by(error)
    }

    /// Writing to standard output failed; a reader that went away is no failure.
    pub fn stdout(error: io::Error) -> Self {
        let broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        let kind = if broken_pipe { ErrorKind::BrokenPipe } else { ErrorKind::Output };
        Self::new(kind, "cannot write to standard output").caused_by(error)
    }

    /// Adds what caused it.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Error) -> Self {
        self.causes.push(cause.to_string());
        self.causes.extend(causes(&cause));
        self
    }

    /// Adds something else that is wrong.
    #[must_use]
    pub fn and(mut self, message: impl Into<String>) -> Self {
        self.others.push(message.into());
        self
    }

    /// Adds a line that may help.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds "did you mean" where one of `names` is close to what was `given`.
    #[must_use]
    pub fn hint_nearest<'a>(self, given: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        match nearest(given, names) {
            Some(name) => self.hint(format!("did you mean `{name}`?")),
            None => self,
        }
    }

    /// Adds the hints of an error that this one is caused by.
    #[must_use]
    pub fn with_hints_of(mut self, cause: Self) -> Self {
        self.hints.extend(cause.hints);
        self
    }

    /// Whose move it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What may help, a line each.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// What else is wrong, and what caused it all.
    pub fn causes(&self) -> Vec<&str> {
        // A library that repeats its source in its own text would otherwise say it twice.
        let causes = self.causes.iter().filter(|cause| !self.message.contains(cause.as_str()));
        self.others.iter().chain(causes).map(|text| text.trim_end()).collect()
    }

    /// All of it in one line, for where there are no others.
    pub fn one_line(&self) -> String {
        let whole = std::iter::once(self.message.as_str()).chain(self.causes());
        whole.chain(self.hints.iter().map(String::as_str)).collect::<Vec<_>>().join("; ").replace('\n', " ")
    }

    /// What is printed on standard error.
    pub fn render(&self, styles: &Styles) -> String {
        let mut text = format!("{} {}\n", styles.error("error:"), escaped(&self.message));
        for other in &self.others {
            let _ = writeln!(text, "{} {}", styles.error("error:"), escaped(other));
        }
        // A library that repeats its source in its own text would otherwise say it twice.
        let causes = self.causes.iter().filter(|cause| !self.message.contains(cause.as_str()));
        for line in causes.flat_map(|cause| cause.trim_end().lines()) {
            // What is indented belongs to the line before.
            let _ = match line.starts_with(' ') {
                true => writeln!(text, "{}", escaped(line)),
                false => writeln!(text, "{} {}", styles.dim("caused by:"), escaped(line)),
            };
        }
        for hint in &self.hints {
            let _ = writeln!(text, "{} {}", styles.hint("hint:"), escaped(hint));
        }
        text
    }
}

/// What caused an error, what caused that, and so on.
fn causes(error: &dyn Error) -> Vec<String> {
    let mut texts = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    texts
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for CliError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_reported_once_with_causes_and_hints() {
        let full = io::Error::other("no space left on device");
        let error = CliError::write(Path::new("out/jobs.csv"), full).hint("free some space");
        assert_eq!(
            error.render(&Styles::plain()),
            "error: cannot write `out/jobs.csv`\ncaused by: no space left on device\nhint: free some space\n"
        );
        assert_eq!(error.kind().exit(), Exit::Output);
        assert_eq!(error.one_line(), "cannot write `out/jobs.csv`; no space left on device; free some space");
    }

    #[test]
    fn reader_that_went_away_is_success() {
        let error = CliError::stdout(io::ErrorKind::BrokenPipe.into());
        assert_eq!(error.kind().exit(), Exit::Ok);
    }
}
