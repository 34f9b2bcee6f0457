//! Paths in the documents for contributors: a guide that names files has to name those that there are.

use std::fs;
use std::path::Path;

use crate::Complaints;

/// The documents that are checked.
const DOCUMENTS: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/structure.md"];

/// The beginnings of paths from the root of the repository.
const ROOTS: [&str; 8] =
    ["crates/", "docs/", "examples/", "presets/", "python/", "scenarios/", "tools/", "xtask/"];

/// Complains about paths that do not exist.
pub(crate) fn check(root: &Path, complaints: &mut Complaints) {
    for document in DOCUMENTS {
        let text = fs::read_to_string(root.join(document)).unwrap_or_default();
        for (line, path) in paths(&text).into_iter().filter(|(_, path)| !root.join(path).exists()) {
            complaints.push(format!("{document}:{line}: there is no `{path}`"));
        }
    }
}

/// Paths in backticks with their lines, without those that have placeholders (`NAME`) or patterns.
fn paths(text: &str) -> Vec<(usize, &str)> {
    let is_path = |path: &str| ROOTS.iter().any(|start| path.starts_with(start));
    let is_pattern = |path: &str| path.contains("NAME") || path.contains(['*', '<', '{', ' ']);
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let quoted = line.split('`').skip(1).step_by(2);
        found.extend(quoted.filter(|path| is_path(path) && !is_pattern(path)).map(|path| (index + 1, path)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_in_backticks_from_the_root() {
        let text = "`crates/a/b.rs` and `mod.rs`\ncrates/c `crates/NAME.rs` `docs/x.md`, `tools/*`\n";
        assert_eq!(paths(text), [(1, "crates/a/b.rs"), (2, "docs/x.md")]);
    }
}
