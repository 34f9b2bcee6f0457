//! The container that a job runs in, as job files and flags have it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use wharf_document::decode::{Decode, Fields, Problem, written};
use wharf_document::node::{Node, Value};
use wharf_proto as proto;
use wharf_proto::container as wire;

use crate::choice::{Network, Runtime};
use crate::job::{Limits, record};
use crate::units::UnitError;
use crate::words::Words;

record! {
    /// What a job runs in.
    Container {
        /// The program that runs it.
        runtime: Runtime,
        /// Where its files come from.
        image: String,
        /// What it is called.
        name: String,
        /// What it sees of the node.
        mounts: Vec<Mount>,
        /// Variables within.
        env: BTreeMap<String, String>,
        /// A file with more of them.
        env_file: String,
        /// Where it runs, within.
        workdir: String,
        /// Shared memory.
        shm: Shm,
        /// What it sees of the network.
        network: Network,
        /// Whether it may do what the node's root may.
        privileged: bool,
        /// Whether the image's files can be changed.
        writable_root: bool,
        /// Who it runs as, within.
        user: String,
        /// Whether its first process collects orphans.
        init: bool,
        /// Resource limits within.
        ulimits: Limits,
        /// What is put before the command, instead of the image's own.
        entrypoint: Words,
        /// Files of devices.
        devices: Vec<String>,
        /// With what InfiniBand needs.
        infiniband: bool,
        /// Whether it goes with its command.
        remove: bool,
        /// Whether what the runtime cannot do is an error.
        strict: bool,
        /// One on each node, that outlives tasks.
        per_node: bool,
    }
}

record! {
    /// A part of the node that a container sees.
    Mount {
        /// On the node.
        src: String,
        /// Within.
        dst: String,
        /// Whether it can only be read.
        ro: bool,
    }
}

/// Shared memory: `host` for the node's own, or bytes as docker has them: `11.00gb`, `64m`; units count in 1024s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shm {
    /// The node's own.
    Host,
    /// So many.
    Bytes(u64),
}

impl FromStr for Shm {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "host" {
            return Ok(Self::Host);
        }
        let expected =
            "an amount of shared memory; write it as docker does, as in `11.00gb` or `64m`, or `host`";
        bytes(text).map(Self::Bytes).ok_or_else(|| UnitError::new(text, expected))
    }
}

/// A number and a unit of b, k, m, g, t or p, with an `i` or a `b` behind it; none is bytes.
fn bytes(text: &str) -> Option<u64> {
    let lower = text.to_lowercase();
    let end = lower.find(|letter: char| letter != '.' && !letter.is_ascii_digit()).unwrap_or(lower.len());
    let value: f64 = lower[..end].parse().ok()?;
    let power = match lower[end..].trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" | "ki" => 1,
        "m" | "mb" | "mib" | "mi" => 2,
        "g" | "gb" | "gib" | "gi" => 3,
        "t" | "tb" | "tib" | "ti" => 4,
        "p" | "pb" | "pib" | "pi" => 5,
        _ => return None,
    };
    let bytes = value * 1024_f64.powi(power);
    // Far below where a float stops counting every byte.
    (bytes.is_finite() && (1.0..1e18).contains(&bytes)).then_some(bytes as u64)
}

/// `SRC:DST`, `SRC:DST:ro`, or `SRC` for the same path.
impl FromStr for Mount {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (rest, read_only) = match text.strip_suffix(":ro") {
            Some(rest) => (rest, Some(true)),
            None => (text.strip_suffix(":rw").unwrap_or(text), None),
        };
        let (src, dst) = rest.split_once(':').unwrap_or((rest, rest));
        if src.is_empty() || dst.is_empty() || dst.contains(':') {
            return Err(UnitError::new(text, "a mount; write `SRC:DST`, or `SRC:DST:ro`"));
        }
        Ok(Self { src: Some(src.to_owned()), dst: Some(dst.to_owned()), ro: read_only })
    }
}

impl Decode for Mount {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        match &node.value {
            Value::Text(_) => written(node, at, ""),
            _ => Self::decode_map(node, at),
        }
    }
}

/// An image alone stands for a container with it.
impl Decode for Container {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        match &node.value {
            Value::Text(image) => Ok(Self { image: Some(image.clone()), ..Self::default() }),
            _ => Self::decode_map(node, at),
        }
    }
}

