//! What policies that work in rounds tell of them, on the way to the recorder.

use wharf_core::{Engine, JobId, RoundNotes, State, Time};

use crate::outcome::{Allocation, Recorder, Round, RoundJob, Tally};

/// Follows a policy's rounds.
#[derive(Default)]
pub(crate) struct Rounds {
    /// Rounds after which the run ends.
    pub(crate) max: Option<u64>,
    seen: u64,
}

impl Rounds {
    /// Looks for news, where anybody wants any.
    pub(crate) fn look(&mut self, now: Time, engine: &mut Engine, recorder: &mut dyn Recorder) {
        if self.max.is_none() && !recorder.wants_rounds() {
            return;
        }
        let Some(RoundNotes { rounds, shares, .. }) = engine.rounds() else { return };
        if let Some(fractions) = shares.filter(|_| recorder.wants_rounds()) {
            let device_types = engine.state().topology().types().to_vec();
            recorder.allocated(&Allocation { time: now, device_types, fractions });
        }
        if rounds > self.seen && recorder.wants_rounds() {
            recorder.round(&round(now, rounds - 1, engine.state()));
        }
        self.seen = rounds;
    }

    /// Whether the run is to end here.
    pub(crate) fn is_over(&self) -> bool {
        self.max.is_some_and(|max| self.seen >= max)
    }

    /// What was counted.
    pub(crate) fn tally(engine: &mut Engine, over: Option<Time>) -> Tally {
        let notes = engine.rounds().unwrap_or_default();
        Tally {
            over,
            rounds: notes.rounds,
            lease_extensions: notes.lease_extensions,
            lease_chances: notes.lease_chances,
            solver_fallbacks: notes.fallbacks,
            ..Tally::default()
        }
    }
}

fn round(now: Time, index: u64, state: &State) -> Round {
    let mut running = Vec::new();
    let mut pending = Vec::new();
    for (job, spec, life) in state.jobs().filter(|(.., life)| !life.is_ended()) {
        let Some(nodes) = state.schedule().placement(job) else {
            pending.push(job);
            continue;
        };
        running.push(round_job(state, job, nodes, (spec.iterations - life.done(now)).max(0.0)));
    }
    Round { index, time: now, running, pending }
}

fn round_job(state: &State, job: JobId, nodes: &[wharf_core::NodeShare], remaining: f64) -> RoundJob {
    let device_type = nodes.first().map(|share| &state.topology().node(share.node).spec.device_type);
    RoundJob {
        job,
        device_type: device_type.cloned().unwrap_or_default(),
        devices: nodes.iter().map(|share| share.devices.len()).sum(),
        nodes: nodes.to_vec(),
        remaining,
        beside: state.schedule().neighbours(state.topology(), job),
    }
}
