//! `file_mounts`: what is copied to every node.

use std::path::{Path, PathBuf};

use wharf_document::decode::Problem;
use wharf_document::node::Value;

use super::section::Section;
use super::{Findings, Provider, placeholders};

/// A file or a folder that every node gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where on the node; `~` is the user's home there.
    pub remote: String,
    /// Where here.
    pub local: PathBuf,
}

/// Reads them; relative sources are below the file's `folder`.
pub(super) fn read(
    section: &Section<'_>,
    folder: &Path,
    provider: Provider,
    has_containers: bool,
    findings: &mut Findings,
) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for entry in section.entries() {
        let at = section.path(&entry.key);
        let Value::Text(source) = &entry.value.value else {
            findings.problems.push(Problem::expected(&entry.value, &at, "a file or folder of this machine"));
            continue;
        };
        let local = folder.join(expand(source));
        if let Some(problem) = placeholders::in_path(&entry.value, &at, source).filter(|_| !local.exists()) {
            findings.problems.push(problem);
            continue;
        }
        let mut refuse = |message: String| findings.problems.push(Problem::new(&entry.value, &at, message));
        if !local.exists() {
            refuse(format!("there is no `{}` on this machine", local.display()));
        } else if !is_target(&entry.key) {
            refuse("the target must begin with `/` or `~/`, and go nowhere up".to_owned());
        } else if has_containers && entry.key.contains(':') {
            refuse("a target in a container has no `:`".to_owned());
        } else if provider == Provider::Process && !has_containers && entry.key.starts_with('/') {
            refuse(
                "nodes of the provider `process` share this machine's files: write the target below `~/`"
                    .to_owned(),
            );
        } else {
            mounts.push(Mount { remote: entry.key.clone(), local });
        }
    }
    mounts
}

/// A path with the home instead of `~`.
pub(super) fn expand(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(path),
    }
}

pub(super) fn is_target(path: &str) -> bool {
    let is_below = path.starts_with('/') || path.starts_with("~/");
    is_below
        && path != "/"
        && path != "~/"
        && !path.split('/').any(|part| part == "..")
        && !path.contains(['\n', '\0'])
}
