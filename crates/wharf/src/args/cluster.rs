//! `wharf head`, `wharf worker` and what is asked of a running cluster.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use wharf_head::{Caps, CheckpointSettings, Network};
use wharf_worker::{ContainerMount, ContainerRuntime};

use super::{HeadCommand, LogFormat, Ttl, env};
use crate::jobfile::{Seconds, Size, Words};
use crate::number::JobNumber;

/// Where a cluster keeps its state and its token.
#[derive(Debug, Args)]
pub struct HomeArgs {
    /// The folder with the head's journal, address and token [default: ~/.local/state/wharf]
    #[arg(long, value_name = "DIR", env = env::HOME.name, hide_env_values = true)]
    pub home: Option<PathBuf>,
}

/// `wharf head`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf head                                  Listen on loopback, serve first come first served with backfill
  wharf head --policy srtf                    Let another policy decide
  wharf head --listen 0.0.0.0:7717            Serve other machines too, and say how they join
  wharf head --http 127.0.0.1:7718            With the dashboard, for browsers on this machine
  wharf head --home /tmp/lab --listen 127.0.0.1:0")]
#[command(args_conflicts_with_subcommands = true)]
pub struct HeadArgs {
    /// Something else to do than to serve.
    #[command(subcommand)]
    pub command: Option<HeadCommand>,
    /// Where the head keeps its state.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The address to listen on; port 0 lets the system choose
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7717")]
    pub listen: SocketAddr,
    /// The policy that decides [default: the one that decided here before; at first fifo with backfill]
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// A setting of the policy, as key=value; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// How fast models run on which devices: a profile database, a table, a folder of them, `default` or `none`
    /// [default: the built-in profile where device types are mixed]
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,
    /// Seed of everything that is drawn at random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Seconds that a node may be away before its jobs are run elsewhere
    ///
    /// They count from when the connection is known to be broken: at once where a worker ends, but only after 20 seconds
    /// of silence where a machine or a network goes dark. Jobs are run elsewhere when the node itself must have
    /// stopped them, which is half as many seconds plus 5 later.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub lost_after: f64,
    /// The program that takes letters about jobs, called as sendmail is
    #[arg(long, value_name = "FILE", default_value = wharf_head::notify::SENDMAIL)]
    pub sendmail: PathBuf,
    /// Default time until a token expires: seconds, a number with s, m, h or d, or `never`
    #[arg(long, value_name = "TIME", default_value = "90d")]
    pub token_ttl: Ttl,
    /// Address or network that webhooks may target although it is not public, as in 10.0.0.0/8; may be given several times
    #[arg(long, value_name = "NETWORK")]
    pub webhook_allow: Vec<Network>,
    /// Let jobs of root run although the head serves several users
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allow_root: bool,
    /// Parent of the checkpoint directories of jobs that name none
    ///
    /// Each job, and each element of an array, gets a directory of its own below it. A relative path is below the working directory of
    /// each job; `%u` is the job's user. It has to be on a file system that all nodes share for jobs that move between nodes.
    #[arg(long, value_name = "DIR", default_value = CheckpointSettings::ROOT)]
    pub checkpoint_root: String,
    /// Time after a job's end, and after the last change in it, until its checkpoint directory below the root is removed
    #[arg(long, value_name = "TIME", default_value = "30d")]
    pub checkpoint_retention: Seconds,
    /// Serve the dashboard and metrics to browsers and Prometheus.
    #[command(flatten)]
    pub http: HttpArgs,
    /// Caps on what one request and one user can ask for.
    #[command(flatten)]
    pub caps: CapArgs,
    /// How to write what is logged to standard error
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// Caps on what one request and one user can ask for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Caps")]
pub struct CapArgs {
    /// Maximum number of jobs that one request submits or changes; array elements and dependencies count
    #[arg(long, value_name = "N", default_value_t = Caps::default().request_jobs)]
    pub max_request_jobs: u32,
    /// Maximum size of one request in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Caps::default().request_bytes)]
    pub max_request_bytes: usize,
    /// Maximum number of live jobs of one user, and of dependencies between single jobs
    #[arg(long, value_name = "N", default_value_t = Caps::default().user_jobs)]
    pub max_user_jobs: u32,
    /// Maximum number of requests that wait for the head; more are refused
    #[arg(long, value_name = "N", default_value_t = Caps::default().queue)]
    pub max_queue: usize,
    /// Highest priority that a user can give to a job; administrators are not bound by it
    #[arg(long, value_name = "N", default_value_t = Caps::default().user_priority, allow_negative_numbers = true)]
    pub max_user_priority: i32,
}

impl CapArgs {
    /// The caps of a head.
    pub(crate) fn caps(&self) -> Caps {
        Caps {
            request_jobs: self.max_request_jobs,
            request_bytes: self.max_request_bytes,
            user_jobs: self.max_user_jobs,
            queue: self.max_queue,
            user_priority: self.max_user_priority,
        }
    }
}

/// Where browsers find a head that is not told otherwise.
pub(super) const DASHBOARD: &str = "127.0.0.1:7718";

/// How a head serves browsers.
#[derive(Debug, Args)]
pub struct HttpArgs {
    /// Serve the dashboard, /metrics, /healthz and /readyz at this address; port 0 lets the system choose
    ///
    /// On loopback it is plain HTTP, elsewhere HTTPS with the head's own certificate. People log in with their tokens.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = DASHBOARD)]
    pub http: Option<SocketAddr>,
    /// Serve plain HTTP also where others could listen in, because something in front of it does HTTPS
    #[arg(long, requires = "http")]
    pub http_plain: bool,
    /// Let nobody change anything through the dashboard
    #[arg(long, requires = "http")]
    pub http_read_only: bool,
}

/// `wharf worker`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf worker                                Offer the devices of this machine to the local head
  wharf worker --devices v100:4               Say what there is instead of looking for it
  wharf worker --node left --devices cpu:2    Several workers on one machine need names
  wharf worker --head node1:7717 --join-token-file join.token --address node7
  wharf worker --leave-when-idle 10m          Go, with a farewell to the head, when there is nothing to do")]
pub struct WorkerArgs {
    /// Where the head's address and token are found.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The head's address [default: the one in the folder]
    #[arg(long, value_name = "HOST:PORT", env = env::HEAD.name, hide_env_values = true)]
    pub head: Option<String>,
    /// The file with the token that lets this worker join; needed once [default: the one in the folder]
    #[arg(long, value_name = "FILE")]
    pub join_token_file: Option<PathBuf>,
    /// The node's name [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// The devices that this machine offers, as TYPE:COUNT [default: its GPUs, else a slot for each processor]
    #[arg(long, value_name = "TYPE:COUNT")]
    pub devices: Option<String>,
    /// A program that says every few seconds whether this node is well: exit code 0, or lines `device N: problem`. Its
    /// arguments follow it, so this is the last option
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true)]
    pub health_check: Vec<String>,
    /// Where other nodes of a gang reach this one
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub address: String,
    /// The network interface that gangs talk through (NCCL, Gloo, MPI) [default: that which carries the address]
    #[arg(long, value_name = "NAME")]
    pub network_interface: Option<String>,
    /// The pool that this node belongs to; jobs can ask for one
    #[arg(long, value_name = "NAME", default_value = "")]
    pub pool: String,
    /// Something that this node has, for `wharf sbatch --constraint`; may be given several times
    #[arg(long, value_name = "NAME")]
    pub feature: Vec<String>,
    /// The switch that this node hangs on: gangs are kept on one where that can be
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub switch: u32,
    /// The numbers that the runtime has for the devices, such as CUDA's; their order is that of `--devices` [default: from 0 on]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub device_numbers: Vec<u32>,
    /// Processors that jobs may have here [default: all of this machine's]
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// Memory that jobs may have here, as in `64GiB` [default: all of this machine's]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Size>,
    /// When it is told to end, have jobs checkpoint and move on, instead of leaving them to the next worker
    #[arg(long)]
    pub leave: bool,
    /// The same when it has had nothing to do for so long
    #[arg(long, value_name = "DURATION")]
    pub leave_when_idle: Option<Seconds>,
    /// The same at this moment, in seconds since the Unix epoch
    #[arg(long, value_name = "SECONDS")]
    pub leave_at: Option<f64>,
    /// What runs containers here
    #[command(flatten)]
    pub containers: ContainerArgs,
    /// What tasks are granted here
    #[command(flatten)]
    pub tasks: TaskArgs,
    /// Do not run tasks, to measure everything around them
    #[arg(long, value_name = "MODE", hide = true)]
    pub rehearse: Option<RehearsalArg>,
    /// How to write what is logged to standard error
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// What a site says about containers on a node.
#[derive(Debug, Args)]
#[command(next_help_heading = "Containers")]
pub struct ContainerArgs {
    /// The runtime of jobs that leave it to the node [default: what is installed and fits the image]
    #[arg(long, value_name = "NAME")]
    pub container_runtime: Option<ContainerRuntime>,
    /// A runtime's program with options that it always gets, as in `podman --root /scratch/images`
    #[arg(long, value_name = "LINE")]
    pub container_command: Option<Words>,
    /// Where docker or podman listens, as in unix:///run/podman/podman.sock [default: where they usually do]
    #[arg(long, value_name = "ADDRESS")]
    pub container_socket: Option<String>,
    /// A part of this node that all containers see, as SRC, SRC:DST or SRC:DST:ro; may be given several times
    #[arg(long, value_name = "SRC:DST")]
    pub container_bind: Vec<ContainerMount>,
    /// What containers get that ask for InfiniBand; may be given several times
    #[arg(long, value_name = "PATH", default_values = ["/etc/libibverbs.d", "/dev/infiniband"])]
    pub infiniband_bind: Vec<String>,
    /// What unpacked images may take of the disk before the least recently used are removed; 0K: no limit
    #[arg(long, value_name = "SIZE", default_value = "200GiB")]
    pub image_cache: Size,
    /// Put the libraries of NVIDIA's driver into charliecloud's images, once each, where tasks have its devices
    #[arg(long)]
    pub ch_fromhost: bool,
    /// How long a container of a node stays when nothing is executed in it
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub container_idle: Seconds,
}

