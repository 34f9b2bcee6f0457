//! The mechanism of Blox's published simulator (EuroSys'24), with its orders by service, submission and remaining time.
//!
//! Everything happens at the ends of equal rounds: running jobs are credited, jobs that came are taken in, all jobs
//! are put in order, and the order is walked until a job finds no place. What the published code does that a careful
//! design would not is kept, because its results depend on it:
//!
//! | defect | where | effect |
//! |---|---|---|
//! | a gang is gathered node by node, up to its whole size from each, and the sum must hit that size exactly | `cluster` | 3 + 4 free devices are no place for 4; many jobs are suspended for nothing |
//! | jobs are suspended from the end of the order one at a time, and stay suspended where that did not help | `rounds` | devices idle; a job can be suspended and started again in the same round |
//! | the first job without a place ends the walk | `rounds` | smaller jobs behind it wait beside free devices |
//! | a job that is done within a round holds its devices until the round ends | `rounds` | completion times are whole rounds |
//! | a job that comes is seen at the next end of a round | `rounds` | it waits up to a round on an empty cluster |
//! | service is counted in seconds, whatever the gang | `rounds` | large gangs look cheap to `las` |
//! | stopping and starting costs nothing, and where a job runs does not matter | `rounds` | preemption is free |
//! | its `tiresias` fills queues and then goes by service alone | `settings` | it equals `las` |
//! | a start is told one round late (`responsiveness`) | not kept | Wharf states when the job began to hold its devices |
//! | jobs beyond those that are tracked run on, and the run ends with the last tracked one | `rounds` | they have no end, and no part in the averages |
//!
//! Its `consolidated` placement (which never takes a node with more free devices than needed) is asked for by none of
//! these orders and left out, as is Optimus, which fails in its simulator. Device types are unknown to it.
//!
//! The entry is [`Numbers`], a preset's table.

mod cluster;
mod error;
mod rounds;
mod settings;

use wharf_core::{ClusterSpec, JobSpec};
use wharf_outcome::{Outcome, Recorder};

pub use error::BloxError;
pub use settings::{Numbers, Policy, Settings};

use crate::{Mechanism, Policies, Refusal, Request};

/// Most rounds that one job may need: a thousand years of five minutes.
const ROUNDS_MAX: f64 = 1e8;

impl Numbers {
    fn settings(&self, request: &Request<'_>) -> Result<Settings, Refusal> {
        let policy = request.policy("blox/", Policy::ALL, Policy::name, &Settings::NAMES)?;
        Ok(Settings::new(policy, self, request.settings)?)
    }
}

impl Mechanism for Numbers {
    fn policies(&self) -> Policies {
        let policies = Policy::ALL.map(|policy| (policy.name(), policy.summary())).to_vec();
        Policies::Own { paper: "Agarwal et al., Blox, EuroSys'24", policies }
    }

    fn setting_names(&self) -> &'static [&'static str] {
        &Settings::NAMES
    }

    fn check(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let settings = self.settings(request)?;
        Ok(check(&request.resolved()?, request.cluster, &settings)?)
    }

    fn simulate(&self, request: &Request<'_>, recorder: &mut dyn Recorder) -> Result<Outcome, Refusal> {
        let settings = self.settings(request)?;
        let (jobs, cluster) = (request.resolved()?, request.cluster);
        check(&jobs, cluster, &settings)?;
        let free = cluster::Free::new(cluster)?;
        Ok(rounds::Rounds::new(&jobs, free, &settings, cluster, recorder).run(request.rounds))
    }
}

fn check(jobs: &[JobSpec], cluster: &ClusterSpec, settings: &Settings) -> Result<(), BloxError> {
    let empty = cluster::Free::new(cluster)?;
    settings.check_window(jobs.len())?;
    let mut shares = Vec::new();
    for job in jobs {
        let name = || job.name.to_string();
        let devices = job.gang.devices;
        if devices == 0 {
            return Err(BloxError::NoGang { job: name() });
        }
        if !empty.find(devices, &mut shares) {
            return Err(BloxError::NoPlace { job: name(), devices });
        }
        let (iterations, iteration_ms) = (job.iterations, job.iteration_ms);
        if !(iterations >= 0.0 && iteration_ms > 0.0 && job.solo_s().is_finite()) {
            return Err(BloxError::NoLength { job: name(), iterations, iteration_ms });
        }
        if job.solo_s() / settings.round_s > ROUNDS_MAX {
            return Err(BloxError::TooLong { job: name(), seconds: job.solo_s() });
        }
    }
    Ok(())
}
