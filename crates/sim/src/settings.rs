//! `--set key=value`: overrides of a preset's numbers and a policy's knobs.

use std::collections::BTreeMap;

/// Overrides by key; later ones win.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

/// An override that is not `key=value`.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not of the form key=value")]
pub struct SettingError {
    /// What was given.
    pub text: String,
}

impl Settings {
    /// Parses overrides of the form `key=value`.
    ///
    /// # Errors
    /// [`SettingError`] names the first that has no `=` or no key.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        for text in texts {
            match text.split_once('=') {
                Some((key, value)) if !key.trim().is_empty() => {
                    settings.0.insert(key.trim().to_owned(), value.trim().to_owned());
                }
                _ => return Err(SettingError { text: text.to_owned() }),
            }
        }
        Ok(settings)
    }

    /// Sets one key.
    pub fn set(&mut self, key: &str, value: &str) {
        self.0.insert(key.to_owned(), value.to_owned());
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// All overrides, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether nothing is overridden.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