/// What a site grants the tasks of a node.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tasks")]
pub struct TaskArgs {
    /// Variable of the worker's environment that tasks inherit, beside those of a session such as PATH; `NCCL_*` stands for all
    /// that begin so; may be given several times
    #[arg(long, value_name = "NAME")]
    pub pass_env: Vec<String>,
    /// Highest value of a resource limit that jobs may ask for, as in `memlock=unlimited`; may be given several times
    /// [default: the worker's own limits]
    #[arg(long, value_name = "NAME=VALUE")]
    pub max_limit: Vec<MaxLimit>,
    /// Node of a device, with `{}` for its number, as in `/dev/davinci{}`: jobs of a root worker open those of their own devices only;
    /// may be given several times [default: those of NVIDIA's and AMD's drivers]
    #[arg(long, value_name = "PATTERN")]
    pub device_file: Vec<String>,
    /// What the output of a task may take of the worker's disk; of longer output the middle is left out; 0K: no limit
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub output_limit: Size,
    /// How long the output of a task is kept after its end
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    pub output_retention: Seconds,
    /// What has to be free on the worker's disk for tasks to be started, at most a twentieth of the disk
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub disk_reserve: Size,
}

/// A resource limit and its highest value; none: unlimited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxLimit(pub String, pub Option<u64>);

