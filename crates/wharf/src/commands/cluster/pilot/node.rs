//! `wharf pilot node`: a worker on one of a pilot's nodes, until the pilot has ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use wharf_client::unix_s;
use wharf_pilot::node::{
    Mark, NodeSpec, WorkerPlace, identity, is_of_the_pilot, make_home, mark, worker_words,
};

use super::super::daemon::host_name;
use crate::args::PilotNodeArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::interrupt;
use crate::output::Terminal;

/// Runs the worker and cleans up after it.
pub(super) fn run(args: &PilotNodeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let spec = NodeSpec::read(&args.spec)?;
    let env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let (job, index) = identity(&env)?;
    if spec.nodes.len() == 1 {
        return serve(&spec, &env, (&job, index), terminal);
    }
    // The first node waits for these marks, also of a worker that could not be started.
    mark(&args.spec, Mark::Up, index, "")?;
    let result = serve(&spec, &env, (&job, index), terminal);
    let code = result.as_ref().map_or(1, |exit| exit.code());
    mark(&args.spec, Mark::Gone, index, &code.to_string())?;
    result
}

fn serve(
    spec: &NodeSpec,
    env: &BTreeMap<String, String>,
    (job, index): (&str, usize),
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let home = make_home(&spec.scratch, job, index)?;
    let host = host_name();
    let place = WorkerPlace { env, now_s: unix_s(), host: &host, home: &home };
    let result = worker_words(spec, &place).map_err(CliError::from).and_then(|words| worker(&words, env));
    if let Err(error) = std::fs::remove_dir_all(&home) {
        terminal.warn(&format!("`{}` stays: {error}", home.display()));
    }
    let status = result?;
    match status.code() {
        // It leaves when it is requested to end, which is how pilots are meant to end.
        Some(0) => Ok(Exit::Ok),
        Some(code) if i32::from(Exit::Signal(15).code()) == code => Ok(Exit::Ok),
        Some(code) => Ok(Exit::Passed(u8::try_from(code).unwrap_or(1))),
        None => Err(CliError::input(format!("the worker was killed: {status}"))),
    }
}

/// Runs the worker without what is about the pilot's own Slurm job.
fn worker(words: &[String], env: &BTreeMap<String, String>) -> Result<ExitStatus, CliError> {
    let failed = |error| CliError::input("cannot run the worker").caused_by(error);
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(&program);
    command.args(words).current_dir(Path::new("/"));
    for name in env.keys().filter(|name| is_of_the_pilot(name)) {
        command.env_remove(name);
    }
    // The signal may come at any time, also before there is a worker.
    let pid = Arc::new(AtomicI32::new(0));
    let told = pid.clone();
    interrupt::handle_with(move || pass_on(told.load(Ordering::SeqCst)));
    let mut child = command.spawn().map_err(failed)?;
    pid.store(child.id().cast_signed(), Ordering::SeqCst);
    if interrupt::handled().is_some() {
        pass_on(pid.load(Ordering::SeqCst));
    }
    child.wait().map_err(failed)
}

fn pass_on(pid: i32) {
    if pid > 0 {
        // Slurm may have told it as well, and it may be over.
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
}
