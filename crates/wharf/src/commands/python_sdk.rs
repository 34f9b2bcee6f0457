//! `wharf python-sdk`: the trainers' SDK from within this program.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::cluster::state_home;
use crate::args::{PythonSdkCommand, PythonSdkInstallArgs};
use crate::carried::{PROFILER, SDK};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;

/// The distribution's name, as `python/pyproject.toml` has it.
const DISTRIBUTION: &str = "wharf-trainer";

/// Where a Python keeps packages, and whether something else manages them.
const ASK: &str = "\
import os, site, sys, sysconfig
pure = sysconfig.get_path('purelib')
is_venv = sys.prefix != sys.base_prefix
managed = os.path.exists(os.path.join(sysconfig.get_path('stdlib'), 'EXTERNALLY-MANAGED'))
print('managed' if managed and not is_venv else pure if os.access(pure, os.W_OK) or is_venv else site.getusersitepackages())
";

/// Does what the arguments say.
pub(super) fn execute(command: &PythonSdkCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    match command {
        PythonSdkCommand::Install(args) => install(args, terminal),
        PythonSdkCommand::Path(_) => path(terminal),
    }
}

fn install(args: &PythonSdkInstallArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let folder = match &args.target {
        Some(folder) => folder.clone(),
        None => packages_of(&args.python)?,
    };
    put(&folder)?;
    terminal.note(&format!("installed {DISTRIBUTION} {} into {}", version(), folder.display()));
    Ok(Exit::Ok)
}

fn path(terminal: &Terminal) -> Result<Exit, CliError> {
    let folder = state_home("set XDG_STATE_HOME, or use `wharf python-sdk install`")?
        .join("python-sdk")
        .join(version());
    put(&folder)?;
    terminal.data(&format!("{}\n", folder.display()))?;
    Ok(Exit::Ok)
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Where a Python searches for packages.
fn packages_of(python: &Path) -> Result<PathBuf, CliError> {
    let shown = python.display();
    let output = Command::new(python).args(["-c", ASK]).output();
    let output = output.map_err(|error| {
        CliError::usage(format!("cannot run `{shown}`"))
            .caused_by(error)
            .hint("set the interpreter with `--python`, or a directory with `--target`")
    })?;
    let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || answer.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(CliError::input(format!("`{shown}` did not report its package directory: {said}")));
    }
    if answer == "managed" {
        return Err(CliError::usage(format!(
            "the packages of `{shown}` are managed by the operating system"
        ))
        .hint(
            "activate a virtual environment, or use `wharf python-sdk path` for PYTHONPATH or `--target DIR`",
        ));
    }
    Ok(answer.into())
}

/// Puts the package below a folder, with what tells installers about it.
fn put(folder: &Path) -> Result<(), CliError> {
    let own = |(name, text): &(&'static str, &'static str)| {
        Some((name.strip_prefix("python/")?.to_owned(), (*text).to_owned()))
    };
    let mut files: Vec<(String, String)> = SDK.iter().chain(PROFILER).filter_map(own).collect();
    let info = format!("{}-{}.dist-info", DISTRIBUTION.replace('-', "_"), version());
    let metadata = format!(
        "Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {}\nSummary: What training programs use to talk to Wharf\n\
         Requires-Python: >=3.8\n",
        version()
    );
    files.push((format!("{info}/METADATA"), metadata));
    files.push((format!("{info}/INSTALLER"), "wharf\n".to_owned()));
    let record: String = files.iter().map(|(name, _)| format!("{name},,\n")).collect();
    files.push((format!("{info}/RECORD"), format!("{record}{info}/RECORD,,\n")));
    for (name, text) in files {
        let path = folder.join(&name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| CliError::write(parent, error))?;
        }
        wharf_staging::write(&path, text)?;
    }
    Ok(())
}
