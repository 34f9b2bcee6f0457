//! Lets requests in or not: finds out who asks, checks the role, and passes the identity on.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use wharf_proto::tonic::Status;
use wharf_proto::tonic::body::Body;
use wharf_proto::tonic::codegen::{BoxFuture, Service, http};
use wharf_proto::tonic::server::NamedService;
use wharf_proto::tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};
use wharf_tls::{Token, sha256};

use super::access::Access;
use super::identity::Identity;
use super::rpcs;
use super::tokens::{Found, Kind};
use crate::clock::unix_s;

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

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let checked = self.access.identify(&request).and_then(|identity| {
            rpcs::check(request.uri().path(), &identity)?;
            Ok(identity)
        });
        match checked {
            Ok(identity) => {
                request.extensions_mut().insert(identity);
                Box::pin(self.inner.call(request))
            }
            Err(status) => Box::pin(std::future::ready(Ok(status.into_http()))),
        }
    }
}

impl Access {
    /// Whose the token with that hash is.
    pub(crate) fn holder(&self, hash: &[u8; 32]) -> Result<Identity, Status> {
        match self.table().find(Kind::Token, hash, unix_s()) {
            Found::Good(identity) => Ok(identity),
            Found::Over => Err(Status::unauthenticated(
                "the token has expired; an admin makes a new one with `wharf token create`",
            )),
            Found::Unknown => Err(Status::unauthenticated("the token is missing or wrong, or was revoked")),
        }
    }

    /// Who a request is from. A token counts before a certificate: it says more about the single request.
    fn identify(&self, request: &http::Request<Body>) -> Result<Identity, Status> {
        let now_s = unix_s();
        if let Some(token) = bearer(request.headers()) {
            return self.holder(&token.hash());
        }
        let shown =
            request.extensions().get::<TlsConnectInfo<TcpConnectInfo>>().and_then(TlsConnectInfo::peer_certs);
        let Some(certificate) = shown.as_ref().and_then(|chain| chain.first()) else {
            return Err(Status::unauthenticated("the token is missing or wrong"));
        };
        // The handshake has checked who signed it; the table knows which node it is for, and that it was not revoked.
        match self.table().find(Kind::Certificate, &sha256(certificate), now_s) {
            Found::Good(identity) => Ok(identity),
            Found::Over => {
                Err(Status::unauthenticated("the worker's certificate has expired; it has to join again"))
            }
            Found::Unknown => Err(Status::unauthenticated(
                "the worker's certificate was revoked; it has to join again with a new token",
            )),
        }
    }
}

/// The token that a request shows.
pub(crate) fn bearer(headers: &http::HeaderMap) -> Option<Token> {
    let value = headers.get("authorization")?.to_str().ok()?;
    value.strip_prefix("Bearer ").map(Token::new)
}
