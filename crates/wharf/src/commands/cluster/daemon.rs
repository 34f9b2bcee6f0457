//! `wharf head`, `wharf worker`, and the keeper that a worker starts.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use wharf_head::{Head, HeadConfig};
use wharf_perf::{Model, Order};
use wharf_policy::{BuildArgs, Settings};
use wharf_sim::Preset;
use wharf_sim::preset::Mechanism;
use wharf_worker::{Notice, WorkerConfig};

use super::home::Home;
use crate::args::{HeadArgs, KeeperArgs, WorkerArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::input;
use crate::interrupt;
use crate::output::Terminal;

/// How long the events of jobs that are over can be looked up.
const HISTORY_DAYS: f64 = 90.0;

/// An async runtime for a daemon or a client.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| CliError::new(ErrorKind::Internal, "cannot start threads").caused_by(error))
}

/// Serves until a signal ends it; what runs goes on running.
pub(in crate::commands) fn head(args: &HeadArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let home = Home::new(&args.home)?;
    home.create()?;
    let config = head_config(args, &home)?;
    runtime()?.block_on(async {
        let failed = |error: wharf_head::HeadError| CliError::from_error(ErrorKind::Input, &error);
        let stopped = on_signal();
        let head = Head::start(config).await.map_err(failed)?;
        home.announce(&head.address().to_string())?;
        if let Some(damage) = head.damage() {
            terminal.warn(&damage.to_string());
        }
        terminal.note(&format!("head listens on {}", head.address()));
        stopped.notified().await;
        head.stop().await.map_err(failed)?;
        Ok(interrupt::handled().unwrap_or(Exit::Ok))
    })
}

fn head_config(args: &HeadArgs, home: &Home) -> Result<HeadConfig, CliError> {
    let internal = |error: &dyn std::error::Error| CliError::from_error(ErrorKind::Internal, error);
    let usage = |error: &dyn std::error::Error| CliError::from_error(ErrorKind::Usage, error);
    let mut settings: Settings = input::settings(&args.set)?;
    if args.policy == "fifo" && settings.get("backfill").is_none() {
        settings.set("backfill", "greedy");
    }
    let info = wharf_policy::find(&args.policy).map_err(|error| {
        let hint = error.nearest.map(|near| format!("did you mean `{near}`?"));
        hint.into_iter().fold(usage(&error), CliError::hint)
    })?;
    let preset = Preset::load("wharf").map_err(|error| internal(&error))?;
    let Mechanism::Wharf(rules) = preset.mechanism else {
        return Err(CliError::new(ErrorKind::Internal, "the default preset is not Wharf's own"));
    };
    if !args.lost_after.is_finite() || args.lost_after < 0.0 {
        return Err(CliError::usage("`--lost-after` takes seconds of at least 0"));
    }
    let build = BuildArgs { settings: &settings, placement: rules.placement, seed: 0 };
    Ok(HeadConfig {
        listen: args.listen,
        state_dir: home.path().to_owned(),
        token: home.token_or_new()?,
        lost_after: Duration::from_secs_f64(args.lost_after),
        slots: info.slots,
        history_s: HISTORY_DAYS * 86_400.0,
        policy_name: args.policy.clone(),
        cadence: rules.cadence(),
        policy: (info.build)(&build).map_err(|error| usage(&error))?,
        perf: Box::new(Model::new(rules.costs, info.sharing, Order::Best)),
    })
}

/// Runs until a signal ends it; its tasks go on, and the next worker finds them.
pub(in crate::commands) fn worker(args: &WorkerArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let home = Home::new(&args.home)?;
    let (head, token) = home.head()?;
    let node = args.node.clone().unwrap_or_else(host_name);
    let runtime = runtime()?;
    let (device_type, devices, watch) = runtime.block_on(super::devices::offered(args, terminal))?;
    let config = WorkerConfig {
        head,
        token,
        device_type,
        devices,
        cpus: wharf_worker::processors(),
        memory_gib: wharf_worker::memory_gib(),
        switch: 0,
        address: args.address.clone(),
        state_dir: home.path().join("workers").join(&node),
        keeper_program: None,
        network_interface: args.network_interface.clone(),
        watch,
        node,
    };
    runtime.block_on(async {
        let stopped = on_signal();
        let told = |notice: Notice| match notice {
            Notice::Welcomed => terminal.note("the head has let this worker in"),
            Notice::HeadAway { reason, retry_in } => {
                terminal.warn(&format!("{reason}; next try in {:.1} s", retry_in.as_secs_f64()));
            }
            Notice::CutOff => terminal.warn("cut off from the head for too long: the tasks are stopped"),
            Notice::Reduced { what } => terminal.warn(&what),
            Notice::Device { index, problem } if problem.is_empty() => {
                terminal.note(&format!("device {index} is well again"));
            }
            Notice::Device { index, problem } => terminal.warn(&format!("device {index}: {problem}")),
            Notice::SharedInTurns { reason } => {
                terminal.warn(&format!("tasks share devices in turns, without MPS: {reason}"));
            }
            other => terminal.detail(&format!("{other:?}")),
        };
        let run = wharf_worker::run_with(config, async { stopped.notified().await }, told);
        run.await.map_err(|error| CliError::from_error(ErrorKind::Input, &error))?;
        Ok(interrupt::handled().unwrap_or(Exit::Ok))
    })
}

/// The parent of a worker's tasks, or a task's process before it is the task's.
pub(in crate::commands) fn keeper(args: &KeeperArgs) -> Result<Exit, CliError> {
    if let Some(stage) = &args.stage {
        return Ok(Exit::Passed(wharf_worker::stage_main(&args.state_dir, stage, &args.command)));
    }
    wharf_worker::keeper_main(&args.state_dir)
        .map_err(|error| CliError::from_error(ErrorKind::Internal, &error))?;
    Ok(Exit::Ok)
}

fn on_signal() -> Arc<Notify> {
    let notify = Arc::new(Notify::new());
    let handler = notify.clone();
    interrupt::handle_with(move || handler.notify_one());
    notify
}

fn host_name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = text.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
