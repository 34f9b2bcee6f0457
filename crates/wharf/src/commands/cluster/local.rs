//! `wharf local`: a head and workers on this machine, and nothing to configure.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, setsid};
use wharf_client::Client;

use super::daemon::runtime;
use super::embedded::{Embedded, EmbeddedPlan, Hurry, Interruptions, WorkerPlan};
use super::home::Home;
use crate::args::{LocalArgs, OutputFormat};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::input;
use crate::interrupt;
use crate::output::Terminal;

/// What the background states when it serves.
const READY: &str = "ready";

/// Starts a cluster and serves until a signal ends it, or ends the one that serves.
pub(in crate::commands) fn local(args: &LocalArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let home = Home::new(&args.home)?;
    if args.stop {
        return stop(&home, terminal);
    }
    let plan = EmbeddedPlan {
        home: home.path().to_owned(),
        workers: workers(&args.worker)?,
        policy: args.policy.clone(),
        set: args.set.clone(),
        seed: 0,
        profile: args.profile.clone(),
        http: args.http,
    };
    home.create()?;
    let held = Lock::take(&home)?;
    if args.detach {
        refuse_if_served(&home)?;
        drop(held);
        return detach(&home, terminal);
    }
    if args.detached {
        // Refused only to the leader of a group, which a child of ours is not.
        let _ = setsid();
    }
    serve(&plan, &home, args.detached, terminal)
}

fn serve(plan: &EmbeddedPlan, home: &Home, is_detached: bool, terminal: &Terminal) -> Result<Exit, CliError> {
    refuse_if_served(home)?;
    runtime()?.block_on(async {
        let interruptions = Interruptions::watch();
        let cluster = Embedded::start(plan, terminal).await?;
        if is_detached {
            // Who started this may have given up waiting.
            let _ = writeln!(std::io::stdout(), "{READY}");
        } else {
            introduce(home, terminal).await?;
            terminal.note("Ctrl-C stops it; running jobs continue at the next start");
        }
        interruptions.clone().reach(1).await;
        terminal.note("stopping with the jobs' grace periods; press Ctrl-C again to kill them");
        cluster.stop(Hurry::After(interruptions, 2)).await?;
        Ok(interrupt::handled().filter(|_| !is_detached).unwrap_or(Exit::Ok))
    })
}

/// States what there is and how it is used.
async fn introduce(home: &Home, terminal: &Terminal) -> Result<(), CliError> {
    let client = Client::connect(home.path()).await?;
    let nodes = client.list_nodes().await?;
    let up: Vec<String> = nodes
        .iter()
        .filter(|node| node.health() == wharf_proto::node_summary::Health::Up)
        .map(|node| format!("{} {}:{}", node.name, node.device_type, node.devices))
        .collect();
    if terminal.format == OutputFormat::Json {
        let path = home.path().to_string_lossy();
        return terminal.json(&serde_json::json!({ "schema": 1, "home": path, "nodes": up }));
    }
    terminal.note(&format!("a cluster serves in `{}`: {}", home.path().display(), up.join(", ")));
    terminal.note(&format!("submit:  {}", command(home, "submit -- python train.py")));
    terminal.note(&format!("watch:   {}", command(home, "top")));
    Ok(())
}

/// A command line that reaches this home, as short as it can be.
fn command(home: &Home, rest: &str) -> String {
    let is_default =
        Home::new(&crate::args::HomeArgs { home: None }).is_ok_and(|own| own.path() == home.path());
    match is_default {
        true => format!("wharf {rest}"),
        false => {
            let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            format!("wharf {name} --home {} {rest}", home.path().display()).trim_end().to_owned()
        }
    }
}

/// The nodes of a cluster: those that were declared, or this machine as it is.
fn workers(declared: &[String]) -> Result<Vec<WorkerPlan>, CliError> {
    if declared.is_empty() {
        return Ok(vec![WorkerPlan { devices: None, ..WorkerPlan::new("n0", "") }]);
    }
    let mut workers: Vec<WorkerPlan> = Vec::new();
    for (index, text) in declared.iter().enumerate() {
        let (node, devices) = match text.split_once('=') {
            Some((node, devices)) => (node.to_owned(), devices),
            None => (format!("n{index}"), text.as_str()),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if node.is_empty() || node.starts_with('.') || !node.chars().all(is_name) {
            return Err(CliError::usage(format!("`{node}` is not a valid node name"))
                .hint("expected letters, digits, `-`, `_` and `.`, not beginning with `.`"));
        }
        if workers.iter().any(|other| other.node == node) {
            return Err(CliError::usage(format!("duplicate node name `{node}`")));
        }
        input::devices(devices)?;
        workers.push(WorkerPlan::new(&node, devices));
    }
    Ok(workers)
}

fn refuse_if_served(home: &Home) -> Result<(), CliError> {
    let served = runtime()?.block_on(async { Client::connect(home.path()).await.is_ok() });
    match served {
        false => Ok(()),
        true => Err(CliError::usage(format!("a head is already running in `{}`", home.path().display()))
            .hint(format!("use it: {}", command(home, "submit -- python train.py")))
            .hint("or set another state directory with `--home DIR`")),
    }
}

/// Starts this very command in the background and returns when it serves.
fn detach(home: &Home, terminal: &Terminal) -> Result<Exit, CliError> {
    let internal = |what: &'static str| {
        move |error: std::io::Error| CliError::new(ErrorKind::Internal, what).caused_by(error)
    };
    let log = home.path().join("local.log");
    let messages = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&log)
        .map_err(|error| CliError::write(&log, error))?;
    let said_before = messages.metadata().map_or(0, |file| file.len());
    let program = std::env::current_exe().map_err(internal("cannot find the path of this program"))?;
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| if word == "--detach" { "--detached".into() } else { word });
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(messages)
        .spawn()
        .map_err(internal("cannot start the background"))?;
    if !is_ready(&mut child) {
        // It has ended or is about to: nothing else closes its standard output.
        let _ = child.wait();
        return Err(CliError::input("the cluster did not start").hint(last_words(&log)));
    }
    for warning in warnings_since(&log, said_before) {
        terminal.warn(&warning);
    }
    runtime()?.block_on(introduce(home, terminal))?;
    terminal.note(&format!("stop:    {}", command(home, "local --stop")));
    Ok(Exit::Ok)
}

