//! Commands of launched clusters: `wharf up`, `wharf down`, `wharf cluster`, and commands and files on their nodes.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::value::{ArgError, pair};

/// Launched cluster and state directory of the launcher.
#[derive(Debug, Args)]
pub struct LaunchedArgs {
    /// Cluster file: Ray's YAML, or Crius' `cluster_spec.json` with addresses
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// State directory of the launcher [default: ~/.local/state/wharf]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// `wharf up`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf up cluster.yaml --check        Check the file
  wharf up cluster.yaml --dry-run      Show the actions on each node and their reasons
  wharf up cluster.yaml                Create or update the cluster, or retry after a failure
  wharf up cluster.yaml --no-restart   Copy files and run setup without restarting daemons
  wharf up cluster.yaml --restart-only")]
pub struct UpArgs {
    /// Cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// Check the file only
    #[arg(long, conflicts_with = "dry_run")]
    pub check: bool,
    /// Show the actions on each node and their reasons, without performing them
    #[arg(long)]
    pub dry_run: bool,
    /// Do not restart running daemons, even if their start commands have changed
    #[arg(long, conflicts_with = "restart_only")]
    pub no_restart: bool,
    /// Restart the daemons without running setup
    #[arg(long)]
    pub restart_only: bool,
    /// Minimum number of workers [default: as in the file, or all]
    #[arg(long, value_name = "N")]
    pub min_workers: Option<usize>,
    /// Maximum number of nodes processed in parallel
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parallel)]
    pub parallel: usize,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
}

/// `wharf down`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf down cluster.yaml
  wharf down cluster.yaml -y
  wharf down cluster.yaml --forget     Ignore unreachable nodes")]
pub struct DownArgs {
    /// Cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// Forget unreachable nodes; processes there keep running
    #[arg(long)]
    pub forget: bool,
    /// Maximum number of nodes processed in parallel
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parallel)]
    pub parallel: usize,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
}

/// Terminal window on the node.
#[derive(Debug, Args)]
pub struct WindowArgs {
    /// Run in a tmux window, which persists after disconnecting
    #[arg(long, conflicts_with = "screen")]
    pub tmux: bool,
    /// Run in a GNU screen window, which persists after disconnecting
    #[arg(long)]
    pub screen: bool,
}

/// `wharf attach`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf attach cluster.yaml                      Open a shell on the head
  wharf attach cluster.yaml --tmux               Open or reattach to a tmux window
  wharf attach cluster.yaml -p 8888 -p 6006      Forward two ports of the head
  wharf attach cluster.yaml --node 10.0.0.7")]
pub struct AttachArgs {
    /// Cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// Node [default: the head]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Terminal window.
    #[command(flatten)]
    pub window: WindowArgs,
    /// Open a new window even if one exists
    #[arg(long)]
    pub new: bool,
    /// Port of the node to forward to this machine; may be given several times
    #[arg(long, short, value_name = "PORT")]
    pub port_forward: Vec<u16>,
}

/// `wharf rsync-up`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf rsync-up cluster.yaml train.py train.py       Copy to the home directory on the head
  wharf rsync-up cluster.yaml data/ /scratch/data -A  To all nodes
  wharf rsync-up cluster.yaml                         Copy all file_mounts")]
pub struct RsyncUpArgs {
    /// Cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// Local file or directory [default: all file_mounts]
    #[arg(value_name = "SRC", requires = "target")]
    pub source: Option<PathBuf>,
    /// Path on the node, relative to the home directory unless it begins with `/`
    #[arg(value_name = "DST")]
    pub target: Option<String>,
    /// Copy to all nodes, not only the head
    #[arg(long, short = 'A')]
    pub all: bool,
}

/// `wharf rsync-down`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf rsync-down cluster.yaml results .                Copy from the home directory on the head
  wharf rsync-down cluster.yaml /tmp/log logs -A         Copy from all nodes to logs/NODE/log")]
pub struct RsyncDownArgs {
    /// Cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// File or directory on the node, relative to the home directory unless it begins with `/`
    #[arg(value_name = "SRC")]
    pub source: String,
    /// Local path
    #[arg(value_name = "DST")]
    pub target: PathBuf,
    /// Copy from all nodes, each into a directory with its name
    #[arg(long, short = 'A')]
    pub all: bool,
}

/// `wharf get-head-ip`, `wharf get-worker-ips`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf get-head-ip cluster.yaml
  wharf get-worker-ips cluster.yaml")]
pub struct AddressArgs {
    /// Cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
}

/// Subcommands of `wharf cluster`.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Run a command on the head, on one node or on all nodes
    Exec(ClusterExecArgs),
    /// Copy a script to the head and run it there, outside the scheduler
    Submit(ClusterSubmitArgs),
    /// Show the launch state and the daemons of every node
    Status(ClusterStatusArgs),
    /// Print the launch log or the daemon logs of a node
    Logs(ClusterLogsArgs),
    /// Set up one machine, create an image from it, and fill a template with the image
    Bake(ClusterBakeArgs),
    /// Fill the `{ placeholders }` of a template
    Render(ClusterRenderArgs),
}

