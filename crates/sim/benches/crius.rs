//! CPU seconds of this mechanism beside the published simulator's, for the runs that the reference was timed on.
//!
//! `cargo bench -p wharf-sim --bench crius` runs all; `-- fcfs` those whose name begins so.

use std::path::Path;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use wharf_sim::{NoRecorder, Preset, RunSpec, Settings};

/// A trace, rounds, what is set, and reference CPU seconds by policy.
type Timed = (&'static str, u64, &'static [&'static str], &'static [(&'static str, f64)]);

const TIMED: [Timed; 3] = [
    (
        "simulate_trace_philly",
        2000,
        &[],
        &[
            ("fcfs", 31.4),
            ("gandiva", 39.2),
            ("elasticflow", 13.1),
            ("elasticflow-l", 44.3),
            ("gavel", 120.0),
            ("crius", 221.7),
        ],
    ),
    (
        "simulate_trace_venus",
        500,
        &[],
        &[("fcfs", 8.5), ("elasticflow-l", 8.9), ("gavel", 20.6), ("crius", 15.5)],
    ),
    (
        "simulate_trace_pai",
        500,
        &[],
        &[("fcfs", 2.9), ("elasticflow-l", 3.1), ("gavel", 6.1), ("crius", 5.8)],
    ),
];

fn cpu_s() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("own usage");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
}

/// CPU seconds of one run, from the files on.
fn run(folder: &Path, (trace, rounds, set, _): &Timed, policy: &str) -> f64 {
    let start = cpu_s();
    let preset = Preset::load("crius").expect("it is built in");
    let trace = wharf_trace::read_trace(&folder.join(format!("traces/{trace}.csv")), None).expect("a trace");
    let cluster = folder.join("cluster/sim_cluster_spec.json");
    let spec = RunSpec {
        trace: &trace,
        cluster: &wharf_trace::parse_cluster_file(&cluster).expect("a cluster"),
        policy,
        preset: &preset,
        settings: &Settings::parse(set.iter().copied()).expect("settings"),
        seed: 0,
        profile: Some(&wharf_profile::load(folder).expect("tables")),
        rounds: Some(*rounds),
        failures: None,
    };
    wharf_sim::run(&spec, &mut NoRecorder).expect("a run");
    cpu_s() - start
}

#[expect(clippy::print_stdout, reason = "a benchmark reports")]
fn main() {
    let folder = wharf_testing::reference("crius");
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with("--")).unwrap_or_default();
    println!("{:24} {:16} {:>8} {:>8} {:>7}", "trace", "policy", "here s", "there s", "ratio");
    for timed in &TIMED {
        for (policy, there_s) in timed.3.iter().filter(|(policy, _)| policy.starts_with(&wanted)) {
            let here_s = run(&folder, timed, policy);
            println!("{:24} {policy:16} {here_s:8.3} {there_s:8.1} {:7.0}", timed.0, there_s / here_s);
        }
    }
}
