//! Reference data beside the project, which tests read and the project does not contain.

use std::path::{Path, PathBuf};

/// A file or folder of it; says loudly where it is not there.
pub(crate) fn shared_data(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(file);
    if path.exists() {
        return Some(path);
    }
    let mut err = std::io::stderr().lock();
    let _ = std::io::Write::write_all(&mut err, format!("DID NOT RUN: no {}\n", path.display()).as_bytes());
    None
}
