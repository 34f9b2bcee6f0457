//! Images of containers: built, converted, pushed and kept with the tools that the machine has.
//!
//! Whatever form an image comes in (an engine's store, a directory, a squashfs, a SIF, a tar), it can be had in any other: through a
//! plain directory. What was made is remembered by the hash of what it was made from, so that doing the same again does nothing.

mod base;
mod build;
mod convert;
mod environment;
mod hash;
mod ignore;
mod index;
mod place;
mod registry;
mod tool;

pub use base::{Bootstrap, bootstrap};
pub use build::{Build, build};
pub use convert::convert;
pub use environment::{Exported, Kind, export, found};
pub use hash::{tree, whole_file};
pub use index::{Entry, Index, Pruned};
pub use place::{Engine, Form, Place, PlaceError, Source};
pub use registry::{Note, commit, file as login_file, is_local, login, logins, pull, push};
pub use tool::{ToolError, find, interrupt};

use std::io;
use std::path::PathBuf;

/// The outcome of an image that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was made.
    Made,
    /// It was there already, made from the same.
    UpToDate,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A program is missing, or failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A file or directory is not accessible.
    #[error("{what} `{}`: {error}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What came of it.
        error: io::Error,
    },
    /// The index is none.
    #[error("`{}` is not a valid image index: {error}; remove it to rebuild images", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// Something in the way.
    #[error("`{}` exists and was not created by Wharf; use --force to replace it", .0.display())]
    InTheWay(PathBuf),
    /// A tar that is not an image's files.
    #[error(
        "`{}` holds layers, not files, as `save` writes them; load it into an engine (`podman load -i`) and convert that",
        .0.display()
    )]
    Layers(PathBuf),
    /// An environment that cannot be exported.
    #[error("{0}")]
    Environment(String),
}

impl ImageError {
    /// For `map_err`: what was tried with a file.
    pub(crate) fn file(what: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { what, path, error }
    }
}
