//! What has happened to each job, reported to the recorder and kept for the outcome.

use std::sync::Arc;

use wharf_core::{JobId, NodeShare, Time};
use wharf_outcome::{
    Allocation, JobRecord, MetricRules, Outcome, Recorder, Round, RoundJob, Sample, Span, Tally,
};

use super::keys::{NO_JOB, singles};
use super::place::Assignment;
use super::rules::Shares;
use super::workload::Workload;

/// A job's fate so far.
#[derive(Clone, Debug, Default)]
struct Fate {
    first_start: Option<f64>,
    end: Option<f64>,
    has_left: bool,
    run_s: f64,
    preemptions: u32,
    /// Since when, and which, devices it holds.
    span_start: f64,
    held: Vec<NodeShare>,
}

/// The fates of all jobs, and the way out to the recorder.
pub(super) struct Tracker<'a> {
    workload: &'a Workload<'a>,
    recorder: &'a mut dyn Recorder,
    wants_timeline: bool,
    wants_rounds: bool,
    fates: Vec<Fate>,
    timeline: Vec<Sample>,
    spans: Vec<Span>,
    event_count: u64,
    busy_device_s: f64,
    pub tally: Tally,
    /// When the round in force began.
    round_start: f64,
}

impl<'a> Tracker<'a> {
    pub(super) fn new(workload: &'a Workload<'a>, recorder: &'a mut dyn Recorder) -> Self {
        let is_priced = workload.prices.iter().all(Option::is_some);
        Self {
            workload,
            wants_timeline: recorder.wants_timeline(),
            wants_rounds: recorder.wants_rounds(),
            recorder,
            fates: vec![Fate::default(); workload.jobs.len()],
            timeline: Vec::new(),
            spans: Vec::new(),
            event_count: 0,
            busy_device_s: 0.0,
            tally: Tally { cost: is_priced.then_some(0.0), ..Tally::default() },
            round_start: 0.0,
        }
    }

    /// A job enters the system.
    pub(super) fn submitted(&mut self, time: f64, job: u32) {
        self.recorder.submitted(Time::from_seconds(time), JobId(job));
    }

    /// Shares were computed.
    pub(super) fn allocated(&mut self, time: f64, live: &[u32], shares: &Shares) {
        if !self.wants_rounds {
            return;
        }
        let width = self.workload.width();
        let singles = live.iter().zip(shares.singles.chunks_exact(width));
        let singles = singles.map(|(&job, row)| (vec![JobId(job)], row.to_vec()));
        let pairs = shares.pairs.iter().map(|(members, row)| (members.map(JobId).to_vec(), row.clone()));
        let allocation = Allocation {
            time: Time::from_seconds(time),
            device_types: self.workload.types.clone(),
            fractions: singles.chain(pairs).collect(),
        };
        self.recorder.allocated(&allocation);
    }

    /// A round begins: `stopped` do not continue as before, `current` run in it.
    pub(super) fn round(
        &mut self,
        time: f64,
        current: &[Assignment],
        stopped: &[Assignment],
        live: &[u32],
        remaining: &dyn Fn(u32) -> f64,
    ) {
        self.event_count += 1;
        self.round_start = time;
        for &job in stopped.iter().flat_map(|held| singles(&held.members)) {
            if !self.fates[job as usize].has_left {
                self.close_span(time, job);
                self.fates[job as usize].preemptions += 1;
                self.recorder.preempted(Time::from_seconds(time), JobId(job));
            }
        }
        for held in current {
            if held.is_kept {
                self.tally.lease_extensions += 1;
            } else {
                self.start(time, held);
            }
        }
        if self.wants_timeline {
            self.sample(time, current, live.len());
        }
        if !current.is_empty() {
            if self.wants_rounds {
                self.tell_round(time, current, live, remaining);
            }
            self.tally.rounds += 1;
        }
    }

    fn start(&mut self, time: f64, held: &Assignment) {
        let members = singles(&held.members);
        let group = held.members.map(JobId);
        let shares = self.workload.shares(&held.workers);
        for &job in members {
            self.tally.reschedules += 1;
            self.fates[job as usize].first_start.get_or_insert(time);
            self.recorder.started(Time::from_seconds(time), JobId(job), &shares, &group[..members.len()]);
            if self.wants_timeline {
                let fate = &mut self.fates[job as usize];
                fate.span_start = time;
                fate.held.clone_from(&shares);
            }
        }
    }

