//! What was simulated is what will run: traces replayed with real processes on a real cluster.
//!
//! Short replays under three policies are always done, one of them on devices of several types, one in rounds of its own. With
//! `WHARF_LIVE=full` jobs take at least half a minute, under eight policies, side by side; with `WHARF_LIVE=POLICY` under that one.
mod scenario;

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use scenario::{MIXED, Scenario, TIME_SCALE, UNIFORM, Wanted, find};

/// How far the average completion time may be from the prediction.
const TOLERANCE: f64 = 0.03;

/// Events at least this far apart, as a machine that does something else, too, needs it.
const GAP_S: f64 = 0.75;

const FULL: [Wanted; 8] = [
    long("fifo", UNIFORM, 0, 0),
    long("srtf", UNIFORM, 2, 0),
    long("tiresias", UNIFORM, 2, 0),
    long("muri-s", UNIFORM, 2, 3),
    long("max-min-fairness-perf", MIXED, 2, 0),
    long("gandiva", MIXED, 2, 2),
    long("crius/fcfs", UNIFORM, 0, 0),
    long("crius/gavel", MIXED, 0, 0),
];

const fn long(policy: &'static str, cluster: &'static str, preemptions: usize, shared: usize) -> Wanted {
    let (jobs, job_s, arrivals_s, makespan_s) = (7, 30.0, 60.0, 240.0);
    Wanted { policy, cluster, jobs, job_s, arrivals_s, gap_s: GAP_S, preemptions, shared, makespan_s }
}

const SHORT: [Wanted; 3] =
    [short("srtf", UNIFORM, 1), short("max-min-fairness-perf", MIXED, 1), short("crius/fcfs", UNIFORM, 0)];

const fn short(policy: &'static str, cluster: &'static str, preemptions: usize) -> Wanted {
    let (jobs, job_s, arrivals_s, makespan_s) = (4, 6.0, 8.0, 40.0);
    Wanted { policy, cluster, jobs, job_s, arrivals_s, gap_s: GAP_S, preemptions, shared: 0, makespan_s }
}

/// What came of a replay.
struct Row {
    policy: &'static str,
    seed: u64,
    jobs: u64,
    acts: usize,
    preemptions: u64,
    gap_s: f64,
    live_s: f64,
    simulated_s: f64,
    start_cost_s: f64,
    is_same: bool,
    difference: Value,
}

impl Row {
    fn new(wanted: &Wanted, scenario: &Scenario, told: &Value) -> Self {
        let avg = |run: usize| told["runs"][run]["avg_jct_s"].as_f64().unwrap();
        Self {
            policy: wanted.policy,
            seed: scenario.seed,
            jobs: told["runs"][0]["finished"].as_u64().unwrap(),
            acts: told["acts"]["live"].as_array().unwrap().len(),
            preemptions: told["runs"][0]["preemptions"].as_u64().unwrap(),
            gap_s: scenario.gap_s,
            live_s: avg(0),
            simulated_s: avg(1),
            start_cost_s: told["start_cost_s"].as_f64().unwrap(),
            is_same: told["is_same_sequence"].as_bool().unwrap(),
            difference: told["first_difference"].clone(),
        }
    }

    fn off(&self) -> f64 {
        self.live_s / self.simulated_s - 1.0
    }
}

fn replay(wanted: &Wanted) -> (Row, Value) {
    let scenario = find(wanted);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    std::fs::write(&trace, scenario.text()).unwrap();
    let scale = TIME_SCALE.to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_wharf"))
        .args(["replay", "--cluster", wanted.cluster, "--policy", wanted.policy, "--time-scale", &scale])
        .args(["--output", "json", "--trace"])
        .arg(&trace)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}: {:?}", wanted.policy, output.status);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    (Row::new(wanted, &scenario, &told), told)
}

/// Written past the test harness, which keeps what is printed to itself.
fn print(rows: &[Row]) {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:<21} {:>5} {:>5} {:>5} {:>11} {:>8} {:>10} {:>9} {:>9} {:>7}  sequence",
        "policy", "seed", "jobs", "acts", "preemptions", "gap", "start cost", "live", "simulated", "off"
    )
    .unwrap();
    for row in rows {
        writeln!(
            out,
            "{:<21} {:>5} {:>5} {:>5} {:>11} {:>6.2} s {:>7.0} ms {:>7.2} s {:>7.2} s {:>5.2} %  {}",
            row.policy,
            row.seed,
            row.jobs,
            row.acts,
            row.preemptions,
            row.gap_s,
            row.start_cost_s * 1000.0,
            row.live_s,
            row.simulated_s,
            row.off() * 100.0,
            if row.is_same { "the same".to_owned() } else { row.difference.to_string() },
        )
        .unwrap();
    }
}

#[test]
fn live_equals_simulated() {
    let wanted: Vec<Wanted> = match std::env::var("WHARF_LIVE").as_deref() {
        Ok("full") => FULL.to_vec(),
        Ok(policy) => FULL.into_iter().filter(|wanted| wanted.policy == policy).collect(),
        Err(_) => SHORT.to_vec(),
    };
    assert!(!wanted.is_empty(), "WHARF_LIVE names no policy of these: {FULL:?}");
    let rows: Vec<(Row, Value)> = std::thread::scope(|scope| {
        let running: Vec<_> = wanted.iter().map(|one| scope.spawn(move || replay(one))).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let (rows, told): (Vec<Row>, Vec<Value>) = rows.into_iter().unzip();
    print(&rows);
    for ((row, told), wanted) in rows.iter().zip(&told).zip(&wanted) {
        let acts = serde_json::to_string_pretty(&told["acts"]).unwrap();
        assert!(row.is_same, "{}: {}\n{acts}", row.policy, row.difference);
        assert!(row.off().abs() < TOLERANCE, "{}: {:.1} %", row.policy, row.off() * 100.0);
        assert_eq!(row.jobs, wanted.jobs as u64, "{}", row.policy);
        assert!(row.preemptions >= wanted.preemptions as u64, "{}", row.policy);
    }
}
