//! What is done on one node: scripts and copies, with its log.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::config::{Mount, NodeConfig, Runtime};
use crate::container;
use crate::launcher::{Launcher, Told};
use crate::phase::Phase;
use crate::provider::{Argv, Left, ProviderError, Shell, Unreached};
use crate::runner::{Ended, Log, RunError, Use};
use crate::script::{LOOK, REACH, in_container, on_machine};
use crate::shell::quote_path;
use crate::state::StateError;

/// First and longest pause between attempts to reach a node.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));
/// How many lines of what a failed command said are shown.
const LINES_SHOWN: usize = 6;

/// Why a node is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// It does not answer, or does not let us in.
    #[error("it cannot be reached: {0}")]
    Unreached(String),
    /// A command failed.
    #[error("{phase}: `{}` exited with {code}{}", command.lines().next().unwrap_or_default(), shown(said))]
    Command {
        /// In which phase.
        phase: Phase,
        /// Which.
        command: String,
        /// With what.
        code: i32,
        /// The end of what it said.
        said: String,
    },
    /// Something of ours failed there.
    #[error("{what} failed{}", shown(said))]
    Own {
        /// What.
        what: &'static str,
        /// What it said.
        said: String,
    },
    /// A program of this machine cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Its record cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// Its machine cannot be created or terminated.
    #[error("its machine: {0}")]
    Machine(#[from] ProviderError),
}

impl NodeError {
    /// All of it: the error and what caused it.
    #[must_use]
    pub fn told(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        text
    }
}

/// The last lines of what was said.
fn shown(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(LINES_SHOWN);
    lines[from..].iter().map(|line| format!("\n    {line}")).collect()
}

/// What was found on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The word that marks it.
    pub(crate) stamp: String,
    /// What its container is: `current`, `outdated` where its image has changed, `stopped`; empty where there is none.
    pub(crate) container: String,
    /// What runs there: `head`, `worker`, or `marked` for anything that was started there.
    pub(crate) running: Vec<String>,
}

/// A node, and what it takes to do something there.
#[derive(Clone)]
pub(crate) struct Visit<'a> {
    pub(crate) launcher: &'a Launcher,
    pub(crate) node: &'a NodeConfig,
    pub(crate) log: Log,
    /// Whether things are done in its container.
    is_inside: bool,
}

impl<'a> Visit<'a> {
    pub(crate) fn new(launcher: &'a Launcher, node: &'a NodeConfig) -> Self {
        Self { launcher, node, log: Log::new(launcher.folder.log(&node.name)), is_inside: false }
    }

    /// Where the node's work is done: in its container, if it has one.
    pub(crate) fn inside(&self) -> Self {
        Self { is_inside: self.node.container.is_some(), ..self.clone() }
    }

    /// The machine itself, whatever it has containers for.
    fn machine(&self) -> Self {
        Self { is_inside: false, ..self.clone() }
    }

    /// Another node, with what is said there in the same log.
    pub(crate) fn at(&self, node: &'a NodeConfig) -> Self {
        Self { node, ..self.clone() }
    }

    pub(crate) fn tell(&self, told: Told) {
        (self.launcher.tell)(&self.node.name, told);
    }

    /// Runs a script of ours and returns its answer.
    pub(crate) async fn ask(
        &self,
        what: &'static str,
        script: &str,
        env: &[(&str, &str)],
        input: Option<&str>,
    ) -> Result<String, NodeError> {
        let ended = self.own(Shell::Plain, script, env, Use { input, is_asked: true }).await?;
        if ended.code == 0 { Ok(ended.answer) } else { Err(NodeError::Own { what, said: ended.said }) }
    }

    /// Runs a script of ours in a shell, with its variables.
    pub(crate) async fn own(
        &self,
        shell: Shell,
        script: &str,
        variables: &[(&str, &str)],
        with: Use<'_>,
    ) -> Result<Ended, NodeError> {
        let cluster = &self.launcher.place(self.node);
        let argv = if self.is_inside {
            let script = in_container(cluster, variables, script);
            let script = container::enter(cluster, shell, &[], &script, "-i");
            self.launcher.channel(self.node).run(self.node, Shell::Plain, &[], &script)
        } else {
            self.launcher.channel(self.node).run(
                self.node,
                shell,
                &[],
                &on_machine(cluster, variables, script),
            )
        };
        Ok(self.log.run(&argv, with).await?)
    }

