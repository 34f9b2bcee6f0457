//! What has happened to each job, reported to the recorder and kept for the outcome.

use wharf_core::{JobId, NodeShare, Time};
use wharf_outcome::{JobRecord, MetricRules, Outcome, Recorder, Sample, Span, Tally};
use wharf_perf::interleave::GROUP_SIZE_MAX;

use super::workload::{Job, Workload};

/// A job's state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Iterations left.
    pub remaining: f64,
    /// Seconds spent running, as of `checked`.
    pub executed_s: f64,
    /// Seconds per iteration now.
    pub pace_s: f64,
    /// Seconds of no progress per event.
    pub restart_s: f64,
    pub running: bool,
    /// The last event at which a running job was checked; when a waiting job began to wait.
    checked: f64,
    waited_s: f64,
    first_start: Option<f64>,
    end: Option<f64>,
    preemptions: u32,
    group: [u32; GROUP_SIZE_MAX],
    span_start: f64,
}

/// The state of all jobs, and the way out to the recorder.
pub(super) struct Tracker<'a> {
    pub jobs: Vec<Progress>,
    workload: &'a [Job],
    placements: Vec<Vec<NodeShare>>,
    recorder: &'a mut dyn Recorder,
    wants_timeline: bool,
    timeline: Vec<Sample>,
    spans: Vec<Span>,
    device_count: u32,
    event_count: u64,
    start_count: u64,
    busy_device_s: f64,
    busy_devices: u32,
    last_event: f64,
    present: u32,
}

impl<'a> Tracker<'a> {
    pub(super) fn new(workload: &'a Workload, device_count: u32, recorder: &'a mut dyn Recorder) -> Self {
        let progress = |job: &Job| Progress {
            remaining: job.iterations,
            executed_s: 0.0,
            pace_s: job.iteration_s,
            restart_s: job.restart_s,
            running: false,
            checked: job.submit,
            waited_s: 0.0,
            first_start: None,
            end: None,
            preemptions: 0,
            group: [u32::MAX; GROUP_SIZE_MAX],
            span_start: 0.0,
        };
        Self {
            jobs: workload.jobs.iter().map(progress).collect(),
            workload: &workload.jobs,
            placements: vec![Vec::new(); workload.jobs.len()],
            wants_timeline: recorder.wants_timeline(),
            recorder,
            timeline: Vec::new(),
            spans: Vec::new(),
            device_count,
            event_count: 0,
            start_count: 0,
            busy_device_s: 0.0,
            busy_devices: 0,
            last_event: 0.0,
            present: 0,
        }
    }

    /// A job enters the system.
    pub(super) fn submit(&mut self, time: f64, job: u32) {
        self.present += 1;
        self.recorder.submitted(Time::from_seconds(time), JobId(job));
    }

    /// A running job is done. The stretch since the last event is not charged with a restart.
    pub(super) fn finish(&mut self, time: f64, job: u32) {
        let progress = &mut self.jobs[job as usize];
        progress.executed_s += time - progress.checked;
        progress.checked = time;
        progress.end = Some(time);
        progress.running = false;
        self.present -= 1;
        self.close_span(time, job);
        self.recorder.finished(Time::from_seconds(time), JobId(job));
    }

    /// Brings a running job up to date: every event costs it its restart.
    #[inline]
    pub(super) fn catch_up(&mut self, time: f64, job: u32) {
        let progress = &mut self.jobs[job as usize];
        let useful_s = (time - progress.checked - progress.restart_s).max(0.0);
        progress.remaining -= useful_s / progress.pace_s;
        // Left to right, as published: the sum rounds differently otherwise.
        progress.executed_s = progress.executed_s + time - progress.checked;
        progress.checked = time;
    }

    /// A job runs from this event on, or continues running, here and with these.
    pub(super) fn run(&mut self, time: f64, job: u32, placement: &[NodeShare], group: &[u32]) {
        let progress = &mut self.jobs[job as usize];
        let held = &mut self.placements[job as usize];
        let mut padded = [u32::MAX; GROUP_SIZE_MAX];
        padded[..group.len()].copy_from_slice(group);
        if progress.running && progress.group == padded && held.as_slice() == placement {
            return;
        }
        let was_running = progress.running;
        if !was_running {
            progress.waited_s += time - progress.checked;
            progress.checked = time;
            progress.running = true;
            progress.first_start.get_or_insert(time);
        }
        progress.group = padded;
        if was_running {
            self.close_span(time, job);
        }
        let held = &mut self.placements[job as usize];
        held.clear();
        held.extend_from_slice(placement);
        self.jobs[job as usize].span_start = time;
        let members = padded.map(JobId);
        self.start_count += 1;
        self.recorder.started(Time::from_seconds(time), JobId(job), placement, &members[..group.len()]);
    }

    /// A running job was not selected again.
    pub(super) fn preempt(&mut self, time: f64, job: u32) {
        let progress = &mut self.jobs[job as usize];
        progress.running = false;
        progress.preemptions += 1;
        self.close_span(time, job);
        self.recorder.preempted(Time::from_seconds(time), JobId(job));
    }

    /// Ends an event: `running` jobs hold `busy_devices` until the next one.
    pub(super) fn settle(&mut self, time: f64, running: usize, busy_devices: u32) {
        self.event_count += 1;
        self.busy_device_s += f64::from(self.busy_devices) * (time - self.last_event);
        self.last_event = time;
        self.busy_devices = busy_devices;
        if self.wants_timeline {
            let running = running as u32;
            let sample = Sample {
                time: Time::from_seconds(time),
                busy_devices,
                running,
                waiting: self.present - running,
            };
            let unchanged = |last: &Sample| Sample { time: sample.time, ..*last } == sample;
            if !self.timeline.last().is_some_and(unchanged) {
                self.timeline.push(sample);
            }
        }
    }

    /// When a running job will be done if nothing else happens.
    #[inline]
    pub(super) fn end_of(&self, time: f64, job: u32) -> (f64, u32) {
        let progress = &self.jobs[job as usize];
        (time + progress.remaining * progress.pace_s, job)
    }

    pub(super) fn into_outcome(self) -> Outcome {
        let record = |(index, (progress, job)): (usize, (&Progress, &Job))| JobRecord {
            job: JobId::from_index(index),
            devices: job.devices,
            submit: Time::from_seconds(job.submit),
            first_start: progress.first_start.map(Time::from_seconds),
            end: progress.end.map(Time::from_seconds),
            queue_s: progress.waited_s,
            run_s: progress.executed_s,
            preemptions: progress.preemptions,
            failures: 0,
        };
        Outcome {
            jobs: self.jobs.iter().zip(self.workload).enumerate().map(record).collect(),
            timeline: self.timeline,
            spans: self.spans,
            event_count: self.event_count,
            busy_device_s: self.busy_device_s,
            device_count: self.device_count,
            rules: MetricRules::Muri,
            tally: Tally { reschedules: self.start_count, ..Tally::default() },
            measure: None,
            packing: None,
        }
    }

    fn close_span(&mut self, time: f64, job: u32) {
        let start = self.jobs[job as usize].span_start;
        if !self.wants_timeline || start >= time {
            return;
        }
        let (start, end) = (Time::from_seconds(start), Time::from_seconds(time));
        let spans =
            self.placements[job as usize].iter().map(|&share| Span { job: JobId(job), share, start, end });
        self.spans.extend(spans);
    }
}
