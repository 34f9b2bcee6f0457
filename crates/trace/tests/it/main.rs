//! What the crate promises to its users, in tables that can be read as documentation.

mod cluster;
mod gavel;
mod generator;
mod hostile;
mod lint_rules;
mod logs;
mod muri;
mod native;
mod stats;

use std::path::{Path, PathBuf};

/// A file of the shared data, or `None` with a loud word where the data is not on this machine.
fn shared_data(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(file);
    if path.exists() {
        return Some(path);
    }
    let mut err = std::io::stderr().lock();
    let _ = std::io::Write::write_all(&mut err, format!("DID NOT RUN: no {}\n", path.display()).as_bytes());
    None
}
