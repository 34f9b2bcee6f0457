//! The table of all tokens and certificates, in a file of its own. Secrets are kept as hashes only.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wharf_proto::{Role, TokenSummary, token_summary};
use wharf_tls::{Token, is_missing, write_private};

use super::error::AccessError;
use super::identity::{Identity, Scope};
use crate::rpc::network::Network;

/// A token or a certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Credential {
    pub(super) id: String,
    pub(super) kind: CredentialKind,
    pub(super) role: RoleRecord,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) user: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    /// A worker's token may join as a node that has joined already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) may_replace: bool,
    /// The SHA-256 of the token's text or of the certificate's DER form.
    pub(super) hash: [u8; 32],
    /// The SHA-256 of a certificate's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<[u8; 32]>,
    /// Seconds since the Unix epoch.
    pub(super) created_s: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_s: Option<f64>,
    /// What it may be used for; `None`: everything that the role may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scope: Option<Scope>,
    /// Networks that it may be used from; none: from anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) addresses: Vec<String>,
    /// How many nodes may join with a worker's token; `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) nodes_max: Option<u32>,
    /// Nodes that have joined with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) joined: Vec<String>,
    /// When and where it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_used_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_address: Option<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CredentialKind {
    Token,
    Certificate,
}

/// A role as the table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RoleRecord {
    Admin,
    User,
    Worker,
}

impl From<Role> for RoleRecord {
    fn from(role: Role) -> Self {
        match role {
            Role::Admin => Self::Admin,
            Role::User => Self::User,
            Role::Worker => Self::Worker,
        }
    }
}

impl From<RoleRecord> for Role {
    fn from(role: RoleRecord) -> Self {
        match role {
            RoleRecord::Admin => Self::Admin,
            RoleRecord::User => Self::User,
            RoleRecord::Worker => Self::Worker,
        }
    }
}

impl Credential {
    /// A new token without an expiry, a scope or restrictions.
    pub(super) fn token(id: String, role: Role, token: &Token, now_s: f64) -> Self {
        Self {
            id,
            kind: CredentialKind::Token,
            role: role.into(),
            user: String::new(),
            node: None,
            may_replace: false,
            hash: token.hash(),
            key: None,
            created_s: now_s,
            expires_s: None,
            scope: None,
            addresses: Vec::new(),
            nodes_max: None,
            joined: Vec::new(),
            last_used_s: None,
            last_address: None,
        }
    }

    pub(super) fn is_expired(&self, now_s: f64) -> bool {
        self.expires_s.is_some_and(|end_s| end_s <= now_s)
    }

    /// Whether it may be used from an address. A restriction that cannot be read permits nothing.
    fn permits(&self, address: Option<IpAddr>) -> bool {
        let is_within =
            |text: &String, address| text.parse::<Network>().is_ok_and(|own| own.contains(address));
        self.addresses.is_empty()
            || address.is_some_and(|address| self.addresses.iter().any(|text| is_within(text, address)))
    }

    pub(super) fn identity(&self, address: Option<IpAddr>) -> Identity {
        Identity {
            role: self.role.into(),
            user: self.user.clone(),
            node: self.node.clone(),
            is_certified: self.kind == CredentialKind::Certificate,
            may_replace: self.may_replace,
            scope: Scope::of(self.role.into(), self.scope),
            id: self.id.clone(),
            key: self.key,
            address,
            task: None,
        }
    }

    pub(super) fn summary(&self) -> TokenSummary {
        let kind = match self.kind {
            CredentialKind::Token => token_summary::Kind::Token,
            CredentialKind::Certificate => token_summary::Kind::Certificate,
        };
        TokenSummary {
            id: self.id.clone(),
            kind: kind.into(),
            role: Role::from(self.role).into(),
            user: self.user.clone(),
            node: self.node.clone().unwrap_or_default(),
            created_s: self.created_s,
            expires_s: self.expires_s.unwrap_or_default(),
            last_used_s: self.last_used_s.unwrap_or_default(),
            last_address: self.last_address.map(|address| address.to_string()).unwrap_or_default(),
            scope: self.scope.map_or(wharf_proto::Scope::WholeRole, Scope::to_wire).into(),
            addresses: self.addresses.clone(),
            joined: self.joined.clone(),
        }
    }
}

/// The result of looking up a token or a certificate.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    Valid {
        identity: Identity,
        /// It has not been used from this address since it was last used from another, or not at all.
        is_new_address: bool,
    },
    Expired(Identity),
    /// It may not be used from this address.
    Elsewhere(Identity),
    Unknown,
}

/// How long a credential is still valid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Left {
    Seconds(f64),
    Unlimited,
    Expired,
    Revoked,
}

#[derive(Default, Serialize, Deserialize)]
struct Document {
    version: u32,
    credentials: Vec<Credential>,
}

const VERSION: u32 = 1;

/// The table; every change but the last use is on disk before it counts.
pub(super) struct Table {
    path: PathBuf,
    credentials: Vec<Credential>,
    /// A last use is newer than on disk.
    is_used: bool,
}

