//! `wharf python-sdk`

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `wharf python-sdk`
#[derive(Debug, Subcommand)]
pub enum PythonSdkCommand {
    /// Install the Python SDK for trainers that is included in this program
    Install(PythonSdkInstallArgs),
    /// Print a PYTHONPATH directory with the Python SDK
    Path(PythonSdkPathArgs),
}

/// `wharf python-sdk install`
///
/// Installs the package `wharf` into the environment of a Python, so that `pip list` and `pip uninstall wharf-trainer` find it. Nothing is downloaded.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf python-sdk install                               Install into the environment of `python3`
  wharf python-sdk install --python ~/venvs/train/bin/python
  wharf python-sdk install --target libs                 Install into a directory")]
pub struct PythonSdkInstallArgs {
    /// Python interpreter of the target environment
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,
    /// Target directory, instead of an environment
    #[arg(long, value_name = "DIR", conflicts_with = "python")]
    pub target: Option<PathBuf>,
}

/// `wharf python-sdk path`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  PYTHONPATH=$(wharf python-sdk path) python train.py
  wharf submit --env PYTHONPATH=$(wharf python-sdk path) -- python train.py")]
pub struct PythonSdkPathArgs {}
