//! `wharf profile`

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::HomeArgs;

/// What to do with profiles.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Take tables of speeds into a database
    Import(ProfileImportArgs),
    /// Write a profile as CSV, JSON or a database
    Export(ProfileExportArgs),
    /// Show what is in a profile
    Show(ProfileShowArgs),
    /// Ask how fast a model runs: on which type, how many devices, beside whom
    Query(ProfileQueryArgs),
    /// Show communication times, and what moving so many elements takes
    Comm(ProfileCommArgs),
    /// Compare two profiles
    Diff(ProfileDiffArgs),
    /// Measure a model's operators and plans, and what devices need to talk, with JAX
    Run(ProfileRunArgs),
    /// Describe a JAX model for `wharf plan`: parameters, operations and activations of its layers
    Capture(ProfileCaptureArgs),
    /// Take what jobs of a running head took for their iterations into a database
    Learn(ProfileLearnArgs),
}

/// `wharf profile import`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile import simulation_throughputs.json --into lab.db      Gavel's table
  wharf profile import sia/profiles prices.csv --into lab.db          Sia's folder, and prices
  wharf profile import arena/database --into lab.db                   Crius's folder with `prof_database.json`
  wharf profile import measured.csv --into lab.db --dry-run           Only tell what it would change")]
pub struct ProfileImportArgs {
    /// What to take in, in this order; later ones win: tables, databases, folders of them, or `default`
    #[arg(value_name = "PROFILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The database; made where there is none
    #[arg(long, value_name = "FILE")]
    pub into: PathBuf,
    /// Who says so, where a table does not [default: the file's name]
    #[arg(long, value_name = "TEXT")]
    pub source: Option<String>,
    /// Tell what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `wharf profile learn`
#[derive(Debug, Args)]
#[command(after_help = "\
What counts are jobs that name their model and whose trainers report progress (`wharf step`, the SDK).

Examples:
  wharf profile learn --into lab.db                            From the head of this user
  wharf profile learn --into lab.db --dry-run                  Only tell what would be learnt
  wharf plan --model gpt-1.3b --gpus a40:8 --profile lab.db    Estimates, corrected by it")]
pub struct ProfileLearnArgs {
    /// The database; made where there is none
    #[arg(long, value_name = "FILE")]
    pub into: PathBuf,
    /// Tell what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Where the head is found
    #[command(flatten)]
    pub home: HomeArgs,
}

/// `wharf profile export`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile export default speeds.csv              The built-in profile as a table
  wharf profile export lab.db - --to json | jq .prices
  wharf profile export simulation_throughputs.json gavel.db
  wharf profile export default prices.csv --to prices  What an hour of each type costs")]
pub struct ProfileExportArgs {
    /// A database, a table, a folder of them, or `default`
    #[arg(value_name = "PROFILE")]
    pub profile: PathBuf,
    /// Where to write it: a file, or `-` for standard output
    #[arg(value_name = "FILE", default_value = "-")]
    pub target: PathBuf,
    /// What to write [default: by the file's ending, or CSV]
    #[arg(long, value_name = "KIND")]
    pub to: Option<ProfileKindArg>,
    /// Write over an existing file
    #[arg(long)]
    pub force: bool,
    /// Which entries.
    #[command(flatten)]
    pub filter: ProfileFilterArgs,
}

/// What a profile is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileKindArg {
    /// A row for each entry, without prices, exact cells and communication
    Csv,
    /// Everything in one document
    Json,
    /// A database, as `wharf profile import` makes it
    Db,
    /// A row for each price
    Prices,
}

/// Entries of a profile.
#[derive(Debug, Args)]
pub struct ProfileFilterArgs {
    /// Only this model
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Only this device type
    #[arg(long = "type", value_name = "TYPE")]
    pub device_type: Option<String>,
    /// Only gangs of so many devices
    #[arg(long, value_name = "N")]
    pub devices: Option<u32>,
}

/// `wharf profile show`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile show                                 What the built-in profile has, model by model
  wharf profile show lab.db --model resnet50         Every entry of a model
  wharf profile show default --type a100 --devices 1 --pairs
  wharf profile show crius.db --cells --model bert__1.3B
  wharf profile show lab.db --measured               Operators, collectives and plans, one by one
  wharf profile show default --prices")]
