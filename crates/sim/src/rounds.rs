//! Rounds of a policy: notes for the recorder, and the end of a run after a number of them.

use wharf_core::{Engine, JobId, JobSpec, RoundNotes, State, Time};

use wharf_outcome::{Allocation, Recorder, Round, RoundJob, Tally};

/// Follows a policy's rounds.
#[derive(Default)]
pub(crate) struct Rounds {
    /// When the run is cut off.
    pub(crate) end: Option<Time>,
    seen: u64,
}

impl Rounds {
    /// Reports progress, if a listener is set.
    pub(crate) fn look(&mut self, now: Time, engine: &mut Engine, recorder: &mut dyn Recorder) {
        if !recorder.wants_rounds() {
            return;
        }
        let Some(RoundNotes { rounds, shares, .. }) = engine.rounds() else { return };
        if let Some(fractions) = shares {
            let device_types = engine.state().topology().types().to_vec();
            recorder.allocated(&Allocation { time: now, device_types, fractions });
        }
        if rounds > self.seen {
            recorder.round(&round(now, rounds - 1, engine.state()));
        }
        self.seen = rounds;
    }

    /// Cuts the run off after so many rounds from its first job on, whether the policy has anything to do in each or not.
    pub(crate) fn cut_off(&mut self, rounds: Option<u64>, first: Option<&JobSpec>, engine: &mut Engine) {
        let known = rounds.zip(first).zip(engine.rounds());
        self.end = known.map(|((rounds, first), notes)| first.submit.plus(rounds as f64 * notes.round_s));
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
