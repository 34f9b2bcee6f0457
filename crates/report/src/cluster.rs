//! What a real cluster has recorded, as the outcome that everything else here is made from.

use std::collections::BTreeMap;

use wharf_core::{
    ClusterSpec, DeviceSet, JobId, JobSpec, NodeId, NodeShare, NodeSpec, Reshape, Reshapes, Time, Topology,
};
use wharf_outcome::{Deadlines, JobRecord, MetricRules, Outcome, Sample, Span, Tally};

use crate::metric::Unit;
use crate::table::{Cell, Column, Table};

/// Everything that a cluster has recorded about some jobs.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Its nodes, by id.
    pub nodes: Vec<RecordedNode>,
    /// The jobs.
    pub jobs: Vec<RecordedJob>,
    /// The present: what still runs has run until then. In seconds since any epoch, as all times here.
    pub now_s: f64,
}

/// A node.
#[derive(Clone, Debug, Default)]
pub struct RecordedNode {
    /// Its name.
    pub name: String,
    /// The type of its devices.
    pub device_type: String,
    /// How many it has.
    pub devices: u32,
}

/// A job and the outcome of it.
#[derive(Clone, Debug, Default)]
pub struct RecordedJob {
    /// Its id in the cluster.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Who submitted it.
    pub user: String,
    /// The devices it asked for.
    pub devices: u32,
    /// Iterations it was to do; 0 where that is not known.
    pub iterations: f64,
    /// How long each was said to take; 0 where that is not known.
    pub iteration_ms: f64,
    /// Iterations it has told of.
    pub iterations_done: f64,
    /// What it is or how it ended, in a word.
    pub state: String,
    /// Whether it was done.
    pub is_finished: bool,
    /// When it was submitted.
    pub submit_s: f64,
    /// When it was over.
    pub end_s: Option<f64>,
    /// How often it was stopped before it was done.
    pub preemptions: u32,
    /// Where it ran, and when.
    pub stays: Vec<Stay>,
    /// When it should be over.
    pub deadline_s: Option<f64>,
}

/// A job on its devices for a while.
#[derive(Clone, Debug, Default)]
pub struct Stay {
    /// For each node its id and the devices there.
    pub shares: Vec<(u32, Vec<u32>)>,
    /// From.
    pub start_s: f64,
    /// Until; `None` while it lasts.
    pub end_s: Option<f64>,
}

impl RecordedJob {
    /// Seconds that it held devices.
    pub fn run_s(&self, now_s: f64) -> f64 {
        self.stays.iter().map(|stay| (stay.end_s.unwrap_or(now_s) - stay.start_s).max(0.0)).sum()
    }

    /// How often it was started on other devices than the last time.
    fn reshapes(&self, topology: &Topology) -> Reshapes {
        let nodes = topology.nodes().len();
        let placed = |stay: &Stay| -> Vec<NodeShare> {
            let known = stay.shares.iter().filter(|(node, _)| (*node as usize) < nodes);
            known.map(|(node, devices)| NodeShare::new(NodeId(*node), device_set(devices))).collect()
        };
        let placements: Vec<Vec<NodeShare>> = self.stays.iter().map(placed).collect();
        let mut counts = Reshapes::default();
        for pair in placements.windows(2) {
            if let Some(reshape) = Reshape::between(topology, &pair[0], &pair[1]) {
                counts.add(reshape);
            }
        }
        counts
    }

    /// Whether it was done in time; empty where it has no deadline, or may still be.
    fn deadline_word(&self, now_s: f64) -> &'static str {
        let Some(deadline_s) = self.deadline_s else { return "" };
        match self.end_s.filter(|_| self.is_finished) {
            Some(end_s) if end_s <= deadline_s => "met",
            None if now_s <= deadline_s => "",
            _ => "missed",
        }
    }

    /// Seconds that it was submitted but not running.
    pub fn wait_s(&self, now_s: f64) -> f64 {
        (self.end_s.unwrap_or(now_s) - self.submit_s - self.run_s(now_s)).max(0.0)
    }
}

