//! The dashboard's files, which are in the program.

use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

/// A file of the dashboard. Its parts are looked up by their whole names, and never on disk.
pub(super) async fn page(method: Method, uri: Uri) -> Response {
    if method != Method::GET && method != Method::HEAD {
        return (StatusCode::METHOD_NOT_ALLOWED, "this page is read-only\n").into_response();
    }
    let path = uri.path();
    let name = if path == "/" { "index.html" } else { path.trim_start_matches('/') };
    match wharf_web::file(name) {
        Some(file) => {
            // It is the same until the head is another one, and that is asked about each time.
            let headers = [(header::CONTENT_TYPE, file.kind), (header::CACHE_CONTROL, "no-cache")];
            (headers, file.text).into_response()
        }
        None => (StatusCode::NOT_FOUND, "there is no such page\n").into_response(),
    }
}