    /// Runs a script of ours on the machine that changes something; what it leaves running is ended by the next launcher.
    pub(crate) async fn step(
        &self,
        what: &'static str,
        stamp: &str,
        script: &str,
        variables: &[(&str, &str)],
    ) -> Result<(), NodeError> {
        let script = on_machine(&self.launcher.place(self.node), variables, script);
        let env = [("WHARF_LAUNCH_STEP", stamp)];
        self.program(what, &self.launcher.channel(self.node).run(self.node, Shell::Plain, &env, &script))
            .await
    }

    /// Runs a line of the user's.
    pub(crate) async fn line(&self, phase: Phase, line: &str, env: &[(&str, &str)]) -> Result<(), NodeError> {
        self.log.title(&format!("{phase}: {line}"))?;
        let argv = if self.is_inside && !container::is_for_machine(line) {
            let script =
                container::enter(&self.launcher.place(self.node), Shell::Login, env, &bare(line), "-i");
            self.launcher.channel(self.node).run(self.node, Shell::Plain, &[], &script)
        } else {
            self.launcher.channel(self.node).run(self.node, Shell::Login, env, line)
        };
        let Ended { code, said, .. } = self.log.run(&argv, Use::default()).await?;
        if code == 0 {
            Ok(())
        } else {
            Err(NodeError::Command { phase, command: line.to_owned(), code, said })
        }
    }

    /// Copies something to where it belongs; for a container, to what is mounted there.
    pub(crate) async fn deliver(&self, mount: &Mount, left: &Left<'_>) -> Result<(), NodeError> {
        if self.node.container.is_none() {
            return self.copy(&mount.local, &mount.remote, left).await;
        }
        let machine = self.machine();
        machine
            .copy(&mount.local, &container::copied_to(&self.launcher.place(self.node), mount), left)
            .await?;
        if mount.local.is_dir() {
            return Ok(());
        }
        machine.ask("putting a file in its place", &container::put(mount), &[], None).await.map(|_| ())
    }

    /// Copies a file, or what is in a folder; the folder around it is made.
    pub(crate) async fn copy(&self, from: &Path, to: &str, left: &Left<'_>) -> Result<(), NodeError> {
        let target = if from.is_dir() { to } else { around(to) };
        self.log.title(&format!("sync: {} to {to}", from.display()))?;
        self.ask("making a folder", &format!("mkdir -p {}", quote_path(target)), &[], None).await?;
        self.program("copying files", &self.launcher.channel(self.node).upload(self.node, from, to, left))
            .await
    }

    /// Copies a file, or what is in a folder, to a place on the node or in its container.
    pub(crate) async fn send(&self, mount: &Mount, left: &Left<'_>) -> Result<(), NodeError> {
        if !self.is_inside {
            return self.copy(&mount.local, &mount.remote, left).await;
        }
        let machine = self.machine();
        let (passing, target) = container::passing(&self.launcher.place(self.node), mount);
        machine.ask("making a folder", CLEAR, &[], None).await?;
        machine.copy(&mount.local, &passing, left).await?;
        machine.ask("copying into its container", &container::copy_in(&target), &[], None).await.map(|_| ())
    }

    /// Copies a file or a folder from the node, or from its container.
    pub(crate) async fn fetch(&self, from: &str, to: &Path, left: &Left<'_>) -> Result<(), NodeError> {
        self.log.title(&format!("sync: {from} from there to {}", to.display()))?;
        if !self.is_inside {
            return self
                .program(
                    "copying files",
                    &self.launcher.channel(self.node).download(self.node, from, to, left),
                )
                .await;
        }
        let machine = self.machine();
        machine.ask("copying out of its container", &container::copy_out(from), &[], None).await?;
        let passing = container::passed(&self.launcher.place(self.node), from);
        let copied = self.launcher.channel(self.node).download(self.node, &passing, to, left);
        let copied = machine.program("copying files", &copied).await;
        copied.and(machine.ask("removing copies", CLEAR, &[], None).await.map(|_| ()))
    }

