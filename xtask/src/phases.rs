//! Phases of a longer run: each prints its name and its duration, all run whatever failed before, and a table ends the run.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::{Complaints, root, tell};

/// What a phase measured, or why it failed.
pub(crate) type Outcome = Result<Vec<String>, String>;

struct Row {
    name: String,
    took: Duration,
    outcome: Outcome,
}

/// A run.
pub(crate) struct Phases {
    begun: Instant,
    rows: Vec<Row>,
}

impl Phases {
    /// Begins one, with its first line.
    pub(crate) fn begin(what: &str) -> Self {
        tell(&format!("== {what}"));
        Self { begun: Instant::now(), rows: Vec::new() }
    }

    /// Runs a phase to its end.
    pub(crate) fn phase(&mut self, name: &str, work: impl FnOnce() -> Outcome) {
        tell(&format!("\n== {name} (after {})", duration(self.begun.elapsed())));
        let begun = Instant::now();
        let outcome = work();
        let took = begun.elapsed();
        match &outcome {
            Ok(_) => tell(&format!("== {name}: ok, {}", duration(took))),
            Err(why) => tell(&format!("== {name}: FAILED after {}: {why}", duration(took))),
        }
        self.rows.push(Row { name: name.to_owned(), took, outcome });
    }

    /// Prints the table; returns what failed.
    pub(crate) fn end(self) -> Complaints {
        tell("\n== summary");
        let width = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        for row in &self.rows {
            let state = if row.outcome.is_ok() { "ok" } else { "FAILED" };
            let lines = match &row.outcome {
                Ok(figures) => figures.clone(),
                Err(why) => vec![why.clone()],
            };
            let mut lines = lines.iter().flat_map(|line| line.lines());
            let first = lines.next().unwrap_or_default();
            tell(format!("{:width$}  {state:6}  {:>9}  {first}", row.name, duration(row.took)).trim_end());
            for line in lines {
                tell(&format!("{:width$}  {:6}  {:>9}  {line}", "", "", ""));
            }
        }
        tell(&format!("{:width$}  {:6}  {:>9}", "all", "", duration(self.begun.elapsed())));
        let failed = self.rows.iter().filter(|row| row.outcome.is_err());
        failed.map(|row| format!("failed: {}", row.name)).collect()
    }
}

fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{} min {:02} s", duration.as_secs() / 60, duration.as_secs() % 60)
    }
}

/// Runs a program with this process's output; its end must be a success.
pub(crate) fn succeeds(command: &mut Command) -> Result<(), String> {
    let line = std::iter::once(command.get_program()).chain(command.get_args());
    let line = line.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    match command.current_dir(root()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}`: {status}")),
        Err(error) => Err(format!("`{line}`: {error}")),
    }
}

/// A success where there is no complaint.
pub(crate) fn none(complaints: &[String]) -> Outcome {
    if complaints.is_empty() { Ok(Vec::new()) } else { Err(complaints.join("\n")) }
}

/// Runs cargo.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), String> {
    succeeds(crate::cargo().args(arguments))
}
