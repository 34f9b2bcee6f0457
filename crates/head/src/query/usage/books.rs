//! The journal's events as spans of time: who had which devices, and what they did with them.
//!
//! Only jobs that are not over are kept: events stream through, and what is known at any point is as large as the cluster's present.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::journal::record::{EndRecord, Record};

/// Devices of one type.
pub(crate) type Devices = Vec<(u32, u32)>;

/// What time is spent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum SpanKind {
    Waiting,
    Held,
    Starting,
    Running,
    Stopping,
    /// All of a run that came to its end, told once more with its cause.
    Run,
    /// Parts of runs, told when they come to their end.
    Idle,
    Unwatched,
    Lost,
}

/// Who a job is booked on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Who {
    pub(crate) user: String,
    pub(crate) account: String,
    pub(crate) pool: String,
}

/// From when to when something was so.
pub(crate) struct Span<'a> {
    pub(crate) job: u32,
    pub(crate) who: &'a Who,
    pub(crate) kind: SpanKind,
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// The part of it that counts.
    pub(crate) weight: f64,
    /// Counts of devices by type.
    pub(crate) devices: &'a Devices,
    /// Why the run came to its end too early; empty where it did not.
    pub(crate) cause: &'a str,
}

/// Something that happened at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Submitted,
    Interrupted,
    Ended(EndRecord),
}

/// Takes what the books tell.
pub(crate) trait Ledger {
    fn span(&mut self, span: &Span<'_>);
    fn moment(&mut self, at_s: f64, moment: Moment, of: &Span<'_>);
}

/// What is known of the present, as a fold over events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Books {
    /// Names of device types, and the type of each node.
    pub(crate) types: Vec<String>,
    nodes: Vec<u32>,
    people: Vec<Who>,
    jobs: BTreeMap<u32, Open>,
}

/// A job that is not over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Open {
    who: usize,
    kind: SpanKind,
    since_s: f64,
    devices: Devices,
    /// What it was given before it has left the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<Devices>,
    /// Iterations that its last checkpoint holds.
    saved: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<Run>,
    /// Why its present or last run came to its end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    cause: String,
}

/// The time in which a job's processes worked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    from_s: f64,
    /// When it was requested to stop.
    to_s: Option<f64>,
    watched_s: f64,
    idle_s: f64,
    /// Iterations in all, as its trainer told; 0: nothing.
    iterations: f64,
}

const NONE: &Devices = &Vec::new();

impl Books {
    /// Folds one event in; `account` is that of a submitted job. Events of jobs that are not known are of the time before.
    pub(crate) fn fold(&mut self, now_s: f64, record: &Record, account: &str, ledger: &mut dyn Ledger) {
        match record {
            Record::NodeJoined { node, spec } => {
                let kind = position(&mut self.types, spec.device_type());
                self.nodes.resize((*node as usize + 1).max(self.nodes.len()), kind);
                self.nodes[*node as usize] = kind;
            }
            Record::JobSubmitted { spec, .. } | Record::ArraySubmitted { spec, .. } => {
                let who = Who {
                    user: spec.user().to_owned(),
                    account: account.to_owned(),
                    pool: spec.pool().to_owned(),
                };
                let known = self.people.iter().rposition(|known| *known == who);
                let who = known.unwrap_or_else(|| {
                    self.people.push(who);
                    self.people.len() - 1
                });
                for job in record.jobs() {
                    self.jobs.insert(job, Open::new(who, now_s));
                    self.moment(now_s, job, Moment::Submitted, ledger);
                }
            }
            Record::JobEnded { job, end } => {
                self.close(now_s, *job, None, ledger);
                self.moment(now_s, *job, Moment::Ended(*end), ledger);
                self.jobs.remove(job);
            }
            Record::JobCaused { job, cause, .. } => {
                if let Some(open) = self.jobs.get_mut(job) {
                    open.cause.clone_from(cause);
                }
                self.moment(now_s, *job, Moment::Interrupted, ledger);
            }
            Record::JobStopped { job, done } => {
                self.close(now_s, *job, Some(*done), ledger);
                self.enter(now_s, *job, |open| match open.next.take() {
                    Some(next) => (SpanKind::Starting, next),
                    None => (SpanKind::Waiting, Devices::new()),
                });
            }
            Record::JobWatched { job, watched_s, idle_s, iterations, .. } => {
                if let Some(run) = self.jobs.get_mut(job).and_then(|open| open.run.as_mut()) {
                    (run.watched_s, run.idle_s, run.iterations) = (*watched_s, *idle_s, *iterations);
                }
            }
            _ => self.fold_phase(now_s, record, ledger),
        }
    }

    fn fold_phase(&mut self, now_s: f64, record: &Record, ledger: &mut dyn Ledger) {
        match record {
            Record::JobHeld { job } => {
                self.leave(now_s, *job, ledger);
                self.enter(now_s, *job, |_| (SpanKind::Held, Devices::new()));
            }
            Record::JobReleased { job } => {
                self.leave(now_s, *job, ledger);
                self.enter(now_s, *job, |_| (SpanKind::Waiting, Devices::new()));
            }
            Record::JobPlaced { job, shares, .. } => {
                let devices = self.devices(shares);
                match self.jobs.get_mut(job) {
                    Some(open) if open.kind == SpanKind::Stopping => open.next = Some(devices),
                    _ => {
                        self.leave(now_s, *job, ledger);
                        self.enter(now_s, *job, |_| (SpanKind::Starting, devices));
                    }
                }
            }
            Record::JobLaunched { job, .. } => {
                self.leave(now_s, *job, ledger);
                self.enter(now_s, *job, |open| {
                    open.cause.clear();
                    open.run =
                        Some(Run { from_s: now_s, to_s: None, watched_s: 0.0, idle_s: 0.0, iterations: 0.0 });
                    (SpanKind::Running, std::mem::take(&mut open.devices))
                });
            }
            Record::JobStopping { job, .. } => match self.jobs.get_mut(job) {
                Some(open) if open.kind == SpanKind::Stopping => open.next = None,
                _ => {
                    self.leave(now_s, *job, ledger);
                    self.enter(now_s, *job, |open| {
                        if let Some(run) = &mut open.run {
                            run.to_s = Some(now_s);
                        }
                        (SpanKind::Stopping, std::mem::take(&mut open.devices))
                    });
                }
            },
            _ => {}
        }
    }

