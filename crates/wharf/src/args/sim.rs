//! `wharf sim`

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use clap::Args;

use super::env;

/// `wharf sim`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf sim --trace jobs.csv --cluster 8x8 --policy fifo,srtf,tiresias
  wharf sim --trace jobs.csv --cluster 8x8 --policy fifo,srtf,tiresias --report compared.html
  wharf sim --trace jobs.csv --cluster a100:4x8,v100:16x4 --policy srsf --out results
  wharf sim --trace trace1.csv --cluster n8g8.csv --policy muri-l --preset muri --set packing_num=2
  wharf sim --trace gavel.trace --cluster v100:36,p100:36,k80:36 --policy allox,gandiva --preset gavel --profile speeds.json
  wharf sim --trace pods.csv --cluster nodes.csv --policy all --preset fgd --seed 42
  wharf sim --trace jobs.csv --cluster 8x8 --policy srtf --failures mtbf=200,repair=2 --seed 3
  wharf sim --trace jobs.csv --cluster 8x8 --policy fifo,srtf --limits limits.toml
  wharf sim --trace jobs.csv --cluster 8x8 --policy fifo,srtf --measure jobs=1000..1999
  wharf sim --trace jobs.csv --cluster 8x8 --policy srtf --explain 17
  wharf sim --trace jobs.csv --cluster 8x8 --policy fifo,tiresias --set fifo.backfill=easy --set tiresias.queue_limits_s=300:900
  wharf sim --trace jobs.csv --cluster v100:4x4,p100:4x4,k80:4x4 --policy all --out mixed
  wharf trace generate --jobs 1000 | wharf sim --trace - --cluster 16x4 --policy las --output json")]
pub struct SimArgs {
    /// Trace file, or `-` for standard input
    #[arg(long, short, value_name = "FILE")]
    pub trace: PathBuf,

    /// Cluster: a file, or a short form: `8x8` (nodes × devices), `a100:4x8,v100:16x4`,
    /// `v100:36` (36 nodes of one device)
    #[arg(long, short, value_name = "FILE|FORM")]
    pub cluster: String,

    /// Policies, separated by commas, or `all`; `wharf policies` lists them. A custom policy program is given by its path: `./mine.py`
    #[arg(long, short, value_name = "POLICY", value_delimiter = ',', required = true)]
    pub policy: Vec<String>,

    /// Simulation rules: a built-in preset or a file; `wharf presets` lists them
    #[arg(long, value_name = "NAME|FILE", default_value = "wharf", env = env::PRESET.name, hide_env_values = true)]
    pub preset: String,

    /// Setting of the preset or the policies; may be given several times
    ///
    /// A setting applies to all policies that have it, with a notice if some do not; `POLICY.KEY=VALUE` applies to one policy.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Node failures: a CSV file (`time_s,node,event` with event `down` or `up`), or `mtbf=HOURS[,repair=HOURS]` for
    /// random failures
    #[arg(long, value_name = "FILE|mtbf=HOURS")]
    pub failures: Option<String>,

    /// Throughput profile: a profile database, a file of a published system, a folder of them, `default`
    /// or `none` [default: the built-in profile where device types are mixed]
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,

    /// Number of rounds to simulate, for round-based policies and presets; unfinished jobs are counted
    #[arg(long, value_name = "N")]
    pub rounds: Option<NonZeroU64>,

    /// Measurement window: `jobs=A..B` (positions in the trace, from 0, both included) or `time=T1..T2` (jobs submitted from
    /// T1 up to T2, in seconds or durations such as `12h`). Jobs outside run, but are not counted; `wharf help run-metrics`
    /// has the definitions
    #[arg(long, value_name = "WINDOW")]
    pub measure: Option<String>,

    /// Explain one job of the trace instead of summarizing: its waits with reasons, the jobs that went first, its preemptions
    #[arg(long, value_name = "JOB", conflicts_with_all = ["out", "report", "measure"])]
    pub explain: Option<String>,

    /// Limits of users, groups and pools: a TOML file as for `wharf limits apply`
    #[arg(long, value_name = "FILE")]
    pub limits: Option<PathBuf>,

    /// Trace format [default: detected]
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Output directory for `jobs.csv`, `events.jsonl`, `timeline.csv`, `summary.json`, `run.json` and plots (SVG, PDF) of each run,
    /// and `report.html` about all of them; with round-based policies also `rounds.jsonl` and `allocations.jsonl`
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Output file of a self-contained HTML report: tables, curves, device timelines
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Maximum number of parallel simulations [default: number of cores]
    #[arg(long, value_name = "N", env = env::THREADS.name, hide_env_values = true)]
    pub threads: Option<NonZeroUsize>,
}
