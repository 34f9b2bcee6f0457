//! The cluster's own authority: signs the head's certificate and those of workers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _,
};
use wharf_tls::{Fingerprint, HEAD_NAME, TaskTokens, create_private, is_missing, sha256, write_private};

use super::error::AccessError;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Longer than any machine in the cluster.
const CA_LIFE: Duration = DAY.saturating_mul(20 * 365);
const HEAD_LIFE: Duration = DAY.saturating_mul(2 * 365);
/// A head that starts with less left than this gets a new certificate.
const HEAD_RENEW: Duration = DAY.saturating_mul(365);
/// Clocks of two machines may differ by so much.
const SKEW: Duration = Duration::from_secs(300);

/// Names under which a head is always reached.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The authority and the head's own certificate.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Vec<u8>,
    pub(super) certificate_pem: String,
    /// Signs the tokens of tasks.
    pub(super) task_tokens: TaskTokens,
    /// The head's certificate followed by the authority's, in PEM.
    pub(super) head_chain: String,
    pub(super) head_key: String,
}

/// What the authority keeps on disk.
struct Files {
    ca: PathBuf,
    ca_key: PathBuf,
    head: PathBuf,
    head_key: PathBuf,
}

impl Files {
    fn new(folder: &Path) -> Self {
        let file = |name: &str| folder.join(name);
        Self {
            ca: file("ca.pem"),
            ca_key: file("ca-key.pem"),
            head: file("head.pem"),
            head_key: file("head-key.pem"),
        }
    }
}

fn failed(what: &'static str) -> impl Fn(rcgen::Error) -> AccessError {
    move |source| AccessError::Certificate { what, source }
}

fn read(path: &Path) -> Result<Option<String>, AccessError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(source) => Err(AccessError::Read { path: path.to_owned(), source }),
    }
}

fn create(path: &Path, text: &str) -> Result<(), AccessError> {
    create_private(path, text).map_err(|source| AccessError::Write { path: path.to_owned(), source })
}

