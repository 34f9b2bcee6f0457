//! `wharf replay`

use std::path::PathBuf;

use clap::Args;

/// `wharf replay`
///
/// Submits the jobs of a trace at their times to a head. Each job is a process that runs as long as the performance model
/// predicts. The results are compared with a simulation of the same trace, policy and settings.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf replay --trace jobs.csv --cluster 2x4 --policy srtf --time-scale 60    Replay an hour in a minute
  wharf replay --trace jobs.csv --cluster 2x4 --policy srtf --dry-run          Print the prediction only
  wharf replay --trace jobs.csv --cluster v100:2x4 --policy muri-s --rounds 20 --out replay
  wharf replay --trace runtime_trace.csv --cluster cluster_spec.json --policy gavel --set sched_with_opt=on
  wharf replay --trace jobs.csv --home ~/.local/state/wharf --policy fifo      Use a running cluster")]
pub struct ReplayArgs {
    /// Trace file, or `-` for standard input
    #[arg(long, short, value_name = "FILE")]
    pub trace: PathBuf,

    /// Trace format [default: detected]
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// Cluster, as in `wharf sim`, started on this machine with declared devices for the time of the replay
    #[arg(long, short, value_name = "FILE|FORM", required_unless_present = "home")]
    pub cluster: Option<String>,

    /// State directory of a running cluster to use instead, with its policy and settings
    #[arg(long, value_name = "DIR", conflicts_with = "cluster")]
    pub home: Option<PathBuf>,

    /// Scheduling policy. With a trace of Crius, Muri or Gavel, policy names of that system are accepted as well:
    /// see `wharf policies --from`
    #[arg(long, short, value_name = "POLICY")]
    pub policy: String,

    /// Setting of the policy or of the rules, as in `wharf sim`; may be given several times. Times are trace times and are
    /// scaled
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Throughput profile, as in `wharf sim`
    #[arg(long, value_name = "PATH", conflicts_with = "home")]
    pub profile: Option<PathBuf>,

    /// Network interface for gang communication on every worker of the replay [default: that of the node's address]
    #[arg(long, value_name = "NAME", conflicts_with = "home")]
    pub network_interface: Option<String>,

    /// Start at time 0 of the trace [default: start at the first
    /// submission]
    #[arg(long)]
    pub keep_offset: bool,

    /// Speed-up factor for trace times, job lengths and policy times
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub time_scale: f64,

    /// Stop after this number of scheduling rounds. A round is the policy's setting `round_s`, or 300 seconds without one,
    /// divided by the speed-up [default: until all jobs have ended]
    #[arg(long, value_name = "N")]
    pub rounds: Option<u32>,

    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "home")]
    pub seed: u64,

    /// Restart time: seconds from a launch to the first iteration [default: measured]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub start_cost: Option<f64>,

    /// Print the plan and the prediction without starting jobs
    #[arg(long)]
    pub dry_run: bool,

    /// Output directory for `report.html`, `summary.json` and `jobs.tsv`
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    pub out: Option<PathBuf>,
}
