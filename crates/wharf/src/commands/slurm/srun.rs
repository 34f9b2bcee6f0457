//! `wharf srun`: a step on the nodes of a job; outside of one, on devices that are taken for it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::{Flock, FlockArg};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use wharf_client::Client;
use wharf_proto::{ExecInput, ExecOpen, exec_input, exec_output};
use wharf_slurm::environ::{Step, evenly, spread};
use wharf_slurm::export::{Variables, exported};
use wharf_slurm::getopt::{self, Order};
use wharf_slurm::{Request, hostlist, options, signal};

use super::alloc::{Held, running};
use super::job::shell;
use super::{Fail, say, with};
use crate::args::HomeArgs;
use crate::commands::cluster;

/// Pieces of input that wait for the network.
const INPUT_PIECES: usize = 4;
const CHUNK_BYTES: usize = 16 * 1024;
const CODE_SIGNAL_BASE: i32 = 128;

/// Variables that are each node's own, and not the calling process'.
const OF_NODES: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "SLURMD_NODENAME",
    "SLURM_NODEID",
    "SLURM_JOB_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_CPUS_ON_NODE",
    "SLURM_TOPOLOGY_ADDR",
    "SLURM_TASK_PID",
    "HOSTNAME",
    "NODE_RANK",
    "GROUP_RANK",
    "RANK",
    "LOCAL_RANK",
];

pub(super) fn execute(home: &HomeArgs, words: &[String]) -> Result<u8, Fail> {
    let parsed = getopt::parse(&options::srun(), words, Order::First)?;
    let request = Request::of_command_line(&parsed.given)?;
    if parsed.rest.is_empty() {
        return Err(Fail::failed("fatal: No command given to execute."));
    }
    request.check()?;
    let inside = request.get("jobid").map(str::to_owned).or_else(|| std::env::var("SLURM_JOB_ID").ok());
    with(home, async |client| match inside {
        Some(id) => {
            let job = id.parse().map_err(|_| Fail::failed(format!("Invalid job id {id}")))?;
            let variables = shell();
            Plan::of(&request, job, &variables)?.run(client, &request, &parsed.rest).await
        }
        None => {
            let name = parsed.rest[0].rsplit('/').next().unwrap_or_default().to_owned();
            let held = Held::take(client, &request, "srun", &name).await?;
            let mut variables = shell();
            variables.extend(held.variables.clone());
            let plan = Plan::of(&request, held.job.job_id, &variables)?;
            let done = plan.run(client, &request, &parsed.rest).await;
            held.give_back(client).await?;
            done
        }
    })
}

/// Which tasks run where.
struct Plan {
    job: u32,
    step: u32,
    /// Ranks of the job's gang that it runs on, and their names.
    ranks: Vec<u32>,
    nodes: Vec<String>,
    tasks: Vec<u32>,
    env: Variables,
}

impl Plan {
    fn of(request: &Request, job: u32, shell: &Variables) -> Result<Self, Fail> {
        let of = |name: &str| shell.get(name).map_or("", String::as_str);
        let all =
            hostlist::expand(of("SLURM_JOB_NODELIST")).map_err(|error| Fail::failed(error.to_string()))?;
        let mut chosen: Vec<(u32, String)> = (0..).zip(all).collect();
        if let Some(list) = request.get("nodelist") {
            let names = hostlist::expand(list).map_err(|error| Fail::failed(error.to_string()))?;
            chosen.retain(|(_, name)| names.contains(name));
        }
        if let Some(list) = request.get("exclude") {
            let names = hostlist::expand(list).map_err(|error| Fail::failed(error.to_string()))?;
            chosen.retain(|(_, name)| !names.contains(name));
        }
        let skipped = request.count("relative").unwrap_or(0) as usize;
        chosen.drain(..skipped.min(chosen.len()));
        let given = request.count("ntasks").or_else(|| of("SLURM_NTASKS").parse().ok());
        // As many nodes as there are tasks for, unless more are asked for.
        let wanted = request.nodes().map(|count| count.min.max(1));
        let most = wanted.or(request.count("ntasks")).unwrap_or(u32::MAX) as usize;
        if wanted.is_some_and(|wanted| wanted as usize > chosen.len()) || chosen.is_empty() {
            return Err(Fail::failed("Unable to create step: Requested node configuration is not available"));
        }
        chosen.truncate(most.max(1));
        let per_node = request.count("ntasks-per-node");
        let own = spread(of("SLURM_TASKS_PER_NODE")).filter(|tasks| tasks.len() == chosen.len());
        let tasks = match (per_node, request.count("ntasks"), given) {
            (_, Some(count), _) => evenly(count, chosen.len()),
            (Some(each), None, _) => vec![each; chosen.len()],
            (None, None, Some(count)) => own
                .filter(|own| own.iter().sum::<u32>() == count)
                .unwrap_or_else(|| evenly(count, chosen.len())),
            (None, None, None) => vec![1; chosen.len()],
        };
        let (ranks, nodes) = chosen.into_iter().unzip();
        let mut env = exported(request.get("export"), shell).variables;
        env.retain(|name, _| !OF_NODES.contains(&name.as_str()) && !name.starts_with("WHARF_"));
        Ok(Self { job, step: next_step(of("WHARF_STEP_FILE")), ranks, nodes, tasks, env })
    }