impl Record {
    /// The nodes as a cluster.
    pub fn cluster(&self) -> ClusterSpec {
        let node = |node: &RecordedNode| NodeSpec {
            name: node.name.as_str().into(),
            device_type: node.device_type.as_str().into(),
            devices: node.devices,
            cpus: 0,
            memory_gib: 0,
            switch: 0,
            pool: NodeSpec::no_pool(),
            details: None,
        };
        ClusterSpec::of(self.nodes.iter().map(node).collect())
    }

    /// The jobs as a trace, from the first submission on.
    pub fn specs(&self) -> Vec<JobSpec> {
        let time = self.clock();
        let spec = |job: &RecordedJob| JobSpec {
            user: (!job.user.is_empty()).then(|| job.user.as_str().into()),
            deadline: job.deadline_s.map(&time),
            ..JobSpec::new(
                &job.name,
                time(job.submit_s),
                job.devices,
                job.iterations.max(1.0),
                if job.iteration_ms > 0.0 { job.iteration_ms } else { 1000.0 * job.run_s(self.now_s) },
            )
        };
        self.jobs.iter().map(spec).collect()
    }

    /// What happened.
    pub fn outcome(&self) -> Outcome {
        let (spans, time) = (self.spans(), self.clock());
        Outcome {
            jobs: self.jobs.iter().enumerate().map(|(index, job)| self.fate(&time, index, job)).collect(),
            timeline: self.timeline(),
            event_count: 0,
            busy_device_s: busy_device_s(&spans),
            device_count: self.nodes.iter().map(|node| node.devices).sum(),
            rules: MetricRules::Wharf,
            tally: Tally {
                // Failed and cancelled jobs have ended, too, though not finished.
                over: self.jobs.iter().map(|job| time(job.end_s.unwrap_or(self.now_s))).max(),
                reshapes: self.reshapes(),
                deadlines: self.deadlines(&time),
                ..Tally::default()
            },
            measure: None,
            packing: None,
            spans,
        }
    }

    /// The outcome of jobs with a deadline.
    fn deadlines(&self, time: &impl Fn(f64) -> Time) -> Option<Deadlines> {
        let of =
            |job: &RecordedJob| (job.deadline_s.map(time), job.end_s.filter(|_| job.is_finished).map(time));
        Deadlines::count(self.jobs.iter().map(of), time(self.now_s))
    }

    /// How often jobs were started on other devices than the last time.
    fn reshapes(&self) -> Reshapes {
        let topology = Topology::new(&self.cluster());
        let mut sum = Reshapes::default();
        self.jobs.iter().for_each(|job| sum += job.reshapes(&topology));
        sum
    }

    /// A row for each job.
    pub fn table(&self) -> Table {
        let (has_deadlines, topology) =
            (self.jobs.iter().any(|job| job.deadline_s.is_some()), Topology::new(&self.cluster()));
        let changes: Vec<String> = self.jobs.iter().map(|job| job.reshapes(&topology).to_string()).collect();
        let has_changes = changes.iter().any(|text| !text.is_empty());
        let mut columns = vec![
            Column::text("job", "job"),
            Column::text("name", "name"),
            Column::number("devices", "devices", Unit::Number),
            Column::text("state", "state"),
            Column::number("wait_s", "waiting", Unit::Seconds),
            Column::number("run_s", "running", Unit::Seconds),
            Column::number("preemptions", "preemptions", Unit::Number),
            Column::number("progress", "progress", Unit::Share),
            Column::text("nodes", "nodes"),
        ];
        columns.extend(has_changes.then(|| Column::text("changes", "changes")));
        columns.extend(has_deadlines.then(|| Column::text("deadline", "deadline")));
        let mut table = Table::new(columns);
        for (job, changes) in self.jobs.iter().zip(&changes) {
            // A job that never told is not known to stand at nothing.
            let is_told = job.iterations > 0.0 && job.iterations_done > 0.0;
            let progress = is_told.then(|| (job.iterations_done / job.iterations).clamp(0.0, 1.0));
            let mut cells = vec![
                Cell::text(&job.id.to_string()),
                Cell::text(&job.name),
                Cell::count(job.devices.into()),
                Cell::text(&job.state),
                Cell::number(Some(job.wait_s(self.now_s))),
                Cell::number(Some(job.run_s(self.now_s))),
                Cell::count(job.preemptions.into()),
                Cell::number(progress),
                Cell::text(&self.path(job)),
            ];
            cells.extend(has_changes.then(|| Cell::text(changes)));
            cells.extend(has_deadlines.then(|| Cell::text(job.deadline_word(self.now_s))));
            table.push(cells);
        }
        table
    }

