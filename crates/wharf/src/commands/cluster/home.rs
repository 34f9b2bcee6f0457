//! The folder in which a head, its workers and its clients find one another.

use std::fs::{self, DirBuilder};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use wharf_client::Access;
use wharf_tls::{Fingerprint, Token, is_missing, write_private};

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

    /// The head that clients are to ask: of the environment or the configuration, or the one that serves here.
    pub(super) fn head(&self) -> Result<Access, CliError> {
        let address = self.address()?;
        let token_file = env_path(&env::TOKEN_FILE).unwrap_or_else(|| self.0.join("token"));
        let token = Token::new(&read(&token_file).map_err(|error| {
            error.hint(format!(
                "an admin makes a token with `wharf token create --user NAME`; name its file in {}",
                env::TOKEN_FILE.name
            ))
        })?);
        let authority = self.authority(&token, &token_file)?;
        Ok(Access { address, authority, token })
    }

    /// Which authority the head must have: what the token says, or whose certificate is at hand.
    fn authority(&self, token: &Token, token_file: &Path) -> Result<Fingerprint, CliError> {
        let named = env_path(&env::CA_FILE);
        let said = token.authority();
        if named.is_none()
            && let Some(authority) = said
        {
            return Ok(authority);
        }
        let path = named.unwrap_or_else(|| self.0.join("auth/ca.pem"));
        let authority = wharf_tls::fingerprint_of_pem(&read(&path)?).ok_or_else(|| {
            CliError::input(format!("`{}` holds no certificate", path.display()))
                .hint("a head stores it in its state directory, at auth/ca.pem")
        })?;
        if said.is_some_and(|said| said != authority) {
            let (token, ca) = (token_file.display(), path.display());
            return Err(CliError::input(format!(
                "the token `{token}` belongs to another cluster than `{ca}`"
            )));
        }
        Ok(authority)
    }

    /// Where the head is.
    pub(super) fn address(&self) -> Result<String, CliError> {
        match client_value(&env::HEAD) {
            Some(value) => address(&value.to_string_lossy()),
            None => read(&self.0.join("address")).map_err(|error| {
                error.hint(
                    "start one with `wharf head` or `wharf local`, or set its state directory with `--home DIR`",
                )
            }),
        }
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

/// The user's own folder for what Wharf has to remember; the hint says what to do where there is none.
pub(in crate::commands) fn state_home(hint: &str) -> Result<PathBuf, CliError> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let user = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"));
    match state.or_else(user) {
        Some(state) => Ok(state.join("wharf")),
        None => Err(CliError::usage("HOME is not set, which contains the state directory").hint(hint)),
    }
}

/// An address as people write it.
pub(in crate::commands) fn address(text: &str) -> Result<String, CliError> {
    if text.starts_with("http://") {
        return Err(CliError::usage(format!("`{text}` is not supported: a head accepts only TLS"))
            .hint("write the address as HOST:PORT"));
    }
    let address = text.strip_prefix("https://").unwrap_or(text);
    if address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) {
        Ok(address.to_owned())
    } else {
        Err(CliError::usage(format!("`{text}` is not the address of a head")).hint("expected HOST:7717"))
    }
}

fn env_path(variable: &env::EnvVar) -> Option<PathBuf> {
    client_value(variable).map(PathBuf::from)
}

/// The text of a file, without blanks around it.
pub(super) fn read(path: &Path) -> Result<String, CliError> {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).map_err(|error| CliError::read(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_never_plain() {
        for (text, expected) in
            [("n1:7717", "n1:7717"), ("https://n1:7717", "n1:7717"), ("[::1]:80", "[::1]:80")]
        {
            assert_eq!(address(text).unwrap(), expected);
        }
        for text in ["http://n1:7717", "n1", ":7717", "n1:port", ""] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
