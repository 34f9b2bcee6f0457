//! `wharf head`, `wharf worker`, and the supervisor that a worker starts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::Notify;
use wharf_foresight::regime;
use wharf_head::http::HttpConfig;
use wharf_head::{CheckpointSettings, Head, HeadConfig};
use wharf_job::Size;
use wharf_tls::Fingerprint;
use wharf_worker::{ContainerSettings, Lifetime, Notice, Rehearsal, TaskSettings, WorkerConfig, WorkerError};

use super::foresee::described;
use super::home::{Home, address, read};
use super::init;
use crate::args::{
    ContainerArgs, HeadArgs, HeadCommand, LogFormat, RehearsalArg, SupervisorArgs, TaskArgs, Ttl, WorkerArgs,
};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::input;
use crate::interrupt;
use crate::output::Terminal;

/// How long the events of jobs that have ended can be looked up.
const HISTORY_DAYS: f64 = 90.0;

/// A moment that no worker outlasts, and that every clock can hold.
const MAX_STAY_S: f64 = 1e10;

/// The longest life of tokens: ten years.
const TOKEN_TTL_MAX_S: f64 = 3.15e8;

/// How long what computes an answer may continue when a head has stopped.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// An async runtime for a daemon or a client.
pub(in crate::commands) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    built(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build())
}

fn built(runtime: std::io::Result<tokio::runtime::Runtime>) -> Result<tokio::runtime::Runtime, CliError> {
    runtime.map_err(|error| CliError::new(ErrorKind::Internal, "cannot start threads").caused_by(error))
}

/// Serves until a signal ends it; what runs continues running.
pub(in crate::commands) fn head(args: &HeadArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if let Some(HeadCommand::Init(args)) = &args.command {
        return init::init(args, terminal);
    }
    let terminal = &terminal.logging(args.log_format);
    logged(terminal, args.log_format, serve_head(args, terminal))
}

/// What a daemon fails with, in its log.
fn logged(terminal: &Terminal, logs: LogFormat, done: Result<Exit, CliError>) -> Result<Exit, CliError> {
    match done {
        Err(error) if logs == LogFormat::Json => {
            terminal.error(&error);
            Ok(error.kind().exit())
        }
        done => done,
    }
}

fn serve_head(args: &HeadArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    raise_file_limit();
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let stopped = on_signal();
        let (mut head, fingerprint) = start_head(args, terminal).await?;
        terminal.note(&format!("head listens on {}", head.address()));
        if !head.address().ip().is_loopback() {
            tell_how_to_join(head.address().port(), &fingerprint, terminal);
        }
        tell_dashboard(args, &head, terminal);
        tokio::select! {
            () = stopped.notified() => {}
            () = head.failed() => {}
        }
        stop_head(head).await?;
        Ok(interrupt::handled().unwrap_or(Exit::Ok))
    });
    // Clients of running forecasts have disconnected.
    runtime.shutdown_timeout(LAST_WORDS);
    served
}

/// Lets the head have as many connections as the system permits.
fn raise_file_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Where it is refused the head serves fewer connections.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// A head that listens, and that others find in its home; and how its authority is known.
pub(super) async fn start_head(
    args: &HeadArgs,
    terminal: &Terminal,
) -> Result<(Head, Fingerprint), CliError> {
    let home = Home::new(&args.home)?;
    let config = head_config(args, &home, terminal)?;
    let fingerprint = config.access.fingerprint();
    let failed = |error: wharf_head::HeadError| CliError::from_error(ErrorKind::Input, &error);
    let head = Head::start(config).await.map_err(failed)?;
    if let Err(error) = home.announce(head.address()) {
        // Such as on a full disk: those who know the address reach it.
        terminal.warn(&error.to_string());
    }
    if let Some(damage) = head.damage() {
        terminal.warn(&damage.to_string());
    }
    Ok((head, fingerprint))
}

/// Ends a head; what runs continues running.
pub(super) async fn stop_head(head: Head) -> Result<(), CliError> {
    head.stop().await.map_err(|error| CliError::from_error(ErrorKind::Input, &error))
}

/// Where browsers find a head.
pub(super) fn tell_dashboard(args: &HeadArgs, head: &Head, terminal: &Terminal) {
    let Some(address) = head.http_address() else { return };
    let has_tls = !args.http.http_plain && !address.ip().is_loopback();
    terminal.note(&format!("dashboard at {}://{address}", if has_tls { "https" } else { "http" }));
    if args.http.http_plain && !address.ip().is_loopback() {
        terminal.warn("the dashboard is served without TLS: tokens can be read on the way to the proxy");
    }
}