pub struct ProfileShowArgs {
    /// A database, a table, a folder of them, or `default`
    #[arg(value_name = "PROFILE", default_value = "default")]
    pub profile: PathBuf,
    /// Which entries; without any, an overview is shown.
    #[command(flatten)]
    pub filter: ProfileFilterArgs,
    /// Entries beside others too
    #[arg(long)]
    pub pairs: bool,
    /// What an hour of each type costs, instead
    #[arg(long, conflicts_with = "pairs")]
    pub prices: bool,
    /// Times of exact cells, by hosts and devices on each, instead
    #[arg(long, conflicts_with_all = ["pairs", "prices"])]
    pub cells: bool,
    /// What `wharf profile run` measured, one by one, instead: seconds, operations, machine, versions, time
    #[arg(long, conflicts_with_all = ["pairs", "prices", "cells"])]
    pub measured: bool,
}

/// `wharf profile query`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile query --model resnet50 --batch-size 64                 On every type that the built-in profile knows
  wharf profile query lab.db --model bert-base --batch-size 64 --type v100,a100 --devices 4
  wharf profile query --model vgg19 --batch-size 32 --type t4 --beside 'a3c (batch size 128)'
  wharf profile query crius.db --model bert__1.3B --batch-size 256 --hosts 2 --per-host 2   In exact cells
  wharf profile query --model mine --iteration-ms 120 --told-for v100  What a job tells of itself, moved to other types")]
pub struct ProfileQueryArgs {
    /// A database, a table, a folder of them, or `default`
    #[arg(value_name = "PROFILE", default_value = "default")]
    pub profile: PathBuf,
    /// The model, as traces name it
    #[arg(long, value_name = "NAME")]
    pub model: String,
    /// Samples per iteration, over the whole gang
    #[arg(long, value_name = "N")]
    pub batch_size: Option<u32>,
    /// The device types, separated by commas [default: all that the profile has]
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub device_type: Vec<String>,
    /// How many devices
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub devices: u32,
    /// The gang lies over more nodes than it needs
    #[arg(long)]
    pub spread: bool,
    /// The parallel plan, by the name that the profile has for it
    #[arg(long, value_name = "NAME")]
    pub plan: Option<String>,
    /// What else runs on the same devices, as `MODEL` or `MODEL (batch size N)`; may be given several times
    #[arg(long, value_name = "WORKLOAD")]
    pub beside: Vec<String>,
    /// What a job tells of itself: one iteration on so many devices, in milliseconds
    #[arg(long, value_name = "MS")]
    pub iteration_ms: Option<f64>,
    /// The type that `--iteration-ms` holds for [default: the profile's reference type]
    #[arg(long, value_name = "TYPE", requires = "iteration_ms")]
    pub told_for: Option<String>,
    /// The gang is divided by samples only; with `--hosts`, a copy must fit a device
    #[arg(long, conflicts_with_all = ["plan", "beside", "iteration_ms"])]
    pub data_parallel: bool,
    /// Ask for an exact cell: so many hosts
    #[arg(
        long, value_name = "N", requires = "per_host", value_parser = clap::value_parser!(u32).range(1..=1 << 15),
        conflicts_with_all = ["devices", "spread", "plan", "beside", "iteration_ms"],
    )]
    pub hosts: Option<u32>,
    /// Devices on each host
    #[arg(long, value_name = "N", requires = "hosts", value_parser = clap::value_parser!(u32).range(1..=1 << 15))]
    pub per_host: Option<u32>,
}

/// `wharf profile comm`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile comm crius.db                                          Which operations were measured where
  wharf profile comm crius.db --type a40 --op all-reduce --elements 25000000
  wharf profile comm crius.db --hosts 2 --per-host 1 --op send --elements 1000000 --half")]
