//! A gRPC connection to a head that has proved to be the right one.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, crypto};
use wharf_proto::tonic::codegen::{Service, http};
use wharf_proto::tonic::transport::{self, Channel, Endpoint};

use crate::Fingerprint;
use crate::pin::{HEAD_NAME, Pinned};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address makes no sense.
    #[error("'{address}' is not the address of a head, such as `node1:7717`")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        #[source]
        source: transport::Error,
    },
    /// No answer.
    #[error("cannot reach a head at {address}")]
    Away {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Who answers is not who was asked for.
    #[error("{why}")]
    Impostor {
        /// What was expected and what was shown.
        why: String,
    },
    /// Who answers does not speak TLS, or its certificate is not good.
    #[error("{address} is not a head: TLS handshake failed")]
    Handshake {
        /// Where.
        address: String,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// This side's certificate or key cannot be used.
    #[error("cannot use the client certificate")]
    Certificate(#[source] rustls::Error),
}

/// What a worker shows to be believed.
#[derive(Clone)]
pub struct ClientCertificate {
    /// In DER.
    pub certificate: Vec<u8>,
    /// The private key in PEM.
    pub key: String,
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCertificate(secret)")
    }
}

/// How a head at `host:port` is reached; timeouts and similar settings may be changed.
///
/// # Errors
/// Where that is no address.
pub fn endpoint(address: &str) -> Result<Endpoint, ConnectError> {
    // The connector below does the TLS, so that for the library this is a plain connection.
    let wrong = |source| ConnectError::Address { address: address.to_owned(), source };
    Endpoint::from_shared(format!("http://{address}")).map_err(wrong)
}

/// Connects to the head of the cluster with that authority only.
///
/// # Errors
/// [`ConnectError`]
pub async fn connect(
    endpoint: &Endpoint,
    authority: Fingerprint,
    certificate: Option<&ClientCertificate>,
) -> Result<Channel, ConnectError> {
    let config = client_config(authority, certificate).map_err(ConnectError::Certificate)?;
    let failure = Arc::new(Mutex::new(None));
    let dial = Dial { tls: TlsConnector::from(Arc::new(config)), failure: failure.clone() };
    endpoint.connect_with_connector(dial).await.map_err(|source| {
        // The library wraps what went wrong several times; the first words are the clearest.
        let told = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        told.unwrap_or_else(|| ConnectError::Away {
            address: authority_of(endpoint.uri()),
            source: Box::new(source),
        })
    })
}

/// The fingerprint of the first certificate in a PEM file; `None` where there is none.
pub fn fingerprint_of_pem(pem: &str) -> Option<Fingerprint> {
    CertificateDer::from_pem_slice(pem.as_bytes()).ok().map(|certificate| Fingerprint::of(&certificate))
}

fn client_config(
    authority: Fingerprint,
    certificate: Option<&ClientCertificate>,
) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(crypto::ring::default_provider());
    let verifier = Pinned { authority, provider: provider.clone() };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match certificate {
        Some(own) => {
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes())
                .map_err(|error| rustls::Error::General(error.to_string()))?;
            builder.with_client_auth_cert(vec![CertificateDer::from(own.certificate.clone())], key)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn authority_of(uri: &http::Uri) -> String {
    uri.authority().map(ToString::to_string).unwrap_or_default()
}

/// Opens TCP connections and makes them safe.
struct Dial {
    tls: TlsConnector,
    failure: Arc<Mutex<Option<ConnectError>>>,
}

impl Service<http::Uri> for Dial {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let (tls, failure) = (self.tls.clone(), self.failure.clone());
        Box::pin(async move {
            dial(&tls, &uri).await.map_err(|error| {
                let short = io::Error::other(error.to_string());
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                short
            })
        })
    }
}

async fn dial(tls: &TlsConnector, uri: &http::Uri) -> Result<TokioIo<TlsStream<TcpStream>>, ConnectError> {
    let address = authority_of(uri);
    let away = |source: io::Error| ConnectError::Away { address: address.clone(), source: Box::new(source) };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(443))).await.map_err(away)?;
    stream.set_nodelay(true).map_err(away)?;
    let name = ServerName::try_from(HEAD_NAME).map_err(|error| away(io::Error::other(error)))?;
    let stream = tls.connect(name, stream).await.map_err(|source| handshake(&address, source))?;
    Ok(TokioIo::new(stream))
}

fn handshake(address: &str, source: io::Error) -> ConnectError {
    let reason = source.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    match reason {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(wrong))) => {
            ConnectError::Impostor { why: wrong.0.to_string() }
        }
        _ => ConnectError::Handshake { address: address.to_owned(), source },
    }
}
