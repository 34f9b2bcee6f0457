//! What tests use: the table of real components, the declaration of what a test needs, and private instances of components.
//!
//! A test declares its needs in its first line:
//!
//! ```ignore
//! #[test]
//! fn image_is_pulled() {
//!     needs!(PODMAN, BUSYBOX);
//!     // ...
//! }
//! ```
//!
//! Where a component is missing, the test fails under `CI=true` and is recorded as skipped otherwise, with the package to install
//! in both cases. `cargo xtask components` prints and installs what is missing.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be set up fails its test")]

pub mod component;
#[cfg(feature = "fixtures")]
pub mod engines;
#[cfg(feature = "fixtures")]
pub mod machine;
#[cfg(feature = "fixtures")]
pub mod moto;
mod needs;
mod probe;
#[cfg(feature = "fixtures")]
pub mod slurm;
#[cfg(feature = "fixtures")]
pub mod sshd;

use std::path::{Path, PathBuf};

pub use needs::{SKIPPED_FOLDER, are_met};
pub use probe::{find, installed_files, run};

/// Declares the components of a test: the test ends here where one is missing, as failed under `CI=true`, as skipped otherwise.
///
/// The names are those of [`component`].
#[macro_export]
macro_rules! needs {
    ($($component:ident),+ $(,)?) => {
        if !$crate::are_met(&[$(&$crate::component::$component),+]) {
            return;
        }
    };
}

/// The root folder of the workspace.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// A file or folder of the reference data, which lies beside the workspace; see [`component::REFERENCE`].
pub fn reference(path: &str) -> PathBuf {
    workspace().join("../shared/data").join(path)
}
