//! The mechanism of the simulator published with Crius (Arena), with its policies.
//!
//! Everything happens in rounds: running jobs are credited, the policy is told which jobs ended and which came, and each job that got other
//! devices pays for it. The decisions themselves are in [`decisions`], which keeps their defects. What the published
//! accounting does that a careful design would not is kept, because its results depend on it:
//!
//! | defect | where | effect |
//! |---|---|---|
//! | a job is submitted when the round in which it comes begins | `workload` | it may start up to a round before it comes; completion times are whole rounds |
//! | progress is what the whole past would have made at the present speed | `rounds` | a job that grows is credited with work it never did, one that shrinks loses work |
//! | a job that was suspended has its past subtracted again from what was left | `rounds` | it ends early |
//! | tuning for new devices costs at most 40 s under Crius, up to 600 s under all other policies | `settings` | an advantage that no schedule earned |
//! | of a tuning of up to a round, progress knows nothing | `rounds` | it lowers the throughput of the round, and delays no job |
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
//! | the run ends after so many rounds, even if jobs still run | `rounds` | averages of completion times are over jobs that were quick |
//!
//! The entry is [`Numbers`], a preset's table.

mod adapter;
pub mod decisions;
mod error;
mod policies;
mod profiling;
mod rounds;
mod settings;
mod speeds;
mod tracker;
mod workload;

use std::sync::Arc;

use wharf_core::{ClusterSpec, JobSpec};
use wharf_perf::Profile;

use wharf_outcome::{Outcome, Recorder};

pub use error::CriusError;
pub(crate) use policies::POLICIES;
pub use settings::{Numbers, Profiling, Settings};

use crate::{Mechanism, Policies, Refusal, Request};
use decisions::{Site, VARIANTS, World};

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

impl Numbers {
    fn prepare(&self, request: &Request<'_>) -> Result<(Settings, World, workload::Workload), Refusal> {
        let policy = request.policy("crius/", VARIANTS, |variant| variant.name, &Settings::NAMES)?;
        let settings = Settings::new(policy, self, request.settings, request.rounds)?;
        let (world, workload) = prepare(request.jobs, request.cluster, request.profile, &settings, self)?;
        Ok((settings, world, workload))
    }

    /// As [`Mechanism::simulate`], and reports the state after every round.
    ///
    /// # Errors
    /// As [`Mechanism::simulate`].
    pub fn simulate_watched(
        &self,
        request: &Request<'_>,
        recorder: &mut dyn Recorder,
        watch: &mut dyn FnMut(&RoundState<'_>),
    ) -> Result<Outcome, Refusal> {
        let (settings, world, workload) = self.prepare(request)?;
        let tracker = tracker::Tracker::new(request.jobs, request.cluster, recorder);
        Ok(rounds::Rounds::new(world, &workload, &settings, self, tracker).run(watch))
    }
}

impl Mechanism for Numbers {
    fn policies(&self) -> Policies {
        let policies = VARIANTS.iter().map(|variant| (variant.name, variant.summary)).collect();
        Policies::Own { paper: "Xue et al., Arena, EuroSys'26", policies }
    }

    fn setting_names(&self) -> &'static [&'static str] {
        &Settings::NAMES
    }

    fn check(&self, request: &Request<'_>) -> Result<(), Refusal> {
        self.prepare(request).map(|_| ())
    }

    fn simulate(&self, request: &Request<'_>, recorder: &mut dyn Recorder) -> Result<Outcome, Refusal> {
        self.simulate_watched(request, recorder, &mut |_| {})
    }
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
