//! Packed programs: published objectives, the general solver on small instances, feasibility of every answer.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests read recorded data")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use flate2::read::GzDecoder;
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome, Variable};
use proptest::prelude::*;
use serde_json::Value;
use wharf_solver::packing::{Answer, CLASSES, Claim, Method, PIVOTS, Program};
use wharf_testing::{needs, reference};

/// What a test owns of a program.
#[derive(Clone, Debug, Default)]
struct Owned {
    capacities: Vec<f64>,
    kinds: Vec<usize>,
    devices: Vec<u32>,
    alone: Vec<f64>,
    beside: Vec<f64>,
}

impl Owned {
    fn program(&self) -> Program<'_> {
        Program {
            capacities: &self.capacities,
            kinds: &self.kinds,
            devices: &self.devices,
            alone: &self.alone,
            beside: &self.beside,
            classes: CLASSES,
            pivots: PIVOTS,
        }
    }
}

/// Fails if shares exceed a job's time or a type's devices, or join jobs that cannot be joined.
fn check_feasible(owned: &Owned, answer: &Answer) {
    let mut times = vec![0.0; owned.kinds.len()];
    let mut used = vec![0.0; owned.capacities.len()];
    for share in &answer.shares {
        assert!(share.share > 0.0 && share.share <= 1.0 + 1e-9, "{share:?}");
        times[share.job] += share.share;
        used[share.device_type] += share.share * f64::from(owned.devices[share.job]);
        if let Some(partner) = share.partner {
            assert!(partner > share.job && owned.devices[partner] == owned.devices[share.job], "{share:?}");
            times[partner] += share.share;
        }
    }
    assert!(times.iter().all(|&time| time <= 1.0 + 1e-9), "{times:?}");
    assert!(used.iter().zip(&owned.capacities).all(|(used, capacity)| *used <= capacity * (1.0 + 1e-9)));
    let ordered = answer.shares.windows(2).all(|pair| {
        let key = |index: usize| (pair[index].job, pair[index].partner, pair[index].device_type);
        key(0) < key(1)
    });
    assert!(ordered, "shares are out of order or doubled");
}

fn golden(name: &str) -> Value {
    let path = reference(&format!("gavel/lp_goldens/{name}_ECOS.json.gz"));
    let mut text = String::new();
    GzDecoder::new(File::open(path).expect("opens")).read_to_string(&mut text).expect("decompresses");
    serde_json::from_str(&text).expect("JSON")
}

/// The jobs of a golden with the speeds of the published table, rounded to 32 bits as the reference stores them.
fn published(golden: &Value, table: &Value, jobs: usize, capacity: f64) -> (Owned, Vec<f64>) {
    let types: Vec<&str> = golden["types"]
        .as_array()
        .expect("as the format says")
        .iter()
        .map(|name| name.as_str().expect("as the format says"))
        .collect();
    let mut numbers_of_kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut owned = Owned { capacities: vec![capacity; types.len()], ..Owned::default() };
    let jobs = &golden["jobs"].as_array().expect("as the format says")[..jobs];
    let label =
        |job: &Value| format!("('{}', {})", job["type"].as_str().expect("as the format says"), job["sf"]);
    for job in jobs {
        let next = numbers_of_kinds.len();
        owned.kinds.push(*numbers_of_kinds.entry(label(job)).or_insert(next));
        owned.devices.push(
            u32::try_from(job["sf"].as_u64().expect("as the format says")).expect("as the format says"),
        );
    }
    let mut kinds: Vec<(&String, usize)> =
        numbers_of_kinds.iter().map(|(name, &number)| (name, number)).collect();
    kinds.sort_by_key(|kind| kind.1);
    let stored = |value: &Value| f64::from(value.as_f64().unwrap_or(0.0) as f32);
    for (kind, _) in &kinds {
        owned.alone.extend(types.iter().map(|name| stored(&table[name][kind]["null"])));
        for (other, _) in &kinds {
            owned.beside.extend(types.iter().map(|name| stored(&table[name][kind][other][0])));
        }
    }
    let target = |(index, job): (usize, &Value)| {
        let speeds = &owned.alone[owned.kinds[index] * types.len()..][..types.len()];
        let proportional = speeds.iter().sum::<f64>() / types.len() as f64;
        job["w"].as_f64().expect("as the format says") * proportional / f64::from(owned.devices[index])
    };
    let targets = jobs.iter().enumerate().map(target).collect();
    (owned, targets)
}

