//! What is done on one node: scripts and copies, with its log.

use std::time::{Duration, Instant};

use crate::config::{NodeConfig, Runtime};
use crate::launcher::{Launcher, Told};
use crate::phase::Phase;
use crate::provider::{Argv, Left, ProviderError, Shell, Unreached};
use crate::runner::{Ended, Log, RunError, Use};
use crate::script::{REACH, with_common};
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
    /// Its machine cannot be had, or cannot be given back.
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
    /// What runs there: `head`, `worker`, or `marked` for anything that was started there.
    pub(crate) running: Vec<String>,
}

/// A node, and what it takes to do something there.
pub(crate) struct Visit<'a> {
    pub(crate) launcher: &'a Launcher,
    pub(crate) node: &'a NodeConfig,
    pub(crate) log: Log,
}

impl<'a> Visit<'a> {
    pub(crate) fn new(launcher: &'a Launcher, node: &'a NodeConfig) -> Self {
        Self { launcher, node, log: Log::new(launcher.folder.log(&node.name)) }
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

    /// Runs a script of ours in a shell, with the variables that all have.
    pub(crate) async fn own(
        &self,
        shell: Shell,
        script: &str,
        env: &[(&str, &str)],
        with: Use<'_>,
    ) -> Result<Ended, NodeError> {
        let place = self.launcher.place(self.node);
        let mut variables = vec![("NAME", place.as_str())];
        variables.extend_from_slice(env);
        let argv = self.launcher.channel(self.node).run(self.node, shell, &variables, &with_common(script));
        Ok(self.log.run(&argv, with).await?)
    }

    /// Runs a line of the user's.
    pub(crate) async fn line(&self, phase: Phase, line: &str, env: &[(&str, &str)]) -> Result<(), NodeError> {
        self.log.title(&format!("{phase}: {line}"))?;
        let argv = self.launcher.channel(self.node).run(self.node, Shell::Login, env, line);
        let Ended { code, said, .. } = self.log.run(&argv, Use::default()).await?;
        if code == 0 {
            Ok(())
        } else {
            Err(NodeError::Command { phase, command: line.to_owned(), code, said })
        }
    }

    /// Copies a file, or what is in a folder; the folder around it is made.
    pub(crate) async fn copy(
        &self,
        from: &std::path::Path,
        to: &str,
        left: &Left<'_>,
    ) -> Result<(), NodeError> {
        let around = |path: &str| match path.rsplit_once('/') {
            Some(("", _)) => "/".to_owned(),
            Some((folder, _)) => folder.to_owned(),
            None => "~".to_owned(),
        };
        let target = if from.is_dir() { to.to_owned() } else { around(to) };
        self.log.title(&format!("sync: {} to {to}", from.display()))?;
        self.ask("making a folder", &format!("mkdir -p {}", quote_path(&target)), &[], None).await?;
        self.program("copying files", &self.launcher.channel(self.node).upload(self.node, from, to, left))
            .await
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
        let env = [
            ("NODE", self.node.name.as_str()),
            ("STAMP", stamp),
            ("DIRTY", yes(dirty.is_some())),
            ("MARKED", yes(has_marks)),
            ("HALF_STARTED", yes(has_marks && dirty == Some(Phase::Start))),
        ];
        let start = Instant::now();
        let mut pause = BACK_OFF.0;
        loop {
            let ended = self.own(Shell::Plain, REACH, &env, Use { input: None, is_asked: true }).await?;
            match self.launcher.channel(self.node).unreached(ended.code, &ended.said) {
                None if ended.code == 0 => return Ok(found(&ended.answer)),
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

fn found(answer: &str) -> Found {
    let mut found = Found::default();
    for line in answer.lines() {
        match line.split_once(' ') {
            Some(("stamp", stamp)) => stamp.clone_into(&mut found.stamp),
            Some(("running", name)) => found.running.push(name.to_owned()),
            // Settings of a user may print something.
            _ => {}
        }
    }
    found
}
