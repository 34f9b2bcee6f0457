//! Nodes that are reached by a program in front of commands, such as `docker exec` or `srun`.

use std::ffi::OsString;
use std::path::Path;

use super::ssh::rsync_word;
use super::{Argv, Channel, EXACT_TIMES, Left, Shell, Unreached, contents};
use crate::config::NodeConfig;

/// What a program answers that cannot go there itself, such as one that is not there.
const NOT_FOUND: i32 = 127;

/// Nodes behind programs. Each node's machine states which.
#[derive(Debug)]
pub struct Enter;

/// The program in front of commands, and what more of it is needed.
fn entered(node: &NodeConfig, more: &[&str]) -> Argv {
    let enter = node.machine.iter().flat_map(|machine| &machine.enter);
    enter.map(OsString::from).chain(more.iter().map(OsString::from)).collect()
}

impl Enter {
    /// Variables and the shell that a script is for.
    pub(super) fn words(shell: Shell, env: &[(&str, &str)], script: &str) -> Argv {
        let program: &[&str] = match shell {
            Shell::Plain => &["sh", "-c"],
            Shell::Login => &["bash", "--login", "-c"],
        };
        let env = env.iter().map(|(name, value)| format!("{name}={value}").into());
        let words = std::iter::once("env".into()).chain(env).chain(program.iter().map(OsString::from));
        words.chain([shell.with_settings(script).into()]).collect()
    }

    fn rsync(node: &NodeConfig, left: &Left<'_>) -> Argv {
        // rsync names the host before its own command, which the shell there takes for its name.
        let rsh = entered(node, &["sh", "-c", "cd && exec \"$@\""]);
        let rsh: Vec<OsString> = rsh.iter().map(rsync_word).collect();
        let flags = ["-a", EXACT_TIMES, "--no-owner", "--no-group", "--secluded-args", "--rsh"];
        let mut argv: Argv = vec!["rsync".into()];
        argv.extend(flags.map(OsString::from));
        argv.push(rsh.join(&OsString::from(" ")));
        argv.extend(left.args());
        argv.push("--".into());
        argv
    }

    fn place(path: &str) -> OsString {
        let path = if path == "~" { "." } else { path.strip_prefix("~/").unwrap_or(path) };
        format!("node:{path}").into()
    }
}

impl Channel for Enter {
    fn run(&self, node: &NodeConfig, shell: Shell, env: &[(&str, &str)], script: &str) -> Argv {
        let mut argv = entered(node, &[]);
        argv.extend(Self::words(shell, env, &format!("cd && {{ {script}\n}}")));
        argv
    }

    fn attach(&self, node: &NodeConfig, script: &str, _ports: &[u16]) -> Argv {
        entered(node, &["bash", "--login", "-i", "-c", script])
    }

    fn upload(&self, node: &NodeConfig, from: &Path, to: &str, left: &Left<'_>) -> Argv {
        let mut argv = Self::rsync(node, left);
        argv.extend([contents(from), Self::place(to)]);
        argv
    }

    fn download(&self, node: &NodeConfig, from: &str, to: &Path, left: &Left<'_>) -> Argv {
        let mut argv = Self::rsync(node, left);
        argv.extend([Self::place(from), to.into()]);
        argv
    }

    fn unreached(&self, code: i32, stderr: &str) -> Option<Unreached> {
        // Whatever it is behind, the launcher's first question cannot fail there by itself.
        let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no error message");
        match code {
            0 => None,
            NOT_FOUND => Some(Unreached::Final(last.trim().to_owned())),
            _ => Some(Unreached::Passing(last.trim().to_owned())),
        }
    }
}
