//! The training programs that the demo runs, carried in the binary so that it works anywhere.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::CliError;

macro_rules! carried {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../../", $path)))),*]
    };
}

/// Each file with its place, which is the same as in the repository: the trainers find the SDK by it.
pub(super) const CARRIED: &[(&str, &str)] = carried![
    "examples/trainers/common.py",
    "examples/trainers/embedding.py",
    "examples/trainers/linear.py",
    "examples/trainers/logistic.py",
    "examples/trainers/mlp.py",
    "examples/trainers/plain.py",
    "python/wharf/__init__.py",
    "python/wharf/_files.py",
    "python/wharf/_lease.py",
    "python/wharf/_link.py",
    "python/wharf/_plan.py",
    "python/wharf/_run.py",
    "python/wharf/_signals.py",
];

/// Puts all of them below a folder.
pub(super) fn unpack(folder: &Path) -> Result<(), CliError> {
    for (name, text) in CARRIED {
        let path = folder.join(name);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, text)).map_err(|error| CliError::write(&path, error))?;
    }
    Ok(())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_sdk_and_of_the_trainers_is_carried() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for folder in ["examples/trainers", "python/wharf"] {
            for entry in fs::read_dir(root.join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let path = format!("{folder}/{name}");
                let is_carried = CARRIED.iter().any(|(carried, _)| *carried == path);
                assert!(is_carried || !name.ends_with(".py"), "{path} is not in the binary");
            }
        }
    }
}
