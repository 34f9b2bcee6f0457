//! The test suite: with cargo-nextest where it is installed, else with `cargo test`; and what came out of it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use wharf_testing::SKIPPED_FOLDER;

use crate::phases::{Outcome, succeeds};
use crate::{root, target, tell};

/// How many of the slowest tests the summary names.
const SLOWEST: usize = 10;
const BUILD: [&str; 4] = ["test", "--workspace", "--no-run", "--tests"];

/// Compiles all tests.
pub(crate) fn build() -> Result<(), String> {
    succeeds(crate::cargo().args(BUILD))
}

/// Runs all tests; the figures are counts, the slowest tests and the skipped tests.
pub(crate) fn run() -> Outcome {
    let folder = target().join("skipped");
    let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(cannot)?;
    }
    fs::create_dir_all(&folder).map_err(cannot)?;
    let tests = if has_nextest() { with_nextest(&folder)? } else { with_cargo(&folder)? };
    let skipped = skipped(&folder)?;
    let failed = tests.failed.len();
    let mut figures = vec![format!(
        "{} passed, {} skipped, {failed} failed",
        tests.count - failed - skipped.len().min(tests.count - failed),
        skipped.len()
    )];
    if !tests.slowest.is_empty() {
        figures.push("slowest:".to_owned());
        figures.extend(tests.slowest.iter().map(|(name, took_s)| format!("  {took_s:6.1} s  {name}")));
    }
    if !skipped.is_empty() {
        figures.push("skipped, because a component is missing:".to_owned());
        figures.extend(skipped.iter().map(|line| format!("  {line}")));
    }
    if failed == 0 && tests.is_success {
        return Ok(figures);
    }
    figures.extend(tests.failed.iter().map(|name| format!("FAILED {name}")));
    Err(figures.join("\n"))
}

struct Tests {
    count: usize,
    failed: Vec<String>,
    /// Names and seconds.
    slowest: Vec<(String, f64)>,
    is_success: bool,
}

/// cargo-nextest is faster and has time limits, but a fresh machine does not have it.
pub(crate) fn has_nextest() -> bool {
    let version = crate::cargo().args(["nextest", "--version"]).output();
    version.is_ok_and(|output| output.status.success())
}

fn with_nextest(skipped: &Path) -> Result<Tests, String> {
    let report = target().join("nextest/ci/junit.xml");
    // The report of an earlier run must not be taken for this run's.
    let _ = fs::remove_file(&report);
    let mut command = crate::cargo();
    command.args(["nextest", "run", "--workspace", "--profile", "ci"]).env(SKIPPED_FOLDER, skipped);
    let ended = succeeds(&mut command);
    let mut cases = cases(&report).map_err(|error| ended.clone().err().unwrap_or(error))?;
    cases.sort_by(|one, other| other.took_s.total_cmp(&one.took_s));
    Ok(Tests {
        count: cases.len(),
        failed: cases.iter().filter(|case| case.is_failed).map(|case| case.name.clone()).collect(),
        slowest: cases.iter().take(SLOWEST).map(|case| (case.name.clone(), case.took_s)).collect(),
        is_success: ended.is_ok(),
    })
}

/// The tests of a JUnit report.
pub(crate) fn cases(report: &Path) -> Result<Vec<Case>, String> {
    let text = fs::read_to_string(report).map_err(|error| format!("{}: {error}", report.display()))?;
    Ok(text.split("<testcase ").skip(1).map(Case::read).collect())
}

/// One test of a JUnit report.
pub(crate) struct Case {
    /// Its program, and its path there.
    pub(crate) name: String,
    pub(crate) took_s: f64,
    pub(crate) is_failed: bool,
}

impl Case {
    /// From the text after `<testcase `.
    fn read(text: &str) -> Self {
        let attributes = text.split('>').next().unwrap_or_default();
        let attribute = |name: &str| {
            let (_, rest) = format!(" {attributes}")
                .split_once(&format!(" {name}=\""))
                .map(|(before, rest)| (before.to_owned(), rest.to_owned()))?;
            rest.split('"').next().map(str::to_owned)
        };
        let part = |name| attribute(name).unwrap_or_default();
        Self {
            name: format!("{} {}", part("classname"), part("name")),
            took_s: part("time").parse().unwrap_or(0.0),
            is_failed: text.contains("<failure") || text.contains("<error"),
        }
    }
}

/// Counts from the lines that end each binary's tests.
fn with_cargo(skipped: &Path) -> Result<Tests, String> {
    let mut command = crate::cargo();
    command.args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]);
    command.env(SKIPPED_FOLDER, skipped).current_dir(root()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cargo test: {error}"))?;
    let mut tests = Tests { count: 0, failed: Vec::new(), slowest: Vec::new(), is_success: false };
    for line in BufReader::new(child.stdout.take().ok_or("cargo test has no output")?).lines() {
        let line = line.map_err(|error| format!("cargo test: {error}"))?;
        tell(&line);
        match line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) {
            Some((name, "FAILED")) => tests.failed.push(name.to_owned()),
            Some((_, "ok")) => {}
            _ => continue,
        }
        tests.count += 1;
    }
    tests.is_success = child.wait().map_err(|error| format!("cargo test: {error}"))?.success();
    Ok(tests)
}

/// The skipped tests, each with what is missing.
fn skipped(folder: &Path) -> Result<Vec<String>, String> {
    let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries: Result<Vec<PathBuf>, _> =
        fs::read_dir(folder).map_err(cannot)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut lines = Vec::new();
    for path in entries.map_err(cannot)? {
        let text = fs::read_to_string(&path).map_err(cannot)?;
        lines.push(text.trim().replacen('\n', ": ", 1));
    }
    lines.sort();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_read() {
        let text = r#"name="a::b" classname="wharf::it" timestamp="x" time="1.250">
            <failure type="test failure"/></testcase>"#;
        let case = Case::read(text);
        assert_eq!((case.name.as_str(), case.took_s, case.is_failed), ("wharf::it a::b", 1.25, true));
        assert!(!Case::read(r#"name="c" classname="x" time="0.1"></testcase>"#).is_failed);
    }
}
