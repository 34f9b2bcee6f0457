//! Nodes that are machines, reached by the system's `ssh` and `rsync`.
//!
//! The user's ssh configuration and agent count; what the cluster's file says lies over it. A host's key is remembered when it is
//! first seen, in the cluster's folder, and must be the same from then on. One connection to each node is kept open for a
//! while and used by everything that follows.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Argv, Channel, EXACT_TIMES, INTERACTIVE, Left, Shell, Unreached, contents};
use crate::config::NodeConfig;
use crate::shell::quote;
use crate::state::Folder;

/// Names of sockets are at most so long; ssh adds a dot and 16 letters while it makes one.
const SOCKET_NAME_MAX: usize = 107;
/// What ssh makes of `%C`.
const DIGEST: usize = 40;
/// How long a connection is kept for what comes next.
const KEPT: &str = "10m";

/// What ssh says, and what that means: the first that is found counts.
const FINAL: [(&str, &str); 7] = [
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key is not the one that was seen before"),
    ("Host key verification failed", "its host key is not to be trusted"),
    ("Permission denied", "it refuses the key or the user"),
    ("Too many authentication failures", "it refuses the keys"),
    ("Could not resolve hostname", "unknown host name"),
    ("Bad configuration option", "ssh refuses its options"),
    ("no such identity", "the key is not there"),
];

/// Machines.
#[derive(Debug)]
pub struct Ssh {
    known_hosts: PathBuf,
    /// Where connections are kept; `None` where names would be too long for sockets.
    control: Option<PathBuf>,
}

impl Ssh {
    /// With the host keys and connections of a cluster's folder.
    #[must_use]
    pub fn new(folder: &Folder) -> Self {
        let control = folder.connections();
        let length = control.as_os_str().len() + 1 + DIGEST + 17;
        Self { known_hosts: folder.known_hosts(), control: (length <= SOCKET_NAME_MAX).then_some(control) }
    }

    /// What every ssh gets. Of an option that is given twice ssh takes the first, so the file's come first.
    fn options(&self, node: &NodeConfig) -> Argv {
        let ssh = &node.ssh;
        let mut argv: Argv = Vec::new();
        let mut option = |name: &str, value: OsString| {
            let mut text = OsString::from(format!("{name}="));
            text.push(value);
            argv.extend(["-o".into(), text]);
        };
        for (name, value) in &ssh.options {
            option(name, value.into());
        }
        if let Some(machine) = &node.machine {
            // Addresses are given to one machine after the other; its key is the machine's own.
            option("HostKeyAlias", machine.id.clone().into());
        }
        if let Some(key) = &ssh.private_key {
            option("IdentityFile", quoted(key));
            option("IdentitiesOnly", "yes".into());
        }
        if let Some(command) = &ssh.proxy_command {
            option("ProxyCommand", command.into());
        }
        // Ours first: new keys are written to the first file. Those that the user knows already are fine as well.
        let mut known = quoted(&self.known_hosts);
        known.push(" ~/.ssh/known_hosts");
        option("UserKnownHostsFile", known);
        option("StrictHostKeyChecking", "accept-new".into());
        option("HashKnownHosts", "no".into());
        option("BatchMode", "yes".into());
        option("ConnectTimeout", "10".into());
        option("ServerAliveInterval", "5".into());
        option("ServerAliveCountMax", "3".into());
        if let Some(control) = &self.control {
            option("ControlMaster", "auto".into());
            option("ControlPath", control.join("%C").into());
            option("ControlPersist", KEPT.into());
        }
        if let Some(port) = ssh.port {
            argv.extend(["-p".into(), port.to_string().into()]);
        }
        argv
    }

    fn target(node: &NodeConfig) -> String {
        match &node.ssh.user {
            Some(user) => format!("{user}@{}", node.address),
            None => node.address.clone(),
        }
    }

    fn rsync(&self, node: &NodeConfig, left: &Left<'_>) -> Argv {
        let mut rsh = OsString::from("ssh");
        for word in self.options(node) {
            rsh.push(" ");
            rsh.push(rsync_word(&word));
        }
        // Files belong to whom they are copied by; the remote shell sees no names, so that they need no quotes.
        let flags = ["-az", EXACT_TIMES, "--no-owner", "--no-group", "--secluded-args", "--rsh"];
        let mut argv: Argv = vec!["rsync".into()];
        argv.extend(flags.map(OsString::from));
        argv.push(rsh);
        argv.extend(left.args());
        argv.push("--".into());
        argv
    }

    fn place(node: &NodeConfig, path: &str) -> OsString {
        // Relative paths begin in the home.
        let path = if path == "~" { "." } else { path.strip_prefix("~/").unwrap_or(path) };
        let host = match &node.ssh.user {
            Some(user) => format!("{user}@{}", bracketed(&node.address)),
            None => bracketed(&node.address),
        };
        format!("{host}:{path}").into()
    }
}

