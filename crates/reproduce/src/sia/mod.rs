//! The simulator published with Sia (SOSP'23), as far as jobs get on in it: allocations come from a log of that simulator.
//!
//! Time passes in rounds. In a round every job runs with what it was given at the end of the last one: it pays for a restart
//! first, then trains epoch by epoch at its *goodput*, the product of step rate and statistical efficiency, and chooses
//! its batch size again after each epoch, by a model of its step times that it fits to what it has seen. Then the policy
//! allocates; here that is the log's.
//!
//! Batch sizes in force at the end of a round are in the log and are taken from it. Those in between are computed, with the
//! fit done step by step as the reference's optimiser does it.
//!
//! What the published code does that a careful design would not is kept:
//!
//! | defect | where | effect |
//! |---|---|---|
//! | an epoch's end is rounded to a whole second | `job` | epochs of less than half a second take no time |
//! | the batch size is chosen again whenever a round ends, not only after epochs | `job` | gradients of the round before decide |
//! | a job that is moved within its type without a change of shape pays nothing | `job` | free migration |
//! | a suspended job forgets its type | `job` | its return is a restart, also to the same devices |
//! | a placement on more nodes than were measured runs as if on those | `replay` | large clusters look too fast |
//!
//! Placements that were not measured are interpolated linearly in batch size where their size (nodes, replicas) was measured,
//! else also between the three sizes around it; the reference takes Qhull's tetrahedra, which are the same in the first case
//! up to rounding. Pipelined applications (`gpt_pmp`) are not modelled.
//!
//! The entry is [`Numbers`], a preset's table.

mod descent;
mod error;
mod goodput;
mod job;
mod line_search;
mod log;
mod numbers;
mod profile;
mod record;
mod replay;
mod settings;
mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;

use wharf_core::{ClusterSpec, JobSpec};

use wharf_outcome::{Outcome, Recorder};

pub use error::SiaError;
pub use log::{Allocation, JobLine, Round, read_log};
pub use numbers::{ApplicationNumbers, Numbers};
pub use replay::Step;
pub use settings::{Policy, Settings};

use crate::{Mechanism, Policies, Refusal, Request};
use job::{Job, Tuning};
use profile::Application;

impl Numbers {
    fn settings(&self, request: &Request<'_>) -> Result<Settings, Refusal> {
        let policy = request.policy("", Policy::ALL, Policy::name, &Settings::NAMES)?;
        let path = |key: &str| request.settings.get(key).map(PathBuf::from);
        let (allocations, profiles) = (path("allocations"), path("profiles"));
        Ok(Settings { policy, allocations, profiles, rounds: request.rounds })
    }
}

impl Mechanism for Numbers {
    fn policies(&self) -> Policies {
        Policies::Registered(vec![Policy::Sia.name()])
    }

    fn setting_names(&self) -> &'static [&'static str] {
        &Settings::NAMES
    }

    fn check(&self, request: &Request<'_>) -> Result<(), Refusal> {
        self.settings(request)?.allocations()?;
        request.jobs.iter().try_for_each(|job| application_name(job, self).map(|_| ()))?;
        Ok(())
    }

    fn simulate(&self, request: &Request<'_>, recorder: &mut dyn Recorder) -> Result<Outcome, Refusal> {
        let settings = self.settings(request)?;
        let rounds = read_log(settings.allocations()?)?;
        let last = settings.rounds.and_then(|rounds| usize::try_from(rounds).ok()).unwrap_or(usize::MAX);
        let rounds = &rounds[..rounds.len().min(last)];
        Ok(replay(request.jobs, request.cluster, &settings, self, rounds, recorder, &mut |_, _| ())?)
    }
}

/// Replays the allocations of a log; `told` is given the moment and all jobs at the end of each round.
///
/// # Errors
/// Missing or malformed files, and jobs or placements that the tables do not have.
pub fn replay(
    jobs: &[JobSpec],
    cluster: &ClusterSpec,
    settings: &Settings,
    numbers: &Numbers,
    rounds: &[Round],
    recorder: &mut dyn Recorder,
    told: &mut dyn FnMut(u64, &[Step]),
) -> Result<Outcome, SiaError> {
    let mut apps: BTreeMap<&str, Application> = BTreeMap::new();
    for job in jobs {
        let name = application_name(job, numbers)?;
        if !apps.contains_key(name) {
            let folder = settings.profiles()?.join(name);
            let types = cluster.nodes.iter().map(|node| &*node.device_type);
            let app = Application::read(&folder, name, &numbers.applications[name], types)?;
            apps.insert(name, app);
        }
    }
    let make = |job: &'_ JobSpec| -> Result<(String, Tuning, (u32, u32)), SiaError> {
        let name = application_name(job, numbers)?;
        let unknown = || unknown(job, name);
        let batches = apps.get(name).and_then(Application::batch_sizes).ok_or_else(unknown)?;
        let tuning = match settings.policy {
            Policy::Sia => Tuning::PerType,
            Policy::Pollux => Tuning::Blind,
            Policy::Gavel => {
                let no_batch = || SiaError::NoBatchSize { job: job.name.to_string() };
                Tuning::Fixed(job.batch_size.ok_or_else(no_batch)?)
            }
        };
        Ok((name.to_owned(), tuning, batches))
    };
    let mut running = Vec::with_capacity(jobs.len());
    for job in jobs {
        let (name, tuning, batches) = make(job)?;
        running.push(Job::new(&job.name, &apps[name.as_str()], tuning, batches));
    }
    replay::Replay::new(jobs, running, cluster, numbers, recorder).run(rounds, told)
}

/// What a job trains: its model, or the part of its name before the dash.
fn application_name<'a>(job: &'a JobSpec, numbers: &Numbers) -> Result<&'a str, SiaError> {
    let name = job.model.as_deref().unwrap_or_else(|| job.name.split('-').next().unwrap_or_default());
    if numbers.applications.contains_key(name) { Ok(name) } else { Err(unknown(job, name)) }
}

fn unknown(job: &JobSpec, application: &str) -> SiaError {
    SiaError::UnknownApplication { job: job.name.to_string(), application: application.to_owned() }
}
