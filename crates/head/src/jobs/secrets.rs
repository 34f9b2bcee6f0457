//! Secrets of jobs: sealed before they reach the journal, opened when a task is launched, and never shown.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use wharf_job::is_secret_name;
use wharf_proto::{JobSpec, Secrets};

/// The file with the key, in the state directory.
const FILE: &str = "secrets.key";
const KEY_BYTES: usize = 32;
/// Ties a sealed text to its purpose.
const PURPOSE: &[u8] = b"wharf secrets 1";
/// Shown instead of a secret.
pub(crate) const MASK: &str = "********";

/// Replaces the values of variables that are named like secrets, and removes secrets.
pub(crate) fn mask(spec: &mut JobSpec) {
    let steps = spec.steps.iter_mut().map(|step| &mut step.env);
    let container = spec.container.iter_mut().map(|container| &mut container.env);
    for env in std::iter::once(&mut spec.env).chain(steps).chain(container) {
        let named = env.iter_mut().filter(|(name, value)| is_secret_name(name) && !value.is_empty());
        named.for_each(|(_, value)| value.replace_range(.., MASK));
    }
    if let Some(secrets) = &mut spec.secrets {
        secrets.values.clear();
        secrets.sealed.clear();
    }
}

/// Why secrets cannot be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretsError {
    /// The key cannot be read or written.
    #[error("cannot use the key of secrets {path}")]
    Key {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file is no key.
    #[error("the key of secrets {0} is corrupt")]
    Damaged(PathBuf),
    /// The system gives no random numbers.
    #[error("the system's random number generator failed")]
    Random,
    /// Sealed with another key.
    #[error("its secrets were encrypted with a different key than the one in {0}; submit it again")]
    Sealed(PathBuf),
}

/// Seals and opens secrets with the key of a state directory.
#[derive(Clone, Debug)]
pub(crate) struct Vault {
    path: PathBuf,
}

impl Vault {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join(FILE) }
    }

    /// Seals the secrets of a job that is submitted.
    pub(crate) fn seal(&self, spec: &mut JobSpec) -> Result<(), SecretsError> {
        let Some(secrets) = spec.secrets.as_mut() else { return Ok(()) };
        let values = std::mem::take(&mut secrets.values);
        if values.is_empty() {
            // Of a job that is submitted again they are sealed already.
            spec.secrets.take_if(|secrets| secrets.sealed.is_empty());
            return Ok(());
        }
        let key = self.key(true)?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| SecretsError::Random)?;
        let names = values.keys().cloned().collect();
        let mut text = serde_json::to_vec(&values).map_err(|_| SecretsError::Damaged(self.path.clone()))?;
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(PURPOSE), &mut text)
            .map_err(|_| SecretsError::Damaged(self.path.clone()))?;
        let sealed = [&nonce[..], &text].concat();
        *secrets = Secrets { values: BTreeMap::new(), names, sealed };
        Ok(())
    }

    /// The secrets of a job, by name.
    pub(crate) fn open(&self, spec: &JobSpec) -> Result<BTreeMap<String, String>, SecretsError> {
        let Some(secrets) = spec.secrets.as_ref().filter(|secrets| !secrets.sealed.is_empty()) else {
            return Ok(BTreeMap::new());
        };
        let key = self.key(false)?;
        let other = || SecretsError::Sealed(self.path.clone());
        let (nonce, text) = secrets.sealed.split_at_checked(NONCE_LEN).ok_or_else(other)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| other())?;
        let mut text = text.to_vec();
        let opened = key.open_in_place(nonce, Aad::from(PURPOSE), &mut text).map_err(|_| other())?;
        serde_json::from_slice(opened).map_err(|_| other())
    }

    fn key(&self, may_make: bool) -> Result<LessSafeKey, SecretsError> {
        let failed = |source| SecretsError::Key { path: self.path.clone(), source };
        let mut bytes = Vec::new();
        match std::fs::File::open(&self.path) {
            Ok(file) => drop(file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?),
            Err(error) if may_make && error.kind() == io::ErrorKind::NotFound => bytes = self.make()?,
            Err(error) => return Err(failed(error)),
        }
        let key =
            UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| SecretsError::Damaged(self.path.clone()))?;
        Ok(LessSafeKey::new(key))
    }

    /// Makes a key that only the head's user can read.
    fn make(&self) -> Result<Vec<u8>, SecretsError> {
        let failed = |source| SecretsError::Key { path: self.path.clone(), source };
        let mut key = vec![0; KEY_BYTES];
        SystemRandom::new().fill(&mut key).map_err(|_| SecretsError::Random)?;
        let new = self.path.with_extension("new");
        let open = || {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(&key)?;
            file.sync_all()?;
            // Two requests may come at once: the first key stays.
            match std::fs::hard_link(&new, &self.path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => std::fs::remove_file(&new),
            }
        };
        open().map_err(failed)?;
        std::fs::read(&self.path).map_err(failed)
    }
}

/// Makes a file that only the head's user can read, where there is none. What SQLite makes beside it has the same mode.
pub(crate) fn private_file(path: &Path) -> io::Result<()> {
    let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    for beside in ["-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(beside);
        match std::fs::set_permissions(&name, std::fs::Permissions::from_mode(0o600)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> JobSpec {
        let values = [("HF_TOKEN".to_owned(), "hf-very-secret".to_owned())].into();
        let env =
            [("API_KEY".to_owned(), "clear".to_owned()), ("PLAIN".to_owned(), "shown".to_owned())].into();
        JobSpec { secrets: Some(Secrets { values, ..Secrets::default() }), env, ..JobSpec::default() }
    }

    #[test]
    fn sealed_secrets_are_opened_with_the_same_key_only() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [vault, other] = [0, 1].map(|index: usize| Vault::new(folders[index].path()));
        let mut spec = secret();
        vault.seal(&mut spec).unwrap();
        assert!(!format!("{:?}", wharf_proto::prost::Message::encode_to_vec(&spec)).is_empty());
        let bytes = wharf_proto::prost::Message::encode_to_vec(&spec);
        assert!(!bytes.windows(11).any(|part| part == b"very-secret"));
        assert_eq!(spec.secrets.as_ref().unwrap().names, ["HF_TOKEN"]);
        assert_eq!(vault.open(&spec).unwrap()["HF_TOKEN"], "hf-very-secret");
        assert!(other.open(&spec).is_err(), "there is no key");
        other.seal(&mut secret()).unwrap();
        assert!(matches!(other.open(&spec), Err(SecretsError::Sealed(_))));
        let mode = std::fs::metadata(folders[0].path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!folders[0].path().join("secrets.new").exists());
    }

    #[test]
    fn masked_spec_has_no_secret() {
        let mut spec = secret();
        mask(&mut spec);
        assert_eq!((spec.env["API_KEY"].as_str(), spec.env["PLAIN"].as_str()), (MASK, "shown"));
        assert!(spec.secrets.unwrap().values.is_empty());
    }
}
