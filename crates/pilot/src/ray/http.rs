//! A dashboard of Ray over HTTP: one request on one connection.

use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, Uri};
use tokio::time::timeout;
use wharf_tls::{Web, exchange};

use super::error::{NoResponse, RayError};

/// Time limit of a request.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Largest response.
const RESPONSE_BYTES_MAX: usize = 256 << 20;

/// Where a dashboard is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    is_tls: bool,
    host: String,
    port: u16,
}

impl Address {
    /// Reads `http://host:8265`, or the same with https.
    pub(super) fn parse(text: &str) -> Result<Self, RayError> {
        let wrong = || RayError::Address { text: text.to_owned() };
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let authority =
            uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(wrong)?;
        // Ray's own port where none is given; behind TLS there is another server.
        let (is_tls, usual) = match uri.scheme_str() {
            Some("http") => (false, 8265),
            Some("https") => (true, 443),
            _ => return Err(wrong()),
        };
        if authority.host().is_empty() || !matches!(uri.path(), "" | "/") {
            return Err(wrong());
        }
        Ok(Self { is_tls, host: authority.host().to_owned(), port: authority.port_u16().unwrap_or(usual) })
    }

    fn text(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Sends a request, and returns the status and the body of the response.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        token: Option<&str>,
    ) -> Result<(u16, Bytes), RayError> {
        let failed = |source: NoResponse| RayError::Unreached { address: self.text(), source };
        let exchanged = timeout(PATIENCE, async {
            let web = Web::new([])?;
            let stream = web.connect(&self.host, self.port, self.is_tls, |_| true).await?;
            let mut request = Request::builder().method(method).uri(path).header(HOST, self.text());
            request = request.header(CONTENT_TYPE, "application/json");
            request = request.header(USER_AGENT, concat!("wharf/", env!("CARGO_PKG_VERSION")));
            if let Some(token) = token {
                request = request.header(AUTHORIZATION, format!("Bearer {token}"));
            }
            let request = request.body(Full::new(Bytes::from(body)))?;
            let response = exchange(stream, request, RESPONSE_BYTES_MAX).await?;
            Ok((response.status().as_u16(), response.into_body()))
        });
        exchanged.await.unwrap_or(Err(NoResponse::Silent)).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_dashboards_are_distinguished_from_others() {
        for (text, expected) in [
            ("http://node1:8265", Some("node1:8265")),
            ("http://node1", Some("node1:8265")),
            ("http://[::1]:9000/", Some("[::1]:9000")),
            ("https://node1:8265", Some("node1:8265")),
            ("https://node1", Some("node1:443")),
            ("ray://node1:10001", None),
            ("node1:8265", None),
            ("http://ann:word@node1:8265", None),
            ("http://node1:8265/api", None),
        ] {
            assert_eq!(
                Address::parse(text).ok().map(|address| address.text()).as_deref(),
                expected,
                "{text}"
            );
        }
    }
}
