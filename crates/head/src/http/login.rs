//! Tokens become sessions, and requests become identities.
//!
//! A browser shows its token once and gets a secret, which the page keeps for its own origin (scheme, host and port) and sends in a
//! header. Browsers never send it by themselves, so that neither other sites nor other ports of the host get or use it. The
//! session stands for the token: it ends when the token does. Programs show the token itself with each request.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, header};
use serde::Deserialize;
use serde_json::json;
use wharf_proto::Role;
use wharf_proto::tonic::Status;
use wharf_tls::{Token, random_hex, sha256};

use super::Site;
use super::api::{Answer, Json};
use super::refused::Refused;
use crate::auth::audit::Subject;
use crate::auth::{Identity, bearer};
use crate::rpc::connections::Peer;

/// A session ends when it has not been used for so long.
const IDLE: Duration = Duration::from_secs(12 * 3600);
/// Sessions at a time, and of one token; the one that was used the longest ago is removed.
const SESSIONS_MAX: usize = 4096;
const TOKEN_SESSIONS_MAX: usize = 64;
/// The header with a session's secret.
const SESSION_HEADER: HeaderName = HeaderName::from_static("x-wharf-session");

type Hash = [u8; 32];

struct Session {
    token: Hash,
    used: Instant,
}

/// All sessions, by the hashes of their secrets.
#[derive(Default)]
pub(super) struct Sessions {
    all: Mutex<BTreeMap<Hash, Session>>,
}

impl Sessions {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Hash, Session>> {
        // Every change is a single insertion or removal.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session; returns its secret.
    fn begin(&self, token: Hash, now: Instant) -> Result<String, Status> {
        let secret = random_hex(32).map_err(|error| Status::internal(error.to_string()))?;
        let mut all = self.all();
        all.retain(|_, session| now.saturating_duration_since(session.used) < IDLE);
        let of_token = all.values().filter(|session| session.token == token).count();
        let is_removable = |session: &Session| of_token < TOKEN_SESSIONS_MAX || session.token == token;
        if of_token >= TOKEN_SESSIONS_MAX || all.len() >= SESSIONS_MAX {
            let candidates = all.iter().filter(|(_, session)| is_removable(session));
            let oldest = candidates.min_by_key(|(_, session)| session.used).map(|(key, _)| *key);
            oldest.map(|key| all.remove(&key));
        }
        all.insert(sha256(secret.as_bytes()), Session { token, used: now });
        Ok(secret)
    }

    /// The hash of the token that a session stands for.
    fn token(&self, headers: &HeaderMap, now: Instant) -> Option<Hash> {
        let key = key(headers)?;
        let mut all = self.all();
        let session = all.get_mut(&key)?;
        if now.saturating_duration_since(session.used) >= IDLE {
            all.remove(&key);
            return None;
        }
        session.used = now;
        Some(session.token)
    }

    fn end(&self, headers: &HeaderMap) {
        if let Some(key) = key(headers) {
            self.all().remove(&key);
        }
    }
}

/// The hash of the secret that a request has.
fn key(headers: &HeaderMap) -> Option<Hash> {
    headers.get(SESSION_HEADER).map(|secret| sha256(secret.as_bytes()))
}

/// Who makes a request.
pub(super) struct Who {
    pub(super) identity: Identity,
}

impl FromRequestParts<Arc<Site>> for Who {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Refused> {
        let (address, action) = (address(&parts.extensions), parts.uri.path());
        let identity = if parts.headers.contains_key(header::AUTHORIZATION) {
            site.access.holder(&bearer(&parts.headers)?, address, action)?
        } else {
            let known = site.sessions.token(&parts.headers, Instant::now());
            let token =
                known.ok_or_else(|| Status::unauthenticated("the request has no token or session"))?;
            site.access.holder_of(&token, address, action)?
        };
        let identity = person(identity)?;
        if let Some(peer) = parts.extensions.get::<Peer>() {
            peer.authenticated();
        }
        Ok(Self { identity })
    }
}

fn address(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<Peer>().map(|peer| peer.address)
}

/// Fails where an identity is a worker's.
fn person(identity: Identity) -> Result<Identity, Status> {
    match identity.role {
        Role::Admin | Role::User => Ok(identity),
        Role::Worker => Err(Status::permission_denied("permission denied: this is a worker's token")),
    }
}

#[derive(Deserialize)]
struct Credentials {
    token: String,
}

/// Exchanges a token for a session's secret.
pub(super) async fn log_in(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    extensions: Extensions,
    body: Bytes,
) -> Answer {
    let shown: Credentials = serde_json::from_slice(&body)
        .map_err(|_| Refused::bad("malformed login: expected {\"token\": \"...\"}"))?;
    let token = Token::new(&shown.token);
    let identity = person(site.access.holder(&token, address(&extensions), "dashboard-login")?)?;
    site.sessions.end(&headers);
    let secret = site.sessions.begin(token.hash(), Instant::now())?;
    site.access.audit.record(Subject::Access, &identity, "dashboard-login", Vec::new(), &Ok::<_, Status>(()));
    let mut answer = super::api::session_of(&site, &identity);
    answer["session"] = secret.into();
    Json::of(&answer)
}

/// Ends a session.
pub(super) async fn log_out(State(site): State<Arc<Site>>, headers: HeaderMap) -> Answer {
    site.sessions.end(&headers);
    Json::of(&json!({}))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn with_secret(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(SESSION_HEADER, HeaderValue::from_str(text).unwrap());
        headers
    }

    #[test]
    fn session_stands_for_its_token_until_it_ends_or_is_idle() {
        let sessions = Sessions::default();
        let now = Instant::now();
        let secret = sessions.begin([7; 32], now).unwrap();
        let headers = with_secret(&secret);
        assert_eq!(sessions.token(&headers, now), Some([7; 32]));
        assert_eq!(sessions.token(&with_secret("guess"), now), None);
        assert_eq!(sessions.token(&HeaderMap::new(), now), None);
        assert_eq!(sessions.token(&headers, now + IDLE), None, "it was idle for too long");
        let headers = with_secret(&sessions.begin([8; 32], now).unwrap());
        sessions.end(&headers);
        assert_eq!(sessions.token(&headers, now), None);
    }

    #[test]
    fn number_of_sessions_is_bounded_and_one_token_displaces_only_its_own() {
        let sessions = Sessions::default();
        let now = Instant::now();
        let ann = with_secret(&sessions.begin([1; 32], now).unwrap());
        for later in 1..SESSIONS_MAX as u64 + 10 {
            sessions.begin([0; 32], now + Duration::from_secs(later)).unwrap();
        }
        assert_eq!(sessions.all().len(), TOKEN_SESSIONS_MAX + 1);
        assert_eq!(sessions.token(&ann, now), Some([1; 32]));
        for later in 0..SESSIONS_MAX {
            let token = sha256(&later.to_le_bytes());
            sessions.begin(token, now + Duration::from_secs(9000)).unwrap();
        }
        assert_eq!(sessions.all().len(), SESSIONS_MAX);
    }
}
