//! What can be typed: the low arguments, exactly as given and checked for form only.
//!
//! What they mean (files read, names resolved) is worked out in `commands/`. Every option is documented here and
//! nowhere else: the help, the reference and the completions are generated from these types.

mod access;
mod cluster;
mod config;
mod cp;
mod demo;
pub mod env;
mod exec;
mod filter;
mod foresee;
mod global;
mod image;
mod install;
mod launch;
mod limits;
mod local;
mod look;
mod metrics;
mod of_task;
mod pace;
mod pilot;
mod plan;
mod policy;
mod preset;
mod profile;
mod python_sdk;
mod ray;
mod replay;
mod report;
mod sim;
mod slurm;
mod step;
mod submit;
mod sweep;
mod trace;
mod trace_edit;
mod tune;
mod usage;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub use access::{
    AuditArgs, HeadCommand, InitArgs, ResultArg, RoleArg, ScopeArg, TokenCommand, TokenCreateArgs,
    TokenListArgs, TokenRenewArgs, TokenRevokeArgs, Ttl,
};
pub use cluster::{
    ContainerArgs, ExplainJobArgs, HeadArgs, HomeArgs, HttpArgs, JobArgs, KeeperArgs, LogsArgs, RehearsalArg,
    TaskArgs, WorkerArgs,
};
pub use config::{ConfigCheckArgs, ConfigCommand, ConfigShowArgs};
pub use cp::{CpArgs, CpPlace};
pub use demo::DemoArgs;
pub use exec::{BatchArgs, BesideArgs, ExecArgs, MpiAgentArgs};
pub use filter::{CancelArgs, ChangeArgs, FilterArgs, JobStateArg, PriorityArgs, SelectArgs};
pub use foresee::{HistoryArgs, SizeArgs, WhatIfArgs};
pub use global::{ColorChoice, GlobalArgs, LogFormat, OutputFormat};
pub use image::{
    EngineArg, ImageBaseArgs, ImageBuildArgs, ImageCommand, ImageCommitArgs, ImageConvertArgs,
    ImageFromEnvArgs, ImageListArgs, ImageLoginArgs, ImageNameArgs, ImagePruneArgs,
};
pub use install::{
    InstallCommand, InstallHeadArgs, InstallWorkerArgs, InstalledRole, ManArgs, PlaceArgs, UninstallArgs,
};
pub use launch::{
    AddressArgs, AttachArgs, ClusterBakeArgs, ClusterCommand, ClusterExecArgs, ClusterLogsArgs,
    ClusterRenderArgs, ClusterStatusArgs, ClusterSubmitArgs, DaemonArg, DownArgs, LaunchedArgs,
    RsyncDownArgs, RsyncUpArgs, RunEnvArg, UpArgs, ValuesArgs, WindowArgs,
};
pub use limits::{LimitsApplyArgs, LimitsCheckArgs, LimitsCommand, LimitsShowArgs};
pub use local::{LocalArgs, RunArgs};
pub use look::{JobsArgs, NodeArgs, NodeChangeArgs, NodeCommand, NodesArgs, TopArgs};
pub use metrics::{Axis, MetricsArgs};
pub(crate) use of_task::of_task;
pub use pace::PaceArgs;
pub use pilot::{PilotCommand, PilotFolderArgs, PilotNodeArgs, PilotSlurmArgs, PilotStatusArgs, QueueArgs};
pub use plan::{Devices, PlanArgs, ScheduleArg};
pub use policy::{ExplainArgs, PoliciesArgs, PolicyCommand, PolicySetArgs, PolicyShowArgs};
pub use preset::{PresetArgs, PresetCommand, ShowArgs};
pub use profile::{
    ProfileCaptureArgs, ProfileCommArgs, ProfileCommand, ProfileDiffArgs, ProfileExportArgs,
    ProfileFilterArgs, ProfileImportArgs, ProfileKindArg, ProfileLearnArgs, ProfileQueryArgs, ProfileRunArgs,
    ProfileShowArgs, ProfileSubjectArg, ProfilerArgs,
};
pub use python_sdk::{PythonSdkCommand, PythonSdkInstallArgs, PythonSdkPathArgs};
pub use ray::{RayArgs, RayCommand, RayJobArgs, RayLogsArgs, RayNodeArgs};
pub use replay::ReplayArgs;
pub use report::{CompareArgs, ReportArgs};
pub use sim::SimArgs;
pub use slurm::{ShimsArgs, SlurmArgs};
pub use step::StepArgs;
pub use submit::{JobFlags, SubmitArgs};
pub use sweep::SweepArgs;
pub use trace::{ArrivalKind, ConvertArgs, GenerateArgs, LintArgs, StatsArgs, TraceCommand};
pub use trace_edit::{
    TraceFilterArgs, TraceHeadArgs, TraceIo, TraceResampleArgs, TraceScaleArgs, TraceShiftArgs,
    TraceSliceArgs,
};
pub use tune::{TuneArgs, TuneCommand, TuneReportArgs, TuneResultsArgs, TuneRetryArgs, TuneStartArgs};
pub use usage::{UsageArgs, UsageBy};

