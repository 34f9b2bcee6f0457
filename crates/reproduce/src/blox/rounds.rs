//! The rounds: credit, take in, order, walk.

use wharf_core::{Chosen, ClusterSpec, JobId, JobSpec, NodeShare, Time};
use wharf_outcome::{JobRecord, MetricRules, Outcome, Recorder, Round, RoundJob, Sample, Span, Tally};

use super::cluster::Free;
use super::settings::{Policy, Settings};

/// Up to here every whole number is a float, so that a product of them is the sum that the published code makes.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// What happens to a job.
#[derive(Clone, Debug)]
struct Progress {
    /// Iterations that it has made.
    executed: f64,
    /// Iterations that it makes in a round.
    pace: f64,
    /// Seconds of service, whatever the gang.
    attained_s: f64,
    /// Seconds since it last ran, or was stopped.
    waiting_s: f64,
    /// Whether it waited so long that it comes first from then on.
    is_starved: bool,
    is_running: bool,
    placement: Vec<NodeShare>,
    /// When it began to run, or to wait.
    since: f64,
    queue_s: f64,
    run_s: f64,
    first_start: Option<f64>,
    end: Option<f64>,
    preemptions: u32,
}

/// A run.
pub(super) struct Rounds<'a> {
    specs: &'a [JobSpec],
    settings: &'a Settings,
    jobs: Vec<Progress>,
    /// Jobs that came and are not done, by id.
    active: Vec<u32>,
    /// The next job to come.
    next: usize,
    /// Tracked jobs that are not done.
    tracked_left: usize,
    free: Free,
    /// Rounds so far.
    round: u64,
    event_count: u64,
    busy_device_s: f64,
    cluster: &'a ClusterSpec,
    device_count: u32,
    tally: Tally,
    recorder: &'a mut dyn Recorder,
    wants_rounds: bool,
    timeline: Option<Vec<Sample>>,
    spans: Vec<Span>,
    /// Buffers of the walk.
    order: Vec<u32>,
    stopped: Vec<bool>,
    found: Vec<NodeShare>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(
        specs: &'a [JobSpec],
        free: Free,
        settings: &'a Settings,
        cluster: &'a ClusterSpec,
        recorder: &'a mut dyn Recorder,
    ) -> Self {
        let progress = |spec: &JobSpec| Progress {
            executed: 0.0,
            pace: settings.round_s / (spec.iteration_ms / 1000.0),
            attained_s: 0.0,
            waiting_s: 0.0,
            is_starved: false,
            is_running: false,
            placement: Vec::new(),
            since: spec.submit.seconds(),
            queue_s: 0.0,
            run_s: 0.0,
            first_start: None,
            end: None,
            preemptions: 0,
        };
        Self {
            specs,
            settings,
            jobs: specs.iter().map(progress).collect(),
            active: Vec::new(),
            next: 0,
            tracked_left: settings
                .track
                .map_or(specs.len(), |(first, last)| last.index() - first.index() + 1),
            free,
            round: 0,
            event_count: 0,
            busy_device_s: 0.0,
            cluster,
            device_count: cluster.device_count(),
            tally: Tally::default(),
            wants_rounds: recorder.wants_rounds(),
            timeline: recorder.wants_timeline().then(Vec::new),
            recorder,
            spans: Vec::new(),
            order: Vec::new(),
            stopped: vec![false; specs.len()],
            found: Vec::new(),
        }
    }

    /// Continues until every tracked job is done, or the rounds are over.
    pub(super) fn run(mut self, rounds_max: Option<u64>) -> Outcome {
        let rounds_max = rounds_max.unwrap_or(u64::MAX);
        loop {
            let now = self.now();
            self.take_in(now);
            self.finish(now);
            if self.tracked_left == 0 || self.round >= rounds_max || self.recorder.is_satisfied() {
                return self.into_outcome(now);
            }
            let held = self.running_count();
            let suspended = self.walk(now);
            self.tally.lease_chances += held;
            self.tally.lease_extensions += held - suspended;
            self.sample(now);
            self.tell_round(now);
            let rounds = self.rounds_until_news(now).min(rounds_max - self.round);
            self.credit(rounds);
        }
    }

    fn now(&self) -> f64 {
        self.round as f64 * self.settings.round_s
    }

    fn is_tracked(&self, job: u32) -> bool {
        self.settings.track.is_none_or(|(first, last)| (first.0..=last.0).contains(&job))
    }

    /// Jobs that came since the last round.
    fn take_in(&mut self, now: f64) {
        while let Some(spec) = self.specs.get(self.next).filter(|spec| spec.submit.seconds() <= now) {
            let job = self.next as u32;
            self.next += 1;
            self.active.push(job);
            self.recorder.submitted(spec.submit, JobId(job));
        }
    }

    /// Jobs that have made all their iterations leave.
    fn finish(&mut self, now: f64) {
        let mut active = std::mem::take(&mut self.active);
        active.retain(|&job| {
            let progress = &self.jobs[job as usize];
            let is_done = progress.is_running && progress.executed >= self.specs[job as usize].iterations;
            if is_done {
                self.stop(now, job);
                self.jobs[job as usize].end = Some(now);
                self.tracked_left -= usize::from(self.is_tracked(job));
                self.recorder.finished(Time::from_seconds(now), JobId(job));
            }
            !is_done
        });
        self.active = active;
    }

    /// Credits running jobs with rounds in which nothing else happens.
    fn credit(&mut self, rounds: u64) {
        let round_s = self.settings.round_s;
        let mut busy_devices = 0;
        for &job in &self.active {
            let progress = &mut self.jobs[job as usize];
            if progress.is_running {
                progress.executed = add_often(progress.executed, progress.pace, rounds);
                progress.attained_s = add_often(progress.attained_s, round_s, rounds);
                busy_devices += self.specs[job as usize].gang.devices;
            }
        }
        // Where rounds are passed over, all that runs continues running.
        let kept = self.running_count() * (rounds - 1);
        self.tally.lease_chances += kept;
        self.tally.lease_extensions += kept;
        self.busy_device_s += f64::from(busy_devices) * round_s * rounds as f64;
        self.round += rounds;
        self.event_count += rounds;
    }

    /// How many rounds go by until a job ends or comes; one while any job waits, as the order changes all the time.
    fn rounds_until_news(&self, now: f64) -> u64 {
        if self.wants_rounds || self.active.iter().any(|&job| !self.jobs[job as usize].is_running) {
            return 1;
        }
        let until_end = |&job: &u32| {
            let progress = &self.jobs[job as usize];
            // One short of it, because sums round.
            (self.specs[job as usize].iterations - progress.executed) / progress.pace - 1.0
        };
        let ends = self.active.iter().map(until_end);
        let coming =
            self.specs.get(self.next).map(|spec| (spec.submit.seconds() - now) / self.settings.round_s);
        // Casts from float to integer truncate and saturate.
        (ends.chain(coming).fold(f64::INFINITY, f64::min) as u64).max(1)
    }

    fn running_count(&self) -> u64 {
        self.active.iter().filter(|&&job| self.jobs[job as usize].is_running).count() as u64
    }

    /// Puts all jobs in order and gives devices to those in front. Returns how many were suspended for that.
    fn walk(&mut self, now: f64) -> u64 {
        if self.active.iter().all(|&job| self.jobs[job as usize].is_running) {
            return 0;
        }
        let mut suspended = 0;
        self.sort();
        let order = std::mem::take(&mut self.order);
        // Behind here no running job is left to stop: those started in this round are safe.
        let mut tail = order.len();
        let mut started = Vec::new();
        for (place, &job) in order.iter().enumerate() {
            if self.jobs[job as usize].is_running {
                continue;
            }
            let gang = self.specs[job as usize].gang.devices;
            let mut is_found = self.free.find(gang, &mut self.found);
            while !is_found && tail > place + 1 {
                tail -= 1;
                let victim = order[tail];
                if self.jobs[victim as usize].is_running {
                    self.suspend(now, victim, job);
                    suspended += 1;
                    is_found = self.free.find(gang, &mut self.found);
                }
            }
            if !is_found {
                break;
            }
            self.free.take(&self.found);
            self.jobs[job as usize].placement.clone_from(&self.found);
            started.push(job);
        }
        // Only now: a job that was given devices is not running for the rest of the walk.
        for &job in &started {
            self.start(now, job);
        }
        self.count_waiting(&order);
        self.order = order;
        suspended
    }

    /// Starved jobs first, then by the policy's key; ties keep the order of arrival.
    fn sort(&mut self) {
        let Self { jobs, specs, settings, active, order, .. } = self;
        let key = |&job: &u32| {
            let (progress, spec) = (&jobs[job as usize], &specs[job as usize]);
            let key = match settings.policy {
                Policy::Las | Policy::Tiresias => progress.attained_s,
                Policy::Fifo => spec.submit.seconds(),
                Policy::Srtf => spec.iteration_ms / 1000.0 * spec.iterations - progress.attained_s,
            };
            (!progress.is_starved, key)
        };
        order.clone_from(active);
        order.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
    }

    /// Time without running counts towards starvation, but not in the round in which the job was stopped.
    fn count_waiting(&mut self, order: &[u32]) {
        for &job in order {
            let progress = &mut self.jobs[job as usize];
            let was_stopped = std::mem::take(&mut self.stopped[job as usize]);
            if progress.is_running || was_stopped {
                progress.waiting_s = 0.0;
            } else {
                progress.waiting_s += self.settings.round_s;
                progress.is_starved |= progress.waiting_s >= self.settings.starved_s;
            }
        }
    }

    fn start(&mut self, now: f64, job: u32) {
        let progress = &mut self.jobs[job as usize];
        self.tally.reschedules += 1;
        progress.is_running = true;
        progress.queue_s += now - progress.since;
        progress.since = now;
        progress.first_start.get_or_insert(now);
        self.recorder.started(Time::from_seconds(now), JobId(job), &progress.placement, &[JobId(job)]);
    }

    fn suspend(&mut self, now: f64, job: u32, to: u32) {
        self.stop(now, job);
        self.stopped[job as usize] = true;
        self.jobs[job as usize].preemptions += 1;
        self.recorder.gave_way(Time::from_seconds(now), JobId(job), Some(JobId(to)), Chosen::LastInOrder);
        self.recorder.preempted(Time::from_seconds(now), JobId(job));
    }

    /// A running job gives its devices back.
    fn stop(&mut self, now: f64, job: u32) {
        let progress = &mut self.jobs[job as usize];
        self.free.give_back(&progress.placement);
        if self.timeline.is_some() {
            let (start, end) = (Time::from_seconds(progress.since), Time::from_seconds(now));
            let span = |&share: &NodeShare| Span { job: JobId(job), share, start, end };
            self.spans.extend(progress.placement.iter().map(span));
        }
        progress.placement.clear();
        progress.is_running = false;
        progress.run_s += now - progress.since;
        progress.since = now;
    }

    fn sample(&mut self, now: f64) {
        let Some(timeline) = &mut self.timeline else { return };
        let running = self.active.iter().filter(|&&job| self.jobs[job as usize].is_running).count() as u32;
        let sample = Sample {
            time: Time::from_seconds(now),
            busy_devices: self.device_count - self.free.count(),
            running,
            waiting: self.active.len() as u32 - running,
        };
        let is_same = |last: &Sample| Sample { time: sample.time, ..*last } == sample;
        if !timeline.last().is_some_and(is_same) {
            timeline.push(sample);
        }
    }

    fn tell_round(&mut self, now: f64) {
        if !self.wants_rounds {
            return;
        }
        let (running, pending): (Vec<u32>, Vec<u32>) =
            self.active.iter().partition(|&&job| self.jobs[job as usize].is_running);
        let running = running.into_iter().map(|job| {
            let (progress, spec) = (&self.jobs[job as usize], &self.specs[job as usize]);
            let first = progress.placement.first().map_or(0, |share| share.node.index());
            RoundJob {
                job: JobId(job),
                device_type: self.cluster.nodes[first].device_type.clone(),
                devices: spec.gang.devices,
                nodes: progress.placement.clone(),
                remaining: (spec.iterations - progress.executed).max(0.0),
                beside: Vec::new(),
            }
        });
        let round = Round {
            index: self.round,
            time: Time::from_seconds(now),
            running: running.collect(),
            pending: pending.into_iter().map(JobId).collect(),
        };
        self.recorder.round(&round);
    }

    fn into_outcome(mut self, now: f64) -> Outcome {
        // What is left counts up to here.
        for job in std::mem::take(&mut self.active) {
            if self.jobs[job as usize].is_running {
                self.stop(now, job);
            } else {
                let progress = &mut self.jobs[job as usize];
                progress.queue_s += now - progress.since;
            }
        }
        self.sample(now);
        let record = |(index, (progress, spec)): (usize, (&Progress, &JobSpec))| JobRecord {
            job: JobId::from_index(index),
            devices: spec.gang.devices,
            submit: spec.submit,
            first_start: progress.first_start.map(Time::from_seconds),
            end: progress.end.map(Time::from_seconds),
            queue_s: progress.queue_s,
            run_s: progress.run_s,
            preemptions: progress.preemptions,
            failures: 0,
        };
        Outcome {
            jobs: self.jobs.iter().zip(self.specs).enumerate().map(record).collect(),
            timeline: self.timeline.unwrap_or_default(),
            spans: self.spans,
            event_count: self.event_count,
            busy_device_s: self.busy_device_s,
            device_count: self.device_count,
            rules: MetricRules::Blox { track: self.settings.track },
            tally: Tally { over: Some(Time::from_seconds(now)), rounds: self.round, ..self.tally },
            measure: None,
            packing: None,
        }
    }
}

/// Adds `step` so often, to the bit as the published code does it round by round.
fn add_often(value: f64, step: f64, times: u64) -> f64 {
    let sum = value + step * times as f64;
    if value.fract() == 0.0 && step.fract() == 0.0 && sum < EXACT_MAX {
        return sum;
    }
    (0..times).fold(value, |value, _| value + step)
}
