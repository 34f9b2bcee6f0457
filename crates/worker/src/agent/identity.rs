//! What a worker shows to be believed: its key, and the head's certificate for it. Kept in the state directory, mode 0600.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use wharf_proto::JoinReply;
use wharf_tls::{
    ClientCertificate, Fingerprint, Token, is_missing, new_key, request_certificate, sha256, write_private,
};

/// A worker's key and, once it has joined, its certificate.
pub(crate) struct Identity {
    path: PathBuf,
    node: String,
    kept: Kept,
}

#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    node: String,
    /// In PEM. It is kept before the head hears of it, so that asking again after a crash asks for the same.
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    membership: Option<Membership>,
}

/// That a head has taken the worker in.
#[derive(Clone, Serialize, Deserialize)]
struct Membership {
    /// In DER.
    certificate: Vec<u8>,
    authority: String,
    /// The hash of the token that it joined with: another one means that it is to join again.
    token: [u8; 32],
    /// Seconds since the Unix epoch.
    renew_s: f64,
    expires_s: f64,
}

impl Identity {
    /// What is kept for this node, or a new key.
    pub(crate) fn open(state_dir: &Path, node: &str) -> io::Result<Self> {
        let path = state_dir.join("identity.json");
        let kept = match fs::read_to_string(&path) {
            Ok(text) => Some(serde_json::from_str::<Kept>(&text)?),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error),
        };
        if let Some(kept) = kept.filter(|kept| kept.node == node) {
            return Ok(Self { path, node: node.to_owned(), kept });
        }
        let key = new_key().map_err(io::Error::other)?;
        let mut identity =
            Self { path, node: node.to_owned(), kept: Kept { node: node.to_owned(), key, membership: None } };
        identity.keep(None)?;
        Ok(identity)
    }

    fn keep(&mut self, membership: Option<Membership>) -> io::Result<()> {
        let kept = Kept { membership, ..self.kept.clone() };
        write_private(&self.path, &serde_json::to_string(&kept)?)?;
        self.kept = kept;
        Ok(())
    }

    /// The certificate, and the authority that made it, if it still counts and no new token says to join again.
    pub(crate) fn certificate(&self, token: Option<&Token>) -> Option<(Fingerprint, ClientCertificate)> {
        let membership = self.kept.membership.as_ref()?;
        let is_other = token.is_some_and(|token| token.hash() != membership.token);
        if is_other || membership.expires_s <= unix_s() {
            return None;
        }
        let certificate =
            ClientCertificate { certificate: membership.certificate.clone(), key: self.kept.key.clone() };
        Some((membership.authority.parse().ok()?, certificate))
    }

    /// How long until the certificate is to be renewed.
    pub(crate) fn renew_in(&self) -> Option<Duration> {
        let left_s = self.kept.membership.as_ref()?.renew_s - unix_s();
        Some(Duration::try_from_secs_f64(left_s).unwrap_or(Duration::ZERO))
    }

    /// After a renewal that failed: tries again in a tenth of what is left.
    pub(crate) fn postpone(&mut self) {
        if let Some(membership) = &mut self.kept.membership {
            let now_s = unix_s();
            membership.renew_s = now_s + ((membership.expires_s - now_s) / 10.0).max(1.0);
        }
    }

    /// A request for a certificate.
    pub(crate) fn request(&self) -> io::Result<Vec<u8>> {
        request_certificate(&self.kept.key, &self.node).map_err(io::Error::other)
    }

    /// Keeps what the head answered; `token` is what it was asked with, if not with the old certificate.
    pub(crate) fn accept(&mut self, reply: JoinReply, token: Option<&Token>) -> io::Result<()> {
        let now_s = unix_s();
        let old = self.kept.membership.as_ref().map(|membership| membership.token);
        let token = token.map(Token::hash).or(old).unwrap_or_else(|| sha256(b""));
        self.keep(Some(Membership {
            authority: Fingerprint::of(&reply.ca).to_string(),
            certificate: reply.certificate,
            token,
            renew_s: now_s + reply.renew_in_s,
            expires_s: now_s + reply.expires_in_s,
        }))
    }
}

fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn reply(expires_in_s: f64) -> JoinReply {
        JoinReply { certificate: vec![1], ca: vec![2], renew_in_s: expires_in_s / 2.0, expires_in_s }
    }

    #[test]
    fn key_stays_and_certificate_counts_for_its_time_and_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let (first, other) = (Token::new("first"), Token::new("other"));
        let mut identity = Identity::open(folder.path(), "a").unwrap();
        let key = identity.kept.key.clone();
        assert!(identity.certificate(Some(&first)).is_none());
        identity.accept(reply(100.0), Some(&first)).unwrap();

        let mut identity = Identity::open(folder.path(), "a").unwrap();
        assert_eq!(identity.kept.key, key);
        assert!(identity.certificate(Some(&first)).is_some());
        assert!(identity.certificate(None).is_some());
        assert!(identity.certificate(Some(&other)).is_none(), "a new token means to join again");
        identity.accept(reply(-1.0), None).unwrap();
        assert!(identity.certificate(Some(&first)).is_none(), "it has expired");
        assert_eq!(identity.kept.membership.as_ref().unwrap().token, first.hash());

        let mode = fs::metadata(folder.path().join("identity.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_ne!(Identity::open(folder.path(), "b").unwrap().kept.key, key, "another node has another key");
    }
}
