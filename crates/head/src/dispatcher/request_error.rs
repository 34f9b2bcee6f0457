//! Why requests are not carried out.

use std::error::Error;

use wharf_policy::governor::LimitsError;

use crate::dispatcher::incident::Incident;
use crate::dispatcher::journal_stall::Unwritable;
use crate::jobs::submit::SubmitError;
use crate::nodes::deregistration::NodeChangeError;
use crate::policy::active_policy::UnusablePolicy;

/// A request that changed nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum RequestError {
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Node(#[from] NodeChangeError),
    #[error(transparent)]
    Limits(#[from] LimitsError),
    #[error(transparent)]
    Policy(#[from] UnusablePolicy),
    /// The dispatcher panicked while it handled the request.
    #[error(transparent)]
    Incident(#[from] Incident),
    #[error(transparent)]
    Unwritable(#[from] Unwritable),
    /// The head waits for the reports of nodes, and too many submissions wait already.
    #[error("the head was just started and waits for its workers; try again in some seconds")]
    Starting,
}

/// An error with its cause, in one line.
pub(crate) fn with_cause(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
