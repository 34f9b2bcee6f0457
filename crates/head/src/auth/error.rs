//! What can be wrong with a head's keys and tokens.

use std::io;
use std::path::PathBuf;

/// Keys or tokens that cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The table of tokens is damaged.
    #[error("`{}` is not a valid token table; restore it, or remove it and issue new tokens", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The table of tokens was written by a later version.
    #[error("`{}` has version {version}, which this version of Wharf cannot read; use the version that wrote it", path.display())]
    NewerTable {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// A key or a certificate cannot be made or read.
    #[error("cannot {what}")]
    Certificate {
        /// What was tried.
        what: &'static str,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// Half of what belongs together is there.
    #[error("`{}` is missing although `{}` exists; restore it from a backup, or remove both and let all workers join again", missing.display(), there.display())]
    Half {
        /// What is missing.
        missing: PathBuf,
        /// What is there.
        there: PathBuf,
    },
    /// A token was made by an authority that is gone.
    #[error("the token `{}` was issued by an older authority of this cluster; remove it to get a new one", path.display())]
    OtherAuthority {
        /// The token's file.
        path: PathBuf,
    },
    /// A head runs with the same folder.
    #[error("another head uses `{}`", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// There is no chance.
    #[error(transparent)]
    Random(#[from] wharf_tls::RandomError),
}
