//! One node of a Ray cluster, from its first process to its last.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::blocks::{Block, BlockError, Blocks, port, slots_for};
use super::folder::{self, FolderError};
use super::gathering::{Guests, Host};
use super::{Plan, TOKEN, code_of, command};
use crate::processes;

/// How often Ray is started where it fails.
const TRIES: u32 = 3;
/// Polling interval.
const LOOK: Duration = Duration::from_millis(100);
/// How long Ray may take to end in good order.
const DRAIN: Duration = Duration::from_secs(30);
/// How long the first node waits for the others to have left, which is quicker while Ray's head is there.
const DEREGISTER_TIMEOUT: Duration = Duration::from_secs(10);
/// What is kept of the grace for ending Ray, at most; and for removing what it leaves.
const RESERVE: Duration = Duration::from_secs(5);
const LAST: Duration = Duration::from_millis(500);
/// After this long a process that was killed hangs in the kernel, and waiting for it is useless.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// Ray has a file open for each worker, and for much else.
const FILES: u64 = 65_536;
/// A cluster that did not come up: temporary, as far as the machine's own list of codes goes.
const CODE_NOT_UP: u8 = 75;
const CODE_USAGE: u8 = 2;
/// Ray's default password. Old programs insist on naming it; it protects nothing.
const REDIS_PASSWORD: &str = "5241590000000000";
/// How much of what `ray start` said is shown where it failed.
const SAID_BYTES_MAX: usize = 4000;

/// Why a node has no Ray.
#[derive(Debug, thiserror::Error)]
enum RayError {
    #[error(transparent)]
    Ports(#[from] BlockError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("`{program}` not found in this job's environment; activate one with Ray, or set `ray.program`")]
    NoRay { program: String },
    #[error("cannot {what}: {source}")]
    System { what: &'static str, source: std::io::Error },
    #[error("Ray did not start on this node")]
    NotStarted,
    #[error("cannot count the live nodes of the Ray cluster")]
    Uncounted,
    #[error("only {alive} of {wanted} Ray nodes were alive after {limit:?}; increase `ray.ready_timeout`")]
    Missing { alive: u32, wanted: u32, limit: Duration },
    #[error("the first node of the gang did not report the address of Ray's head within {limit:?}")]
    NoHead { limit: Duration },
    #[error("Ray's head has ended before the driver")]
    HeadGone,
    #[error("cannot start the driver `{program}`: {source}")]
    Driver { program: String, source: std::io::Error },
}

impl RayError {
    fn code(&self) -> u8 {
        match self {
            Self::Driver { source, .. } if source.kind() == std::io::ErrorKind::NotFound => 127,
            Self::NoRay { .. } => 127,
            Self::Driver { .. } => 126,
            _ => CODE_NOT_UP,
        }
    }
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> RayError {
    move |source| RayError::System { what, source }
}

/// Says something in the job's log.
fn note(what: std::fmt::Arguments<'_>) {
    // The log may not be writable.
    let _ = writeln!(std::io::stderr(), "wharf: {what}");
}

/// Runs a node of a Ray cluster to its end, as its plan says, and the command where it is the first one. Returns the exit code.
pub fn ray_main(plan: &str, driver: &[String]) -> u8 {
    let plan: Plan = match serde_json::from_str(plan) {
        Ok(plan) => plan,
        Err(error) => {
            note(format_args!("cannot parse the plan of a Ray node: {error}"));
            return CODE_USAGE;
        }
    };
    // Where this fails, what Ray leaves behind is the supervisor's to end.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    more_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.map_err(failed("set up")).and_then(|runtime| runtime.block_on(run(plan, driver)));
    ended.unwrap_or_else(|error| {
        note(format_args!("{error}"));
        error.code()
    })
}

/// As many open files as Ray wants, or as this node allows.
fn more_files() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < FILES.min(hard)
    {
        // It then has those that it had.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, FILES.min(hard), hard);
    }
}

async fn run(plan: Plan, driver: &[String]) -> Result<u8, RayError> {
    let stop = Stop::watch(&plan)?;
    let mut node = Node::new(plan)?;
    let lived = if node.plan.is_head() { node.lead(driver, &stop).await } else { node.follow(&stop).await };
    node.tear_down(&stop).await;
    lived
}

/// Whether and when this node was requested to stop.
#[derive(Clone)]
struct Stop {
    told: watch::Receiver<Option<Instant>>,
    grace: Duration,
}

impl Stop {
    fn watch(plan: &Plan) -> Result<Self, RayError> {
        let own: Option<i32> = std::env::var("WHARF_STOP_SIGNAL").ok().and_then(|text| text.parse().ok());
        let (sender, told) = watch::channel(None);
        let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
        for kind in kinds.into_iter().chain(own.map(SignalKind::from_raw)) {
            let sender = sender.clone();
            let mut signals = signal(kind).map_err(failed("listen to signals"))?;
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    sender.send_if_modified(|told| told.replace(Instant::now()).is_none());
                }
            });
        }
        Ok(Self { told, grace: Duration::from_millis(plan.grace_ms) })
    }

    /// Returns when it was requested to.
    async fn told(&self) {
        if self.told.clone().wait_for(Option::is_some).await.is_err() {
            // The signal channel is closed: there is none.
            std::future::pending::<()>().await;
        }
    }

    /// Until when the driver may continue, and until when Ray; none where it was not requested to stop.
    fn limits(&self) -> Option<(Instant, Instant)> {
        let told = (*self.told.borrow())?;
        let reserve = RESERVE.min(self.grace / 2);
        let end = told + self.grace;
        Some((end - reserve, end - LAST.min(reserve / 2)))
    }

    /// As a deadline for the driver.
    fn rest(&self) -> Instant {
        self.limits().map_or_else(Instant::now, |(driver, _)| driver)
    }
}