#[test]
fn published_objectives_are_reached() {
    needs!(REFERENCE);
    // Golden with the jobs, how many of them, devices per type, objective. For 128 and 256 jobs only figures are published;
    // the jobs are those of another program.
    let table = [
        ("max_min_fairness_packed_n16", 16, 4.0, None),
        ("max_min_fairness_packed_n64", 64, 16.0, None),
        ("max_min_fairness_perf_n256", 128, 32.0, Some(1.089_985_6)),
        ("max_min_fairness_perf_n256", 256, 64.0, Some(1.106_071_78)),
    ];
    let speeds = reference("gavel/simulation_throughputs.json");
    let speeds: Value = serde_json::from_str(&std::fs::read_to_string(speeds).expect("opens")).expect("JSON");
    for (name, jobs, capacity, objective) in table {
        let golden = golden(name);
        let objective =
            objective.or_else(|| golden["res"]["objective"].as_f64()).expect("as the format says");
        let (owned, targets) = published(&golden, &speeds, jobs, capacity);
        let answer = owned.program().max_min(&targets);
        check_feasible(&owned, &answer);
        assert_eq!((answer.method, answer.stranded.len()), (Method::Exact, 0));
        let error = (answer.objective / objective - 1.0).abs();
        assert!(error < 1e-6, "{name}: {} instead of {objective}", answer.objective);
    }
}

/// The written-out program of the general solver: a level, and a share of every job and pair on every type.
struct Written {
    problem: Problem,
    level: Variable,
    /// What adds to the throughput of each job.
    throughputs: Vec<Vec<(Variable, f64)>>,
}

impl Written {
    fn new(owned: &Owned, goal: f64) -> Self {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let level = problem.add_var(goal, (0.0, f64::INFINITY));
        let (jobs, types) = (owned.kinds.len(), owned.capacities.len());
        let kinds = owned.alone.len() / types;
        let mut throughputs = vec![Vec::new(); jobs];
        let mut times = vec![Vec::new(); jobs];
        let mut used = vec![Vec::new(); types];
        for job in 0..jobs {
            for (device_type, used) in used.iter_mut().enumerate() {
                let share = problem.add_var(0.0, (0.0, f64::INFINITY));
                throughputs[job].push((share, owned.alone[owned.kinds[job] * types + device_type]));
                times[job].push((share, 1.0));
                used.push((share, f64::from(owned.devices[job])));
                for other in (job + 1..jobs).filter(|&other| owned.devices[other] == owned.devices[job]) {
                    let speed = |a: usize, b: usize| {
                        owned.beside[(owned.kinds[a] * kinds + owned.kinds[b]) * types + device_type]
                    };
                    if speed(job, other) > 0.0 && speed(other, job) > 0.0 {
                        let share = problem.add_var(0.0, (0.0, f64::INFINITY));
                        throughputs[job].push((share, speed(job, other)));
                        throughputs[other].push((share, speed(other, job)));
                        times[job].push((share, 1.0));
                        times[other].push((share, 1.0));
                        used.push((share, f64::from(owned.devices[job])));
                    }
                }
            }
        }
        for row in times {
            problem.add_constraint(row, ComparisonOp::Le, 1.0);
        }
        for (row, capacity) in used.into_iter().zip(&owned.capacities) {
            problem.add_constraint(row, ComparisonOp::Le, *capacity);
        }
        Self { problem, level, throughputs }
    }

    /// Demands `fixed + slope × level` of a job.
    fn demand(&mut self, job: usize, fixed: f64, slope: f64) {
        let mut row = self.throughputs[job].clone();
        row.push((self.level, -slope));
        self.problem.add_constraint(row, ComparisonOp::Ge, fixed);
    }

    fn objective(&self) -> f64 {
        match self.problem.solve() {
            Ok(SolveOutcome::Solution(solution)) => solution.objective(),
            other => panic!("the general solver has no solution: {other:?}"),
        }
    }
}

