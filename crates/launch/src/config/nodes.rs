//! The nodes of a cluster: which there are, how they are reached, what they have and do.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wharf_document::decode::Problem;
use wharf_document::node::Node as Tree;

use super::Findings;
use super::container::Container;
use super::mounts::expand;
use super::section::Section;
use super::value_error::ValueError;
use crate::provider::Machine;

/// What a node is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// It has the head, and works as well.
    Head,
    /// It works.
    Worker,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// What it is called: in the cluster, in messages, in its log's name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Where the launcher reaches it; a name of the user's ssh configuration is fine.
    pub address: String,
    /// Where other nodes reach it.
    pub inner_address: String,
    /// How it is reached.
    pub ssh: Ssh,
    /// Its devices as `TYPE:COUNT`, where they are not to be searched for.
    pub devices: Option<String>,
    /// Its type, where the provider has types of nodes.
    #[serde(default)]
    pub kind: String,
    /// What creating its machine from, as a hash; empty where machines are there.
    #[serde(default)]
    pub launch: String,
    /// Its machine, where a provider has made one.
    #[serde(default)]
    pub machine: Option<Machine>,
    /// Lines to run before everything else.
    pub initialization: Vec<String>,
    /// Lines that set it up.
    pub setup: Vec<String>,
    /// The container that all but initialization happens in.
    #[serde(default)]
    pub container: Option<Container>,
}

/// How a node is reached; what is not said is left to the user's ssh configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ssh {
    /// As whom.
    pub user: Option<String>,
    /// At which port.
    pub port: Option<u16>,
    /// With which key.
    pub private_key: Option<PathBuf>,
    /// Through which command.
    pub proxy_command: Option<String>,
    /// Further options, as in a configuration of ssh.
    pub options: BTreeMap<String, String>,
}

impl Ssh {
    /// What is said for one node lies over what is said for all.
    #[must_use]
    fn over(self, common: &Self) -> Self {
        let mut options = common.options.clone();
        options.extend(self.options);
        Self {
            user: self.user.or_else(|| common.user.clone()),
            port: self.port.or(common.port),
            private_key: self.private_key.or_else(|| common.private_key.clone()),
            proxy_command: self.proxy_command.or_else(|| common.proxy_command.clone()),
            options,
        }
    }
}

/// Keys of `auth`, and of a node in `nodes`.
pub(super) const SSH_KEYS: [&str; 5] =
    ["ssh_user", "ssh_port", "ssh_private_key", "ssh_proxy_command", "ssh_options"];

/// Reads how nodes are reached.
pub(super) fn ssh(section: &Section<'_>, folder: &Path, findings: &mut Findings) -> Ssh {
    let key = |text: &String| check_key(&folder.join(expand(text)));
    let private_key: Option<String> = section.checked("ssh_private_key", findings, key);
    Ssh {
        user: section.checked("ssh_user", findings, |user: &String| word(user, "a user's name")),
        port: section
            .checked("ssh_port", findings, |&port: &u32| port_number(port))
            .and_then(|port| u16::try_from(port).ok()),
        private_key: private_key.map(|key| folder.join(expand(&key))),
        proxy_command: section.take("ssh_proxy_command", findings),
        options: section.checked("ssh_options", findings, options).unwrap_or_default(),
    }
}

fn options(options: &BTreeMap<String, String>) -> Result<(), ValueError> {
    let is_name =
        |name: &String| !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric());
    match options.keys().find(|name| !is_name(name)) {
        Some(name) => Err(ValueError::SshOption { name: name.clone() }),
        None => Ok(()),
    }
}

/// A port that can be reached.
pub(super) fn port_number(port: u32) -> Result<(), ValueError> {
    if (1..=65_535).contains(&port) { Ok(()) } else { Err(ValueError::Port { port }) }
}

/// What goes into a command line must not look like an option, nor like two words.
pub(super) fn word(text: &str, expected: &'static str) -> Result<(), ValueError> {
    let is_plain = !text.is_empty()
        && !text.starts_with('-')
        && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_plain { Ok(()) } else { Err(ValueError::Word { text: text.to_owned(), expected }) }
}

/// An address names a log as well.
pub(super) fn address(text: &str) -> Result<(), ValueError> {
    let expected = "an address";
    word(text, expected)?;
    if text.contains('/') { Err(ValueError::Word { text: text.to_owned(), expected }) } else { Ok(()) }
}

fn check_key(path: &Path) -> Result<(), ValueError> {
    let metadata = std::fs::metadata(path)
        .map_err(|source| ValueError::UnreadableKey { path: path.to_owned(), source })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(ValueError::OpenKey { path: path.to_owned(), mode })
}

/// `TYPE:COUNT`
pub(super) fn devices(text: &str) -> Result<(), ValueError> {
    let is_right = text.rsplit_once(':').is_some_and(|(kind, count)| {
        let is_kind = !kind.is_empty() && !kind.starts_with('-') && !kind.contains(char::is_whitespace);
        is_kind && count.parse::<u32>().is_ok_and(|count| count > 0)
    });
    if is_right { Ok(()) } else { Err(ValueError::Devices { text: text.to_owned() }) }
}

/// Lies what `nodes` says of single nodes over what is said of all.
pub(super) fn override_each(
    section: &Section<'_>,
    folder: &Path,
    nodes: &mut [Node],
    findings: &mut Findings,
) {
    let known: Vec<String> = nodes.iter().map(|node| node.address.clone()).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    for entry in section.entries() {
        let Some(node) = nodes.iter_mut().find(|node| node.address == entry.key) else {
            findings.problems.push(wharf_document::decode::unknown(entry, "nodes", "node", &known));
            continue;
        };
        let keys: Vec<&str> = SSH_KEYS.into_iter().chain(["name", "devices", "inner_address"]).collect();
        let own = Section::new(&entry.value, &section.path(&entry.key), &keys, findings);
        node.ssh = ssh(&own, folder, findings).over(&node.ssh);
        let checked_name = |name: &String| super::ray::check_name(name);
        node.name = own.checked("name", findings, checked_name).unwrap_or_else(|| node.name.clone());
        node.devices =
            own.checked("devices", findings, |text: &String| devices(text)).or_else(|| node.devices.take());
        let inner = own.checked("inner_address", findings, |text: &String| address(text));
        node.inner_address = inner.unwrap_or_else(|| node.inner_address.clone());
    }
}

/// Two nodes of one name would write into one log and be one node for the head.
pub(super) fn refuse_twins(nodes: &[Node], parent: &Tree, findings: &mut Findings) {
    for (index, node) in nodes.iter().enumerate() {
        if nodes[..index].iter().any(|other| other.name == node.name) {
            let message = format!("there are two nodes `{}`; each is named once", node.name);
            findings.problems.push(Problem::new(parent, "provider", message));
        }
    }
}
