//! The simulator published with FGD (ATC'23): pods that ask for CPUs, memory and GPUs, or a part of one, are packed onto nodes.
//!
//! There is no time. Pods arrive one after the other, are placed or not, never leave and are not tried again. Each rule scores the nodes
//! that can hold a pod; the highest score wins. The pods are those of the trace in random order, with copies or without some of them, so
//! that they request 1.3 times the GPUs of the cluster.
//!
//! *Fragmentation* of a node: what part of its idle GPUs a typical pod could not use (`fragmentation`). FGD places a pod where that grows
//! least; the other rules do not check it.
//!
//! What the published code does that a careful design would not is kept, because its published results depend on it:
//!
//! | defect | where | effect |
//! |---|---|---|
//! | typical pods include those without GPUs, which can use no idle GPU | `fragmentation` | the ratio never falls below their frequency |
//! | typical pods are counted in the whole trace, before it is tuned | `workload` | the future is known |
//! | memory is not part of a specification | `fragmentation` | a GPU beside exhausted memory counts as usable |
//! | the load is raised until a pod's part of one GPU does not fit, whatever its number of GPUs | `workload` | a pod of several can exceed it |
//! | scores are truncated to whole numbers | `score` | many nodes are equal, and a random order of the nodes decides |
//! | capacities of 128 CPUs and 8 GPUs are assumed of every node | `score` | small nodes look full |
//! | numbers are drawn by Go's `math/rand`, ten of them for nothing | `go_random` | only its order of draws gives the published order of pods |
//!
//! The entry is [`Numbers`], a preset's table.

mod curves;
mod error;
mod fragmentation;
mod go_random;
mod node;
mod run;
mod score;
mod settings;
#[cfg(test)]
mod tests;
mod workload;

use wharf_core::JobId;
use wharf_outcome::{JobRecord, MetricRules, Outcome, Recorder, Tally};

pub use error::FgdError;
pub use settings::{Numbers, Policy};

use crate::{Mechanism, Policies, Refusal, Request};
use settings::Settings;
use workload::Workload;

impl Numbers {
    fn prepare(&self, request: &Request<'_>) -> Result<(Settings, Workload), Refusal> {
        let policy = request.policy("", Policy::ALL, Policy::name, &Settings::NAMES)?;
        if request.rounds.is_some() {
            return Err(Refusal::NoRounds);
        }
        let settings = Settings::new(policy, self, request.settings)?;
        let workload = Workload::new(request.jobs, request.cluster)?;
        Ok((settings, workload))
    }
}

impl Mechanism for Numbers {
    fn policies(&self) -> Policies {
        Policies::Own {
            paper: "FGD's published simulator (ATC'23)",
            policies: Policy::ALL.map(|policy| (policy.name(), policy.summary())).to_vec(),
        }
    }

    fn setting_names(&self) -> &'static [&'static str] {
        &Settings::NAMES
    }

    fn packs_portions(&self) -> bool {
        true
    }

    fn check(&self, request: &Request<'_>) -> Result<(), Refusal> {
        self.prepare(request).map(|_| ())
    }

    fn simulate(&self, request: &Request<'_>, recorder: &mut dyn Recorder) -> Result<Outcome, Refusal> {
        let (settings, workload) = self.prepare(request)?;
        let packing = run::run(workload, &settings, request.seed, recorder);
        let jobs = request.jobs.iter().enumerate();
        Ok(Outcome {
            jobs: jobs.map(|(index, job)| JobRecord::new(JobId::from_index(index), job)).collect(),
            timeline: Vec::new(),
            spans: Vec::new(),
            event_count: packing.arrivals,
            busy_device_s: 0.0,
            device_count: request.cluster.device_count(),
            rules: MetricRules::Wharf,
            tally: Tally::default(),
            measure: None,
            packing: Some(packing),
        })
    }
}
