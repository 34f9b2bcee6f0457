//! The flows of the documents whose users Wharf is for: what is done there, what it is here, and the tests that do it.
//!
//! They are the tables of `examples/workflows/*/README.md`. The third column names tests; `stand-in` marks those that have something instead of
//! a GPU or a cloud and check the exact words that it is given. A row without a test has nothing that could be done.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::phases::{Outcome, succeeds};
use crate::suite::{Case, cases};
use crate::{root, target};

/// Rows with a test; fewer mean that a document was lost.
const FLOWS_MIN: usize = 64;
/// What a row has that needs no test.
const NOTHING: &str = "nothing to do";
const HEADER: [&str; 3] = ["there", "here", "checked by"];

/// One row.
#[derive(Debug, PartialEq, Eq)]
struct Flow {
    document: String,
    there: String,
    here: String,
    tests: Vec<String>,
    has_stand_in: bool,
}

/// Reads the rows of a document; complains about those that state nothing.
fn read(document: &str, text: &str, complaints: &mut Vec<String>) -> Vec<Flow> {
    let mut flows = Vec::new();
    let mut is_table = false;
    for (index, line) in text.lines().enumerate() {
        let row = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
        let Some(cells) = row.map(cells) else {
            is_table = false;
            continue;
        };
        if cells == HEADER {
            is_table = true;
            continue;
        }
        if !is_table || cells.iter().all(|cell| cell.chars().all(|character| character == '-')) {
            continue;
        }
        let [there, here, checked] = &cells[..] else {
            complaints.push(format!("{document}:{}: {} cells in place of 3", index + 1, cells.len()));
            continue;
        };
        let tests: Vec<String> = checked.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        if tests.is_empty() && checked != NOTHING {
            complaints.push(format!("{document}:{}: names no test, and not `{NOTHING}`", index + 1));
        }
        flows.push(Flow {
            document: document.to_owned(),
            there: there.clone(),
            here: here.clone(),
            tests,
            has_stand_in: checked.contains("stand-in"),
        });
    }
    flows
}

/// The cells of a row; `\|` is a character of one.
fn cells(row: &str) -> Vec<String> {
    row.replace("\\|", "\0").split('|').map(|cell| cell.trim().replace('\0', "\\|")).collect()
}

/// All flows, and what is wrong with their tables.
fn all() -> (Vec<Flow>, Vec<String>) {
    let (mut flows, mut complaints) = (Vec::new(), Vec::new());
    let folder = root().join("examples/workflows");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    for name in names {
        match fs::read_to_string(folder.join(&name).join("README.md")) {
            Ok(text) => flows.extend(read(&name, &text, &mut complaints)),
            Err(error) => complaints.push(format!("examples/workflows/{name}/README.md: {error}")),
        }
    }
    let count = flows.iter().filter(|flow| !flow.tests.is_empty()).count();
    if count < FLOWS_MIN {
        complaints
            .push(format!("examples/workflows: {count} flows have tests, at least {FLOWS_MIN} are expected"));
    }
    (flows, complaints)
}

/// Complains about tables that are malformed, and about tests that do not exist.
pub(crate) fn check() -> Vec<String> {
    let (flows, mut complaints) = all();
    let mut sources = String::new();
    read_sources(&root().join("crates"), &mut sources);
    for flow in &flows {
        for test in flow.tests.iter().filter(|test| !sources.contains(&format!("fn {test}("))) {
            complaints
                .push(format!("examples/workflows/{}/README.md: there is no test `{test}`", flow.document));
        }
    }
    complaints
}

fn read_sources(folder: &Path, sources: &mut String) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            read_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

/// Runs the tests of all flows, writes the table with their results, and fails where one was not executed or failed.
pub(crate) fn run() -> Outcome {
    let (flows, complaints) = all();
    if !complaints.is_empty() {
        return Err(complaints.join("\n"));
    }
    let mut names: Vec<&str> = flows.iter().flat_map(|flow| &flow.tests).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let report = target().join("nextest/full/junit.xml");
    // The report of an earlier run must not be taken for this run's.
    let _ = fs::remove_file(&report);
    let mut command = crate::cargo();
    command.args(["nextest", "run", "--workspace", "--profile", "full", "--ignore-default-filter"]);
    command.args(["--test-threads", "2", "--filterset", &format!("test(/(^|::)({})$/)", names.join("|"))]);
    // A test whose component is missing fails.
    command.env("WHARF_WORKFLOWS", "full").env("CI", "true");
    let ended = succeeds(&mut command);
    let cases = cases(&report).map_err(|error| ended.err().unwrap_or(error))?;
    let results: BTreeMap<&str, &Case> =
        cases.iter().map(|case| (case.name.rsplit([':', ' ']).next().unwrap_or_default(), case)).collect();
    let (table, figures, failed) = table(&flows, &results);
    let path = target().join("artifacts/flows.md");
    let write = || {
        fs::create_dir_all(target().join("artifacts"))?;
        fs::write(&path, table)
    };
    write().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))?;
    if failed.is_empty() { Ok(figures) } else { Err([figures, failed].concat().join("\n")) }
}