/// Values of placeholders.
#[derive(Debug, Args)]
pub struct ValuesArgs {
    /// Value of a placeholder; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub set: Vec<(String, String)>,
    /// File (YAML, JSON) with values of placeholders; `--set` takes precedence
    #[arg(long, value_name = "FILE")]
    pub values: Option<PathBuf>,
    /// Output file [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// `wharf cluster render`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cluster render template.yaml --set 'AMI ID=ami-0a1b2c3d' --set 'EFS ID=fs-1234' --to cluster.yaml
  wharf cluster render template.yaml --values ours.yaml")]
pub struct ClusterRenderArgs {
    /// Template file
    #[arg(value_name = "TEMPLATE")]
    pub template: PathBuf,
    /// Values.
    #[command(flatten)]
    pub values: ValuesArgs,
}

/// `wharf cluster bake`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cluster bake initial-cluster.yaml                       Create an image and print its name
  wharf cluster bake initial-cluster.yaml --template cluster-template.yaml --set 'EFS ID=fs-1234' --to cluster.yaml
  wharf cluster bake initial-cluster.yaml --keep                Keep the machine for inspection")]
pub struct ClusterBakeArgs {
    /// Cluster whose head is set up without starting daemons.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// Image name [default: from the cluster name and a hash of the setup]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Template to fill
    #[arg(long, value_name = "TEMPLATE")]
    pub template: Option<PathBuf>,
    /// Placeholder for the image [default: the one whose name contains `ami` or `image`]
    #[arg(long, value_name = "NAME", requires = "template")]
    pub image_as: Option<String>,
    /// Other values.
    #[command(flatten)]
    pub values: ValuesArgs,
    /// Keep the machine after creating the image
    #[arg(long)]
    pub keep: bool,
}

/// `wharf cluster exec`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cluster exec cluster.yaml -- nvidia-smi                   Run on the head and return its exit code
  wharf cluster exec cluster.yaml --all -- df -h /                Run on all nodes in parallel; lines have a node prefix
  wharf cluster exec cluster.yaml -- 'cd app && ls | wc -l'       Run a shell command line
  wharf cluster exec cluster.yaml --tmux -- python train.py       Run in a tmux window")]
pub struct ClusterExecArgs {
    /// Cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// Run on all nodes
    #[arg(long, conflicts_with_all = ["workers", "node"])]
    pub all: bool,
    /// Run on all workers
    #[arg(long, conflicts_with = "node")]
    pub workers: bool,
    /// Run on this node [default: the head]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Terminal window.
    #[command(flatten)]
    pub window: WindowArgs,
    /// Environment of the command on nodes with a container; `auto`: container, except for commands that begin with `docker` or `podman`
    #[arg(long, value_name = "PLACE", default_value = "auto")]
    pub run_env: RunEnvArg,
    /// Port of the node to forward to this machine; may be given several times
    #[arg(long, short, value_name = "PORT", conflicts_with_all = ["all", "workers"])]
    pub port_forward: Vec<u16>,
    /// Command and its arguments; a single argument is a shell command line
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Environment of a command on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunEnvArg {
    /// Container if the node has one, else host
    Auto,
    /// Host
    Host,
    /// Container
    Docker,
}

/// `wharf cluster submit`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cluster submit cluster.yaml train.py                        Copy to the home directory on the head and run with `python`
  wharf cluster submit cluster.yaml train.py -- --name 'a b'        Pass arguments
  wharf cluster submit cluster.yaml --tmux train.py                 Run in a tmux window
  wharf submit -- python train.py                                   Submit a scheduled job; see `wharf submit --help`")]
pub struct ClusterSubmitArgs {
    /// Cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// Local Python script
    #[arg(value_name = "SCRIPT")]
    pub script: PathBuf,
    /// Terminal window.
    #[command(flatten)]
    pub window: WindowArgs,
    /// Port of the node to forward to this machine; may be given several times
    #[arg(long, short, value_name = "PORT")]
    pub port_forward: Vec<u16>,
    /// Arguments of the script
    #[arg(last = true, value_name = "ARGS")]
    pub arguments: Vec<String>,
}

/// `wharf cluster status`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cluster status cluster.yaml
  wharf cluster status cluster.yaml --output json")]
pub struct ClusterStatusArgs {
    /// Cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
}

/// Daemon of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DaemonArg {
    /// Head
    Head,
    /// Worker
    Worker,
}

/// `wharf cluster logs`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cluster logs cluster.yaml                        Launch log of the head node
  wharf cluster logs cluster.yaml --node 10.0.0.7
  wharf cluster logs cluster.yaml --daemon head          Log of the head daemon")]
pub struct ClusterLogsArgs {
    /// Cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// Node [default: the head]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Print the log of this daemon instead of the launch log
    #[arg(long, value_name = "NAME")]
    pub daemon: Option<DaemonArg>,
}

fn name_and_value(text: &str) -> Result<(String, String), ArgError> {
    let (name, value) = pair(text)?;
    Ok((name.trim().to_owned(), value))
}

fn parallel(text: &str) -> Result<usize, ArgError> {
    match text.parse() {
        Ok(number @ 1..=PARALLEL_MAX) => Ok(number),
        _ => Err(ArgError::Range(PARALLEL_MAX)),
    }
}

/// Most nodes that are changed at once.
const PARALLEL_MAX: usize = 1024;
