//! `wharf metrics`

use clap::{Args, ValueEnum};

use super::cluster::HomeArgs;
use crate::number::JobNumber;

/// `wharf metrics`
///
/// The history covers all runs of a job: work that was lost and done again counts once. Each metric has at most 513 points, evenly spaced over the
/// steps; a step is the number of iterations done. NaN and infinity are stored, as `nan`, `inf` and `-inf`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf metrics 3                                     One line for each metric
  wharf metrics 3 --output csv > loss.csv             All points
  wharf metrics 3 4 --name loss --output json
  wharf metrics 12 --name loss --by time --output csv All elements of array 12")]
pub struct MetricsArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Jobs; `12_3` is an element of an array, its first job stands for all elements
    #[arg(required = true, value_name = "JOB")]
    pub jobs: Vec<JobNumber>,
    /// A metric to show; may be given several times [default: all]
    #[arg(long = "name", value_name = "NAME")]
    pub names: Vec<String>,
    /// The order of points
    #[arg(long, value_enum, value_name = "AXIS", default_value_t = Axis::Step)]
    pub by: Axis,
}

/// What points are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Axis {
    /// Iterations done
    Step,
    /// The time at which they were reported
    Time,
}
