//! What a site says about containers on a node, and the names of the runtimes.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_proto::container::Runtime;

/// What InfiniBand needs within a container, where the site does not say otherwise.
const INFINIBAND: [&str; 2] = ["/etc/libibverbs.d", "/dev/infiniband"];
const CACHE_BYTES: u64 = 200 << 30;
const IDLE: Duration = Duration::from_secs(3600);

/// A program that runs containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ContainerRuntime {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// Apptainer.
    Apptainer,
    /// Singularity, as apptainer was called.
    Singularity,
    /// Charliecloud.
    Charliecloud,
}

impl ContainerRuntime {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Docker, Self::Podman, Self::Apptainer, Self::Singularity, Self::Charliecloud];

    /// Its name, as users write it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Apptainer => "apptainer",
            Self::Singularity => "singularity",
            Self::Charliecloud => "charliecloud",
        }
    }

    /// The program that is started.
    pub(crate) fn program(self) -> &'static str {
        if self == Self::Charliecloud { "ch-run" } else { self.word() }
    }

    /// Whether its containers are no children of the program that starts them.
    pub(crate) fn is_engine(self) -> bool {
        matches!(self, Self::Docker | Self::Podman)
    }

    /// As the contract has it; none: any.
    pub(crate) fn of_wire(runtime: Runtime) -> Option<Self> {
        match runtime {
            Runtime::Auto => None,
            Runtime::Docker => Some(Self::Docker),
            Runtime::Podman => Some(Self::Podman),
            Runtime::Apptainer => Some(Self::Apptainer),
            Runtime::Singularity => Some(Self::Singularity),
            Runtime::Charliecloud => Some(Self::Charliecloud),
        }
    }
}

impl From<ContainerRuntime> for Runtime {
    fn from(runtime: ContainerRuntime) -> Self {
        match runtime {
            ContainerRuntime::Docker => Self::Docker,
            ContainerRuntime::Podman => Self::Podman,
            ContainerRuntime::Apptainer => Self::Apptainer,
            ContainerRuntime::Singularity => Self::Singularity,
            ContainerRuntime::Charliecloud => Self::Charliecloud,
        }
    }
}

/// A word that is no container runtime.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a runtime; expected one of {}", ContainerRuntime::ALL.map(ContainerRuntime::word).join(", "))]
pub struct UnknownRuntime {
    text: String,
}

impl FromStr for ContainerRuntime {
    type Err = UnknownRuntime;

    fn from_str(text: &str) -> Result<Self, UnknownRuntime> {
        Self::ALL
            .into_iter()
            .find(|runtime| runtime.word() == text)
            .ok_or_else(|| UnknownRuntime { text: text.to_owned() })
    }
}

/// Something of the node that all containers get, as in `/scratch`, `/opt/data:/data`, `/etc/pki:/etc/pki:ro`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerMount {
    /// On the node.
    pub src: String,
    /// Within.
    pub dst: String,
    /// It cannot be written from within.
    pub read_only: bool,
}

/// A text that is no mount.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a mount; expected SRC, SRC:DST or SRC:DST:ro with absolute paths")]
pub struct BadMount {
    text: String,
}

impl FromStr for ContainerMount {
    type Err = BadMount;

    fn from_str(text: &str) -> Result<Self, BadMount> {
        let (rest, read_only) = match text.strip_suffix(":ro") {
            Some(rest) => (rest, true),
            None => (text.strip_suffix(":rw").unwrap_or(text), false),
        };
        let (src, dst) = rest.split_once(':').unwrap_or((rest, rest));
        if !src.starts_with('/') || !dst.starts_with('/') || dst.contains(':') {
            return Err(BadMount { text: text.to_owned() });
        }
        Ok(Self { src: src.to_owned(), dst: dst.to_owned(), read_only })
    }
}

/// What a site says about containers on a node.
#[derive(Clone, Debug)]
pub struct ContainerSettings {
    /// The runtime of jobs that leave it to the node; none: what is installed and fits the image.
    pub runtime: Option<ContainerRuntime>,
    /// A runtime's program and the options that it always gets, as in `podman --root /scratch/images`.
    pub command: Vec<String>,
    /// Where docker or podman listens, as in `unix:///run/podman/podman.sock`; none: where they usually do.
    pub socket: Option<String>,
    /// What all containers get.
    pub binds: Vec<ContainerMount>,
    /// What containers get that ask for InfiniBand.
    pub infiniband: Vec<PathBuf>,
    /// What unpacked images may take of the disk before the least recently used are removed; 0: no limit.
    pub image_cache_bytes: u64,
    /// Charliecloud's images get the libraries of NVIDIA's driver where tasks have its devices (`ch-fromhost --nvidia`).
    pub ch_fromhost: bool,
    /// How long a container of a node stays when nothing is executed in it.
    pub idle: Duration,
}

impl Default for ContainerSettings {
    fn default() -> Self {
        Self {
            runtime: None,
            command: Vec::new(),
            socket: None,
            binds: Vec::new(),
            infiniband: INFINIBAND.map(PathBuf::from).to_vec(),
            image_cache_bytes: CACHE_BYTES,
            ch_fromhost: false,
            idle: IDLE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_in_every_form() {
        let mount = |src: &str, dst: &str, read_only| ContainerMount {
            src: src.to_owned(),
            dst: dst.to_owned(),
            read_only,
        };
        for (text, expected) in [
            ("/scratch", Some(mount("/scratch", "/scratch", false))),
            ("/a:/b", Some(mount("/a", "/b", false))),
            ("/a:/b:ro", Some(mount("/a", "/b", true))),
            ("/a:/b:rw", Some(mount("/a", "/b", false))),
            ("a:/b", None),
            ("/a:b", None),
            ("/a:/b:/c", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }
}
