//! `wharf report`, `wharf compare`

use std::path::PathBuf;

use clap::Args;

use super::HomeArgs;

/// `wharf report`
///
/// The report is one self-contained HTML file with tables, curves, device timelines, the best policy per metric with its confidence, and the
/// command lines to reproduce the runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf report                         Write report.html about the cluster
  wharf report --to week.html
  wharf report results                 Report runs of `wharf sim --out results`
  wharf report seed-1 seed-2 seed-3 --to seeds.html
  wharf report wharf-sweep/quick       Report a sweep")]
pub struct ReportArgs {
    /// Directories of runs, from `wharf sim --out` or `wharf sweep` [default: the cluster]
    #[arg(value_name = "DIR")]
    pub runs: Vec<PathBuf>,
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Output file
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub to: PathBuf,
}

/// `wharf compare`
///
/// Runs that differ only in the seed form one row: the mean, and half of its 95 % confidence interval by Student's t. A second table
/// shows, for every metric, the best policy, the next best, the difference and its interval: a paired t-test for equal seeds, Welch's
/// t-test otherwise. Over several traces, the logarithms of the ratios are compared, one per trace.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf compare results
  wharf compare seed-1 seed-2 seed-3 --output json
  wharf compare wharf-sweep/quick --report compared.html")]
pub struct CompareArgs {
    /// Directories of runs, from `wharf sim --out` or `wharf sweep`
    #[arg(value_name = "DIR", required = true)]
    pub runs: Vec<PathBuf>,
    /// Also write the report of `wharf report` to this file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}
