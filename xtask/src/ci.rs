//! Everything that must hold for a change.

use std::process::Command;

use crate::{Complaints, docs, root, tell, tidy};

/// Runs all steps, also after one failed, so that one look shows everything.
pub(crate) fn run() -> Complaints {
    let mut complaints = Vec::new();
    let tests: &[&str] = if has_nextest() {
        &["nextest", "run", "--workspace", "--profile", "ci"]
    } else {
        &["test", "--workspace", "--lib", "--bins", "--tests"]
    };
    let steps: [(&str, &[&str]); 4] = [
        ("format", &["fmt", "--all", "--check"]),
        ("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        ("tests", tests),
        ("doctests", &["test", "--workspace", "--doc", "--quiet"]),
    ];
    for (name, arguments) in steps {
        tell(&format!("== {name}: cargo {}", arguments.join(" ")));
        complaints.extend(cargo(arguments).err());
    }
    complaints.extend(trainers().err());
    tell("== documents");
    complaints.extend(docs::check(&root()));
    tell("== tidiness");
    complaints.extend(tidy::check(&root()));
    tell(if complaints.is_empty() { "== all holds" } else { "== failed:" });
    complaints
}

fn cargo(arguments: &[&str]) -> Result<(), String> {
    let failed = |why: String| format!("cargo {}: {why}", arguments.join(" "));
    let status = Command::new(env!("CARGO")).args(arguments).current_dir(root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(status.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The trainers' side is Python: its own tests, and those of the examples.
fn trainers() -> Result<(), String> {
    // One that has JAX runs the profiler's tests, too.
    let python = std::env::var("WHARF_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    tell(&format!("== trainers: {python} -m unittest discover -s python/tests"));
    let python = |arguments: &[&str]| Command::new(&python).args(arguments).current_dir(root()).status();
    if !python(&["-c", "import sys; sys.exit(sys.version_info < (3, 8))"])
        .is_ok_and(|status| status.success())
    {
        tell("== NOT RUN: the trainers' tests need python3, 3.8 or newer");
        return Ok(());
    }
    // Without files beside the sources, which would be taken for sources.
    match python(&["-B", "-W", "error", "-m", "unittest", "discover", "-s", "python/tests"]) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the trainers' tests: {status}")),
        Err(error) => Err(format!("the trainers' tests: {error}")),
    }
}

/// cargo-nextest is faster and has time limits, but a fresh machine does not have it.
fn has_nextest() -> bool {
    let version = Command::new(env!("CARGO")).args(["nextest", "--version"]).output();
    version.is_ok_and(|output| output.status.success())
}
