//! A notice as JSON that is posted to an address.

use std::io;
use std::net::IpAddr;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper_util::rt::TokioIo;
use wharf_job::check::WebhookUrl;
use wharf_tls::{Web, WebStream};

use super::{Notice, NotifyConfig, NotifyError, again};
use crate::rpc::network::{Network, is_public};

/// A URL that notices can be posted to.
pub(crate) struct Webhook(WebhookUrl);

impl Webhook {
    /// Reads the URL of a webhook; `None` where a text is none.
    pub(crate) fn parse(address: &str) -> Option<Self> {
        WebhookUrl::parse(address).map(Self)
    }

    /// Whether it names an address that webhooks may not target. A name is checked when it is resolved.
    pub(crate) fn is_forbidden(&self, allowed: &[Network]) -> bool {
        let host = self.0.host.trim_start_matches('[').trim_end_matches(']');
        host.parse().is_ok_and(|address| !is_permitted(address, allowed))
    }

    /// Host and port, the only parts that are logged.
    fn authority(&self) -> String {
        format!("{}:{}", self.0.host, self.0.port)
    }

    fn connect_error(&self, source: io::Error) -> NotifyError {
        NotifyError::Connect { host: self.authority(), source }
    }
}

/// Whether webhooks may target an address: those of users reach nothing that only the head's machine or network may reach.
fn is_permitted(address: IpAddr, allowed: &[Network]) -> bool {
    is_public(address) || allowed.iter().any(|network| network.contains(address))
}

/// Posts notices.
pub(super) struct Client {
    web: Web,
}

impl Client {
    pub(super) fn new(config: &NotifyConfig) -> io::Result<Self> {
        Ok(Self { web: Web::new(config.extra_roots.iter().cloned())? })
    }

    /// Posts a notice, again after a pause where that may help.
    pub(super) async fn post_notice(
        &self,
        notice: &Notice,
        config: &NotifyConfig,
    ) -> Result<(), NotifyError> {
        let webhook = Webhook::parse(&notice.target.webhook).ok_or(NotifyError::Address)?;
        let limit = config.attempt_limit;
        again(config, || async {
            let posted = tokio::time::timeout(limit, self.post(&webhook, notice, config)).await;
            posted.unwrap_or(Err(NotifyError::TimedOut(limit)))
        })
        .await
    }

    async fn post(
        &self,
        webhook: &Webhook,
        notice: &Notice,
        config: &NotifyConfig,
    ) -> Result<(), NotifyError> {
        let is_permitted = |address| is_permitted(address, &config.webhook_allow);
        let connected =
            self.web.connect(&webhook.0.host, webhook.0.port, webhook.0.is_tls, is_permitted).await;
        let connected = connected.map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => NotifyError::Forbidden { host: webhook.authority(), source },
            _ => webhook.connect_error(source),
        })?;
        exchange(webhook, notice, connected).await
    }
}

async fn exchange(webhook: &Webhook, notice: &Notice, stream: Box<dyn WebStream>) -> Result<(), NotifyError> {
    let broken = |source| NotifyError::Http { host: webhook.authority(), source };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let request = Request::post(&webhook.0.path)
        .header(HOST, webhook.authority())
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("wharf/", env!("CARGO_PKG_VERSION")))
        .header("idempotency-key", notice.id())
        .body(Full::new(Bytes::from(notice.json())))
        .map_err(|_| NotifyError::Address)?;
    // The connection sends and receives; its end is visible in the answer.
    let driver = tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(broken);
    driver.abort();
    let status = answer?.status();
    if status.is_success() {
        return Ok(());
    }
    Err(NotifyError::Refused { host: webhook.authority(), status: status.as_u16() })
}
