//! The folder in which a head, its workers and its clients find one another.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::args::HomeArgs;
use crate::error::CliError;

/// A cluster's folder.
pub(super) struct Home(PathBuf);

impl Home {
    /// The folder that was asked for, or the user's own.
    pub(super) fn new(args: &HomeArgs) -> Result<Self, CliError> {
        if let Some(path) = &args.home {
            return Ok(Self(path.clone()));
        }
        let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
        let user = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"));
        match state.or_else(user) {
            Some(state) => Ok(Self(state.join("wharf"))),
            None => Err(CliError::usage("there is no HOME to keep the cluster's state in")
                .hint("name a folder with `--home DIR`")),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Where the worker of a node on this machine keeps its state.
    pub(super) fn worker_dir(&self, node: &str) -> PathBuf {
        self.0.join("workers").join(node)
    }

    /// Makes the folder, for its owner only.
    pub(super) fn create(&self) -> Result<(), CliError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .map_err(|error| CliError::write(&self.0, error))
    }

    /// The token, made on first use.
    pub(super) fn token_or_new(&self) -> Result<String, CliError> {
        let path = self.0.join("token");
        match fs::read_to_string(&path) {
            Ok(token) => Ok(token.trim().to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let token = random_token()?;
                let mut options = OpenOptions::new();
                let created = options.write(true).create_new(true).mode(0o600).open(&path);
                let written = created.and_then(|mut file| writeln!(file, "{token}"));
                written.map_err(|error| CliError::write(&path, error))?;
                Ok(token)
            }
            Err(error) => Err(CliError::read(&path, error)),
        }
    }

    /// Tells workers and clients where the head is.
    pub(super) fn announce(&self, address: &str) -> Result<(), CliError> {
        let path = self.0.join("address");
        let partial = self.0.join("address.new");
        let written = fs::write(&partial, format!("{address}\n")).and_then(|()| fs::rename(&partial, &path));
        written.map_err(|error| CliError::write(&path, error))
    }
}

/// 256 random bits in hexadecimal.
fn random_token() -> Result<String, CliError> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 32];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| CliError::read(path, error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
