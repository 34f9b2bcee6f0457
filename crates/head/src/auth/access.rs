//! The authority and the table of tokens in one folder, as a head uses them.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use wharf_proto::Role;
use wharf_proto::tonic::transport::{Certificate, Identity as ServerIdentity, ServerTlsConfig};
use wharf_tls::{Fingerprint, Token, create_private, is_missing, random_hex};

use super::ca::Authority;
use super::error::AccessError;
use super::tokens::{Credential, Table};
use crate::clock::unix_s;

/// How long a worker's certificate is good. It is renewed when two thirds are over: the head may be away for ten days.
pub const WORKER_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long a handshake may take: who connects and says nothing is cut off.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a head's keys are made for.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The head's folder.
    pub folder: PathBuf,
    /// Names and addresses, beside loopback, that the head's certificate is to name.
    pub hosts: Vec<String>,
    /// Whose the first token is.
    pub owner: String,
    /// The head is to have a new certificate even if the old one is good.
    pub renew: bool,
}

/// Who may do what. Holds the folder: no other head can use it at the same time.
pub struct Access {
    pub(super) authority: Authority,
    table: Mutex<Table>,
    pub(super) worker_life: Duration,
    pub(super) renew_after: Duration,
    _lock: File,
}

impl Access {
    /// Opens what is in the folder and makes what is missing; nothing is ever overwritten but a certificate of the head that
    /// has to be renewed.
    ///
    /// # Errors
    /// [`AccessError`]
    pub fn open(setup: &Setup) -> Result<Self, AccessError> {
        let folder = setup.folder.join("auth");
        make_folder(&setup.folder)?;
        make_folder(&folder)?;
        let lock = lock(&folder)?;
        let authority = Authority::open(&folder, &setup.hosts, setup.renew)?;
        let table =
            open_table(&setup.folder, &folder.join("tokens.json"), authority.fingerprint(), &setup.owner)?;
        Ok(Self {
            authority,
            table: Mutex::new(table),
            worker_life: WORKER_LIFE,
            renew_after: WORKER_LIFE * 2 / 3,
            _lock: lock,
        })
    }

    /// Gives workers certificates of that life instead of [`WORKER_LIFE`], to be renewed after a part of it.
    #[must_use]
    pub fn with_worker_life(self, worker_life: Duration, renew_after: Duration) -> Self {
        Self { worker_life, renew_after, ..self }
    }

    /// What workers and clients know the cluster by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.authority.fingerprint()
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        // A change that panicked was not made: the table is replaced as a whole.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the server shows who it is, and whose certificates it takes.
    pub(crate) fn server_tls(&self) -> ServerTlsConfig {
        let authority = &self.authority;
        ServerTlsConfig::new()
            .identity(ServerIdentity::from_pem(&authority.head_chain, &authority.head_key))
            .client_ca_root(Certificate::from_pem(&authority.certificate_pem))
            .client_auth_optional(true)
            .timeout(HANDSHAKE_TIMEOUT)
    }

