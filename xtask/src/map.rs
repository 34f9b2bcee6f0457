//! Paths in the documents for contributors: files and folders that they name exist, and `ARCHITECTURE.md` has a row for every crate.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Complaints;

/// The documents whose paths are checked; the first is the map of all crates.
const DOCUMENTS: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/structure.md"];

/// Endings of names that are files.
const ENDINGS: [&str; 5] = [".rs", ".py", ".sh", ".md", ".toml"];

/// Checks the documents against the files of the repository.
pub(crate) fn check(root: &Path, files: &[PathBuf], complaints: &mut Complaints) {
    let files: Vec<&Path> = files.iter().filter_map(|file| file.strip_prefix(root).ok()).collect();
    for (index, name) in DOCUMENTS.into_iter().enumerate() {
        let text = fs::read_to_string(root.join(name)).unwrap_or_default();
        check_paths(name, &text, &files, complaints);
        if index == 0 {
            check_rows(name, &text, &files, complaints);
        }
    }
}

fn check_paths(document: &str, text: &str, files: &[&Path], complaints: &mut Complaints) {
    for (index, line) in text.lines().enumerate() {
        for name in line.split('`').skip(1).step_by(2).filter(|name| is_path(name)) {
            if !files.iter().any(|file| has_suffix(file, Path::new(name))) {
                complaints.push(format!("{document}:{}: there is no `{name}`", index + 1));
            }
        }
    }
}

fn check_rows(document: &str, text: &str, files: &[&Path], complaints: &mut Complaints) {
    for name in files.iter().filter_map(|file| crate_of(file)) {
        if !text.contains(&format!("| `crates/{name}` |")) {
            complaints.push(format!("{document}: no row for `crates/{name}`"));
        }
    }
}

/// Whether a quoted name is a file or a folder, and not a pattern or a file of another place.
fn is_path(name: &str) -> bool {
    let is_file = ENDINGS.iter().any(|ending| name.ends_with(ending));
    let is_elsewhere = name.contains(['*', ' ', '<', '{'])
        || name.contains("NAME")
        || name.starts_with("..")
        || name.starts_with("target/");
    (is_file || name.ends_with('/') || name.starts_with("crates/")) && !is_elsewhere
}

/// Whether a file, or a folder around it, ends with the components of a name.
fn has_suffix(file: &Path, name: &Path) -> bool {
    file.ancestors().any(|path| path.ends_with(name))
}

/// The name of the crate whose manifest a file is.
fn crate_of(file: &Path) -> Option<&str> {
    let inner = file.strip_prefix("crates").ok()?;
    inner.to_str()?.strip_suffix("/Cargo.toml").filter(|name| !name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 3] = ["crates/head/Cargo.toml", "crates/head/src/jobs/submit.rs", "docs/a.md"];

    fn complaints(check: fn(&str, &str, &[&Path], &mut Complaints), text: &str) -> Complaints {
        let mut complaints = Vec::new();
        check("map.md", text, &FILES.map(Path::new), &mut complaints);
        complaints
    }

    #[test]
    fn names_of_files_and_folders_are_accepted_by_their_last_components() {
        let text = "`jobs/submit.rs`, `head/src/jobs/`, `docs/a.md`, `a/*.rs`, `JobSpec`, `../x.rs`, `crates/NAME.rs`";
        assert_eq!(complaints(check_paths, text), Vec::<String>::new());
    }

    #[test]
    fn missing_file_is_reported_with_its_line() {
        let expected = ["there is no `obs/submit.rs`", "there is no `journal/`"];
        assert_eq!(
            complaints(check_paths, "`crates/head`\n`obs/submit.rs` and `journal/`"),
            expected.map(|what| format!("map.md:2: {what}"))
        );
    }

    #[test]
    fn crate_without_a_row_is_reported() {
        assert_eq!(complaints(check_rows, "| `crates/head` |"), Vec::<String>::new());
        assert_eq!(complaints(check_rows, "`crates/head`"), ["map.md: no row for `crates/head`"]);
    }
}
