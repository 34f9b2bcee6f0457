//! What the mechanism refuses, and what it tells besides completion times.

use wharf_core::{ClusterSpec, JobSpec, StageTimes, Time};
use wharf_outcome::{NoRecorder, Recorder};
use wharf_reproduce::muri::Policy;

use crate::support::{cluster, run_on, run_recorded};

fn job(name: &str, submit_s: f64, devices: u32) -> JobSpec {
    let mut job = JobSpec::new(name, Time::from_seconds(submit_s), devices, 1000.0, 500.0);
    job.stages = Some(StageTimes { data_ms: 300.0, compute_ms: 150.0, network_ms: 50.0 });
    job
}

fn refusal(variant: &str, cluster: &ClusterSpec, jobs: &[JobSpec]) -> String {
    run_on(jobs, cluster, variant, &mut NoRecorder).expect_err("a refusal").to_string()
}

#[test]
fn impossible_inputs_are_refused_by_name() {
    let cluster = cluster();
    let mut stageless = job("b", 0.0, 1);
    stageless.stages = None;
    let mut endless = job("c", 0.0, 1);
    endless.iterations = f64::INFINITY;
    let mut uneven = cluster.clone();
    uneven.nodes[3].devices = 4;
    for (policy, cluster, job, expected) in [
        (
            "srtf",
            &cluster,
            job("a", 0.0, 65),
            "job a needs 65 devices at once, more than the cluster can give it",
        ),
        ("srtf", &cluster, job("a", 0.0, 0), "job a asks for no devices"),
        ("muri-l", &cluster, stageless, "job b has no usable stage times, which muri-l needs"),
        ("themis", &cluster, endless, "job c has inf iterations of 500 ms, which is no length"),
        (
            "srsf",
            &uneven,
            job("a", 0.0, 1),
            "node v100-3 has 4 devices where others have 8: this mechanism needs equal nodes",
        ),
        ("srsf", &ClusterSpec::default(), job("a", 0.0, 1), "the cluster has no devices"),
    ] {
        assert_eq!(refusal(policy, cluster, &[job]), expected);
    }
}

#[test]
fn settings_are_read_by_name_and_checked() {
    for (variant, expected) in [
        ("srtf ordering=any", "setting `ordering` cannot be `any`; it takes best or worst"),
        ("srtf order=best", "there is no setting `order`"),
        ("srtf packing_num=5", "packing_num is 5, not 1 to 4"),
        ("muri-s queues=tiresias", "muri-s has no variant queues=tiresias"),
        ("muri", "no policy is named `muri`"),
        ("fifo", "the policies are srtf, srsf, tiresias, antman, themis, muri-s, muri-l"),
    ] {
        assert_eq!(refusal(variant, &cluster(), &[]), expected, "{variant}");
    }
    assert!(run_on(&[], &cluster(), "srtf ordering=best", &mut NoRecorder).is_ok());
}

/// Asks for the timeline and counts what it hears.
#[derive(Default)]
struct Counter {
    submitted: u32,
    started: u32,
    preempted: u32,
    finished: u32,
}

impl Recorder for Counter {
    fn wants_timeline(&self) -> bool {
        true
    }
    fn submitted(&mut self, _: Time, _: wharf_core::JobId) {
        self.submitted += 1;
    }
    fn started(
        &mut self,
        _: Time,
        _: wharf_core::JobId,
        _: &[wharf_core::NodeShare],
        _: &[wharf_core::JobId],
    ) {
        self.started += 1;
    }
    fn preempted(&mut self, _: Time, _: wharf_core::JobId) {
        self.preempted += 1;
    }
    fn finished(&mut self, _: Time, _: wharf_core::JobId) {
        self.finished += 1;
    }
}

#[test]
fn outcome_accounts_for_all_device_time() {
    // More than the cluster holds, so that every policy queues and most preempt.
    let sizes = [8, 1, 32, 4, 16, 8, 2, 32, 8, 8, 4, 64, 1, 8, 16];
    let jobs: Vec<JobSpec> = sizes
        .iter()
        .enumerate()
        .map(|(index, &size)| job(&index.to_string(), 60.0 * index as f64, size))
        .collect();
    for policy in Policy::ALL {
        let mut counter = Counter::default();
        let outcome = run_recorded(&jobs, policy.name(), &mut counter);
        let count = jobs.len() as u32;
        assert_eq!((counter.submitted, counter.finished), (count, count), "{policy:?}");
        assert!(counter.started >= count);
        assert_eq!(counter.preempted, outcome.jobs.iter().map(|job| job.preemptions).sum::<u32>());
        for job in &outcome.jobs {
            let (jct, parts) = (job.jct_s().expect("an end"), job.queue_s + job.run_s);
            assert!((jct - parts).abs() < 1e-6, "{policy:?}: {jct} instead of {parts}");
        }
        let spans: f64 = outcome
            .spans
            .iter()
            .map(|span| f64::from(span.share.devices.len()) * span.end.since(span.start))
            .sum();
        match policy {
            Policy::Srtf | Policy::Srsf | Policy::Themis => {
                assert!((spans - outcome.busy_device_s).abs() < 1e-3, "{policy:?}");
            }
            Policy::Tiresias => assert!(outcome.spans.is_empty()),
            // Jobs share devices.
            _ => assert!(spans > outcome.busy_device_s - 1e-3, "{policy:?}"),
        }
        let last = outcome.timeline.last().expect("samples");
        assert_eq!((last.busy_devices, last.running, last.waiting), (0, 0, 0), "{policy:?}");
    }
}
