//! `wharf head`, `wharf worker`, and commands about a running cluster.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use wharf_head::{Caps, CheckpointSettings, Network};
use wharf_job::{JobNumber, Seconds, Size, Words};
use wharf_worker::{ContainerMount, ContainerRuntime};

use super::{HeadCommand, LogFormat, Ttl, env};

/// State directory of a cluster.
#[derive(Debug, Args)]
pub struct HomeArgs {
    /// State directory with the head's journal, address and token [default: ~/.local/state/wharf]
    #[arg(long, value_name = "DIR", env = env::HOME.name, hide_env_values = true)]
    pub home: Option<PathBuf>,
}

/// `wharf head`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf head                                  Listen on loopback; policy fifo with backfill
  wharf head --policy srtf                    Use another policy
  wharf head --listen 0.0.0.0:7717            Listen on all interfaces; prints how workers join
  wharf head --http 127.0.0.1:7718            Serve the dashboard on this machine
  wharf head --home /tmp/lab --listen 127.0.0.1:0")]
#[command(args_conflicts_with_subcommands = true)]
pub struct HeadArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: Option<HeadCommand>,
    /// State directory of the head.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7717")]
    pub listen: SocketAddr,
    /// Scheduling policy [default: the last one used in this state directory; at first fifo with backfill]
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Setting of the policy, as key=value; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Throughput profile: a profile database, a table, a folder of them, `default` or `none`
    /// [default: the built-in profile where device types are mixed]
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Seconds until the jobs of an unreachable node are restarted on other nodes
    ///
    /// The time starts when the connection is found broken: immediately if the worker process ends, after 20 seconds without
    /// a message if the machine or the network fails. Jobs are restarted once the node itself must have stopped them, which
    /// is half of this time plus 5 seconds later.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub lost_after: f64,
    /// sendmail-compatible program for email about jobs
    #[arg(long, value_name = "FILE", default_value = wharf_head::notify::SENDMAIL)]
    pub sendmail: PathBuf,
    /// Default time to expiry of tokens: seconds, a number with s, m, h or d, or `never`
    #[arg(long, value_name = "TIME", default_value = "90d")]
    pub token_ttl: Ttl,
    /// Private address or network to which webhooks may connect, as in 10.0.0.0/8; may be given several times
    #[arg(long, value_name = "NETWORK")]
    pub webhook_allow: Vec<Network>,
    /// Allow jobs of root on a head that serves several users
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allow_root: bool,
    /// Parent of the checkpoint directories of jobs that do not set one
    ///
    /// Each job, and each element of an array, gets its own directory below it. A relative path is relative to the working
    /// directory of the job; `%u` is the job's user. Use a file system shared by all nodes if jobs move between nodes.
    #[arg(long, value_name = "DIR", default_value = CheckpointSettings::ROOT)]
    pub checkpoint_root: String,
    /// Time from a job's end, and from the last change of its checkpoint directory, to the directory's removal
    #[arg(long, value_name = "TIME", default_value = "30d")]
    pub checkpoint_retention: Seconds,
    /// HTTP server for browsers and Prometheus.
    #[command(flatten)]
    pub http: HttpArgs,
    /// Limits per request and per user.
    #[command(flatten)]
    pub caps: CapArgs,
    /// Format of the log on standard error
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// Limits per request and per user.
#[derive(Debug, Args)]
#[command(next_help_heading = "Caps")]
pub struct CapArgs {
    /// Maximum number of jobs submitted or changed by one request; array elements and dependencies count
    #[arg(long, value_name = "N", default_value_t = Caps::default().request_jobs)]
    pub max_request_jobs: u32,
    /// Maximum size of one request in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Caps::default().request_bytes)]
    pub max_request_bytes: usize,
    /// Maximum number of unfinished jobs of one user, and of dependencies between single jobs
    #[arg(long, value_name = "N", default_value_t = Caps::default().user_jobs)]
    pub max_user_jobs: u32,
    /// Maximum number of queued requests; further ones are rejected
    #[arg(long, value_name = "N", default_value_t = Caps::default().queue)]
    pub max_queue: usize,
    /// Highest priority that a user may set; administrators may exceed it
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

/// Default address of the dashboard.
pub(super) const DASHBOARD: &str = "127.0.0.1:7718";

/// HTTP server of a head.
#[derive(Debug, Args)]
pub struct HttpArgs {
    /// Serve the dashboard, /metrics, /healthz and /readyz at this address; port 0 selects a free port
    ///
    /// Loopback addresses use HTTP, others HTTPS with the head's certificate. Users log in with their tokens.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = DASHBOARD)]
    pub http: Option<SocketAddr>,
    /// Serve plain HTTP on other than loopback addresses too, behind a proxy that terminates TLS
    #[arg(long, requires = "http")]
    pub http_plain: bool,
    /// Make the dashboard read-only
    #[arg(long, requires = "http")]
    pub http_read_only: bool,
}

/// `wharf worker`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf worker                                Offer the devices of this machine to the local head
  wharf worker --devices v100:4               Declare devices instead of detecting them
  wharf worker --node left --devices cpu:2    Name one of several workers on a machine
  wharf worker --head node1:7717 --join-token-file join.token --address node7
  wharf worker --leave-when-idle 10m          Deregister and exit when idle")]
pub struct WorkerArgs {
    /// State directory with the head's address and token.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Address of the head [default: the one in the state directory]
    #[arg(long, value_name = "HOST:PORT", env = env::HEAD.name, hide_env_values = true)]
    pub head: Option<String>,
    /// File with the join token; needed once [default: the one in the state directory]
    #[arg(long, value_name = "FILE")]
    pub join_token_file: Option<PathBuf>,
    /// Node name [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Devices of this machine, as TYPE:COUNT [default: its GPUs, else one slot per processor]
    #[arg(long, value_name = "TYPE:COUNT")]
    pub devices: Option<String>,
    /// Health check program, run every few seconds: exit code 0 if healthy, or lines `device N: problem`. Its arguments
    /// follow, so this must be the last option
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true)]
    pub health_check: Vec<String>,
    /// Address of this node for the other nodes of a gang
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub address: String,
    /// Network interface for gang communication (NCCL, Gloo, MPI) [default: the one with the address]
    #[arg(long, value_name = "NAME")]
    pub network_interface: Option<String>,
    /// Pool of this node
    #[arg(long, value_name = "NAME", default_value = "")]
    pub pool: String,
    /// Feature of this node, for `wharf sbatch --constraint`; may be given several times
    #[arg(long, value_name = "NAME")]
    pub feature: Vec<String>,
    /// Number of this node's network switch; gangs are placed on one switch if possible
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub switch: u32,
    /// Device numbers of the runtime, such as CUDA's, in the order of `--devices` [default: 0, 1, ...]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub device_numbers: Vec<u32>,
    /// Number of processors for jobs [default: all]
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// Memory for jobs, as in `64GiB` [default: all]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Size>,
    /// On SIGTERM or SIGINT, let jobs checkpoint and requeue them, instead of leaving them to the next worker
    #[arg(long)]
    pub leave: bool,
    /// Leave as with `--leave` after this idle time
    #[arg(long, value_name = "DURATION")]
    pub leave_when_idle: Option<Seconds>,
    /// Leave as with `--leave` at this time, in seconds since the Unix epoch
    #[arg(long, value_name = "SECONDS")]
    pub leave_at: Option<f64>,
    /// Container settings of this node
    #[command(flatten)]
    pub containers: ContainerArgs,
    /// Task settings of this node
    #[command(flatten)]
    pub tasks: TaskArgs,
    /// Accept tasks without running them, for measurements
    #[arg(long, value_name = "MODE", hide = true)]
    pub rehearse: Option<RehearsalArg>,
    /// Format of the log on standard error
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// Container settings of a node.
#[derive(Debug, Args)]
#[command(next_help_heading = "Containers")]
pub struct ContainerArgs {
    /// Default container runtime of jobs [default: an installed one that supports the image]
    #[arg(long, value_name = "NAME")]
    pub container_runtime: Option<ContainerRuntime>,
    /// Command of the container runtime with global options, as in `podman --root /scratch/images`
    #[arg(long, value_name = "LINE")]
    pub container_command: Option<Words>,
    /// Socket of docker or podman, as in unix:///run/podman/podman.sock [default: the runtime's own default]
    #[arg(long, value_name = "ADDRESS")]
    pub container_socket: Option<String>,
    /// Path to mount into all containers, as SRC, SRC:DST or SRC:DST:ro; may be given several times
    #[arg(long, value_name = "SRC:DST")]
    pub container_bind: Vec<ContainerMount>,
    /// Path to mount into containers that request InfiniBand; may be given several times
    #[arg(long, value_name = "PATH", default_values = ["/etc/libibverbs.d", "/dev/infiniband"])]
    pub infiniband_bind: Vec<String>,
    /// Maximum disk space for unpacked images; the least recently used are removed; 0K: no limit
    #[arg(long, value_name = "SIZE", default_value = "200GiB")]
    pub image_cache: Size,
    /// Copy the NVIDIA driver libraries into Charliecloud images with `ch-fromhost`, once per image
    #[arg(long)]
    pub ch_fromhost: bool,
    /// Time after which an idle container of a node is removed
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub container_idle: Seconds,
}

