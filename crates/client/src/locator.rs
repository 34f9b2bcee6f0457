//! How clients find the head: the files in its state directory, and what overrides them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wharf_tls::{Fingerprint, Token};

use crate::{Access, Client, ClientError};

/// How long a head may have no address while it restarts.
const PATIENCE: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(250);

/// The state directory of a head, and what overrides its files.
#[derive(Clone, Debug, Default)]
pub struct Locator {
    /// State directory; not needed if the address and the token are elsewhere.
    pub home: Option<PathBuf>,
    /// Address of the head, instead of the file `address`.
    pub address: Option<String>,
    /// Token file, instead of `token`.
    pub token_file: Option<PathBuf>,
    /// Certificate of the cluster's authority, instead of `auth/ca.pem`.
    pub ca_file: Option<PathBuf>,
}

impl Locator {
    /// The head that serves in a state directory.
    pub fn of_home(home: &Path) -> Self {
        Self { home: Some(home.to_owned()), ..Self::default() }
    }

    /// The address, the authority and the token of the head.
    ///
    /// # Errors
    /// [`ClientError`] if a file is missing or malformed, or if they belong to different clusters.
    pub fn access(&self) -> Result<Access, ClientError> {
        let address = self.address()?;
        let token_file = self.file(self.token_file.as_deref(), "token")?;
        let token = read(&token_file).map_err(|(path, source)| ClientError::NoToken { path, source })?;
        let token = Token::new(&token);
        let authority = self.authority(&token, token_file)?;
        Ok(Access { address, authority, token })
    }

    /// The address of the head, as `HOST:PORT`.
    ///
    /// # Errors
    /// [`ClientError`] if there is none, or it is malformed.
    pub fn address(&self) -> Result<String, ClientError> {
        match &self.address {
            Some(address) => parse_address(address),
            None => read(&self.file(None, "address")?)
                .map_err(|(path, source)| ClientError::NoHead { path, source }),
        }
    }

    /// Connects to the head.
    ///
    /// # Errors
    /// [`ClientError`] if it is not found or does not answer.
    pub async fn connect(&self) -> Result<Client, ClientError> {
        Client::connect_to(&self.access()?).await
    }

    /// Connects to the head, and waits while it is down: for commands within a job, which outlive the head. `notice` is called
    /// once before the first wait.
    ///
    /// # Errors
    /// [`ClientError`] if its files are missing for long, or it refuses the connection.
    pub async fn connect_patiently(&self, notice: impl FnOnce()) -> Result<Client, ClientError> {
        let start = Instant::now();
        let mut notice = Some(notice);
        loop {
            match self.access() {
                Ok(access) => match Client::connect_to(&access).await {
                    Err(error) if error.is_absence() => {}
                    connected => return connected,
                },
                // A head that has just ended may have removed its address.
                Err(error) if self.home.is_none() || start.elapsed() > PATIENCE => return Err(error),
                Err(_) => {}
            }
            if let Some(notice) = notice.take() {
                notice();
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// The authority that signs the head's certificate: the one in the token, or that of the certificate file.
    fn authority(&self, token: &Token, token_file: PathBuf) -> Result<Fingerprint, ClientError> {
        let in_token = token.authority();
        if self.ca_file.is_none()
            && let Some(authority) = in_token
        {
            return Ok(authority);
        }
        let path = self.file(self.ca_file.as_deref(), "auth/ca.pem")?;
        let text = read(&path).map_err(|(path, source)| ClientError::Unreadable { path, source })?;
        let Some(authority) = wharf_tls::fingerprint_of_pem(&text) else {
            return Err(ClientError::NoCertificate { path });
        };
        if in_token.is_some_and(|in_token| in_token != authority) {
            return Err(ClientError::OtherCluster { token_file, ca_file: path });
        }
        Ok(authority)
    }

    fn file(&self, given: Option<&Path>, name: &str) -> Result<PathBuf, ClientError> {
        let of_home = || Some(self.home.as_ref()?.join(name));
        given.map(Path::to_owned).or_else(of_home).ok_or(ClientError::NoHome)
    }
}

/// Checks the address of a head as users write it: `HOST:PORT`, with or without `https://`.
///
/// # Errors
/// [`ClientError::Address`] and [`ClientError::PlainAddress`].
pub fn parse_address(text: &str) -> Result<String, ClientError> {
    if text.starts_with("http://") {
        return Err(ClientError::PlainAddress { text: text.to_owned() });
    }
    let address = text.strip_prefix("https://").unwrap_or(text);
    let is_valid = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    if address.rsplit_once(':').is_some_and(is_valid) {
        Ok(address.to_owned())
    } else {
        Err(ClientError::Address { text: text.to_owned() })
    }
}

/// The text of a file, without surrounding white space.
fn read(path: &Path) -> Result<String, (PathBuf, std::io::Error)> {
    let text = std::fs::read_to_string(path);
    text.map(|text| text.trim().to_owned()).map_err(|source| (path.to_owned(), source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_without_a_head_is_an_error_that_names_the_file() {
        let error = Locator::of_home(Path::new("/nowhere")).access().unwrap_err();
        assert_eq!(error.to_string(), "cannot read `/nowhere/address`");
        assert!(error.is_absence());
        assert!(matches!(Locator::default().access(), Err(ClientError::NoHome)));
    }

    #[test]
    fn addresses_without_tls_are_rejected() {
        for (text, expected) in
            [("n1:7717", "n1:7717"), ("https://n1:7717", "n1:7717"), ("[::1]:80", "[::1]:80")]
        {
            assert_eq!(parse_address(text).unwrap(), expected);
        }
        for text in ["http://n1:7717", "n1", ":7717", "n1:port", ""] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }
}