/// Both files of a pair, or none.
fn read_pair(first: &Path, second: &Path) -> Result<Option<(String, String)>, AccessError> {
    match (read(first)?, read(second)?) {
        (Some(one), Some(other)) => Ok(Some((one, other))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(AccessError::Half { missing: second.to_owned(), there: first.to_owned() }),
        (None, Some(_)) => Err(AccessError::Half { missing: first.to_owned(), there: second.to_owned() }),
    }
}

impl Authority {
    /// The authority in a folder, made where there is none. The head gets a new certificate where it has none, where it is
    /// asked for, where a host is new, and in the last year of the old one.
    pub(super) fn open(folder: &Path, hosts: &[String], renew: bool) -> Result<Self, AccessError> {
        let files = Files::new(folder);
        let (certificate_pem, key_pem) = match read_pair(&files.ca, &files.ca_key)? {
            Some(pair) => pair,
            None => {
                let (certificate, key) = new_authority()?;
                // The key first: a certificate without its key is useless.
                create(&files.ca_key, &key)?;
                create(&files.ca, &certificate)?;
                (certificate, key)
            }
        };
        let key = KeyPair::from_pem(&key_pem).map_err(failed("read the authority's key"))?;
        let issuer = Issuer::from_ca_cert_pem(&certificate_pem, key)
            .map_err(failed("read the authority's certificate"))?;
        let certificate = der_of(&certificate_pem).ok_or(AccessError::Certificate {
            what: "read the authority's certificate",
            source: rcgen::Error::CouldNotParseCertificate,
        })?;
        let task_tokens = TaskTokens::new(Fingerprint::of(&certificate), key_pem.as_bytes());
        let mut authority = Self {
            issuer,
            certificate,
            certificate_pem,
            task_tokens,
            head_chain: String::new(),
            head_key: String::new(),
        };
        authority.open_head(&files, hosts, renew)?;
        Ok(authority)
    }

    fn open_head(&mut self, files: &Files, hosts: &[String], renew: bool) -> Result<(), AccessError> {
        let write = |path: &Path, text: &str| {
            write_private(path, text).map_err(|source| AccessError::Write { path: path.to_owned(), source })
        };
        // Both can be recreated at any time: only the authority is known elsewhere.
        if let (Some(chain), Some(key)) = (read(&files.head)?, read(&files.head_key)?) {
            let names = noted(&chain, "names").unwrap_or_default().split_whitespace();
            let names: Vec<String> = names.map(str::to_owned).collect();
            let renew_at: u64 = noted(&chain, "renew-at").and_then(|at| at.parse().ok()).unwrap_or_default();
            let is_good = !renew && unix() < renew_at && hosts.iter().all(|host| names.contains(host));
            self.head_chain = if is_good { chain } else { self.head_certificate(&key, &names, hosts)? };
            self.head_key = key;
            return if is_good { Ok(()) } else { write(&files.head, &self.head_chain) };
        }
        self.head_key = KeyPair::generate().map_err(failed("make the head's key"))?.serialize_pem();
        self.head_chain = self.head_certificate(&self.head_key, &[], hosts)?;
        write(&files.head_key, &self.head_key)?;
        write(&files.head, &self.head_chain)
    }

    /// A certificate of the head in PEM, with notes for the next start before it: what stands outside of the marks is no
    /// part of the certificate.
    fn head_certificate(&self, key: &str, known: &[String], hosts: &[String]) -> Result<String, AccessError> {
        let what = "make the head's certificate";
        let mut names: Vec<String> = LOOPBACK.map(str::to_owned).to_vec();
        for name in known.iter().chain(hosts) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let with_own: Vec<String> =
            std::iter::once(HEAD_NAME.to_owned()).chain(names.iter().cloned()).collect();
        let mut params = CertificateParams::new(with_own).map_err(failed(what))?;
        params.distinguished_name = named("wharf head");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        lasts(&mut params, HEAD_LIFE);
        let pair = KeyPair::from_pem(key).map_err(failed("read the head's key"))?;
        let certificate = params.signed_by(&pair, &self.issuer).map_err(failed(what))?;
        let renew_at = unix() + (HEAD_LIFE - HEAD_RENEW).as_secs();
        Ok(format!(
            "names: {}\nrenew-at: {renew_at}\n{}{}",
            names.join(" "),
            certificate.pem(),
            self.certificate_pem
        ))
    }

    /// What workers and clients know the cluster by.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// The authority's certificate in DER.
    pub(super) fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// Signs a worker's key: the request's other wishes do not count. Gives the certificate and the hash of the key.
    pub(super) fn sign(&self, request: &[u8], node: &str, life: Duration) -> Option<(Vec<u8>, [u8; 32])> {
        // A request that cannot be read is the sender's problem, and its signature proves that it has the key.
        let request = CertificateSigningRequestParams::from_der(&request.into()).ok()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(node);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        lasts(&mut params, life);
        let key = sha256(request.public_key.der_bytes());
        let certificate = params.signed_by(&request.public_key, &self.issuer).ok()?;
        Some((certificate.der().to_vec(), key))
    }
}

fn new_authority() -> Result<(String, String), AccessError> {
    let what = "make the cluster's authority";
    let key = KeyPair::generate().map_err(failed(what))?;
    let mut params = CertificateParams::default();
    params.distinguished_name = named("wharf cluster authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    lasts(&mut params, CA_LIFE);
    let certificate = params.self_signed(&key).map_err(failed(what))?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn lasts(params: &mut CertificateParams, life: Duration) {
    let now = SystemTime::now();
    params.not_before = (now - SKEW).into();
    params.not_after = (now + life).into();
}

fn unix() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A note before a certificate.
fn noted<'a>(chain: &'a str, name: &str) -> Option<&'a str> {
    let lines = chain.lines().take_while(|line| !line.starts_with("-----"));
    lines.filter_map(|line| line.split_once(": ")).find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn der_of(pem: &str) -> Option<Vec<u8>> {
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    CertificateDer::from_pem_slice(pem.as_bytes()).ok().map(|certificate| certificate.to_vec())
}
