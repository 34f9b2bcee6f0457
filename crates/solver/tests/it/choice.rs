//! Choices of configurations against exhaustive search, and against a general solver.

use microlp::{ComparisonOp, OptimizationDirection, Problem as Program};
use proptest::prelude::*;
use wharf_solver::choice::{Choice, Configuration, Holder, Limits, Method, Problem, adjust, choose};

const LIMITS: Limits = Limits { steps: 50_000_000, proof_steps: 50_000_000, resolution: 1e-6 };

/// Jobs with their configurations.
#[derive(Clone, Debug)]
struct Instance {
    capacity: Vec<u32>,
    jobs: Vec<Vec<Configuration>>,
}

impl Instance {
    fn solve(&self, limits: &Limits) -> Choice {
        self.solve_from(limits, &[])
    }

    fn solve_from(&self, limits: &Limits, current: &[Option<usize>]) -> Choice {
        let mut starts = vec![0];
        starts.extend(self.jobs.iter().scan(0, |sum, job| {
            *sum += job.len();
            Some(*sum)
        }));
        let configurations = self.jobs.concat();
        let problem =
            Problem { capacity: &self.capacity, configurations: &configurations, starts: &starts, current };
        choose(&problem, limits)
    }

    fn assert_within(&self, choice: &Choice) {
        let mut used = vec![0; self.capacity.len()];
        let mut value = 0.0;
        for (job, pick) in self.jobs.iter().zip(&choice.picks) {
            if let Some(pick) = *pick {
                used[job[pick].kind] += job[pick].count;
                value += job[pick].value;
                assert!(job[pick].value > 0.0, "no job is given a worthless configuration");
            }
        }
        assert!(used.iter().zip(&self.capacity).all(|(used, capacity)| used <= capacity));
        assert!((value - choice.value).abs() < 1e-9 && value <= choice.bound + 1e-6);
    }

    fn exhaustive(&self) -> f64 {
        fn best(jobs: &[Vec<Configuration>], left: &mut [u32]) -> f64 {
            let Some((first, others)) = jobs.split_first() else { return 0.0 };
            let mut most = best(others, left);
            for option in first {
                if option.count <= left[option.kind] && option.value > 0.0 {
                    left[option.kind] -= option.count;
                    most = most.max(option.value + best(others, left));
                    left[option.kind] += option.count;
                }
            }
            most
        }
        best(&self.jobs, &mut self.capacity.clone())
    }

    fn by_general_solver(&self) -> f64 {
        let mut program = Program::new(OptimizationDirection::Maximize);
        let mut rows = vec![Vec::new(); self.capacity.len()];
        for job in &self.jobs {
            let mut once = Vec::new();
            for option in job {
                let variable = program.add_binary_var(option.value);
                once.push((variable, 1.0));
                rows[option.kind].push((variable, f64::from(option.count)));
            }
            program.add_constraint(once.as_slice(), ComparisonOp::Le, 1.0);
        }
        for (row, &capacity) in rows.iter().zip(&self.capacity) {
            program.add_constraint(row.as_slice(), ComparisonOp::Le, f64::from(capacity));
        }
        let outcome = program.solve().expect("a solution");
        outcome.solution().expect("an optimum").objective()
    }
}

