//! Python programs that are carried in the binary, so that they work wherever it does.

use std::fs;
use std::path::Path;

use crate::error::CliError;

/// Files, each with its place, which is the same as in the repository.
pub(crate) type Files = &'static [(&'static str, &'static str)];

macro_rules! carried {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../", $path)))),*]
    };
}

/// The demo's training programs, which find the SDK by its place.
pub(crate) const TRAINERS: Files = carried![
    "examples/trainers/common.py",
    "examples/trainers/embedding.py",
    "examples/trainers/jax_mlp.py",
    "examples/trainers/linear.py",
    "examples/trainers/logistic.py",
    "examples/trainers/mlp.py",
    "examples/trainers/plain.py",
    "examples/trainers/pytorch.py",
    "examples/trainers/pytorch_ddp.py",
];

/// The trainers' SDK.
pub(crate) const SDK: Files = carried![
    "python/wharf/__init__.py",
    "python/wharf/_checkpoints.py",
    "python/wharf/_files.py",
    "python/wharf/_lease.py",
    "python/wharf/_link.py",
    "python/wharf/_plan.py",
    "python/wharf/_points.py",
    "python/wharf/_run.py",
    "python/wharf/_signals.py",
    "python/wharf/policy.py",
    "python/wharf/py.typed",
];

/// What measures with JAX; a part of the SDK's package.
pub(crate) const PROFILER: Files = carried![
    "python/wharf/profiler/__init__.py",
    "python/wharf/profiler/__main__.py",
    "python/wharf/profiler/capture.py",
    "python/wharf/profiler/collectives.py",
    "python/wharf/profiler/layers.py",
    "python/wharf/profiler/model.py",
    "python/wharf/profiler/operators.py",
    "python/wharf/profiler/plans.py",
    "python/wharf/profiler/timing.py",
    "python/wharf/profiler/walk.py",
];

/// Puts files below a folder.
pub(crate) fn unpack(folder: &Path, files: Files) -> Result<(), CliError> {
    for (name, text) in files {
        let path = folder.join(name);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, text)).map_err(|error| CliError::write(&path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_carried() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for folder in ["examples/trainers", "python/wharf", "python/wharf/profiler"] {
            for entry in fs::read_dir(root.join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let path = format!("{folder}/{name}");
                let is_carried =
                    [TRAINERS, SDK, PROFILER].concat().iter().any(|(carried, _)| *carried == path);
                assert!(is_carried || !name.ends_with(".py"), "{path} is not in the binary");
            }
        }
    }
}
