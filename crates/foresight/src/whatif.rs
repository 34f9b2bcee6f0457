//! What other policies and other nodes would do with the jobs of a head.

use std::sync::atomic::{AtomicBool, Ordering};

use wharf_core::{ClusterSpec, DeviceSet, NodeImage, NodeShare, NodeSpec, Phase};
use wharf_head::PolicyChoice;
use wharf_policy::Settings;
use wharf_report::{Metric, RunLabels, Summary};
use wharf_sim::forecast::expected;
use wharf_sim::{NoRecorder, Recorder, go_on};

use crate::{Describe, Foresight, ForesightError, SEED, Window, regime};

/// The metrics of the current jobs with another policy. No new jobs arrive.
///
/// # Errors
/// [`ForesightError::Run`] where the policy cannot be built, or the run fails.
pub fn from_now(foresight: &Foresight, choice: &PolicyChoice) -> Result<Summary, ForesightError> {
    go_on_with(foresight, choice, &mut NoRecorder)
}

/// The metrics of a window as they were.
pub fn as_it_was(window: &Window) -> Summary {
    let labels = labels("as it was", "history", window.cluster.device_count());
    Summary::new(labels, &window.outcome(), 0.0)
}

/// The metrics of a window with another policy, from an empty cluster.
///
/// # Errors
/// [`ForesightError::Run`] where the policy cannot be built, or the run fails.
pub fn over_again(window: &Window, choice: &PolicyChoice) -> Result<Summary, ForesightError> {
    let labels = labels(&choice.name, "history", window.cluster.device_count());
    Ok(Summary::new(labels, &window.simulate(choice)?, 0.0))
}

/// The current jobs with other policies, beside the one in force, for the dashboard. The names are those of built-in policies: the only
/// program that this runs on the head's machine is the policy in force.
pub(crate) fn compare(
    foresight: &Foresight,
    policies: &[String],
    is_given_up: &AtomicBool,
    describe: Describe,
) -> Result<serde_json::Value, ForesightError> {
    let mut choices = vec![foresight.policy()];
    for name in policies.iter().filter(|name| **name != foresight.policy().name) {
        choices.push(regime::choice(Some(name), &Settings::default()));
    }
    let (mut runs, mut failed) = (Vec::new(), Vec::new());
    for choice in choices {
        match go_on_with(foresight, &choice, &mut Until(is_given_up)) {
            Ok(run) => runs.push(run),
            Err(error) => {
                failed.push(serde_json::json!({ "policy": choice.name, "error": describe(error) }));
            }
        }
        if is_given_up.load(Ordering::Relaxed) {
            return Err(ForesightError::Disconnected);
        }
    }
    let best = wharf_report::compare::winners(&runs);
    let told = |(run, best): (&Summary, [bool; Metric::ALL.len()])| {
        let best: Vec<&str> =
            Metric::ALL.iter().zip(best).filter(|(_, best)| *best).map(|(m, _)| m.name()).collect();
        serde_json::json!({ "run": run, "best": best })
    };
    Ok(runs.iter().zip(best).map(told).chain(failed).collect())
}

/// Ends a run when a flag is set.
struct Until<'a>(&'a AtomicBool);

impl Recorder for Until<'_> {
    fn is_satisfied(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Foresight {
    /// Drains a node: its jobs have saved their work and wait.
    ///
    /// # Errors
    /// [`ForesightError::UnknownNode`].
    pub fn drain(&mut self, name: &str) -> Result<(), ForesightError> {
        let position = self.live.nodes.iter().position(|node| &*node.spec.name == name);
        let Some(drained) = position else {
            let known = self.live.nodes.iter().map(|node| node.spec.name.to_string()).collect();
            return Err(ForesightError::UnknownNode { name: name.to_owned(), known });
        };
        self.live.nodes[drained].is_cordoned = true;
        for job in &mut self.live.jobs {
            let is_there = |share: &NodeShare| share.node.index() == drained;
            let placement = job.image.placement.as_deref().unwrap_or_default();
            if placement.iter().any(is_there) && job.image.ending.is_none() {
                job.image.attained_s += self.live.now.since(job.image.placed_at);
                (job.image.phase, job.image.placement) = (Phase::Waiting, None);
                job.image.preemptions += 1;
            }
        }
        (self.state, self.ids) = self.live.present();
        Ok(())
    }

    /// Adds the nodes of a cluster.
    pub fn add_nodes(&mut self, cluster: ClusterSpec) {
        let first = self.live.nodes.len();
        let more = cluster.nodes.into_iter().enumerate().map(|(index, spec)| NodeImage {
            spec: NodeSpec { name: format!("new-{}", first + index).into(), ..spec },
            is_there: true,
            is_cordoned: false,
            is_closed: false,
            broken: DeviceSet::EMPTY,
        });
        self.live.nodes.extend(more);
        (self.state, self.ids) = self.live.present();
    }
}

fn labels(policy: &str, trace: &str, devices: u32) -> RunLabels {
    RunLabels {
        policy: policy.to_owned(),
        trace: trace.to_owned(),
        preset: "wharf".to_owned(),
        cluster: format!("{devices} devices"),
        seed: SEED,
    }
}

fn go_on_with(
    foresight: &Foresight,
    choice: &PolicyChoice,
    recorder: &mut dyn Recorder,
) -> Result<Summary, ForesightError> {
    let outcome = foresight.simulate(choice, |known| {
        let present = expected(&foresight.present(), known, SEED);
        go_on(present, known.policy, (known.make)()?, recorder)
    })?;
    let labels = labels(&choice.name, "from now on", outcome.device_count);
    Ok(Summary::new(labels, &outcome, 0.0))
}
