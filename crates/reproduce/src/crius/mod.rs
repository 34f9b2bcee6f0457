//! The mechanism of the simulator published with Crius (Arena), with its policies.
//!
//! Everything happens in rounds: running jobs are credited, the policy is told who ended and who came, and whoever got other
//! devices pays for it. The decisions themselves are in `wharf_policy::arena`, which keeps their defects. What the published
//! accounting does that a careful design would not is kept, because its results depend on it:
//!
//! | defect | where | effect |
//! |---|---|---|
//! | a job is submitted when the round in which it comes begins | `workload` | it may start up to a round before it comes; completion times are whole rounds |
//! | progress is what the whole past would have made at the present speed | `rounds` | a job that grows is credited with work it never did, one that shrinks loses work |
//! | a job that was suspended has its past subtracted again from what was left | `rounds` | it ends early |
//! | tuning for new devices costs at most 40 s under Crius, up to 600 s under everybody else | `settings` | an advantage that no schedule earned |
//! | of a tuning of up to a round, progress knows nothing | `rounds` | it lowers the throughput of the round, and delays nobody |
//! | a longer one costs one whole round | `rounds` | 600 s of tuning delay a job by 300 s |
//! | losing devices costs nothing | `rounds` | shrinking is free |
//! | a job that cannot finish an iteration in the time it ran has its deadline set to 0 | `rounds` | it counts as late for good, whatever it does later |
//! | a device whose owner changed is charged to the new owner only | `rounds` | as above |
//! | `density` multiplies iterations, not arrivals | `workload` | the load changes, the density of submissions does not |
//! | iterations are divided by 5 and rounded down | `workload` | short jobs have none at all |
//! | a deadline is five times as far as the trace says, from the beginning of the round | `workload` | most deadlines are met by waiting |
//! | profiling on one device takes none, or all idle nodes of the first type | `profiling` | `prepend_profile_overhead` is free, or stops a whole type |
//! | time in profiling counts as queueing only once a job is done | `rounds` | unfinished jobs look as if they waited less |
//! | a job that will miss its deadline counts for no throughput while it runs | `rounds` | policies with deadlines look slower than they are |
//! | a job that cannot run as it was asked for is dropped without a word | policies | neither finished nor waiting, and in no average |
//! | waiting jobs are tried again only when a job ends | policies | free devices stay idle |
//! | the run ends after so many rounds, whoever still runs | `rounds` | averages of completion times are over jobs that were quick |
//!
//! The entry is [`simulate`].

mod error;
mod profiling;
mod rounds;
mod settings;
mod speeds;
mod tracker;
mod workload;

use std::sync::Arc;

use wharf_core::{ClusterSpec, JobSpec};
use wharf_perf::Profile;
use wharf_policy::arena::{Site, World};

use wharf_outcome::{Outcome, Recorder};

pub use error::CriusError;
pub use settings::{Numbers, Profiling, Settings};

/// A round, when all is decided and charged.
#[derive(Clone, Copy, Debug)]
pub struct RoundState<'a> {
    /// Its number, from 0.
    pub index: u64,
    /// Samples per second of the whole cluster in it.
    pub throughput: f64,
    /// Everything else; the clock shows the end of the round.
    pub world: &'a World,
    /// The jobs' places in the trace, by their numbers in the world.
    pub jobs: &'a [u32],
}

/// Checks what [`simulate`] would refuse, without running.
///
/// # Errors
/// As [`simulate`].
pub fn check(
    jobs: &[JobSpec],
    cluster: &ClusterSpec,
    profile: Option<&Profile>,
    settings: &Settings,
    numbers: &Numbers,
) -> Result<(), CriusError> {
    prepare(jobs, cluster, profile, settings, numbers).map(|_| ())
}

/// Runs a trace under a policy of this mechanism.
///
/// # Errors
/// Jobs without a model or of a type that the cluster does not have, or a profile without cells.
pub fn simulate(
    jobs: &[JobSpec],
    cluster: &ClusterSpec,
    profile: Option<&Profile>,
    settings: &Settings,
    numbers: &Numbers,
    recorder: &mut dyn Recorder,
) -> Result<Outcome, CriusError> {
    simulate_watched(jobs, cluster, profile, settings, numbers, recorder, &mut |_| {})
}

/// As [`simulate`], and tells the state after every round.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_watched(
    jobs: &[JobSpec],
    cluster: &ClusterSpec,
    profile: Option<&Profile>,
    settings: &Settings,
    numbers: &Numbers,
    recorder: &mut dyn Recorder,
    watch: &mut dyn FnMut(&RoundState<'_>),
) -> Result<Outcome, CriusError> {
    let (world, workload) = prepare(jobs, cluster, profile, settings, numbers)?;
    let tracker = tracker::Tracker::new(jobs, cluster, recorder);
    Ok(rounds::Rounds::new(world, &workload, settings, numbers, tracker).run(watch))
}

fn prepare(
    jobs: &[JobSpec],
    cluster: &ClusterSpec,
    profile: Option<&Profile>,
    settings: &Settings,
    numbers: &Numbers,
) -> Result<(World, workload::Workload), CriusError> {
    if cluster.device_count() == 0 {
        return Err(CriusError::NoDevices);
    }
    let cells = profile.and_then(Profile::cells).ok_or(CriusError::NoCells)?;
    let site = Site::new(cluster.nodes.iter().map(|node| (&*node.device_type, node.devices)));
    let options = settings.options(numbers);
    let (lookup, rows) = speeds::lookup(jobs, cells, &site, numbers.devices_max)?;
    let workload = workload::Workload::new(jobs, &rows, &site, settings, numbers)?;
    Ok((World::new(Arc::new(site), lookup, options), workload))
}
