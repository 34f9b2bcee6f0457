//! A connection to the head, and what its refusals mean.

use wharf_proto::tonic::metadata::{Ascii, MetadataValue};
use wharf_proto::tonic::service::Interceptor;
use wharf_proto::tonic::service::interceptor::InterceptedService;
use wharf_proto::tonic::transport::Channel;
use wharf_proto::tonic::{Code, Request, Status};
use wharf_tls::ConnectError;

use super::daemon::runtime;
use super::home::Home;
use crate::args::{HomeArgs, env};
use crate::error::{CliError, ErrorKind};

/// A connection that shows the token with every request.
pub(super) type Connection = InterceptedService<Channel, Bearer>;

/// Shows the token.
#[derive(Clone)]
pub(super) struct Bearer(MetadataValue<Ascii>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

/// Connects and asks.
pub(super) fn with_connection<T>(
    args: &HomeArgs,
    ask: impl AsyncFnOnce(Connection) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let target = Home::new(args)?.head()?;
    let mut bearer: MetadataValue<Ascii> =
        format!("Bearer {}", target.token.reveal()).parse().map_err(|_| {
            CliError::input("the token of the cluster is not one").hint("is the folder really a head's?")
        })?;
    bearer.set_sensitive(true);
    runtime()?.block_on(async {
        let endpoint = wharf_tls::endpoint(&target.address).map_err(unconnected)?;
        let channel = wharf_tls::connect(&endpoint, target.authority, None).await.map_err(unconnected)?;
        ask(InterceptedService::new(channel, Bearer(bearer))).await
    })
}

fn unconnected(error: ConnectError) -> CliError {
    let failed = CliError::from_error(ErrorKind::Input, &error);
    match error {
        ConnectError::Away { .. } => failed.hint("is `wharf head` running?"),
        ConnectError::Impostor { .. } => {
            failed.hint("the token is of another cluster, or somebody stands between you and the head")
        }
        ConnectError::Handshake { .. } => failed.hint("is it really a `wharf head` that listens there?"),
        ConnectError::Address { .. } | ConnectError::Certificate(_) => failed,
    }
}

/// What a head refused.
pub(super) fn refused(status: Status) -> CliError {
    let kind = match status.code() {
        Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition => ErrorKind::Usage,
        _ => ErrorKind::Input,
    };
    let failed = CliError::new(kind, status.message());
    if status.code() == Code::Unauthenticated {
        let file = env::TOKEN_FILE.name;
        return failed.hint(format!(
            "an admin makes a token with `wharf token create --user NAME`; name its file in {file}"
        ));
    }
    failed
}
