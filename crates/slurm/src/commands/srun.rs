//! `wharf srun`: a step on the nodes of a job; outside of one, on devices that are taken for it.

use std::collections::BTreeMap;
use std::io::{Read, Write as _};
use std::sync::Arc;
use std::time::Duration;

use crate::grammar::environ::{Step, evenly, spread};
use crate::grammar::export::{Variables, exported};
use crate::grammar::filename::{self, Names};
use crate::grammar::getopt::{self, Order};
use crate::grammar::multi_prog::Programs;
use crate::grammar::{Request, gres, hostlist, options};
use nix::fcntl::{Flock, FlockArg};
use tokio::signal::unix::{SignalKind, signal as watched};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use wharf_client::Client;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsRequest, ExecOpen, JobSummary, StepSummary};

use super::job::shell;
use super::salloc::{Allocation, running};
use super::step_task::{Files, Reach, Task, key};
use super::{CommandError, Context, Terminal, container, name_of, option_files, view};

/// Pieces of input that wait for the network.
const INPUT_PIECES: usize = 4;
const CHUNK_BYTES: usize = 16 * 1024;
const CODE_SIGNAL_BASE: i32 = 128;
/// Between attempts to reach a head that is away.
const RETRY: Duration = Duration::from_millis(250);

/// Counts the steps of a batch script.
const STEP_FILE: &str = "WHARF_STEP_FILE";

/// What tells the worker which devices a task of a step sees.
const STEP_DEVICES: &str = "WHARF_STEP_DEVICES";

/// Variables that are each node's own, and not the calling process'.
pub(super) const OF_NODES: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "SLURMD_NODENAME",
    "SLURM_NODEID",
    "SLURM_JOB_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_STEP_GPUS",
    "SLURM_CPUS_ON_NODE",
    "SLURM_TOPOLOGY_ADDR",
    "SLURM_TASK_PID",
    "HOSTNAME",
    "NODE_RANK",
    "GROUP_RANK",
    "RANK",
    "LOCAL_RANK",
];

pub(super) async fn execute(
    context: &Context,
    terminal: &impl Terminal,
    words: &[String],
) -> Result<u8, CommandError> {
    let parsed = getopt::parse(&options::srun(), words, Order::First)?;
    let mut request = Request::of_command_line(&parsed.given)?;
    option_files::read_in(&mut request)?;
    if parsed.rest.is_empty() {
        return Err(CommandError::failed("fatal: No command given to execute."));
    }
    request.check()?;
    let inside = request.get("jobid").map(str::to_owned).or_else(|| std::env::var("SLURM_JOB_ID").ok());
    if inside.is_some() && container::of(&request, "")?.is_some() {
        return Err(CommandError::failed(
            "a step has the container of its job: give the option to sbatch or salloc, or begin the command with the runtime's, as in `srun ch-run IMAGE -- COMMAND`",
        ));
    }
    let Some(id) = inside else { return run_alone(context, terminal, &request, &parsed.rest).await };
    let job = id.parse().map_err(|_| CommandError::failed(format!("Invalid job id {id}")))?;
    let (client, job) = reach(context, job).await?;
    let mut variables = shell();
    if variables.get("SLURM_JOB_ID") != Some(&job.job_id.to_string()) {
        // It joins a job from outside, or from another one.
        variables.retain(|name, _| !name.starts_with("SLURM_") && name != STEP_FILE);
    }
    let plan = Plan::of(&client, &request, &job, &variables).await?;
    plan.run(context, terminal, &client, &request, &parsed.rest).await
}

/// Connects to the head of a job that runs; waits for it where it is away.
async fn reach(context: &Context, job: u32) -> Result<(Client, JobSummary), CommandError> {
    loop {
        let notice = || context.note("srun: error: Unable to contact the head, will retry");
        let client = context.locator.connect_patiently(notice).await?;
        // A script may start before the head knows that all nodes of its job are ready.
        match running(&client, job, || ()).await {
            Ok(job) => return Ok((client, job)),
            Err(CommandError::Client(error)) if error.is_away() => tokio::time::sleep(RETRY).await,
            Err(error) => return Err(error),
        }
    }
}

/// Allocates devices for one step.
async fn run_alone(
    context: &Context,
    terminal: &impl Terminal,
    request: &Request,
    command: &[String],
) -> Result<u8, CommandError> {
    let client = context.connect().await?;
    let allocation = Allocation::acquire(context, &client, request, "srun", &name_of(command)).await?;
    let mut variables = shell();
    variables.extend(allocation.variables.clone());
    let plan = Plan::of(&client, request, &allocation.job, &variables).await?;
    let done = plan.run(context, terminal, &client, request, command).await;
    allocation.release().await?;
    done
}

