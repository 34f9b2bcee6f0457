//! A small run with numbers that can be checked by hand.

use wharf_core::{DeviceSet, JobId, JobSpec, NodeId, NodeShare, Time};
use wharf_outcome::{JobRecord, MetricRules, Outcome, Sample, Span, Tally};

use crate::metrics::RunLabels;

pub(crate) fn labels(policy: &str) -> RunLabels {
    RunLabels {
        policy: policy.to_owned(),
        trace: "tiny".to_owned(),
        preset: "wharf".to_owned(),
        cluster: "1x4".to_owned(),
        seed: 0,
    }
}

pub(crate) fn at(seconds: f64) -> Time {
    Time::from_seconds(seconds)
}

/// A job on devices of a node for a while.
pub(crate) fn span(job: u32, node: u32, devices: u128, start: f64, end: f64) -> Span {
    let share = NodeShare::new(NodeId(node), DeviceSet(devices));
    Span { job: JobId(job), share, start: at(start), end: at(end) }
}

/// Four jobs, the last of which never ran.
pub(crate) fn specs() -> Vec<JobSpec> {
    let mut specs = vec![
        JobSpec::new("alpha", at(10.0), 1, 10.0, 1000.0),
        JobSpec::new("beta <b>", at(10.0), 2, 20.0, 1000.0),
        JobSpec::new("gamma", at(20.0), 2, 40.0, 1000.0),
        JobSpec::new("delta", at(30.0), 4, 5.0, 1000.0),
    ];
    for (spec, user) in specs.iter_mut().zip(["ann", "bob", "ann", "bob"]) {
        spec.user = Some(user.into());
    }
    specs[0].model = Some("bert".into());
    specs
}

/// On four devices: completion times 10, 40, 70, queueing 0, 20, 40; half of the device time used.
pub(crate) fn outcome() -> Outcome {
    let record =
        |job, devices, submit, first_start: Option<f64>, end: Option<f64>, queue_s, run_s, preemptions| {
            let (first_start, end) = (first_start.map(at), end.map(at));
            JobRecord {
                job: JobId(job),
                devices,
                submit: at(submit),
                first_start,
                end,
                queue_s,
                run_s,
                preemptions,
                failures: 0,
            }
        };
    let sample =
        |time, busy_devices, running, waiting| Sample { time: at(time), busy_devices, running, waiting };
    Outcome {
        jobs: vec![
            record(0, 1, 10.0, Some(10.0), Some(20.0), 0.0, 10.0, 0),
            record(1, 2, 10.0, Some(30.0), Some(50.0), 20.0, 20.0, 0),
            record(2, 2, 20.0, Some(30.0), Some(90.0), 40.0, 30.0, 3),
            record(3, 4, 30.0, None, None, 60.0, 0.0, 0),
        ],
        timeline: vec![
            sample(10.0, 1, 1, 1),
            sample(20.0, 0, 0, 2),
            sample(30.0, 4, 2, 1),
            sample(50.0, 2, 1, 1),
            sample(90.0, 0, 0, 1),
        ],
        spans: vec![
            span(0, 0, 0b0001, 10.0, 20.0),
            span(1, 0, 0b0011, 30.0, 50.0),
            span(2, 0, 0b1100, 30.0, 50.0),
            span(2, 0, 0b1001, 50.0, 90.0),
        ],
        event_count: 7,
        busy_device_s: 160.0,
        device_count: 4,
        rules: MetricRules::Wharf,
        tally: Tally::default(),
        measure: None,
        packing: None,
    }
}

/// Nothing happened at all.
pub(crate) fn empty_outcome() -> Outcome {
    Outcome {
        jobs: vec![],
        timeline: vec![],
        spans: vec![],
        event_count: 0,
        busy_device_s: 0.0,
        device_count: 0,
        rules: MetricRules::Wharf,
        tally: Tally::default(),
        measure: None,
        packing: None,
    }
}