    /// The nodes that a job was on, one stay after the other.
    fn path(&self, job: &RecordedJob) -> String {
        let name = |id: u32| self.nodes.get(id as usize).map_or("?", |node| node.name.as_str());
        let stay =
            |stay: &Stay| stay.shares.iter().map(|&(node, _)| name(node)).collect::<Vec<_>>().join("+");
        job.stays.iter().map(stay).collect::<Vec<_>>().join(" → ")
    }

    /// Tells seconds after the first submission, which is searched for once.
    fn clock(&self) -> impl Fn(f64) -> Time + use<> {
        let first = self.jobs.iter().map(|job| job.submit_s).fold(f64::INFINITY, f64::min);
        move |at_s| Time::try_new((at_s - first).max(0.0)).unwrap_or(Time::ZERO)
    }

    fn fate(&self, time: &impl Fn(f64) -> Time, index: usize, job: &RecordedJob) -> JobRecord {
        JobRecord {
            job: JobId(u32::try_from(index).unwrap_or(u32::MAX)),
            devices: job.devices,
            submit: time(job.submit_s),
            first_start: job.stays.first().map(|stay| time(stay.start_s)),
            end: job.end_s.filter(|_| job.is_finished).map(time),
            queue_s: job.wait_s(self.now_s),
            run_s: job.run_s(self.now_s),
            preemptions: job.preemptions,
            // The head counts the causes of stops itself.
            failures: 0,
        }
    }

    fn spans(&self) -> Vec<Span> {
        let (mut spans, time) = (Vec::new(), self.clock());
        for (index, job) in self.jobs.iter().enumerate() {
            for stay in &job.stays {
                let (start, end) = (time(stay.start_s), time(stay.end_s.unwrap_or(self.now_s)));
                spans.extend(stay.shares.iter().map(|(node, devices)| Span {
                    job: JobId(u32::try_from(index).unwrap_or(u32::MAX)),
                    share: NodeShare::new(NodeId(*node), device_set(devices)),
                    start,
                    end: end.max(start),
                }));
            }
        }
        spans.sort_by_key(|span| span.start);
        spans
    }

    /// Occupancy whenever a job comes, starts, stops or ends.
    fn timeline(&self) -> Vec<Sample> {
        let time = self.clock();
        // Changes of (busy devices, running, waiting).
        let mut changes: Vec<(Time, [i64; 3])> = Vec::new();
        for job in &self.jobs {
            changes.push((time(job.submit_s), [0, 0, 1]));
            for stay in &job.stays {
                let devices: i64 = stay.shares.iter().map(|(_, devices)| devices.len() as i64).sum();
                changes.push((time(stay.start_s), [devices, 1, -1]));
                if let Some(end_s) = stay.end_s {
                    changes.push((time(end_s), [-devices, -1, 1]));
                }
            }
            if let Some(end_s) = job.end_s {
                changes.push((time(end_s), [0, 0, -1]));
            }
        }
        changes.sort_by_key(|change| change.0);
        let mut sum = [0_i64; 3];
        let mut samples: Vec<Sample> = Vec::new();
        for (time, change) in changes {
            sum.iter_mut().zip(change).for_each(|(sum, change)| *sum += change);
            let [busy_devices, running, waiting] = sum.map(|sum| u32::try_from(sum).unwrap_or(0));
            let sample = Sample { time, busy_devices, running, waiting };
            match samples.last_mut().filter(|last| last.time == time) {
                Some(last) => *last = sample,
                None => samples.push(sample),
            }
        }
        samples
    }
}