/// Which tasks run where.
struct Plan {
    job: JobSummary,
    step: u32,
    /// Ranks of the job's gang that it runs on, and their names.
    ranks: Vec<u32>,
    nodes: Vec<String>,
    tasks: Vec<u32>,
    gpus: StepGpus,
    env: Variables,
}

/// Which GPUs of a node a step has.
#[derive(Clone, Copy)]
enum StepGpus {
    All,
    /// So many, all of them for each task.
    PerNode(u32),
    /// So many, which only that task sees.
    PerTask(u32),
}

impl StepGpus {
    fn of(request: &Request, shell: &Variables, nodes: usize) -> Self {
        let sum = |read: Vec<gres::Gpus>| read.iter().map(|gpus| gpus.count).sum::<u32>();
        let count = |text: &str| gres::of_gpus(text).ok().map(sum).filter(|count| *count > 0);
        // What the job was submitted with is stronger than `--gpus` of one of its steps.
        let given = |option: &str, variable: &str| {
            request.get(option).or(shell.get(variable).map(String::as_str)).and_then(count)
        };
        if let Some(each) = given("gpus-per-task", "SLURM_GPUS_PER_TASK") {
            return Self::PerTask(each);
        }
        let of_node = given("gpus-per-node", "SLURM_GPUS_PER_NODE");
        let of_gres = || request.get("gres").and_then(|text| gres::of_gres(text).ok()).map(sum);
        let share = || Some(count(request.get("gpus")?)?.div_ceil(nodes.max(1) as u32));
        of_node.or_else(of_gres).or_else(share).filter(|count| *count > 0).map_or(Self::All, Self::PerNode)
    }
}

impl Plan {
    async fn of(
        client: &Client,
        request: &Request,
        job: &JobSummary,
        shell: &Variables,
    ) -> Result<Self, CommandError> {
        let of = |name: &str| shell.get(name).map_or("", String::as_str);
        let all = job.placement.iter().map(|share| share.node.clone());
        let mut chosen: Vec<(u32, String)> = (0..).zip(all).collect();
        if let Some(list) = request.get("nodelist") {
            let names = hostlist::expand(list)?;
            chosen.retain(|(_, name)| names.contains(name));
        }
        if let Some(list) = request.get("exclude") {
            let names = hostlist::expand(list)?;
            chosen.retain(|(_, name)| !names.contains(name));
        }
        let skipped = request.count("relative").unwrap_or(0) as usize;
        chosen.drain(..skipped.min(chosen.len()));
        let of_gpus = request.count("ntasks-per-gpu").map(|each| {
            let devices: u32 = job.placement.iter().map(|share| share.devices.len() as u32).sum();
            each.saturating_mul(request.get("gpus").and_then(|text| text.parse().ok()).unwrap_or(devices))
        });
        let count = request.count("ntasks").or(of_gpus);
        let given = count.or_else(|| of("SLURM_NTASKS").parse().ok());
        // As many nodes as there are tasks for, unless more are asked for.
        let wanted = request.nodes().map(|count| count.min.max(1));
        let most = wanted.or(count).unwrap_or(u32::MAX) as usize;
        if wanted.is_some_and(|wanted| wanted as usize > chosen.len()) || chosen.is_empty() {
            return Err(CommandError::failed(
                "Unable to create step: Requested node configuration is not available",
            ));
        }
        chosen.truncate(most.max(1));
        let per_node = request.count("ntasks-per-node");
        let own = spread(of("SLURM_TASKS_PER_NODE")).filter(|tasks| tasks.len() == chosen.len());
        let tasks = match (per_node, count, given) {
            (_, Some(count), _) => evenly(count, chosen.len()),
            (Some(each), None, _) => vec![each; chosen.len()],
            (None, None, Some(count)) => own
                .filter(|own| own.iter().sum::<u32>() == count)
                .unwrap_or_else(|| evenly(count, chosen.len())),
            (None, None, None) => vec![1; chosen.len()],
        };
        let (ranks, nodes): (Vec<u32>, Vec<String>) = chosen.into_iter().unzip();
        let gpus = StepGpus::of(request, shell, nodes.len());
        let mut env = exported(request.get("export"), shell).variables;
        env.retain(|name, _| !OF_NODES.contains(&name.as_str()) && !name.starts_with("WHARF_"));
        env.extend(identity(job));
        let step = match of(STEP_FILE) {
            "" => next_reported(client, job.job_id).await?,
            path => next_step(path),
        };
        Ok(Self { job: job.clone(), step, ranks, nodes, tasks, gpus, env })
    }

