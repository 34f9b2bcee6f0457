//! The mechanism of Muri's published simulator (SIGCOMM'22), with seven policies.
//!
//! There is no scheduling interval: at every arrival and completion (and queue change, where there are queues) the
//! policy orders all jobs, empties the cluster and fills it again. What the published code does that a careful design
//! would not is kept, because its published results depend on it:
//!
//! | defect | where | effect |
//! |---|---|---|
//! | every running job pays its restart cost at every event, even on unchanged devices | `tracker` | events closer together than that cost stop all progress |
//! | the last stretch before an end is free of that cost | `tracker` | a job ends where its last event predicted |
//! | ends within 1e-9 of each other become one event at the first's time | `clock` | later ones end up to 10 ms early |
//! | an end and an arrival at one time are distinguished differently per policy | `clock` | exact, or within 1e-4 s for Muri |
//! | a queue change between a tie and its arrival does not cancel the tied end | `clock` | the job ends although it was slowed |
//! | equal keys keep the order of the event before | `shortest`, `candidates` | history decides ties |
//! | Tiresias counts devices and never places | `tiresias` | fragmentation costs it nothing |
//! | Muri-S starts with the trace's duration, then uses iterations × 1.015 × iteration time | `candidates` | a job's rank can worsen on its first run |
//! | splitting of slow groups assumes the best order, also where the worst is in force | `grouping` | worst-ordering groups are split too rarely |
//! | a matching whose partners disagree drops the vertex | `grouping` | rare groups of one |
//! | the group of four is cheaper without Blossom (1.3 instead of 1.37) | `numbers` | flatters that variant |
//! | AntMan's utilisation sums keep float residue that orders devices | `antman` | placement depends on history |
//! | AntMan's reserved devices are held idle by waiting jobs | `antman` | no work conservation |
//! | Themis compares with a share of the cluster, not with a speed on it | `themis` | long iterations look unfair |
//! | Themis takes whatever optimum its solver ends at, error included | `themis` | many allocations are equally optimal; jobs alike run in no particular order, here in a pseudo-random one |
//!
//! CPU and memory limits of the published placement never bind on its cluster and are left out.
//!
//! The entry is [`Numbers`], a preset's table.

mod antman;
mod candidates;
mod clock;
mod cluster;
mod error;
pub mod fairness;
mod grouping;
mod interleaved;
mod numbers;
mod settings;
mod shortest;
mod themis;
mod tiresias;
mod tracker;
mod workload;

use std::borrow::Cow;

use wharf_core::JobSpec;
use wharf_outcome::{Outcome, Recorder};

pub use error::MuriError;
pub use numbers::{AntMan, DeviceRestart, IterationOverhead, Numbers, Restart};
pub use settings::{Policy, Queues, Settings};

use crate::{Mechanism, Policies, Refusal, Request};
use cluster::Shape;
use workload::Workload;

impl Numbers {
    fn prepare<'a>(&self, request: &Request<'a>) -> Result<(Settings, Cow<'a, [JobSpec]>, Shape), Refusal> {
        let policy = match request.policy("", Policy::ALL, Policy::name, &Settings::NAMES) {
            Err(Refusal::NotInPreset { choices }) => {
                crate::find(request.policy)?;
                return Err(Refusal::NotInPreset { choices });
            }
            found => found?,
        };
        if request.rounds.is_some() {
            return Err(Refusal::NoRounds);
        }
        let settings = Settings::new(policy, self, request.settings)?;
        let jobs = request.resolved()?;
        settings.validate(self)?;
        Ok((settings, jobs, Shape::new(request.cluster)?))
    }
}

impl Mechanism for Numbers {
    fn policies(&self) -> Policies {
        Policies::Registered(Policy::ALL.map(Policy::name).to_vec())
    }

    fn setting_names(&self) -> &'static [&'static str] {
        &Settings::NAMES
    }

    fn check(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let (settings, jobs, shape) = self.prepare(request)?;
        Workload::new(&jobs, &shape, &settings, self)?;
        Ok(())
    }

    fn simulate(&self, request: &Request<'_>, recorder: &mut dyn Recorder) -> Result<Outcome, Refusal> {
        let (settings, jobs, shape) = self.prepare(request)?;
        let workload = Workload::new(&jobs, &shape, &settings, self)?;
        let tracker = tracker::Tracker::new(&workload, shape.devices(), recorder);
        Ok(match settings.policy {
            Policy::Srtf => shortest::run(&workload, &shape, shortest::Key::Time, tracker),
            Policy::Srsf => shortest::run(&workload, &shape, shortest::Key::Service, tracker),
            Policy::Tiresias => tiresias::run(&workload, &shape, &settings, self, tracker),
            Policy::AntMan => antman::run(&workload, &shape, self, tracker),
            Policy::Themis => themis::run(&workload, &shape, tracker),
            Policy::MuriS | Policy::MuriL => interleaved::run(&workload, &shape, &settings, self, tracker),
        })
    }
}
