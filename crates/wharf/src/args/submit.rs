//! `wharf submit`

use std::path::PathBuf;

use clap::Args;
use wharf_proto::Cause;

use super::cluster::HomeArgs;
use crate::jobfile::job::{self, Launcher, Moments, OnNan, OnStall, OnTimeLimit, StallTimeout};
use crate::jobfile::{
    Array, Deadline, Executor, Export, Format, Job, Limit, Runtime, Seconds, SecretSource, SecretSources,
    Size, SlurmExecutor, StopSignal, Words,
};
use crate::number::JobNumber;

/// `wharf submit`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf submit -- python train.py
  wharf submit job.yaml
  wharf submit job.yaml --gang 2x4 --time-limit 1d     Flags win over the file
  wharf submit --gang 4 --type v100 --wait -- torchrun train.py
  wharf submit --after-ok 3 --array 0-99 -- ./evaluate.sh
  wharf submit --container ubuntu:22.04 --mount ./data:/data -- ls /data
  wharf submit --example yaml > job.yaml               A file to begin with
  wharf submit job.yaml --dry-run                      Show what would be submitted
  wharf submit --ray-address http://node1:8265 --follow -- python train.py     On somebody's Ray cluster
  wharf submit job.yaml --slurm --wait                 As a job of the Slurm that is here
  wharf submit --trace jobs.csv --time-scale 60        Each row as a job, at its time; an hour in a minute
  wharf submit --trace jobs.csv --now -- python train.py --steps {iterations}")]
pub struct SubmitArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// A job file (.yaml, .toml or .json), or `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The form of the file, where its name does not tell
    #[arg(long, value_name = "FORM", value_enum)]
    pub format: Option<Format>,
    /// Print an example of a job file and do nothing else
    #[arg(long, value_name = "FORM", value_enum, conflicts_with_all = ["file", "command"])]
    pub example: Option<Format>,
    /// Print what would be submitted and do nothing else
    #[arg(long, conflicts_with_all = ["wait", "follow"])]
    pub dry_run: bool,
    /// Submit every row of a trace as a job: a process that takes as long as the performance model says, or the command
    /// with the row's {job}, {user}, {devices}, {iterations}, {iteration_ms}, {duration_s}, {model}, {batch_size} and
    /// {submit_s} filled in
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "example", "follow", "array", "per_node", "name"])]
    pub trace: Option<PathBuf>,
    /// Keep the time before the trace's first submission [default: submit the first row at once]
    #[arg(long, requires = "trace")]
    pub keep_offset: bool,
    /// Speed-up: times of the trace and the jobs' work are divided by this
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "trace")]
    pub time_scale: f64,
    /// Submit all rows at once, whatever their times
    #[arg(long, requires = "trace")]
    pub now: bool,
    /// Wait until it is over and exit with its exit code
    #[arg(long)]
    pub wait: bool,
    /// Wait, and show its output while it runs
    #[arg(long)]
    pub follow: bool,
    /// Continue from the checkpoint of an earlier job: use its checkpoint directory
    #[arg(long, value_name = "JOB", conflicts_with_all = ["trace", "checkpoint_dir", "array", "dry_run"])]
    pub resume_from: Option<JobNumber>,
    /// Let the job run as root on a head that serves several users (admin only)
    #[arg(long)]
    pub allow_root: bool,
    /// What the job is.
    #[command(flatten)]
    pub job: JobFlags,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// What a job is, as flags. Each lies over the field of a job file that has its name.
