//! `wharf report`, `wharf compare`

use std::path::PathBuf;

use clap::Args;

use super::HomeArgs;

/// `wharf report`
///
/// The page is one file. It opens from disk, fetches nothing, and shows tables, curves, who had which device when, who is best at what and
/// how sure that is, and the command lines that do it again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf report                         What the cluster has done so far, as report.html
  wharf report --to week.html
  wharf report results                 Runs of `wharf sim --out results`
  wharf report seed-1 seed-2 seed-3 --to seeds.html
  wharf report wharf-sweep/quick       A sweep")]
pub struct ReportArgs {
    /// Folders of runs: of `wharf sim --out` or `wharf sweep`; the cluster where none is given
    #[arg(value_name = "DIR")]
    pub runs: Vec<PathBuf>,
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub to: PathBuf,
}

/// `wharf compare`
///
/// Runs that differ in the seed only are one row: the mean, and half of its 95 % confidence interval by Student's t. Then, for every
/// metric, the best policy, the next best, the difference and its interval: seed by seed where both have run with the same seeds
/// (a paired t), by Welch's t where they have not, and over several traces by the logarithms of ratios with a trace as the
/// unit.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf compare results
  wharf compare seed-1 seed-2 seed-3 --output json
  wharf compare wharf-sweep/quick --report compared.html")]
pub struct CompareArgs {
    /// Folders of runs: of `wharf sim --out` or `wharf sweep`
    #[arg(value_name = "DIR", required = true)]
    pub runs: Vec<PathBuf>,
    /// Also write the page that `wharf report` writes
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}
