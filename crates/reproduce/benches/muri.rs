//! CPU seconds of this mechanism beside the published simulator's, for the runs that the reference was timed on.
//!
//! `cargo bench -p wharf-reproduce --bench muri` runs those; `-- figures` runs everything that the published figures show.

#[path = "../tests/it/support.rs"]
mod support;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Reference CPU seconds (about one of them spent importing), by trace and policy.
const TIMED: [(&str, [(&str, f64); 7]); 9] = [
    ("trace3_h100", runs([1.1, 1.2, 1.1, 1.1, 9.1, 4.7, 4.7])),
    ("trace3_h300", runs([NONE, NONE, NONE, NONE, 58.2, 16.0, 18.7])),
    ("trace1_h300", runs([1.8, 1.7, 1.7, 1.9, NONE, 4.0 * 223.8, 4.0 * 155.3])),
    ("trace3", runs([1.7, 1.6, 2.1, 1.9, NONE, 36.3, 39.0])),
    ("trace1", runs([4.9, 3.9, 5.2, 14.8, NONE, NONE, NONE])),
    ("trace4", runs([7.3, 7.7, 11.4, 36.3, NONE, NONE, NONE])),
    ("trace2", runs([34.2, 33.5, 58.1, NONE, NONE, NONE, NONE])),
    ("trace4_pr", runs([13.3, 14.2, 17.1, 29.4, NONE, NONE, NONE])),
    ("cluster_trace", runs([4.0 * 1.5, 4.0 * 1.6, 4.0 * 1.3, 4.0 * 1.6, 4.0 * 95.4, 4.0 * 6.1, 4.0 * 5.7])),
];

/// Not timed.
const NONE: f64 = f64::NAN;

const fn runs(seconds: [f64; 7]) -> [(&'static str, f64); 7] {
    let [srtf, srsf, tiresias, antman, themis, muri_s, muri_l] = seconds;
    [
        ("srtf", srtf),
        ("srsf", srsf),
        ("tiresias", tiresias),
        ("antman", antman),
        ("themis", themis),
        ("muri-s", muri_s),
        ("muri-l", muri_l),
    ]
}

fn cpu_s() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("own usage");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
}

#[expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark reads its arguments and reports"
)]
fn main() {
    let data = wharf_testing::reference("muri");
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let run = |trace: &str, variant: &str| {
        let start = cpu_s();
        let jobs = support::trace(&data.join(format!("traces/{trace}.csv")));
        let outcome = support::run(&jobs, variant);
        let mean = outcome.jobs.iter().filter_map(|job| job.jct_s()).sum::<f64>() / jobs.len() as f64;
        (cpu_s() - start, mean, outcome.event_count)
    };
    if let [first, rest @ ..] = arguments.as_slice()
        && first != "figures"
    {
        for variant in rest {
            let (seconds, mean, events) = run(first, variant);
            println!("{first:14} {variant:32} {seconds:9.3} s  {events:6} events  avg JCT {mean:.6}");
        }
        return;
    }
    if arguments.is_empty() {
        println!("{:14} {:10} {:>10} {:>10} {:>8}", "trace", "policy", "here s", "there s", "ratio");
        for (trace, policies) in TIMED {
            for (policy, reference) in policies.into_iter().filter(|run| !run.1.is_nan()) {
                let (seconds, ..) = run(trace, policy);
                println!(
                    "{trace:14} {policy:10} {seconds:10.4} {reference:10.1} {:8.0}",
                    (reference - 1.0) / seconds
                );
            }
        }
        return;
    }
    let mut total = 0.0;
    for (trace, variant) in figures() {
        let (seconds, mean, events) = run(&trace, variant);
        total += seconds;
        println!("{trace:14} {variant:32} {seconds:9.3} s  {events:6} events  avg JCT {mean:.6}");
    }
    println!("{total:.1} s in all");
}

/// Traces and variants of the published figures.
fn figures() -> Vec<(String, &'static str)> {
    let policies = ["srtf", "srsf", "muri-s", "tiresias", "themis", "antman", "muri-l"];
    let variants =
        ["muri-l ordering=worst", "muri-l blossom=off", "muri-l packing_num=2", "muri-l packing_num=3"];
    let mut runs = Vec::new();
    for trace in 1..=4 {
        for suffix in ["", "_pr"] {
            let trace = format!("trace{trace}{suffix}");
            runs.extend(policies.iter().chain(&variants).map(|&variant| (trace.clone(), variant)));
        }
        runs.extend(policies.iter().map(|&variant| (format!("job_type_{trace}"), variant)));
    }
    runs
}