/// Task settings of a node.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tasks")]
pub struct TaskArgs {
    /// Environment variable of the worker that tasks inherit in addition to session variables such as PATH; `NCCL_*` matches a
    /// prefix; may be given several times
    #[arg(long, value_name = "NAME")]
    pub pass_env: Vec<String>,
    /// Highest value of a resource limit that jobs may request, as in `memlock=unlimited`; may be given several times
    /// [default: the worker's own limits]
    #[arg(long, value_name = "NAME=VALUE")]
    pub max_limit: Vec<MaxLimit>,
    /// Device file, with `{}` for the device number, as in `/dev/davinci{}`: jobs of a root worker can open only those of their devices;
    /// may be given several times [default: those of NVIDIA's and AMD's drivers]
    #[arg(long, value_name = "PATTERN")]
    pub device_file: Vec<String>,
    /// Maximum size of a task's stored output; the middle of longer output is dropped; 0K: no limit
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub output_limit: Size,
    /// Retention time of a task's output after its end
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    pub output_retention: Seconds,
    /// Minimum free disk space for starting tasks, capped at a twentieth of the disk
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

/// Behaviour of tasks that are not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RehearsalArg {
    /// Tasks end immediately
    End,
    /// Tasks appear to run until they are stopped
    Hold,
}

