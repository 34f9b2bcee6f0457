//! Where a head is, and what it wants to be shown.

use std::path::Path;

use crate::ClientError;

/// The address and the token of a head.
#[derive(Clone)]
pub struct Access {
    /// Such as `http://127.0.0.1:7717`.
    pub address: String,
    /// What lets in. Never logged.
    pub token: String,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("address", &self.address).field("token", &"(secret)").finish()
    }
}

impl Access {
    /// What the head of this home has written down.
    ///
    /// # Errors
    /// [`ClientError::NoHead`] where no head has served here, or its files cannot be read.
    pub fn of_home(home: &Path) -> Result<Self, ClientError> {
        let read = |name: &str| {
            let path = home.join(name);
            let text = std::fs::read_to_string(&path);
            text.map(|text| text.trim().to_owned()).map_err(|source| ClientError::NoHead { path, source })
        };
        Ok(Self { address: format!("http://{}", read("address")?), token: read("token")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_token() {
        let access = Access { address: "http://127.0.0.1:1".into(), token: "hush".into() };
        assert!(!format!("{access:?}").contains("hush"));
    }

    #[test]
    fn home_without_a_head_is_told_by_its_file() {
        let error = Access::of_home(Path::new("/nowhere")).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("cannot read `/nowhere/address`"));
    }
}
