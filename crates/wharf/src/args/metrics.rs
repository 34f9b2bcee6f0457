//! `wharf metrics`

use clap::{Args, ValueEnum};
use wharf_job::JobNumber;

use super::cluster::HomeArgs;

/// `wharf metrics`
///
/// The history covers all runs of a job; repeated iterations count once. Each metric has at most 513 points, evenly spaced over the
/// steps; a step is the number of completed iterations. NaN and infinity are stored as `nan`, `inf` and `-inf`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf metrics 3                                     One line per metric
  wharf metrics 3 --output csv > loss.csv             All points
  wharf metrics 3 4 --name loss --output json
  wharf metrics 12 --name loss --by time --output csv All elements of array 12")]
pub struct MetricsArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Job ids; `12_3` is an array element, `12` the whole array
    #[arg(required = true, value_name = "JOB")]
    pub jobs: Vec<JobNumber>,
    /// Metric to show; may be given several times [default: all]
    #[arg(long = "name", value_name = "NAME")]
    pub names: Vec<String>,
    /// Order of points
    #[arg(long, value_enum, value_name = "AXIS", default_value_t = Axis::Step)]
    pub by: Axis,
}

/// Order of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Axis {
    /// By completed iterations
    Step,
    /// By report time
    Time,
}
