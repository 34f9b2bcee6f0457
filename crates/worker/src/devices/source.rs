//! Where a worker learns of its devices.

use std::path::PathBuf;

use wharf_proto::Device;

use super::{nvml, rocm, smi};

/// Where a worker learns of its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Declared: there is nothing to query.
    #[default]
    Declared,
    /// NVIDIA's management library.
    Nvml,
    /// The program `nvidia-smi`.
    NvidiaSmi,
    /// AMD's driver.
    Rocm {
        /// Where the kernel's files are: `/sys`.
        sys: PathBuf,
    },
    /// The machine's processors.
    Processors,
}

impl Source {
    /// Whether the devices are NVIDIA's, as far as that is known.
    pub(crate) fn is_nvidia(&self) -> bool {
        matches!(self, Self::Nvml | Self::NvidiaSmi)
    }
}

/// Why devices cannot be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadError {
    /// This source is not on this machine.
    Absent,
    /// It is, and does not work.
    Failed(String),
}

/// A source that is open.
pub(super) enum Reader {
    /// There is nothing to be learned.
    Silent,
    Nvml(nvml::Library),
    NvidiaSmi,
    Rocm(PathBuf),
}

impl Reader {
    /// Opens a source; none where it is not on this machine.
    pub(super) async fn open(source: &Source) -> Option<Self> {
        Some(match source {
            Source::Declared | Source::Processors => Self::Silent,
            Source::Nvml => Self::Nvml(nvml::Library::open().await?),
            Source::NvidiaSmi => Self::NvidiaSmi,
            Source::Rocm { sys } => Self::Rocm(sys.clone()),
        })
    }

    /// All devices that it knows, whatever their type, numbered as their runtime numbers them.
    pub(super) async fn read(&self) -> Result<Vec<Device>, ReadError> {
        match self {
            Self::Silent => Err(ReadError::Absent),
            Self::Nvml(library) => library.read().await,
            Self::NvidiaSmi => smi::read().await,
            Self::Rocm(sys) => rocm::read(sys),
        }
    }
}
