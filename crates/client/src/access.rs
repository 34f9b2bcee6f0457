//! Where a head is, how it is known, and what it wants to be shown.

use std::time::Duration;

use wharf_proto::tonic::metadata::{Ascii, MetadataValue};
use wharf_proto::tonic::service::Interceptor;
use wharf_proto::tonic::service::interceptor::InterceptedService;
use wharf_proto::tonic::transport::Channel;
use wharf_proto::tonic::{Request, Status};
use wharf_tls::{ConnectError, Fingerprint, Token};

use crate::ClientError;

/// Pauses between attempts to reach a head that does not answer: one that restarts is there again soon.
const CONNECT_PAUSES: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(300), Duration::from_millis(900)];

/// A head, how to know it, and what to show it.
#[derive(Clone, Debug)]
pub struct Access {
    /// `host:port`
    pub address: String,
    /// Whose certificate the head must have.
    pub authority: Fingerprint,
    /// The secret. Never shown.
    pub token: Token,
}

impl Access {
    /// Connects, and makes sure that it is the right head.
    ///
    /// # Errors
    /// [`ClientError`] where it does not answer, or is another.
    pub async fn connect(&self) -> Result<Connection, ClientError> {
        let mut bearer: MetadataValue<Ascii> =
            format!("Bearer {}", self.token.reveal()).parse().map_err(|_| ClientError::Token)?;
        bearer.set_sensitive(true);
        let endpoint = wharf_tls::endpoint(&self.address)?;
        let mut pauses = CONNECT_PAUSES.into_iter();
        let channel = loop {
            match (wharf_tls::connect(&endpoint, self.authority, None).await, pauses.next()) {
                (Err(ConnectError::Away { .. }), Some(pause)) => tokio::time::sleep(pause).await,
                (connected, _) => break connected?,
            }
        };
        Ok(InterceptedService::new(channel, Bearer(bearer)))
    }
}

/// A connection that shows the token with every request.
pub type Connection = InterceptedService<Channel, Bearer>;

/// Shows the token.
#[derive(Clone)]
pub struct Bearer(MetadataValue<Ascii>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}
