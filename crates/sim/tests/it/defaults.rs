//! Schedules under the default preset that can be worked out by hand.

use std::collections::BTreeMap;

use wharf_core::{ClusterSpec, JobId, JobSpec, Needs, NodeShare, Time};
use wharf_sim::{Outcome, Preset, Recorder, RunError, RunSpec, Settings, run};
use wharf_trace::{Trace, parse_cluster};

/// First starts by job, and the device types of every start.
#[derive(Default)]
struct Starts {
    first_s: BTreeMap<usize, f64>,
    nodes: Vec<(f64, usize, u32)>,
}

impl Recorder for Starts {
    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], _group: &[JobId]) {
        self.first_s.entry(job.index()).or_insert(time.seconds());
        self.nodes.push((time.seconds(), job.index(), placement[0].node.0));
    }
}

/// Submission in seconds, devices, length in seconds.
type Row = (f64, u32, f64);

fn jobs(rows: &[Row]) -> Vec<JobSpec> {
    let job = |(index, &(submit_s, devices, length_s)): (usize, &Row)| {
        let job =
            JobSpec::new(&index.to_string(), Time::from_seconds(submit_s), devices, length_s * 10.0, 100.0);
        JobSpec { model: Some("resnet50".into()), ..job }
    };
    rows.iter().enumerate().map(job).collect()
}

fn simulate(rows: &[Row], cluster: &str, policy: &str, settings: &[&str]) -> (Outcome, Starts) {
    let cluster = parse_cluster(cluster).expect("a cluster");
    simulate_jobs(jobs(rows), &cluster, policy, settings, None).expect("a run")
}

fn simulate_jobs(
    jobs: Vec<JobSpec>,
    cluster: &ClusterSpec,
    policy: &str,
    settings: &[&str],
    rounds: Option<u64>,
) -> Result<(Outcome, Starts), RunError> {
    let trace = Trace { name: "rows".into(), jobs };
    let spec = RunSpec {
        trace: &trace,
        cluster,
        policy,
        preset: &Preset::load("wharf").expect("built in"),
        settings: &Settings::parse(settings.iter().copied()).expect("key=value"),
        seed: 0,
        profile: None,
        rounds,
        failures: None,
    };
    let mut starts = Starts::default();
    Ok((run(&spec, &mut starts)?, starts))
}

fn first_start_s(rows: &[Row], cluster: &str, policy: &str, settings: &[&str], job: usize) -> f64 {
    simulate(rows, cluster, policy, settings).1.first_s[&job]
}

#[test]
fn easy_backfill_counts_jobs_of_the_same_decision() {
    let rows = [(0.0, 3, 100.0), (0.0, 4, 50.0), (0.0, 1, 1000.0)];
    let settings = ["backfill=easy", "restart_s=0"];
    assert_eq!(first_start_s(&rows, "1x4", "fifo", &settings, 1), 100.0, "the long job must not delay it");
    assert_eq!(first_start_s(&rows, "1x4", "fifo", &settings, 2), 150.0);
    // One that ends in time uses the free device at once.
    let rows = [(0.0, 3, 100.0), (0.0, 4, 50.0), (0.0, 1, 100.0)];
    assert_eq!(first_start_s(&rows, "1x4", "fifo", &settings, 2), 0.0);
}

/// Times at which jobs start under srtf.
fn srtf_starts(rows: &[Row], cluster: &str) -> Vec<(f64, usize)> {
    let starts = simulate(rows, cluster, "srtf", &["restart_s=0"]).1.nodes;
    starts.into_iter().map(|(time_s, job, _)| (time_s, job)).collect()
}

#[test]
fn preemption_gives_back_the_first_jobs_in_order_that_need_not_stop() {
    // Stopping the wide job and one of the others is enough: the last in order stops.
    let rows = [(0.0, 1, 50_000.0), (0.0, 1, 40_000.0), (0.0, 6, 30_000.0), (100.0, 7, 100.0)];
    let starts = srtf_starts(&rows, "1x8");
    assert_eq!(starts[3..5], [(100.0, 3), (200.0, 2)]);
    assert_eq!(starts.iter().filter(|start| start.1 == 1).count(), 1, "{starts:?}");
    assert_eq!(starts.iter().filter(|start| start.1 == 0).count(), 2, "{starts:?}");
}

