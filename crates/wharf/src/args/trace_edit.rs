//! `wharf trace head`, `slice`, `filter`, `scale`, `resample` and `shift`

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use wharf_trace::Range;

/// Input and output of trace commands.
#[derive(Debug, Args)]
pub struct TraceIo {
    /// Trace to read, or folder of a public log; `-` is standard input
    #[arg(value_name = "INPUT", default_value = "-")]
    pub input: PathBuf,

    /// File to write; `-` is standard output
    #[arg(value_name = "OUTPUT", default_value = "-")]
    pub target: PathBuf,

    /// Input format [default: detected]
    #[arg(long, value_name = "FORMAT")]
    pub from: Option<String>,

    /// Output format [default: by the extension of OUTPUT, else Wharf's CSV]
    #[arg(long, value_name = "FORMAT")]
    pub to: Option<String>,

    /// Skip invalid rows and report their number, rule and first lines
    #[arg(long)]
    pub skip_invalid: bool,

    /// Omit jobs of logs that failed or were killed or cancelled
    #[arg(long)]
    pub only_completed: bool,
}

/// `wharf trace head`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf trace head jobs.csv --jobs 100 first.csv
  wharf trace convert Venus/cluster_log.csv | wharf trace head -n 5")]
pub struct TraceHeadArgs {
    /// Input and output
    #[command(flatten)]
    pub io: TraceIo,

    /// Number of jobs to keep, the first by submission
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    pub jobs: usize,
}

/// `wharf trace slice`
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("part").args(["jobs", "time"]).required(true),
    after_help = "\
Examples:
  wharf trace slice jobs.csv --jobs 100..200 second-hundred.csv
  wharf trace slice jobs.csv --time 86400..172800 | wharf trace shift - second-day.csv

Ranges are FROM..TO, FROM.. or ..TO; TO is excluded, so that adjacent slices share no job."
)]
pub struct TraceSliceArgs {
    /// Input and output
    #[command(flatten)]
    pub io: TraceIo,

    /// Positions of the jobs to keep, in the order of submission, counted from 0
    #[arg(long, value_name = "RANGE")]
    pub jobs: Option<Range>,

    /// Window of submission times to keep, in seconds
    #[arg(long, value_name = "RANGE")]
    pub time: Option<Range>,
}

/// `wharf trace filter`
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("criteria").args(["user", "model", "type", "pool", "devices", "duration"]).multiple(true),
    after_help = "\
Examples:
  wharf trace filter jobs.csv --user amy,bob --devices 1..8
  wharf trace filter sacct.txt --only-completed --duration 60.. --pool gpu gpu.csv
  wharf trace filter jobs.csv --type a100 | wharf sim --trace - --cluster a100:4x8 --policy srtf

A job is kept if it meets every option given. Ranges are FROM..TO, FROM.., ..TO or one number; both ends are included."
)]
pub struct TraceFilterArgs {
    /// Input and output
    #[command(flatten)]
    pub io: TraceIo,

    /// Users of the jobs to keep
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    pub user: Vec<String>,

    /// Models of the jobs to keep
    #[arg(long, value_name = "MODEL", value_delimiter = ',')]
    pub model: Vec<String>,

    /// Device types of the jobs to keep
    #[arg(long = "type", id = "type", value_name = "TYPE", value_delimiter = ',')]
    pub device_types: Vec<String>,

    /// Pools (virtual clusters, partitions) of the jobs to keep
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pub pool: Vec<String>,

    /// Number of devices
    #[arg(long, value_name = "RANGE")]
    pub devices: Option<Range>,

    /// Length: seconds of undisturbed running
    #[arg(long, value_name = "RANGE")]
    pub duration: Option<Range>,
}

/// `wharf trace scale`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf trace scale jobs.csv --arrivals 2 busier.csv
  wharf trace scale jobs.csv --durations 0.1 --devices 0.5 | wharf sim --trace - --cluster 2x8 --policy fifo,srtf

Times of submission are divided by the factor of arrivals. Devices are rounded up, to at least one. The time that a deadline allows
is scaled with the durations.")]
pub struct TraceScaleArgs {
    /// Input and output
    #[command(flatten)]
    pub io: TraceIo,

    /// Factor of the arrival rate
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub arrivals: f64,

    /// Factor of the jobs' lengths
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub durations: f64,

    /// Factor of the jobs' devices
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub devices: f64,
}

/// `wharf trace resample`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf trace resample jobs.csv --jobs 5000 --seed 7 larger.csv
  wharf trace resample jobs.csv --seed 2 | wharf sim --trace - --cluster 8x8 --policy fifo,srtf

Draws blocks of consecutive jobs with replacement (moving-block bootstrap; a block is the square root of the number of jobs), with the
gaps between their submissions, so that bursts stay bursts. The first job is submitted at 0. Job a becomes a~1, a~2, ...")]
pub struct TraceResampleArgs {
    /// Input and output
    #[command(flatten)]
    pub io: TraceIo,

    /// Number of jobs to draw [default: as many as the trace has]
    #[arg(long, short = 'n', value_name = "N")]
    pub jobs: Option<usize>,

    /// Seed: the same seed draws the same jobs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// `wharf trace shift`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf trace shift jobs.csv
  wharf trace slice jobs.csv --time 3600..7200 | wharf trace shift --start 60")]
pub struct TraceShiftArgs {
    /// Input and output
    #[command(flatten)]
    pub io: TraceIo,

    /// Time of the first submission, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, allow_negative_numbers = true)]
    pub start: f64,
}
