//! Authenticates requests, checks their scope, and ends them when their token or certificate does.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Bytes, Frame};
use wharf_proto::tonic::Status;
use wharf_proto::tonic::body::Body;
use wharf_proto::tonic::codegen::{BoxFuture, Service, StdError, http};
use wharf_proto::tonic::server::NamedService;
use wharf_tls::{Token, sha256};

use super::access::Access;
use super::identity::Identity;
use super::rpcs;
use super::tokens::{CredentialKind, Found, Left};
use crate::rpc::connections::Peer;

/// An expiry is checked at least this often, so that a changed clock is noticed.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// A service behind the guard.
#[derive(Clone)]
pub(crate) struct Guarded<S> {
    inner: S,
    access: Arc<Access>,
}

impl<S> Guarded<S> {
    pub(crate) fn new(inner: S, access: Arc<Access>) -> Self {
        Self { inner, access }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Guarded<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let identity = match self.access.admit(&request) {
            Ok(identity) => identity,
            Err(status) => return Box::pin(std::future::ready(Ok(status.into_http()))),
        };
        let ended = || Box::pin(self.access.ended(&identity));
        let (mut of_call, of_input, of_output) = (ended(), ended(), ended());
        let mut request = request.map(|body| Body::new(Bounded::new(body, of_input, false)));
        request.extensions_mut().insert(identity);
        let answered = self.inner.call(request);
        Box::pin(async move {
            let response = tokio::select! {
                biased;
                response = answered => response?,
                status = &mut of_call => return Ok(status.into_http()),
            };
            Ok(response.map(|body| Body::new(Bounded::new(body, of_output, true))))
        })
    }
}

impl Access {
    /// Whether a request may be served, and for whom. Refusals are recorded.
    fn admit(&self, request: &http::Request<Body>) -> Result<Identity, Status> {
        let path = request.uri().path();
        let peer = request.extensions().get::<Peer>();
        let address = peer.map(|peer| peer.address);
        let action = path.rsplit('/').next().unwrap_or(path);
        let identity = self.identify(request.headers(), peer, action)?;
        if let Some(peer) = peer {
            peer.authenticated();
        }
        rpcs::check(path, &identity)
            .inspect_err(|status| self.audit.refusal(Some(&identity), address, action, status))?;
        Ok(identity)
    }

    /// The identity that a request proves. A token counts before a certificate: it says more about the single request.
    fn identify(
        &self,
        headers: &http::HeaderMap,
        peer: Option<&Peer>,
        action: &str,
    ) -> Result<Identity, Status> {
        let address = peer.map(|peer| peer.address);
        if headers.contains_key("authorization") {
            let token =
                bearer(headers).inspect_err(|status| self.audit.refusal(None, address, action, status))?;
            if let Some((job, generation)) = self.authority.task_tokens.verify(&token) {
                return Ok(Identity::of_task(job, generation, address));
            }
            return self.holder(&token, address, action);
        }
        let Some(certificate) = peer.and_then(|peer| peer.certificate.as_deref()) else {
            let status = Status::unauthenticated("the request has no token");
            self.audit.refusal(None, address, action, &status);
            return Err(status);
        };
        // The handshake has checked who signed it; the table has its node, and whether it was revoked.
        self.look_up(CredentialKind::Certificate, &sha256(certificate), address, action)
    }

    /// The holder of a token that is used from an address.
    pub(crate) fn holder(
        &self,
        token: &Token,
        address: Option<IpAddr>,
        action: &str,
    ) -> Result<Identity, Status> {
        let found = self.look_up(CredentialKind::Token, &token.hash(), address, action);
        found.map_err(|status| match token.authority() {
            Some(authority) if authority != self.fingerprint() => Status::unauthenticated(format!(
                "the token is of another cluster, with the fingerprint {authority}; this one has {}",
                self.fingerprint()
            )),
            _ => status,
        })
    }

    /// The holder of the token with that hash.
    pub(crate) fn holder_of(
        &self,
        hash: &[u8; 32],
        address: Option<IpAddr>,
        action: &str,
    ) -> Result<Identity, Status> {
        self.look_up(CredentialKind::Token, hash, address, action)
    }

