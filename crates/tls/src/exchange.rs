//! One HTTP request on one connection.

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The connection broke, or the response is no HTTP.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// The response is too large.
    #[error("the response is larger than {limit} bytes")]
    TooLarge {
        /// The largest size that is accepted.
        limit: usize,
    },
}

/// Sends a request and reads the whole response, of at most `limit` bytes.
///
/// # Errors
/// [`ExchangeError`]
pub async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    limit: usize,
) -> Result<Response<Bytes>, ExchangeError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The connection sends and receives; its end is visible in the response.
    let driver = tokio::spawn(connection);
    let response = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, limit).collect().await;
        let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
            Ok(error) => ExchangeError::Http(*error),
            // The body has no other errors than these two.
            Err(other) => {
                debug_assert!(other.is::<LengthLimitError>(), "{other}");
                ExchangeError::TooLarge { limit }
            }
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    };
    let response = response.await;
    driver.abort();
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// Serves one response, and returns what the client gets within `limit` bytes.
    async fn answered(response: &'static str, limit: usize) -> Result<Response<Bytes>, ExchangeError> {
        let (client, mut server) = duplex(4096);
        let serving = async {
            let mut read = Vec::new();
            while !read.ends_with(b"\r\n\r\nbody") {
                let mut part = [0; 256];
                match server.read(&mut part).await.unwrap() {
                    0 => break,
                    count => read.extend_from_slice(&part[..count]),
                }
            }
            server.write_all(response.as_bytes()).await.unwrap();
            drop(server);
        };
        let request = Request::post("/x").header("host", "h").body(Full::new(Bytes::from("body"))).unwrap();
        tokio::join!(exchange(client, request, limit), serving).0
    }

    #[tokio::test]
    async fn response_is_read_whole_and_within_its_limit() {
        let response = "HTTP/1.1 403 Forbidden\r\ncontent-length: 5\r\n\r\nstop!";
        let whole = answered(response, 5).await.unwrap();
        assert_eq!((whole.status().as_u16(), &whole.body()[..]), (403, &b"stop!"[..]));
        let too_large = answered(response, 4).await.unwrap_err();
        assert_eq!(too_large.to_string(), "the response is larger than 4 bytes");
    }

    #[tokio::test]
    async fn broken_connection_is_an_error() {
        assert!(matches!(answered("", 5).await, Err(ExchangeError::Http(_))));
        let cut = answered("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nst", 5).await;
        assert!(matches!(cut, Err(ExchangeError::Http(_))), "{cut:?}");
    }
}
