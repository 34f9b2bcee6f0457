//! `wharf profile`

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::HomeArgs;

/// Subcommands of `wharf profile`.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Import throughput tables into a database
    Import(ProfileImportArgs),
    /// Write a profile as CSV, JSON or a database
    Export(ProfileExportArgs),
    /// Show the entries of a profile
    Show(ProfileShowArgs),
    /// Query the throughput of a model by device type, gang size and co-located job
    Query(ProfileQueryArgs),
    /// Show measured and interpolated communication times
    Comm(ProfileCommArgs),
    /// Compare two profiles
    Diff(ProfileDiffArgs),
    /// Measure operators, parallel plans and communication with JAX
    Run(ProfileRunArgs),
    /// Describe a JAX model for `wharf plan`: parameters, operations and activations of its layers
    Capture(ProfileCaptureArgs),
    /// Import iteration times of jobs from a running head into a database
    Learn(ProfileLearnArgs),
}

/// `wharf profile import`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile import simulation_throughputs.json --into lab.db      Import Gavel's table
  wharf profile import sia/profiles prices.csv --into lab.db          Import Sia's folder and prices
  wharf profile import arena/database --into lab.db                   Import Crius's folder with `prof_database.json`
  wharf profile import measured.csv --into lab.db --dry-run           Show the changes only")]
pub struct ProfileImportArgs {
    /// Sources in order, later ones take precedence: tables, databases, folders of them, or `default`
    #[arg(value_name = "PROFILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Database; created if it does not exist
    #[arg(long, value_name = "FILE")]
    pub into: PathBuf,
    /// Name of the source, for tables without one [default: the file name]
    #[arg(long, value_name = "TEXT")]
    pub source: Option<String>,
    /// Show the changes without performing them
    #[arg(long)]
    pub dry_run: bool,
}

/// `wharf profile learn`
#[derive(Debug, Args)]
#[command(after_help = "\
What counts are jobs that name their model and whose trainers report progress (`wharf step`, the SDK).

Examples:
  wharf profile learn --into lab.db                            Import from this user's head
  wharf profile learn --into lab.db --dry-run                  Show the changes only
  wharf plan --model gpt-1.3b --gpus a40:8 --profile lab.db    Correct estimates by measurements")]
pub struct ProfileLearnArgs {
    /// Database; created if it does not exist
    #[arg(long, value_name = "FILE")]
    pub into: PathBuf,
    /// Show the changes without performing them
    #[arg(long)]
    pub dry_run: bool,
    /// State directory of the cluster
    #[command(flatten)]
    pub home: HomeArgs,
}

/// `wharf profile export`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile export default speeds.csv              Export the built-in profile as a table
  wharf profile export lab.db - --to json | jq .prices
  wharf profile export simulation_throughputs.json gavel.db
  wharf profile export default prices.csv --to prices  What an hour of each type costs")]
pub struct ProfileExportArgs {
    /// Database, table, folder of them, or `default`
    #[arg(value_name = "PROFILE")]
    pub profile: PathBuf,
    /// Output file, or `-` for standard output
    #[arg(value_name = "FILE", default_value = "-")]
    pub target: PathBuf,
    /// Output format [default: by file extension, else CSV]
    #[arg(long, value_name = "KIND")]
    pub to: Option<ProfileKindArg>,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
    /// Filter.
    #[command(flatten)]
    pub filter: ProfileFilterArgs,
}

/// Output format of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileKindArg {
    /// One row per entry, without prices, exact cells and communication
    Csv,
    /// All entries in one document
    Json,
    /// Database, as created by `wharf profile import`
    Db,
    /// One row per price
    Prices,
}

/// Filter of profile entries.
#[derive(Debug, Args)]
pub struct ProfileFilterArgs {
    /// Model
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Device type
    #[arg(long = "type", value_name = "TYPE")]
    pub device_type: Option<String>,
    /// Gang size in devices
    #[arg(long, value_name = "N")]
    pub devices: Option<u32>,
}

/// `wharf profile show`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile show                                 Overview of the built-in profile
  wharf profile show lab.db --model resnet50         All entries of a model
  wharf profile show default --type a100 --devices 1 --pairs
  wharf profile show crius.db --cells --model bert__1.3B
  wharf profile show lab.db --measured               Single measurements of operators, collectives and plans
  wharf profile show default --prices")]