/// The highest level by the general solver; jobs without a demand are left out.
fn highest(owned: &Owned, demands: &[Option<f64>]) -> f64 {
    let mut written = Written::new(owned, 1.0);
    for (job, demand) in demands.iter().enumerate() {
        if let Some(demand) = demand {
            written.demand(job, 0.0, *demand);
        }
    }
    written.objective()
}

/// The highest ratio that a job can have without taking from those who have no more than it.
fn at_most(owned: &Owned, targets: &[Option<f64>], ratios: &[f64], job: usize) -> f64 {
    let mut written = Written::new(owned, 1.0);
    for (other, target) in targets.iter().enumerate() {
        if let Some(target) = target.filter(|_| other != job && ratios[other] <= ratios[job] * (1.0 + 1e-6)) {
            written.demand(other, ratios[other] * target * (1.0 - 1e-9), 0.0);
        }
    }
    written.demand(job, 0.0, targets[job].expect("takes part"));
    written.objective()
}

/// Random programs with gangs of one and two, speeds of zero, types without devices.
fn program(jobs: usize) -> impl Strategy<Value = Owned> {
    (1_usize..4, 1_usize..5).prop_flat_map(move |(types, kinds)| {
        let job = (0..kinds, prop_oneof![3 => Just(1_u32), 1 => Just(2_u32)]);
        let capacity = prop_oneof![1 => Just(0.0), 6 => (1_u32..5).prop_map(f64::from)];
        let speed = prop_oneof![1 => Just(0.0), 8 => 1.0..20.0_f64];
        let factor = prop_oneof![1 => Just(0.0), 8 => 0.2..0.95_f64];
        (
            prop::collection::vec(capacity, types),
            prop::collection::vec(job, 1..jobs),
            prop::collection::vec(speed, kinds * types),
            prop::collection::vec(factor, kinds * kinds * types),
        )
            .prop_map(move |(capacities, jobs, alone, factors)| {
                let beside = factors.iter().enumerate().map(|(index, factor)| {
                    let (kind, device_type) = (index / types / kinds, index % types);
                    factor * alone[kind * types + device_type]
                });
                Owned {
                    capacities,
                    kinds: jobs.iter().map(|job| job.0).collect(),
                    devices: jobs.iter().map(|job| job.1).collect(),
                    beside: beside.collect(),
                    alone,
                }
            })
    })
}

/// Demands of those who take part.
fn taking_part(answer: &Answer, demands: &[f64]) -> Vec<Option<f64>> {
    let part = |(job, &demand): (usize, &f64)| (!answer.stranded.contains(&job)).then_some(demand);
    demands.iter().enumerate().map(part).collect()
}

