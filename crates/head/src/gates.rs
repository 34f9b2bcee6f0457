//! Jobs that wait for other jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use wharf_core::{JobEnd, JobId, JobState, Phase};
use wharf_proto::dependency::Kind;

/// One job that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) kind: Kind,
    pub(crate) job: u32,
}

/// Jobs with consecutive ids that wait for the same others.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) jobs: Range<u32>,
    pub(crate) edges: Vec<Edge>,
}

/// Whether a job may start as far as other jobs are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Open,
    Impossible,
}

/// All gates that are not met yet, and which of them a job's progress can open.
#[derive(Default)]
pub(crate) struct Gates {
    /// By the first job behind it.
    gates: BTreeMap<u32, Gate>,
    by_target: BTreeMap<u32, BTreeSet<u32>>,
}

impl Gates {
    pub(crate) fn add(&mut self, gate: Gate) {
        for edge in &gate.edges {
            self.by_target.entry(edge.job).or_default().insert(gate.jobs.start);
        }
        self.gates.insert(gate.jobs.start, gate);
    }

    /// The gate that a job is behind.
    pub(crate) fn of(&self, job: JobId) -> Option<&Gate> {
        let (_, gate) = self.gates.range(..=job.0).next_back()?;
        gate.jobs.contains(&job.0).then_some(gate)
    }

    /// Takes out the gates that depend on this job and whose verdict has been reached.
    pub(crate) fn judged(&mut self, target: JobId, judge: impl Fn(&Gate) -> Verdict) -> Vec<(Gate, Verdict)> {
        let Some(waiting) = self.by_target.get(&target.0) else { return Vec::new() };
        let gates = waiting.iter().filter_map(|first| self.gates.get(first));
        let judged: Vec<(Gate, Verdict)> = gates
            .map(|gate| (gate.clone(), judge(gate)))
            .filter(|&(_, verdict)| verdict != Verdict::Open)
            .collect();
        for (gate, _) in &judged {
            self.remove(gate);
        }
        judged
    }

    fn remove(&mut self, gate: &Gate) {
        self.gates.remove(&gate.jobs.start);
        for edge in &gate.edges {
            if let Some(waiting) = self.by_target.get_mut(&edge.job) {
                waiting.remove(&gate.jobs.start);
                if waiting.is_empty() {
                    self.by_target.remove(&edge.job);
                }
            }
        }
    }
}

/// Judges a gate by the lives of the jobs that it depends on: `None` for one that does not exist.
pub(crate) fn judge<'a>(gate: &Gate, life_of: impl Fn(u32) -> Option<&'a JobState>) -> Verdict {
    let mut verdict = Verdict::Met;
    for edge in &gate.edges {
        let Some(life) = life_of(edge.job) else { return Verdict::Impossible };
        let is_ok = match (edge.kind, life.phase) {
            (Kind::After, _) if life.first_start.is_some() => Some(true),
            (Kind::After | Kind::AfterAny | Kind::Singleton, Phase::Ended(_)) => Some(true),
            (Kind::AfterOk | Kind::AfterCorr, Phase::Ended(end)) => Some(end == JobEnd::Finished),
            (Kind::AfterNotOk, Phase::Ended(end)) => Some(end != JobEnd::Finished),
            _ => None,
        };
        match is_ok {
            Some(true) => {}
            Some(false) => return Verdict::Impossible,
            None => verdict = Verdict::Open,
        }
    }
    verdict
}