    fn look_up(
        &self,
        kind: CredentialKind,
        hash: &[u8; 32],
        address: Option<IpAddr>,
        action: &str,
    ) -> Result<Identity, Status> {
        let found = self.table().find(kind, hash, address, self.now_s());
        let (identity, reason) = match (found, kind) {
            (Found::Valid { identity, is_new_address }, _) => {
                if is_new_address {
                    self.audit.login(&identity);
                }
                return Ok(identity);
            }
            (Found::Expired(identity), kind) => (Some(identity), expired(kind)),
            (Found::Elsewhere(identity), _) => {
                (Some(identity), "the token may not be used from this address")
            }
            (Found::Unknown, CredentialKind::Token) => (None, "the token is wrong, or was revoked"),
            (Found::Unknown, CredentialKind::Certificate) => {
                (None, "the worker's certificate was revoked; join again with a new token")
            }
        };
        let status = Status::unauthenticated(reason);
        self.audit.refusal(identity.as_ref(), address, action, &status);
        Err(status)
    }

    /// Completes when the token or certificate of an identity expires or is revoked.
    pub(crate) fn ended(
        self: &Arc<Self>,
        identity: &Identity,
    ) -> impl Future<Output = Status> + Send + use<> {
        let (access, identity) = (self.clone(), identity.clone());
        let mut changes = self.changes.subscribe();
        let kind = if identity.is_certified { CredentialKind::Certificate } else { CredentialKind::Token };
        async move {
            if identity.task.is_some() {
                // It is valid while its task runs, and what it was used for ends with the task.
                return std::future::pending().await;
            }
            loop {
                changes.mark_unchanged();
                let left = access.table().left(&identity, access.now_s());
                let wait = match left {
                    Left::Revoked => return Status::unauthenticated("the token or certificate was revoked"),
                    Left::Expired => return Status::unauthenticated(expired(kind)),
                    Left::Unlimited => CHECK_INTERVAL,
                    Left::Seconds(left_s) => {
                        Duration::try_from_secs_f64(left_s).unwrap_or(CHECK_INTERVAL).min(CHECK_INTERVAL)
                    }
                };
                tokio::select! {
                    // Its sender lives as long as `access`.
                    _ = changes.changed() => {}
                    () = tokio::time::sleep(wait) => {}
                }
            }
        }
    }
}

/// Why a credential that was valid before is refused, and how it is replaced.
fn expired(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::Token => {
            "the token has expired; an admin renews it with `wharf token renew` or makes a new one with \
             `wharf token create`"
        }
        CredentialKind::Certificate => "the worker's certificate has expired; join again with a new token",
    }
}

impl Access {
    /// Ends a response when the token of an identity ends.
    pub(crate) fn bound(
        self: &Arc<Self>,
        identity: &Identity,
        response: http::Response<axum::body::Body>,
    ) -> http::Response<axum::body::Body> {
        let ended = Box::pin(self.ended(identity));
        response.map(|body| axum::body::Body::new(Bounded::new(body, ended, false)))
    }
}

/// The token that a request shows.
pub(crate) fn bearer(headers: &http::HeaderMap) -> Result<Token, Status> {
    let malformed = || {
        Status::unauthenticated(
            "malformed token: expected the header `authorization: Bearer whf1.FINGERPRINT.SECRET`",
        )
    };
    let value =
        headers.get("authorization").ok_or_else(|| Status::unauthenticated("the request has no token"))?;
    let token = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer ")).ok_or_else(malformed)?;
    let token = Token::new(token);
    if token.reveal().is_empty() { Err(malformed()) } else { Ok(token) }
}

/// A body that ends when the token or certificate of its request does.
struct Bounded<B, E> {
    inner: B,
    ended: Pin<Box<E>>,
    /// It is a response: trailers carry its status.
    is_response: bool,
    is_over: bool,
}

impl<B, E> Bounded<B, E> {
    fn new(inner: B, ended: Pin<Box<E>>, is_response: bool) -> Self {
        Self { inner, ended, is_response, is_over: false }
    }
}

impl<B, E> HttpBody for Bounded<B, E>
where
    B: HttpBody<Data = Bytes, Error: Into<StdError>> + Unpin,
    E: Future<Output = Status>,
{
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let body = self.get_mut();
        if body.is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(status) = body.ended.as_mut().poll(context) {
            body.is_over = true;
            let mut trailers = http::HeaderMap::new();
            let frame = match status.add_header(&mut trailers) {
                Ok(()) if body.is_response => Ok(Frame::trailers(trailers)),
                _ => Err(status.into()),
            };
            return Poll::Ready(Some(frame));
        }
        Pin::new(&mut body.inner).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.inner.is_end_stream()
    }
}
