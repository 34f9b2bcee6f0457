//! Tokens become sessions, and requests become identities.
//!
//! A browser shows its token once and gets a cookie that no script can read and no other site can use. The session stands for
//! the token: it ends when the token does. Programs show the token itself with each request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use wharf_proto::Role;
use wharf_proto::tonic::Status;
use wharf_tls::{Token, random_hex, sha256};

use super::Site;
use super::refused::Refused;
use crate::auth::{Identity, bearer};

/// A session ends when nobody has used it for so long.
const IDLE: Duration = Duration::from_secs(12 * 3600);
/// Sessions at a time; the one that was used the longest ago goes.
const SESSIONS_MAX: usize = 4096;
/// A header that only the dashboard's own scripts can send along with a cookie.
const OWN_HEADER: HeaderName = HeaderName::from_static("x-wharf-request");

type Hash = [u8; 32];

struct Session {
    token: Hash,
    used: Instant,
}

/// All sessions, by the hash of what their cookies hold.
pub(super) struct Sessions {
    all: Mutex<BTreeMap<Hash, Session>>,
    /// Cookies are of a host, whatever the port: each head's has a name of its own.
    cookie: String,
    is_secure: bool,
}

impl Sessions {
    pub(super) fn new(port: u16, is_secure: bool) -> Self {
        Self { all: Mutex::default(), cookie: format!("wharf-session-{port}"), is_secure }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Hash, Session>> {
        // Every change is whole.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session; returns the cookie's value.
    fn begin(&self, token: Hash, now: Instant) -> Result<String, Status> {
        let secret = random_hex(32).map_err(|error| Status::internal(error.to_string()))?;
        let mut all = self.all();
        all.retain(|_, session| now.saturating_duration_since(session.used) < IDLE);
        if all.len() >= SESSIONS_MAX {
            let oldest = all.iter().min_by_key(|(_, session)| session.used).map(|(key, _)| *key);
            oldest.map(|key| all.remove(&key));
        }
        all.insert(sha256(secret.as_bytes()), Session { token, used: now });
        Ok(secret)
    }

    /// The hash of the token that a session stands for.
    fn token(&self, headers: &HeaderMap, now: Instant) -> Option<Hash> {
        let key = self.key(headers)?;
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
        if let Some(key) = self.key(headers) {
            self.all().remove(&key);
        }
    }

    /// What a request's cookie is known by.
    fn key(&self, headers: &HeaderMap) -> Option<Hash> {
        let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie).map(|(_, value)| sha256(value.as_bytes()))
    }

    /// Sets the cookie; an empty one is forgotten.
    fn cookie(&self, value: &str) -> String {
        let life_s = if value.is_empty() { 0 } else { IDLE.as_secs() };
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{}={value}; Path=/; Max-Age={life_s}; HttpOnly; SameSite=Strict{secure}", self.cookie)
    }
}

/// Who asks: a person, and the hash of their token.
pub(super) struct Who {
    pub(super) identity: Identity,
    pub(super) token: Hash,
}

impl FromRequestParts<Arc<Site>> for Who {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Refused> {
        let token = match bearer(&parts.headers) {
            Some(token) => token.hash(),
            None => {
                if parts.method != Method::GET {
                    must_be_own(&parts.headers)?;
                }
                let known = site.sessions.token(&parts.headers, Instant::now());
                known.ok_or_else(|| Status::unauthenticated("nobody is logged in"))?
            }
        };
        Ok(Self { identity: person(site, &token)?, token })
    }
}

/// Whose a token is, who must be a person.
pub(super) fn person(site: &Site, token: &Hash) -> Result<Identity, Status> {
    let identity = site.access.holder(token)?;
    match identity.role {
        Role::Admin | Role::User => Ok(identity),
        Role::Worker => Err(Status::permission_denied("permission denied: this is a worker's token")),
    }
}

/// A change that comes with a cookie must come from the dashboard itself: no other site can send the header.
fn must_be_own(headers: &HeaderMap) -> Result<(), Status> {
    let is_elsewhere =
        headers.get("sec-fetch-site").is_some_and(|from| from != "same-origin" && from != "none");
    if headers.contains_key(OWN_HEADER) && !is_elsewhere {
        Ok(())
    } else {
        Err(Status::permission_denied("permission denied: this request comes from another site"))
    }
}

#[derive(Deserialize)]
struct Credentials {
    token: String,
}

/// Shows a token, gets a session.
pub(super) async fn log_in(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refused> {
    must_be_own(&headers)?;
    let shown: Credentials =
        serde_json::from_slice(&body).map_err(|_| Refused::bad("a login is {\"token\": \"...\"}"))?;
    let hash = Token::new(&shown.token).hash();
    let identity = person(&site, &hash)?;
    site.sessions.end(&headers);
    let cookie = site.sessions.cookie(&site.sessions.begin(hash, Instant::now())?);
    let answer = super::api::session_of(&site, &identity);
    Ok(([(header::SET_COOKIE, cookie)], answer).into_response())
}

/// Ends a session.
pub(super) async fn log_out(State(site): State<Arc<Site>>, headers: HeaderMap) -> Result<Response, Refused> {
    must_be_own(&headers)?;
    site.sessions.end(&headers);
    Ok(([(header::SET_COOKIE, site.sessions.cookie(""))], "{}").into_response())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn with_cookie(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_str(text).unwrap());
        headers
    }

    #[test]
    fn session_stands_for_its_token_until_it_ends_or_is_idle() {
        let sessions = Sessions::new(7718, true);
        let now = Instant::now();
        let secret = sessions.begin([7; 32], now).unwrap();
        let cookie = sessions.cookie(&secret);
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
        let headers = with_cookie(&format!("other=1; wharf-session-7718={secret}"));
        assert_eq!(sessions.token(&headers, now), Some([7; 32]));
        assert_eq!(sessions.token(&with_cookie(&format!("wharf-session-1={secret}")), now), None);
        assert_eq!(sessions.token(&with_cookie("wharf-session-7718=guess"), now), None);
        assert_eq!(sessions.token(&headers, now + IDLE), None, "it was idle for too long");
        let secret = sessions.begin([8; 32], now).unwrap();
        let headers = with_cookie(&format!("wharf-session-7718={secret}"));
        sessions.end(&headers);
        assert_eq!(sessions.token(&headers, now), None);
    }

    #[test]
    fn number_of_sessions_is_bounded() {
        let sessions = Sessions::new(1, false);
        let now = Instant::now();
        for later in 0..SESSIONS_MAX as u64 + 10 {
            sessions.begin([0; 32], now + Duration::from_secs(later)).unwrap();
        }
        assert_eq!(sessions.all().len(), SESSIONS_MAX);
    }

    #[test]
    fn changes_come_from_the_dashboard_itself() {
        let mut headers = HeaderMap::new();
        assert!(must_be_own(&headers).is_err(), "a form of another site sends no such header");
        headers.insert(OWN_HEADER, HeaderValue::from_static("1"));
        assert!(must_be_own(&headers).is_ok());
        headers.insert("sec-fetch-site", HeaderValue::from_static("cross-site"));
        assert!(must_be_own(&headers).is_err());
        headers.insert("sec-fetch-site", HeaderValue::from_static("same-origin"));
        assert!(must_be_own(&headers).is_ok());
    }
}