struct Node {
    plan: Plan,
    token: String,
    program: PathBuf,
    blocks: Blocks,
    /// The ports that the job names are this node's while these are held.
    _fixed: Vec<UnixListener>,
    /// Options that this version of Ray does not have.
    unknown: Vec<String>,
    folder: Option<PathBuf>,
    block: Option<Block>,
    ray: Option<Child>,
    guests: Option<Guests>,
}

impl Node {
    fn new(plan: Plan) -> Result<Self, RayError> {
        let token = std::env::var(TOKEN).unwrap_or_default();
        let search = std::env::var("PATH").unwrap_or_default();
        let program = command::find(&plan.program, &search)
            .ok_or_else(|| RayError::NoRay { program: plan.program.clone() })?;
        let blocks = Blocks::of_host()?;
        let fixed_ports = command::fixed_ports(&plan);
        let is_rendezvous = |(_, port): &&(&str, u16)| plan.is_head() && plan.ranks > 1 && *port == plan.port;
        if let Some(&(option, port)) = fixed_ports.iter().find(is_rendezvous) {
            return Err(BlockError::Taken { option, port, by: "the rendezvous port of this job" }.into());
        }
        let fixed = blocks.reserve(&fixed_ports)?;
        Ok(Self {
            plan,
            token,
            program,
            blocks,
            _fixed: fixed,
            unknown: Vec::new(),
            folder: None,
            block: None,
            ray: None,
            guests: None,
        })
    }

    // --- the first node ---

    async fn lead(&mut self, driver: &[String], stop: &Stop) -> Result<u8, RayError> {
        let deadline = Instant::now() + self.plan.ready();
        let up = async {
            let listener = match self.plan.ranks {
                0 | 1 => None,
                _ => Some(Guests::listen(&self.plan).await.map_err(failed("listen for the other nodes"))?),
            };
            let head = self.start_head(deadline).await?;
            self.guests = listener.map(|socket| Guests::receive(socket, &self.plan, &self.token, &head));
            if self.plan.ranks > 1 {
                self.count(&head, self.plan.ranks, deadline).await?;
            }
            Ok::<_, RayError>(head)
        };
        let head = tokio::select! {
            up = up => up?,
            () = stop.told() => return Ok(code_of_signal(Signal::SIGTERM)),
        };
        self.welcome(&head);
        self.drive(driver, &head, stop).await
    }