/// The table in Markdown, its figures, and the flows that did not pass.
fn table(flows: &[Flow], results: &BTreeMap<&str, &Case>) -> (String, Vec<String>, Vec<String>) {
    let mut text =
        "# Flows\n\n| document | there | here | result | tests |\n|---|---|---|---|---|\n".to_owned();
    let (mut passed, mut stand_ins, mut nothing, mut failed) = (0, 0, 0, Vec::new());
    for flow in flows {
        let bad: Vec<String> = flow.tests.iter().filter_map(|test| bad(test, results)).collect();
        let result = match (flow.tests.is_empty(), bad.is_empty(), flow.has_stand_in) {
            (true, ..) => {
                nothing += 1;
                NOTHING
            }
            (_, false, _) => {
                failed.push(format!("{}: {}: {}", flow.document, flow.there, bad.join(", ")));
                "FAILED"
            }
            (_, _, true) => {
                stand_ins += 1;
                "passed with a stand-in"
            }
            _ => {
                passed += 1;
                "passed"
            }
        };
        let tests = flow.tests.join(", ");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} | {} | {} | {result} | {tests} |", flow.document, flow.there, flow.here);
    }
    let figures = vec![format!(
        "{} flows: {passed} passed, {stand_ins} passed with a stand-in, {nothing} have nothing to do, {} failed",
        flows.len(),
        failed.len()
    )];
    (text, figures, failed)
}

/// Why a test does not count.
fn bad(test: &str, results: &BTreeMap<&str, &Case>) -> Option<String> {
    match results.get(test) {
        None => Some(format!("{test} was not executed")),
        Some(case) if case.is_failed => Some(format!("{test} failed")),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# Title

| there | here | checked by |
|---|---|---|
| `a \\| b` | `c` | `one`, `two` (stand-in) |
| d | not needed | nothing to do |
| e | f | by hand |
| g | h |

| other | table |
|---|---|
| x | y |
";

    #[test]
    fn rows_are_read_and_incomplete_ones_are_reported() {
        let mut complaints = Vec::new();
        let flows = read("doc", TEXT, &mut complaints);
        assert_eq!(flows.len(), 3);
        assert_eq!((flows[0].there.as_str(), flows[0].has_stand_in), ("`a \\| b`", true));
        assert_eq!(flows[0].tests, ["one", "two"]);
        assert!(flows[1].tests.is_empty());
        assert_eq!(
            complaints,
            ["doc:7: names no test, and not `nothing to do`", "doc:8: 2 cells in place of 3"]
        );
    }

    #[test]
    fn a_flow_passes_only_where_all_its_tests_were_executed_and_passed() {
        let flows = read("doc", TEXT, &mut Vec::new());
        let case = |name: &str, is_failed| Case { name: name.to_owned(), took_s: 0.1, is_failed };
        let (one, two, failing) = (case("one", false), case("two", false), case("two", true));
        let of = |results: &[(&'static str, &Case)]| {
            let results = results.iter().map(|(name, case)| (*name, *case)).collect();
            table(&flows[..2], &results)
        };
        let (text, figures, failed) = of(&[("one", &one), ("two", &two)]);
        assert!(text.contains("| passed with a stand-in | one, two |"), "{text}");
        assert_eq!(
            (figures[0].as_str(), failed.len()),
            ("2 flows: 0 passed, 1 passed with a stand-in, 1 have nothing to do, 0 failed", 0)
        );
        assert_eq!(of(&[("one", &one)]).2, ["doc: `a \\| b`: two was not executed"]);
        assert_eq!(of(&[("one", &one), ("two", &failing)]).2, ["doc: `a \\| b`: two failed"]);
    }
}
