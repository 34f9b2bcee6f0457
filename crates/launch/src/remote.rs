//! What people do on the nodes of a cluster that is up: run something, copy files, look.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::config::{Mount, NodeConfig};
use crate::container;
use crate::launcher::{KnownError, Launcher};
use crate::pool::pooled;
use crate::provider::{Argv, Left, Shell};
use crate::runner::{RunError, code};
use crate::shell::{line, quote};
use crate::state::Record;
use crate::visit::{NodeError, Visit, bare};

/// In which window on the node something runs, to outlive the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Of tmux.
    Tmux,
    /// Of GNU screen.
    Screen,
}

/// The line of shell that words stand for: one word is a line already, as Ray has it; several are a program and its arguments,
/// each of which arrives as it is.
#[must_use]
pub fn command_line(words: &[String]) -> String {
    match words {
        [line] => line.clone(),
        words => line(words.iter().map(String::as_str)),
    }
}

/// What a person who attaches gets.
#[must_use]
pub fn attach_line(window: Option<Window>, is_new: bool) -> &'static str {
    match (window, is_new) {
        (None, _) => "exec \"${SHELL:-bash}\"",
        // `attach` would start a server that ends at once, while `new` connects to it.
        (Some(Window::Tmux), false) => "tmux has-session 2>/dev/null && exec tmux attach; exec tmux new",
        (Some(Window::Tmux), true) => "exec tmux new",
        (Some(Window::Screen), false) => "exec screen -L -xRR",
        (Some(Window::Screen), true) => "exec screen -L",
    }
}

/// A command line that continues in its own terminal window.
#[must_use]
pub fn detached(window: Window, line: &str) -> String {
    let stays = quote(&format!("{line}; exec bash"));
    match window {
        Window::Tmux => format!("tmux new -d bash -c {stays}"),
        Window::Screen => format!("screen -L -dm bash -c {stays}"),
    }
}

/// Where on a node something runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrandPlace {
    /// In its container, if it has one; lines that begin with `docker` or `podman` are about containers and run beside it.
    #[default]
    Auto,
    /// On the machine.
    Machine,
    /// In its container.
    Container,
}

/// A line of shell that is run on nodes.
#[derive(Clone, Debug)]
pub struct Errand {
    line: String,
    place: ErrandPlace,
    /// A word in its environment, by which it is found when it has to be ended.
    word: String,
}

/// The variable that has an errand's word.
const WORD: &str = "WHARF_LAUNCH_EXEC";

impl Errand {
    /// A line that runs in a place.
    #[must_use]
    pub fn new(line: String, place: ErrandPlace) -> Self {
        Self { line, place, word: crate::hash::unique() }
    }

    fn is_inside(&self, node: &NodeConfig) -> bool {
        let is_for_container = match self.place {
            ErrandPlace::Auto => !container::is_for_machine(&self.line),
            ErrandPlace::Machine => false,
            ErrandPlace::Container => true,
        };
        node.container.is_some() && is_for_container
    }

    /// The program that does it without a terminal.
    #[must_use]
    pub fn argv(&self, launcher: &Launcher, node: &NodeConfig) -> Argv {
        let env = [(WORD, self.word.as_str())];
        if !self.is_inside(node) {
            return launcher.channel(node).run(node, Shell::Login, &env, &self.line);
        }
        let script = container::enter(&launcher.place(node), Shell::Login, &env, &bare(&self.line), "-i");
        launcher.channel(node).run(node, Shell::Plain, &[], &script)
    }

    /// The program that does it for the person at the terminal; ports of the node are this machine's meanwhile.
    #[must_use]
    pub fn attached(&self, launcher: &Launcher, node: &NodeConfig, ports: &[u16]) -> Argv {
        if !self.is_inside(node) {
            return launcher.channel(node).attach(node, &self.line, ports);
        }
        let terminal = "$(if [ -t 0 ]; then echo -it; else echo -i; fi)";
        let script = container::enter(&launcher.place(node), Shell::Login, &[], &bare(&self.line), terminal);
        launcher.channel(node).attach(node, &script, ports)
    }
}

