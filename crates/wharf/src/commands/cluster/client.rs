//! What people ask of a head: connecting.

use wharf_client::{Client, ClientError};

use super::daemon::runtime;
use super::home::Home;
use crate::args::HomeArgs;
use crate::error::{CliError, ErrorKind};

/// Connects and asks.
pub(super) fn with<T>(
    args: &HomeArgs,
    ask: impl AsyncFnOnce(&Client) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let home = Home::new(args)?;
    runtime()?.block_on(async { ask(&Client::connect(home.path()).await?).await })
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let kind = match error {
            ClientError::Refused { .. } => ErrorKind::Usage,
            _ => ErrorKind::Input,
        };
        let hint = match error {
            ClientError::NoHead { .. } => "start one with `wharf head`, or name its folder with `--home DIR`",
            ClientError::Away { .. } => "is `wharf head` running?",
            ClientError::Token => "is the folder really a head's?",
            _ => return Self::from_error(kind, &error),
        };
        Self::from_error(kind, &error).hint(hint)
    }
}