fn is_ready(child: &mut Child) -> bool {
    let mut line = String::new();
    let stdout = child.stdout.take().map(BufReader::new);
    stdout.is_some_and(|mut stdout| stdout.read_line(&mut line).is_ok()) && line.trim_end() == READY
}

/// What the background warned of while it started.
fn warnings_since(log: &Path, from: u64) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let new = text.get(from as usize..).unwrap_or_default();
    new.lines().filter_map(|line| line.strip_prefix("warning: ")).map(str::to_owned).collect()
}

/// Where the background said why, and what it said last.
fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let from = text.rfind("error: ").map_or("it left no word", |at| text[at..].trim_end());
    format!("`{}` contains: {}", log.display(), from.replace('\n', "; "))
}

/// Ends the cluster of this home, and what a killed one has left behind.
fn stop(home: &Home, terminal: &Terminal) -> Result<Exit, CliError> {
    let Some(lock) = Lock::find(home)? else {
        let none = format!("`wharf local` has not started a cluster in `{}`", home.path().display());
        return Err(CliError::usage(none));
    };
    if let Err(pid) = lock.is_free() {
        let pid = Pid::from_raw(pid);
        match kill(pid, Signal::SIGTERM) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => {
                return Err(
                    CliError::new(ErrorKind::Input, format!("cannot stop process {pid}")).caused_by(errno)
                );
            }
        }
        lock.wait()?;
    }
    refuse_if_served(home)?;
    runtime()?.block_on(async {
        for state_dir in left_behind(home) {
            let ended = wharf_worker::end_tasks(&state_dir, std::future::pending()).await;
            ended.map_err(|error| CliError::from_error(ErrorKind::Input, &error))?;
        }
        Ok::<(), CliError>(())
    })?;
    terminal.note("the cluster is stopped");
    Ok(Exit::Ok)
}

/// State directories of workers that were here.
fn left_behind(home: &Home) -> Vec<PathBuf> {
    // Where the folder cannot be listed there never was a worker.
    let entries = std::fs::read_dir(home.path().join("workers")).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("worker.lock").exists())
        .collect()
}

/// Says who serves in a home, for as long as they do.
struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    fn open(home: &Home, is_new: bool) -> Result<Option<Self>, CliError> {
        let path = home.path().join("local.lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(is_new).truncate(false).mode(0o600);
        match options.open(&path) {
            Ok(file) => Ok(Some(Self { file, path })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CliError::write(&path, error)),
        }
    }

    /// Makes this process the one that serves.
    fn take(home: &Home) -> Result<Self, CliError> {
        let Some(mut lock) = Self::open(home, true)? else {
            return Err(CliError::input(format!("`{}` no longer exists", home.path().display())));
        };
        if let Err(pid) = lock.is_free() {
            let what = format!("a cluster already runs in `{}` (process {pid})", home.path().display());
            return Err(CliError::usage(what)
                .hint(format!("use it: {}", command(home, "submit -- python train.py")))
                .hint(format!("or stop it: {}", command(home, "local --stop"))));
        }
        let written = lock.file.set_len(0).and_then(|()| lock.file.rewind());
        let written = written.and_then(|()| write!(lock.file, "{}", std::process::id()));
        written.map_err(|error| CliError::write(&lock.path, error))?;
        Ok(lock)
    }

    /// The lock of a cluster that was started here before.
    fn find(home: &Home) -> Result<Option<Self>, CliError> {
        Self::open(home, false)
    }

    /// Locks it, or returns the process that holds it.
    fn is_free(&self) -> Result<(), i32> {
        match self.file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {
                let mut holder = String::new();
                let read = (&self.file).read_to_string(&mut holder);
                Err(read.ok().and_then(|_| holder.trim().parse().ok()).unwrap_or_default())
            }
        }
    }

    /// Returns when it is free.
    fn wait(&self) -> Result<(), CliError> {
        self.file.lock().map_err(|error| CliError::read(&self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_workers_have_names() {
        let plan = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let named =
                |worker: WorkerPlan| format!("{}={}", worker.node, worker.devices.unwrap_or_default());
            workers(&words).map(|all| all.into_iter().map(named).collect::<Vec<_>>().join(" "))
        };
        let cases: [(&[&str], Result<&str, &str>); 5] = [
            (&["v100:4", "a40:2"], Ok("n0=v100:4 n1=a40:2")),
            (&["big=v100:4", "a40:2"], Ok("big=v100:4 n1=a40:2")),
            (&["a=v100:4", "a=a40:2"], Err("duplicate node name `a`")),
            (&["../a=v100:4"], Err("`../a` is not a valid node name")),
            (&["=v100:4"], Err("`` is not a valid node name")),
        ];
        for (words, expected) in cases {
            let made = plan(words).map_err(|error| error.to_string());
            assert_eq!(made.as_deref().map_err(String::as_str), expected, "{words:?}");
        }
    }
}