pub struct ProfileShowArgs {
    /// Database, table, folder of them, or `default`
    #[arg(value_name = "PROFILE", default_value = "default")]
    pub profile: PathBuf,
    /// Filter; without one, an overview is shown.
    #[command(flatten)]
    pub filter: ProfileFilterArgs,
    /// Include entries for co-located jobs
    #[arg(long)]
    pub pairs: bool,
    /// Show prices per device hour instead
    #[arg(long, conflicts_with = "pairs")]
    pub prices: bool,
    /// Show times of exact cells, by hosts and devices per host, instead
    #[arg(long, conflicts_with_all = ["pairs", "prices"])]
    pub cells: bool,
    /// Show single measurements of `wharf profile run` instead: seconds, operations, machine, versions, time
    #[arg(long, conflicts_with_all = ["pairs", "prices", "cells"])]
    pub measured: bool,
}

/// `wharf profile query`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile query --model resnet50 --batch-size 64                 All device types of the built-in profile
  wharf profile query lab.db --model bert-base --batch-size 64 --type v100,a100 --devices 4
  wharf profile query --model vgg19 --batch-size 32 --type t4 --beside 'a3c (batch size 128)'
  wharf profile query crius.db --model bert__1.3B --batch-size 256 --hosts 2 --per-host 2   Exact cells
  wharf profile query --model mine --iteration-ms 120 --told-for v100  What a job tells of itself, moved to other types")]
pub struct ProfileQueryArgs {
    /// Database, table, folder of them, or `default`
    #[arg(value_name = "PROFILE", default_value = "default")]
    pub profile: PathBuf,
    /// Model name, as in traces
    #[arg(long, value_name = "NAME")]
    pub model: String,
    /// Global batch size: samples per iteration
    #[arg(long, value_name = "N")]
    pub batch_size: Option<u32>,
    /// Device types, separated by commas [default: all in the profile]
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub device_type: Vec<String>,
    /// Number of devices
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub devices: u32,
    /// Assume that the gang is spread over more nodes than necessary
    #[arg(long)]
    pub spread: bool,
    /// Parallel plan, by its name in the profile
    #[arg(long, value_name = "NAME")]
    pub plan: Option<String>,
    /// Co-located job on the same devices, as `MODEL` or `MODEL (batch size N)`; may be given several times
    #[arg(long, value_name = "WORKLOAD")]
    pub beside: Vec<String>,
    /// Iteration time of the job on this number of devices, in milliseconds
    #[arg(long, value_name = "MS")]
    pub iteration_ms: Option<f64>,
    /// Device type of `--iteration-ms` [default: the profile's reference type]
    #[arg(long, value_name = "TYPE", requires = "iteration_ms")]
    pub told_for: Option<String>,
    /// Assume data parallelism only; with `--hosts`, the model must fit on one device
    #[arg(long, conflicts_with_all = ["plan", "beside", "iteration_ms"])]
    pub data_parallel: bool,
    /// Number of hosts of an exact cell
    #[arg(
        long, value_name = "N", requires = "per_host", value_parser = clap::value_parser!(u32).range(1..=1 << 15),
        conflicts_with_all = ["devices", "spread", "plan", "beside", "iteration_ms"],
    )]
    pub hosts: Option<u32>,
    /// Devices per host
    #[arg(long, value_name = "N", requires = "hosts", value_parser = clap::value_parser!(u32).range(1..=1 << 15))]
    pub per_host: Option<u32>,
}

/// `wharf profile comm`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile comm crius.db                                          List measured operations
  wharf profile comm crius.db --type a40 --op all-reduce --elements 25000000
  wharf profile comm crius.db --hosts 2 --per-host 1 --op send --elements 1000000 --half")]
pub struct ProfileCommArgs {
    /// Database, table, or folder of them
    #[arg(value_name = "PROFILE")]
    pub profile: PathBuf,
    /// Device type
    #[arg(long = "type", value_name = "TYPE")]
    pub device_type: Option<String>,
    /// Number of hosts
    #[arg(long, value_name = "N")]
    pub hosts: Option<u32>,
    /// Devices per host
    #[arg(long, value_name = "N")]
    pub per_host: Option<u32>,
    /// Operation: send, all-reduce, all-gather, reduce-scatter or all-to-all
    #[arg(long, value_name = "NAME")]
    pub op: Option<String>,
    /// Device groups, such as `[[0,1],[2,3]]`
    #[arg(long, value_name = "GROUPS")]
    pub groups: Option<String>,
    /// Only hosts connected by InfiniBand
    #[arg(long)]
    pub infiniband: bool,
    /// Elements per device: show the time of one operation
    #[arg(long, value_name = "N")]
    pub elements: Option<u64>,
    /// Use 16-bit elements instead of 32-bit ones
    #[arg(long, requires = "elements")]
    pub half: bool,
}

