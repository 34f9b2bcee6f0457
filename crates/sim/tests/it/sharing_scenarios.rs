//! Small stories that show what each sharing policy is for, and a comparison on one overloaded trace.

use wharf_core::{ClusterSpec, JobSpec, StageTimes, Time};
use wharf_sim::{NoRecorder, Outcome, Preset, RunSpec, Settings, run};
use wharf_trace::Trace;

fn simulate(jobs: &[JobSpec], cluster: &ClusterSpec, policy: &str, settings: &[&str]) -> Outcome {
    let trace = Trace { name: "story".into(), jobs: jobs.to_vec() };
    let preset = Preset::load("wharf").expect("built in");
    let settings = Settings::parse(settings.iter().copied()).expect("key=value");
    let spec = RunSpec {
        trace: &trace,
        cluster,
        policy,
        preset: &preset,
        settings: &settings,
        seed: 1,
        profile: None,
        rounds: None,
        failures: None,
    };
    run(&spec, &mut NoRecorder).expect("a run")
}

fn job(submit_s: f64, devices: u32, solo_s: f64) -> JobSpec {
    JobSpec::new("j", Time::from_seconds(submit_s), devices, solo_s * 10.0, 100.0)
}

fn with_stages(mut job: JobSpec, data_ms: f64, compute_ms: f64) -> JobSpec {
    job.stages = Some(StageTimes { data_ms, compute_ms, network_ms: 0.0 });
    job
}

fn mean_jct_s(outcome: &Outcome) -> f64 {
    let jcts: Vec<f64> = outcome.jobs.iter().filter_map(|job| job.jct_s()).collect();
    assert_eq!(jcts.len(), outcome.jobs.len(), "all jobs end");
    jcts.iter().sum::<f64>() / jcts.len() as f64
}

fn jct_s(outcome: &Outcome, job: usize) -> f64 {
    outcome.jobs[job].jct_s().expect("it ended")
}

/// Jobs that read and jobs that compute, twice as many as there are devices.
fn complementary() -> Vec<JobSpec> {
    let mut jobs = Vec::new();
    for index in 0..16 {
        let (data_ms, compute_ms) = if index % 2 == 0 { (90.0, 10.0) } else { (5.0, 95.0) };
        jobs.push(with_stages(job(0.0, 1, 20_000.0 + f64::from(index)), data_ms, compute_ms));
    }
    jobs
}

#[test]
fn muri_interleaves_complementary_jobs() {
    let cluster = ClusterSpec::uniform("gpu", 1, 8);
    let jobs = complementary();
    let (muri, srsf) = (simulate(&jobs, &cluster, "muri-s", &[]), simulate(&jobs, &cluster, "srsf", &[]));
    // All run from the beginning, two and two.
    assert!(muri.jobs.iter().all(|job| job.first_start == Some(Time::ZERO)));
    assert!(mean_jct_s(&muri) < 0.95 * mean_jct_s(&srsf), "{} {}", mean_jct_s(&muri), mean_jct_s(&srsf));
    // Jobs that want the same resource are left alone: one after the other is as fast.
    let alike: Vec<JobSpec> = (0..16).map(|_| with_stages(job(0.0, 1, 20_000.0), 5.0, 95.0)).collect();
    let muri = simulate(&alike, &cluster, "muri-s", &[]);
    assert!(muri.jobs.iter().skip(8).all(|job| job.first_start > Some(Time::ZERO)));
    // So are jobs whose stages are not known.
    let unknown: Vec<JobSpec> = (0..16).map(|_| job(0.0, 1, 20_000.0)).collect();
    let muri = simulate(&unknown, &cluster, "muri-l", &["preempt_ratio=1000000"]);
    assert_eq!(muri.jobs.iter().filter(|job| job.first_start == Some(Time::ZERO)).count(), 8);
}

#[test]
fn antman_guarantees_are_kept() {
    let cluster = ClusterSpec::uniform("gpu", 1, 4);
    let opportunistic =
        |solo_s: f64| JobSpec { priority: -1, ..with_stages(job(0.0, 4, solo_s), 50.0, 50.0) };
    let jobs = [opportunistic(1000.0), with_stages(job(10.0, 4, 1000.0), 50.0, 50.0), job(20.0, 4, 500.0)];
    let outcome = simulate(&jobs, &cluster, "antman", &[]);
    // The guaranteed ones run as if alone, in their order; the opportunistic one continues, but slower.
    assert!((jct_s(&outcome, 1) - 1030.0).abs() < 1e-6);
    assert!((outcome.jobs[2].run_s - 530.0).abs() < 1e-6);
    assert!(jct_s(&outcome, 0) > 1100.0 && outcome.jobs[0].preemptions == 0, "{}", jct_s(&outcome, 0));
}