impl Table {
    /// The table in a file; `None` where there is no file yet.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, AccessError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(source) => return Err(AccessError::Read { path: path.to_owned(), source }),
        };
        let document: Document = serde_json::from_str(&text)
            .map_err(|source| AccessError::Table { path: path.to_owned(), source })?;
        if document.version > VERSION {
            return Err(AccessError::NewerTable { path: path.to_owned(), version: document.version });
        }
        Ok(Some(Self { path: path.to_owned(), credentials: document.credentials, is_used: false }))
    }

    pub(super) fn empty(path: &Path) -> Self {
        Self { path: path.to_owned(), credentials: Vec::new(), is_used: false }
    }

    /// Adds a credential; those that expired long ago are removed.
    pub(super) fn add(&mut self, credential: Credential, now_s: f64) -> Result<(), AccessError> {
        let mut credentials = self.credentials.clone();
        credentials.retain(|old| !old.is_expired(now_s - KEPT_S));
        credentials.push(credential);
        self.replace(credentials)
    }

    /// Removes the credentials that `is_removed` selects, and returns them.
    pub(super) fn remove(
        &mut self,
        is_removed: impl Fn(&Credential) -> bool,
    ) -> Result<Vec<Credential>, AccessError> {
        let (removed, kept): (Vec<_>, Vec<_>) = self.credentials.iter().cloned().partition(is_removed);
        if !removed.is_empty() {
            self.replace(kept)?;
        }
        Ok(removed)
    }

    /// Changes the credential with an id; `None` where there is none.
    pub(super) fn change(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut Credential),
    ) -> Result<Option<Credential>, AccessError> {
        let mut credentials = self.credentials.clone();
        let Some(credential) = credentials.iter_mut().find(|known| known.id == id) else { return Ok(None) };
        change(credential);
        let changed = credential.clone();
        self.replace(credentials)?;
        Ok(Some(changed))
    }

    fn replace(&mut self, credentials: Vec<Credential>) -> Result<(), AccessError> {
        let document = Document { version: VERSION, credentials };
        let text = serde_json::to_string(&document)
            .map_err(|source| AccessError::Table { path: self.path.clone(), source })?;
        write_private(&self.path, &text)
            .map_err(|source| AccessError::Write { path: self.path.clone(), source })?;
        self.credentials = document.credentials;
        self.is_used = false;
        Ok(())
    }

    /// Writes last uses that are not on disk yet.
    pub(super) fn keep_uses(&mut self) -> Result<(), AccessError> {
        if self.is_used { self.replace(self.credentials.clone()) } else { Ok(()) }
    }

    pub(super) fn credentials(&self) -> &[Credential] {
        &self.credentials
    }

    /// The credential with an id.
    pub(super) fn get(&self, id: &str) -> Option<&Credential> {
        self.credentials.iter().find(|known| known.id == id)
    }

    /// Certificates of a node that are in force.
    pub(super) fn certificates_of(&self, node: &str, now_s: f64) -> impl Iterator<Item = &Credential> {
        let is_its = move |known: &&Credential| {
            known.kind == CredentialKind::Certificate
                && known.node.as_deref() == Some(node)
                && !known.is_expired(now_s)
        };
        self.credentials.iter().filter(is_its)
    }

    /// The holder of a token or a certificate that is used from an address.
    pub(super) fn find(
        &mut self,
        kind: CredentialKind,
        hash: &[u8; 32],
        from: Option<IpAddr>,
        now_s: f64,
    ) -> Found {
        let mut found = None;
        // Every entry is compared, so that the duration reveals nothing.
        for (index, known) in self.credentials.iter().enumerate() {
            if is_equal(&known.hash, hash) && known.kind == kind {
                found = Some(index);
            }
        }
        let Some(known) = found.and_then(|index| self.credentials.get_mut(index)) else {
            return Found::Unknown;
        };
        let identity = known.identity(from);
        if known.is_expired(now_s) {
            return Found::Expired(identity);
        }
        if !known.permits(from) {
            return Found::Elsewhere(identity);
        }
        let is_new_address = known.last_address != from || known.last_used_s.is_none();
        known.last_used_s = Some(now_s);
        known.last_address = from;
        self.is_used = true;
        Found::Valid { identity, is_new_address }
    }

    /// How long an identity is still valid. A worker's certificate is replaced by a later one for the same key.
    pub(super) fn left(&self, identity: &Identity, now_s: f64) -> Left {
        let is_its = |known: &&Credential| {
            known.id == identity.id || identity.key.is_some() && known.key == identity.key
        };
        let mut longest = Left::Revoked;
        for known in self.credentials.iter().filter(is_its) {
            let left = match known.expires_s {
                None => return Left::Unlimited,
                Some(end_s) if end_s <= now_s => Left::Expired,
                Some(end_s) => Left::Seconds(end_s - now_s),
            };
            longest = match (longest, left) {
                (Left::Seconds(one), Left::Seconds(other)) => Left::Seconds(one.max(other)),
                (Left::Seconds(_), _) => longest,
                _ => left,
            };
        }
        longest
    }
}

