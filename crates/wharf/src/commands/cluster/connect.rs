//! A connection to the head, and what its refusals mean.

use wharf_client::{Client, ClientError, Connection};
use wharf_proto::tonic::Status;
use wharf_tls::ConnectError;

use super::daemon::runtime;
use super::home::Home;
use crate::args::{HomeArgs, env};
use crate::error::{CliError, ErrorKind};

/// Connects and asks.
pub(super) fn with<T>(
    args: &HomeArgs,
    ask: impl AsyncFnOnce(&Client) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let access = Home::new(args)?.head()?;
    runtime()?.block_on(async { ask(&Client::connect_to(&access).await?).await })
}

/// Connects within a runtime.
pub(in crate::commands) async fn connect(args: &HomeArgs) -> Result<Client, CliError> {
    Ok(Client::connect_to(&Home::new(args)?.head()?).await?)
}

/// Connects, for calls that the client has no methods for.
pub(super) fn with_connection<T>(
    args: &HomeArgs,
    ask: impl AsyncFnOnce(Connection) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let access = Home::new(args)?.head()?;
    runtime()?.block_on(async { ask(access.connect().await?).await })
}

/// What a head refused.
pub(super) fn refused(status: Status) -> CliError {
    ClientError::from(status).into()
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let kind = match error {
            ClientError::Refused { .. }
            | ClientError::NoHome
            | ClientError::PlainAddress { .. }
            | ClientError::Address { .. } => ErrorKind::Usage,
            _ => ErrorKind::Input,
        };
        let hint = match &error {
            ClientError::NoHead { .. } => {
                "start one with `wharf head` or `wharf local`, or set its state directory with `--home DIR`"
            }
            ClientError::NoHome => "name a folder with `--home DIR`",
            ClientError::NoCertificate { .. } => "a head stores it in its state directory, at auth/ca.pem",
            ClientError::PlainAddress { .. } => "write the address as HOST:PORT",
            ClientError::Address { .. } => "expected HOST:7717",
            ClientError::Token => "is the folder really a head's?",
            ClientError::Unconnected(ConnectError::Away { .. }) => {
                "is `wharf head` or `wharf local` running there?"
            }
            ClientError::Unconnected(ConnectError::Impostor { .. }) => {
                "the token is of another cluster, or a third party intercepts the connection"
            }
            ClientError::Unconnected(ConnectError::Handshake { .. }) => {
                "is it really a `wharf head` that listens there?"
            }
            ClientError::NoToken { .. } | ClientError::Denied { is_unknown: true, .. } => {
                return Self::from_error(kind, &error).hint(format!(
                    "an admin makes a token with `wharf token create --user NAME`; name its file in {}",
                    env::TOKEN_FILE.name
                ));
            }
            _ => return Self::from_error(kind, &error),
        };
        Self::from_error(kind, &error).hint(hint)
    }
}
