//! Policies of a head ([`regime`]), and simulations that begin with the jobs and nodes of a running head: when jobs will start
//! ([`start_forecasts`]), what a waiting job needs ([`Outlook`]), what other policies and other machines would do ([`whatif`]), and
//! what the head's history has been ([`Window`]).
//!
//! Nothing here prints: callers get values and errors.

mod error;
mod outlook;
pub mod regime;
pub mod whatif;
mod window;

use std::sync::Arc;

use wharf_client::Client;
use wharf_core::{JobEnd, JobId, Phase, Regime, State, Time};
use wharf_head::PolicyChoice;
use wharf_head::http::{Compare, Comparing, Foresee, Foreseen, SimulationError};
use wharf_head::live::{Live, LiveJob};
use wharf_job::JobNumber;
use wharf_perf::Profile;
use wharf_policy::Settings;
use wharf_proto::Exported;
use wharf_reproduce::policies;
use wharf_sim::forecast::{Forecast, Knowledge, PastJob, forecast};
use wharf_sim::{Present, RunError};

pub use error::ForesightError;
pub use outlook::Outlook;
pub use regime::Describe;
pub use window::Window;

/// Number of ended jobs from which the lengths of others are estimated.
pub const PAST_MAX: u32 = 5000;

/// Seed of all simulations, so that equal requests have equal results.
pub(crate) const SEED: u64 = 0;

/// A head's present and past.
pub struct Foresight {
    live: Live,
    /// The jobs that are not over, numbered from 0, and their ids in the head.
    state: State,
    ids: Vec<u32>,
    past: Vec<PastJob>,
    declared: Vec<bool>,
    /// The head's own profile, where it is available.
    profile: Option<Arc<Profile>>,
}

impl Foresight {
    /// Requests the state of a head, with at most `past_max` jobs that have ended.
    ///
    /// # Errors
    /// [`ForesightError::Client`] and [`ForesightError::Export`].
    pub async fn fetch(client: &Client, past_max: u32) -> Result<Self, ForesightError> {
        Self::new(client.export(past_max).await?)
    }

    fn new(exported: Exported) -> Result<Self, ForesightError> {
        let live = Live::read(exported)?;
        let (state, ids) = live.present();
        let past = live.jobs.iter().filter_map(|job| past_job(job, live.now)).collect();
        let is_live = |job: &&LiveJob| !matches!(job.image.phase, Phase::Ended(_));
        let declared = live.jobs.iter().filter(is_live).map(|job| job.is_declared).collect();
        Ok(Self { live, state, ids, past, declared, profile: None })
    }

    /// Adds the head's own profile.
    fn with_profile(self, profile: Option<Arc<Profile>>) -> Self {
        Self { profile, ..self }
    }

    /// The policy in force.
    pub fn policy(&self) -> PolicyChoice {
        self.live.policy()
    }

    /// The moment of the export.
    pub fn now(&self) -> Time {
        self.live.now
    }

    /// A moment in seconds since the Unix epoch.
    pub fn unix_s(&self, time: Time) -> f64 {
        self.live.epoch_unix_s + time.seconds()
    }

    /// A job that waits, or is held and will be released, by its id in the head.
    pub fn waiting(&self, id: u32) -> Option<JobId> {
        self.number(id).filter(|&job| self.waits(job))
    }

    fn waits(&self, job: JobId) -> bool {
        self.state.job(job).phase == Phase::Waiting || self.live.waits(&self.ids).contains_key(&job)
    }

    /// A job that is not over, by its id in the head.
    fn number(&self, id: u32) -> Option<JobId> {
        self.ids.binary_search(&id).ok().map(JobId::from_index)
    }

    /// The number, as users write it, of a job that is not over.
    fn name(&self, job: JobId) -> String {
        let id = self.ids[job.index()];
        let known = self.live.jobs.binary_search_by_key(&id, |job| job.id).ok().map(|at| &self.live.jobs[at]);
        let index = known.and_then(|job| Some((job.array_job, job.image.spec.array.as_ref()?.index)));
        match index {
            Some((first, index)) => JobNumber { job: first, index: Some(index) }.to_string(),
            None => id.to_string(),
        }
    }