/// Device-seconds with a job, where several at a time count once. Spans are in the order of their starts.
fn busy_device_s(spans: &[Span]) -> f64 {
    let mut free_from: BTreeMap<(NodeId, u32), Time> = BTreeMap::new();
    let mut busy_s = 0.0;
    for span in spans {
        for device in span.share.devices.iter() {
            let free = free_from.entry((span.share.node, device)).or_insert(span.start);
            busy_s += span.end.since((*free).max(span.start)).max(0.0);
            *free = (*free).max(span.end);
        }
    }
    busy_s
}

fn device_set(devices: &[u32]) -> DeviceSet {
    devices
        .iter()
        .filter(|&&device| device < u128::BITS)
        .fold(DeviceSet(0), |set, device| DeviceSet(set.0 | 1 << device))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stay(node: u32, devices: &[u32], start_s: f64, end_s: Option<f64>) -> Stay {
        Stay { shares: vec![(node, devices.to_vec())], start_s, end_s }
    }

    fn record() -> Record {
        let node = |name: &str| RecordedNode { name: name.into(), device_type: "v100".into(), devices: 2 };
        let preempted = RecordedJob {
            name: "long".into(),
            devices: 2,
            iterations: 100.0,
            iterations_done: 100.0,
            is_finished: true,
            submit_s: 1000.0,
            end_s: Some(1060.0),
            preemptions: 1,
            stays: vec![stay(0, &[0, 1], 1000.0, Some(1010.0)), stay(1, &[0, 1], 1020.0, Some(1060.0))],
            ..RecordedJob::default()
        };
        let running = RecordedJob {
            id: 1,
            devices: 1,
            submit_s: 1010.0,
            stays: vec![stay(0, &[1], 1010.0, None)],
            ..RecordedJob::default()
        };
        Record { nodes: vec![node("left"), node("right")], jobs: vec![preempted, running], now_s: 1070.0 }
    }

    #[test]
    fn outcome_has_stays_waits_and_occupancy() {
        let outcome = record().outcome();
        let times: Vec<(f64, f64)> = outcome.jobs.iter().map(|job| (job.queue_s, job.run_s)).collect();
        assert_eq!(times, [(10.0, 50.0), (0.0, 60.0)]);
        assert_eq!(outcome.jobs[1].end, None, "it still runs");
        assert_eq!((outcome.spans.len(), outcome.device_count, outcome.busy_device_s), (3, 4, 160.0));
        let busy: Vec<(f64, u32, u32)> =
            outcome.timeline.iter().map(|s| (s.time.seconds(), s.busy_devices, s.waiting)).collect();
        assert_eq!(busy, [(0.0, 2, 0), (10.0, 1, 1), (20.0, 3, 0), (60.0, 1, 0)]);
    }

    #[test]
    fn shared_devices_are_busy_once() {
        let mut record = record();
        record.jobs[1].stays = vec![stay(1, &[1], 1050.0, Some(1070.0)), stay(1, &[1], 1055.0, Some(1060.0))];
        assert_eq!(record.outcome().busy_device_s, 110.0);
    }

    #[test]
    fn deadlines_and_changes_are_counted_and_told() {
        let mut record = record();
        // When it should be over, and the outcome of that: of the one that is done, and of the one that runs.
        for (done_s, running_s, counts, words) in
            [(1060.0, 1080.0, (1, 0), ["met", ""]), (1059.0, 1069.0, (0, 2), ["missed", "missed"])]
        {
            record.jobs[0].deadline_s = Some(done_s);
            record.jobs[1].deadline_s = Some(running_s);
            let deadlines = record.outcome().tally.deadlines.unwrap();
            assert_eq!((deadlines.met, deadlines.missed), counts);
            let told: Vec<&str> = record.jobs.iter().map(|job| job.deadline_word(record.now_s)).collect();
            assert_eq!(told, words);
        }
        record.jobs[1].stays.push(stay(0, &[0, 1], 1065.0, None));
        let expected = Reshapes { grows: 1, moves: 1, ..Reshapes::default() };
        assert_eq!(record.outcome().tally.reshapes, expected);
        let plain = record.table().to_plain();
        assert!(plain.contains("1 move\tmissed") && plain.contains("1 grow\tmissed"), "{plain}");
    }

    #[test]
    fn table_shows_the_placement_of_a_job() {
        let plain = record().table().to_plain();
        assert!(plain.contains("left → right"), "{plain}");
    }
}
