//! A worker's key, which never leaves its machine, and the request for a certificate.

use rcgen::{CertificateParams, DnType, KeyPair};

/// A key that cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub struct KeyError {
    /// What was tried.
    what: &'static str,
    /// What is wrong.
    #[source]
    source: rcgen::Error,
}

/// A new private key in PEM.
///
/// # Errors
/// Where the system has no random numbers.
pub fn new_key() -> Result<String, KeyError> {
    let pair = KeyPair::generate().map_err(|source| KeyError { what: "make a key", source })?;
    Ok(pair.serialize_pem())
}

/// Asks for a certificate for a key: a signing request in DER.
///
/// # Errors
/// Where the key is none.
pub fn request_certificate(key: &str, node: &str) -> Result<Vec<u8>, KeyError> {
    let pair = KeyPair::from_pem(key).map_err(|source| KeyError { what: "read the key", source })?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, node);
    let request = params
        .serialize_request(&pair)
        .map_err(|source| KeyError { what: "ask for a certificate", source })?;
    Ok(request.der().to_vec())
}
