//! The authority, the table of tokens and the audit log in one folder, as a head uses them.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{WebPkiClientVerifier, danger::ClientCertVerifier};
use wharf_proto::Role;
use wharf_tls::{Fingerprint, TaskTokens, Token, create_private, is_missing, random_hex, write_private};

use super::ca::Authority;
use super::error::AccessError;
use super::tokens::{Credential, Table};
use crate::auth::audit::Audit;
use crate::dispatcher::clock::unix_s;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long a worker's certificate is valid. It is renewed when two thirds are over: the head may be away for ten days.
pub const WORKER_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long a token is valid unless it is created with another expiry.
pub const TOKEN_LIFE: Duration = Duration::from_secs(90 * 24 * 3600);

/// How long the join token in the head's folder is valid; the head replaces it when half of that has ended.
const FOLDER_TOKEN_LIFE_S: f64 = 7.0 * 24.0 * 3600.0;

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
    /// The default life of tokens of people; `None`: they have no expiry.
    pub(super) token_life: Option<Duration>,
    /// Changes with the table.
    pub(super) changes: watch::Sender<()>,
    pub(crate) audit: Arc<Audit>,
    folder: PathBuf,
    /// When it was opened, by both clocks.
    opened: (Instant, f64),
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
        let audit = Audit::open(&setup.folder)
            .map_err(|source| AccessError::Write { path: setup.folder.join("audit"), source })?;
        let access = Self {
            authority,
            table: Mutex::new(table),
            worker_life: WORKER_LIFE,
            renew_after: WORKER_LIFE * 2 / 3,
            token_life: Some(TOKEN_LIFE),
            changes: watch::Sender::default(),
            audit: Arc::new(audit),
            folder: setup.folder.clone(),
            opened: (Instant::now(), unix_s()),
            _lock: lock,
        };
        access.renew_folder_token()?;
        Ok(access)
    }

    /// Gives new tokens of people that life unless they are created with another; `None`: no expiry.
    #[must_use]
    pub fn with_token_life(self, token_life: Option<Duration>) -> Self {
        Self { token_life, ..self }
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

    /// Makes the tokens that tasks get.
    pub(crate) fn task_tokens(&self) -> TaskTokens {
        self.authority.task_tokens.clone()
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        // A change that panicked was not made: the table is replaced as a whole.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those who wait for the end of a credential.
    pub(super) fn table_changed(&self) {
        self.changes.send_replace(());
    }

    /// Seconds since the Unix epoch. A clock that is set back does not make expired tokens valid again.
    pub(super) fn now_s(&self) -> f64 {
        let (began, began_s) = self.opened;
        unix_s().max(began_s + began.elapsed().as_secs_f64())
    }

    /// Whether people other than this user have tokens.
    pub(crate) fn has_other_users(&self, user: &str) -> bool {
        let is_other = |known: &Credential| !known.user.is_empty() && known.user != user;
        self.table().credentials().iter().any(is_other)
    }

    /// What has to be done from time to time: last uses are written, and the join token in the folder is renewed.
    ///
    /// # Errors
    /// [`AccessError`] where a file cannot be written.
    pub(crate) fn maintain(&self) -> Result<(), AccessError> {
        self.table().keep_uses()?;
        self.renew_folder_token()
    }

    /// Replaces the join token in the folder before it expires. One that was revoked is not replaced.
    fn renew_folder_token(&self) -> Result<(), AccessError> {
        let path = self.folder.join("worker-token");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if is_missing(&error) => return Ok(()),
            Err(source) => return Err(AccessError::Read { path, source }),
        };
        let now_s = self.now_s();
        let hash = Token::new(&text).hash();
        let mut table = self.table();
        let Some(old) = table.credentials().iter().find(|known| known.hash == hash).cloned() else {
            return Ok(());
        };
        let left_s = old.expires_s.map_or(0.0, |end_s| end_s - now_s);
        if left_s > FOLDER_TOKEN_LIFE_S / 2.0 {
            return Ok(());
        }
        let token = Token::generate(self.fingerprint())?;
        table.add(folder_token(&token, now_s)?, now_s)?;
        write_private(&path, &format!("{}\n", token.reveal()))
            .map_err(|source| AccessError::Write { path, source })?;
        // One of an earlier version has no expiry, and may replace nodes.
        let end_s = old.expires_s.unwrap_or(now_s + DAY.as_secs_f64());
        table.change(&old.id, |old| {
            old.expires_s = Some(end_s);
            old.may_replace = false;
        })?;
        Ok(())
    }

    /// The TLS side of gRPC: TLS 1.3, with certificates of workers where they have one.
    pub(crate) fn grpc_tls(&self) -> Result<rustls::ServerConfig, rustls::Error> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(self.authority.certificate().to_vec()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        self.server_tls(verifier, b"h2")
    }

    /// The TLS side of HTTP: browsers show tokens and never certificates.
    pub(crate) fn browser_tls(&self) -> Result<rustls::ServerConfig, rustls::Error> {
        self.server_tls(WebPkiClientVerifier::no_client_auth(), b"http/1.1")
    }

    fn server_tls(
        &self,
        clients: Arc<dyn ClientCertVerifier>,
        protocol: &[u8],
    ) -> Result<rustls::ServerConfig, rustls::Error> {
        let unreadable = |error: pem::Error| rustls::Error::General(error.to_string());
        let authority = &self.authority;
        let chain = CertificateDer::pem_slice_iter(authority.head_chain.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        let key = PrivateKeyDer::from_pem_slice(authority.head_key.as_bytes()).map_err(unreadable)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![protocol.to_vec()];
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
        // The first admin's token has no expiry: who can read this folder has the authority's key anyway.
        let credential = match role {
            Role::Worker => folder_token(&token, now_s)?,
            _ => Credential { user: owner.to_owned(), ..Credential::token(new_id()?, role, &token, now_s) },
        };
        table.add(credential, now_s)?;
        if !file.exists() {
            create_private(&file, &format!("{}\n", token.reveal()))
                .map_err(|source| AccessError::Write { path: file, source })?;
        }
    }
    Ok(table)
}

/// The join token of workers that use the head's folder: any number of new nodes, for a week.
fn folder_token(token: &Token, now_s: f64) -> Result<Credential, AccessError> {
    let expires_s = Some(now_s + FOLDER_TOKEN_LIFE_S);
    Ok(Credential { expires_s, ..Credential::token(new_id()?, Role::Worker, token, now_s) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::tokens::{CredentialKind, Found};

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
        assert_eq!(before.len(), 10);
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
    fn token_of_an_older_authority_is_reported() {
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

    #[test]
    fn join_token_in_the_folder_is_replaced_before_it_expires_and_one_without_expiry_gets_one() {
        let folder = tempfile::tempdir().unwrap();
        let access = Access::open(&setup(folder.path())).unwrap();
        let file = || Token::new(&fs::read_to_string(folder.path().join("worker-token")).unwrap());
        let first = file();
        access.maintain().unwrap();
        assert_eq!(file(), first);
        let id =
            access.table().credentials().iter().find(|known| known.hash == first.hash()).unwrap().id.clone();
        let age = |expires_s: Option<f64>| {
            let change = |known: &mut Credential| {
                known.expires_s = expires_s;
                known.may_replace = true;
            };
            access.table().change(&id, change).unwrap();
        };
        age(None);
        access.maintain().unwrap();
        let second = file();
        assert_ne!(second, first);
        let old = access.table().get(&id).cloned().unwrap();
        assert!(!old.may_replace && old.expires_s.is_some());
        let now_s = access.now_s();
        let found = access.table().find(CredentialKind::Token, &second.hash(), None, now_s);
        assert!(matches!(found, Found::Valid { identity, .. } if !identity.may_replace));
        access.table().remove(|known| known.hash == second.hash()).unwrap();
        access.maintain().unwrap();
        assert_eq!(file(), second, "a revoked token does not come back");
    }

    /// Shakes hands in memory, until both sides are done or one refuses.
    fn shake_hands(client: rustls::ClientConfig, server: rustls::ServerConfig) -> Result<(), rustls::Error> {
        let name = wharf_tls::HEAD_NAME.try_into().unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(client), name)?;
        let mut server = rustls::ServerConnection::new(Arc::new(server))?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut bytes.as_slice()).unwrap();
            server.process_new_packets()?;
            bytes.clear();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut bytes.as_slice()).unwrap();
            client.process_new_packets()?;
        }
        Ok(())
    }

    /// A client that trusts a cluster's authority, with a worker's certificate of perhaps another cluster.
    fn client(
        access: &Access,
        version: &'static rustls::SupportedProtocolVersion,
        signer: Option<&Access>,
    ) -> rustls::ClientConfig {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(access.authority.certificate().to_vec())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        let Some(signer) = signer else { return builder.with_no_client_auth() };
        let key = wharf_tls::new_key().unwrap();
        let request = wharf_tls::request_certificate(&key, "a").unwrap();
        let (certificate, _) = signer.authority.sign(&request, "a", WORKER_LIFE).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        builder.with_client_auth_cert(vec![CertificateDer::from(certificate)], key).unwrap()
    }

    #[test]
    fn handshake_needs_tls_1_3_and_a_certificate_of_this_cluster_or_none() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [own, other] = folders.each_ref().map(|folder| Access::open(&setup(folder.path())).unwrap());
        let shake = |version, signer| shake_hands(client(&own, version, signer), own.grpc_tls().unwrap());
        let (tls12, tls13) = (&rustls::version::TLS12, &rustls::version::TLS13);
        assert_eq!(shake(tls13, None), Ok(()));
        assert_eq!(shake(tls13, Some(&own)), Ok(()));
        let old = shake(tls12, None).unwrap_err();
        assert!(matches!(old, rustls::Error::PeerIncompatible(_)), "{old}");
        let foreign = shake(tls13, Some(&other)).unwrap_err();
        assert!(matches!(foreign, rustls::Error::InvalidCertificate(_)), "{foreign}");
        let browser = |version| shake_hands(client(&own, version, None), own.browser_tls().unwrap());
        assert!(browser(tls13).is_ok() && browser(tls12).is_err());
    }

    #[test]
    fn clock_that_is_set_back_does_not_prolong_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let mut access = Access::open(&setup(folder.path())).unwrap();
        access.opened.1 += 3600.0;
        assert!(access.now_s() >= unix_s() + 3599.0, "an hour earlier than it was");
    }
}
