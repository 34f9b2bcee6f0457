//! `wharf tune`: sweeps over parameters.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use wharf_job::Format;

use super::choice::one_of;
use super::cluster::HomeArgs;
use super::submit::JobFlags;

/// `wharf tune`
#[derive(Debug, Subcommand)]
pub enum TuneCommand {
    /// Run a job with many configurations, as one array
    Start(Box<TuneStartArgs>),
    /// Show the progress of a sweep
    Status(TuneArgs),
    /// Retry failed elements of a sweep
    Retry(TuneRetryArgs),
    /// Show parameters, metrics and states of a sweep's elements
    Results(TuneResultsArgs),
    /// Cancel all unfinished elements of a sweep
    Cancel(TuneArgs),
    /// Write an HTML report: table, curves, parallel coordinates
    Report(TuneReportArgs),
}

/// `wharf tune start`
///
/// A sweep file has a `job`, as a job file does, and `parameters`: a list of values for each, `{from, to, step}`, or `{min, max, scale: log,
/// whole: true}` to draw from. `search` is `grid` (every combination), `list` (the first values, then the second ones), or `random`, which needs a
/// `count` and takes a `seed`. `csv` names a file with a column for each parameter instead. `{name}` in the job's command, variables, output and
/// checkpoint folder is replaced by the element's value, which is also in the environment variable WHARF_PARAM_NAME.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf tune start rates.yaml
  wharf tune start rates.yaml --dry-run           Show the configurations
  wharf tune start rates.yaml --gang 2 --cpus 4   Override fields of the file's job
  wharf tune start rates.yaml --wait --dir runs/rates

A sweep file:
  name: rates
  parameters:
    lr: [0.1, 0.01, 0.001]
    seed: {from: 0, to: 4}
  job:
    command: python train.py --lr {lr} --seed {seed}
    output: logs/%x-%a.txt")]
pub struct TuneStartArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Sweep file (.yaml, .toml or .json)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Format of the file [default: by file extension]
    #[arg(long, value_name = "FORM", value_parser = one_of::<Format>())]
    pub format: Option<Format>,
    /// Directory of the sweep's manifest [default: wharf-tune/NAME]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Print the configurations and exit
    #[arg(long, conflicts_with = "wait")]
    pub dry_run: bool,
    /// Wait for all elements to end; the exit code is the first that is not 0
    #[arg(long)]
    pub wait: bool,
    /// Overrides of the file's job.
    #[command(flatten)]
    pub job: JobFlags,
}

/// A started sweep.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  wharf tune status wharf-tune/rates")]
pub struct TuneArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Directory of the sweep
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// `wharf tune retry`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  wharf tune retry wharf-tune/rates --wait")]
pub struct TuneRetryArgs {
    /// Sweep.
    #[command(flatten)]
    pub sweep: TuneArgs,
    /// Wait for them to end; the exit code is the first that is not 0
    #[arg(long)]
    pub wait: bool,
}

/// `wharf tune results`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf tune results wharf-tune/rates
  wharf tune results wharf-tune/rates --sort loss          Smallest loss first
  wharf tune results wharf-tune/rates --sort=-accuracy     Largest accuracy first
  wharf tune results wharf-tune/rates --sort loss --best   Best element only
  wharf tune results wharf-tune/rates --sort loss --best-over-time
  wharf tune results wharf-tune/rates --csv > results.csv")]
pub struct TuneResultsArgs {
    /// Sweep.
    #[command(flatten)]
    pub sweep: TuneArgs,
    /// Metric or parameter to sort by; a `-` before its name sorts in descending order
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// Show only the first element by `--sort`
    #[arg(long, requires = "sort")]
    pub best: bool,
    /// Use the best value that each element has reported, instead of the last one, and show its step
    #[arg(long, requires = "sort")]
    pub best_over_time: bool,
    /// Same as `--output csv`
    #[arg(long)]
    pub csv: bool,
}

/// `wharf tune report`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  wharf tune report wharf-tune/rates --out rates.html")]
pub struct TuneReportArgs {
    /// Sweep.
    #[command(flatten)]
    pub sweep: TuneArgs,
    /// Output file [default: report.html in the sweep's directory]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
