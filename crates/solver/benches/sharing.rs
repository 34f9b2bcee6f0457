//! CPU times of one policy call's program, beside the CPU seconds that the reference's policies were recorded with.
//!
//! `cargo bench -p wharf-solver --bench sharing`. Jobs are drawn like the reference's: one or several devices, speeds
//! that differ from type to type by up to ten times, and a quarter of a device of each type per job.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use wharf_solver::sharing::{Finish, Program, Shares, Whole, split};
use wharf_solver::sharing::{finish_time, makespan, makespan_bisect, max_min, max_sum, water_filling};

/// Recorded CPU seconds by jobs, with 3 types: max-min, makespan, finish-time fairness, max-sum, water-filling.
const RECORDED: [(usize, [f64; 5]); 3] = [
    (64, [0.007, 0.029, 0.141, 0.005, 0.048]),
    (256, [0.013, 0.043, 0.559, 0.009, 0.472]),
    (1024, [0.030, 0.116, 2.645, 0.020, f64::NAN]),
];

/// A program's name, its place in [`RECORDED`], and how it is called.
type Call<'a> = (&'a str, Option<usize>, &'a dyn Fn() -> Shares);

struct Jobs {
    capacities: Vec<f64>,
    devices: Vec<f64>,
    speeds: Vec<f64>,
    factors: Vec<f64>,
    remaining: Vec<f64>,
    claims: Vec<Finish>,
}

/// Numbers between 0 and 1: a linear congruence is random enough here.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn jobs(count: usize, types: usize, gangs: bool) -> Jobs {
    let mut random = Random(count as u64 + 17 * types as u64);
    let capacities = vec![(count as f64 * if types == 3 { 0.25 } else { 1.0 / types as f64 }).ceil(); types];
    let mut jobs = Jobs {
        capacities,
        devices: Vec::new(),
        speeds: Vec::new(),
        factors: Vec::new(),
        remaining: Vec::new(),
        claims: Vec::new(),
    };
    for _ in 0..count {
        let devices =
            if gangs && random.next() > 0.7 { 2.0_f64.powi((random.next() * 3.0) as i32 + 1) } else { 1.0 };
        let base = 10.0_f64.powf(3.0 * random.next() - 1.0);
        let row: Vec<f64> = (0..types)
            .map(|j| {
                let speed = base * (1.0 + j as f64 * 1.5 * random.next()) * (0.8 + 0.4 * random.next());
                if random.next() < 0.03 { 0.0 } else { speed }
            })
            .collect();
        let mean = row.iter().sum::<f64>() / types as f64;
        let duration = 60.0 * 10.0_f64.powf(1.5 + 2.5 * random.next());
        let elapsed_s = 20_000.0 * random.next();
        jobs.devices.push(devices);
        jobs.factors.push(if mean > 0.0 { devices / mean } else { 0.0 });
        jobs.remaining.push(duration * mean);
        jobs.claims.push(Finish { elapsed_s, remaining: duration * mean, allowance_s: duration * 1.5 });
        jobs.speeds.extend(row);
    }
    jobs
}

fn cpu_s() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("own usage");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
}

/// CPU seconds of a call on average over some, and the last answer.
fn time(call: impl Fn() -> Shares) -> (f64, Shares) {
    let (start, mut calls) = (cpu_s(), 0.0);
    loop {
        let answer = call();
        calls += 1.0;
        let spent = cpu_s() - start;
        if spent > 0.4 {
            return (spent / calls, answer);
        }
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark reports")]
fn main() {
    println!(
        "{:>6} {:>5} {:>5}  {:<16} {:>10}  beside the reference",
        "jobs", "types", "gangs", "program", "ms"
    );
    for (count, types, gangs) in [
        (64, 3, false),
        (256, 3, false),
        (1024, 3, false),
        (1024, 3, true),
        (4096, 3, true),
        (10_000, 6, false),
        (10_000, 6, true),
    ] {
        let jobs = jobs(count, types, gangs);
        let program = Program { capacities: &jobs.capacities, devices: &jobs.devices, speeds: &jobs.speeds };
        let calls: [Call<'_>; 7] = [
            ("max-min", Some(0), &|| max_min(&program, &jobs.factors)),
            ("makespan", Some(1), &|| makespan(&program, &jobs.remaining)),
            ("makespan-bisect", Some(1), &|| makespan_bisect(&program, &jobs.remaining)),
            ("finish-time", Some(2), &|| finish_time(&program, &jobs.claims)),
            ("max-sum", Some(3), &|| max_sum(&program, &jobs.speeds, None)),
            ("water-filling", Some(4), &|| water_filling(&program, &jobs.factors)),
            ("max-min, 8 parts", None, &|| {
                split(&program, &jobs.devices, (8, 1), Whole::Smallest, |part, own| {
                    max_min(part, &own.of(&jobs.factors))
                })
            }),
        ];
        for (name, recorded, call) in calls {
            let (seconds, answer) = time(call);
            let reference = RECORDED.iter().find(|(n, _)| *n == count && types == 3 && !gangs);
            let beside = reference
                .zip(recorded)
                .map(|((_, seconds), program)| seconds[program])
                .filter(|s| s.is_finite());
            let beside =
                beside.map_or(String::new(), |reference| format!("{:.0} times faster", reference / seconds));
            let fallback = answer.fallback.unwrap_or_default();
            println!(
                "{count:>6} {types:>5} {gangs:>5}  {name:<16} {:>10.3}  {beside}{fallback}",
                seconds * 1e3
            );
        }
    }
}
