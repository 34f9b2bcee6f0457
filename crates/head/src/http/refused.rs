//! What could not be done, for browsers.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use wharf_proto::tonic::{Code, Status};

/// A request that was not answered, as the rpc would have said it.
#[derive(Debug)]
pub(super) struct Refused(pub(super) Status);

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self(status)
    }
}

impl Refused {
    pub(super) fn bad(text: impl Into<String>) -> Self {
        Self(Status::invalid_argument(text))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let code = match self.0.code() {
            Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::PermissionDenied => StatusCode::FORBIDDEN,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::AlreadyExists | Code::FailedPrecondition => StatusCode::CONFLICT,
            Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Code::Unavailable | Code::DeadlineExceeded => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let text = serde_json::json!({ "error": self.0.message() }).to_string();
        (code, [(header::CONTENT_TYPE, "application/json")], text).into_response()
    }
}