pub struct ProfileCommArgs {
    /// A database, a table, or a folder of them
    #[arg(value_name = "PROFILE")]
    pub profile: PathBuf,
    /// Only this device type
    #[arg(long = "type", value_name = "TYPE")]
    pub device_type: Option<String>,
    /// Only so many hosts
    #[arg(long, value_name = "N")]
    pub hosts: Option<u32>,
    /// Only so many devices on each host
    #[arg(long, value_name = "N")]
    pub per_host: Option<u32>,
    /// Only this operation: send, all-reduce, all-gather, reduce-scatter or all-to-all
    #[arg(long, value_name = "NAME")]
    pub op: Option<String>,
    /// Only devices that work together like this, such as `[[0,1],[2,3]]`
    #[arg(long, value_name = "GROUPS")]
    pub groups: Option<String>,
    /// Only hosts that are connected by InfiniBand
    #[arg(long)]
    pub infiniband: bool,
    /// How long it takes with so many elements on each device
    #[arg(long, value_name = "N")]
    pub elements: Option<u64>,
    /// The elements have 16 bits, not 32
    #[arg(long, requires = "elements")]
    pub half: bool,
}

/// `wharf profile diff`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile diff default lab.db                    How far the built-in model is from what was measured
  wharf profile diff before.db after.db --output plain
  wharf profile diff physical.json simulation.json --type v100")]
pub struct ProfileDiffArgs {
    /// The first profile
    #[arg(value_name = "PROFILE")]
    pub before: PathBuf,
    /// The second
    #[arg(value_name = "PROFILE")]
    pub after: PathBuf,
    /// Which entries.
    #[command(flatten)]
    pub filter: ProfileFilterArgs,
}

/// The Python that measures.
#[derive(Debug, Args)]
pub struct ProfilerArgs {
    /// A Python that has JAX
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,
    /// Let XLA make so many devices out of this machine's processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 10))]
    pub host_devices: Option<u32>,
}

/// `wharf profile run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf profile run --into lab.db                                        What this machine's devices need to talk
  wharf profile run model.py:transformer --into lab.db --hardware lab.json
  wharf profile run model.py:transformer --into lab.db --plan pp2.dp4.mb8 --plan dp8 --batch 32
  wharf profile run model.py:transformer --into lab.db --host-devices 8  On one processor, as if it were eight devices
  wharf profile show lab.db --measured

What the database knows already is not measured again; what is done when it is interrupted is kept.")]
pub struct ProfileRunArgs {
    /// The model: a function that returns a wharf.profiler.Stack, or (loss, params, batch)
    #[arg(value_name = "FILE.py:FUNCTION")]
    pub model: Option<String>,
    /// The database; made where there is none
    #[arg(long, value_name = "FILE")]
    pub into: PathBuf,
    /// What to measure, separated by commas [default: collectives; of a model also operators and layers; plans where any are given]
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',')]
    pub what: Vec<ProfileSubjectArg>,
    /// A parallel plan to run: stages, replicas, devices that share blocks, microbatches; may be given several times
    #[arg(long = "plan", value_name = "ppN.dpN.tpN.mbN", requires = "model")]
    pub plans: Vec<String>,
    /// Samples of an iteration, over all devices [default: the model's batch]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub batch: Option<u32>,
    /// Use so many devices [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    pub devices: Option<u32>,
    /// What to call the device type [default: as the device calls itself]
    #[arg(long = "type", value_name = "TYPE")]
    pub device_type: Option<String>,
    /// Come back so often to everything; the least time counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    pub rounds: u32,
    /// Measure also what the database knows
    #[arg(long)]
    pub again: bool,
    /// Run plans that keep what the forward pass computes within a block, instead of computing it anew
    #[arg(long)]
    pub no_recompute: bool,
    /// Write what the devices reach as a description for `wharf plan --hardware`
    #[arg(long, value_name = "FILE", requires = "model")]
    pub hardware: Option<PathBuf>,
    /// Who measures.
    #[command(flatten)]
    pub profiler: ProfilerArgs,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileSubjectArg {
    /// Operators of the model's step, and the step of one device
    Operators,
    /// First part, blocks and last part of a Stack: with every power of two of samples, shared by every number of devices
    Layers,
    /// What devices need to talk
    Collectives,
    /// The model under parallel plans
    Plans,
}

impl ProfileSubjectArg {
    /// How the profiler calls it.
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
    /// The model: a function that returns a wharf.profiler.Stack, or (loss, params, batch)
    #[arg(value_name = "FILE.py:FUNCTION")]
    pub model: String,
    /// Where to write it: a file that ends with .json, or `-` for standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub to: PathBuf,
    /// What to call the model [default: the file's and the function's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Write over an existing file
    #[arg(long)]
    pub force: bool,
    /// A Python that has JAX
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,
}