fn instances(jobs: usize, capacity: u32) -> impl Strategy<Value = Instance> {
    (1..=3_usize).prop_flat_map(move |kinds| {
        let counts = prop::sample::select(vec![1_u32, 1, 2, 2, 4, 8]);
        // Hundredths, as Sia rounds: many ties.
        let option = (0..kinds, counts, -20..200_i32).prop_map(|(kind, count, value)| Configuration {
            kind,
            count,
            value: f64::from(value) / 100.0,
        });
        let job = prop::collection::vec(option, 0..5);
        (prop::collection::vec(0..=capacity, kinds), prop::collection::vec(job, 0..=jobs))
            .prop_map(|(capacity, jobs)| Instance { capacity, jobs })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn small_ones_as_by_exhaustive_search(instance in instances(6, 10)) {
        let choice = instance.solve(&LIMITS);
        instance.assert_within(&choice);
        prop_assert_eq!(choice.method, Method::Exact);
        let best = instance.exhaustive();
        prop_assert!((choice.value - best).abs() < 1e-6, "{} is not {best}", choice.value);
        prop_assert_eq!(choice, instance.solve(&LIMITS));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn larger_ones_as_by_the_general_solver(instance in instances(24, 20)) {
        let choice = instance.solve(&LIMITS);
        instance.assert_within(&choice);
        prop_assert_eq!(choice.method, Method::Exact);
        let best = instance.by_general_solver();
        prop_assert!((choice.value - best).abs() < 1e-6, "{} is not {best}", choice.value);
    }
}

fn option(kind: usize, count: u32, value: f64) -> Configuration {
    Configuration { kind, count, value }
}

#[test]
fn ties_go_to_the_current_then_to_fewer_devices_then_to_the_earlier_type() {
    let jobs = vec![vec![option(2, 2, 1.0), option(1, 1, 1.0), option(0, 1, 1.0)]];
    let instance = Instance { capacity: vec![4, 4, 4], jobs };
    for (current, expected) in [(vec![], 2), (vec![Some(0)], 0), (vec![Some(1)], 1), (vec![None], 2)] {
        assert_eq!(instance.solve_from(&LIMITS, &current).picks, [Some(expected)], "{current:?}");
    }
}

#[test]
fn without_steps_it_is_greedy_and_says_so() {
    let jobs = (0..40).map(|job| vec![option(0, 1 + job % 3, 1.0), option(1, 2, 1.5)]).collect();
    let instance = Instance { capacity: vec![16, 16], jobs };
    let choice = instance.solve(&Limits { steps: 10, ..LIMITS });
    instance.assert_within(&choice);
    assert_eq!((choice.method, choice.method.name()), (Method::Greedy, "greedy"));
    let some = instance.solve(&Limits { steps: 20_000, ..LIMITS });
    assert!(some.value >= choice.value && some.bound <= choice.bound);
}

#[test]
fn nothing_to_choose() {
    let empty = Instance { capacity: vec![0], jobs: vec![] };
    assert_eq!(empty.solve(&LIMITS).picks, []);
    let none = Instance {
        capacity: vec![0, 3],
        jobs: vec![vec![], vec![option(0, 1, 1.0)], vec![option(1, 4, 1.0)]],
    };
    assert_eq!(none.solve(&LIMITS).picks, [None, None, None]);
}

#[test]
fn approximations_are_near_what_can_be() {
    // Jobs with less than linear returns on six types, more than can run.
    let mut noise = 7_u64;
    let mut next = || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (noise >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut job = || {
        let exponent = 0.5 + 0.5 * next();
        let mut options = Vec::new();
        for kind in 0..6 {
            let speed = 1.0 + 3.0 * next();
            for count in [1, 2, 4, 8, 16, 24] {
                let goodput = speed * f64::from(count).powf(exponent);
                options.push(option(kind, count, 1.1 - (goodput.powf(-0.5) * 100.0).round() / 100.0));
            }
        }
        options
    };
    let instance =
        Instance { capacity: vec![40, 40, 40, 32, 64, 24], jobs: (0..256).map(|_| job()).collect() };
    for (steps, least) in [(100_000_000, 0.995), (200_000, 0.98)] {
        let choice = instance.solve(&Limits { steps, proof_steps: 500_000, resolution: 0.005 });
        instance.assert_within(&choice);
        assert!(choice.value >= least * choice.bound, "{} {} of {}", steps, choice.value, choice.bound);
    }
}

#[test]
fn a_known_choice_is_not_given_up_for_one_that_leaves_devices_idle() {
    let jobs = vec![
        vec![option(0, 2, 0.92)],
        vec![option(0, 1, 0.36), option(0, 2, 0.72)],
        vec![option(0, 4, 1.58)],
    ];
    let choice = Instance { capacity: vec![7], jobs }.solve(&LIMITS);
    assert_eq!(choice.picks, [Some(0), Some(0), Some(0)]);
}

/// The program of Sia in Crius's simulator as published: a row for each job and a column for each configuration, the newcomer last.
struct PublishedProgram {
    capacity: [i64; 2],
    /// Type and number of devices of each column.
    columns: Vec<(usize, i64)>,
    /// What each job is worth in each column; -10^9 where it cannot run.
    goodputs: Vec<Vec<f64>>,
    /// The column that each job but the newcomer had before.
    before: Vec<usize>,
}

const CANNOT_RUN: f64 = -1e9;

impl PublishedProgram {
    /// The largest value of the objective over all matrices within the constraints, with the newcomer's row.
    fn optimum(&self) -> (f64, Option<usize>) {
        let (jobs, columns) = (self.goodputs.len(), self.columns.len());
        let mut best = (f64::NEG_INFINITY, None);
        // One digit for each row; the newcomer's last digit stands for an empty row.
        for mut number in 0..columns.pow(jobs as u32 - 1) * (columns + 1) {
            let mut rows = Vec::new();
            for _ in 1..jobs {
                rows.push(Some(number % columns));
                number /= columns;
            }
            rows.push((number < columns).then_some(number));
            let mut left = self.capacity;
            let (mut value, mut kept) = (1.0, 0);
            for (job, column) in
                rows.iter().enumerate().filter_map(|(job, column)| column.map(|column| (job, column)))
            {
                left[self.columns[column].0] -= self.columns[column].1;
                value += self.goodputs[job][column];
                let is_newcomer = job + 1 == jobs;
                kept += usize::from(is_newcomer || self.before[job] == column);
                value += if is_newcomer { 1000.0 } else { 0.0 };
            }
            if left.iter().all(|&left| left >= 0) && kept + 3 >= jobs && value > best.0 {
                best = (value, rows[jobs - 1]);
            }
        }
        best
    }

    /// The same by [`adjust`].
    fn adjusted(&self) -> Option<f64> {
        let feasible = |row: &Vec<f64>, bonus: f64| -> (Vec<usize>, Vec<Configuration>) {
            let columns = row.iter().enumerate().filter(|(_, goodput)| **goodput > CANNOT_RUN);
            let configuration = |(column, goodput): (usize, &f64)| {
                let (kind, count) = self.columns[column];
                (column, Configuration { kind, count: count as u32, value: goodput + bonus })
            };
            columns.map(configuration).unzip()
        };
        let (own, others) = self.goodputs.split_last()?;
        let rows: Vec<(Vec<usize>, Vec<Configuration>)> =
            others.iter().map(|row| feasible(row, 0.0)).collect();
        let holders: Vec<Holder<'_>> = rows
            .iter()
            .zip(&self.before)
            .map(|((columns, configurations), before)| Holder {
                configurations,
                current: columns.iter().position(|column| column == before).expect("a feasible column"),
            })
            .collect();
        let capacity = self.capacity.map(|count| count as u32);
        let found = adjust(&capacity, &holders, &feasible(own, 1000.0).1, 3)?;
        let held: f64 = others.iter().zip(&self.before).map(|(row, &before)| row[before]).sum();
        Some(1.0 + held + found.gain)
    }
}

fn published_programs() -> impl Strategy<Value = PublishedProgram> {
    // Square roots of goodputs that grow linearly with the devices, where a job runs at all.
    let columns: Vec<(usize, i64)> =
        [0, 1].into_iter().flat_map(|kind| [1, 4].map(|count| (kind, count))).collect();
    let row = (1..200_u32, 1..400_u32, 1..100_u32, prop::collection::vec(0..4_u8, 4));
    (prop::collection::vec(row, 1..=6), prop::collection::vec(0..4_usize, 5)).prop_map(
        move |(rows, wanted)| {
            let goodput = |useful: u32, speeds: [u32; 2], column: (usize, i64)| {
                (f64::from(useful) / 100.0 * f64::from(speeds[column.0]) / 50.0 * column.1 as f64).sqrt()
            };
            let row = |(one, other, useful, runs): &(u32, u32, u32, Vec<u8>)| -> Vec<f64> {
                let column = |(&column, &runs): (&(usize, i64), &u8)| {
                    if runs == 0 { CANNOT_RUN } else { goodput(*useful, [*one, *other], column) }
                };
                columns.iter().zip(runs).map(column).collect()
            };
            let mut goodputs: Vec<Vec<f64>> = rows.iter().map(row).collect();
            let mut before = Vec::new();
            let mut capacity = [2_i64, 3];
            for (row, &wanted) in goodputs.iter_mut().rev().skip(1).rev().zip(&wanted) {
                // A job that holds a column can run in it, and the devices are there.
                row[wanted] = row[wanted].max(1.0);
                capacity[columns[wanted].0] += columns[wanted].1;
                before.push(wanted);
            }
            PublishedProgram { capacity, columns: columns.clone(), goodputs, before }
        },
    )
}

impl std::fmt::Debug for PublishedProgram {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?} {:?} {:?} {:?}", self.capacity, self.columns, self.goodputs, self.before)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn adjust_on_the_published_program_of_sia_finds_its_optimum(program in published_programs()) {
        let (optimum, newcomer) = program.optimum();
        let found = program.adjusted();
        prop_assert_eq!(found.is_some(), newcomer.is_some());
        if let Some(found) = found {
            prop_assert!((found - optimum).abs() < 1e-6, "{found} is not {optimum}");
        }
    }
}
