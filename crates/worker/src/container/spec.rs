//! The spec of a container as the worker's own processes hand it on. Variables are not in it: their values do not belong into
//! command lines.

use serde::{Deserialize, Serialize};
use wharf_proto::{Container, container};

use crate::supervisor::protocol::Limit;

/// What a container is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) image: String,
    pub(crate) name: String,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) env_file: String,
    pub(crate) shm: Shm,
    pub(crate) network: Network,
    pub(crate) privileged: bool,
    pub(crate) writable_root: bool,
    pub(crate) user: String,
    pub(crate) init: bool,
    pub(crate) ulimits: Vec<Limit>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) devices: Vec<String>,
    pub(crate) keep: bool,
    pub(crate) strict: bool,
    pub(crate) per_node: bool,
    /// What makes two containers the same.
    pub(crate) hash: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub(crate) src: String,
    pub(crate) dst: String,
    pub(crate) read_only: bool,
}

impl Mount {
    /// The same path within.
    pub(crate) fn same(path: impl Into<String>) -> Self {
        let src = path.into();
        Self { dst: src.clone(), src, read_only: false }
    }

    /// Whether the engine keeps it under that name, and it is no path of the node.
    pub(crate) fn is_volume(&self) -> bool {
        !self.src.contains('/')
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Shm {
    /// As the runtime has it.
    #[default]
    Usual,
    Bytes(u64),
    Host,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Network {
    /// As the runtime has it.
    #[default]
    Usual,
    Host,
    Bridge,
    None,
}

impl Network {
    /// As all runtimes call it.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Self::Usual => None,
            Self::Host => Some("host"),
            Self::Bridge => Some("bridge"),
            Self::None => Some("none"),
        }
    }
}

impl From<&Container> for Spec {
    fn from(wire: &Container) -> Self {
        let shm = match (wire.shm_host, wire.shm_bytes) {
            (true, _) => Shm::Host,
            (false, 0) => Shm::Usual,
            (false, bytes) => Shm::Bytes(bytes),
        };
        let mounts = wire.mounts.iter().map(|mount| Mount {
            src: mount.src.clone(),
            dst: mount.dst.clone(),
            read_only: mount.read_only,
        });
        let ulimits = wire.ulimits.iter().map(|limit| Limit { name: limit.name.clone(), value: limit.value });
        Self {
            image: wire.image.clone(),
            name: wire.name.clone(),
            mounts: mounts.collect(),
            env_file: wire.env_file.clone(),
            shm,
            network: match wire.network() {
                container::Network::Usual => Network::Usual,
                container::Network::Host => Network::Host,
                container::Network::Bridge => Network::Bridge,
                container::Network::None => Network::None,
            },
            privileged: wire.privileged,
            writable_root: wire.writable_root,
            user: wire.user.clone(),
            init: wire.init,
            ulimits: ulimits.collect(),
            entrypoint: wire.entrypoint.clone(),
            devices: wire.devices.clone(),
            keep: wire.keep,
            strict: wire.strict,
            per_node: wire.per_node,
            hash: hash(wire),
        }
    }
}

/// The first letters of a digest of everything that the spec says.
fn hash(wire: &Container) -> String {
    use wharf_proto::prost::Message as _;
    short_digest(&wire.encode_to_vec())
}

/// Enough letters of a digest that two things never share them by chance.
pub(crate) fn short_digest(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