fn close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * a.abs().max(b.abs())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn highest_level_is_that_of_the_general_solver(owned in program(9), seed in prop::collection::vec(0.1..9.0_f64, 9)) {
        let targets = &seed[..owned.kinds.len()];
        let answer = owned.program().max_min(targets);
        check_feasible(&owned, &answer);
        let part = taking_part(&answer, targets);
        if part.iter().all(Option::is_none) {
            prop_assert_eq!(answer.objective, 0.0);
        } else {
            prop_assert_eq!(answer.method, Method::Exact);
            let expected = highest(&owned, &part);
            prop_assert!(close(answer.objective, expected, 1e-6), "{} instead of {}", answer.objective, expected);
            let makespan = owned.program().makespan(targets);
            prop_assert!(close(makespan.objective, 1.0 / expected, 1e-6));
            let merged = Program { classes: 1, ..owned.program() }.max_min(targets);
            check_feasible(&owned, &merged);
            prop_assert!(merged.method != Method::Greedy);
            prop_assert!(merged.objective < expected * (1.0 + 1e-6) && merged.objective > 0.4 * expected);
        }
    }

    #[test]
    fn finish_time_ratio_is_least(
        owned in program(9),
        seed in prop::collection::vec((0.1..9.0_f64, 0.0..50.0_f64, 1.0..50.0_f64), 9),
    ) {
        let claim = |&(remaining, elapsed_s, isolated_s): &(f64, f64, f64)| Claim { remaining, elapsed_s, isolated_s };
        let claims: Vec<Claim> = seed[..owned.kinds.len()].iter().map(claim).collect();
        let answer = owned.program().finish_time(&claims);
        check_feasible(&owned, &answer);
        if answer.stranded.len() < claims.len() {
            prop_assert_eq!(answer.method, Method::Exact);
            // What is possible at a ratio, as a part of what it takes.
            let possible = |ratio: f64| {
                let need = |claim: &Claim| claim.remaining / (ratio * claim.isolated_s - claim.elapsed_s);
                let needs: Vec<f64> = claims.iter().map(need).collect();
                let part = taking_part(&answer, &needs);
                if part.iter().flatten().any(|need| *need <= 0.0) { 0.0 } else { highest(&owned, &part) }
            };
            let ratio = answer.objective;
            prop_assert!(possible(ratio * (1.0 + 1e-6)) >= 1.0 - 1e-9, "{} is not possible", ratio);
            prop_assert!(possible(ratio * (1.0 - 1e-5)) < 1.0, "less than {} is possible", ratio);
        }
    }

    #[test]
    fn water_filling_raises_all_jobs_as_far_as_possible(
        owned in program(6),
        seed in prop::collection::vec(0.5..5.0_f64, 6),
    ) {
        let targets = &seed[..owned.kinds.len()];
        let answer = owned.program().water_filling(targets);
        check_feasible(&owned, &answer);
        let part = taking_part(&answer, targets);
        let throughputs = owned.program().throughputs(&answer.shares);
        let ratios: Vec<f64> = throughputs.iter().zip(targets).map(|(speed, target)| speed / target).collect();
        for job in (0..targets.len()).filter(|&job| part[job].is_some()) {
            let most = at_most(&owned, &part, &ratios, job);
            prop_assert!(ratios[job] >= most * (1.0 - 1e-4), "{} instead of {}", ratios[job], most);
        }
    }
}

/// A larger program with jobs of all kinds and lengths over a decade, on a quarter as many devices.
fn large(jobs: usize, kinds: usize) -> (Owned, Vec<f64>) {
    let types = 3;
    let alone: Vec<f64> = (0..kinds * types).map(|index| 1.0 + (index * 31 % 97) as f64 / 10.0).collect();
    let beside = (0..kinds * kinds * types).map(|index| {
        let factor = 0.4 + 0.5 * ((index * 37 % 101) as f64 / 101.0);
        factor * alone[index / types / kinds * types + index % types]
    });
    let owned = Owned {
        capacities: vec![jobs as f64 / 12.0; types],
        kinds: (0..jobs).map(|job| job * 7919 % 1009 % kinds).collect(),
        devices: vec![1; jobs],
        beside: beside.collect(),
        alone,
    };
    let length = |job: usize| 10.0_f64.powf(1.0 + (job * 611 % 1013) as f64 / 1013.0);
    let remaining = (0..jobs).map(|job| length(job) * owned.alone[owned.kinds[job] * types]).collect();
    (owned, remaining)
}

type Rule<'a> = dyn Fn(&Program<'_>) -> Answer + 'a;

