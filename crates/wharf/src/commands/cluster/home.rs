//! The folder in which a head, its workers and its clients find one another.

use std::fs::{self, DirBuilder};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use wharf_client::{Access, Locator};
use wharf_tls::{is_missing, write_private};

use crate::args::{HomeArgs, env};
use crate::config::client_value;
use crate::error::CliError;

/// A cluster's folder.
pub(super) struct Home(PathBuf);

impl Home {
    /// The folder that was asked for, or the user's own.
    pub(super) fn new(args: &HomeArgs) -> Result<Self, CliError> {
        if let Some(path) = &args.home {
            return Ok(Self(path.clone()));
        }
        state_home("name a folder with `--home DIR`").map(Self)
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

    /// Whether the environment or the configuration names a head that need not be here.
    pub(super) fn is_elsewhere(&self) -> bool {
        client_value(&env::HEAD).is_some()
    }

    /// Where clients search for the head: the environment or the configuration, or this folder.
    pub(super) fn locator(&self) -> Locator {
        locator(Some(self.0.clone()))
    }

    /// The head that clients are to ask.
    pub(super) fn head(&self) -> Result<Access, CliError> {
        Ok(self.locator().access()?)
    }

    /// Where the head is.
    pub(super) fn address(&self) -> Result<String, CliError> {
        Ok(self.locator().address()?)
    }

    /// The token with which workers of this folder join; `None` where there is no head here.
    pub(super) fn worker_token(&self) -> Result<Option<String>, CliError> {
        let path = self.0.join("worker-token");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(CliError::read(&path, error)),
        }
    }

    /// Tells workers and clients where the head is.
    pub(super) fn announce(&self, mut address: SocketAddr) -> Result<(), CliError> {
        if address.ip().is_unspecified() {
            // It listens everywhere: from here it is nearest by loopback.
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let path = self.0.join("address");
        write_private(&path, &format!("{address}\n")).map_err(|error| CliError::write(&path, error))
    }
}

/// The user's own folder for what Wharf has to remember; the hint states what to do where there is none.
pub(in crate::commands) fn state_home(hint: &str) -> Result<PathBuf, CliError> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let user = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"));
    match state.or_else(user) {
        Some(state) => Ok(state.join("wharf")),
        None => Err(CliError::usage("HOME is not set, which contains the state directory").hint(hint)),
    }
}

/// Where clients search for a head, by the environment, the configuration and a state directory.
pub(in crate::commands) fn locator(home: Option<PathBuf>) -> Locator {
    Locator {
        home,
        address: client_value(&env::HEAD).map(|value| value.to_string_lossy().into_owned()),
        token_file: client_value(&env::TOKEN_FILE).map(PathBuf::from),
        ca_file: client_value(&env::CA_FILE).map(PathBuf::from),
    }
}

/// An address as people write it.
pub(in crate::commands) fn address(text: &str) -> Result<String, CliError> {
    Ok(wharf_client::parse_address(text)?)
}

/// The text of a file, without blanks around it.
pub(super) fn read(path: &Path) -> Result<String, CliError> {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).map_err(|error| CliError::read(path, error))
}
