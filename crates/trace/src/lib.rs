//! Trace and cluster-spec formats in and out, the generator and the linter.

use wharf_core::JobSpec;

/// A workload: jobs in submission order. A job's position is its id in a simulation.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Trace {
    /// What people call it: the file's name without its extension, or the generator's.
    pub name: String,
    /// The jobs, by submission time; ties keep the file's order.
    pub jobs: Vec<JobSpec>,
}