#[test]
fn gang_larger_than_a_node_shares_its_last_node_with_jobs_that_run() {
    // Five devices: a node of four, and one beside the small job, which goes first (12,000 s) or last (20,000 s) and is not in the way.
    for small_s in [12_000.0, 20_000.0] {
        let rows = [(0.0, 1, small_s), (10.0, 6, 100_000.0), (20.0, 5, 9000.0)];
        let starts = srtf_starts(&rows, "2x4");
        assert_eq!(starts[..3], [(0.0, 0), (10.0, 1), (20.0, 2)], "{small_s}");
        assert_eq!(starts.iter().filter(|start| start.1 == 0).count(), 1, "{starts:?}");
    }
}

#[test]
fn easy_backfill_keeps_nodes_of_the_first_job_free() {
    // At 100 the first node has four free devices, unless the last job takes one of them for long; the other node has one too.
    let rows = [(0.0, 3, 100.0), (0.0, 3, 900.0), (1.0, 4, 50.0), (1.0, 1, 2000.0)];
    let (_, starts) = simulate(&rows, "2x4", "fifo", &["backfill=easy", "restart_s=0"]);
    assert_eq!(starts.first_s[&2], 100.0);
    assert_eq!(starts.nodes.iter().find(|start| start.1 == 3), Some(&(1.0, 3, 1)));
}

#[test]
fn demotion_of_a_job_that_has_just_started_wakes_the_policy() {
    let rows = [(0.0, 1, 20_000.0), (0.0, 1, 10.0)];
    for (policy, settings, expected_s) in [
        ("tiresias", vec![], 3250.0),
        ("tiresias", vec!["queue_limits_s=300:900"], 300.0),
        ("gittins", vec![], 60.0),
        ("las", vec![], 3600.0),
        ("las", vec!["quantum_s=500"], 500.0),
    ] {
        let found_s = first_start_s(&rows, "1x1", policy, &settings, 1);
        assert!((found_s - expected_s).abs() < 0.01, "{policy} {settings:?}: {found_s}");
    }
}

#[test]
fn ties_at_a_queue_limit_go_to_the_earlier_submission() {
    // Both running jobs reach the limit at 300: the later one gives way to the newcomer.
    let rows = [(0.0, 1, 5000.0), (0.0, 1, 5000.0), (0.0, 1, 5000.0)];
    let (outcome, starts) = simulate(&rows, "1x2", "tiresias", &["queue_limits_s=300:90000", "restart_s=0"]);
    let at_limit: Vec<_> = starts.nodes.iter().filter(|start| (start.0 - 300.0).abs() < 0.01).collect();
    assert_eq!(at_limit.len(), 1);
    assert_eq!(at_limit[0].1, 2);
    assert_eq!(outcome.jobs.iter().map(|job| job.preemptions).collect::<Vec<_>>(), [0, 1, 0]);
}

#[test]
fn fifo_perf_moves_jobs_to_a_faster_type_that_has_become_free() {
    // The second job has to begin on the slower device, and gets the faster one at the first round after that is free.
    let rows = [(0.0, 1, 1000.0), (0.0, 1, 40_000.0)];
    let (outcome, starts) = simulate(&rows, "v100:1x1,k80:1x1", "fifo-perf", &[]);
    let of_second: Vec<_> = starts.nodes.iter().filter(|start| start.1 == 1).collect();
    assert_eq!(of_second.iter().map(|start| start.2).collect::<Vec<_>>(), [1, 0]);
    let freed_s = outcome.jobs[0].end.expect("done").seconds();
    assert!(of_second[1].0 >= freed_s && of_second[1].0 <= freed_s + 360.0, "{:?}", of_second[1]);
    let jct_s = outcome.jobs[1].jct_s().expect("done");
    assert!(jct_s < 42_000.0, "on the slower device alone it would take much longer: {jct_s}");
}