    /// The part of a node's GPUs that a task sees, as the worker is told it.
    fn devices(&self, node: usize, local: u32) -> String {
        match self.gpus {
            StepGpus::All => "0 0 0".to_owned(),
            StepGpus::PerNode(count) => format!("0 {count} {count}"),
            StepGpus::PerTask(each) => format!("{} {each} {}", local * each, self.tasks[node] * each),
        }
    }

    async fn run(
        &self,
        context: &Context,
        terminal: &impl Terminal,
        client: &Client,
        request: &Request,
        command: &[String],
    ) -> Result<u8, CommandError> {
        let folder = std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned();
        let workdir =
            request.get("chdir").map_or(folder.clone(), |path| crate::grammar::joined(&folder, path));
        let step = Step { id: self.step, nodes: &self.nodes, tasks: &self.tasks };
        let programs = match (request.has("multi-prog"), command) {
            (true, [path]) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| CommandError::failed(format!("Unable to open {path}: {error}")))?;
                Some(Programs::parse(&text)?)
            }
            (true, _) => return Err(CommandError::failed("--multi-prog takes one file and no arguments")),
            (false, _) => None,
        };
        let command_of = |node: usize, local: u32| -> Result<Vec<String>, CommandError> {
            let before: u32 = self.tasks[..node].iter().sum();
            Ok(programs
                .as_ref()
                .map_or_else(|| Ok(command.to_vec()), |programs| programs.command(before + local))?)
        };
        let open = |node: usize, local: u32| -> Result<ExecOpen, CommandError> {
            let mut env: BTreeMap<String, String> = self.env.clone();
            env.extend(step.variables(node, local));
            env.insert(STEP_DEVICES.to_owned(), self.devices(node, local));
            Ok(ExecOpen {
                job_id: self.job.job_id,
                rank: self.ranks[node],
                command: command_of(node, local)?,
                env: env.into_iter().collect(),
                workdir: workdir.clone(),
                step: Some(self.step),
                ..ExecOpen::default()
            })
        };
        // Every task has a command before the first one starts.
        for (node, &count) in self.tasks.iter().enumerate() {
            (0..count).try_for_each(|local| command_of(node, local).map(drop))?;
        }
        let account = Account { context, job: self.job.job_id, begun: self.begun(command) };
        account.report(client, None).await;
        if request.has("pty") {
            let code = terminal.session(client, open(0, 0)?).await.map_err(CommandError::Session)?;
            account.report(client, Some(code.into())).await;
            return Ok(code);
        }
        let mut files = Files::new(request, &folder);
        let reach = Arc::new(Reach::Located(context.locator.clone()));
        let (stop, stopped) = interruptions()?;
        let array = self.job.array_index.map(|index| (self.job.array_job, index));
        let (name, user) = (self.job.name.as_str(), self.job.user.as_str());
        let names = Names { job: self.job.job_id, array, node: "", name, user, task: None };
        let (source, only) = input_of(request, &folder, &names)?;
        let (mut started, mut inputs, mut rank) = (JoinSet::new(), Vec::new(), 0);
        for (node, &count) in self.tasks.iter().enumerate() {
            for local in 0..count {
                let (input, pieces) = mpsc::channel(INPUT_PIECES);
                if only.is_none_or(|only| only == rank) {
                    inputs.push(input);
                }
                let open = ExecOpen { key: key()?, ..open(node, local)? };
                let task = filename::Task { step: self.step, node: node as u32, rank };
                let names = Names { node: &self.nodes[node], task: Some(task), ..names };
                let (reach, output) = (reach.clone(), files.of_task(&names)?);
                let node = self.nodes[node].clone();
                let console = context.console.clone();
                let task = Task { reach, console, command: "srun", rank, node, output, open };
                started.spawn(task.run(Some(client.clone()), pieces, stopped.clone()));
                rank += 1;
            }
        }
        read_input(source, inputs);
        let mut worst = 0;
        while let Some(ended) = started.join_next().await {
            worst = worst.max(ended.unwrap_or(1));
            if worst > 0 && request.has("kill-on-bad-exit") {
                stop.send_replace(SignalKind::terminate().as_raw_value());
            }
        }
        account.report(client, Some(worst)).await;
        Ok(u8::try_from(worst & 0xff).unwrap_or(1))
    }

    fn begun(&self, command: &[String]) -> StepSummary {
        StepSummary {
            id: self.step,
            name: name_of(command),
            nodes: self.nodes.clone(),
            tasks: self.tasks.iter().sum(),
            start_s: view::now_s(),
            ..StepSummary::default()
        }
    }
}

