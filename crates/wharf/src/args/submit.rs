//! `wharf submit`

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::Args;
use wharf_job::{
    Array, Container, Deadline, Executor, Export, Format, Job, JobNumber, Launcher, Limit, Moments, Mount,
    OnNan, OnStall, OnTimeLimit, Runtime, Seconds, SecretSource, SecretSources, Size, SlurmExecutor,
    StallTimeout, StopSignal, Words, job,
};
use wharf_proto::Cause;

use super::choice::one_of;
use super::cluster::HomeArgs;
use super::value::{ArgError, no_cause, pair};

/// `wharf submit`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf submit -- python train.py
  wharf submit job.yaml
  wharf submit job.yaml --gang 2x4 --time-limit 1d     Override fields of the file
  wharf submit --gang 4 --type v100 --wait -- torchrun train.py
  wharf submit --after-ok 3 --array 0-99 -- ./evaluate.sh
  wharf submit --container ubuntu:22.04 --mount ./data:/data -- ls /data
  wharf submit --example yaml > job.yaml               Print an example job file
  wharf submit job.yaml --dry-run                      Show what would be submitted
  wharf submit --ray-address http://node1:8265 --follow -- python train.py     Submit to a Ray cluster
  wharf submit job.yaml --slurm --wait                 Submit to Slurm
  wharf submit --trace jobs.csv --time-scale 60        Submit each row at its time; an hour takes a minute
  wharf submit --trace jobs.csv --now -- python train.py --steps {iterations}")]
