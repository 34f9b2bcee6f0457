//! Values of a cluster file that are of the right form and cannot be used.

use std::io;
use std::path::PathBuf;

/// Why a value cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ValueError {
    #[error("`{name}` is no option of ssh; write `ServerAliveInterval: 15`")]
    SshOption { name: String },
    #[error("{port} is no port; they go from 1 to 65535")]
    Port { port: u32 },
    #[error("`{text}` is not {expected}")]
    Word { text: String, expected: &'static str },
    #[error("the key `{}` cannot be read", path.display())]
    UnreadableKey {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("others may read the key `{0}` (mode {mode:03o}), so ssh will not use it: `chmod 600 {0}`", path.display())]
    OpenKey { path: PathBuf, mode: u32 },
    #[error("`{text}` names no devices; write TYPE:COUNT, as in `v100:4`")]
    Devices { text: String },
    #[error("`{value}` cannot be filled in for `{name}`: it has letters, digits and `-_./:@+=,~` only")]
    Placeholder { name: String, value: String },
    #[error("`{name}` is too short for a container's name")]
    ShortContainerName { name: String },
    #[error("`{name}` is no name; it has up to 63 letters, digits, `_`, `.` and `-`")]
    Name { name: String },
    #[error("it is from 0 to 86400 seconds")]
    Seconds,
    #[error("`{text}` cannot be used here")]
    Path { text: String },
    #[error("`{text}` is no network; write `203.0.113.0/24`")]
    Network { text: String },
    #[error("no network has access to the machines; add at least one, as in `[203.0.113.0/24]`")]
    NoNetwork,
    #[error("`{text}` is no source; write HOST:/PATH, or `efs: fs-...`")]
    MountSource { text: String },
    #[error("`{text}` is no file system of EFS; they are called `fs-...`")]
    FileSystem { text: String },
    #[error("`{text}` is no mode; write it as in `'755'`")]
    Mode { text: String },
    #[error("`{path}` must begin with `/` or `~/`, and go nowhere up")]
    MountTarget { path: String },
    #[error("more than {limit} nodes are not handled")]
    TooManyNodes { limit: u32 },
    #[error("`{option}` is no option; write each as one word, `--partition=gpu`")]
    SlurmOption { option: String },
    #[error("`{option}` is set by the launcher: each node is a job of one node")]
    ReservedSlurmOption { option: String },
    #[error("nodes are reached by `srun` or `ssh`, not `{text}`")]
    Reach { text: String },
}

impl ValueError {
    /// The message of a problem of the file, with the error of the system.
    pub(super) fn message(&self) -> String {
        match self {
            Self::UnreadableKey { source, .. } => format!("{self}: {source}"),
            _ => self.to_string(),
        }
    }
}
