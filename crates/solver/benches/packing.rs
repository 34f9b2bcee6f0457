//! Times of packed programs and of AlloX's assignment, and how far approximations are from exact answers:
//! `cargo bench -p wharf-solver --bench packing`.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark measures and prints"
)]

use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use wharf_solver::assignment::Queues;
use wharf_solver::packing::{Answer, CLASSES, Claim, PIVOTS, Program};

/// Published CPU seconds of one policy call, by number of jobs.
const REFERENCE_PACKED_S: [(usize, f64); 4] = [(16, 0.020), (64, 0.131), (128, 0.742), (256, 3.626)];
const REFERENCE_ALLOX_S: [(usize, f64); 2] = [(64, 0.023), (256, 6.346)];

/// Speeds of kinds on types: kinds × types, and kinds × kinds × types.
struct Speeds {
    types: usize,
    alone: Vec<f64>,
    beside: Vec<f64>,
}

impl Speeds {
    /// Of the published table for jobs of one device if it is there, else made up. More than three types are faster
    /// copies of the first ones.
    fn new(types: usize) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared/data/gavel/simulation_throughputs.json");
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::published(&serde_json::from_str(&text).expect("JSON"), types),
            Err(error) => {
                println!("{}: {error}: speeds are made up", path.display());
                Self::made_up(types)
            }
        }
    }

    fn published(table: &Value, types: usize) -> Self {
        let names = ["k80", "p100", "v100"];
        let column = |index: usize| (&table[names[index % 3]], 1.0 + 0.3 * (index / 3) as f64);
        let keys = table["v100"].as_object().expect("a table").keys();
        let kinds: Vec<&String> = keys.filter(|key| key.ends_with(", 1)")).collect();
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        let speed = |value: &Value, factor: f64| value.as_f64().unwrap_or(0.0) * factor;
        for kind in &kinds {
            alone.extend((0..types).map(column).map(|(table, factor)| speed(&table[*kind]["null"], factor)));
            for other in &kinds {
                beside.extend(
                    (0..types).map(column).map(|(table, factor)| speed(&table[*kind][*other][0], factor)),
                );
            }
        }
        Self { types, alone, beside }
    }

    fn made_up(types: usize) -> Self {
        let kinds = 26;
        let alone: Vec<f64> = (0..kinds * types).map(|index| 1.0 + (index * 31 % 97) as f64).collect();
        let beside = (0..kinds * kinds * types).map(|index| {
            let factor = 0.4 + 0.5 * ((index * 37 % 101) as f64 / 101.0);
            factor * alone[index / types / kinds * types + index % types]
        });
        Self { types, beside: beside.collect(), alone }
    }

    fn kinds(&self) -> usize {
        self.alone.len() / self.types
    }
}

/// Jobs of all kinds, of lengths over a decade.
struct Jobs {
    kinds: Vec<usize>,
    devices: Vec<u32>,
    targets: Vec<f64>,
    claims: Vec<Claim>,
    speeds: Vec<f64>,
}

impl Jobs {
    fn new(speeds: &Speeds, count: usize) -> Self {
        let kinds: Vec<usize> = (0..count).map(|job| job * 7919 % 1009 % speeds.kinds()).collect();
        let rows: Vec<&[f64]> =
            kinds.iter().map(|&kind| &speeds.alone[kind * speeds.types..][..speeds.types]).collect();
        let claim = |(job, row): (usize, &&[f64])| {
            let fastest = row.iter().copied().fold(0.0, f64::max);
            let length_s = 60.0 * 10.0_f64.powf(2.0 + 1.2 * (job * 611 % 1013) as f64 / 1013.0);
            let left = 0.05 + 0.95 * (job * 97 % 101) as f64 / 101.0;
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let isolated_s = length_s * fastest / (0.75 * mean);
            Claim { remaining: length_s * fastest * left, elapsed_s: (1.0 - left) * isolated_s, isolated_s }
        };
        Self {
            devices: vec![1; count],
            targets: rows.iter().map(|row| row.iter().sum::<f64>() / speeds.types as f64).collect(),
            claims: rows.iter().enumerate().map(claim).collect(),
            speeds: rows.concat(),
            kinds,
        }
    }

