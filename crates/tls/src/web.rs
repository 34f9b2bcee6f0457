//! Servers of others, with and without TLS. Whom the system trusts is trusted here.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A connection to a server.
pub trait WebStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> WebStream for T {}

/// Connects to servers that are not Wharf's.
#[derive(Clone, Debug)]
pub struct Web {
    tls: Arc<ClientConfig>,
}

impl Web {
    /// With the system's certificates (those of `SSL_CERT_FILE` where that is set), and more.
    ///
    /// # Errors
    /// TLS cannot be set up at all.
    pub fn new(extra_roots: impl IntoIterator<Item = Vec<u8>>) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        // A certificate that cannot be used only means that no client with it is trusted.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(extra_roots.into_iter().map(CertificateDer::from));
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        Ok(Self { tls: Arc::new(builder.with_root_certificates(roots).with_no_client_auth()) })
    }

    /// Connects to a host, which may be an IPv6 address in brackets. Its name is resolved once, and only addresses that are
    /// permitted are connected to.
    ///
    /// # Errors
    /// No server listens, its certificate is not valid, or none of its addresses is permitted (`PermissionDenied`).
    pub async fn connect(
        &self,
        host: &str,
        port: u16,
        is_tls: bool,
        is_permitted: impl Fn(IpAddr) -> bool,
    ) -> io::Result<Box<dyn WebStream>> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
        let permitted: Vec<SocketAddr> =
            found.iter().copied().filter(|address| is_permitted(address.ip())).collect();
        if let (Some(refused), true) = (found.first(), permitted.is_empty()) {
            let reason = format!("the address {} is not permitted", refused.ip());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        let stream = TcpStream::connect(permitted.as_slice()).await?;
        if !is_tls {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(TlsConnector::from(self.tls.clone()).connect(name, stream).await?))
    }
}