    fn welcome(&self, head: &str) {
        let dashboard = match (&self.plan.dashboard, &self.block) {
            (Some(host), Some(block)) => {
                format!(", its dashboard at http://{host}:{}", command::dashboard_port(&self.plan, block))
            }
            _ => String::new(),
        };
        note(format_args!("a Ray cluster of {} nodes is up at {head}{dashboard}", self.plan.ranks));
    }

    /// Starts Ray's head and returns its address when it counts itself. On a busy machine it may give up on its own node after
    /// it can be reached; then it is started again, before another node has heard of it.
    async fn start_head(&mut self, deadline: Instant) -> Result<String, RayError> {
        let mut tries = 0;
        while tries < TRIES {
            self.prepare(self.plan.job.wrapping_add(tries))?;
            let Some((block, folder)) = self.block.as_ref().zip(self.folder.as_ref()) else { break };
            let address = format!("{}:{}", self.plan.rays_address(0), command::gcs_port(&self.plan, block));
            let words = command::head(&self.plan, block, &folder::rays(folder));
            self.spawn(words)?;
            if self.is_reached(&address, deadline).await? {
                match self.count(&address, 1, deadline).await {
                    Ok(()) => return Ok(address),
                    Err(RayError::HeadGone | RayError::Uncounted) => {}
                    Err(error) => return Err(error),
                }
            }
            tries += u32::from(!self.learns_option());
            self.clear().await;
            if Instant::now() >= deadline {
                break;
            }
        }
        Err(RayError::NotStarted)
    }

    /// Whether Ray's head can be reached, before its process ends.
    async fn is_reached(&mut self, address: &str, deadline: Instant) -> Result<bool, RayError> {
        while Instant::now() < deadline {
            if TcpStream::connect(address).await.is_ok() {
                return Ok(true);
            }
            if self.is_over()? {
                return Ok(false);
            }
            sleep(LOOK).await;
        }
        Ok(false)
    }

    /// Returns when so many nodes are alive.
    async fn count(&mut self, head: &str, wanted: u32, deadline: Instant) -> Result<(), RayError> {
        let mut count = Command::new(command::python(&self.program));
        count.args(["-c", command::COUNT, head, &wanted.to_string()]);
        self.surround(&mut count).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        count.stderr(self.log().map_err(failed("open Ray's log"))?);
        let mut count = count.spawn().map_err(failed("count Ray's nodes"))?;
        let mut lines = BufReader::new(count.stdout.take().ok_or(RayError::HeadGone)?).lines();
        let mut alive = 0;
        loop {
            tokio::select! {
                told = timeout_at(deadline, lines.next_line()) => match told {
                    Ok(Ok(Some(line))) => alive = line.trim().parse().unwrap_or(alive),
                    // It is done, or failed to ask.
                    Ok(_) => break,
                    Err(_) => {
                        let limit = self.plan.ready();
                        return Err(RayError::Missing { alive, wanted, limit });
                    }
                },
                _ = wait(&mut self.ray) => {
                    self.show_said();
                    return Err(RayError::HeadGone);
                }
            }
        }
        if alive < wanted {
            self.show_said();
            return Err(RayError::Uncounted);
        }
        Ok(())
    }