    async fn run(&self, client: &Client, request: &Request, command: &[String]) -> Result<u8, Fail> {
        let folder = std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned();
        let workdir = request.get("chdir").map_or(folder.clone(), |path| wharf_slurm::joined(&folder, path));
        let step = Step { id: self.step, nodes: &self.nodes, tasks: &self.tasks };
        let open = |node: usize, local: u32| {
            let mut env: BTreeMap<String, String> = self.env.clone();
            env.extend(step.variables(node, local));
            ExecOpen {
                job_id: self.job,
                rank: self.ranks[node],
                command: command.to_vec(),
                env: env.into_iter().collect(),
                workdir: workdir.clone(),
                ..ExecOpen::default()
            }
        };
        if request.has("pty") {
            let exit = cluster::session(client, open(0, 0), true).await?;
            return Ok(exit.code());
        }
        // A script may be faster than the news that all nodes of its job are ready.
        running(client, self.job, || ()).await?;
        let output = Output::of(request, self.job, &folder)?;
        let mut started = JoinSet::new();
        let mut inputs = Vec::new();
        let mut rank = 0;
        for (node, &count) in self.tasks.iter().enumerate() {
            for local in 0..count {
                let (input, stream) = mpsc::channel(INPUT_PIECES);
                // The channel is new: there is room.
                let _ = input.send(message(exec_input::Message::Open(open(node, local)))).await;
                inputs.push(input);
                let said = client.exec(ReceiverStream::new(stream)).await?;
                let task = Task { rank, node: self.nodes[node].clone(), output: output.clone() };
                started.spawn(task.follow(said));
                rank += 1;
            }
        }
        read_input(inputs);
        let mut worst = 0;
        while let Some(ended) = started.join_next().await {
            worst = worst.max(ended.unwrap_or(1));
            if worst > 0 && request.has("kill-on-bad-exit") {
                started.abort_all();
            }
        }
        Ok(u8::try_from(worst & 0xff).unwrap_or(1))
    }
}

/// The number of the next step of the job; those of one job are counted in a file beside its script.
fn next_step(path: &str) -> u32 {
    let count = || -> std::io::Result<u32> {
        let file =
            std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut file =
            Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| std::io::Error::from(errno))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let next = text.lines().count() as u32;
        file.write_all(b"step\n")?;
        Ok(next)
    };
    // Outside of a batch script nobody counts.
    if path.is_empty() { 0 } else { count().unwrap_or(0) }
}

fn message(message: exec_input::Message) -> ExecInput {
    ExecInput { message: Some(message) }
}

/// Hands standard input to all tasks, on a thread that nobody waits for: a read cannot be called off.
fn read_input(inputs: Vec<mpsc::Sender<ExecInput>>) {
    std::thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut stdin = std::io::stdin().lock();
        loop {
            let next = match stdin.read(&mut chunk) {
                Ok(count) if count > 0 => exec_input::Message::Data(chunk[..count].to_vec()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                // Input that cannot be read has ended.
                Ok(_) | Err(_) => exec_input::Message::End(true),
            };
            let is_last = matches!(next, exec_input::Message::End(_));
            // A task that is over takes nothing, which does not concern the others.
            inputs.iter().for_each(|input| drop(input.blocking_send(message(next.clone()))));
            if is_last {
                return;
            }
        }
    });
}