impl std::str::FromStr for MaxLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE, as in memlock=unlimited")?;
        let value = match value {
            "unlimited" => None,
            number => Some(
                number.parse().map_err(|_| format!("expected a number or `unlimited`, found `{number}`"))?,
            ),
        };
        Ok(Self(name.to_owned(), value))
    }
}

/// What becomes of tasks that are not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RehearsalArg {
    /// They end at once
    End,
    /// They seem to run until they are told to stop
    Hold,
}

/// `wharf keeper`: what the worker starts for itself.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (started by wharf worker)")]
pub struct KeeperArgs {
    /// The worker's state directory
    #[arg(long, value_name = "DIR")]
    pub state_dir: PathBuf,
    /// Do not end when a signal says so: its worker tells it when
    #[arg(long, hide = true)]
    pub through_signals: bool,
    /// Become a task's process instead, as standard input describes it
    #[arg(long, hide = true)]
    pub stage: bool,
}

/// `wharf explain`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf explain 3
  wharf explain 12_3
  wharf explain --run results job-17        A job of a simulated run: its waits, starts and preemptions")]
pub struct ExplainJobArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Explain a job of simulated runs instead: a folder that `wharf sim --out` wrote
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
    /// The job's id (`12_3` is an element of an array); with `--run`, its name in the trace
    pub job: String,
}

/// `wharf job`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf job 3
  wharf job 12_3")]
pub struct JobArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The job's id; `12_3` is an element of an array
    pub job: JobNumber,
}

/// `wharf logs`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf logs 3
  wharf logs --follow 3                Through requeues, until it is over
  wharf logs --run 1 3                 What its first run wrote
  wharf logs --all-runs 3")]
pub struct LogsArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Continue until the job is over, through requeues and retries; with `--run`, until that run is
    #[arg(long, short)]
    pub follow: bool,
    /// The run, counted from 1 [default: the last]
    #[arg(long, value_name = "N", conflicts_with = "all_runs")]
    pub run: Option<u32>,
    /// All runs, one after the other
    #[arg(long, conflicts_with = "follow")]
    pub all_runs: bool,
    /// The node's rank in the gang [default: 0; of a job that failed, the rank that did]
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// The job's id; `12_3` is an element of an array
    pub job: JobNumber,
}