#[derive(Debug, Args)]
#[command(next_help_heading = "The job")]
pub struct JobFlags {
    /// What the job is called [default: the program's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Whose it is, if not one's own: only an admin may say so
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// The devices that it needs, all or nothing: `4`, `2x4` (nodes x devices), `2-8` (elastic) [default: 1]
    #[arg(long, value_name = "DEVICES")]
    pub gang: Option<job::Gang>,
    /// A device type that it may run on; may be given several times, best first
    #[arg(long = "type", value_name = "TYPE")]
    pub types: Vec<String>,
    /// Run it once on every node of the pool
    #[arg(long)]
    pub per_node: bool,
    /// The part of the cluster that it runs in
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// The reservation whose nodes it runs on
    #[arg(long, value_name = "NAME")]
    pub reservation: Option<String>,
    /// Processors for each device
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// Memory for each device, as in `4GiB`
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Size>,
    /// How urgent it is; larger goes first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// What it should get in relation to others, under policies that share time in proportion; 1 where not given
    #[arg(long, value_name = "WEIGHT")]
    pub weight: Option<f64>,
    /// When it is stopped: `90s`, `1h30m`, `1-02:03:04`
    #[arg(long, value_name = "DURATION")]
    pub time_limit: Option<Seconds>,
    /// When it should be over: `2027-01-31T18:00` or `+6h`
    #[arg(long, value_name = "MOMENT")]
    pub deadline: Option<Deadline>,
    /// Indexes of an array of jobs, as in `0-99` or `1,3,5-9:2`; `WHARF_ARRAY_INDEX` tells each its own
    #[arg(long, value_name = "INDEXES")]
    pub array: Option<Array>,
    /// Jobs that must have started before it starts
    #[arg(long, value_name = "JOB", value_delimiter = ',')]
    pub after: Vec<JobNumber>,
    /// Jobs that must have succeeded before it starts; `12_3` is an element of an array
    #[arg(long, value_name = "JOB", value_delimiter = ',')]
    pub after_ok: Vec<JobNumber>,
    /// Jobs that must be over before it starts
    #[arg(long, value_name = "JOB", value_delimiter = ',')]
    pub after_any: Vec<JobNumber>,
    /// Jobs that must have failed before it starts
    #[arg(long, value_name = "JOB", value_delimiter = ',')]
    pub after_not_ok: Vec<JobNumber>,
    /// Arrays whose element of the same index must have succeeded before an element starts
    #[arg(long, value_name = "JOB", value_delimiter = ',')]
    pub after_corr: Vec<JobNumber>,
    /// Start it only after all earlier jobs of the same name and user
    #[arg(long)]
    pub singleton: bool,
    /// How often it is run again where it fails
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// An exit code after which it is run again [default: any but 0]
    #[arg(long = "retry-code", value_name = "CODE", value_delimiter = ',', allow_negative_numbers = true)]
    pub retry_codes: Vec<i32>,
    /// How often it is run again after a cause, as in `out-of-memory=0`; may be given several times
    #[arg(long = "retry", value_name = "CAUSE=N", value_parser = retry_rule)]
    pub retry: Vec<(String, u32)>,
    /// How long it waits after its first failure, doubled with each further one [default: 1s]
    #[arg(long, value_name = "DURATION")]
    pub retry_delay: Option<Seconds>,
    /// On whose account its use is booked [default: your group]
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// A variable of its environment; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// A file with variables, as NAME=VALUE lines
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
    /// A secret variable, never shown: NAME (from this shell), NAME=env:OTHER or NAME=file:PATH; may be given several times
    #[arg(long = "secret", value_name = "NAME[=SOURCE]", value_parser = SecretSources::flag)]
    pub secrets: Vec<(String, SecretSource)>,
    /// What it gets of this shell's environment: `USUAL`, `ALL`, `NONE`, or names, as in `USUAL,EDITOR,B=1`
    #[arg(long, value_name = "NAMES")]
    pub export: Option<Export>,
    /// Activate a conda environment
    #[arg(long, value_name = "NAME")]
    pub conda: Option<String>,
    /// Activate a Python virtual environment
    #[arg(long, value_name = "DIR")]
    pub venv: Option<String>,
    /// Load an environment module; may be given several times
    #[arg(long = "module", value_name = "NAME")]
    pub modules: Vec<String>,
    /// Run a line of shell before the command; may be given several times
    #[arg(long = "activate", value_name = "LINE")]
    pub lines: Vec<String>,
    /// A resource limit, as in `nofile=65536` or `memlock=unlimited`
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit)]
    pub limits: Vec<(String, Limit)>,
    /// The network interface for NCCL and Gloo
    #[arg(long, value_name = "NAME")]
    pub network_interface: Option<String>,
    /// The folder that it runs in [default: this one]
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<String>,
    /// A file for its output; `%j` is the job, `%x` its name, `%a` the array index, `%n` the node's rank
    #[arg(long, value_name = "PATH")]
    pub output_file: Option<String>,
    /// A file for its standard error [default: with the output]
    #[arg(long, value_name = "PATH")]
    pub error_file: Option<String>,
    /// A moment to tell of [default: end]
    #[arg(long, value_name = "MOMENT", value_delimiter = ',', value_enum)]
    pub notify_on: Vec<Moments>,
    /// A program that the head runs to tell, split into words
    #[arg(long, value_name = "LINE")]
    pub notify_command: Option<Words>,
    /// An address that is told
    #[arg(long, value_name = "ADDRESS")]
    pub notify_webhook: Option<String>,
    /// Who gets a letter, through the head's sendmail
    #[arg(long, value_name = "ADDRESS")]
    pub notify_mail: Option<String>,
    /// Checkpoint directory [default: one of the job's own]
    #[arg(long, value_name = "DIR")]
    pub checkpoint_dir: Option<String>,
    /// An exit code that means "I was interrupted, run me again"
    #[arg(long = "resume-code", value_name = "CODE", value_delimiter = ',', allow_negative_numbers = true)]
    pub resume_codes: Vec<i32>,
    /// Action at the time limit [default: stop]
    #[arg(long, value_name = "ACTION", value_enum)]
    pub on_time_limit: Option<OnTimeLimit>,
    /// Time without progress after which it counts as stalled, or `never` [default: from the intervals between its reports]
    #[arg(long, value_name = "DURATION")]
    pub stall_timeout: Option<StallTimeout>,
    /// Action when it has stalled [default: report]
    #[arg(long, value_name = "ACTION", value_enum)]
    pub on_stall: Option<OnStall>,
    /// Reaction to a metric that is NaN or infinite [default: ignore]
    #[arg(long, value_name = "REACTION", value_enum)]
    pub on_nan: Option<OnNan>,
    /// What it is told to stop with [default: TERM]
    #[arg(long, value_name = "SIGNAL")]
    pub stop_signal: Option<StopSignal>,
    /// How long it may take to stop [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub grace: Option<Seconds>,
    /// How its processes come to be on its gang [default: plain]
    #[arg(long, value_name = "NAME", value_enum)]
    pub launcher: Option<Launcher>,
    /// Let a Ray cluster that is there already run it, by the address of its dashboard: `http://host:8265`
    #[arg(long, value_name = "ADDRESS")]
    pub ray_address: Option<String>,
    /// Hand it to a Slurm as one of Slurm's own jobs, instead of to the head
    #[arg(long)]
    pub slurm: bool,
    /// An option of sbatch, as in `--partition=gpu`; may be given several times
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, requires = "slurm")]
    pub slurm_option: Vec<String>,
    /// Tell it a plan of data parallelism on all its devices, where no profile knows a better one
    #[arg(long)]
    pub data_parallel: bool,
    /// What it trains, for policies that know models
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// With which batch size
    #[arg(long, value_name = "N")]
    pub batch_size: Option<u32>,
    /// How many iterations it needs
    #[arg(long, value_name = "N")]
    pub iterations: Option<f64>,
    /// How many milliseconds one takes alone
    #[arg(long, value_name = "MS")]
    pub iteration_ms: Option<f64>,
    /// Submit it held: it starts when it is released
    #[arg(long)]
    pub held: bool,
    /// Run it in a container of this image: a name, or on the node a folder, a .tar.gz, a .sqfs, a .sif
    #[arg(long = "container", value_name = "IMAGE")]
    pub image: Option<String>,
    /// What runs the container [default: what the node has that fits the image]
    #[arg(long, value_name = "NAME", value_enum)]
    pub runtime: Option<Runtime>,
    /// A part of the node that the container sees, as SRC:DST or SRC:DST:ro; may be given several times
    #[arg(long = "mount", value_name = "SRC:DST")]
    pub mounts: Vec<job::Mount>,
    /// The folder that it runs in, within the container [default: the job's, which the container then sees]
    #[arg(long, value_name = "DIR")]
    pub container_workdir: Option<String>,
    /// Run it on the node itself, whatever container the file says
    #[arg(long, conflicts_with_all = ["image", "runtime", "mounts", "container_workdir"])]
    pub no_container: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    pair(text)
}

