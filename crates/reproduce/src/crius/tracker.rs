//! What is informed of a run: events, records, samples.

use wharf_core::{ClusterSpec, DeviceSet, JobId, JobSpec, NodeId, NodeShare, Time};
use wharf_outcome::{JobRecord, MetricRules, Outcome, Recorder, Round, RoundJob, Sample, Span, Tally};

use super::decisions::{Owner, Table, World};

/// Keeps the records. Jobs are known by their places in the trace.
pub(super) struct Tracker<'a> {
    cluster: &'a ClusterSpec,
    recorder: &'a mut dyn Recorder,
    wants_rounds: bool,
    records: Vec<JobRecord>,
    placements: Vec<Vec<NodeShare>>,
    since: Vec<f64>,
    timeline: Option<Vec<Sample>>,
    spans: Vec<Span>,
    busy_device_s: f64,
    /// Jobs whose devices may have changed.
    touched: Vec<u32>,
}

impl<'a> Tracker<'a> {
    pub(super) fn new(specs: &[JobSpec], cluster: &'a ClusterSpec, recorder: &'a mut dyn Recorder) -> Self {
        let record = |(index, spec): (usize, &JobSpec)| JobRecord::new(JobId::from_index(index), spec);
        Self {
            cluster,
            wants_rounds: recorder.wants_rounds(),
            records: specs.iter().enumerate().map(record).collect(),
            placements: vec![Vec::new(); specs.len()],
            since: vec![0.0; specs.len()],
            timeline: recorder.wants_timeline().then(Vec::new),
            recorder,
            spans: Vec::new(),
            busy_device_s: 0.0,
            touched: Vec::new(),
        }
    }

    /// Whether no recorder wants to know more.
    pub(super) fn is_satisfied(&self) -> bool {
        self.recorder.is_satisfied()
    }

    pub(super) fn submitted(&mut self, now: f64, job: u32) {
        let record = &mut self.records[job as usize];
        record.submit = Time::from_seconds(now);
        self.recorder.submitted(record.submit, record.job);
    }

    pub(super) fn finished(&mut self, now: f64, job: u32) {
        self.close(now, job);
        let time = Time::from_seconds(now);
        self.records[job as usize].end = Some(time);
        self.recorder.finished(time, JobId(job));
    }

    /// A job holds its devices no longer.
    fn close(&mut self, now: f64, job: u32) {
        let (placement, since) = (&mut self.placements[job as usize], self.since[job as usize]);
        if placement.is_empty() {
            return;
        }
        self.records[job as usize].run_s += now - since;
        if self.timeline.is_some() {
            let (start, end) = (Time::from_seconds(since), Time::from_seconds(now));
            let span = |&share: &NodeShare| Span { job: JobId(job), share, start, end };
            self.spans.extend(placement.iter().map(span));
        }
        placement.clear();
    }

    /// Devices may have changed hands.
    pub(super) fn changed(&mut self, now: f64, world: &World, before: &Table, jobs: &[u32]) {
        let table = &world.table;
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        for device in 0..table.site().device_count() as usize {
            let owners = [before.owner(device), table.owner(device)];
            if owners[0] != owners[1] {
                touched.extend(owners.into_iter().filter_map(Owner::as_job));
            }
        }
        touched.sort_unstable();
        touched.dedup();
        for &job in touched.iter().filter(|job| !world.job(**job).is_profiling) {
            self.moved(now, jobs[job as usize], placement(table, job));
        }
        self.touched = touched;
    }

    fn moved(&mut self, now: f64, job: u32, placement: Vec<NodeShare>) {
        let held = &self.placements[job as usize];
        if *held == placement {
            return;
        }
        let time = Time::from_seconds(now);
        if !held.is_empty() {
            self.close(now, job);
            self.records[job as usize].preemptions += 1;
            self.recorder.preempted(time, JobId(job));
        }
        if !placement.is_empty() {
            self.records[job as usize].first_start.get_or_insert(time);
            self.since[job as usize] = now;
            self.recorder.started(time, JobId(job), &placement, &[JobId(job)]);
            self.placements[job as usize] = placement;
        }
    }

    /// A round is decided; it lasts so long.
    pub(super) fn round(&mut self, index: u64, now: f64, round_s: f64, world: &World, jobs: &[u32]) {
        let idle: u32 = world.site().kinds().map(|kind| world.table.idle_of(kind)).sum();
        let busy_devices = world.site().device_count() - idle;
        self.busy_device_s += f64::from(busy_devices) * round_s;
        let time = Time::from_seconds(now);
        if let Some(timeline) = &mut self.timeline {
            let (running, waiting) = (world.running.len() as u32, world.pending.len() as u32);
            let sample = Sample { time, busy_devices, running, waiting };
            let is_same = |last: &Sample| Sample { time, ..*last } == sample;
            if !timeline.last().is_some_and(is_same) {
                timeline.push(sample);
            }
        }
        if !self.wants_rounds {
            return;
        }
        let running = world.running.iter().map(|&job| {
            let (state, spec) = (world.job(job), jobs[job as usize]);
            RoundJob {
                job: JobId(spec),
                device_type: world.site().kind(state.quota.kind).name.clone(),
                devices: state.quota.devices,
                nodes: self.placements[spec as usize].clone(),
                remaining: state.remaining.max(0.0),
                beside: Vec::new(),
            }
        });
        let running = running.collect();
        let pending = world.pending.iter().map(|&job| JobId(jobs[job as usize])).collect();
        self.recorder.round(&Round { index, time, running, pending });
    }

    pub(super) fn set_queue(&mut self, job: u32, queue_s: f64) {
        self.records[job as usize].queue_s = queue_s;
    }

    pub(super) fn into_outcome(mut self, now: f64, rounds: u64, tally: Tally) -> Outcome {
        for job in 0..self.records.len() as u32 {
            self.close(now, job);
        }
        Outcome {
            jobs: self.records,
            timeline: self.timeline.unwrap_or_default(),
            spans: self.spans,
            event_count: rounds,
            busy_device_s: self.busy_device_s,
            device_count: self.cluster.device_count(),
            rules: MetricRules::Crius,
            tally: Tally { over: Some(Time::from_seconds(now)), ..tally },
            measure: None,
            packing: None,
        }
    }
}

/// A job's devices, in the numbers of the cluster.
fn placement(table: &Table, job: u32) -> Vec<NodeShare> {
    let site = table.site();
    let mut shares: Vec<NodeShare> = Vec::new();
    for device in table.devices_of(Owner::job(job)) {
        let node = site.node_of(device);
        let id = NodeId(site.origin(node));
        let bit = DeviceSet(1 << (device - site.devices(node).start));
        match shares.last_mut() {
            Some(share) if share.node == id => share.devices.0 |= bit.0,
            _ => shares.push(NodeShare::new(id, bit)),
        }
    }
    shares
}
