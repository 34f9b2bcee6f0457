//! Cost per event from a thousand to a million jobs, under the default preset.
//!
//! `cargo bench -p wharf-sim --bench scale` runs all sizes; `-- 1000 10000` only these. Jobs arrive slightly faster than
//! the cluster can serve them, so that there is a queue, and the cluster has a device for every ten jobs.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use wharf_core::ClusterSpec;
use wharf_sim::{NoRecorder, Outcome, Preset, RunSpec, Settings, run};
use wharf_trace::{GangMix, GeneratorSettings, Rate, Trace, generate};

const POLICIES: [&str; 7] = ["fifo", "srtf", "srsf", "tiresias", "sjf", "las", "gittins"];
const DEVICES_PER_NODE: u32 = 8;

fn main() {
    let mut sizes: Vec<u32> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![1_000, 10_000, 100_000, 1_000_000];
    }
    println!(
        "{:>9} {:>8} {:9} {:>9} {:>10} {:>12} {:>13} {:>10}",
        "jobs", "devices", "policy", "CPU s", "events", "ns/event", "x first/log n", "avg JCT h"
    );
    let mut first_cost = vec![None; POLICIES.len()];
    for &jobs in &sizes {
        let devices = (jobs / 10).max(64);
        let trace = overloaded(jobs, devices);
        for (policy, first) in POLICIES.iter().zip(&mut first_cost) {
            let (outcome, cpu_s) = timed(&trace, devices, policy);
            let cost = cpu_s * 1e9 / outcome.event_count as f64;
            // What cost per event would be if it grew with log n, starting from the smallest size.
            let growth = f64::from(jobs).ln() / f64::from(sizes[0]).ln();
            let ratio = cost / *first.get_or_insert(cost) / growth;
            println!(
                "{jobs:>9} {devices:>8} {policy:9} {cpu_s:>9.2} {:>10} {cost:>12.0} {ratio:>13.2} {:>10.2}",
                outcome.event_count,
                average_jct_h(&outcome)
            );
        }
    }
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("own usage");
    println!("peak memory {:.2} GiB", usage.max_rss() as f64 / f64::from(1 << 20));
}

fn overloaded(job_count: u32, devices: u32) -> Trace {
    let settings = GeneratorSettings {
        name: "scale".to_owned(),
        job_count,
        rate: Rate::Load { devices, load: 1.05 },
        gangs: GangMix::philly().at_most(32).expect("has small gangs"),
        ..GeneratorSettings::default()
    };
    generate(&settings).expect("valid settings")
}

fn timed(trace: &Trace, devices: u32, policy: &str) -> (Outcome, f64) {
    let cluster = ClusterSpec::uniform("gpu", devices / DEVICES_PER_NODE, DEVICES_PER_NODE);
    let preset = Preset::load("wharf").expect("built in");
    let settings = Settings::default();
    let spec = RunSpec {
        trace,
        cluster: &cluster,
        policy,
        preset: &preset,
        settings: &settings,
        seed: 0,
        profile: None,
        rounds: None,
        failures: None,
    };
    let start = cpu_s();
    let outcome = run(&spec, &mut NoRecorder).expect("a valid run");
    (outcome, cpu_s() - start)
}

fn cpu_s() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("own usage");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
}

fn average_jct_h(outcome: &Outcome) -> f64 {
    let ended: Vec<f64> = outcome.jobs.iter().filter_map(|job| job.jct_s()).collect();
    ended.iter().sum::<f64>() / ended.len() as f64 / 3600.0
}
