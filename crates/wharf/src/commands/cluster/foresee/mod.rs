//! Questions to a simulation that begins with what a running head knows.

mod explain;
mod history;
mod whatif;

use std::sync::Arc;

use wharf_client::Client;
use wharf_core::{JobEnd, JobId, Phase, Regime, State, Time};
use wharf_head::PolicyChoice;
use wharf_head::http::{Compare, Comparing, Foresee, Foreseen, SimulationError};
use wharf_head::live::{Live, LiveJob};
use wharf_job::JobNumber;
use wharf_perf::Profile;
use wharf_proto::Exported;
use wharf_reproduce::policies;
use wharf_sim::forecast::{Forecast, Knowledge, PastJob, forecast};
use wharf_sim::{Present, RunError};

pub(in crate::commands) use explain::explain;
pub(in crate::commands) use history::history;
pub(in crate::commands) use whatif::whatif;

use super::regime;
use crate::error::{CliError, ErrorKind, translate};

/// How many jobs that have ended tell about those that are not.
const PAST_MAX: u32 = 5000;

/// The same question has the same answer.
const SEED: u64 = 0;

/// A head's present and past.
struct Foresight {
    live: Live,
    /// The jobs that are not over, numbered from 0, and their ids in the head.
    state: State,
    ids: Vec<u32>,
    past: Vec<PastJob>,
    declared: Vec<bool>,
    /// What the head knows of speeds, where that is at hand.
    profile: Option<Arc<Profile>>,
}

impl Foresight {
    async fn ask(client: &Client, past_max: u32) -> Result<Self, CliError> {
        Self::new(client.export(past_max).await?)
    }

    fn new(exported: Exported) -> Result<Self, CliError> {
        let live = Live::read(exported).map_err(|error| CliError::from_error(ErrorKind::Input, &error))?;
        let (state, ids) = live.present();
        let past = live.jobs.iter().filter_map(|job| past_job(job, live.now)).collect();
        let is_live = |job: &&LiveJob| !matches!(job.image.phase, Phase::Ended(_));
        let declared = live.jobs.iter().filter(is_live).map(|job| job.is_declared).collect();
        Ok(Self { live, state, ids, past, declared, profile: None })
    }

    /// The same with a head's own profile.
    fn with_profile(self, profile: Option<Arc<Profile>>) -> Self {
        Self { profile, ..self }
    }

    fn now(&self) -> Time {
        self.live.now
    }

    fn unix_s(&self, time: Time) -> f64 {
        self.live.epoch_unix_s + time.seconds()
    }

    /// A job that is not over, by its id in the head.
    fn number(&self, id: u32) -> Option<JobId> {
        self.ids.binary_search(&id).ok().map(JobId::from_index)
    }

    /// What people call a job that is not over.
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

    /// Calls with what is known beside the present, under a policy.
    fn knowing<T>(
        &self,
        choice: &PolicyChoice,
        ask: impl FnOnce(&Knowledge<'_>) -> Result<T, RunError>,
    ) -> Result<T, CliError> {
        let (rules, settings) = (regime::rules()?, regime::settings(choice)?);
        let make = || -> Result<Regime, RunError> {
            let profile = self.profile.as_deref();
            let made = wharf_sim::profiled_regime(&rules, &choice.name, &settings, SEED, profile)?;
            Ok(self.live.govern(made.0))
        };
        let is_declared = |job: JobId| self.declared.get(job.index()).copied().unwrap_or(false);
        let known =
            Knowledge { past: &self.past, is_declared: &is_declared, make: &make, policy: &choice.name };
        ask(&known).map_err(|error| translate::run(&error))
    }
}

/// What the dashboard can compare, and how, with what the head knows of speeds.
pub(super) fn comparing(profile: Option<Arc<Profile>>) -> Comparing {
    let runs_here = |name: &str| regime::check_policy(Some(name), &[]).is_ok();
    // Those with a family's name are as published, defects and slowness included: for studies, not for this.
    let is_own = |name: &&str| !name.contains('/');
    let policies = policies().map(|policy| policy.name).filter(is_own).filter(|name| runs_here(name));
    let run: Compare = Arc::new(move |exported, policies, is_given_up| {
        let foresight = Foresight::new(exported).map_err(failed)?;
        whatif::compare(&foresight.with_profile(profile.clone()), policies, is_given_up).map_err(failed)
    });
    Comparing { policies: policies.map(str::to_owned).collect(), run }
}

/// States when jobs are expected to start, with what the head knows of speeds.
pub(super) fn foreseeing(profile: Option<Arc<Profile>>) -> Foresee {
    Arc::new(move |exported, ids| {
        let foresight = Foresight::new(exported).map_err(failed)?;
        starts(&foresight.with_profile(profile.clone()), ids).map_err(failed)
    })
}

fn failed(error: CliError) -> SimulationError {
    SimulationError { reason: error.one_line() }
}

/// When jobs are expected to start, of those that wait or will be let go.
fn starts(foresight: &Foresight, ids: &[u32]) -> Result<Vec<Foreseen>, CliError> {
    let released = foresight.live.waits(&foresight.ids);
    let waits = |job: &JobId| foresight.state.job(*job).phase == Phase::Waiting || released.contains_key(job);
    let jobs: Vec<JobId> = ids.iter().filter_map(|&id| foresight.number(id)).filter(waits).collect();
    let present = foresight.present();
    let told = foresight.knowing(&foresight.live.policy(), |known| forecast(&present, known, &jobs, SEED));
    let unix_s = |time: Option<Time>| time.map(|time| foresight.unix_s(time));
    let foreseen = |(job, start): (JobId, Forecast)| Foreseen {
        job: foresight.ids[job.index()],
        median_s: unix_s(start.median),
        low_s: unix_s(start.low),
        high_s: unix_s(start.high),
    };
    Ok(told?.into_iter().map(foreseen).collect())
}

/// What a job tells about others; nothing where it never ran and never will.
fn past_job(job: &LiveJob, now: Time) -> Option<PastJob> {
    let image = &job.image;
    let holds = matches!(image.phase, Phase::Placed | Phase::Running);
    let run_s = image.attained_s + if holds { now.since(image.placed_at) } else { 0.0 };
    let is_withdrawn = matches!(image.phase, Phase::Ended(JobEnd::Cancelled | JobEnd::Rejected));
    let is_over = matches!(image.phase, Phase::Ended(_)) && !is_withdrawn;
    let tells = run_s > 0.0 || !is_withdrawn;
    tells.then(|| PastJob { spec: image.spec.clone(), run_s, is_over, is_declared: job.is_declared })
}
