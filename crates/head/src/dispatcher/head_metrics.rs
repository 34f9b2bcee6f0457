//! The head's metrics about its own work. Counting never blocks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::watch;
use wharf_core::{Event, JobEnd, State, StopReason, Time};

/// A dispatcher that is busy with one step for so long has stalled.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(10);

/// Names and values of one series.
type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge>;

/// How many there are, as of one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    pub(crate) policy: String,
    pub(crate) jobs: BTreeMap<&'static str, u32>,
    pub(crate) nodes: BTreeMap<&'static str, u32>,
    /// By type and state.
    pub(crate) devices: BTreeMap<(String, &'static str), u32>,
    /// Allocated devices that are idle, as reported by workers, by type.
    pub(crate) idle: BTreeMap<String, u32>,
    /// By node: the size of its worker's file system and what is available of it, in bytes.
    pub(crate) disks: BTreeMap<String, (u64, u64)>,
}

/// All that is counted.
pub(crate) struct Meter {
    began: Instant,
    /// When the step began that the dispatcher is busy with, in microseconds; 0: it waits.
    busy_since: AtomicU64,
    /// The last event that is durable.
    committed: watch::Sender<i64>,
    /// Locked while gauges are set and read: an answer is of one moment.
    registry: Mutex<Registry>,
    submitted: Counter,
    ended: Counters,
    stops: Counters,
    starts: Counters,
    preemptions: Counters,
    decisions: Counters,
    fallbacks: Counters,
    refusals: Counters,
    events: Counter,
    inputs: Counter,
    queue_wait: Histogram,
    decision_time: Histogram,
    step_time: Histogram,
    commit_time: Histogram,
    jobs: Gauges,
    nodes: Gauges,
    devices: Gauges,
    idle: Gauges,
    disks: Gauges,
    info: Gauges,
    is_stalled: Gauge,
    busy: Gauge<f64, AtomicU64>,
}

impl Default for Meter {
    fn default() -> Self {
        let short = || Histogram::new(exponential_buckets(0.000_1, 4.0, 10));
        let meter = Self {
            began: Instant::now(),
            busy_since: AtomicU64::new(0),
            committed: watch::Sender::new(0),
            registry: Mutex::new(Registry::with_prefix("wharf")),
            submitted: Counter::default(),
            ended: Counters::default(),
            stops: Counters::default(),
            starts: Counters::default(),
            preemptions: Counters::default(),
            decisions: Counters::default(),
            fallbacks: Counters::default(),
            refusals: Counters::default(),
            events: Counter::default(),
            inputs: Counter::default(),
            // From a second to more than three days.
            queue_wait: Histogram::new(exponential_buckets(1.0, 4.0, 10)),
            decision_time: short(),
            step_time: short(),
            commit_time: short(),
            jobs: Gauges::default(),
            nodes: Gauges::default(),
            devices: Gauges::default(),
            idle: Gauges::default(),
            disks: Gauges::default(),
            info: Gauges::default(),
            is_stalled: Gauge::default(),
            busy: Gauge::default(),
        };
        meter.register();
        meter
    }
}

/// A step of the dispatcher, until it is dropped.
pub(crate) struct Step<'a> {
    meter: &'a Meter,
    began: Instant,
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.meter.busy_since.store(0, Ordering::Relaxed);
        self.meter.step_time.observe(self.began.elapsed().as_secs_f64());
    }
}