/// `wharf profile diff`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile diff default lab.db                    Compare the built-in profile with measurements
  wharf profile diff before.db after.db --output plain
  wharf profile diff physical.json simulation.json --type v100")]
pub struct ProfileDiffArgs {
    /// First profile
    #[arg(value_name = "PROFILE")]
    pub before: PathBuf,
    /// Second profile
    #[arg(value_name = "PROFILE")]
    pub after: PathBuf,
    /// Filter.
    #[command(flatten)]
    pub filter: ProfileFilterArgs,
}

/// Python environment of the profiler.
#[derive(Debug, Args)]
pub struct ProfilerArgs {
    /// Python interpreter with JAX
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,
    /// Number of XLA host devices to emulate on this machine's processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 10))]
    pub host_devices: Option<u32>,
}

/// `wharf profile run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile run --into lab.db                                        Measure communication on this machine
  wharf profile run model.py:transformer --into lab.db --hardware lab.json
  wharf profile run model.py:transformer --into lab.db --plan pp2.dp4.mb8 --plan dp8 --batch 32
  wharf profile run model.py:transformer --into lab.db --host-devices 8  On one processor, as if it were eight devices
  wharf profile show lab.db --measured

What the database knows already is not measured again; what is done when it is interrupted is kept.")]
pub struct ProfileRunArgs {
    /// Model: a function that returns a wharf.profiler.Stack, or (loss, params, batch)
    #[arg(value_name = "FILE.py:FUNCTION")]
    pub model: Option<String>,
    /// Database; created if it does not exist
    #[arg(long, value_name = "FILE")]
    pub into: PathBuf,
    /// Measurements, separated by commas [default: collectives; with a model also operators and layers; with `--plan` also plans]
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',')]
    pub what: Vec<ProfileSubjectArg>,
    /// Parallel plan to run: stages, replicas, tensor-parallel devices, microbatches; may be given several times
    #[arg(long = "plan", value_name = "ppN.dpN.tpN.mbN", requires = "model")]
    pub plans: Vec<String>,
    /// Global batch size: samples per iteration [default: the model's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub batch: Option<u32>,
    /// Number of devices to use [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    pub devices: Option<u32>,
    /// Name of the device type [default: as reported by the device]
    #[arg(long = "type", value_name = "TYPE")]
    pub device_type: Option<String>,
    /// Number of repetitions; the shortest time counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    pub rounds: u32,
    /// Repeat measurements that are already in the database
    #[arg(long)]
    pub again: bool,
    /// Store activations within blocks instead of recomputing them
    #[arg(long)]
    pub no_recompute: bool,
    /// Output file of a hardware description for `wharf plan --hardware`
    #[arg(long, value_name = "FILE", requires = "model")]
    pub hardware: Option<PathBuf>,
    /// Python environment.
    #[command(flatten)]
    pub profiler: ProfilerArgs,
}

/// Measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileSubjectArg {
    /// Operators of the model's step, and the step on one device
    Operators,
    /// First part, blocks and last part of a Stack, for every power-of-two batch and every number of devices
    Layers,
    /// Communication between devices
    Collectives,
    /// Parallel plans
    Plans,
}

impl ProfileSubjectArg {
    /// Name in the profiler.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Operators => "operators",
            Self::Layers => "layers",
            Self::Collectives => "collectives",
            Self::Plans => "plans",
        }
    }
}

/// `wharf profile capture`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile capture model.py:transformer --to model.json
  wharf plan --model model.json --batch 64 --gpus a40:8")]
pub struct ProfileCaptureArgs {
    /// Model: a function that returns a wharf.profiler.Stack, or (loss, params, batch)
    #[arg(value_name = "FILE.py:FUNCTION")]
    pub model: String,
    /// Output file with extension .json, or `-` for standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub to: PathBuf,
    /// Model name [default: file and function name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
    /// Python interpreter with JAX
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,
}