/// `wharf supervisor`, started by the worker.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (started by wharf worker)")]
pub struct SupervisorArgs {
    /// The worker's state directory
    #[arg(long, value_name = "DIR")]
    pub state_dir: PathBuf,
    /// Ignore termination signals; the worker stops it
    #[arg(long, hide = true)]
    pub through_signals: bool,
    /// Execute the task described on standard input
    #[arg(long, hide = true)]
    pub stage: bool,
}

/// `wharf explain`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf explain 3
  wharf explain 12_3
  wharf explain --run results 17            Waits, starts and preemptions of a simulated job")]
pub struct ExplainJobArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Explain a simulated job: directory written by `wharf sim --out`
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
    /// Job id (`12_3` is an array element); with `--run`, the job's name in the trace
    pub job: String,
}

/// `wharf job`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf job 3
  wharf job 12_3")]
pub struct JobArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Job id; `12_3` is an array element
    pub job: JobNumber,
}

/// `wharf logs`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf logs 3
  wharf logs --follow 3                Follow until the job ends, across requeues
  wharf logs --run 1 3                 Output of the first run
  wharf logs --all-runs 3")]
pub struct LogsArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Follow until the job ends, across requeues and retries; with `--run`, until that run ends
    #[arg(long, short)]
    pub follow: bool,
    /// Run number, from 1 [default: the last]
    #[arg(long, value_name = "N", conflicts_with = "all_runs")]
    pub run: Option<u32>,
    /// Print the output of all runs, in order
    #[arg(long, conflicts_with = "follow")]
    pub all_runs: bool,
    /// Node rank in the gang [default: 0; for a failed job, the rank that failed]
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// Job id; `12_3` is an array element
    pub job: JobNumber,
}
