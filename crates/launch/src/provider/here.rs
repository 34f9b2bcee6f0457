//! Nodes that are folders and processes of this machine: for trying things.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Argv, Channel, EXACT_TIMES, Left, Shell, Unreached, contents};
use crate::config::NodeConfig;
use crate::state::Folder;

/// Variables that would lead a node's daemons to another cluster.
const MISLEADING: [&str; 6] =
    ["WHARF_HOME", "WHARF_HEAD", "WHARF_TOKEN_FILE", "WHARF_CA_FILE", "WHARF_CONFIG", "XDG_STATE_HOME"];

/// A node's home is created if it is missing.
const AT_HOME: &str = r#"mkdir -p -m 700 "$0" && exec env --chdir "$0" "$@""#;

/// Nodes of this machine.
#[derive(Debug)]
pub struct Here {
    homes: PathBuf,
}

impl Here {
    /// Those that are in a cluster's folder.
    #[must_use]
    pub fn new(folder: &Folder) -> Self {
        Self { homes: folder.homes() }
    }

    fn home(&self, node: &NodeConfig) -> PathBuf {
        self.homes.join(&node.name)
    }

    /// A path of the node as one of this machine.
    fn place(&self, node: &NodeConfig, path: &str) -> OsString {
        match path.strip_prefix("~/") {
            Some(rest) => self.home(node).join(rest).into_os_string(),
            None if path == "~" => self.home(node).into_os_string(),
            None => self.home(node).join(path).into_os_string(),
        }
    }

    /// Variables of the node, in front of a program.
    fn env(&self, node: &NodeConfig, env: &[(&str, &str)]) -> Argv {
        let mut argv: Argv = vec!["sh".into(), "-c".into(), AT_HOME.into(), self.home(node).into()];
        argv.extend(MISLEADING.iter().flat_map(|name| ["--unset".into(), (*name).into()]));
        let mut home = OsString::from("HOME=");
        home.push(self.home(node));
        argv.push(home);
        argv.extend(env.iter().map(|(name, value)| format!("{name}={value}").into()));
        argv
    }
}

impl Channel for Here {
    fn run(&self, node: &NodeConfig, shell: Shell, env: &[(&str, &str)], script: &str) -> Argv {
        let mut argv = self.env(node, env);
        let program: &[&str] = match shell {
            Shell::Plain => &["sh", "-c"],
            Shell::Login => &["bash", "--login", "-c"],
        };
        argv.extend(program.iter().map(OsString::from));
        argv.push(shell.with_settings(script).into());
        argv
    }

    fn attach(&self, node: &NodeConfig, script: &str, _ports: &[u16]) -> Argv {
        // The node's ports are this machine's already.
        self.run(node, Shell::Login, &[], script)
    }

    fn upload(&self, node: &NodeConfig, from: &Path, to: &str, left: &Left<'_>) -> Argv {
        let mut argv: Argv = vec!["rsync".into(), "-a".into(), EXACT_TIMES.into()];
        argv.extend(left.args());
        argv.extend(["--".into(), contents(from), self.place(node, to)]);
        argv
    }

    fn download(&self, node: &NodeConfig, from: &str, to: &Path, left: &Left<'_>) -> Argv {
        let mut argv: Argv = vec!["rsync".into(), "-a".into(), EXACT_TIMES.into()];
        argv.extend(left.args());
        argv.extend(["--".into(), self.place(node, from), to.into()]);
        argv
    }

    fn unreached(&self, code: i32, stderr: &str) -> Option<Unreached> {
        (code != 0).then(|| Unreached::Final(stderr.trim().to_owned()))
    }

    fn is_here(&self) -> bool {
        true
    }
}