/// Gets deep-learning training jobs done sooner on the machines you have.
///
/// Wharf simulates scheduling policies on a trace of jobs, and runs the same policies on real machines.
#[derive(Debug, Parser)]
#[command(
    name = "wharf",
    version,
    help_expected = true,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    propagate_version = true,
    after_help = "\
Examples:
  wharf demo                                              Real training jobs on a small real cluster
  wharf run -- python train.py                            Run one job
  wharf local                                             This machine as a cluster; then `wharf submit`
  wharf sim --trace jobs.csv --cluster 8x8 --policy srtf  Simulate one policy
  wharf policies                                          List the policies
  wharf help exit-codes                                   What the exit codes mean"
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate one or more policies on a trace
    Sim(SimArgs),
    /// Run a scenario file: policies × traces × clusters × presets × seeds
    Sweep(SweepArgs),
    /// Convert, check, describe and generate traces
    #[command(subcommand)]
    Trace(TraceCommand),
    /// List every policy: what it does, where it was published, what can be set
    Policies(PoliciesArgs),
    /// Tell how a policy decides
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Limits of users, groups and pools, reservations and maintenance windows of a running head
    #[command(subcommand)]
    Limits(LimitsCommand),
    /// List the presets, or show one
    Presets(PresetArgs),
    /// How fast models run on which devices: import, export, show, ask, compare
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf profile show\n  wharf profile query --model resnet50 --batch-size 64"
    )]
    Profile(ProfileCommand),
    /// Tell how a model is best split over devices, how fast it then is, and what memory it needs
    Plan(PlanArgs),
    /// Images of containers: build, convert, push, keep
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf image build . --tag train:1\n  wharf image convert train:1 ./train"
    )]
    Image(ImageCommand),
    /// Run real training jobs on a small real cluster, or simulate all policies, and write a report
    Demo(DemoArgs),
    /// Run a trace on a real cluster, and compare it with the simulator's prediction
    Replay(ReplayArgs),
    /// Run a command as a job, here and now: its output, its exit code
    Run(RunArgs),
    /// Start a whole cluster on this machine
    Local(LocalArgs),
    /// Bring up a cluster that a file describes, on machines reached by ssh or on this one
    Up(UpArgs),
    /// Take down a cluster that `wharf up` has brought up
    Down(DownArgs),
    /// Open a shell on a node of a launched cluster
    Attach(AttachArgs),
    /// Copy files to nodes of a launched cluster
    RsyncUp(RsyncUpArgs),
    /// Copy files from nodes of a launched cluster
    RsyncDown(RsyncDownArgs),
    /// Print the address of a launched cluster's head
    GetHeadIp(AddressArgs),
    /// Print the addresses of a launched cluster's workers
    GetWorkerIps(AddressArgs),
    /// Nodes of a launched cluster: run commands there, look at them, read their logs
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf cluster status cluster.yaml\n  wharf cluster exec cluster.yaml --all -- nvidia-smi"
    )]
    Cluster(ClusterCommand),
    /// Start the head of a cluster
    Head(HeadArgs),
    /// Offer this machine's devices to a head
    Worker(Box<WorkerArgs>),
    /// Lend allocations of a Slurm to the head, as many as there is work for
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf pilot slurm --gpus 4 --max 8\n  wharf pilot status"
    )]
    Pilot(PilotCommand),
    /// The parent of a worker's tasks
    #[command(hide = true)]
    Keeper(KeeperArgs),
    /// What becomes a command beside a task
    #[command(hide = true)]
    Beside(BesideArgs),
    /// What becomes a batch script
    #[command(hide = true)]
    Batch(BatchArgs),
    /// Start a daemon of Open MPI on another node of the job
    #[command(hide = true)]
    MpiAgent(MpiAgentArgs),
    /// The trainer of a paced job
    #[command(hide = true)]
    Pace(PaceArgs),
    /// Run a job with many configurations, and compare what comes out
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf tune start rates.yaml\n  wharf tune results wharf-tune/rates --sort loss"
    )]
    Tune(TuneCommand),
    /// Jobs of a Ray cluster that is there already
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf ray list --ray-address http://node1:8265\n  wharf ray logs --ray-address http://node1:8265 --follow raysubmit_x7Yz"
    )]
    Ray(RayCommand),
    /// A node of a job's Ray cluster
    #[command(hide = true)]
    RayNode(RayNodeArgs),
    /// Hand a job to the head
    Submit(Box<SubmitArgs>),
    /// List jobs
    Jobs(JobsArgs),
    /// Show one job with its history
    Job(JobArgs),
    /// Say what a job waits for, who is ahead, what would let it start now, and when it is expected to start
    Explain(ExplainJobArgs),
    /// Simulate the cluster as it is, or as it was, under other policies or with other nodes
    #[command(name = "whatif")]
    WhatIf(WhatIfArgs),
    /// Turn what the cluster has done into a trace
    History(HistoryArgs),
    /// Find out how many nodes of which kind would serve a trace well enough
    Size(SizeArgs),
    /// Print a job's output
    Logs(LogsArgs),
    /// Show and export the history of jobs' metrics, such as the loss
    Metrics(MetricsArgs),
    /// Run a command, or a shell, beside a running job
    Exec(ExecArgs),
    /// Copy files into and out of what a running job runs in
    Cp(CpArgs),
    /// Cancel jobs
    Cancel(CancelArgs),
    /// Keep waiting jobs from starting
    Hold(ChangeArgs),
    /// Let held jobs start
    Release(ChangeArgs),
    /// Stop running jobs and let them wait again
    Requeue(ChangeArgs),
    /// Make jobs more or less urgent
    Priority(PriorityArgs),
    /// List nodes
    Nodes(NodesArgs),
    /// Manage access tokens: create, list, renew, revoke
    #[command(subcommand, after_help = "Examples:\n  wharf token create --user ann\n  wharf token list")]
    Token(TokenCommand),
    /// Show the audit log: who has done what, from where (admin only)
    Audit(AuditArgs),
    /// Show one node, or cordon, drain or resume it
    Node(NodeArgs),
    /// Watch nodes, running jobs and the queue
    Top(TopArgs),
    /// Show who used what: device hours, waiting, failures
    Usage(UsageArgs),
    /// Write a page about runs in folders, or about what the cluster has done
    Report(ReportArgs),
    /// Set runs in folders against each other: who is best at what, by how much, and how sure that is
    Compare(CompareArgs),
    /// From within a job: tell how far it has come, and learn whether to go on
    Step(StepArgs),
    /// Install the Python SDK for trainers, or print where it is
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf python-sdk install\n  PYTHONPATH=$(wharf python-sdk path) python train.py"
    )]
    PythonSdk(PythonSdkCommand),
    /// Submit a batch script, as Slurm's sbatch does
    Sbatch(SlurmArgs),
    /// List jobs, as Slurm's squeue does
    Squeue(SlurmArgs),
    /// Cancel or signal jobs, as Slurm's scancel does
    Scancel(SlurmArgs),
    /// Show partitions and nodes, as Slurm's sinfo does
    Sinfo(SlurmArgs),
    /// Show and change jobs and nodes, as Slurm's scontrol does
    Scontrol(SlurmArgs),
    /// Show jobs that are over, too, as Slurm's sacct does
    Sacct(SlurmArgs),
    /// Run a command with devices of its own, as Slurm's salloc does
    Salloc(SlurmArgs),
    /// Run a command on all nodes of a job, as Slurm's srun does
    Srun(SlurmArgs),
    /// Write links to this program that are called sbatch, squeue, srun and so on
    SlurmShims(ShimsArgs),
    /// Show and check the configuration: the file, and what is in force
    #[command(subcommand, after_help = "Examples:\n  wharf config show\n  wharf config check")]
    Config(ConfigCommand),
    /// Make this machine a head or a worker: services, users, folders, configuration, manual pages
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf install head --dry-run\n  wharf install worker --head node1:7717"
    )]
    Install(InstallCommand),
    /// Remove what `wharf install` has put here
    Uninstall(UninstallArgs),
    /// Print a manual page
    Man(ManArgs),
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
    /// Show the help of a command or of a topic
    Help(HelpArgs),
}

/// `wharf completions`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf completions bash > ~/.local/share/bash-completion/completions/wharf
  wharf completions fish > ~/.config/fish/completions/wharf.fish
  source <(wharf completions zsh)")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// `wharf help`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf help sim              The options of `wharf sim`
  wharf help trace convert    The options of `wharf trace convert`
  wharf help exit-codes       What the exit codes mean
  wharf help environment      The environment variables
  wharf help run-metrics      What the numbers of a run mean
  wharf help command-reference > cli.md    The reference of all commands, as Markdown")]
pub struct HelpArgs {
    /// A command (`sim`, `trace convert`) or a topic (`exit-codes`, `environment`, `command-reference`, `policy-reference`, `run-metrics`)
    #[arg(value_name = "COMMAND|TOPIC")]
    pub topic: Vec<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn arguments_are_consistent_and_documented() {
        crate::config::keys::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        fn check(command: &clap::Command) {
            let shown = command.get_after_help().is_some_and(|help| help.to_string().contains("Examples:"));
            assert!(shown, "`{}` has no examples", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
