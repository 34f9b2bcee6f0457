//! `wharf tune`: sweeps over parameters.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::cluster::HomeArgs;
use super::submit::JobFlags;
use crate::jobfile::Format;

/// `wharf tune`
#[derive(Debug, Subcommand)]
pub enum TuneCommand {
    /// Run a job with many configurations, as one array
    Start(Box<TuneStartArgs>),
    /// Show how far a sweep is
    Status(TuneArgs),
    /// Run those elements of a sweep again that have failed
    Retry(TuneRetryArgs),
    /// Show what came out: parameters, metrics of the trainers, states
    Results(TuneResultsArgs),
    /// Cancel all elements of a sweep that are not over
    Cancel(TuneArgs),
    /// Write a page about a sweep: table, curves, parallel coordinates
    Report(TuneReportArgs),
}

/// `wharf tune start`
///
/// A sweep file has a `job`, as a job file does, and `parameters`: a list of values for each, `{from, to, step}`, or `{min, max, scale: log,
/// whole: true}` to draw from. `search` is `grid` (every combination), `list` (the first values, then the second ones), or `random`, which needs a
/// `count` and takes a `seed`. `csv` names a file with a column for each parameter instead. `{name}` in the job's command, variables, output and
/// checkpoint folder becomes the element's value, and WHARF_PARAM_NAME tells it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf tune start rates.yaml
  wharf tune start rates.yaml --dry-run           Show the configurations
  wharf tune start rates.yaml --gang 2 --cpus 4   Flags win over the file's job
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
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The sweep file (.yaml, .toml or .json)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The form of the file, where its name does not tell
    #[arg(long, value_name = "FORM", value_enum)]
    pub format: Option<Format>,
    /// Where the sweep's manifest is kept [default: wharf-tune/NAME]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Print the configurations and do nothing else
    #[arg(long, conflicts_with = "wait")]
    pub dry_run: bool,
    /// Wait until all elements are over; the exit code is the first that is not 0
    #[arg(long)]
    pub wait: bool,
    /// What lies over the file's job.
    #[command(flatten)]
    pub job: JobFlags,
}

/// A sweep that was started.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  wharf tune status wharf-tune/rates")]
pub struct TuneArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The sweep's folder
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// `wharf tune retry`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  wharf tune retry wharf-tune/rates --wait")]
pub struct TuneRetryArgs {
    /// Which sweep.
    #[command(flatten)]
    pub sweep: TuneArgs,
    /// Wait until they are over; the exit code is the first that is not 0
    #[arg(long)]
    pub wait: bool,
}

/// `wharf tune results`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf tune results wharf-tune/rates
  wharf tune results wharf-tune/rates --sort loss          The smallest loss first
  wharf tune results wharf-tune/rates --sort=-accuracy     The largest accuracy first
  wharf tune results wharf-tune/rates --sort loss --best   The best element only
  wharf tune results wharf-tune/rates --sort loss --best-over-time
  wharf tune results wharf-tune/rates --csv > results.csv")]
pub struct TuneResultsArgs {
    /// Which sweep.
    #[command(flatten)]
    pub sweep: TuneArgs,
    /// Sort by a metric or a parameter; with `-` before its name, the largest first
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// Show the best element only: the first by `--sort`
    #[arg(long, requires = "sort")]
    pub best: bool,
    /// Sort by the best value that each element has reported, instead of the last one, and show it with its step
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
    /// Which sweep.
    #[command(flatten)]
    pub sweep: TuneArgs,
    /// The page [default: report.html in the sweep's folder]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