    /// Runs the job's command, and returns its exit code.
    async fn drive(&mut self, words: &[String], head: &str, stop: &Stop) -> Result<u8, RayError> {
        let Some((program, arguments)) = words.split_first() else { return Ok(0) };
        let mut driver = Command::new(program);
        driver.args(arguments).kill_on_drop(true);
        self.surround(&mut driver);
        driver.env("RAY_ADDRESS", head).env("ip_head", head).env("redis_password", REDIS_PASSWORD);
        if !self.plan.has_threads {
            let threads = self.plan.cpus.max(1).to_string();
            driver.env("OMP_NUM_THREADS", &threads).env("MKL_NUM_THREADS", &threads);
        }
        // It stays in this process' group: what the task is told, the driver is told.
        let mut driver =
            driver.spawn().map_err(|source| RayError::Driver { program: program.clone(), source })?;
        tokio::select! {
            ended = driver.wait() => ended.map(code_of).map_err(failed("wait for the driver")),
            _ = wait(&mut self.ray) => {
                self.show_said();
                Err(RayError::HeadGone)
            }
            () = stop.told() => {
                let ended = timeout_at(stop.rest(), driver.wait()).await;
                let ended = ended.ok().and_then(Result::ok);
                Ok(ended.map_or(code_of_signal(Signal::SIGKILL), code_of))
            }
        }
    }

    // --- the others ---

    async fn follow(&mut self, stop: &Stop) -> Result<u8, RayError> {
        let limit = self.plan.ready();
        let mut host = tokio::select! {
            found = timeout(limit, Host::find(&self.plan, &self.token)) => {
                found.map_err(|_| RayError::NoHead { limit })?
            }
            () = stop.told() => return Ok(code_of_signal(Signal::SIGTERM)),
        };
        let base = host.head.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(0);
        let mut tries = 0;
        while tries < TRIES {
            self.prepare(self.blocks.slot_at(base).wrapping_add(tries))?;
            let Some((block, folder)) = self.block.as_ref().zip(self.folder.as_ref()) else { break };
            let words = command::worker(&self.plan, block, &folder::rays(folder), &host.head);
            self.spawn(words)?;
            tokio::select! {
                () = host.gone() => return Ok(0),
                _ = wait(&mut self.ray) => {}
                () = stop.told() => {
                    // The driver may still need what is here.
                    let _ = timeout_at(stop.rest(), host.gone()).await;
                    return Ok(code_of_signal(Signal::SIGTERM));
                }
            }
            tries += u32::from(!self.learns_option());
            self.clear().await;
        }
        Err(RayError::NotStarted)
    }

    // --- what all have in common ---

    /// A folder and ports.
    fn prepare(&mut self, wanted: u32) -> Result<(), RayError> {
        let Plan { job, generation, rank, temp_dir, .. } = &self.plan;
        let folder = folder::make(temp_dir.as_deref(), *job, *generation, *rank)?;
        self.folder = Some(folder.clone());
        if !self.token.is_empty() {
            self.write_token(&folder).map_err(failed("write the cluster's token"))?;
        }
        self.block = Some(self.blocks.claim(wanted, slots_for(self.plan.cpus), &folder)?);
        Ok(())
    }

