//! `wharf trace`

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::trace_edit::{
    TraceFilterArgs, TraceHeadArgs, TraceIo, TraceResampleArgs, TraceScaleArgs, TraceShiftArgs,
    TraceSliceArgs,
};

/// `wharf trace`
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  wharf trace generate --jobs 1000 --seed 7 --to jobs.csv
  wharf trace lint jobs.csv --cluster 8x8
  wharf trace stats jobs.csv
  wharf trace convert trace1.csv jobs.jsonl
  wharf trace convert sacct.txt | wharf trace filter --user amy | wharf trace head -n 100 - first.csv")]
pub enum TraceCommand {
    /// Convert a trace to another format
    Convert(ConvertArgs),
    /// Check traces and list all errors by file, line and column
    Lint(LintArgs),
    /// Describe a trace: sizes, lengths, arrivals, load
    Stats(StatsArgs),
    /// Generate a realistic trace from a seed
    Generate(GenerateArgs),
    /// Keep the first jobs of a trace
    Head(TraceHeadArgs),
    /// Keep a range of jobs, or a window of time
    Slice(TraceSliceArgs),
    /// Keep the jobs that meet criteria
    Filter(TraceFilterArgs),
    /// Change the arrival rate, lengths or devices of jobs by factors
    Scale(TraceScaleArgs),
    /// Draw jobs of a trace at random, with replacement
    Resample(TraceResampleArgs),
    /// Move all times of a trace
    Shift(TraceShiftArgs),
}

/// `wharf trace convert`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf trace convert trace1.csv jobs.jsonl
  wharf trace convert trace1.csv.gz - --to csv | head
  wharf trace convert - muri.csv --to muri < jobs.csv
  wharf trace convert Venus/cluster_log.csv venus.csv
  wharf trace convert cluster-trace-gpu-v2020/data pai.jsonl
  wharf trace convert sacct.txt jobs.csv --skip-invalid
  wharf trace convert sacct.txt jobs.csv --from sacct-cpus

Formats that are written: csv, jsonl, muri, gavel. Formats that are only read: blox, blox-csv, sia, crius, Slurm's accounting (sacct,
sacct-cpus, sacct-nodes), the Standard Workload Format (swf), and the public logs philly, philly-csv, helios, pai and openb
(docs/traces.md). A folder is read where it holds such a log.
Rows that are left out, and what the target format cannot hold, are reported on standard error.")]
pub struct ConvertArgs {
    /// Input and output
    #[command(flatten)]
    pub io: TraceIo,
}

/// `wharf trace lint`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf trace lint jobs.csv
  wharf trace lint jobs.csv more.jsonl --cluster 8x8
  wharf trace lint jobs.csv --output json
  wharf trace lint Venus/cluster_log.csv
  wharf trace lint trace1.csv --cluster n8g8.csv --preset muri --policy muri-l

With `--cluster`, every check that `wharf sim` makes before a run is made as well.
Rows of a log that are no jobs to replay are counted by reason, as warnings.
Exits with 0 where no file has an error (warnings are no errors), and with 3 otherwise.")]
pub struct LintArgs {
    /// Trace files; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Cluster on which every job must fit, as in `wharf sim`
    #[arg(long, short, value_name = "FILE|FORM")]
    pub cluster: Option<String>,

    /// Simulation rules, as in `wharf sim`
    #[arg(long, value_name = "NAME|FILE", default_value = "wharf", requires = "cluster")]
    pub preset: String,

    /// Policy, for presets whose checks depend on it [default: the preset's first]
    #[arg(long, short, value_name = "POLICY", requires = "cluster")]
    pub policy: Option<String>,

    /// Throughput profile, as in `wharf sim`
    #[arg(long, value_name = "PATH", requires = "cluster")]
    pub profile: Option<PathBuf>,

    /// Trace format [default: detected]
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
}

/// `wharf trace stats`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf trace stats jobs.csv --cluster 8x8
  wharf trace stats jobs.csv --output json")]
pub struct StatsArgs {
    /// Trace file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Cluster for which the load is shown, as in `wharf sim`
    #[arg(long, short, value_name = "FILE|FORM")]
    pub cluster: Option<String>,

    /// Trace format [default: detected]
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
}

