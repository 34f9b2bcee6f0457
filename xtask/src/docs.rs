//! Documents that are generated from the program itself.

use std::fs;
use std::path::Path;

use crate::Complaints;

/// Each generated file with its text.
fn documents() -> Vec<(&'static str, String)> {
    vec![
        ("docs/cli.md", wharf_cli::reference::markdown()),
        ("docs/policies.md", wharf_cli::reference::policies_markdown()),
    ]
}

/// Writes them.
pub(crate) fn write(root: &Path) -> Complaints {
    let write = |(name, text): (&str, String)| {
        let path = root.join(name);
        let folder = path.parent().unwrap_or(root);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text));
        written.err().map(|error| format!("cannot write {name}: {error}"))
    };
    documents().into_iter().filter_map(write).collect()
}

/// Says which are not up to date.
pub(crate) fn check(root: &Path) -> Complaints {
    let differs = |(name, text): (&str, String)| {
        let found = fs::read_to_string(root.join(name)).unwrap_or_default();
        (found != text).then(|| format!("{name} is not up to date: run `cargo xtask docs`"))
    };
    documents().into_iter().filter_map(differs).collect()
}