    fn write_token(&self, folder: &Path) -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(token_file(folder))?;
        file.write_all(self.token.as_bytes())
    }

    /// What Ray's processes and its clients have to know.
    fn surround<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env_remove(TOKEN).env_remove("RAY_ADDRESS").env("RAY_USAGE_STATS_ENABLED", "0");
        if let Some(folder) = self.folder.as_ref().filter(|_| !self.token.is_empty()) {
            command.env("RAY_AUTH_MODE", "token").env("RAY_AUTH_TOKEN_PATH", token_file(folder));
        }
        command
    }

    /// Starts `ray start`, in a process group of its own: Ray kills the whole of its group in some cases.
    fn spawn(&mut self, words: Vec<String>) -> Result<(), RayError> {
        let is_known = |word: &String| {
            let name = word.split('=').next().unwrap_or(word);
            !self.unknown.iter().any(|unknown| unknown == name)
        };
        let mut ray = Command::new(&self.program);
        ray.args(words.iter().filter(|word| is_known(word))).process_group(0).kill_on_drop(true);
        self.surround(&mut ray);
        if let Some(block) = &self.block {
            ray.env("AUTOSCALER_METRIC_PORT", block.port(port::AUTOSCALER_METRICS).to_string());
            ray.env("DASHBOARD_METRIC_PORT", block.port(port::DASHBOARD_METRICS).to_string());
        }
        if let Some(folder) = &self.folder {
            // What its processes leave there when they are killed goes with the folder.
            ray.env("TMPDIR", folder);
        }
        if !self.plan.has_threads {
            // Ray gives each of its tasks as many threads as that has processors.
            ray.env_remove("OMP_NUM_THREADS");
        }
        let log = || self.log().map_err(failed("open Ray's log"));
        ray.stdin(Stdio::null()).stdout(log()?).stderr(log()?);
        self.ray = Some(ray.spawn().map_err(failed("start Ray"))?);
        Ok(())
    }

    fn log_file(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join("start.log"))
    }

    fn log(&self) -> std::io::Result<std::fs::File> {
        let path = self.log_file().unwrap_or_else(|| PathBuf::from("/dev/null"));
        std::fs::OpenOptions::new().append(true).create(true).open(path)
    }

    fn said(&self) -> String {
        let bytes = self.log_file().and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Shows the end of what Ray said, which goes with its folder.
    fn show_said(&self) {
        let said = self.said();
        let from = said.floor_char_boundary(said.len().saturating_sub(SAID_BYTES_MAX));
        note(format_args!("Ray's output:\n{}", said[from..].trim_end()));
    }

    /// Whether Ray did not start because it does not know an option, which is then left out.
    fn learns_option(&mut self) -> bool {
        let said = self.said();
        match command::unknown_option(&said) {
            Some(option) if !self.unknown.iter().any(|known| known == option) => {
                self.unknown.push(option.to_owned());
                true
            }
            _ => {
                self.show_said();
                false
            }
        }
    }

    fn is_over(&mut self) -> Result<bool, RayError> {
        let Some(ray) = &mut self.ray else { return Ok(true) };
        ray.try_wait().map(|ended| ended.is_some()).map_err(failed("wait for Ray"))
    }

    /// Ends what an attempt has left.
    async fn clear(&mut self) {
        self.end_ray(Instant::now() + DRAIN).await;
        self.block = None;
        if let Some(folder) = self.folder.take() {
            folder::remove_left(&folder);
        }
    }

    async fn tear_down(&mut self, stop: &Stop) {
        let until = |limit: Duration| {
            let at = Instant::now() + limit;
            stop.limits().map_or(at, |(_, end)| at.min(end))
        };
        if let Some(guests) = self.guests.take() {
            let limit = until(DEREGISTER_TIMEOUT).saturating_duration_since(Instant::now());
            guests.dismiss(limit).await;
        }
        tokio::select! {
            () = self.end_ray(until(DRAIN)) => {}
            // Requested to stop only now: it has less time than it thought.
            () = async { stop.told().await; sleep_until_end(stop).await } => {}
        }
        self.end_ray(Instant::now()).await;
        self.clear().await;
    }

    /// Ends Ray in good order while there is time, and then whatever is left below this process.
    async fn end_ray(&mut self, until: Instant) {
        if let Some(ray) = &mut self.ray {
            if let Some(pid) = ray.id().and_then(|pid| i32::try_from(pid).ok()) {
                // It has not been waited for, so the number is still its own.
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            }
            let _ = timeout_at(until, ray.wait()).await;
        }
        self.ray = None;
        let own = std::process::id().cast_signed();
        let patience = Instant::now() + KILL_PATIENCE;
        loop {
            let left = processes::below(own);
            if left.is_empty() || Instant::now() > patience {
                return;
            }
            processes::kill_all(&left);
            sleep(LOOK / 10).await;
        }
    }
}

async fn sleep_until_end(stop: &Stop) {
    if let Some((_, end)) = stop.limits() {
        tokio::time::sleep_until(end).await;
    }
}

fn token_file(folder: &Path) -> PathBuf {
    folder.join("token")
}

fn code_of_signal(signal: Signal) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    code_of(ExitStatus::from_raw(signal as i32))
}

/// Waits for Ray's process; indefinitely where there is none.
async fn wait(ray: &mut Option<Child>) -> Option<ExitStatus> {
    match ray {
        Some(ray) => ray.wait().await.ok(),
        None => std::future::pending().await,
    }
}