/// Reports a step to the head, for `sacct`.
struct Account<'a> {
    context: &'a Context,
    job: u32,
    begun: StepSummary,
}

impl Account<'_> {
    /// It has begun, or ended with that code.
    async fn report(&self, client: &Client, code: Option<i32>) {
        let mut step = self.begun.clone();
        if let Some(code) = code {
            let is_signal = code > CODE_SIGNAL_BASE && code < CODE_SIGNAL_BASE + 64;
            step.end_s = view::now_s();
            step.signal = if is_signal { code - CODE_SIGNAL_BASE } else { 0 };
            step.exit_code = if is_signal { 0 } else { code };
        }
        let request = ChangeJobsRequest {
            change: Change::Step.into(),
            job_ids: vec![self.job],
            elements_only: true,
            step: Some(step),
            ..ChangeJobsRequest::default()
        };
        let reported = match client.change_jobs(request.clone()).await {
            // The head may have been restarted meanwhile.
            Err(error) if error.is_away() => match self.context.locator.connect_patiently(|| ()).await {
                Ok(client) => client.change_jobs(request).await,
                Err(error) => Err(error),
            },
            reported => reported,
        };
        if let Err(error) = reported {
            self.context.note(&format!("srun: the step is not accounted for: {error}"));
        }
    }
}

/// A signal for all tasks: one of those that end `srun` itself, or one of its own.
pub(super) fn interruptions() -> Result<(Arc<watch::Sender<i32>>, watch::Receiver<i32>), CommandError> {
    let (sender, receiver) = watch::channel(0);
    let sender = Arc::new(sender);
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = watched(kind)
            .map_err(|error| CommandError::failed(format!("signals cannot be waited for: {error}")))?;
        let sender = sender.clone();
        tokio::spawn(async move {
            if signals.recv().await.is_some() {
                sender.send_replace(kind.as_raw_value());
            }
        });
    }
    Ok((sender, receiver))
}

/// What a step inherits of its job, whatever its `srun` was started in.
fn identity(job: &JobSummary) -> Variables {
    let nodes: Vec<&str> = job.placement.iter().map(|share| share.node.as_str()).collect();
    let (id, list, count) = (job.job_id.to_string(), hostlist::compress(&nodes), nodes.len().to_string());
    let mut variables: Variables = [
        ("SLURM_JOB_ID", id.clone()),
        ("SLURM_JOBID", id),
        ("SLURM_JOB_NODELIST", list.clone()),
        ("SLURM_NODELIST", list),
        ("SLURM_JOB_NUM_NODES", count),
        ("SLURM_JOB_NAME", job.name.clone()),
        ("SLURM_JOB_USER", job.user.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if let Some(index) = job.array_index {
        variables.insert("SLURM_ARRAY_JOB_ID".to_owned(), job.array_job.to_string());
        variables.insert("SLURM_ARRAY_TASK_ID".to_owned(), index.to_string());
    }
    variables
}

/// The number after the steps that the head has reports of.
async fn next_reported(client: &Client, job: u32) -> Result<u32, CommandError> {
    let steps = client.get_job(job).await?.steps;
    Ok(steps.iter().map(|step| step.id.saturating_add(1)).max().unwrap_or(0))
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
    count().unwrap_or(0)
}

/// What tasks read, and which of them alone does, where only one may.
fn input_of(
    request: &Request,
    folder: &str,
    names: &Names<'_>,
) -> Result<(Box<dyn Read + Send>, Option<u32>), CommandError> {
    Ok(match request.get("input") {
        None | Some("all") => (Box::new(std::io::stdin()), None),
        Some("none") => (Box::new(std::io::empty()), None),
        Some(number) if number.parse::<u32>().is_ok() => (Box::new(std::io::stdin()), number.parse().ok()),
        Some(pattern) => {
            let path = crate::grammar::joined(folder, &names.expand(pattern));
            let file = std::fs::File::open(&path)
                .map_err(|error| CommandError::failed(format!("Unable to open {path}: {error}")))?;
            (Box::new(file), None)
        }
    })
}

/// Hands the input to tasks, on a detached thread: a read cannot be cancelled.
fn read_input(mut source: Box<dyn Read + Send>, inputs: Vec<mpsc::Sender<Vec<u8>>>) {
    std::thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match source.read(&mut chunk) {
                // A task that has ended takes nothing, which does not concern the others.
                Ok(count) if count > 0 => {
                    inputs.iter().for_each(|input| drop(input.blocking_send(chunk[..count].to_vec())));
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // Input that cannot be read has ended.
                Ok(_) | Err(_) => return,
            }
        }
    });
}
