//! Command-line arguments, exactly as given and checked for syntax only.
//!
//! `commands/` reads the files and resolves the names. Every option is documented here only: help, reference and
//! completions are generated from these types.

mod access;
mod choice;
mod cluster;
mod config;
mod cp;
mod demo;
pub mod env;
mod exec;
mod filter;
mod foresee;
mod global;
pub(crate) mod groups;
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
mod value;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub use access::{
    AuditArgs, HeadCommand, InitArgs, ResultArg, RoleArg, ScopeArg, TokenCommand, TokenCreateArgs,
    TokenListArgs, TokenRenewArgs, TokenRevokeArgs, Ttl,
};
pub use cluster::{
    ContainerArgs, ExplainJobArgs, HeadArgs, HomeArgs, HttpArgs, JobArgs, LogsArgs, RehearsalArg,
    SupervisorArgs, TaskArgs, WorkerArgs,
};
pub use config::{ConfigCheckArgs, ConfigCommand, ConfigShowArgs};
pub use cp::{CpArgs, CpPlace};
pub use demo::DemoArgs;
pub use exec::{BatchArgs, ExecArgs, ExecSessionArgs, MpiAgentArgs};
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

/// Scheduler for deep-learning training jobs: simulator and cluster runtime.
///
/// Wharf runs training jobs on a cluster under a choice of published scheduling policies, and simulates the same policies on traces.
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
  wharf demo                         Run training jobs on a local demo cluster
  wharf run -- python train.py       Run one job
  wharf local                        Start a cluster on this machine; then `wharf submit`
  wharf sim -t jobs.csv -c 8x8 -p srtf  Simulate one policy
  wharf help sim                     Show the options of `wharf sim`
  wharf help exit-codes              List the exit codes"
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// Command to execute.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate scheduling policies on a trace
    Sim(SimArgs),
    /// Run a scenario: policies × traces × clusters × presets × seeds
    Sweep(SweepArgs),
    /// Convert, check, describe and generate traces
    #[command(subcommand)]
    Trace(TraceCommand),
    /// List scheduling policies
    Policies(PoliciesArgs),
    /// Explain a policy; show or set the policy of a running head
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Show, check and apply quotas, pools and reservations
    #[command(subcommand)]
    Limits(LimitsCommand),
    /// List presets, or show one
    Presets(PresetArgs),
    /// Manage throughput profiles: import, query, compare, measure
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf profile show\n  wharf profile query --model resnet50 --batch-size 64"
    )]
    Profile(ProfileCommand),
    /// Find the best parallel plan for a model on given devices
    Plan(PlanArgs),
    /// Build, convert, push and pull container images
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf image build . --tag train:1\n  wharf image convert train:1 ./train"
    )]
    Image(ImageCommand),
    /// Run training jobs on a local demo cluster and write a report
    Demo(DemoArgs),
    /// Replay a trace on a cluster and compare it with the simulation
    Replay(ReplayArgs),
    /// Run a command as a job and return its exit code
    Run(RunArgs),
    /// Start a cluster on this machine
    Local(LocalArgs),
    /// Create or update a cluster from a cluster file
    Up(UpArgs),
    /// Stop a cluster created by `wharf up`
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
    /// Run commands on a launched cluster; show its status and logs
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf cluster status cluster.yaml\n  wharf cluster exec cluster.yaml --all -- nvidia-smi"
    )]
    Cluster(ClusterCommand),
    /// Start the head of a cluster
    Head(HeadArgs),
    /// Start a worker that offers this machine's devices
    Worker(Box<WorkerArgs>),
    /// Run workers inside Slurm allocations, scaled to demand
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf pilot slurm --gpus 4 --max 8\n  wharf pilot status"
    )]
    Pilot(PilotCommand),
    /// Parent process of a worker's tasks
    #[command(hide = true, alias = "keeper")]
    Supervisor(SupervisorArgs),
    /// Command started in a running task
    #[command(hide = true, alias = "beside")]
    ExecSession(ExecSessionArgs),
    /// Batch script of a job
    #[command(hide = true)]
    Batch(BatchArgs),
    /// Start an Open MPI daemon on another node of the job
    #[command(hide = true)]
    MpiAgent(MpiAgentArgs),
    /// Trainer of a paced job
    #[command(hide = true)]
    Pace(PaceArgs),
    /// Run a hyperparameter sweep and compare its results
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf tune start rates.yaml\n  wharf tune results wharf-tune/rates --sort loss"
    )]
    Tune(TuneCommand),
    /// Manage jobs of an existing Ray cluster
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf ray list --ray-address http://node1:8265\n  wharf ray logs --ray-address http://node1:8265 --follow raysubmit_x7Yz"
    )]
    Ray(RayCommand),
    /// Node of a job's Ray cluster
    #[command(hide = true)]
    RayNode(RayNodeArgs),
    /// Submit a job
    Submit(Box<SubmitArgs>),
    /// List jobs
    Jobs(JobsArgs),
    /// Show a job and its history
    Job(JobArgs),
    /// Show why a job waits and when it is expected to start
    Explain(ExplainJobArgs),
    /// Simulate the cluster with other policies or nodes
    #[command(name = "whatif")]
    WhatIf(WhatIfArgs),
    /// Export the cluster's job history as a trace
    History(HistoryArgs),
    /// Find the number of nodes that meets a target for a trace
    Size(SizeArgs),
    /// Print the output of a job
    Logs(LogsArgs),
    /// Show or export the metrics of jobs, such as the loss
    Metrics(MetricsArgs),
    /// Run a command or a shell in a running job
    Exec(ExecArgs),
    /// Copy files to and from a running job
    Cp(CpArgs),
    /// Cancel jobs
    Cancel(CancelArgs),
    /// Hold waiting jobs
    Hold(ChangeArgs),
    /// Release held jobs
    Release(ChangeArgs),
    /// Stop running jobs and return them to the queue
    Requeue(ChangeArgs),
    /// Change the priority of jobs
    Priority(PriorityArgs),
    /// List nodes
    Nodes(NodesArgs),
    /// Manage access tokens: create, list, renew, revoke
    #[command(subcommand, after_help = "Examples:\n  wharf token create --user ann\n  wharf token list")]
    Token(TokenCommand),
    /// Show the audit log (admin only)
    Audit(AuditArgs),
    /// Show, cordon, drain, resume or remove a node
    Node(NodeArgs),
    /// Show nodes, running jobs and the queue, updated live
    Top(TopArgs),
    /// Show device hours, waiting times and failures by user
    Usage(UsageArgs),
    /// Write an HTML report about runs or the cluster
    Report(ReportArgs),
    /// Compare runs: best policy per metric, with confidence
    Compare(CompareArgs),
    /// Report a job's progress and check whether to continue
    Step(StepArgs),
    /// Install the Python SDK for trainers, or print its path
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
    /// Show finished and running jobs, as Slurm's sacct does
    Sacct(SlurmArgs),
    /// Allocate devices for a command, as Slurm's salloc does
    Salloc(SlurmArgs),
    /// Run a command on all nodes of a job, as Slurm's srun does
    Srun(SlurmArgs),
    /// Manage accounts and limits of users, as Slurm's sacctmgr does
    Sacctmgr(SlurmArgs),
    /// Show shares and usage of users, as Slurm's sshare does
    Sshare(SlurmArgs),
    /// Show priorities of waiting jobs, as Slurm's sprio does
    Sprio(SlurmArgs),
    /// Show counts of the head, as Slurm's sdiag does
    Sdiag(SlurmArgs),
    /// Create links named after Slurm's commands (sbatch, squeue)
    SlurmShims(ShimsArgs),
    /// Show and check the configuration
    #[command(subcommand, after_help = "Examples:\n  wharf config show\n  wharf config check")]
    Config(ConfigCommand),
    /// Install a head or worker service on this machine
    #[command(
        subcommand,
        after_help = "Examples:\n  wharf install head --dry-run\n  wharf install worker --head node1:7717"
    )]
    Install(InstallCommand),
    /// Remove a service installed by `wharf install`
    Uninstall(UninstallArgs),
    /// Print a manual page
    Man(ManArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Show help for a command or a topic
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
    /// Shell to print the script for
    pub shell: Shell,
}

/// `wharf help`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf help sim              Options of `wharf sim`
  wharf help trace convert    Options of `wharf trace convert`
  wharf help exit-codes       Exit codes
  wharf help environment      Environment variables
  wharf help run-metrics      Definitions of the metrics of a run
  wharf help command-reference > cli.md    Reference of all commands, as Markdown")]
pub struct HelpArgs {
    /// Command (`sim`, `trace convert`) or topic (`exit-codes`, `environment`, `command-reference`, `policy-reference`, `run-metrics`)
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