/// How long an expired credential stays in the table, so that its holder gets the reason and it can be renewed: a week.
const KEPT_S: f64 = 7.0 * 24.0 * 3600.0;

/// Compares in constant time.
fn is_equal(left: &[u8; 32], right: &[u8; 32]) -> bool {
    left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: &str, token: &Token) -> Credential {
        Credential { user: "ann".into(), ..Credential::token(id.into(), Role::User, token, 100.0) }
    }

    #[test]
    fn tokens_are_found_until_they_expire_or_are_revoked_and_never_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let (forever, short) = (Token::new("forever-secret"), Token::new("short-secret"));
        let mut table = Table::empty(&path);
        table.add(user("1", &forever), 100.0).unwrap();
        table.add(Credential { expires_s: Some(200.0), ..user("2", &short) }, 100.0).unwrap();

        let mut table = Table::read(&path).unwrap().unwrap();
        let find = |table: &mut Table, token: &Token, now_s| {
            table.find(CredentialKind::Token, &token.hash(), None, now_s)
        };
        assert!(
            matches!(find(&mut table, &forever, 1e9), Found::Valid { identity, .. } if identity.user == "ann")
        );
        assert!(matches!(find(&mut table, &short, 199.0), Found::Valid { .. }));
        assert!(matches!(find(&mut table, &short, 200.0), Found::Expired(_)));
        assert_eq!(find(&mut table, &Token::new("other"), 100.0), Found::Unknown);
        assert_eq!(table.find(CredentialKind::Certificate, &forever.hash(), None, 100.0), Found::Unknown);
        assert_eq!(table.remove(|old| old.id == "1").unwrap().len(), 1);
        assert_eq!(find(&mut table, &forever, 100.0), Found::Unknown);
        assert!(!fs::read_to_string(&path).unwrap().contains("secret"));
    }

    #[test]
    fn token_is_valid_at_its_addresses_only_and_remembers_its_last_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let token = Token::new("secret");
        let mut table = Table::empty(&path);
        table.add(Credential { addresses: vec!["10.0.0.0/8".into()], ..user("1", &token) }, 100.0).unwrap();
        let mut from =
            |text: &str, now_s| table.find(CredentialKind::Token, &token.hash(), text.parse().ok(), now_s);
        assert!(matches!(from("192.0.2.1", 101.0), Found::Elsewhere(_)));
        assert!(matches!(from("", 101.0), Found::Elsewhere(_)), "the address is not known");
        assert!(matches!(from("10.1.1.1", 102.0), Found::Valid { is_new_address: true, .. }));
        assert!(matches!(from("10.1.1.1", 103.0), Found::Valid { is_new_address: false, .. }));
        table.keep_uses().unwrap();
        let summary = Table::read(&path).unwrap().unwrap().credentials()[0].summary();
        assert_eq!((summary.last_used_s, summary.last_address.as_str()), (103.0, "10.1.1.1"));
    }

    #[test]
    fn certificate_is_valid_as_long_as_the_latest_one_for_its_key() {
        let mut table = Table::empty(Path::new("/nowhere"));
        let certificate = |id: &str, end_s: f64| Credential {
            kind: CredentialKind::Certificate,
            key: Some([1; 32]),
            expires_s: Some(end_s),
            ..user(id, &Token::new(id))
        };
        table.credentials = vec![certificate("1", 200.0), certificate("2", 300.0)];
        let identity = table.credentials[0].identity(None);
        assert_eq!(table.left(&identity, 150.0), Left::Seconds(150.0));
        assert_eq!(table.left(&identity, 250.0), Left::Seconds(50.0));
        assert_eq!(table.left(&identity, 300.0), Left::Expired);
        table.credentials.clear();
        assert_eq!(table.left(&identity, 150.0), Left::Revoked);
    }

    #[test]
    fn table_of_an_earlier_version_is_read_and_its_tokens_have_no_expiry() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let hash = serde_json::to_string(&Token::new("old").hash()).unwrap();
        let text = format!(
            r#"{{"version":1,"credentials":[{{"id":"1f2e3d4c","kind":"token","role":"admin","user":"ann","hash":{hash},"created_s":1.0}}]}}"#
        );
        fs::write(&path, text).unwrap();
        let mut table = Table::read(&path).unwrap().unwrap();
        let found = table.find(CredentialKind::Token, &Token::new("old").hash(), None, 1e9);
        assert!(matches!(found, Found::Valid { identity, .. } if identity.scope == Scope::Administer));
    }

    #[test]
    fn damaged_or_newer_table_is_rejected_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        fs::write(&path, "{\"version\": 1, \"creden").unwrap();
        assert!(matches!(Table::read(&path), Err(AccessError::Table { .. })));
        assert!(fs::read_to_string(&path).unwrap().ends_with("creden"));
        fs::write(&path, r#"{"version": 2, "credentials": []}"#).unwrap();
        assert!(matches!(Table::read(&path), Err(AccessError::NewerTable { version: 2, .. })));
    }
}