fn limit(text: &str) -> Result<(String, Limit), String> {
    let (name, value) = pair(text)?;
    value.parse().map(|limit| (name, limit)).map_err(|error| format!("{error}"))
}

fn retry_rule(text: &str) -> Result<(String, u32), String> {
    let (cause, count) = pair(text).map_err(|_| "expected CAUSE=N".to_owned())?;
    let known = Cause::RETRIED.map(Cause::word);
    if !known.contains(&cause.as_str()) {
        return Err(format!("`{cause}` is no cause; it can be {}", known.join(", ")));
    }
    count.parse().map(|count| (cause, count)).map_err(|_| format!("`{count}` is not a number"))
}

/// A relative path of a flag is about this folder, a field of a file about the file's.
fn of_here(text: String) -> String {
    if !text.starts_with("./") && !text.starts_with("../") {
        return text;
    }
    std::path::absolute(&text).map_or(text, |path| path.to_string_lossy().into_owned())
}

fn mount_of_here(mount: job::Mount) -> job::Mount {
    job::Mount { src: mount.src.map(of_here), ..mount }
}

/// A list that was given.
fn some<T>(list: &[T]) -> Option<Vec<T>>
where
    T: Clone,
{
    (!list.is_empty()).then(|| list.to_vec())
}

/// A map of fields, where any was given.
fn given<T: Default + PartialEq>(record: T) -> Option<T> {
    (record != T::default()).then_some(record)
}