/// Runs an errand on a node, with this process' input and output; returns its exit code.
///
/// # Errors
/// The program that reaches the node cannot be run.
pub async fn run_here(launcher: &Launcher, node: &NodeConfig, errand: &Errand) -> Result<i32, RunError> {
    let argv = errand.argv(launcher, node);
    let Some((program, args)) = argv.split_first() else { return Ok(0) };
    let failed = |source| RunError::Start { program: program.to_string_lossy().into_owned(), source };
    let status = Command::new(program).args(args).kill_on_drop(true).status().await;
    status.map(code).map_err(failed)
}

/// Ends what an errand has left running on nodes: the connection's end does not. One that does not answer is left alone.
pub async fn end(launcher: Arc<Launcher>, nodes: Vec<NodeConfig>, errand: Errand) {
    let mut tasks = JoinSet::new();
    for node in nodes {
        let (launcher, errand) = (launcher.clone(), errand.clone());
        tasks.spawn(async move {
            let visit = Visit::new(&launcher, &node);
            let visit = if errand.is_inside(&node) { visit.inside() } else { visit };
            let script = format!("end \"{WORD}=$WORD\" HUP");
            // Not reported: the user has interrupted it.
            let _ = visit.ask("ending a command", &script, &[("WORD", &errand.word)], None).await;
        });
    }
    tasks.join_all().await;
}

/// A line of output of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which node.
    pub node: String,
    /// Whether it was said on standard error.
    pub is_error: bool,
    /// What.
    pub text: String,
}

/// Runs an errand on nodes at once; what they say is handed over line by line. Returns their exit codes in order.
pub async fn run_on(
    launcher: Arc<Launcher>,
    nodes: Vec<NodeConfig>,
    errand: Errand,
    told: Arc<dyn Fn(Line) + Send + Sync>,
) -> Vec<(String, Result<i32, RunError>)> {
    let mut tasks = JoinSet::new();
    for (index, node) in nodes.into_iter().enumerate() {
        let argv = errand.argv(&launcher, &node);
        let told = told.clone();
        tasks.spawn(async move {
            let Some((program, args)) = argv.split_first() else { return (index, node.name, Ok(0)) };
            let failed = |source| RunError::Start { program: program.to_string_lossy().into_owned(), source };
            let mut command = Command::new(program);
            command.args(args).kill_on_drop(true).stdin(Stdio::null());
            let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let ended = async {
                let mut child = spawned?;
                let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
                tokio::join!(
                    hand_over(stdout, &node.name, false, &*told),
                    hand_over(stderr, &node.name, true, &*told)
                );
                child.wait().await
            };
            let ended = ended.await.map(code).map_err(failed);
            (index, node.name, ended)
        });
    }
    let mut ended = tasks.join_all().await;
    ended.sort_by_key(|(index, ..)| *index);
    ended.into_iter().map(|(_, node, ended)| (node, ended)).collect()
}

async fn hand_over(
    pipe: Option<impl AsyncRead + Unpin>,
    node: &str,
    is_error: bool,
    told: &(dyn Fn(Line) + Send + Sync),
) {
    let Some(pipe) = pipe else { return };
    let mut pipe = BufReader::new(pipe);
    let mut bytes = Vec::new();
    // A pipe that cannot be read has ended, and so has its writer.
    while let Ok(1..) = pipe.read_until(b'\n', &mut bytes).await {
        let text = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
        told(Line { node: node.to_owned(), is_error, text });
        bytes.clear();
    }
}

/// Files that are copied to a node or from it.
#[derive(Clone, Debug)]
pub enum Files {
    /// To the node.
    Up(Vec<Mount>),
    /// From the node.
    Down {
        /// What, there.
        from: String,
        /// Where to, here.
        to: PathBuf,
    },
}

