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
    /// No overrides.
    pub const NONE: Self = Self(BTreeMap::new());

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

    /// The part of the settings that is for one policy: keys without a policy, and `POLICY.KEY` without its prefix, which wins.
    pub fn of_policy(&self, policy: &str) -> Self {
        let (named, shared): (Vec<_>, Vec<_>) = self.iter().partition(|(key, _)| split_policy(key).is_some());
        let own = named.into_iter().filter_map(|(key, value)| {
            split_policy(key).filter(|(owner, _)| *owner == policy).map(|(_, key)| (key, value))
        });
        let all = shared.into_iter().chain(own);
        Self(all.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
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

/// The policy and the setting of a key `POLICY.KEY`; `None` for a key without a policy. A policy may have dots in its name, a
/// setting has none.
pub fn split_policy(key: &str) -> Option<(&str, &str)> {
    key.rsplit_once('.').filter(|(policy, key)| !policy.is_empty() && !key.is_empty())
}

/// A setting with a value that it cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting `{key}` cannot be `{value}`; it takes {expected}")]
pub struct BadSetting {
    /// The setting.
    pub key: String,
    /// The value.
    pub value: String,
    /// What it takes, for people.
    pub expected: String,
}

impl Settings {
    /// A setting parsed as `T` and accepted by `is_valid`, or `default` where it is not set.
    ///
    /// # Errors
    /// [`BadSetting`] states what it takes instead.
    pub fn parsed<T: std::str::FromStr>(
        &self,
        key: &str,
        default: T,
        expected: &str,
        is_valid: impl Fn(&T) -> bool,
    ) -> Result<T, BadSetting> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.parse().ok().filter(is_valid).ok_or_else(|| BadSetting {
            key: key.to_owned(),
            value: value.to_owned(),
            expected: expected.to_owned(),
        })
    }

    /// A setting that is one of several words.
    ///
    /// # Errors
    /// [`BadSetting`] lists the words.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)], default: T) -> Result<T, BadSetting> {
        let Some(value) = self.get(key) else { return Ok(default) };
        choices.iter().find(|(word, _)| *word == value).map(|&(_, choice)| choice).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|&(word, _)| word).collect();
            BadSetting { key: key.to_owned(), value: value.to_owned(), expected: words.join(" or ") }
        })
    }

    /// A switch: `on` or `off`, or `true` or `false`.
    ///
    /// # Errors
    /// [`BadSetting`] where it is none of them.
    pub fn switch(&self, key: &str, default: bool) -> Result<bool, BadSetting> {
        match self.get(key) {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            _ => self.choice(key, &[("on", true), ("off", false)], default),
        }
    }
}