impl SubmitArgs {
    /// What the flags say, as a job file would.
    pub fn to_job(&self) -> Job {
        self.job.to_job(&self.command)
    }
}

impl JobFlags {
    /// What the flags say of a job with this command, as a job file would.
    pub fn to_job(&self, command: &[String]) -> Job {
        let Self { gang, types, .. } = self;
        let flags = self;
        let jobs = |ids: &[JobNumber]| some(&ids.iter().map(|&id| job::JobRef::Id(id)).collect::<Vec<_>>());
        Job {
            name: flags.name.clone(),
            command: some(command).map(Words),
            per_node: flags.per_node.then_some(true),
            pool: flags.pool.clone(),
            reservation: flags.reservation.clone(),
            array: flags.array.clone(),
            gang: given(job::Gang { types: some(types), ..gang.clone().unwrap_or_default() }),
            cpus: flags.cpus,
            memory: flags.memory,
            time_limit: flags.time_limit,
            priority: flags.priority,
            weight: flags.weight,
            deadline: flags.deadline,
            after: jobs(&flags.after),
            after_ok: jobs(&flags.after_ok),
            after_any: jobs(&flags.after_any),
            after_not_ok: jobs(&flags.after_not_ok),
            after_corr: jobs(&flags.after_corr),
            singleton: flags.singleton.then_some(true),
            retries: given(job::Retries { count: flags.retries, codes: some(&flags.retry_codes) }),
            retry: given(job::Retry(flags.retry.iter().cloned().collect())),
            retry_delay: flags.retry_delay,
            account: flags.account.clone(),
            network_interface: flags.network_interface.clone(),
            workdir: flags.workdir.clone(),
            output: flags.output_file.clone(),
            error: flags.error_file.clone(),
            on_time_limit: flags.on_time_limit,
            stall_timeout: flags.stall_timeout,
            on_stall: flags.on_stall,
            stop_signal: flags.stop_signal,
            grace: flags.grace,
            launcher: flags.launcher,
            executor: flags.executor(),
            data_parallel: flags.data_parallel.then_some(true),
            on_nan: flags.on_nan,
            model: flags.model.clone(),
            batch_size: flags.batch_size,
            iterations: flags.iterations,
            iteration_ms: flags.iteration_ms,
            held: flags.held.then_some(true),
            ..flags.surroundings()
        }
    }

    /// Who is to run it, where that is not the head.
    fn executor(&self) -> Option<Executor> {
        let options = some(&self.slurm_option);
        let slurm = self.slurm.then(|| SlurmExecutor { options, ..SlurmExecutor::default() });
        given(Executor { ray: self.ray_address.clone(), slurm })
    }

    /// The part of a job that is about what surrounds it.
    fn surroundings(&self) -> Job {
        let limits = job::Limits(self.limits.iter().cloned().collect());
        let file = |path: &PathBuf| {
            // The flag is about this folder, a field of a file about the file's.
            std::path::absolute(path).unwrap_or_else(|_| path.clone()).to_string_lossy().into_owned()
        };
        Job {
            env: some(&self.env).map(|env| env.into_iter().collect()),
            env_file: self.env_file.as_ref().map(file),
            secrets: some(&self.secrets).map(|secrets| SecretSources(secrets.into_iter().collect())),
            export: self.export.clone(),
            activate: given(job::Activate {
                conda: self.conda.clone(),
                venv: self.venv.clone(),
                modules: some(&self.modules),
                lines: some(&self.lines),
            }),
            limits: given(limits),
            container: given(job::Container {
                image: self.image.clone().map(of_here),
                runtime: self.runtime,
                mounts: some(&self.mounts).map(|mounts| mounts.into_iter().map(mount_of_here).collect()),
                workdir: self.container_workdir.clone(),
                ..job::Container::default()
            }),
            notify: given(job::Notify {
                on: some(&self.notify_on),
                command: self.notify_command.clone(),
                webhook: self.notify_webhook.clone(),
                mail: self.notify_mail.clone(),
            }),
            checkpoint: given(job::Checkpoint {
                dir: self.checkpoint_dir.clone(),
                resume_codes: some(&self.resume_codes),
            }),
            ..Job::default()
        }
    }
}
