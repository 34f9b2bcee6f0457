//! The table of all tokens and certificates, in a file of its own. Secrets are kept as hashes only.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wharf_proto::{Role, TokenSummary, token_summary};
use wharf_tls::{Token, is_missing, write_private};

use super::error::AccessError;
use super::identity::Identity;

/// Something that proves who somebody is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Credential {
    pub(super) id: String,
    pub(super) kind: Kind,
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
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
    /// A new token's record; what is not said is left out.
    pub(super) fn token(id: String, role: Role, token: &Token, now_s: f64) -> Self {
        Self {
            id,
            kind: Kind::Token,
            role: role.into(),
            user: String::new(),
            node: None,
            may_replace: false,
            hash: token.hash(),
            key: None,
            created_s: now_s,
            expires_s: None,
        }
    }

    fn is_over(&self, now_s: f64) -> bool {
        self.expires_s.is_some_and(|end_s| end_s <= now_s)
    }

    pub(super) fn identity(&self) -> Identity {
        Identity {
            role: self.role.into(),
            user: self.user.clone(),
            node: self.node.clone(),
            is_certified: self.kind == Kind::Certificate,
            may_replace: self.may_replace,
        }
    }

    pub(super) fn summary(&self) -> TokenSummary {
        let kind = match self.kind {
            Kind::Token => token_summary::Kind::Token,
            Kind::Certificate => token_summary::Kind::Certificate,
        };
        TokenSummary {
            id: self.id.clone(),
            kind: kind.into(),
            role: Role::from(self.role).into(),
            user: self.user.clone(),
            node: self.node.clone().unwrap_or_default(),
            created_s: self.created_s,
            expires_s: self.expires_s.unwrap_or_default(),
        }
    }
}

/// What was found out about something that was shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    Good(Identity),
    Over,
    Unknown,
}

#[derive(Default, Serialize, Deserialize)]
struct Document {
    version: u32,
    credentials: Vec<Credential>,
}

const VERSION: u32 = 1;

/// The table; every change is on disk before it counts.
pub(super) struct Table {
    path: PathBuf,
    credentials: Vec<Credential>,
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
        Ok(Some(Self { path: path.to_owned(), credentials: document.credentials }))
    }

    pub(super) fn empty(path: &Path) -> Self {
        Self { path: path.to_owned(), credentials: Vec::new() }
    }

    /// Adds a credential; those that are long over go.
    pub(super) fn add(&mut self, credential: Credential, now_s: f64) -> Result<(), AccessError> {
        let mut credentials = self.credentials.clone();
        credentials.retain(|old| !old.is_over(now_s - KEPT_S));
        credentials.push(credential);
        self.replace(credentials)
    }

    /// Removes those that `is_gone` says, and tells how many they were.
    pub(super) fn remove(&mut self, is_gone: impl Fn(&Credential) -> bool) -> Result<usize, AccessError> {
        let kept: Vec<Credential> = self.credentials.iter().filter(|old| !is_gone(old)).cloned().collect();
        let removed = self.credentials.len() - kept.len();
        if removed > 0 {
            self.replace(kept)?;
        }
        Ok(removed)
    }

    fn replace(&mut self, credentials: Vec<Credential>) -> Result<(), AccessError> {
        let document = Document { version: VERSION, credentials };
        let text = serde_json::to_string(&document)
            .map_err(|source| AccessError::Table { path: self.path.clone(), source })?;
        write_private(&self.path, &text)
            .map_err(|source| AccessError::Write { path: self.path.clone(), source })?;
        self.credentials = document.credentials;
        Ok(())
    }

    pub(super) fn credentials(&self) -> &[Credential] {
        &self.credentials
    }

    /// Certificates of a node that are in force.
    pub(super) fn certificates_of(&self, node: &str, now_s: f64) -> impl Iterator<Item = &Credential> {
        let is_its = move |known: &&Credential| {
            known.kind == Kind::Certificate && known.node.as_deref() == Some(node) && !known.is_over(now_s)
        };
        self.credentials.iter().filter(is_its)
    }

    /// Whose a token or a certificate is.
    pub(super) fn find(&self, kind: Kind, hash: &[u8; 32], now_s: f64) -> Found {
        let mut found = Found::Unknown;
        // All are looked at and none is left early: how long it takes tells nothing.
        for known in &self.credentials {
            if is_equal(&known.hash, hash) && known.kind == kind {
                found = if known.is_over(now_s) { Found::Over } else { Found::Good(known.identity()) };
            }
        }
        found
    }
}

/// How long one that is over is remembered, so that its holder is told so: a week.
const KEPT_S: f64 = 7.0 * 24.0 * 3600.0;

/// Compares without telling by its duration where the difference is.
fn is_equal(left: &[u8; 32], right: &[u8; 32]) -> bool {
    left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_until_they_expire_or_are_revoked_and_never_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let (forever, short) = (Token::new("forever-secret"), Token::new("short-secret"));
        let mut table = Table::empty(&path);
        let ann = |mut credential: Credential| {
            credential.user = "ann".into();
            credential
        };
        table.add(ann(Credential::token("1".into(), Role::User, &forever, 100.0)), 100.0).unwrap();
        let mut second = Credential::token("2".into(), Role::Admin, &short, 100.0);
        second.expires_s = Some(200.0);
        table.add(second, 100.0).unwrap();

        let mut table = Table::read(&path).unwrap().unwrap();
        let find = |table: &Table, token: &Token, now_s| table.find(Kind::Token, &token.hash(), now_s);
        assert!(matches!(find(&table, &forever, 1e9), Found::Good(identity) if identity.user == "ann"));
        assert!(matches!(find(&table, &short, 199.0), Found::Good(_)));
        assert_eq!(find(&table, &short, 200.0), Found::Over);
        assert_eq!(find(&table, &Token::new("other"), 100.0), Found::Unknown);
        assert_eq!(table.find(Kind::Certificate, &forever.hash(), 100.0), Found::Unknown);
        assert_eq!(table.remove(|old| old.id == "1").unwrap(), 1);
        assert_eq!(find(&table, &forever, 100.0), Found::Unknown);
        assert!(!fs::read_to_string(&path).unwrap().contains("secret"));
    }

    #[test]
    fn damaged_table_is_told_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        fs::write(&path, "{\"version\": 1, \"creden").unwrap();
        assert!(matches!(Table::read(&path), Err(AccessError::Table { .. })));
        assert!(fs::read_to_string(&path).unwrap().ends_with("creden"));
    }
}