    fn sample(&mut self, time: f64, current: &[Assignment], live: usize) {
        let running = current.iter().map(|held| singles(&held.members).len()).sum::<usize>() as u32;
        let sample = Sample {
            time: Time::from_seconds(time),
            busy_devices: current.iter().map(|held| held.workers.len() as u32).sum(),
            running,
            waiting: live as u32 - running,
        };
        let unchanged = |last: &Sample| Sample { time: sample.time, ..*last } == sample;
        if !self.timeline.last().is_some_and(unchanged) {
            self.timeline.push(sample);
        }
    }

    fn tell_round(
        &mut self,
        time: f64,
        current: &[Assignment],
        live: &[u32],
        remaining: &dyn Fn(u32) -> f64,
    ) {
        let mut is_running = vec![false; self.fates.len()];
        let mut running = Vec::new();
        for held in current {
            for &job in singles(&held.members) {
                is_running[job as usize] = true;
                let others = held.members.iter().filter(|&&other| other != job && other != NO_JOB);
                running.push(RoundJob {
                    job: JobId(job),
                    device_type: Arc::clone(&self.workload.types[held.device_type]),
                    devices: held.workers.len() as u32,
                    nodes: self.workload.shares(&held.workers),
                    remaining: remaining(job),
                    beside: others.map(|&other| JobId(other)).collect(),
                });
            }
        }
        let pending = live.iter().filter(|&&job| !is_running[job as usize]).map(|&job| JobId(job)).collect();
        let round = Round { index: self.tally.rounds, time: Time::from_seconds(time), running, pending };
        self.recorder.round(&round);
    }

    /// A micro-task came to nothing.
    pub(super) fn failed(&mut self, end: f64, members: &[u32]) {
        self.hold(end, members);
    }

    /// A micro-task has ended. What is charged begins where the last round ended, which may be long before this one.
    pub(super) fn ran(&mut self, end: f64, charged_s: f64, members: &[u32], device_type: usize, gang: u32) {
        self.hold(end, members);
        let device_s = charged_s * f64::from(gang);
        self.busy_device_s += device_s;
        if let (Some(cost), Some(price)) = (&mut self.tally.cost, self.workload.prices[device_type]) {
            *cost += device_s / 3600.0 * price;
        }
    }

    fn hold(&mut self, end: f64, members: &[u32]) {
        for &job in members {
            self.fates[job as usize].run_s += end - self.round_start;
        }
    }

    /// A job leaves, done where it has an end.
    pub(super) fn left(&mut self, now: f64, job: u32, end: Option<f64>) {
        self.close_span(end.unwrap_or(now), job);
        let fate = &mut self.fates[job as usize];
        fate.has_left = true;
        fate.end = end;
        match end {
            Some(end) => self.recorder.finished(Time::from_seconds(end), JobId(job)),
            None => self.recorder.preempted(Time::from_seconds(now), JobId(job)),
        }
    }

    fn close_span(&mut self, time: f64, job: u32) {
        let fate = &mut self.fates[job as usize];
        let (start, held) = (fate.span_start, std::mem::take(&mut fate.held));
        if start < time {
            let (start, end) = (Time::from_seconds(start), Time::from_seconds(time));
            self.spans.extend(held.into_iter().map(|share| Span { job: JobId(job), share, start, end }));
        }
    }

    /// The run has ended.
    pub(super) fn close(&mut self, now: f64) {
        for job in 0..self.fates.len() as u32 {
            self.close_span(now, job);
        }
        self.tally.over = Some(Time::from_seconds(now));
        if self.wants_timeline {
            self.sample(now, &[], self.fates.iter().filter(|fate| !fate.has_left).count());
        }
    }

    pub(super) fn into_outcome(self) -> Outcome {
        let over = self.tally.over.map_or(0.0, Time::seconds);
        let record = |(index, fate): (usize, &Fate)| {
            let job = &self.workload.jobs[index];
            let queue_s = fate.end.unwrap_or(over.max(job.submit)) - job.submit - fate.run_s;
            JobRecord {
                job: JobId::from_index(index),
                devices: job.gang,
                submit: Time::from_seconds(job.submit),
                first_start: fate.first_start.map(Time::from_seconds),
                end: fate.end.map(Time::from_seconds),
                queue_s: queue_s.max(0.0),
                run_s: fate.run_s,
                preemptions: fate.preemptions,
                failures: 0,
            }
        };
        Outcome {
            jobs: self.fates.iter().enumerate().map(record).collect(),
            timeline: self.timeline,
            spans: self.spans,
            event_count: self.event_count,
            busy_device_s: self.busy_device_s,
            device_count: self.workload.workers.len() as u32,
            rules: MetricRules::Gavel,
            tally: self.tally,
            measure: None,
            packing: None,
        }
    }
}