/// Where what tasks say goes.
#[derive(Clone)]
struct Output {
    stdout: Arc<Mutex<Box<dyn std::io::Write + Send>>>,
    stderr: Arc<Mutex<Box<dyn std::io::Write + Send>>>,
    is_labelled: bool,
}

impl Output {
    fn of(request: &Request, job: u32, folder: &str) -> Result<Self, Fail> {
        let open = |option: &str| -> Result<Option<Box<dyn std::io::Write + Send>>, Fail> {
            let Some(path) = request.get(option).filter(|path| *path != "all" && *path != "none") else {
                return Ok(None);
            };
            let path = wharf_slurm::joined(
                folder,
                &path.replace("%j", &job.to_string()).replace("%J", &job.to_string()),
            );
            let file = std::fs::File::create(&path)
                .map_err(|error| Fail::failed(format!("Unable to open {path}: {error}")))?;
            Ok(Some(Box::new(file)))
        };
        let stdout = Arc::new(Mutex::new(open("output")?.unwrap_or_else(|| Box::new(std::io::stdout()))));
        let stderr = match open("error")? {
            Some(file) => Arc::new(Mutex::new(file)),
            None if request.has("output") => stdout.clone(),
            None => Arc::new(Mutex::new(Box::new(std::io::stderr()) as Box<dyn std::io::Write + Send>)),
        };
        Ok(Self { stdout, stderr, is_labelled: request.has("label") })
    }
}

/// One task of a step.
struct Task {
    rank: u32,
    node: String,
    output: Output,
}

impl Task {
    /// Passes on what it says, and returns its exit code.
    async fn follow(self, mut said: wharf_proto::tonic::Streaming<wharf_proto::ExecOutput>) -> i32 {
        let mut pending = [Vec::new(), Vec::new()];
        let code = loop {
            match said.message().await {
                Ok(Some(output)) => match output.message {
                    Some(exec_output::Message::Stdout(data)) => self.pass(0, &data, &mut pending),
                    Some(exec_output::Message::Stderr(data)) => self.pass(1, &data, &mut pending),
                    Some(exec_output::Message::ExitCode(code)) => break code,
                    Some(exec_output::Message::Error(error)) => {
                        say(&format!("srun: error: {}: task {}: {error}", self.node, self.rank));
                        break 1;
                    }
                    None => {}
                },
                Ok(None) => break 1,
                Err(status) => {
                    say(&format!("srun: error: {}: task {}: {}", self.node, self.rank, status.message()));
                    break 1;
                }
            }
        };
        for (index, rest) in pending.iter().enumerate().filter(|(_, rest)| !rest.is_empty()) {
            self.write(index, rest);
        }
        let how = match code {
            0 => return 0,
            _ if code > CODE_SIGNAL_BASE && code < CODE_SIGNAL_BASE + 64 => {
                format!("Terminated by signal {}", signal::name(code - CODE_SIGNAL_BASE))
            }
            _ => format!("Exited with exit code {code}"),
        };
        say(&format!("srun: error: {}: task {}: {how}", self.node, self.rank));
        code
    }

    /// With labels, whole lines only.
    fn pass(&self, index: usize, data: &[u8], pending: &mut [Vec<u8>; 2]) {
        if !self.output.is_labelled {
            return self.write_raw(index, data);
        }
        pending[index].extend_from_slice(data);
        while let Some(end) = pending[index].iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending[index].drain(..=end).collect();
            self.write(index, &line);
        }
    }

    fn write(&self, index: usize, line: &[u8]) {
        let label = if self.output.is_labelled { format!("{}: ", self.rank) } else { String::new() };
        self.write_raw(index, &[label.as_bytes(), line].concat());
    }

    fn write_raw(&self, index: usize, data: &[u8]) {
        let out = if index == 0 { &self.output.stdout } else { &self.output.stderr };
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        // Where nobody reads it any more, the command goes on all the same.
        let _ = out.write_all(data).and_then(|()| out.flush());
    }
}