impl Container {
    /// The container as the contract has it. `path` makes a path of the node absolute: relative ones are below the job file.
    #[must_use]
    pub fn to_wire(&self, path: impl Fn(&str) -> PathBuf) -> proto::Container {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let file = |name: &str| if is_path(name) { text(&path(name)) } else { name.to_owned() };
        let mounts = self.mounts.iter().flatten().map(|mount| proto::Mount {
            src: file(mount.src.as_deref().unwrap_or_default()),
            dst: mount.dst.clone().or_else(|| mount.src.clone()).unwrap_or_default(),
            read_only: mount.ro.unwrap_or_default(),
        });
        let ulimits = self.ulimits.iter().flat_map(|limits| &limits.0);
        let ulimits =
            ulimits.map(|(name, limit)| proto::ResourceLimit { name: name.clone(), value: limit.0 });
        let (shm_bytes, shm_host) = match self.shm {
            None => (0, false),
            Some(Shm::Host) => (0, true),
            Some(Shm::Bytes(bytes)) => (bytes, false),
        };
        proto::Container {
            runtime: self.runtime.map_or(wire::Runtime::Auto, Into::into).into(),
            image: file(self.image.as_deref().unwrap_or_default()),
            name: self.name.clone().unwrap_or_default(),
            mounts: mounts.collect(),
            env: self.env.clone().unwrap_or_default(),
            env_file: self.env_file.as_deref().map(|name| text(&path(name))).unwrap_or_default(),
            workdir: self.workdir.clone().unwrap_or_default(),
            shm_bytes,
            shm_host,
            network: self.network.map_or(wire::Network::Usual, Into::into).into(),
            privileged: self.privileged.unwrap_or_default(),
            writable_root: self.writable_root.unwrap_or_default(),
            user: self.user.clone().unwrap_or_default(),
            init: self.init.unwrap_or_default(),
            ulimits: ulimits.collect(),
            entrypoint: self.entrypoint.as_ref().map(|words| words.0.clone()).unwrap_or_default(),
            devices: self.devices.clone().unwrap_or_default(),
            infiniband: self.infiniband.unwrap_or_default(),
            keep: !self.remove.unwrap_or(true),
            strict: self.strict.unwrap_or_default(),
            per_node: self.per_node.unwrap_or_default(),
        }
    }
}

/// Whether a text names a file of the node, and not an image of a registry or a volume.
fn is_path(text: &str) -> bool {
    text.starts_with(['/', '~']) || text.starts_with("./") || text.starts_with("../")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_counted_as_docker_does() {
        for (text, expected) in [
            ("11.00gb", Some(Shm::Bytes(11_811_160_064))),
            ("64g", Some(Shm::Bytes(68_719_476_736))),
            ("64m", Some(Shm::Bytes(64 << 20))),
            ("1GiB", Some(Shm::Bytes(1 << 30))),
            ("4096", Some(Shm::Bytes(4096))),
            ("512b", Some(Shm::Bytes(512))),
            ("host", Some(Shm::Host)),
            ("5x", None),
            ("", None),
            ("0", None),
            ("g", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }

    #[test]
    fn mounts_and_images_are_paths_or_names() {
        let container = Container {
            image: Some("./images/bb".into()),
            mounts: Some(vec![
                "./a:/b:ro".parse().unwrap(),
                "data:/d".parse().unwrap(),
                "/x".parse().unwrap(),
            ]),
            ..Container::default()
        };
        let wire = container.to_wire(|name| Path::new("/job").join(name.trim_start_matches("./")));
        assert_eq!(wire.image, "/job/images/bb");
        let mounts: Vec<_> = wire
            .mounts
            .iter()
            .map(|mount| (mount.src.as_str(), mount.dst.as_str(), mount.read_only))
            .collect();
        assert_eq!(mounts, [("/job/a", "/b", true), ("data", "/d", false), ("/x", "/x", false)]);
        assert!(!wire.keep, "a container goes with its command unless it is to stay");
        let name = Container { image: Some("ubuntu:22.04".into()), ..Container::default() };
        assert_eq!(name.to_wire(|_| unreachable!()).image, "ubuntu:22.04");
        assert!("a:b:c".parse::<Mount>().is_err() && ":/b".parse::<Mount>().is_err());
    }
}