/// For a head that other machines can reach.
fn tell_how_to_join(port: u16, fingerprint: &Fingerprint, terminal: &Terminal) {
    terminal.note(&format!("fingerprint for workers and clients: {fingerprint}"));
    terminal.note(
        "to add a worker: `wharf token create --role worker --to join.token` (`--nodes N` for several), copy that file, and there",
    );
    terminal.note(&format!("`wharf worker --head HOST:{port} --join-token-file join.token`"));
}

fn head_config(args: &HeadArgs, home: &Home, terminal: &Terminal) -> Result<HeadConfig, CliError> {
    let policy = regime::head_choice(args.policy.as_deref(), &input::settings(&args.set)?)?;
    let profile = args.profile.as_deref().map(input::profile).transpose()?;
    let known = profile.clone().map(Arc::new);
    regime::make(&policy)?;
    if !args.lost_after.is_finite() || args.lost_after < 0.0 {
        return Err(CliError::usage("`--lost-after` takes seconds of at least 0"));
    }
    Ok(HeadConfig {
        sendmail: args.sendmail.clone(),
        listen: args.listen,
        state_dir: home.path().to_owned(),
        access: init::open(home, &[], false)?.with_token_life(token_life(args.token_ttl)?),
        webhook_allow: args.webhook_allow.clone(),
        allow_root: args.allow_root,
        lost_after: Duration::from_secs_f64(args.lost_after),
        caps: args.caps.caps(),
        checkpoints: CheckpointSettings {
            root: args.checkpoint_root.clone(),
            keep: Duration::try_from_secs_f64(args.checkpoint_retention.0).unwrap_or(Duration::MAX),
        },
        history_s: HISTORY_DAYS * 86_400.0,
        is_policy_wanted: args.policy.is_some() || !args.set.is_empty(),
        make: regime::maker(&policy, args.seed, profile, described),
        never_resizes: wharf_reproduce::never_resizes,
        http: args.http.http.map(|listen| HttpConfig {
            listen,
            is_plain: args.http.http_plain,
            is_read_only: args.http.http_read_only,
            foresee: Some(wharf_foresight::foreseeing(known.clone(), described)),
            compare: Some(wharf_foresight::comparing(known, described)),
        }),
        policy,
        warn: terminal.warner(),
    })
}

/// The default life of tokens.
fn token_life(ttl: Ttl) -> Result<Option<Duration>, CliError> {
    let Ttl::Seconds(seconds) = ttl else { return Ok(None) };
    let life = Duration::try_from_secs_f64(seconds).ok().filter(|_| seconds <= TOKEN_TTL_MAX_S);
    life.map(Some).ok_or_else(|| CliError::usage("`--token-ttl` is at most ten years, or `never`"))
}

/// Runs until a signal ends it; its tasks continue, and the next worker finds them.
pub(in crate::commands) fn worker(args: &WorkerArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let terminal = &terminal.logging(args.log_format);
    logged(terminal, args.log_format, serve_worker(args, terminal))
}

fn serve_worker(args: &WorkerArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    // One thread is enough for what it does, and spares the handing over between several.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    built(builder.enable_all().build())?.block_on(async {
        let config = worker_config(args, terminal).await?;
        let stopped = on_signal();
        let told = |notice: Notice| match notice {
            Notice::Welcomed => terminal.note("the head accepted this worker"),
            Notice::HeadAway { reason, retry_in } => {
                terminal.warn(&format!("{reason}; next try in {:.1} s", retry_in.as_secs_f64()));
            }
            Notice::Leaving { reason } => terminal.note(&format!("leaves: {reason}")),
            Notice::CutOff => terminal.warn("cut off from the head for too long: the tasks are stopped"),
            Notice::Reduced { what } => terminal.warn(&what),
            Notice::Device { index, problem } if problem.is_empty() => {
                terminal.note(&format!("device {index} is healthy again"));
            }
            Notice::Device { index, problem } => terminal.warn(&format!("device {index}: {problem}")),
            Notice::SharedInTurns { reason } => {
                terminal.warn(&format!("tasks share devices in turns, without MPS: {reason}"));
            }
            Notice::Renewed => terminal.note("the worker's certificate is renewed"),
            Notice::NotRenewed { reason } => {
                terminal.warn(&format!("cannot renew the worker's certificate: {reason}"));
            }
            other => terminal.detail(&format!("{other:?}")),
        };
        let run = wharf_worker::run_with(config, async { stopped.notified().await }, told);
        run.await.map_err(|error| worker_failed(&error))?;
        Ok(interrupt::handled().unwrap_or(Exit::Ok))
    })
}