pub struct SubmitArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Job file (.yaml, .toml or .json), or `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Format of the file [default: by file extension]
    #[arg(long, value_name = "FORM", value_parser = one_of::<Format>())]
    pub format: Option<Format>,
    /// Print an example job file and exit
    #[arg(long, value_name = "FORM", value_parser = one_of::<Format>(), conflicts_with_all = ["file", "command"])]
    pub example: Option<Format>,
    /// Print the job without submitting it
    #[arg(long, conflicts_with_all = ["wait", "follow"])]
    pub dry_run: bool,
    /// Submit every row of a trace as a job: a process that runs as long as the performance model predicts, or the command
    /// with the row's {job}, {user}, {devices}, {iterations}, {iteration_ms}, {duration_s}, {model}, {batch_size} and
    /// {submit_s} filled in
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "example", "follow", "array", "per_node", "name"])]
    pub trace: Option<PathBuf>,
    /// Start at time 0 of the trace [default: submit the first row immediately]
    #[arg(long, requires = "trace")]
    pub keep_offset: bool,
    /// Speed-up factor for trace times and job lengths
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "trace")]
    pub time_scale: f64,
    /// Submit all rows immediately
    #[arg(long, requires = "trace")]
    pub now: bool,
    /// Wait for the job to end and exit with its exit code
    #[arg(long)]
    pub wait: bool,
    /// Wait and print the job's output while it runs
    #[arg(long)]
    pub follow: bool,
    /// Continue an earlier job: use its checkpoint directory
    #[arg(long, value_name = "JOB", conflicts_with_all = ["trace", "checkpoint_dir", "array", "dry_run"])]
    pub resume_from: Option<JobNumber>,
    /// Run as root on a head that serves several users (admin only)
    #[arg(long)]
    pub allow_root: bool,
    /// Job.
    #[command(flatten)]
    pub job: JobFlags,
    /// Command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Job as flags. Each overrides the field of a job file with its name.
#[derive(Debug, Args)]
#[command(next_help_heading = "The job")]
pub struct JobFlags {
    /// Job name [default: the program's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Submit as another user (admin only)
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Devices, allocated together: `4`, `2x4` (nodes x devices), `2-8` (elastic) [default: 1]
    #[arg(long, value_name = "DEVICES")]
    pub gang: Option<job::Gang>,
    /// Allowed device type; may be given several times, in order of preference
    #[arg(long = "type", value_name = "TYPE")]
    pub types: Vec<String>,
    /// Run once on every node of the pool
    #[arg(long)]
    pub per_node: bool,
    /// Pool to run in
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// Reservation to run in
    #[arg(long, value_name = "NAME")]
    pub reservation: Option<String>,
    /// Processors per device
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// Memory per device, as in `4GiB`
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Size>,
    /// Priority; jobs with larger numbers go first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// Fair-share weight, for proportional-share policies [default: 1]
    #[arg(long, value_name = "WEIGHT")]
    pub weight: Option<f64>,
    /// Time limit: `90s`, `1h30m`, `1-02:03:04`
    #[arg(long, value_name = "DURATION")]
    pub time_limit: Option<Seconds>,
    /// Deadline: `2027-01-31T18:00` or `+6h`
    #[arg(long, value_name = "MOMENT")]
    pub deadline: Option<Deadline>,
    /// Array indexes, as in `0-99` or `1,3,5-9:2`; each element has its index in `WHARF_ARRAY_INDEX`
    #[arg(long, value_name = "INDEXES")]
    pub array: Option<Array>,
    /// Dependency: jobs that must have started
    #[arg(long, value_name = "JOB", value_delimiter = ',')]
    pub after: Vec<JobNumber>,
    /// Dependency: jobs that must have succeeded; `12_3` is an array element
    #[arg(long, value_name = "JOB", value_delimiter = ',')]
    pub after_ok: Vec<JobNumber>,
    /// Dependency: jobs that must have ended
    #[arg(long, value_name = "JOB", value_delimiter = ',')]
    pub after_any: Vec<JobNumber>,
    /// Dependency: jobs that must have failed
    #[arg(long, value_name = "JOB", value_delimiter = ',')]
    pub after_not_ok: Vec<JobNumber>,
    /// Dependency per array element: arrays whose element with the same index must have succeeded
    #[arg(long, value_name = "JOB", value_delimiter = ',')]
    pub after_corr: Vec<JobNumber>,
    /// Start only after all earlier jobs of the same name and user
    #[arg(long)]
    pub singleton: bool,
    /// Maximum number of retries after failures
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Exit code to retry after [default: any but 0]
    #[arg(long = "retry-code", value_name = "CODE", value_delimiter = ',', allow_negative_numbers = true)]
    pub retry_codes: Vec<i32>,
    /// Maximum number of retries after a cause, as in `out-of-memory=0`; may be given several times
    #[arg(long = "retry", value_name = "CAUSE=N", value_parser = retry_rule)]
    pub retry: Vec<(String, u32)>,
    /// Delay before the first retry, doubled with each further one [default: 1s]
    #[arg(long, value_name = "DURATION")]
    pub retry_delay: Option<Seconds>,
    /// Account to charge [default: your group]
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// Environment variable; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub env: Vec<(String, String)>,
    /// File with environment variables, as NAME=VALUE lines
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
    /// Secret environment variable, never shown: NAME (from this shell), NAME=env:OTHER or NAME=file:PATH; may be given several times
    #[arg(long = "secret", value_name = "NAME[=SOURCE]", value_parser = SecretSources::flag)]
    pub secrets: Vec<(String, SecretSource)>,
    /// Exported variables of this shell: `USUAL`, `ALL`, `NONE`, or names, as in `USUAL,EDITOR,B=1`
    #[arg(long, value_name = "NAMES")]
    pub export: Option<Export>,
    /// Conda environment to activate
    #[arg(long, value_name = "NAME")]
    pub conda: Option<String>,
    /// Python virtual environment to activate
    #[arg(long, value_name = "DIR")]
    pub venv: Option<String>,
    /// Environment module to load; may be given several times
    #[arg(long = "module", value_name = "NAME")]
    pub modules: Vec<String>,
    /// Shell command line to run before the command; may be given several times
    #[arg(long = "activate", value_name = "LINE")]
    pub lines: Vec<String>,
    /// Resource limit, as in `nofile=65536` or `memlock=unlimited`
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit)]
    pub limits: Vec<(String, Limit)>,
    /// Network interface for NCCL and Gloo
    #[arg(long, value_name = "NAME")]
    pub network_interface: Option<String>,
    /// Working directory [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<String>,
    /// Output file; `%j` is the job id, `%x` its name, `%a` the array index, `%n` the node rank
    #[arg(long, value_name = "PATH")]
    pub output_file: Option<String>,
    /// Standard error file [default: the output file]
    #[arg(long, value_name = "PATH")]
    pub error_file: Option<String>,
    /// Event to notify on [default: end]
    #[arg(long, value_name = "MOMENT", value_delimiter = ',', value_parser = one_of::<Moments>())]
    pub notify_on: Vec<Moments>,
    /// Notification program, run by the head, split into words
    #[arg(long, value_name = "LINE")]
    pub notify_command: Option<Words>,
    /// Webhook URL to call
    #[arg(long, value_name = "ADDRESS")]
    pub notify_webhook: Option<String>,
    /// Email address to notify
    #[arg(long, value_name = "ADDRESS")]
    pub notify_mail: Option<String>,
    /// Checkpoint directory [default: a new directory for the job]
    #[arg(long, value_name = "DIR")]
    pub checkpoint_dir: Option<String>,
    /// Exit code of an interrupted job, which is requeued
    #[arg(long = "resume-code", value_name = "CODE", value_delimiter = ',', allow_negative_numbers = true)]
    pub resume_codes: Vec<i32>,
    /// Action at the time limit [default: stop]
    #[arg(long, value_name = "ACTION", value_parser = one_of::<OnTimeLimit>())]
    pub on_time_limit: Option<OnTimeLimit>,
    /// Time without progress after which the job counts as stalled, or `never` [default: from the intervals between its reports]
    #[arg(long, value_name = "DURATION")]
    pub stall_timeout: Option<StallTimeout>,
    /// Action when the job has stalled [default: report]
    #[arg(long, value_name = "ACTION", value_parser = one_of::<OnStall>())]
    pub on_stall: Option<OnStall>,
    /// Reaction to a metric that is NaN or infinite [default: ignore]
    #[arg(long, value_name = "REACTION", value_parser = one_of::<OnNan>())]
    pub on_nan: Option<OnNan>,
    /// Stop signal [default: TERM]
    #[arg(long, value_name = "SIGNAL")]
    pub stop_signal: Option<StopSignal>,
    /// Grace period between the stop signal and SIGKILL [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub grace: Option<Seconds>,
    /// Process launcher [default: plain]
    #[arg(long, value_name = "NAME", value_parser = one_of::<Launcher>())]
    pub launcher: Option<Launcher>,
    /// Submit to an existing Ray cluster, by its dashboard address: `http://host:8265`
    #[arg(long, value_name = "ADDRESS")]
    pub ray_address: Option<String>,
    /// Submit to Slurm instead of the head
    #[arg(long)]
    pub slurm: bool,
    /// Option of sbatch, as in `--partition=gpu`; may be given several times
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, requires = "slurm")]
    pub slurm_option: Vec<String>,
    /// Default to data parallelism on all devices if no profile has a better plan
    #[arg(long)]
    pub data_parallel: bool,
    /// Model name, for model-aware policies
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Batch size
    #[arg(long, value_name = "N")]
    pub batch_size: Option<u32>,
    /// Total number of iterations
    #[arg(long, value_name = "N")]
    pub iterations: Option<f64>,
    /// Iteration time in milliseconds, without co-located jobs
    #[arg(long, value_name = "MS")]
    pub iteration_ms: Option<f64>,
    /// Submit as held; the job starts after `wharf release`
    #[arg(long)]
    pub held: bool,
    /// Container image: a name, or a directory, .tar.gz, .sqfs or .sif on the node
    #[arg(long = "container", value_name = "IMAGE")]
    pub image: Option<String>,
    /// Container runtime [default: one of the node's that supports the image]
    #[arg(long, value_name = "NAME", value_parser = one_of::<Runtime>())]
    pub runtime: Option<Runtime>,
    /// Path to mount into the container, as SRC:DST or SRC:DST:ro; may be given several times
    #[arg(long = "mount", value_name = "SRC:DST")]
    pub mounts: Vec<Mount>,
    /// Working directory in the container [default: the job's, which is mounted]
    #[arg(long, value_name = "DIR")]
    pub container_workdir: Option<String>,
    /// Run on the node itself, ignoring the job file's container
    #[arg(long, conflicts_with_all = ["image", "runtime", "mounts", "container_workdir"])]
    pub no_container: bool,
}

