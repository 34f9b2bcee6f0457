//! What can go wrong between a client and a head.

use std::io;
use std::path::PathBuf;

use wharf_proto::tonic::transport;
use wharf_proto::tonic::{Code, Status};

/// A call that got no answer, or a "no".
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No head has served in this home.
    #[error("cannot read `{}`", path.display())]
    NoHead {
        /// The file that is missing.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The token has characters that cannot be sent.
    #[error("the token of the cluster is not one")]
    Token,
    /// The address cannot be understood.
    #[error("'{address}' is not the address of a head")]
    Address {
        /// What was given.
        address: String,
    },
    /// The head does not answer.
    #[error("no head answers at {address}")]
    Away {
        /// Where it should be.
        address: String,
        /// What the network said.
        #[source]
        source: transport::Error,
    },
    /// The request asks for what is not there or cannot be.
    #[error("{message}")]
    Refused {
        /// What the head said.
        message: String,
    },
    /// The head does not know who asks, or does not let them.
    #[error("{message}")]
    Denied {
        /// What the head said.
        message: String,
    },
    /// The head went away or failed before it had answered.
    #[error("{message}")]
    Failed {
        /// What the head or the network said.
        message: String,
    },
}

impl ClientError {
    /// Whether nobody serves: a head may come and answer.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NoHead { .. } | Self::Away { .. })
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::InvalidArgument
            | Code::NotFound
            | Code::FailedPrecondition
            | Code::AlreadyExists
            | Code::OutOfRange
            | Code::Unimplemented => Self::Refused { message },
            Code::Unauthenticated | Code::PermissionDenied => Self::Denied { message },
            _ => Self::Failed { message },
        }
    }
}
