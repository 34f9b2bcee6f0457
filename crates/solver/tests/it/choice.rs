//! Choices of configurations against exhaustive search, and against a general solver.

use microlp::{ComparisonOp, OptimizationDirection, Problem as Program};
use proptest::prelude::*;
use wharf_solver::choice::{Choice, Configuration, Limits, Method, Problem, choose};

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
fn solver_without_steps_is_greedy() {
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