/// `wharf trace generate`
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("pace").args(["load", "rate", "at_once"]),
    after_help = "\
Examples:
  wharf trace generate --jobs 1000 --seed 7 --to jobs.csv
  wharf trace generate --jobs 1000000 --devices 100000 --load 0.95 --to big.csv
  wharf trace generate --arrivals bursty --gangs muri --format muri --to bursty.csv
  wharf trace generate --gangs 1:0.5,2:0.2,8:0.3 --median 600 | wharf trace stats -"
)]
pub struct GenerateArgs {
    /// Number of jobs
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub jobs: u32,

    /// Random seed; the same seed and options give the same trace
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Output file; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub to: PathBuf,

    /// Output format [default: by the extension of `--to`, else Wharf's CSV]
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// Load: busy share of `--devices`, which sets the arrival rate; above 1 the queue grows [default: 0.9]
    #[arg(long, value_name = "SHARE", help_heading = "Arrivals")]
    pub load: Option<f64>,

    /// Number of devices for `--load`
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Arrivals")]
    pub devices: u32,

    /// Arrival rate in jobs per hour, instead of `--load`
    #[arg(long, value_name = "PER_HOUR", help_heading = "Arrivals")]
    pub rate: Option<f64>,

    /// Submit all jobs at time 0, instead of `--load`
    #[arg(long, help_heading = "Arrivals")]
    pub at_once: bool,

    /// Arrival process
    #[arg(long, value_enum, value_name = "KIND", default_value_t = ArrivalKind::Poisson, help_heading = "Arrivals")]
    pub arrivals: ArrivalKind,

    /// Arrival rate in a burst, relative to the time between bursts
    #[arg(long, value_name = "FACTOR", default_value_t = 10.0, help_heading = "Arrivals")]
    pub burst_factor: f64,

    /// Mean length of a burst in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800.0, help_heading = "Arrivals")]
    pub burst_length: f64,

    /// Mean time between bursts in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 14_400.0, help_heading = "Arrivals")]
    pub calm_length: f64,

    /// Amplitude of the daily cycle of the arrival rate: 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, help_heading = "Arrivals")]
    pub daily_swing: f64,

    /// Median length of a job in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1200.0, help_heading = "Jobs")]
    pub median: f64,

    /// Spread of lengths: standard deviation of their logarithm
    #[arg(long, value_name = "SIGMA", default_value_t = 1.6, help_heading = "Jobs")]
    pub sigma: f64,

    /// Share of jobs in the heavy tail
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, help_heading = "Jobs")]
    pub tail_share: f64,

    /// Start of the tail in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 28_800.0, help_heading = "Jobs")]
    pub tail_from: f64,

    /// Exponent of the tail: the smaller, the heavier
    #[arg(long, value_name = "EXPONENT", default_value_t = 1.3, help_heading = "Jobs")]
    pub tail_shape: f64,

    /// Shortest job in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, help_heading = "Jobs")]
    pub min: f64,

    /// Longest job in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1_209_600.0, help_heading = "Jobs")]
    pub max: f64,

    /// Distribution of gang sizes: `philly`, `muri`, `helios`, `pai`, or SIZE:WEIGHT pairs [default: `philly`, up to
    /// `--devices`]
    #[arg(long, value_name = "MIX", help_heading = "Jobs")]
    pub gangs: Option<String>,

    /// Number of users; 0 omits users
    #[arg(long, value_name = "N", default_value_t = 50, help_heading = "Jobs")]
    pub users: u32,

    /// Inequality of users; 0: all equal
    #[arg(long, value_name = "EXPONENT", default_value_t = 1.1, help_heading = "Jobs")]
    pub user_skew: f64,

    /// Share of jobs with priority 1 instead of 0
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, help_heading = "Jobs")]
    pub urgent_share: f64,

    /// Share of jobs with a deadline
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Jobs")]
    pub deadline_share: f64,

    /// Minimum time to the deadline, as a multiple of the job's length
    #[arg(long, value_name = "TIMES", default_value_t = 1.5, help_heading = "Jobs")]
    pub slack_min: f64,

    /// Maximum time to the deadline, as a multiple of the job's length
    #[arg(long, value_name = "TIMES", default_value_t = 5.0, help_heading = "Jobs")]
    pub slack_max: f64,
}

/// Arrival process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArrivalKind {
    /// Independent arrivals
    Poisson,
    /// Alternating bursts and quiet periods
    Bursty,
}
