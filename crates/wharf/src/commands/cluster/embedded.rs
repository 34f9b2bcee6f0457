//! A cluster within this process: a head and workers, found by others as any cluster is.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use wharf_head::Head;
use wharf_worker::{Notice, WorkerConfig, WorkerError, end_tasks, run_with};

use super::daemon::{start_head, stop_head, tell_dashboard, worker_config, worker_failed};
use crate::args::{Cli, Command};
use crate::error::{CliError, ErrorKind};
use crate::interrupt;
use crate::output::Terminal;

/// What an embedded cluster is made of.
pub(in crate::commands) struct EmbeddedPlan {
    /// Where it keeps its state.
    pub(in crate::commands) home: PathBuf,
    /// Its nodes.
    pub(in crate::commands) workers: Vec<WorkerPlan>,
    /// Who decides; `None` for the policy that decided here before.
    pub(in crate::commands) policy: Option<String>,
    /// The policy's settings, as key=value.
    pub(in crate::commands) set: Vec<String>,
    /// For everything drawn at random.
    pub(in crate::commands) seed: u64,
    /// How fast models run on which devices.
    pub(in crate::commands) profile: Option<PathBuf>,
    /// Where browsers are served.
    pub(in crate::commands) http: Option<SocketAddr>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands) struct WorkerPlan {
    /// Its name.
    pub(in crate::commands) node: String,
    /// Its devices, as TYPE:COUNT; `None` for what this machine has.
    pub(in crate::commands) devices: Option<String>,
    /// The switch that it hangs on.
    pub(in crate::commands) switch: u32,
    /// The pool that it belongs to; empty for none.
    pub(in crate::commands) pool: String,
    /// The network interface for gangs; `None` for that of its address.
    pub(in crate::commands) network_interface: Option<String>,
}

impl WorkerPlan {
    /// A node with declared devices.
    pub(in crate::commands) fn new(node: &str, devices: &str) -> Self {
        Self {
            node: node.to_owned(),
            devices: Some(devices.to_owned()),
            switch: 0,
            pool: String::new(),
            network_interface: None,
        }
    }
}

/// A cluster that serves.
pub(in crate::commands) struct Embedded {
    head: Head,
    workers: Vec<Worker>,
    stop: watch::Sender<bool>,
}

struct Worker {
    state_dir: PathBuf,
    task: JoinHandle<Result<(), WorkerError>>,
}

impl Worker {
    /// A worker that runs until it is requested to stop; the second part reports when the head has accepted it.
    fn start(config: WorkerConfig, mut stopped: watch::Receiver<bool>) -> (Self, oneshot::Receiver<()>) {
        let state_dir = config.state_dir.clone();
        let shutdown = async move {
            // A cluster that is dropped stops as well.
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        let (welcome, welcomed) = oneshot::channel();
        let mut welcome = Some(welcome);
        let told = move |notice: Notice| {
            if notice == Notice::Welcomed
                && let Some(welcome) = welcome.take()
            {
                // There is no receiver any more if another worker has failed.
                let _ = welcome.send(());
            }
        };
        (Self { state_dir, task: tokio::spawn(run_with(config, shutdown, told)) }, welcomed)
    }
}

impl Embedded {
    /// Starts everything and returns when every worker has been let in.
    pub(in crate::commands) async fn start(
        plan: &EmbeddedPlan,
        terminal: &Terminal,
    ) -> Result<Self, CliError> {
        let mut words = words(&plan.home, "head");
        words.extend(["--listen", "127.0.0.1:0", "--allow-root"].map(OsString::from));
        words.extend(plan.policy.iter().flat_map(|policy| ["--policy".into(), OsString::from(policy)]));
        words.extend(["--seed".to_owned(), plan.seed.to_string()].map(OsString::from));
        words.extend(plan.set.iter().flat_map(|set| ["--set".into(), OsString::from(set)]));
        words.extend(plan.profile.iter().flat_map(|path| ["--profile".into(), OsString::from(path)]));
        words.extend(
            plan.http.iter().flat_map(|at| ["--http".to_owned(), at.to_string()]).map(OsString::from),
        );
        let Command::Head(args) = typed(words)? else { return Err(misread()) };
        let (head, _) = start_head(&args, terminal).await?;
        tell_dashboard(&args, &head, terminal);
        let mut embedded = Self { head, workers: vec![], stop: watch::Sender::new(false) };
        match embedded.start_workers(plan, terminal).await {
            Ok(()) => Ok(embedded),
            Err(error) => {
                // The first failure is the one to tell.
                let _ = embedded.stop(Hurry::AtOnce).await;
                Err(error)
            }
        }
    }