fn limit(text: &str) -> Result<(String, Limit), ArgError> {
    let (name, value) = pair(text)?;
    Ok((name, value.parse()?))
}

fn retry_rule(text: &str) -> Result<(String, u32), ArgError> {
    let (cause, count) = pair(text).map_err(|_| ArgError::NoPair("CAUSE=N"))?;
    let known = Cause::RETRIED.map(Cause::word);
    if !known.contains(&cause.as_str()) {
        return Err(no_cause(&cause, &known));
    }
    count.parse().map(|number| (cause, number)).map_err(|_| ArgError::Number(count))
}

/// A relative path of a flag is relative to the current directory, one of a file to the file's directory.
fn of_here(text: String) -> String {
    if !text.starts_with("./") && !text.starts_with("../") {
        return text;
    }
    std::path::absolute(&text).map_or(text, |path| path.to_string_lossy().into_owned())
}

fn mount_of_here(mount: Mount) -> Mount {
    Mount { src: mount.src.map(of_here), ..mount }
}

/// A list, if given.
fn some<T>(list: &[T]) -> Option<Vec<T>>
where
    T: Clone,
{
    (!list.is_empty()).then(|| list.to_vec())
}

/// A map of fields, if any is given.
fn given<T: Default + PartialEq>(record: T) -> Option<T> {
    (record != T::default()).then_some(record)
}

impl SubmitArgs {
    /// The flags as a job file.
    pub fn to_job(&self) -> Job {
        self.job.to_job(&self.command)
    }
}

impl JobFlags {
    /// The flags and a command as a job file.
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

    /// The executor, if it is not the head.
    fn executor(&self) -> Option<Executor> {
        let options = some(&self.slurm_option);
        let slurm = self.slurm.then(|| SlurmExecutor { options, ..SlurmExecutor::default() });
        given(Executor { ray: self.ray_address.clone(), slurm })
    }

    /// The job's environment and container.
    fn surroundings(&self) -> Job {
        let limits = job::Limits(self.limits.iter().cloned().collect());
        let file = |path: &PathBuf| {
            // The flag is relative to the current directory, a field of a file to the file's directory.
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
            container: given(Container {
                image: self.image.clone().map(of_here),
                runtime: self.runtime,
                mounts: some(&self.mounts).map(|mounts| mounts.into_iter().map(mount_of_here).collect()),
                workdir: self.container_workdir.clone(),
                ..Container::default()
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
