//! The pre-flight of a change: format, lints and tests of the crates that differ from the last commit.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::phases::{Phases, cargo, none};
use crate::{Complaints, root, suite, tidy};

/// Runs it.
pub(crate) fn run() -> Complaints {
    let packages = match changed() {
        Ok(packages) => packages,
        Err(why) => return vec![why],
    };
    let names = packages.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let mut phases =
        Phases::begin(&format!("check: {}", if names.is_empty() { "no changed crate" } else { &names }));
    phases.phase("format", || cargo(&["fmt", "--all", "--check"]).map(|()| Vec::new()));
    phases.phase("tidiness", || none(&tidy::check(&root())));
    if !packages.is_empty() {
        let selected: Vec<&str> = packages.iter().flat_map(|name| ["--package", name]).collect();
        let lints = [&["clippy", "--all-targets"], &selected[..], &["--", "-D", "warnings"]].concat();
        phases.phase("lints", || cargo(&lints).map(|()| Vec::new()));
        let run: &[&str] =
            if suite::has_nextest() { &["nextest", "run", "--no-tests", "pass"] } else { &["test"] };
        let tests = [run, &selected[..], targets(&packages)].concat();
        phases.phase("tests", || cargo(&tests).map(|()| Vec::new()));
    }
    phases.end()
}

/// The targets that are tested: all, but not the tests of the program as a whole, which take minutes.
fn targets(packages: &BTreeSet<String>) -> &'static [&'static str] {
    if packages.contains("wharf") { &["--lib", "--bins"] } else { &[] }
}

/// Packages with files that differ from the last commit.
fn changed() -> Result<BTreeSet<String>, String> {
    let output = Command::new("git")
        .args(["status", "--porcelain", "--untracked-files=all"])
        .current_dir(root())
        .output();
    let output = output.map_err(|error| format!("git status: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut packages = BTreeSet::new();
    for path in text.lines().filter_map(|line| line.get(3..)) {
        let path = path.rsplit(" -> ").next().unwrap_or(path);
        let folder = match path.split('/').collect::<Vec<_>>()[..] {
            ["crates", name, ..] => root().join("crates").join(name),
            ["xtask", ..] => root().join("xtask"),
            _ => continue,
        };
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        packages.extend(name.map(str::to_owned));
    }
    Ok(packages)
}