impl Meter {
    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let counters: [(&str, &str, &Counters); 7] = [
            ("jobs_ended", "Ended jobs, by result", &self.ended),
            ("job_stops", "Stops of jobs with devices, by reason", &self.stops),
            ("job_starts", "Starts of jobs, by policy", &self.starts),
            ("preemptions", "Times that a job's devices were given to another", &self.preemptions),
            ("decisions", "Times that the policy was called", &self.decisions),
            ("solver_fallbacks", "Decisions made by an approximation, by policy", &self.fallbacks),
            (
                "policy_refusals",
                "Parts of decisions that were refused: each is a bug of a policy",
                &self.refusals,
            ),
        ];
        for (name, help, counters) in counters {
            registry.register(name, help, counters.clone());
        }
        registry.register("jobs_submitted", "Submitted jobs", self.submitted.clone());
        registry.register("journal_events", "Events that were made durable", self.events.clone());
        registry.register(
            "dispatcher_inputs",
            "Requests and messages that were handled",
            self.inputs.clone(),
        );
        let histograms = [
            ("queue_wait", "Time from a job's submission to its first start", &self.queue_wait),
            ("decision_time", "How long the policy took for a decision", &self.decision_time),
            ("dispatcher_step_time", "How long the dispatcher took for a batch of inputs", &self.step_time),
            ("journal_commit_time", "How long it took to make a batch of events durable", &self.commit_time),
        ];
        for (name, help, histogram) in histograms {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        let gauges: [(&str, &str, &Gauges); 5] = [
            ("jobs", "Jobs by state", &self.jobs),
            ("nodes", "Nodes by health", &self.nodes),
            ("devices", "Devices by type and state", &self.devices),
            ("devices_idle", "Allocated devices without activity, as reported by workers", &self.idle),
            ("head", "Version and policy of the head", &self.info),
        ];
        for (name, help, gauges) in gauges {
            registry.register(name, help, gauges.clone());
        }
        let help = "Size and available space of the file systems of workers' state directories, by node";
        registry.register_with_unit("node_disk", help, Unit::Bytes, self.disks.clone());
        registry.register(
            "dispatcher_stalled",
            "1 where the scheduling loop has stalled",
            self.is_stalled.clone(),
        );
        let help = "How long the dispatcher has been busy with its present step";
        registry.register_with_unit("dispatcher_busy", help, Unit::Seconds, self.busy.clone());
    }

    /// The dispatcher begins a step.
    pub(crate) fn step(&self) -> Step<'_> {
        let since = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
        self.busy_since.store(since, Ordering::Relaxed);
        Step { meter: self, began: Instant::now() }
    }

    /// How long the dispatcher has been busy with its present step.
    pub(crate) fn busy_for(&self) -> Duration {
        match self.busy_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => self.began.elapsed().saturating_sub(Duration::from_micros(since)),
        }
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.busy_for() >= STALLED_AFTER
    }

    /// The last event that is durable, as it changes.
    pub(crate) fn committed(&self) -> watch::Receiver<i64> {
        self.committed.subscribe()
    }

    pub(crate) fn note_commit(&self, events: usize, last: i64, took: Duration) {
        self.events.inc_by(events as u64);
        self.commit_time.observe(took.as_secs_f64());
        self.committed.send_replace(last);
    }

    pub(crate) fn note_input(&self) {
        self.inputs.inc();
    }

    pub(crate) fn note_decision(&self, policy: &str, took: Duration) {
        self.decisions.get_or_create(&by_policy(policy)).inc();
        self.decision_time.observe(took.as_secs_f64());
    }

    pub(crate) fn note_degraded(&self, policy: &str, fallbacks: u64, refusals: u64) {
        for (counters, count) in [(&self.fallbacks, fallbacks), (&self.refusals, refusals)] {
            counters.get_or_create(&by_policy(policy)).inc_by(count);
        }
    }

    /// Counts an event, which is folded into the state already.
    pub(crate) fn note_event(&self, time: Time, event: &Event, state: &State, policy: &str) {
        match *event {
            Event::JobSubmitted { .. } => {
                self.submitted.inc();
            }
            Event::ArraySubmitted { count, .. } => {
                self.submitted.inc_by(count.into());
            }
            Event::JobPlaced { job, generation: 1 } => {
                self.queue_wait.observe(time.since(state.spec(job).submit).max(0.0));
            }
            Event::JobLaunched { .. } => {
                self.starts.get_or_create(&by_policy(policy)).inc();
            }
            Event::JobStopping { why, .. } => {
                self.stops.get_or_create(&vec![("why", why_word(why).to_owned())]).inc();
                if why == StopReason::Preempted {
                    self.preemptions.get_or_create(&by_policy(policy)).inc();
                }
            }
            Event::JobEnded { end, .. } => {
                self.ended.get_or_create(&vec![("end", end_word(end).to_owned())]).inc();
            }
            _ => {}
        }
    }

    /// All metrics in OpenMetrics' text form; without a census only those that need no dispatcher.
    pub(crate) fn render(&self, census: Option<&Census>) -> Result<String, std::fmt::Error> {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_stalled.set(self.is_stalled().into());
        self.busy.set(self.busy_for().as_secs_f64());
        [&self.jobs, &self.nodes, &self.devices, &self.idle, &self.disks, &self.info]
            .iter()
            .for_each(|old| old.clear());
        if let Some(census) = census {
            self.set(census);
        }
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }

    fn set(&self, census: &Census) {
        let set = |gauges: &Gauges, labels: Labels, count: u32| {
            gauges.get_or_create(&labels).set(count.into());
        };
        for (word, &count) in &census.jobs {
            set(&self.jobs, vec![("state", (*word).to_owned())], count);
        }
        for (word, &count) in &census.nodes {
            set(&self.nodes, vec![("health", (*word).to_owned())], count);
        }
        for ((kind, word), &count) in &census.devices {
            set(&self.devices, vec![("type", label(kind)), ("state", (*word).to_owned())], count);
        }
        for (kind, &count) in &census.idle {
            set(&self.idle, vec![("type", label(kind))], count);
        }
        for (node, &(total, available)) in &census.disks {
            for (word, bytes) in [("total", total), ("available", available)] {
                let labels = vec![("node", label(node)), ("state", word.to_owned())];
                self.disks.get_or_create(&labels).set(i64::try_from(bytes).unwrap_or(i64::MAX));
            }
        }
        let info = vec![("version", env!("CARGO_PKG_VERSION").to_owned()), ("policy", label(&census.policy))];
        set(&self.info, info, 1);
    }
}