    /// How it does so to browsers, which show tokens and never certificates.
    pub(crate) fn browser_tls(&self) -> Result<rustls::ServerConfig, rustls::Error> {
        let unreadable = |error: pem::Error| rustls::Error::General(error.to_string());
        let authority = &self.authority;
        let chain = CertificateDer::pem_slice_iter(authority.head_chain.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        let key = PrivateKeyDer::from_pem_slice(authority.head_key.as_bytes()).map_err(unreadable)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// The id of a new credential.
pub(super) fn new_id() -> Result<String, AccessError> {
    Ok(random_hex(4)?)
}

fn make_folder(path: &Path) -> Result<(), AccessError> {
    let failed = |source| AccessError::Write { path: path.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    // An older folder may be open to others; what is in it from now on is not for them.
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)
}

fn lock(folder: &Path) -> Result<File, AccessError> {
    let path = folder.join("lock");
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = opened.map_err(|source| AccessError::Write { path: path.clone(), source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(AccessError::InUse { path: folder.to_owned() }),
        Err(TryLockError::Error(source)) => Err(AccessError::Write { path, source }),
    }
}

/// The table, with a token for the owner and one for workers that find the head in its folder.
fn open_table(home: &Path, path: &Path, authority: Fingerprint, owner: &str) -> Result<Table, AccessError> {
    let known = Table::read(path)?;
    let is_new = known.is_none();
    let mut table = known.unwrap_or_else(|| Table::empty(path));
    for (name, role) in [("token", Role::Admin), ("worker-token", Role::Worker)] {
        let file = home.join(name);
        let token = match fs::read_to_string(&file) {
            // With a table, a token that is not in it was revoked.
            Ok(_) if !is_new => continue,
            Ok(text) => Token::new(&text),
            Err(error) if is_missing(&error) => Token::generate(authority)?,
            Err(source) => return Err(AccessError::Read { path: file, source }),
        };
        if token.authority().is_some_and(|said| said != authority) {
            return Err(AccessError::OtherAuthority { path: file });
        }
        let now_s = unix_s();
        let mut credential = Credential::token(new_id()?, role, &token, now_s);
        if role == Role::Admin {
            credential.user = owner.to_owned();
        }
        // Who can read this folder may do everything anyway.
        credential.may_replace = role == Role::Worker;
        table.add(credential, now_s)?;
        if !file.exists() {
            create_private(&file, &format!("{}\n", token.reveal()))
                .map_err(|source| AccessError::Write { path: file, source })?;
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(folder: &Path) -> Setup {
        Setup { folder: folder.to_owned(), owner: "ann".into(), ..Setup::default() }
    }

    fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                files.extend(contents(&entry.path()));
            } else {
                files.push((entry.path(), fs::read(entry.path()).unwrap()));
            }
        }
        files.sort();
        files
    }

    #[test]
    fn opening_again_changes_nothing_and_files_are_private() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let fingerprint = Access::open(&setup(folder.path())).unwrap().fingerprint();
        let before = contents(folder.path());
        assert_eq!(before.len(), 8);
        for (path, _) in &before {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
        for path in [folder.path().to_owned(), folder.path().join("auth")] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert_eq!(Access::open(&setup(folder.path())).unwrap().fingerprint(), fingerprint);
        assert_eq!(contents(folder.path()), before);
    }

    #[test]
    fn certificate_is_renewed_when_asked_to_or_for_a_new_host_by_the_same_authority() {
        let folder = tempfile::tempdir().unwrap();
        let head = || fs::read_to_string(folder.path().join("auth/head.pem")).unwrap();
        let first = Access::open(&setup(folder.path())).unwrap().fingerprint();
        let original = head();
        let wider = Setup { hosts: vec!["node1".into(), "10.0.0.7".into()], ..setup(folder.path()) };
        assert_eq!(Access::open(&wider).unwrap().fingerprint(), first);
        let widened = head();
        assert_ne!(widened, original);
        assert!(widened.starts_with("names: localhost 127.0.0.1 ::1 node1 10.0.0.7\n"));
        let renewed = Setup { renew: true, ..setup(folder.path()) };
        assert_eq!(Access::open(&renewed).unwrap().fingerprint(), first);
        assert_ne!(head(), widened);
        assert!(head().starts_with("names: localhost 127.0.0.1 ::1 node1 10.0.0.7\n"), "no name is lost");
    }

    #[test]
    fn folder_is_one_heads_alone_and_half_an_authority_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let held = Access::open(&setup(folder.path())).unwrap();
        assert!(matches!(Access::open(&setup(folder.path())), Err(AccessError::InUse { .. })));
        drop(held);
        fs::remove_file(folder.path().join("auth/ca-key.pem")).unwrap();
        assert!(matches!(Access::open(&setup(folder.path())), Err(AccessError::Half { .. })));
    }

    #[test]
    fn token_of_an_older_authority_is_told() {
        let folder = tempfile::tempdir().unwrap();
        drop(Access::open(&setup(folder.path())).unwrap());
        fs::remove_dir_all(folder.path().join("auth")).unwrap();
        let stale = folder.path().join("token");
        assert!(
            matches!(Access::open(&setup(folder.path())), Err(AccessError::OtherAuthority { path }) if path == stale)
        );
    }

    #[test]
    fn revoked_token_does_not_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let access = Access::open(&setup(folder.path())).unwrap();
        access.table().remove(|known| known.user == "ann").unwrap();
        drop(access);
        let access = Access::open(&setup(folder.path())).unwrap();
        assert!(access.table().credentials().iter().all(|known| known.user != "ann"));
        drop(access);
        fs::remove_file(folder.path().join("token")).unwrap();
        let access = Access::open(&setup(folder.path())).unwrap();
        assert!(access.table().credentials().iter().any(|known| known.user == "ann"), "a new one is made");
    }
}
