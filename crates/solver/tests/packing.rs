//! Packed programs: published objectives, the general solver on small instances, feasibility of every answer.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome, Variable};
use proptest::prelude::*;
use serde_json::Value;
use wharf_solver::packing::{Answer, CLASSES, Claim, Method, PIVOTS, Program};

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

fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gavel").join(path);
    path.exists().then_some(path)
}

fn golden(name: &str) -> Option<Value> {
    let path = shared(&format!("lp_goldens/{name}_ECOS.json.gz"))?;
    Some({
        let mut text = String::new();
        GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    })
}

/// The jobs of a golden with the speeds of the published table, rounded to 32 bits as the reference stores them.
fn published(golden: &Value, table: &Value, jobs: usize, capacity: f64) -> (Owned, Vec<f64>) {
    let types: Vec<&str> =
        golden["types"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let mut numbers_of_kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut owned = Owned { capacities: vec![capacity; types.len()], ..Owned::default() };
    let jobs = &golden["jobs"].as_array().unwrap()[..jobs];
    let label = |job: &Value| format!("('{}', {})", job["type"].as_str().unwrap(), job["sf"]);
    for job in jobs {
        let next = numbers_of_kinds.len();
        owned.kinds.push(*numbers_of_kinds.entry(label(job)).or_insert(next));
        owned.devices.push(u32::try_from(job["sf"].as_u64().unwrap()).unwrap());
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
        job["w"].as_f64().unwrap() * proportional / f64::from(owned.devices[index])
    };
    let targets = jobs.iter().enumerate().map(target).collect();
    (owned, targets)
}

#[test]
fn published_objectives_are_reached() {
    // Golden with the jobs, how many of them, devices per type, objective. For 128 and 256 jobs only figures are published;
    // the jobs are those of another program.
    let table = [
        ("max_min_fairness_packed_n16", 16, 4.0, None),
        ("max_min_fairness_packed_n64", 64, 16.0, None),
        ("max_min_fairness_perf_n256", 128, 32.0, Some(1.089_985_6)),
        ("max_min_fairness_perf_n256", 256, 64.0, Some(1.106_071_78)),
    ];
    let Some(speeds) = shared("simulation_throughputs.json") else {
        eprintln!("DID NOT RUN: ../shared/data/gavel is not there, so published objectives are not compared");
        return;
    };
    let speeds: Value = serde_json::from_str(&std::fs::read_to_string(speeds).unwrap()).unwrap();
    for (name, jobs, capacity, objective) in table {
        let golden = golden(name).expect("is beside the speeds");
        let objective = objective.or_else(|| golden["res"]["objective"].as_f64()).unwrap();
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
            for device_type in 0..types {
                let share = problem.add_var(0.0, (0.0, f64::INFINITY));
                throughputs[job].push((share, owned.alone[owned.kinds[job] * types + device_type]));
                times[job].push((share, 1.0));
                used[device_type].push((share, f64::from(owned.devices[job])));
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
                        used[device_type].push((share, f64::from(owned.devices[job])));
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
    written.demand(job, 0.0, targets[job].unwrap());
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
    fn water_filling_raises_everybody_as_far_as_possible(
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