    /// States what is still going on, as if it ended now.
    pub(crate) fn finish(&self, now_s: f64, ledger: &mut dyn Ledger) {
        for (&job, open) in &self.jobs {
            ledger.span(&Span { to_s: now_s.max(open.since_s), ..self.of(job, open) });
            if let Some(run) = open.run {
                let (from_s, to_s) = (run.from_s, run.to_s.unwrap_or(now_s).max(run.from_s));
                // Watching is told when a run has ended.
                ledger.span(&Span { kind: SpanKind::Unwatched, from_s, to_s, ..self.of(job, open) });
            }
        }
    }

    fn of<'a>(&'a self, job: u32, open: &'a Open) -> Span<'a> {
        Span {
            job,
            who: &self.people[open.who],
            kind: open.kind,
            from_s: open.since_s,
            to_s: open.since_s,
            weight: 1.0,
            devices: &open.devices,
            cause: &open.cause,
        }
    }

    fn moment(&self, at_s: f64, job: u32, moment: Moment, ledger: &mut dyn Ledger) {
        if let Some(open) = self.jobs.get(&job) {
            ledger.moment(at_s, moment, &self.of(job, open));
        }
    }

    /// States what a job did until now.
    fn leave(&self, now_s: f64, job: u32, ledger: &mut dyn Ledger) {
        if let Some(open) = self.jobs.get(&job) {
            ledger.span(&Span { to_s: now_s, ..self.of(job, open) });
        }
    }

    fn enter(&mut self, now_s: f64, job: u32, how: impl FnOnce(&mut Open) -> (SpanKind, Devices)) {
        if let Some(open) = self.jobs.get_mut(&job) {
            let (kind, devices) = how(open);
            (open.kind, open.devices, open.since_s) = (kind, devices, now_s);
        }
    }

    /// A job gives its devices back: its run has ended, where there was one. `saved` states what is safe of one that continues.
    fn close(&mut self, now_s: f64, job: u32, saved: Option<f64>, ledger: &mut dyn Ledger) {
        self.leave(now_s, job, ledger);
        let Some(open) = self.jobs.get(&job) else { return };
        if let Some(run) = open.run {
            let (from_s, to_s) = (run.from_s, run.to_s.unwrap_or(now_s));
            let length_s = to_s - from_s;
            let part = |seconds: f64| if length_s > 0.0 { (seconds / length_s).clamp(0.0, 1.0) } else { 0.0 };
            let lost = saved.map_or(0.0, |saved| lost(open.saved, saved, run.iterations));
            for (kind, weight) in [
                (SpanKind::Run, 1.0),
                (SpanKind::Idle, part(run.idle_s)),
                (SpanKind::Unwatched, 1.0 - part(run.watched_s)),
                (SpanKind::Lost, lost),
            ] {
                ledger.span(&Span { kind, from_s, to_s, weight, ..self.of(job, open) });
            }
        }
        if let Some(open) = self.jobs.get_mut(&job) {
            open.run = None;
            open.saved = saved.unwrap_or(open.saved);
        }
    }

    fn devices(&self, shares: &[(u32, Vec<u32>)]) -> Devices {
        let mut devices = Devices::new();
        for (node, of_node) in shares {
            let kind = self.nodes.get(*node as usize).copied().unwrap_or(u32::MAX);
            match devices.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, count)) => *count += of_node.len() as u32,
                None => devices.push((kind, of_node.len() as u32)),
            }
        }
        devices
    }
}

impl Open {
    fn new(who: usize, now_s: f64) -> Self {
        Self {
            who,
            kind: SpanKind::Waiting,
            since_s: now_s,
            devices: NONE.clone(),
            next: None,
            saved: 0.0,
            run: None,
            cause: String::new(),
        }
    }
}

/// The part of a run's work that is to be done again. One that told nothing and saved nothing begins again.
fn lost(before: f64, saved: f64, told: f64) -> f64 {
    let (made, kept) = (told - before, saved - before);
    if made > 0.0 { (1.0 - kept / made).clamp(0.0, 1.0) } else { f64::from(kept <= 0.0) }
}

fn position(names: &mut Vec<String>, name: &str) -> u32 {
    let known = names.iter().position(|known| known == name);
    let index = known.unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    index as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_work_is_what_was_made_and_not_saved() {
        for (before, saved, told, expected) in [
            (0.0, 0.0, 0.0, 1.0),
            (0.0, 50.0, 0.0, 0.0),
            (0.0, 50.0, 100.0, 0.5),
            (100.0, 100.0, 150.0, 1.0),
            (100.0, 150.0, 150.0, 0.0),
            (100.0, 140.0, 200.0, 0.6),
        ] {
            assert_eq!(lost(before, saved, told), expected, "{before} {saved} {told}");
        }
    }
}
