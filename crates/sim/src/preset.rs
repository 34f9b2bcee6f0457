//! Presets: a named mechanism plus its numbers.

/// A mechanism and its numbers, by name.
#[derive(Clone, Debug)]
pub struct Preset {
    /// What `--preset` calls it.
    pub name: String,
    /// One line: whose rules these are.
    pub about: String,
}

/// A preset that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// Neither a built-in name nor a file.
    #[error("`{name}` is neither a built-in preset ({builtin}) nor a file", builtin = Preset::BUILTIN.join(", "))]
    Unknown {
        /// What was given.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read preset `{path}`")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a preset.
    #[error("preset `{path}` is not valid")]
    Parse {
        /// The file, or the built-in name.
        path: String,
        /// Where and why.
        #[source]
        source: toml::de::Error,
    },
}

impl Preset {
    /// The names that need no file.
    pub const BUILTIN: &[&str] = &["wharf", "muri"];

    /// A built-in preset by name, or a preset file by path.
    ///
    /// # Errors
    /// [`PresetError`] where there is none, or it does not parse.
    pub fn load(name_or_path: &str) -> Result<Self, PresetError> {
        Err(PresetError::Unknown { name: name_or_path.to_owned() })
    }
}