/// A worker cannot start, or continue.
pub(super) fn worker_failed(error: &WorkerError) -> CliError {
    let failed = CliError::from_error(ErrorKind::Input, error);
    match error {
        WorkerError::Interface(_) => failed.hint(
            "set one of them with `--network-interface`, or omit it: the default is the interface of `--address`",
        ),
        _ => failed,
    }
}

/// What a worker is, from its arguments and its head's home.
pub(super) async fn worker_config(args: &WorkerArgs, terminal: &Terminal) -> Result<WorkerConfig, CliError> {
    let home = Home::new(&args.home)?;
    let (head, token) = way_in(args, &home)?;
    let node = args.node.clone().unwrap_or_else(host_name);
    let (device_type, devices, watch) = super::devices::offered(args, terminal).await?;
    Ok(WorkerConfig {
        head,
        token,
        device_type,
        devices,
        cpus: args.cpus.unwrap_or_else(wharf_worker::processors),
        memory_gib: args.memory.map_or_else(wharf_worker::memory_gib, whole_gib),
        switch: args.switch,
        pool: args.pool.clone(),
        features: args.feature.clone(),
        address: args.address.clone(),
        state_dir: home.worker_dir(&node),
        supervisor_program: None,
        rehearsal: args.rehearse.map(|mode| match mode {
            RehearsalArg::End => Rehearsal::End,
            RehearsalArg::Hold => Rehearsal::Hold,
        }),
        network_interface: args.network_interface.clone(),
        watch,
        containers: containers(&args.containers),
        tasks: tasks(&args.tasks),
        lifetime: lifetime(args),
        node,
    })
}

fn containers(args: &ContainerArgs) -> ContainerSettings {
    ContainerSettings {
        runtime: args.container_runtime,
        command: args.container_command.as_ref().map(|words| words.0.clone()).unwrap_or_default(),
        socket: args.container_socket.clone(),
        binds: args.container_bind.clone(),
        infiniband: args.infiniband_bind.iter().map(PathBuf::from).collect(),
        image_cache_bytes: args.image_cache.0,
        ch_fromhost: args.ch_fromhost,
        idle: Duration::try_from_secs_f64(args.container_idle.0).unwrap_or(Duration::MAX),
    }
}

fn tasks(args: &TaskArgs) -> TaskSettings {
    TaskSettings {
        pass_env: args.pass_env.clone(),
        max_limits: args.max_limit.iter().map(|limit| (limit.0.clone(), limit.1)).collect(),
        device_files: args.device_file.clone(),
        output_bytes: args.output_limit.0,
        output_retention: Duration::try_from_secs_f64(args.output_retention.0).unwrap_or(Duration::MAX),
        disk_reserve_bytes: args.disk_reserve.0,
    }
}

fn whole_gib(memory: Size) -> u32 {
    u32::try_from(memory.0 >> 30).unwrap_or(u32::MAX)
}

/// When it leaves, where the arguments state this.
fn lifetime(args: &WorkerArgs) -> Option<Lifetime> {
    let idle = args.leave_when_idle.map(|idle| Duration::from_secs_f64(idle.0.min(MAX_STAY_S)));
    let until = args.leave_at.map(|at_s| UNIX_EPOCH + Duration::from_secs_f64(at_s.clamp(0.0, MAX_STAY_S)));
    (args.leave || idle.is_some() || until.is_some()).then_some(Lifetime { idle, until })
}

/// Where the head is, and the token to join with; empty where a worker has to have joined before.
fn way_in(args: &WorkerArgs, home: &Home) -> Result<(String, String), CliError> {
    let address = match &args.head {
        Some(text) => address(text)?,
        None => home.address()?,
    };
    let token = match &args.join_token_file {
        Some(path) => read(path)?,
        // The folder's own token is for the folder's own head.
        None if args.head.is_some() => String::new(),
        None => home.worker_token()?.unwrap_or_default(),
    };
    Ok((format!("https://{address}"), token))
}

/// The parent of a worker's tasks, or a task's process before it is the task's.
pub(in crate::commands) fn supervisor(args: &SupervisorArgs) -> Result<Exit, CliError> {
    if args.stage {
        return Ok(Exit::Passed(wharf_worker::stage_main(&args.state_dir)));
    }
    let prepared = if args.through_signals { wharf_worker::ignore_termination() } else { Ok(()) };
    prepared
        .and_then(|()| wharf_worker::supervisor_main(&args.state_dir))
        .map_err(|error| CliError::from_error(ErrorKind::Internal, &error))?;
    Ok(Exit::Ok)
}

pub(super) fn on_signal() -> Arc<Notify> {
    let notify = Arc::new(Notify::new());
    let handler = notify.clone();
    interrupt::handle_with(move || handler.notify_one());
    notify
}

pub(super) fn host_name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = text.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