    /// Starts one worker after the other, so that nodes are listed in the order they were asked for.
    async fn start_workers(&mut self, plan: &EmbeddedPlan, terminal: &Terminal) -> Result<(), CliError> {
        for worker in &plan.workers {
            let mut words = words(&plan.home, "worker");
            words.extend(["--node", &worker.node].map(OsString::from));
            words.extend(["--switch".to_owned(), worker.switch.to_string()].map(OsString::from));
            words.extend(["--pool", &worker.pool].map(OsString::from));
            words.extend(
                worker
                    .network_interface
                    .iter()
                    .flat_map(|name| ["--network-interface".into(), OsString::from(name)]),
            );
            // Without them it finds out for itself.
            words.extend(
                worker.devices.iter().flat_map(|devices| ["--devices".into(), OsString::from(devices)]),
            );
            // Its jobs are those of the user who has started it, with that user's environment.
            words.extend(["--pass-env", "*"].map(OsString::from));
            // Whatever head the environment names is another one.
            let address = self.head.address().to_string();
            words.extend(["--head", &address, "--join-token-file"].map(OsString::from));
            words.push(plan.home.join("worker-token").into());
            let Command::Worker(args) = typed(words)? else { return Err(misread()) };
            let (worker, welcomed) =
                Worker::start(worker_config(&args, &terminal.quieter()).await?, self.stop.subscribe());
            self.workers.push(worker);
            let Some(worker) = self.workers.last_mut() else { return Err(misread()) };
            if welcomed.await.is_err() {
                // It has ended, and its end states why.
                let ended = std::mem::replace(&mut worker.task, tokio::spawn(async { Ok(()) })).await;
                let failed = ended.map_err(|error| CliError::from_error(ErrorKind::Internal, &error))?;
                failed.map_err(|error| worker_failed(&error))?;
            }
        }
        Ok(())
    }

    /// Stops everything. Tasks that still run have their grace until there is a hurry; a later cluster in the same home
    /// runs them again.
    pub(in crate::commands) async fn stop(self, hurry: Hurry) -> Result<(), CliError> {
        let stopped = stop_head(self.head).await;
        self.stop.send_replace(true);
        let mut endings = JoinSet::new();
        for worker in self.workers {
            let hurry = hurry.clone();
            endings.spawn(async move {
                // Whatever it ended with, its tasks are to end.
                let _ = worker.task.await;
                end_tasks(&worker.state_dir, hurry.come()).await
            });
        }
        let ended = endings.join_all().await;
        stopped?;
        for ended in ended {
            ended.map_err(|error| CliError::from_error(ErrorKind::Input, &error))?;
        }
        Ok(())
    }
}

/// When tasks that stop lose their grace.
#[derive(Clone)]
pub(in crate::commands) enum Hurry {
    /// They have none.
    AtOnce,
    /// With so many interruptions.
    After(Interruptions, u32),
}

impl Hurry {
    async fn come(self) {
        match self {
            Self::AtOnce => {}
            Self::After(interruptions, count) => interruptions.reach(count).await,
        }
    }
}

/// The beginning of a command line of a part.
fn words(home: &Path, command: &str) -> Vec<OsString> {
    vec!["wharf".into(), command.into(), "--home".into(), home.into()]
}

/// The arguments that a command line means: parts within this process have the same defaults as those of their own.
fn typed(words: Vec<OsString>) -> Result<Command, CliError> {
    let cli = Cli::try_parse_from(words).map_err(|error| CliError::usage(error.kind().to_string()))?;
    Ok(cli.command)
}

fn misread() -> CliError {
    CliError::new(ErrorKind::Internal, "internal parse error of the cluster")
}

/// Counts interrupt signals from now on.
#[derive(Clone)]
pub(in crate::commands) struct Interruptions(watch::Receiver<u32>);

impl Interruptions {
    /// From now on a signal does not end the process.
    pub(in crate::commands) fn watch() -> Self {
        let (sender, receiver) = watch::channel(0);
        interrupt::handle_with(move || sender.send_modify(|count| *count += 1));
        Self(receiver)
    }

    /// Returns when there have been so many.
    pub(in crate::commands) async fn reach(mut self, count: u32) {
        if self.0.wait_for(|seen| *seen >= count).await.is_err() {
            // There is no receiver any more.
            std::future::pending::<()>().await;
        }
    }
}