impl Files {
    async fn copy(&self, launcher: &Launcher, node: &NodeConfig) -> Result<(), NodeError> {
        let left = Left { exclude: &launcher.cluster.exclude, filter: &launcher.cluster.filter };
        let visit = Visit::new(launcher, node).inside();
        // Many at once: a machine that is busy with the others' connections may not take this one at first.
        visit.wait().await?;
        match self {
            Self::Up(mounts) => {
                for mount in mounts {
                    if launcher.cluster.mounts.contains(mount) {
                        visit.deliver(mount, &left).await?;
                    } else {
                        visit.send(mount, &left).await?;
                    }
                }
                Ok(())
            }
            Self::Down { from, to } => visit.fetch(from, to, &left).await,
        }
    }
}

/// Copies files to or from nodes, so many at once. Returns the outcome of each, in order.
pub async fn copy(
    launcher: Arc<Launcher>,
    files: Vec<(NodeConfig, Files)>,
    parallel: usize,
) -> Vec<(String, Result<(), NodeError>)> {
    let copies = files.into_iter().map(|(node, files)| {
        let launcher = launcher.clone();
        async move {
            let copied = files.copy(&launcher, &node).await;
            (node.name, copied)
        }
    });
    pooled(copies, parallel).await
}

/// What a look at a node has found.
#[derive(Debug)]
pub struct Seen {
    /// What was known of it.
    pub record: Record,
    /// What runs there, or why it cannot be said.
    pub running: Result<Vec<String>, NodeError>,
}

/// Inspects every known node, all at once.
///
/// # Errors
/// The cluster's folder cannot be read.
pub async fn look(launcher: Arc<Launcher>) -> Result<Vec<Seen>, KnownError> {
    let mut tasks = JoinSet::new();
    for record in launcher.records()?.into_values() {
        let launcher = launcher.clone();
        tasks.spawn(async move {
            let visit = Visit::new(&launcher, &record.node);
            let found = visit.reach(&record.stamp, None, Duration::ZERO).await;
            let running = found.map(|found| match found.container.as_str() {
                "current" | "outdated" => [vec!["container".to_owned()], found.running].concat(),
                _ => found.running,
            });
            Seen { record, running }
        });
    }
    let mut seen = tasks.join_all().await;
    let place =
        |seen: &Seen| launcher.cluster.nodes.iter().position(|node| node.name == seen.record.node.name);
    seen.sort_by_key(|seen| place(seen).unwrap_or(usize::MAX));
    Ok(seen)
}

/// What the daemon of a node has said.
///
/// # Errors
/// [`NodeError`]
pub async fn daemon_log(launcher: &Launcher, node: &NodeConfig, daemon: &str) -> Result<String, NodeError> {
    let script = format!("cat \"$D/{daemon}.log\"");
    Visit::new(launcher, node).inside().ask("reading its log", &script, &[], None).await
}

/// The line that runs a script that was copied to a node's home, with its arguments.
#[must_use]
pub fn script_line(name: &str, arguments: &[String]) -> String {
    let words = arguments.iter().map(|word| format!(" {}", quote(word)));
    format!("python ~/{}{}", quote(name), words.collect::<String>())
}

/// The place of a file of this machine on a node: below the home, unless the path is absolute.
#[must_use]
pub fn mount(local: PathBuf, remote: &str) -> Mount {
    let remote = if remote.starts_with(['/', '~']) { remote.to_owned() } else { format!("~/{remote}") };
    Mount { remote, local }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_lines_and_windows() {
        let words = |text: &[&str]| text.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(command_line(&words(&["echo a b; exit 5"])), "echo a b; exit 5");
        assert_eq!(command_line(&words(&["python", "x.py", "a b", "$HOME"])), "python x.py 'a b' '$HOME'");
        assert_eq!(
            script_line("job.py", &words(&["--epochs", "3", "x y"])),
            "python ~/job.py --epochs 3 'x y'"
        );
        assert_eq!(detached(Window::Tmux, "python x.py"), "tmux new -d bash -c 'python x.py; exec bash'");
        assert_eq!(detached(Window::Screen, "python x.py"), "screen -L -dm bash -c 'python x.py; exec bash'");
    }
}