    fn present(&self) -> Present {
        Present {
            now: self.now(),
            state: self.state.clone(),
            actual: std::collections::BTreeMap::new(),
            waits: self.live.waits(&self.ids),
            arrivals: Vec::new(),
        }
    }

    /// Runs a simulation with a policy and with what the past shows about the lengths of jobs.
    fn simulate<T>(
        &self,
        choice: &PolicyChoice,
        run: impl FnOnce(&Knowledge<'_>) -> Result<T, RunError>,
    ) -> Result<T, ForesightError> {
        let (rules, settings) = (regime::rules()?, regime::settings(choice)?);
        let make = || -> Result<Regime, RunError> {
            let profile = self.profile.as_deref();
            let made = wharf_sim::profiled_regime(&rules, &choice.name, &settings, SEED, profile)?;
            Ok(self.live.govern(made.0))
        };
        let is_declared = |job: JobId| self.declared.get(job.index()).copied().unwrap_or(false);
        let known =
            Knowledge { past: &self.past, is_declared: &is_declared, make: &make, policy: &choice.name };
        Ok(run(&known)?)
    }
}

/// The comparison of policies for the dashboard, with the head's profile.
pub fn comparing(profile: Option<Arc<Profile>>, describe: Describe) -> Comparing {
    let runs_here = |name: &str| regime::make(&regime::choice(Some(name), &Settings::default())).is_ok();
    // Those with a family's name are as published, defects and slowness included: for studies, not for this.
    let is_own = |name: &&str| !name.contains('/');
    let policies = policies().map(|policy| policy.name).filter(is_own).filter(|name| runs_here(name));
    let failed = move |error| SimulationError { reason: describe(error) };
    let run: Compare = Arc::new(move |exported, policies, is_given_up| {
        let foresight = Foresight::new(exported).map_err(failed)?.with_profile(profile.clone());
        whatif::compare(&foresight, policies, is_given_up, describe).map_err(failed)
    });
    Comparing { policies: policies.map(str::to_owned).collect(), run }
}

/// The forecast of starts for the dashboard, with the head's profile.
pub fn foreseeing(profile: Option<Arc<Profile>>, describe: Describe) -> Foresee {
    let failed = move |error| SimulationError { reason: describe(error) };
    Arc::new(move |exported, ids| {
        let foresight = Foresight::new(exported).map_err(failed)?.with_profile(profile.clone());
        start_forecasts(&foresight, ids).map_err(failed)
    })
}

/// When jobs are expected to start, of those that wait or will be released.
///
/// # Errors
/// [`ForesightError::Run`] where the simulation fails.
pub fn start_forecasts(foresight: &Foresight, ids: &[u32]) -> Result<Vec<Foreseen>, ForesightError> {
    let released = foresight.live.waits(&foresight.ids);
    let waits = |job: &JobId| foresight.state.job(*job).phase == Phase::Waiting || released.contains_key(job);
    let jobs: Vec<JobId> = ids.iter().filter_map(|&id| foresight.number(id)).filter(waits).collect();
    let present = foresight.present();
    let starts = foresight.simulate(&foresight.policy(), |known| forecast(&present, known, &jobs, SEED))?;
    let unix_s = |time: Option<Time>| time.map(|time| foresight.unix_s(time));
    let foreseen = |(job, start): (JobId, Forecast)| Foreseen {
        job: foresight.ids[job.index()],
        median_s: unix_s(start.median),
        low_s: unix_s(start.low),
        high_s: unix_s(start.high),
    };
    Ok(starts.into_iter().map(foreseen).collect())
}

/// What a job shows about the lengths of others; nothing where it never ran and never will.
fn past_job(job: &LiveJob, now: Time) -> Option<PastJob> {
    let image = &job.image;
    let holds = matches!(image.phase, Phase::Placed | Phase::Running);
    let run_s = image.attained_s + if holds { now.since(image.placed_at) } else { 0.0 };
    let is_withdrawn = matches!(image.phase, Phase::Ended(JobEnd::Cancelled | JobEnd::Rejected));
    let is_over = matches!(image.phase, Phase::Ended(_)) && !is_withdrawn;
    let tells = run_s > 0.0 || !is_withdrawn;
    tells.then(|| PastJob { spec: image.spec.clone(), run_s, is_over, is_declared: job.is_declared })
}
