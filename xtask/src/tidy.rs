//! Mechanical rules: what a reviewer should not have to search for.

use std::fs;
use std::path::{Path, PathBuf};

use crate::variables::{DOCUMENT, Variables};
use crate::{Complaints, map, phrases};

/// Longer files are to be split.
const LINES_MAX: usize = 600;

/// How files begin that a tool wrote: their style is the tool's.
const GENERATED: &str = "// This file is @generated";

/// Folders that hold no sources of ours.
const SKIPPED: &[&str] = &[".git", "target", "out", "node_modules", "__pycache__"];

/// A folder whose code is a function of its arguments.
const PURE: &str = "crates/slurm/src/grammar/";

/// What its code does not use.
const IMPURE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "std::time",
    "tokio",
    "wharf_",
    "Zoned::now",
    "Timestamp::now",
];

/// Checks every file of the workspace.
pub(crate) fn check(root: &Path) -> Complaints {
    let mut files = Vec::new();
    collect(root, &mut files);
    files.sort();
    let mut complaints = Vec::new();
    let mut variables = Variables::default();
    for file in &files {
        let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
        let Ok(text) = fs::read_to_string(file) else { continue };
        check_text(&name, &text, &mut complaints);
        phrases::check(&name, &text, &mut complaints);
        variables.collect(&name, &text);
        if name.ends_with(".rs") && !text.starts_with(GENERATED) {
            check_rust(&name, &text, &mut complaints);
            check_is_used(file, &name, &mut complaints);
        }
    }
    let reference = fs::read_to_string(root.join(DOCUMENT)).unwrap_or_default();
    variables.check(&reference, &mut complaints);
    map::check(root, &files, &mut complaints);
    complaints.extend(crate::flows::check());
    complaints
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if !SKIPPED.iter().any(|skipped| name == *skipped) {
                collect(&path, files);
            }
        } else {
            files.push(path);
        }
    }
}

fn check_text(name: &str, text: &str, complaints: &mut Complaints) {
    let is_prose = [".rs", ".md", ".toml", ".sh", ".css", ".js", ".py", ".yaml"]
        .iter()
        .any(|ending| name.ends_with(ending));
    if !is_prose && !name.starts_with(".ci/") {
        return;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        complaints.push(format!("{name}: no newline at the end"));
    }
    for (index, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", index + 1);
        if line.ends_with([' ', '\t']) && !name.ends_with(".md") {
            complaints.push(format!("{place}: blank at the end of the line"));
        }
        // Written apart, or this file would complain about itself.
        let machine_paths =
            [concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/wo", "rk/"), concat!("/ro", "ot/")];
        if machine_paths.iter().any(|path| is_path_start(line, path)) {
            complaints.push(format!("{place}: a machine-specific absolute path"));
        }
    }
}

/// Whether an absolute path begins with `start`; in the middle of a relative one it does not count.
fn is_path_start(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(index, _)| {
        let before = line[..index].chars().next_back();
        before.is_none_or(|letter| !letter.is_alphanumeric() && !"._-/}~$".contains(letter))
    })
}

fn check_rust(name: &str, text: &str, complaints: &mut Complaints) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        complaints.push(format!("{name}: {lines} lines, at most {LINES_MAX}"));
    }
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if !first.starts_with("//!") && !first.starts_with("#![") {
        complaints.push(format!("{name}: does not begin with a module comment (`//!`)"));
    }
    let banned = [
        (concat!("#[ig", "nore"), "a test that is not run is no test"),
        (concat!("#[al", "low("), "use `#[expect(..., reason = \"...\")]`"),
        (concat!("thread::sle", "ep("), "wait for a condition"),
        (concat!("TO", "DO"), "do it, or open an issue"),
        (concat!("FIX", "ME"), "fix it, or open an issue"),
    ];
    if name.starts_with(PURE) {
        for (index, line) in text.lines().enumerate() {
            if let Some(word) = IMPURE.iter().find(|word| line.contains(**word)) {
                complaints.push(format!("{name}:{}: `{word}`: {PURE} is a grammar without I/O", index + 1));
            }
        }
    }
    for (index, line) in text.lines().enumerate() {
        for (word, why) in banned {
            if line.contains(word) {
                complaints.push(format!("{name}:{}: `{word}`: {why}", index + 1));
            }
        }
    }
}

/// A source file that no module names is never compiled.
fn check_is_used(file: &Path, name: &str, complaints: &mut Complaints) {
    let (Some(stem), Some(folder)) = (file.file_stem().and_then(|stem| stem.to_str()), file.parent()) else {
        return;
    };
    let is_root = ["main", "lib", "build"].contains(&stem)
        || ["tests", "benches", "examples"].iter().any(|kind| folder.ends_with(kind));
    if is_root {
        return;
    }
    let (module, parents) = if stem == "mod" {
        let module = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        (module, parent_files(folder.parent().unwrap_or(folder)))
    } else {
        (stem, parent_files(folder))
    };
    let declares = |text: String| {
        text.lines().any(|line| line.trim_start().trim_end_matches(';').ends_with(&format!("mod {module}")))
    };
    let is_declared = parents.iter().any(|parent| fs::read_to_string(parent).is_ok_and(declares));
    if !is_declared {
        complaints.push(format!("{name}: no `mod {module};` names this file"));
    }
}

/// Files that may declare the modules in a folder.
fn parent_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = ["mod.rs", "lib.rs", "main.rs"].map(|name| folder.join(name)).to_vec();
    files.push(folder.with_extension("rs"));
    // Shared code of integration tests and benches is declared by each of them.
    let beside = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files.extend(beside.filter(|path| path.extension().is_some_and(|ending| ending == "rs")));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_is_tidy() {
        assert_eq!(check(&crate::root()), Vec::<String>::new());
    }

    #[test]
    fn machine_paths_are_distinguished_from_others() {
        let home = concat!("/ho", "me/");
        assert!(is_path_start(&format!("see {home}x"), home));
        assert!(!is_path_start(&format!("docs{home}x"), home));
    }
}
