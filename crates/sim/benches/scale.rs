//! Cost per event from a thousand to a million jobs, under the default preset: `cargo bench -p wharf-sim --bench scale`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::Instant;

use wharf_core::{ClusterSpec, JobSpec, Time};
use wharf_sim::{NoRecorder, Preset, RunSpec, Settings, run};
use wharf_trace::Trace;

fn trace(jobs: usize, devices: u32) -> Trace {
    let mut x: u64 = 12345;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 11) as f64 / (1u64 << 53) as f64
    };
    let sizes = [1, 1, 1, 1, 1, 1, 2, 4, 4, 8, 8, 16, 32];
    let mut t = 0.0;
    let mean_work = 5200.0 * 6.2;
    let gap = mean_work / f64::from(devices) / 1.05;
    let jobs = (0..jobs)
        .map(|i| {
            t += -gap * (1.0 - next()).ln();
            let g = sizes[(next() * sizes.len() as f64) as usize];
            let d =
                (60.0 * (-(next().ln())).exp().min(5000.0) + 5000.0 * -(1.0 - next()).ln()).min(300_000.0);
            JobSpec::new(&i.to_string(), Time::from_seconds(t), g, (d * 10.0).ceil(), 100.0)
        })
        .collect();
    Trace { name: "scale".into(), jobs }
}

fn main() {
    let preset = Preset::load("wharf").expect("built in");
    let mut settings = Settings::default();
    if let Ok(r) = std::env::var("RATIO") {
        settings.set("preempt_ratio", &r);
    }
    let sizes: Vec<usize> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![1_000, 10_000, 100_000, 1_000_000] } else { sizes };
    for n in sizes {
        let devices = (n as u32 / 10).max(64);
        let cluster = ClusterSpec::uniform("gpu", devices / 8, 8);
        let trace = trace(n, devices);
        for policy in ["fifo", "srtf", "srsf", "tiresias"] {
            let start = Instant::now();
            let spec = RunSpec {
                trace: &trace,
                cluster: &cluster,
                policy,
                preset: &preset,
                settings: &settings,
                seed: 0,
            };
            let outcome = run(&spec, &mut NoRecorder).expect("runs");
            let took = start.elapsed().as_secs_f64();
            let finished: Vec<f64> = outcome.jobs.iter().filter_map(|j| j.jct_s()).collect();
            println!(
                "{n:>8} {policy:>9} {took:>7.2} s {:>6.2} us/event, events {}, avg jct {:.0}, preemptions {}, finished {}",
                took * 1e6 / outcome.event_count as f64,
                outcome.event_count,
                finished.iter().sum::<f64>() / finished.len() as f64,
                outcome.jobs.iter().map(|j| u64::from(j.preemptions)).sum::<u64>(),
                finished.len()
            );
        }
    }
}
