//! CPU seconds of this mechanism beside the published simulator's, for the runs that the reference was timed on.
//!
//! `cargo bench -p wharf-sim --bench gavel` runs all; `-- static60` those whose name begins so.

#[path = "../tests/it/gavel/data.rs"]
mod data;

use std::path::Path;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use wharf_perf::Profile;
use wharf_sim::{NoRecorder, Preset, RunSpec, Settings};

/// A trace, a cluster (devices of v100, p100 and k80, then devices in a server), and reference CPU seconds by policy.
type Timed = (&'static str, &'static str, &'static str, &'static [(&'static str, f64)]);

const TIMED: [Timed; 6] = [
    (
        "generated/static60_seed0",
        "4:4:4",
        "1:1:1",
        &[
            ("fifo", 1.80),
            ("fifo-perf", 1.48),
            ("fifo-packed", 8.68),
            ("isolated", 1.81),
            ("max-min-fairness", 2.23),
            ("max-min-fairness-perf", 1.91),
            ("max-min-fairness-packed", 7.99),
            ("max-min-fairness-water-filling", 2.98),
            ("max-min-fairness-water-filling-perf", 2.66),
            ("max-min-fairness-water-filling-packed", 33.66),
            ("finish-time-fairness", 5.19),
            ("finish-time-fairness-perf", 4.94),
            ("finish-time-fairness-packed", 10.80),
            ("min-total-duration", 3.41),
            ("min-total-duration-perf", 3.39),
            ("min-total-duration-packed", 41.78),
            ("max-sum-throughput-perf", 1.83),
            ("gandiva", 7.07),
            ("allox", 1.44),
        ],
    ),
    (
        "generated/single100_lam3000_seed0",
        "12:12:12",
        "1:1:1",
        &[
            ("fifo", 2.33),
            ("isolated", 3.45),
            ("max-min-fairness", 4.29),
            ("max-min-fairness-perf", 3.44),
            ("max-min-fairness-packed", 6.46),
            ("max-min-fairness-water-filling-perf", 13.51),
            ("finish-time-fairness-perf", 6.09),
            ("finish-time-fairness-packed", 13.25),
            ("min-total-duration-perf", 6.73),
            ("min-total-duration-packed", 30.94),
            ("gandiva", 4.19),
            ("allox", 2.32),
        ],
    ),
    (
        "physical/minimize_makespan",
        "8:16:24",
        "1:1:1",
        &[
            ("fifo-packed", 6.97),
            ("isolated", 0.97),
            ("max-min-fairness-perf", 0.95),
            ("finish-time-fairness-perf", 5.11),
            ("min-total-duration-perf", 1.18),
            ("gandiva", 8.24),
        ],
    ),
    (
        "physical/max_min_fairness",
        "8:16:24",
        "1:1:1",
        &[
            ("isolated", 0.72),
            ("max-min-fairness-perf", 0.96),
            ("finish-time-fairness-perf", 2.29),
            ("gandiva", 1.40),
        ],
    ),
    (
        "generated/single300_lam1000_seed0",
        "16:16:16",
        "1:1:1",
        &[
            ("fifo-perf", 6.43),
            ("isolated", 7.31),
            ("max-min-fairness", 8.41),
            ("max-min-fairness-perf", 7.15),
            ("finish-time-fairness-perf", 21.85),
            ("min-total-duration-perf", 13.93),
            ("gandiva", 53.61),
            ("allox", 6.24),
        ],
    ),
    (
        "generated/multi200_lam2000_seed1",
        "36:36:36",
        "4:4:4",
        &[
            ("fifo", 4.35),
            ("fifo-perf", 3.92),
            ("max-min-fairness", 7.62),
            ("max-min-fairness-perf", 5.50),
            ("finish-time-fairness-perf", 15.39),
            ("min-total-duration-perf", 11.72),
        ],
    ),
];

fn cpu_s() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("own usage");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
}

fn run(folder: &Path, profile: &Profile, (file, cluster, per_server, _): &Timed, policy: &str) -> (f64, u64) {
    let preset = Preset::load("gavel").expect("it is built in");
    let trace = wharf_trace::read_trace(&folder.join(format!("traces_{file}.trace")), None).expect("a trace");
    let spec = RunSpec {
        trace: &trace,
        cluster: &data::cluster(cluster, per_server),
        policy,
        preset: &preset,
        settings: &Settings::default(),
        seed: 0,
        profile: Some(profile),
        rounds: None,
        failures: None,
    };
    let start = cpu_s();
    let outcome = wharf_sim::run(&spec, &mut NoRecorder).expect("a run");
    (cpu_s() - start, outcome.tally.rounds)
}

#[expect(clippy::print_stdout, reason = "a benchmark reports")]
fn main() {
    let folder = wharf_testing::reference("gavel");
    let profile = &data::profiles(&folder)["simulation_throughputs.json"];
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with("--")).unwrap_or_default();
    println!(
        "{:18} {:38} {:>7} {:>9} {:>8} {:>7}",
        "trace", "policy", "rounds", "here s", "there s", "ratio"
    );
    for timed in &TIMED {
        let name = timed.0.split(['/', '_']).nth(1).unwrap_or(timed.0);
        for &(policy, reference_s) in timed.3 {
            if name.starts_with(&wanted) || policy == wanted {
                let (seconds, rounds) = run(&folder, profile, timed, policy);
                let ratio = reference_s / seconds;
                println!("{name:18} {policy:38} {rounds:7} {seconds:9.4} {reference_s:8.2} {ratio:7.0}");
            }
        }
    }
}
