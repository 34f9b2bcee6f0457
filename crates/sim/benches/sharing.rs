//! Average JCT of every policy on one synthetic overloaded trace, and the cost of a large Muri round:
//! `cargo bench -p wharf-sim --bench sharing [LOAD]`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "../tests/it/workload/mod.rs"]
mod workload;

use std::time::Instant;

use wharf_core::{ClusterSpec, JobSpec, Time};
use wharf_sim::{NoRecorder, Preset, RunSpec, Settings, run};
use wharf_trace::Trace;

fn report(trace: &Trace, cluster: &ClusterSpec, policy: &str, settings: &[&str]) {
    let preset = Preset::load("wharf").expect("built in");
    let parsed = Settings::parse(settings.iter().copied()).expect("key=value");
    let spec = RunSpec {
        trace,
        cluster,
        policy,
        preset: &preset,
        settings: &parsed,
        seed: 1,
        profile: None,
        rounds: None,
        failures: None,
    };
    let start = Instant::now();
    let outcome = run(&spec, &mut NoRecorder).expect("a run");
    let took = start.elapsed().as_secs_f64();
    let mut jcts: Vec<f64> = outcome.jobs.iter().filter_map(|job| job.jct_s()).collect();
    jcts.sort_unstable_by(f64::total_cmp);
    let makespan = outcome.jobs.iter().filter_map(|job| job.end).max().map_or(0.0, Time::seconds);
    println!(
        "{:<44} {:>9.0} {:>9.0} {:>9.0} {:>6} {:>7.3} s  {} events",
        format!("{policy} {}", settings.join(" ")),
        jcts.iter().sum::<f64>() / jcts.len() as f64,
        jcts[jcts.len() * 99 / 100],
        makespan,
        outcome.jobs.iter().map(|job| job.preemptions).sum::<u32>(),
        took,
        outcome.event_count,
    );
}

fn main() {
    let load = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(1.1);
    let (mut jobs, cluster) = workload::overloaded(1000, load);
    println!("{:<44} {:>9} {:>9} {:>9} {:>6}", "policy", "mean JCT", "p99 JCT", "makespan", "stops");
    let trace = Trace { name: "overloaded".into(), jobs: jobs.clone() };
    for policy in wharf_reproduce::policies() {
        report(&trace, &cluster, policy.name, &[]);
    }
    for (policy, settings) in [
        ("muri-s", ["packing_num=1"]),
        ("muri-s", ["packing_num=2"]),
        ("muri-s", ["packing_num=3"]),
        ("muri-s", ["blossom=off"]),
        ("muri-s", ["ordering=worst"]),
        ("muri-s", ["autopack=off"]),
        ("muri-s", ["round_s=60"]),
        ("muri-s", ["preempt_ratio=1"]),
        ("muri-l", ["queues=tiresias"]),
        ("sjf-ffs", ["preempt=off"]),
        ("sjf-bsbf", ["preempt=off"]),
    ] {
        report(&trace, &cluster, policy, &settings);
    }
    println!("\nhalf of the jobs opportunistic");
    for job in jobs.iter_mut().step_by(2) {
        job.priority = -1;
    }
    report(&Trace { name: "half".into(), jobs }, &cluster, "antman", &[]);
    println!("\n5,000 jobs at once on 1,000 devices, first rounds");
    large_round();
}

fn large_round() {
    let (mut jobs, _) = workload::overloaded(5000, 1.0);
    for (index, job) in jobs.iter_mut().enumerate() {
        job.submit = Time::ZERO;
        job.gang.devices = job.gang.devices.min(2);
        (job.gang.devices_min, job.gang.devices_max) = (job.gang.devices, job.gang.devices);
        if let Some(stages) = &mut job.stages {
            // All different, so that nothing is remembered.
            stages.data_ms *= 1.0 + index as f64 * 1e-5;
        }
        job.iterations = job.iterations.min(100.0);
    }
    let jobs: Vec<JobSpec> = jobs;
    let trace = Trace { name: "large".into(), jobs };
    report(&trace, &ClusterSpec::uniform("gpu", 125, 8), "muri-s", &["round_s=100000"]);
}
