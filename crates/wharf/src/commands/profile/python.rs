//! The profiler's process, from the program embedded in the binary.

use std::path::Path;

use wharf_profiler::Profiler;

use crate::carried;
use crate::error::CliError;
use crate::interrupt;

/// Starts the profiler. A signal ends it from now on, and answers end with it.
pub(super) fn start(python: &Path) -> Result<Profiler, CliError> {
    let folder = tempfile::tempdir().map_err(|error| CliError::write(&std::env::temp_dir(), error))?;
    carried::unpack(folder.path(), carried::SDK)?;
    carried::unpack(folder.path(), carried::PROFILER)?;
    let profiler = Profiler::start(python, folder)?;
    let handle = profiler.handle();
    interrupt::handle_with(move || handle.interrupt());
    Ok(profiler)
}