#[test]
fn strict_fifo_job_that_does_not_fit_holds_up_the_nodes_of_its_pool_only() {
    let mut cluster = ClusterSpec::uniform("gpu", 2, 2);
    for (node, pool) in cluster.nodes.iter_mut().zip(["a", "b"]) {
        (node.name, node.pool) = (pool.into(), pool.into());
    }
    let rows = [
        (0.0, 1, 100.0),
        (1.0, 2, 50.0),
        (2.0, 1, 1000.0),
        (3.0, 1, 1000.0),
        (4.0, 1, 500.0),
        (5.0, 1, 1000.0),
        (6.0, 1, 10.0),
    ];
    let pools = ["a", "a", "b", "a", "", "", "b"];
    let mut jobs = jobs(&rows);
    for (job, pool) in jobs.iter_mut().zip(pools).filter(|(_, pool)| !pool.is_empty()) {
        job.gang.needs = Some(Needs { pool: Some(pool.into()), ..Needs::default() }.into());
    }
    let (_, starts) = simulate_jobs(jobs, &cluster, "fifo", &["restart_s=0"], None).expect("a run");
    // The second job waits for the whole pool a, and the fourth behind it. Pool b is open to the third, and to the fifth, which may
    // run anywhere; the sixth may too, finds b full and what is free of a held, and is in the way of the last.
    let expected = [0.0, 100.0, 2.0, 150.0, 4.0, 150.0, 504.0];
    assert_eq!(starts.first_s.into_values().collect::<Vec<_>>(), expected);
}

#[test]
fn elastic_job_that_asks_for_more_than_the_cluster_has_runs_on_what_is_enough() {
    let cluster = ClusterSpec::uniform("v100", 1, 2);
    let asking = |min: u32| {
        let mut jobs = jobs(&[(0.0, 4, 100.0), (0.0, 1, 50.0)]);
        jobs[0].gang.devices_min = min;
        jobs
    };
    for policy in wharf_reproduce::policies() {
        let name = policy.name;
        let result = simulate_jobs(asking(1), &cluster, name, &[], None);
        if policy.is_elastic {
            let (outcome, _) = result.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(outcome.jobs.iter().all(|job| job.end.is_some()), "{name}");
        } else {
            let refused = matches!(result, Err(RunError::ImpossibleGang { devices: 4, most: 2, .. }));
            assert!(refused, "{name}");
        }
        let result = simulate_jobs(asking(3), &cluster, name, &[], None);
        let devices_min = if policy.is_elastic { 3 } else { 4 };
        assert!(
            matches!(result, Err(RunError::ImpossibleGang { devices, most: 2, .. }) if devices == devices_min),
            "{name}"
        );
    }
}

#[test]
fn run_of_some_rounds_ends_after_as_many_times_the_length_of_a_round() {
    let rows =
        [(50.0, 2, 1000.0), (50.0, 2, 3000.0), (50.0, 2, 3000.0), (150.0, 4, 9000.0), (9000.0, 1, 10.0)];
    let cluster = ClusterSpec::uniform("v100", 1, 4);
    for policy in ["gavel/fifo", "max-min-fairness", "allox", "sia", "pollux", "crius", "crius/fcfs"] {
        for rounds in [1, 7, 20] {
            let settings = ["round_s=360"];
            let run = simulate_jobs(jobs(&rows), &cluster, policy, &settings, Some(rounds));
            let (outcome, starts) = run.unwrap_or_else(|error| panic!("{policy}: {error}"));
            let end_s = 50.0 + 360.0 * rounds as f64;
            assert_eq!(outcome.tally.over.map(Time::seconds), Some(end_s), "{policy}, {rounds} rounds");
            assert!(starts.first_s.values().all(|&start_s| start_s < end_s), "{policy}, {rounds} rounds");
            let ends = outcome.jobs.iter().filter_map(|job| job.end).map(Time::seconds);
            assert!(
                ends.filter(|&end_s_of_job| end_s_of_job > end_s).count() == 0,
                "{policy}, {rounds} rounds"
            );
            // The fourth job cannot end in time, the last one is not even submitted.
            assert!(outcome.jobs.iter().filter(|job| job.end.is_none()).count() >= 2, "{policy}");
            assert_eq!(outcome.jobs.len(), 5, "{policy}");
        }
    }
    // Two jobs with all that they want: there is nothing to decide after the first round.
    let (outcome, _) = simulate_jobs(
        jobs(&[(0.0, 1, 5000.0), (0.0, 1, 100.0)]),
        &cluster,
        "max-min-fairness",
        &["round_s=360"],
        Some(2),
    )
    .expect("a run");
    assert_eq!(outcome.tally.over.map(Time::seconds), Some(720.0));
    assert_eq!(outcome.jobs[0].end, None);
}