#[test]
fn antman_reserves_for_the_first_that_does_not_fit() {
    let cluster = ClusterSpec::uniform("gpu", 1, 4);
    let mut jobs = vec![job(0.0, 2, 1000.0), job(1.0, 4, 100.0)];
    jobs.extend((0..20).map(|index| job(2.0 + f64::from(index) * 100.0, 2, 1000.0)));
    let outcome = simulate(&jobs, &cluster, "antman", &[]);
    // Later, smaller jobs do not overtake it.
    assert_eq!(outcome.jobs[1].first_start, outcome.jobs[0].end);
}

#[test]
fn themis_lets_a_starved_job_in() {
    let cluster = ClusterSpec::uniform("gpu", 1, 1);
    let jobs = [job(0.0, 1, 100_000.0), job(10.0, 1, 1000.0)];
    let (themis, fifo) = (simulate(&jobs, &cluster, "themis", &[]), simulate(&jobs, &cluster, "fifo", &[]));
    // It waits for the end of a lease, not of the other job.
    assert!(jct_s(&themis, 1) < 2500.0, "{}", jct_s(&themis, 1));
    assert!(jct_s(&fifo, 1) > 100_000.0);
    assert_eq!(themis.jobs[0].preemptions, 1);
}

#[test]
fn bsbf_refuses_harmful_pairs() {
    let cluster = ClusterSpec::uniform("gpu", 1, 1);
    let pair = |compute_ms: f64| {
        [with_stages(job(0.0, 1, 1000.0), 100.0 - compute_ms, compute_ms), {
            with_stages(job(10.0, 1, 900.0), 100.0 - compute_ms, compute_ms)
        }]
    };
    let waits = |compute_ms: f64, policy: &str| {
        let outcome = simulate(&pair(compute_ms), &cluster, policy, &["preempt=off"]);
        outcome.jobs[1].first_start != Some(Time::from_seconds(10.0))
    };
    for policy in ["sjf-bsbf", "sjf-bsbfs"] {
        assert!(waits(98.0, policy), "{policy}: both keep the device busy");
        assert!(!waits(55.0, policy), "{policy}: both leave it idle nearly half of the time");
    }
    for policy in ["sjf-ffs", "sjf-ffss"] {
        assert!(!waits(98.0, policy), "{policy} does not ask");
    }
}

#[test]
fn bsbf_where_the_shortest_job_finds_no_partner_starts_a_longer_one_that_does() {
    let cluster = ClusterSpec::uniform("gpu", 1, 1);
    // All have gangs of one device. The second would slow the first down, the third leaves the device idle most of the time.
    let jobs = [
        with_stages(job(0.0, 1, 1000.0), 2.0, 98.0),
        with_stages(job(10.0, 1, 900.0), 2.0, 98.0),
        with_stages(job(10.0, 1, 5000.0), 95.0, 5.0),
    ];
    for policy in ["sjf-bsbf", "sjf-bsbfs"] {
        let outcome = simulate(&jobs, &cluster, policy, &["preempt=off"]);
        assert_eq!(outcome.jobs[2].first_start, Some(Time::from_seconds(10.0)), "{policy}");
        assert!(outcome.jobs[1].first_start >= outcome.jobs[0].end, "{policy}");
    }
}

#[test]
fn sharing_is_limited_by_memory() {
    let cluster = ClusterSpec::uniform("gpu", 1, 1);
    let mut jobs =
        [with_stages(job(0.0, 1, 1000.0), 70.0, 30.0), with_stages(job(0.0, 1, 1000.0), 70.0, 30.0)];
    for job in &mut jobs {
        job.model = Some("gpt2".into());
    }
    for (memory, shares) in [("device_memory_mb=21064", true), ("device_memory_mb=21063", false)] {
        let outcome = simulate(&jobs, &cluster, "sjf-ffs", &[memory]);
        assert_eq!(outcome.jobs[1].first_start == Some(Time::ZERO), shares, "{memory}");
    }
}

#[test]
fn order_of_policies_on_an_overloaded_trace() {
    let (jobs, cluster) = crate::workload::overloaded(400, 1.1);
    let mean = |policy: &str| mean_jct_s(&simulate(&jobs, &cluster, policy, &[]));
    let (fifo, srtf, srsf, muri) = (mean("fifo"), mean("srtf"), mean("srsf"), mean("muri-s"));
    assert!(srtf < fifo && srsf < fifo, "srtf {srtf}, srsf {srsf}, fifo {fifo}");
    assert!(muri < srsf, "muri-s {muri}, srsf {srsf}");
}
