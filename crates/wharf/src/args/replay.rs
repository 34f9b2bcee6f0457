//! `wharf replay`

use std::path::PathBuf;

use clap::Args;

/// `wharf replay`
///
/// Submits the jobs of a trace at their times to a real head, where real processes take as long as the performance model
/// says, and compares what happened with what the simulator predicts for the same trace, policy and settings.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf replay --trace jobs.csv --cluster 2x4 --policy srtf --time-scale 60    An hour in a minute
  wharf replay --trace jobs.csv --cluster 2x4 --policy srtf --dry-run          Only plan and predict
  wharf replay --trace jobs.csv --cluster v100:2x4 --policy muri-s --rounds 20 --out replay
  wharf replay --trace runtime_trace.csv --cluster cluster_spec.json --policy gavel --set sched_with_opt=on
  wharf replay --trace jobs.csv --home ~/.local/state/wharf --policy fifo      On a running cluster")]
pub struct ReplayArgs {
    /// The trace: a file, or `-` for standard input
    #[arg(long, short, value_name = "FILE")]
    pub trace: PathBuf,

    /// The trace's format; told from its content where not given
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// The cluster, as in `wharf sim`: it is started on this machine with declared devices, and ends with the replay
    #[arg(long, short, value_name = "FILE|FORM", required_unless_present = "home")]
    pub cluster: Option<String>,

    /// Use the cluster that serves in this folder instead, with the policy and the settings that it has
    #[arg(long, value_name = "DIR", conflicts_with = "cluster")]
    pub home: Option<PathBuf>,

    /// The policy that decides. On a trace of Crius, Muri or Gavel, a name that only that system has means its policy:
    /// see `wharf policies --from`
    #[arg(long, short, value_name = "POLICY")]
    pub policy: String,

    /// A setting of the policy or of the rules, as in `wharf sim`; may be given several times. Times are those of
    /// the trace: they are scaled with it
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// How fast models run on which devices, as in `wharf sim`
    #[arg(long, value_name = "PATH", conflicts_with = "home")]
    pub profile: Option<PathBuf>,

    /// Network interface for the gangs' processes, on every worker of the replay [default: that of the node's address]
    #[arg(long, value_name = "NAME", conflicts_with = "home")]
    pub network_interface: Option<String>,

    /// Keep the time before the first submission, and count rounds from time 0 of the trace [default: start at the first
    /// submission]
    #[arg(long)]
    pub keep_offset: bool,

    /// Speed-up: times of the trace, the jobs' work and all times of the policy are divided by this
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub time_scale: f64,

    /// Stop after so many scheduling rounds, whatever still runs. A round lasts as long as the policy's setting
    /// `round_s`, or 300 seconds where it has none, divided by the scale [default: until all jobs have ended]
    #[arg(long, value_name = "N")]
    pub rounds: Option<u32>,

    /// Seed of everything that is drawn at random
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "home")]
    pub seed: u64,

    /// Seconds from a launch to the first iteration, as the model's `restart_s` [default: measured]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub start_cost: Option<f64>,

    /// Print the plan and the prediction, and start nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Write `report.html`, `summary.json` and `jobs.tsv` into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    pub out: Option<PathBuf>,
}
