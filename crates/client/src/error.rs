//! What can go wrong between a client and a head.

use std::io;
use std::path::PathBuf;

use wharf_proto::tonic::{Code, Status};
use wharf_tls::ConnectError;

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
    /// There is no state directory to search for a head in.
    #[error("HOME is not set, which contains the state directory")]
    NoHome,
    /// The token file is missing or unreadable.
    #[error("cannot read `{}`", path.display())]
    NoToken {
        /// The token file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The certificate of the cluster's authority is missing or unreadable.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The certificate file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The certificate file of the cluster's authority contains none.
    #[error("`{}` holds no certificate", path.display())]
    NoCertificate {
        /// The certificate file.
        path: PathBuf,
    },
    /// The token and the certificate are of different clusters.
    #[error("the token `{}` belongs to another cluster than `{}`", token_file.display(), ca_file.display())]
    OtherCluster {
        /// The token file.
        token_file: PathBuf,
        /// The certificate file.
        ca_file: PathBuf,
    },
    /// The address asks for a connection without TLS.
    #[error("`{text}` is not supported: a head accepts only TLS")]
    PlainAddress {
        /// The address.
        text: String,
    },
    /// The address is malformed.
    #[error("`{text}` is not the address of a head")]
    Address {
        /// The address.
        text: String,
    },
    /// The token has characters that cannot be sent.
    #[error("malformed token: expected whf1.FINGERPRINT.SECRET")]
    Token,
    /// The system provides no random numbers for the key of a request.
    #[error(transparent)]
    Random(#[from] wharf_tls::RandomError),
    /// There is no head at the address, or it is not the right one.
    #[error(transparent)]
    Unconnected(#[from] ConnectError),
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
        /// It does not know who asks.
        is_unknown: bool,
    },
    /// The head went away or failed before it had answered.
    #[error("{message}")]
    Failed {
        /// What the head or the network said.
        message: String,
    },
}

impl ClientError {
    /// Whether no server is reachable: a head may still start.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NoHead { .. } | Self::Unconnected(ConnectError::Away { .. }))
    }

    /// Whether the request may be repeated: no server was reachable, or the connection or a node was lost.
    pub fn is_away(&self) -> bool {
        self.is_absence() || matches!(self, Self::Failed { .. })
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
            Code::Unauthenticated => Self::Denied { message, is_unknown: true },
            Code::PermissionDenied => Self::Denied { message, is_unknown: false },
            _ => Self::Failed { message },
        }
    }
}
