//! The way to the head: over TLS with a certificate that the worker gets by a join token, and renews in time.

use std::io;
use std::path::Path;
use std::time::Duration;

use wharf_proto::JoinRequest;
use wharf_proto::access_client::AccessClient;
use wharf_proto::tonic::metadata::{Ascii, MetadataValue};
use wharf_proto::tonic::transport::{Channel, Endpoint};
use wharf_proto::tonic::{Request, Status};
use wharf_tls::{ConnectError, Token};

use super::identity::Identity;
use crate::WorkerConfig;
use crate::error::WorkerError;

/// How long the head may take to sign.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);

/// How a worker comes to its head.
pub(crate) enum Door {
    /// `http://`: only a token, in the clear. For heads in the same process; `wharf` never makes such an address.
    Plain {
        endpoint: Endpoint,
        bearer: MetadataValue<Ascii>,
    },
    Safe(Safe),
}

/// `https://`
pub(crate) struct Safe {
    endpoint: Endpoint,
    node: String,
    token: Option<Token>,
    identity: Identity,
}

impl Door {
    /// The door that the address says; `tuned` sets what all connections have in common.
    pub(crate) fn new(
        config: &WorkerConfig,
        tuned: impl Fn(Endpoint) -> Endpoint,
    ) -> Result<Self, WorkerError> {
        let Some(address) = config.head.strip_prefix("https://") else {
            let endpoint = Endpoint::from_shared(config.head.clone())
                .map_err(|source| WorkerError::HeadAddress { address: config.head.clone(), source })?;
            return Ok(Self::Plain { endpoint: tuned(endpoint), bearer: bearer(&config.token)? });
        };
        let endpoint = wharf_tls::endpoint(address).map_err(|error| match error {
            ConnectError::Address { address, source } => WorkerError::HeadAddress { address, source },
            other => WorkerError::Refused { reason: other.to_string() },
        })?;
        let token = (!config.token.is_empty()).then(|| Token::new(&config.token));
        if let Some(token) = &token {
            bearer(token.reveal())?;
        }
        let identity =
            Identity::open(&config.state_dir, &config.node).map_err(in_state(&config.state_dir))?;
        let safe = Safe { endpoint: tuned(endpoint), node: config.node.clone(), token, identity };
        Ok(Self::Safe(safe))
    }

    /// A connection, and what to show with every request.
    pub(crate) async fn open(&mut self) -> Result<(Channel, Option<MetadataValue<Ascii>>), Status> {
        match self {
            Self::Plain { endpoint, bearer } => {
                let channel =
                    endpoint.connect().await.map_err(|error| Status::from_error(Box::new(error)))?;
                Ok((channel, Some(bearer.clone())))
            }
            Self::Safe(safe) => Ok((safe.open().await?, None)),
        }
    }

    /// Returns when the certificate is to be renewed.
    pub(crate) async fn renewal_due(&self) {
        match self {
            Self::Safe(safe) if let Some(left) = safe.identity.renew_in() => tokio::time::sleep(left).await,
            Self::Plain { .. } | Self::Safe(_) => std::future::pending().await,
        }
    }

    /// Renews the certificate. The connection is a new one: an old one may have been opened with a certificate that has ended.
    pub(crate) async fn renew(&mut self) -> Result<(), Status> {
        let Self::Safe(safe) = self else { return Ok(()) };
        let renewed = match safe.certified().await {
            Ok(channel) => safe.join(channel, None).await,
            Err(status) => Err(status),
        };
        if renewed.is_err() {
            safe.identity.postpone();
        }
        renewed
    }
}

impl Safe {
    async fn open(&mut self) -> Result<Channel, Status> {
        if self.identity.certificate(self.token.as_ref()).is_none() {
            let token = self.token.clone().ok_or_else(|| {
                Status::unauthenticated(
                    "this worker has no certificate that counts, and no join token to get one; \
                     make one with `wharf token create --role worker` and name its file with `--join-token-file`",
                )
            })?;
            let authority = token.authority().ok_or_else(|| {
                Status::unauthenticated("malformed join token: expected whf1.FINGERPRINT.SECRET")
            })?;
            let channel = wharf_tls::connect(&self.endpoint, authority, None).await.map_err(unreachable)?;
            self.join(channel, Some(&token)).await?;
        }
        self.certified().await
    }

    /// A connection that shows the certificate.
    async fn certified(&self) -> Result<Channel, Status> {
        let Some((authority, certificate)) = self.identity.certificate(self.token.as_ref()) else {
            return Err(Status::unavailable(
                "the head's certificate for this worker has expired; check the clocks",
            ));
        };
        wharf_tls::connect(&self.endpoint, authority, Some(&certificate)).await.map_err(unreachable)
    }

    /// Asks for a certificate and keeps it.
    async fn join(&mut self, channel: Channel, token: Option<&Token>) -> Result<(), Status> {
        let broken = |error: io::Error| Status::unavailable(format!("cannot use the worker's key: {error}"));
        let csr = self.identity.request().map_err(broken)?;
        let mut request = Request::new(JoinRequest { csr, node: self.node.clone() });
        if let Some(token) = token {
            let bearer =
                bearer(token.reveal()).map_err(|error| Status::invalid_argument(error.to_string()))?;
            request.metadata_mut().insert("authorization", bearer);
        }
        let mut client = AccessClient::new(channel);
        let reply = tokio::time::timeout(JOIN_TIMEOUT, client.join(request))
            .await
            .map_err(|_| Status::deadline_exceeded("the head does not answer"))??
            .into_inner();
        self.identity.accept(reply, token).map_err(broken)
    }
}

fn bearer(token: &str) -> Result<MetadataValue<Ascii>, WorkerError> {
    let mut bearer: MetadataValue<Ascii> =
        format!("Bearer {token}").parse().map_err(|_| WorkerError::Token)?;
    bearer.set_sensitive(true);
    Ok(bearer)
}

fn in_state(state_dir: &Path) -> impl Fn(io::Error) -> WorkerError {
    let path = state_dir.join("identity.json");
    move |source| WorkerError::StateDir { path: path.clone(), source }
}

/// An impostor is a refusal; everything else may pass.
fn unreachable(error: ConnectError) -> Status {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    match error {
        ConnectError::Impostor { .. } => Status::unauthenticated(text),
        _ => Status::unavailable(text),
    }
}
