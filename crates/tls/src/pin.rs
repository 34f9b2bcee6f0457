//! Believes the one authority whose fingerprint is known.

use std::sync::Arc;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

use crate::Fingerprint;

/// The name that a head's certificate is for, wherever the head listens.
pub const HEAD_NAME: &str = "head.wharf.internal";

/// The server belongs to another cluster, or to none.
#[derive(Debug, thiserror::Error)]
#[error("the head has fingerprint {shown}, expected {expected}")]
pub(crate) struct WrongAuthority {
    expected: Fingerprint,
    shown: String,
}

/// Checks that a head's certificate was signed by the authority with that fingerprint, which the head sends along.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) authority: Fingerprint,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_it = |certificate: &&CertificateDer<'_>| Fingerprint::of(certificate) == self.authority;
        let Some(authority) = intermediates.iter().find(is_it) else {
            let last = intermediates.last().unwrap_or(end_entity);
            let wrong = WrongAuthority { expected: self.authority, shown: Fingerprint::of(last).to_string() };
            return Err(CertificateError::Other(OtherError(Arc::new(wrong))).into());
        };
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), self.provider.clone())
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        let name = ServerName::try_from(HEAD_NAME).map_err(|error| Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, intermediates, &name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
