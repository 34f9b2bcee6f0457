//! The Python that the demo's training programs need.

use std::process::{Command, Stdio};

use crate::error::CliError;

/// Makes sure that there is a Python that can run them.
pub(super) fn check_python() -> Result<(), CliError> {
    let fix = "install it (Debian and Ubuntu: `apt install python3`; macOS: `brew install python`), or try \
               `wharf demo --simulate`, which needs none";
    let probe = Command::new("python3")
        .args(["-c", "import sys; sys.exit(sys.version_info < (3, 8))"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match probe {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(CliError::input("the demo's training jobs need Python 3.8 or later").hint(fix)),
        Err(error) => {
            Err(CliError::input("the demo's training jobs need `python3`").caused_by(error).hint(fix))
        }
    }
}
