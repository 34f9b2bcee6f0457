//! Simulations that begin with the jobs and nodes of a running head.

mod explain;
mod history;
mod whatif;

use wharf_foresight::ForesightError;

pub(in crate::commands) use explain::explain;
pub(in crate::commands) use history::history;
pub(in crate::commands) use whatif::whatif;

use crate::error::{CliError, ErrorKind, translate};

impl From<ForesightError> for CliError {
    fn from(error: ForesightError) -> Self {
        let kind = match &error {
            ForesightError::Client(_) | ForesightError::Export(_) | ForesightError::Program { .. } => {
                ErrorKind::Input
            }
            ForesightError::Preset(_) | ForesightError::ForeignPreset => ErrorKind::Internal,
            ForesightError::SimulatedSetting { .. } | ForesightError::UnknownNode { .. } => ErrorKind::Usage,
            ForesightError::Disconnected => ErrorKind::BrokenPipe,
            ForesightError::Run(error) => return translate::run(error),
        };
        let failed = Self::from_error(kind, &error);
        match error {
            ForesightError::Client(error) => error.into(),
            ForesightError::UnknownNode { name, known } => {
                failed.hint_nearest(&name, known.iter().map(String::as_str))
            }
            _ => failed,
        }
    }
}

/// An error as a head reports it to its clients: in one line, with hints.
pub(super) fn described(error: ForesightError) -> String {
    CliError::from(error).one_line()
}