    fn remaining(&self) -> Vec<f64> {
        self.claims.iter().map(|claim| claim.remaining).collect()
    }
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = run();
    (result, start.elapsed().as_secs_f64())
}

fn compared(reference: &[(usize, f64)], jobs: usize, took_s: f64) -> String {
    let known = reference.iter().find(|(size, _)| *size == jobs);
    known.map_or(String::new(), |(_, reference_s)| format!("{:.0} × the reference", reference_s / took_s))
}

type Rule<'a> = dyn Fn(&Program<'_>) -> Answer + 'a;

fn packed(jobs: usize, capacities: &[f64]) {
    let speeds = Speeds::new(capacities.len());
    let owned = Jobs::new(&speeds, jobs);
    let program = Program {
        capacities,
        kinds: &owned.kinds,
        devices: &owned.devices,
        alone: &speeds.alone,
        beside: &speeds.beside,
        classes: CLASSES,
        pivots: PIVOTS,
    };
    let remaining = owned.remaining();
    let rules: [(&str, &Rule<'_>); 4] = [
        ("max-min", &|program| program.max_min(&owned.targets)),
        ("makespan", &|program| program.makespan(&remaining)),
        ("finish time", &|program| program.finish_time(&owned.claims)),
        ("water-filling", &|program| program.water_filling(&owned.targets)),
    ];
    for (name, rule) in rules {
        let (answer, took_s) = timed(|| rule(&program));
        let ratio =
            if name == "max-min" { compared(&REFERENCE_PACKED_S, jobs, took_s) } else { String::new() };
        let method = format!("{:?}", answer.method);
        println!(
            "{name:<14} {jobs:>6} jobs {took_s:>9.4} s  {method:<10} {:>12.6}  {:>6} shares {:>5} pivots  {ratio}",
            answer.objective,
            answer.shares.len(),
            answer.pivots,
        );
        if jobs == 256 {
            let (exact, took_s) = timed(|| rule(&Program { classes: jobs, ..program }));
            let gap = (answer.objective / exact.objective - 1.0).abs();
            println!(
                "{:<14} {jobs:>6} jobs {took_s:>9.4} s  all distinguished: gap {:.4} %",
                "",
                100.0 * gap
            );
        }
    }
}

fn allox(jobs: usize, machines: &[usize], compare: bool) {
    let speeds = Speeds::new(machines.len());
    let owned = Jobs::new(&speeds, jobs);
    let (remaining, waits) = (owned.remaining(), vec![0.0; jobs]);
    let queues = Queues { remaining: &remaining, waits: &waits, speeds: &owned.speeds, machines };
    let count: usize = machines.iter().sum();
    let (fast, took_s) = timed(|| queues.fast());
    let ratio = compared(&REFERENCE_ALLOX_S, jobs, took_s);
    println!(
        "{:<14} {jobs:>6} jobs {took_s:>9.4} s  {:?} on {count} machines  {ratio}",
        "AlloX", fast.method
    );
    if compare {
        let (exact, took_s) = timed(|| queues.exact());
        let gap = 100.0 * (queues.cost(&fast.places) / queues.cost(&exact) - 1.0);
        let ratio = compared(&REFERENCE_ALLOX_S, jobs, took_s);
        println!("{:<14} {jobs:>6} jobs {took_s:>9.4} s  as scipy: gap {gap:.4} %  {ratio}", "");
    }
}

fn main() {
    for jobs in [64, 256, 1024] {
        packed(jobs, &[jobs as f64 / 4.0; 3]);
    }
    println!("the same on a quarter of the devices");
    packed(256, &[16.0; 3]);
    println!("10,000 devices of six types");
    packed(10_000, &[2000.0, 2000.0, 1000.0, 2000.0, 2000.0, 1000.0]);
    for jobs in [64, 256, 1024] {
        allox(jobs, &[jobs / 4; 3], true);
    }
    allox(256, &[2; 3], true);
    allox(10_000, &[2000, 2000, 1000, 2000, 2000, 1000], false);
    allox(10_000, &[10; 6], false);
}
