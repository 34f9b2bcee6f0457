//! Clusters in and out: short forms such as `a100:4x8`, and files.

mod crius;
mod file;
mod mixed;
mod short;

pub use short::ShortFormError;

use std::path::Path;

use thiserror::Error;
use wharf_core::ClusterSpec;

pub use file::{parse_cluster_file, write_cluster};

use crate::finding::Finding;
use crate::source::SourceError;

/// Most devices in a cluster. More is a slip of the keyboard, and would take gigabytes.
pub const DEVICES_MAX: u32 = 4_000_000;

/// The device type where nothing names one.
const DEVICE_TYPE: &str = "gpu";

/// Why there is no cluster.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Neither an existing file nor a short form.
    #[error("`{text}` is not a cluster: no such file, and not a short form: {reason}")]
    Neither {
        /// What was given.
        text: String,
        /// Why it is no short form.
        reason: ShortFormError,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A line of the file is wrong.
    #[error("{0}")]
    Invalid(Box<Finding>),
    /// A malformed JSON document.
    #[error("{file}: {problem}")]
    Document {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
}

impl ClusterError {
    /// How to repair it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Neither { .. } => Some(
                "write nodes x devices (`8x8`), with types `a100:4x8,v100:16x4`, `v100:36` for one-device nodes, \
                 one node with all that it has `a100:2+t4:4,cpus=64,memory=512G`, several of them `4x(...);2x(...)`, \
                 or the path of a cluster file"
                    .into(),
            ),
            Self::Source(error) => error.hint().map(str::to_owned),
            Self::Invalid(finding) => finding.hint.clone(),
            Self::Document { .. } => Some(
                "expected `[{\"a100\": {\"node_num\": 4}}]`, as the Crius simulator has it, or Wharf's own CSV".into(),
            ),
        }
    }
}

/// A cluster from the path of a file or from a short form.
///
/// | short form | cluster |
/// |---|---|
/// | `8x8` | 8 nodes of 8 devices of type `gpu` |
/// | `a100:4x8,v100:16x4` | 4 nodes of 8 `a100`, then 16 nodes of 4 `v100` |
/// | `v100:36` | 36 nodes of one `v100` |
/// | `a100:2+t4:4,cpus=64,memory=512G` | one node with devices of two types |
/// | `2x(a100:2[1g.10gb:4/3g.40gb:1],cpus=64,scratch=800);4x(cpus=32);licence:matlab=2` | 2 nodes whose devices are divided into slices, with a named resource; 4 nodes without devices; licences |
///
/// Nodes of a short form hang on one switch. A file that exists is read, whatever it is called.
pub fn parse_cluster(text: &str) -> Result<ClusterSpec, ClusterError> {
    if Path::new(text).exists() {
        return parse_cluster_file(Path::new(text));
    }
    short::parse(text).map_err(|reason| ClusterError::Neither { text: text.to_owned(), reason })
}
