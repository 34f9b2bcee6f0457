//! The two streams, and how much is to be said on them.

use std::io::{self, BufWriter, IsTerminal as _, Write};

use serde::Serialize;
use wharf_report::{Report, SparkRun, sparklines};

use crate::args::{GlobalArgs, LogFormat, OutputFormat};
use crate::error::{CliError, ErrorKind};
use crate::output::escape::escaped;
use crate::output::grid::Grid;
use crate::output::progress::Progress;
use crate::output::style::Styles;

/// The outputs of a command.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    /// The form of the data on standard output.
    pub format: OutputFormat,
    styles: Styles,
    quiet: bool,
    verbose: bool,
    logs: LogFormat,
}

impl Terminal {
    /// What the global options ask for.
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        Self {
            format: global.output,
            styles: Styles::for_stderr(global.color),
            quiet: global.quiet,
            verbose: global.verbose > 0,
            logs: LogFormat::Text,
        }
    }

    /// The same for a daemon, whose messages are a log.
    pub(crate) fn logging(&self, logs: LogFormat) -> Self {
        Self { logs, ..self.clone() }
    }

    /// Writes text to standard output and flushes it, so that a full disk is noticed. Control characters are escaped.
    ///
    /// # Errors
    /// Where standard output does not take it; a reader that went away ends the command in success.
    pub(crate) fn data(&self, text: &str) -> Result<(), CliError> {
        self.raw(&escaped(text))
    }

    /// Writes text to standard output as it is: JSON, or output that a program has written for a terminal.
    ///
    /// # Errors
    /// As [`Terminal::data`].
    pub(crate) fn raw(&self, text: &str) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CliError::stdout)
    }

    /// Lets `write` stream data to standard output.
    ///
    /// # Errors
    /// As [`Terminal::data`].
    pub(crate) fn stream<T>(
        &self,
        write: impl FnOnce(&mut dyn Write) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        let value = write(&mut out)?;
        out.flush().map_err(CliError::stdout)?;
        Ok(value)
    }

    /// Writes a value to standard output as indented JSON.
    ///
    /// # Errors
    /// As [`Terminal::data`].
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| CliError::new(ErrorKind::Internal, "cannot write JSON").caused_by(error))?;
        self.raw(&(text + "\n"))
    }

    /// Writes a document's fields to standard output as tab-separated names and values.
    ///
    /// # Errors
    /// As [`Terminal::data`].
    pub(crate) fn fields(&self, value: &impl Serialize) -> Result<(), CliError> {
        let document = serde_json::to_value(value)
            .map_err(|error| CliError::new(ErrorKind::Internal, "cannot write JSON").caused_by(error))?;
        self.rows(&Grid::of_fields(&document).to_plain())
    }

    /// Writes tab-separated lines to standard output, with `--output csv` as CSV.
    ///
    /// # Errors
    /// As [`Terminal::data`].
    pub(crate) fn rows(&self, plain: &str) -> Result<(), CliError> {
        match self.format {
            OutputFormat::Csv => self.data(&wharf_report::table::csv(plain)),
            OutputFormat::Plain | OutputFormat::Table | OutputFormat::Json => self.data(plain),
        }
    }

    /// The same terminal, with CSV as its format where a command's `--csv` asks for it.
    pub(crate) fn with_csv(&self, is_csv: bool) -> Self {
        Self { format: if is_csv { OutputFormat::Csv } else { self.format }, ..self.clone() }
    }

    /// Writes a grid to standard output.
    ///
    /// # Errors
    /// As [`Terminal::data`].
    pub(crate) fn grid<const COLUMNS: usize>(&self, grid: &Grid<COLUMNS>) -> Result<(), CliError> {
        match self.format {
            OutputFormat::Plain => self.data(&grid.to_plain()),
            OutputFormat::Csv => self.data(&grid.to_csv()),
            OutputFormat::Table | OutputFormat::Json => self.data(&grid.to_text(stdout_width())),
        }
    }

    /// Writes runs to standard output in the form that was asked for.
    ///
    /// # Errors
    /// As [`Terminal::data`].
    pub(crate) fn report(&self, report: &Report) -> Result<(), CliError> {
        match self.format {
            OutputFormat::Json => self.json(report),
            OutputFormat::Plain | OutputFormat::Csv => self.rows(&report.table().to_plain()),
            OutputFormat::Table => self.data(&report.to_text()),
        }
    }

    /// Whether standard output is a terminal.
    pub(crate) fn is_watched(&self) -> bool {
        self.format == OutputFormat::Table && !self.quiet && io::stdout().is_terminal()
    }

    /// Writes curves of runs below their table.
    ///
    /// # Errors
    /// As [`Terminal::data`].
    pub(crate) fn sparklines(&self, runs: &[SparkRun]) -> Result<(), CliError> {
        match sparklines(runs, stdout_width().map_or(80, usize::from)) {
            text if text.is_empty() => Ok(()),
            text => self.data(&format!("\n{text}")),
        }
    }

    /// Tells something that is no data; `-q` silences it.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.stderr(&line(self.logs, "info", "", text));
        }
    }

    /// Asks something: the answer follows on the same line.
    pub(crate) fn ask(&self, text: &str) {
        self.stderr(&format!("{} ", escaped(text)));
    }

    /// The same for a part of something larger, whose notes matter only where `-v` asks for more.
    pub(crate) fn quieter(&self) -> Self {
        Self { quiet: !self.verbose, ..self.clone() }
    }

    /// Whether nothing but results and errors is wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Tells something only where `-v` asks for it.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose {
            self.stderr(&line(self.logs, "debug", "", text));
        }
    }

    /// Tells something that may be wrong; `-q` silences it.
    pub(crate) fn warn(&self, text: &str) {
        if !self.quiet {
            self.stderr(&line(self.logs, WARNING, &self.styles.warning("warning:").to_string(), text));
        }
    }

    /// Tells an error that is not the one the command ends with.
    pub(crate) fn error(&self, error: &CliError) {
        match self.logs {
            LogFormat::Text => self.stderr(&error.render(&self.styles)),
            LogFormat::Json => {
                let more = serde_json::json!({ "causes": error.causes(), "hints": error.hints() });
                self.stderr(&logged("error", &error.to_string(), more));
            }
        }
    }

    /// [`Terminal::warn`] for other threads.
    pub(crate) fn warner(&self) -> std::sync::Arc<dyn Fn(&str) + Send + Sync> {
        let (is_quiet, logs, label) = (self.quiet, self.logs, self.styles.warning("warning:").to_string());
        std::sync::Arc::new(move |text| {
            if !is_quiet {
                // If standard error is closed, there is no reader.
                let _ = std::io::stderr().write_all(line(logs, WARNING, &label, text).as_bytes());
            }
        })
    }

    /// How words are set off on standard error.
    pub(crate) fn styles(&self) -> &Styles {
        &self.styles
    }

    /// A progress bar of `length` steps, where a person is there to see it.
    pub(crate) fn progress(&self, length: u64, unit: &'static str) -> Progress {
        if self.quiet || !io::stderr().is_terminal() {
            Progress::hidden()
        } else {
            Progress::new(length, unit)
        }
    }

    // Standard error may be closed.
    fn stderr(&self, text: &str) {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

const WARNING: &str = "warning";

/// A line of a log: for people with its label, for programs with its time and level.
fn line(logs: LogFormat, level: &str, label: &str, text: &str) -> String {
    match logs {
        LogFormat::Text if label.is_empty() => format!("{}\n", escaped(text)),
        LogFormat::Text => format!("{label} {}\n", escaped(text)),
        LogFormat::Json => logged(level, text, serde_json::Value::Null),
    }
}

/// A line of a log for programs; `more` are fields beside the usual ones.
pub(super) fn logged(level: &str, text: &str, more: serde_json::Value) -> String {
    let mut line = serde_json::json!({ "time": now(), "level": level, "message": text });
    if let (Some(line), serde_json::Value::Object(more)) = (line.as_object_mut(), more) {
        line.extend(more);
    }
    format!("{line}\n")
}

/// The time as logs have it.
pub(super) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Columns of the terminal on standard output; `None` where it is none, so that lines are not broken.
fn stdout_width() -> Option<u16> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0)
}