#[test]
fn merged_classes_lose_little() {
    let (owned, remaining) = large(128, 12);
    let claim = |(job, &remaining): (usize, &f64)| Claim {
        remaining,
        elapsed_s: (job * 97 % 101) as f64,
        isolated_s: 200.0 + (job * 53 % 101) as f64,
    };
    let claims: Vec<Claim> = remaining.iter().enumerate().map(claim).collect();
    let rules: [(&str, &Rule<'_>); 2] = [
        ("makespan", &|program| program.makespan(&remaining)),
        ("finish time", &|program| program.finish_time(&claims)),
    ];
    for (name, rule) in rules {
        let exact = rule(&Program { classes: 128, ..owned.program() });
        assert_eq!(exact.method, Method::Exact, "{name}");
        for (classes, gap) in [(12, 0.02), (24, 0.005), (48, 0.002)] {
            let merged = rule(&Program { classes, ..owned.program() });
            check_feasible(&owned, &merged);
            assert_eq!(merged.method, Method::Merged, "{name}");
            let ratio = merged.objective / exact.objective;
            assert!((1.0 - 1e-6..1.0 + gap).contains(&ratio), "{name}: {ratio} with {classes} classes");
        }
    }
}

#[test]
fn many_kinds_are_dealt_out_to_parts() {
    let (owned, targets) = large(300, 300);
    let whole = Program { classes: 300, ..owned.program() }.max_min(&targets);
    let parts = owned.program().max_min(&targets);
    check_feasible(&owned, &parts);
    assert_eq!(whole.method, Method::Exact);
    assert!(matches!(parts.method, Method::Parts(_)), "{:?}", parts.method);
    let ratio = parts.objective / whole.objective;
    assert!((0.98..1.0 + 1e-6).contains(&ratio), "{ratio}");
}

#[test]
fn work_limits_have_named_answers() {
    let (owned, targets) = large(60, 6);
    for pivots in [0, 1, 5] {
        let answer = Program { pivots, ..owned.program() }.max_min(&targets);
        check_feasible(&owned, &answer);
        assert_eq!((answer.method, answer.pivots), (Method::Greedy, pivots));
        assert!(answer.objective > 0.0);
    }
    // The first job has all of its time at a tenth; the others can have more of what is left.
    let owned = Owned {
        capacities: vec![2.5],
        kinds: vec![0, 1, 1],
        devices: vec![1; 3],
        alone: vec![1.0, 10.0],
        beside: vec![0.0; 4],
    };
    let targets = [10.0, 10.0, 20.0];
    let whole = owned.program().water_filling(&targets);
    let ratios: Vec<f64> = owned
        .program()
        .throughputs(&whole.shares)
        .iter()
        .zip(targets)
        .map(|(speed, target)| speed / target)
        .collect();
    assert!(
        ratios.iter().zip([0.1, 0.5, 0.5]).all(|(found, expected)| close(*found, expected, 1e-6)),
        "{ratios:?}"
    );
    let pivots = owned.program().max_min(&targets).pivots;
    let stopped = Program { pivots, ..owned.program() }.water_filling(&targets);
    check_feasible(&owned, &stopped);
    assert_eq!((whole.method, stopped.method), (Method::Exact, Method::Stopped));
    assert!(close(whole.objective, stopped.objective, 1e-6));
}

#[test]
fn degenerate_programs_have_answers() {
    let empty = Owned::default();
    assert_eq!(empty.program().max_min(&[]).objective, 0.0);
    let two = Owned {
        capacities: vec![1.0, 0.0],
        kinds: vec![0, 1, 7, 0],
        devices: vec![1, 1, 1, 0],
        alone: vec![2.0, f64::NAN, 0.0, 3.0],
        beside: vec![f64::INFINITY; 8],
    };
    // Only the first can run: no speed on a type with devices, no such kind, no devices.
    let answer = two.program().max_min(&[1.0; 4]);
    check_feasible(&two, &answer);
    assert_eq!(answer.stranded, [1, 2, 3]);
    assert!(close(answer.objective, 2.0, 1e-6), "{answer:?}");
    // Demands that are not numbers, none at all, and slices that are too short.
    for targets in [&[f64::NAN; 4][..], &[f64::INFINITY; 4], &[-1.0; 4], &[0.0; 4], &[]] {
        assert_eq!(two.program().max_min(targets).objective, 0.0);
        assert_eq!(two.program().makespan(targets).objective, 0.0);
        assert_eq!(two.program().water_filling(targets).objective, 0.0);
    }
    let claim = Claim { remaining: 1.0, elapsed_s: 1.0, isolated_s: 0.0 };
    assert_eq!(two.program().finish_time(&[claim; 4]).objective, 0.0);
    let no_devices = Owned { capacities: vec![0.0, 0.0], ..two };
    assert_eq!(no_devices.program().max_min(&[1.0; 4]).stranded, [0, 1, 2, 3]);
}

#[test]
fn two_jobs_share_a_device_if_that_is_faster() {
    // Alone they would have half of the time each; together both run at four fifths of their speed all the time.
    let owned = Owned {
        capacities: vec![1.0],
        kinds: vec![0, 0],
        devices: vec![1, 1],
        alone: vec![10.0],
        beside: vec![8.0],
    };
    let answer = owned.program().max_min(&[10.0, 10.0]);
    check_feasible(&owned, &answer);
    assert!(close(answer.objective, 0.8, 1e-6), "{answer:?}");
    assert!(answer.shares.iter().all(|share| share.partner == Some(1)), "{answer:?}");
}