fn by_policy(policy: &str) -> Labels {
    vec![("policy", label(policy))]
}

/// A text as the value of a label: nothing in it that a reader could take for the label's end.
fn label(text: &str) -> String {
    const LONGEST: usize = 100;
    let is_safe = |letter: char| !letter.is_control() && !"\"\\{}".contains(letter);
    text.chars().take(LONGEST).map(|letter| if is_safe(letter) { letter } else { '_' }).collect()
}

/// Why a job was requested to stop, in a word.
pub(crate) fn why_word(why: StopReason) -> &'static str {
    match why {
        StopReason::Preempted => "preempted",
        StopReason::Moved => "moved",
        StopReason::NodeLost => "node-lost",
        StopReason::Cancelled => "cancelled",
        StopReason::TimeLimit => "time-limit",
        StopReason::Requeued => "requeued",
    }
}

fn end_word(end: JobEnd) -> &'static str {
    match end {
        JobEnd::Finished => "finished",
        JobEnd::Failed { .. } => "failed",
        JobEnd::Cancelled => "cancelled",
        JobEnd::TimedOut => "timed-out",
        JobEnd::Rejected => "rejected",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_are_escaped_in_labels() {
        let mut census =
            Census { policy: "x\"} 1\nwharf_jobs{state=\"running".to_owned(), ..Census::default() };
        census.devices.insert(("v100\\\"\n<script>".to_owned(), "free"), 4);
        let text = Meter::default().render(Some(&census)).unwrap();
        assert!(!text.contains("\nwharf_jobs{"), "{text}");
        assert!(text.contains("wharf_devices{type=\"v100___<script>\",state=\"free\"} 4\n"), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn long_step_is_a_stall_until_it_ends() {
        let meter = Meter::default();
        assert!(!meter.is_stalled());
        let step = meter.step();
        // As if it had begun before the meter did.
        let old = Meter { began: meter.began - STALLED_AFTER * 2, ..Meter::default() };
        old.busy_since.store(1, Ordering::Relaxed);
        assert!(old.is_stalled());
        assert!(old.render(None).unwrap().contains("wharf_dispatcher_stalled 1\n"));
        drop(step);
        assert_eq!(meter.busy_for(), Duration::ZERO);
        assert!(meter.render(None).unwrap().contains("wharf_dispatcher_stalled 0\n"));
    }
}