/// An address whose colons do not look like the end of it.
fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

/// A path in an option of ssh, which would otherwise end at a blank.
fn quoted(path: &Path) -> OsString {
    let mut text = OsString::from("\"");
    text.push(path);
    text.push("\"");
    text
}

/// A word of `--rsh`, which rsync splits at blanks; a quote within quotes is written twice.
pub(super) fn rsync_word(word: &OsString) -> OsString {
    let text = word.to_string_lossy();
    if text.contains([' ', '"', '\'']) {
        format!("'{}'", text.replace('\'', "''")).into()
    } else {
        word.clone()
    }
}

impl Channel for Ssh {
    fn run(&self, node: &NodeConfig, shell: Shell, env: &[(&str, &str)], script: &str) -> Argv {
        let mut argv: Argv = vec!["ssh".into(), "-T".into()];
        argv.extend(self.options(node));
        argv.extend(["--".into(), Self::target(node).into()]);
        let env: String = env.iter().map(|(name, value)| format!("{name}={} ", quote(value))).collect();
        let program = match shell {
            Shell::Plain => "sh -c".to_owned(),
            Shell::Login => format!("bash -c {} bash", quote(INTERACTIVE)),
        };
        argv.push(format!("exec env {env}{program} {}", quote(&shell.with_settings(script))).into());
        argv
    }

    fn attach(&self, node: &NodeConfig, script: &str, ports: &[u16]) -> Argv {
        let mut argv: Argv = vec!["ssh".into(), "-t".into()];
        argv.extend(ports.iter().flat_map(|port| ["-L".into(), format!("{port}:localhost:{port}").into()]));
        if !ports.is_empty() {
            argv.extend(["-o", "ExitOnForwardFailure=yes"].map(OsString::from));
        }
        argv.extend(self.options(node));
        argv.extend(["--".into(), Self::target(node).into()]);
        argv.push(format!("exec bash -c {} bash {}", quote(INTERACTIVE), quote(script)).into());
        argv
    }

    fn upload(&self, node: &NodeConfig, from: &Path, to: &str, left: &Left<'_>) -> Argv {
        let mut argv = self.rsync(node, left);
        argv.extend([contents(from), Self::place(node, to)]);
        argv
    }

    fn download(&self, node: &NodeConfig, from: &str, to: &Path, left: &Left<'_>) -> Argv {
        let mut argv = self.rsync(node, left);
        argv.extend([Self::place(node, from), to.into()]);
        argv
    }

    fn unreached(&self, code: i32, stderr: &str) -> Option<Unreached> {
        if code != 255 {
            return None;
        }
        // ssh's last line states why; lines before may be warnings and banners.
        let last =
            stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no error message").trim();
        let known = FINAL.iter().find(|(said, _)| stderr.contains(said));
        Some(match known {
            Some((said, meaning)) => {
                let line = stderr.lines().find(|line| line.contains(said)).unwrap_or(last);
                Unreached::Final(format!("{meaning} ({})", line.trim_matches([' ', '@', '\r'])))
            }
            None => Unreached::Passing(last.to_owned()),
        })
    }

    fn hang_up(&self, node: &NodeConfig) -> Option<Argv> {
        self.control.as_ref()?;
        let mut argv: Argv = vec!["ssh".into(), "-O".into(), "exit".into()];
        argv.extend(self.options(node));
        argv.extend(["--".into(), Self::target(node).into()]);
        Some(argv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_ssh_are_distinguished() {
        let ssh = Ssh { known_hosts: PathBuf::new(), control: None };
        for (stderr, is_final) in [
            ("ann@n1: Permission denied (publickey).", true),
            ("@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@\nHost key verification failed.", true),
            ("ssh: Could not resolve hostname n1: Name or service not known", true),
            ("ssh: connect to host n1 port 22: Connection refused", false),
            ("ssh: connect to host n1 port 22: Connection timed out", false),
            ("ssh: connect to host n1 port 22: No route to host", false),
            ("kex_exchange_identification: Connection closed by remote host", false),
            ("Connection timed out during banner exchange", false),
            ("", false),
        ] {
            let why = ssh.unreached(255, stderr).unwrap();
            assert_eq!(matches!(why, Unreached::Final(_)), is_final, "{stderr}: {why:?}");
        }
        assert_eq!(ssh.unreached(1, "Permission denied"), None, "a command may say that");
    }

    #[test]
    fn rsync_splits_its_words_as_they_were() {
        for (word, written) in
            [("-o", "-o"), ("A=b c", "'A=b c'"), ("P=\"x y\" z", "'P=\"x y\" z'"), ("it's", "'it''s'")]
        {
            assert_eq!(rsync_word(&word.into()), written);
        }
    }
}