    /// Ends what is kept open to the node.
    pub(crate) async fn hang_up(&self) {
        if let Some(argv) = self.launcher.channel(self.node).hang_up(self.node) {
            // Fails where no connection is kept.
            let _ = self.log.run(&argv, Use::default()).await;
        }
    }

    /// Runs a program of this machine.
    pub(crate) async fn program(&self, what: &'static str, argv: &Argv) -> Result<(), NodeError> {
        let Ended { code, said, .. } = self.log.run(argv, Use::default()).await?;
        if code == 0 { Ok(()) } else { Err(NodeError::Own { what, said }) }
    }

    /// Waits until the node answers, and asks what is there; what cannot get better by waiting is told at once.
    pub(crate) async fn reach(
        &self,
        stamp: &str,
        dirty: Option<Phase>,
        patience: Duration,
    ) -> Result<Found, NodeError> {
        self.log.title("reach")?;
        let yes = |is: bool| if is { "yes" } else { "no" };
        let has_marks = matches!(self.launcher.cluster.runtime, Runtime::Commands { .. });
        let looked = [
            ("DIRTY", yes(dirty.is_some())),
            ("MARKED", yes(has_marks)),
            ("HALF_STARTED", yes(has_marks && dirty == Some(Phase::Start))),
        ];
        let look = match &self.node.container {
            Some(container) => container::see(&self.launcher.place(self.node), container, &looked),
            None => LOOK.to_owned(),
        };
        let script = format!("{REACH}{look}");
        let variables = [&[("NODE", self.node.name.as_str()), ("STAMP", stamp)], &looked[..]].concat();
        self.insist(&script, &variables, patience).await.map(|answer| found(&answer))
    }

    /// Waits until the machine answers; nothing is changed there. What is begun afterwards uses the connection that is kept then.
    pub(crate) async fn wait(&self) -> Result<(), NodeError> {
        self.machine().insist(":", &[], self.launcher.cluster.start_timeout).await.map(drop)
    }

    /// Runs a script, again and again as long as the node is not reached.
    async fn insist(
        &self,
        script: &str,
        variables: &[(&str, &str)],
        patience: Duration,
    ) -> Result<String, NodeError> {
        let start = Instant::now();
        let mut pause = BACK_OFF.0;
        loop {
            let ended =
                self.own(Shell::Plain, script, variables, Use { input: None, is_asked: true }).await?;
            match self.launcher.channel(self.node).unreached(ended.code, &ended.said) {
                None if ended.code == 0 => return Ok(ended.answer),
                None => return Err(NodeError::Own { what: "looking at it", said: ended.said }),
                Some(Unreached::Final(why)) => return Err(NodeError::Unreached(why)),
                Some(Unreached::Passing(why)) if start.elapsed() + pause > patience => {
                    return Err(NodeError::Unreached(why));
                }
                Some(Unreached::Passing(why)) => self.tell(Told::Waits(why)),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(BACK_OFF.1);
        }
    }
}

/// Removes what is copied into a container or out of it.
const CLEAR: &str = "rm -rf \"$D/passing\" \"$D/passing.tar\"";

/// The folder around a path of a node.
pub(crate) fn around(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((folder, _)) => folder,
        None => "~",
    }
}

/// A line that has no arguments: a script of ours would.
pub(crate) fn bare(line: &str) -> String {
    format!("set --\n{line}")
}

fn found(answer: &str) -> Found {
    let mut found = Found::default();
    for line in answer.lines() {
        match line.split_once(' ') {
            Some(("stamp", stamp)) => stamp.clone_into(&mut found.stamp),
            Some(("container", state)) => state.clone_into(&mut found.container),
            Some(("running", name)) => found.running.push(name.to_owned()),
            // Settings of a user may print something.
            _ => {}
        }
    }
    found
}
