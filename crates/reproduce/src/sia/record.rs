//! What has happened to each job, reported to the recorder and kept for the outcome.

use wharf_core::{JobId, JobSpec, NodeShare, Time};

use wharf_outcome::{JobRecord, MetricRules, Outcome, Recorder, Sample, Span, Tally};

#[derive(Clone, Debug, Default)]
struct Life {
    held: Vec<NodeShare>,
    since_s: u64,
    first_start: Option<u64>,
    end_s: Option<u64>,
    run_s: f64,
    preemptions: u32,
    is_submitted: bool,
}

pub(super) struct Record<'a> {
    specs: &'a [JobSpec],
    lives: Vec<Life>,
    recorder: &'a mut dyn Recorder,
    wants_timeline: bool,
    timeline: Vec<Sample>,
    spans: Vec<Span>,
    device_count: u32,
    busy_device_s: f64,
    round_count: u64,
    start_count: u64,
}

impl<'a> Record<'a> {
    pub(super) fn new(specs: &'a [JobSpec], device_count: u32, recorder: &'a mut dyn Recorder) -> Self {
        Self {
            specs,
            lives: vec![Life::default(); specs.len()],
            wants_timeline: recorder.wants_timeline(),
            recorder,
            timeline: Vec::new(),
            spans: Vec::new(),
            device_count,
            busy_device_s: 0.0,
            round_count: 0,
            start_count: 0,
        }
    }

    /// The devices that a job has.
    pub(super) fn held(&self, job: usize) -> &[NodeShare] {
        &self.lives[job].held
    }

    /// Time passes, with the arrivals and ends in it.
    pub(super) fn pass(&mut self, from_s: u64, to_s: u64, ends: &[Option<u64>]) {
        self.round_count += 1;
        let mut happened: Vec<(Time, bool, usize)> = Vec::new();
        for (index, life) in self.lives.iter_mut().enumerate() {
            if !life.is_submitted && self.specs[index].submit.seconds() <= to_s as f64 {
                life.is_submitted = true;
                happened.push((self.specs[index].submit, false, index));
            }
            if let (Some(end_s), None) = (ends[index], life.end_s) {
                life.end_s = Some(end_s);
                happened.push((Time::from_seconds(end_s as f64), true, index));
            }
            let devices: u32 = life.held.iter().map(|share| share.devices.len()).sum();
            let until_s = life.end_s.unwrap_or(to_s).min(to_s);
            if devices > 0 && until_s > from_s {
                let held_s = (until_s - from_s) as f64;
                life.run_s += held_s;
                self.busy_device_s += held_s * f64::from(devices);
            }
        }
        happened.sort();
        for (time, is_end, index) in happened {
            let job = JobId::from_index(index);
            if is_end {
                self.recorder.finished(time, job);
            } else {
                self.recorder.submitted(time, job);
            }
        }
    }

    /// A job's devices are taken back, or it has ended.
    pub(super) fn release(&mut self, now_s: u64, job: usize) {
        let life = &mut self.lives[job];
        if life.held.is_empty() {
            return;
        }
        let end_s = life.end_s.unwrap_or(now_s);
        let (start, end) = (Time::from_seconds(life.since_s as f64), Time::from_seconds(end_s as f64));
        let id = JobId::from_index(job);
        if self.wants_timeline && life.since_s < end_s {
            self.spans.extend(life.held.iter().map(|&share| Span { job: id, share, start, end }));
        }
        life.held.clear();
        if life.end_s.is_none() {
            life.preemptions += 1;
            self.recorder.preempted(Time::from_seconds(now_s as f64), id);
        }
    }

    /// A job runs from now on.
    pub(super) fn start(&mut self, now_s: u64, job: usize, shares: Vec<NodeShare>) {
        let life = &mut self.lives[job];
        life.first_start.get_or_insert(now_s);
        life.since_s = now_s;
        life.held = shares;
        self.start_count += 1;
        let id = JobId::from_index(job);
        self.recorder.started(Time::from_seconds(now_s as f64), id, &life.held, &[id]);
    }

    /// Ends a round.
    pub(super) fn settle(&mut self, now_s: u64) {
        if !self.wants_timeline {
            return;
        }
        let is_running = |life: &&Life| !life.held.is_empty();
        let busy: u32 = self.lives.iter().flat_map(|life| &life.held).map(|share| share.devices.len()).sum();
        let running = self.lives.iter().filter(is_running).count() as u32;
        let present =
            self.lives.iter().filter(|life| life.is_submitted && life.end_s.is_none()).count() as u32;
        self.timeline.push(Sample {
            time: Time::from_seconds(now_s as f64),
            busy_devices: busy,
            running,
            waiting: present - running,
        });
    }

    pub(super) fn into_outcome(mut self, now_s: u64) -> Outcome {
        for job in 0..self.lives.len() {
            if self.wants_timeline && !self.lives[job].held.is_empty() {
                let life = &self.lives[job];
                let end_s = life.end_s.unwrap_or(now_s);
                let (start, end) =
                    (Time::from_seconds(life.since_s as f64), Time::from_seconds(end_s as f64));
                let id = JobId::from_index(job);
                let spans = life.held.iter().map(|&share| Span { job: id, share, start, end });
                self.spans.extend(spans);
            }
        }
        let jobs = self.lives.iter().zip(self.specs).enumerate().map(|(index, (life, spec))| {
            let end = life.end_s.map_or(now_s as f64, |end_s| end_s as f64);
            JobRecord {
                job: JobId::from_index(index),
                devices: spec.gang.devices,
                submit: spec.submit,
                first_start: life.first_start.map(|time_s| Time::from_seconds(time_s as f64)),
                end: life.end_s.map(|time_s| Time::from_seconds(time_s as f64)),
                queue_s: (end - spec.submit.seconds() - life.run_s).max(0.0),
                run_s: life.run_s,
                preemptions: life.preemptions,
                failures: 0,
            }
        });
        Outcome {
            jobs: jobs.collect(),
            timeline: self.timeline,
            spans: self.spans,
            event_count: self.round_count,
            busy_device_s: self.busy_device_s,
            device_count: self.device_count,
            rules: MetricRules::Wharf,
            tally: Tally {
                over: Some(Time::from_seconds(now_s as f64)),
                rounds: self.round_count,
                reschedules: self.start_count,
                ..Tally::default()
            },
            measure: None,
            packing: None,
        }
    }
}
