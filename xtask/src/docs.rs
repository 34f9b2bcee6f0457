//! Documents that the program itself prints.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::phases::cargo;
use crate::{Complaints, target};

/// Each generated file with the words that print it.
const DOCUMENTS: [(&str, &[&str]); 3] = [
    ("docs/cli.md", &["help", "command-reference"]),
    ("docs/metrics.md", &["help", "run-metrics"]),
    ("docs/policies.md", &["help", "policy-reference"]),
];

/// Writes them.
pub(crate) fn write(root: &Path) -> Complaints {
    each(|name, text| {
        fs::write(root.join(name), text).err().map(|error| format!("cannot write {name}: {error}"))
    })
}

/// Compares them.
pub(crate) fn check(root: &Path) -> Complaints {
    each(|name, text| {
        let found = fs::read_to_string(root.join(name)).unwrap_or_default();
        (found != text).then(|| format!("{name} is not up to date: run `cargo xtask docs`"))
    })
}

fn each(look: impl Fn(&str, &str) -> Option<String>) -> Complaints {
    if let Err(why) = cargo(&["build", "--package", "wharf"]) {
        return vec![why];
    }
    DOCUMENTS
        .iter()
        .filter_map(|(name, words)| printed(words).map_or_else(Some, |text| look(name, &text)))
        .collect()
}

fn printed(words: &[&str]) -> Result<String, String> {
    let output =
        Command::new(target().join("debug/wharf")).args(words).env("WHARF_CONFIG", "/dev/null").output();
    let output = output.map_err(|error| format!("wharf {}: {error}", words.join(" ")))?;
    if !output.status.success() {
        return Err(format!("wharf {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}
