//! `wharf up`, `wharf down` and what is done on the nodes in between: clusters that are launched from a file.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Which launched cluster, and where the launcher keeps what it knows of it.
#[derive(Debug, Args)]
pub struct LaunchedArgs {
    /// The cluster's file: Ray's YAML, or Crius' `cluster_spec.json` with addresses
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The folder in which the launcher keeps what it knows of clusters [default: ~/.local/state/wharf]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// `wharf up`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf up cluster.yaml --check        Say what is wrong with the file
  wharf up cluster.yaml --dry-run      Say what would be done on each node, and why
  wharf up cluster.yaml                Bring it up; again after a change, or after a failure
  wharf up cluster.yaml --no-restart   Copy files and set up, but leave alone what runs
  wharf up cluster.yaml --restart-only")]
pub struct UpArgs {
    /// Which cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// Read and check the file, and do nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub check: bool,
    /// Say what would be done on each node and why, from what is known of it, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Leave alone what runs, even where the way it is started has changed
    #[arg(long, conflicts_with = "restart_only")]
    pub no_restart: bool,
    /// Start again what runs, and set nothing up
    #[arg(long)]
    pub restart_only: bool,
    /// How many workers have to come up [default: what the file says, or all]
    #[arg(long, value_name = "N")]
    pub min_workers: Option<usize>,
    /// How many nodes are worked on at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parallel)]
    pub parallel: usize,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// `wharf down`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf down cluster.yaml
  wharf down cluster.yaml -y
  wharf down cluster.yaml --forget     Also where some nodes are gone for good")]
pub struct DownArgs {
    /// Which cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// Forget nodes that cannot be reached: what runs there goes on
    #[arg(long)]
    pub forget: bool,
    /// How many nodes are worked on at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parallel)]
    pub parallel: usize,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// In which window on the node something runs.
#[derive(Debug, Args)]
pub struct WindowArgs {
    /// In a window of tmux, which goes on when nobody looks
    #[arg(long, conflicts_with = "screen")]
    pub tmux: bool,
    /// In a window of GNU screen, which goes on when nobody looks
    #[arg(long)]
    pub screen: bool,
}

/// `wharf attach`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf attach cluster.yaml                      A shell on the head
  wharf attach cluster.yaml --tmux               In a window that is there again next time
  wharf attach cluster.yaml -p 8888 -p 6006      With ports of the head as ports of this machine
  wharf attach cluster.yaml --node 10.0.0.7")]
pub struct AttachArgs {
    /// Which cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// The node [default: the head]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// In which window.
    #[command(flatten)]
    pub window: WindowArgs,
    /// A new window, even if there is one
    #[arg(long)]
    pub new: bool,
    /// A port of the node that is to be one of this machine; may be given several times
    #[arg(long, short, value_name = "PORT")]
    pub port_forward: Vec<u16>,
}

/// `wharf rsync-up`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf rsync-up cluster.yaml train.py train.py       To the head's home
  wharf rsync-up cluster.yaml data/ /scratch/data -A  To all nodes
  wharf rsync-up cluster.yaml                         All that is under file_mounts")]
pub struct RsyncUpArgs {
    /// Which cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// A file or folder of this machine [default: all file_mounts]
    #[arg(value_name = "SRC", requires = "target")]
    pub source: Option<PathBuf>,
    /// Where on the node; below the home unless it begins with `/`
    #[arg(value_name = "DST")]
    pub target: Option<String>,
    /// To all nodes, not to the head only
    #[arg(long, short = 'A')]
    pub all: bool,
}

/// `wharf rsync-down`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf rsync-down cluster.yaml results .                From the head's home
  wharf rsync-down cluster.yaml /tmp/log logs -A         From all nodes: logs/NODE/log")]
pub struct RsyncDownArgs {
    /// Which cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// A file or folder of the node; below the home unless it begins with `/`
    #[arg(value_name = "SRC")]
    pub source: String,
    /// Where on this machine
    #[arg(value_name = "DST")]
    pub target: PathBuf,
    /// From all nodes, each into a folder of its name
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
    /// Which cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
}

/// What is done on the nodes of a launched cluster, under names that are jobs' otherwise.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Run a command on the head, on a node, or on all at once
    Exec(ClusterExecArgs),
    /// Copy a script to the head and run it there, beside what the head schedules
    Submit(ClusterSubmitArgs),
    /// Look at every node: what it has been through, and what runs there
    Status(ClusterStatusArgs),
    /// Print what was said while a node came up, or what its daemons say
    Logs(ClusterLogsArgs),
    /// Prepare one machine, turn it into an image, and fill a template with it
    Bake(ClusterBakeArgs),
    /// Fill the `{ placeholders }` of a template
    Render(ClusterRenderArgs),
}

/// What placeholders are filled with.
#[derive(Debug, Args)]
pub struct ValuesArgs {
    /// A placeholder and its value; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub set: Vec<(String, String)>,
    /// A file (YAML, JSON) with placeholders and their values; `--set` counts more
    #[arg(long, value_name = "FILE")]
    pub values: Option<PathBuf>,
    /// Where the filled template goes [default: standard output]
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
    /// The template
    #[arg(value_name = "TEMPLATE")]
    pub template: PathBuf,
    /// With what.
    #[command(flatten)]
    pub values: ValuesArgs,
}

/// `wharf cluster bake`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cluster bake initial-cluster.yaml                       Prints the image
  wharf cluster bake initial-cluster.yaml --template cluster-template.yaml --set 'EFS ID=fs-1234' --to cluster.yaml
  wharf cluster bake initial-cluster.yaml --keep                The machine stays, to be looked at")]
pub struct ClusterBakeArgs {
    /// Which cluster: its head is prepared as the file says, and nothing is started there.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// What the image is called [default: after the cluster and what it was prepared with]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// A template to fill
    #[arg(long, value_name = "TEMPLATE")]
    pub template: Option<PathBuf>,
    /// Which placeholder of it the image is for [default: the one that speaks of an AMI or an image]
    #[arg(long, value_name = "NAME", requires = "template")]
    pub image_as: Option<String>,
    /// With what else.
    #[command(flatten)]
    pub values: ValuesArgs,
    /// Do not give the machine back
    #[arg(long)]
    pub keep: bool,
}

/// `wharf cluster exec`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cluster exec cluster.yaml -- nvidia-smi                   On the head; its exit code is passed on
  wharf cluster exec cluster.yaml --all -- df -h /                On all nodes at once, each line with its node
  wharf cluster exec cluster.yaml -- 'cd app && ls | wc -l'       One word is a line of shell
  wharf cluster exec cluster.yaml --tmux -- python train.py       In a window that goes on")]
pub struct ClusterExecArgs {
    /// Which cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// On all nodes
    #[arg(long, conflicts_with_all = ["workers", "node"])]
    pub all: bool,
    /// On all workers
    #[arg(long, conflicts_with = "node")]
    pub workers: bool,
    /// On this node [default: the head]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// In which window.
    #[command(flatten)]
    pub window: WindowArgs,
    /// Where on a node whose work is done in a container; `auto`: in it, but what begins with `docker` or `podman` beside it
    #[arg(long, value_name = "PLACE", default_value = "auto")]
    pub run_env: RunEnvArg,
    /// A port of the node that is to be one of this machine; may be given several times
    #[arg(long, short, value_name = "PORT", conflicts_with_all = ["all", "workers"])]
    pub port_forward: Vec<u16>,
    /// The command and its arguments; one word alone is a line of shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Where on a node something runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunEnvArg {
    /// In its container, if it has one
    Auto,
    /// On the machine
    Host,
    /// In its container
    Docker,
}

/// `wharf cluster submit`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cluster submit cluster.yaml train.py                        Copied to the head's home and run there by `python`
  wharf cluster submit cluster.yaml train.py -- --name 'a b'        With arguments, each as it is
  wharf cluster submit cluster.yaml --tmux train.py                 In a window that goes on
  wharf submit -- python train.py                                   A job of the cluster's head: see `wharf submit --help`")]
pub struct ClusterSubmitArgs {
    /// Which cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// A script in Python of this machine
    #[arg(value_name = "SCRIPT")]
    pub script: PathBuf,
    /// In which window.
    #[command(flatten)]
    pub window: WindowArgs,
    /// A port of the node that is to be one of this machine; may be given several times
    #[arg(long, short, value_name = "PORT")]
    pub port_forward: Vec<u16>,
    /// Its arguments
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
    /// Which cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
}

/// A daemon of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DaemonArg {
    /// The cluster's head
    Head,
    /// The node's worker
    Worker,
}

/// `wharf cluster logs`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cluster logs cluster.yaml                        How the head came up
  wharf cluster logs cluster.yaml --node 10.0.0.7
  wharf cluster logs cluster.yaml --daemon head          What the head itself says")]
pub struct ClusterLogsArgs {
    /// Which cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// The node [default: the head]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// What a daemon there says, instead of what was said while the node came up
    #[arg(long, value_name = "NAME")]
    pub daemon: Option<DaemonArg>,
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("NAME=VALUE".to_owned()),
    }
}

fn parallel(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1024) => Ok(number),
        _ => Err("a number from 1 to 1024".to_owned()),
    }
}
