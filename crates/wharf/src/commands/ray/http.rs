//! A dashboard of Ray over HTTP: one request on one connection.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use wharf_tls::Web;

use crate::error::CliError;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Larger answers are not taken.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Where a dashboard is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    is_tls: bool,
    host: String,
    port: u16,
}

impl Address {
    /// Reads `http://host:8265`, or the same with https.
    pub(super) fn parse(text: &str) -> Result<Self, CliError> {
        let wrong = || {
            CliError::usage(format!("`{text}` is not the address of a Ray dashboard"))
                .hint("expected http://host:8265 or https://host")
        };
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

    /// Asks, and returns the status and the answer.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        token: Option<&str>,
    ) -> Result<(u16, Vec<u8>), CliError> {
        let failed = |error: &dyn std::error::Error| {
            CliError::input(format!("the Ray cluster at {} does not answer: {error}", self.text())).hint(
                "check that its dashboard runs: it needs `ray[default]`, and `--dashboard-host` for other machines",
            )
        };
        let asked = timeout(PATIENCE, async {
            let web = Web::new([]).map_err(|error| failed(&error))?;
            let connected = web.connect(&self.host, self.port, self.is_tls, |_| true).await;
            let stream = connected.map_err(|error| failed(&error))?;
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
            let driver = tokio::spawn(connection);
            let mut request = Request::builder().method(method).uri(path).header(HOST, self.text());
            request = request.header(CONTENT_TYPE, "application/json");
            request = request.header(USER_AGENT, concat!("wharf/", env!("CARGO_PKG_VERSION")));
            if let Some(token) = token {
                request = request.header(AUTHORIZATION, format!("Bearer {token}"));
            }
            let request = request.body(Full::new(Bytes::from(body))).map_err(|error| failed(&error))?;
            let answer = sender.send_request(request).await.map_err(|error| failed(&error))?;
            let status = answer.status().as_u16();
            let read = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            let read = read.map_err(|error| failed(error.as_ref()))?;
            driver.abort();
            Ok((status, read.to_bytes().to_vec()))
        });
        asked.await.unwrap_or_else(|elapsed| Err(failed(&elapsed)))
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
