//! The map of `ARCHITECTURE.md`: files and folders that it names exist, and it has a row for every crate.

use std::path::{Path, PathBuf};

use crate::Complaints;

/// The document.
pub(crate) const DOCUMENT: &str = "ARCHITECTURE.md";

/// Endings of names that are files.
const ENDINGS: [&str; 5] = [".rs", ".py", ".sh", ".md", ".toml"];

/// Checks the document against the files of the repository.
pub(crate) fn check(document: &str, root: &Path, files: &[PathBuf], complaints: &mut Complaints) {
    let files: Vec<&Path> = files.iter().filter_map(|file| file.strip_prefix(root).ok()).collect();
    for (index, line) in document.lines().enumerate() {
        for name in line.split('`').skip(1).step_by(2).filter(|name| is_path(name)) {
            if !files.iter().any(|file| has_suffix(file, Path::new(name))) {
                complaints.push(format!("{DOCUMENT}:{}: there is no `{name}`", index + 1));
            }
        }
    }
    for file in files {
        let Some(name) = crate_of(file) else { continue };
        if !document.contains(&format!("| `crates/{name}` |")) {
            complaints.push(format!("{DOCUMENT}: no row for `crates/{name}`"));
        }
    }
}

/// Whether a quoted name is a file or a folder, and not a pattern or a file of another place.
fn is_path(name: &str) -> bool {
    let is_file = ENDINGS.iter().any(|ending| name.ends_with(ending));
    let is_elsewhere =
        name.contains(['*', ' ', '<']) || name.starts_with("..") || name.starts_with("target/");
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

    fn complaints(document: &str) -> Complaints {
        let files = ["crates/head/Cargo.toml", "crates/head/src/jobs/submit.rs", "docs/a.md"];
        let files: Vec<PathBuf> = files.iter().map(|file| Path::new("/r").join(file)).collect();
        let mut complaints = Vec::new();
        check(document, Path::new("/r"), &files, &mut complaints);
        complaints
    }

    #[test]
    fn names_of_files_and_folders_are_accepted_by_their_last_components() {
        let document = "| `crates/head` |\n`jobs/submit.rs`, `head/src/jobs/`, `docs/a.md`, `a/*.rs`, `JobSpec`, `../x.rs`";
        assert_eq!(complaints(document), Vec::<String>::new());
    }

    #[test]
    fn missing_file_is_reported_with_its_line() {
        let document = "| `crates/head` |\n`obs/submit.rs` and `journal/`";
        let expected = ["there is no `obs/submit.rs`", "there is no `journal/`"];
        assert_eq!(complaints(document), expected.map(|what| format!("{DOCUMENT}:2: {what}")));
    }

    #[test]
    fn crate_without_a_row_is_reported() {
        assert_eq!(complaints("`crates/head`"), ["ARCHITECTURE.md: no row for `crates/head`"]);
    }
}
