//! The sharing programs against the general solver on random clusters, and on clusters that make little sense.

use proptest::prelude::*;
use wharf_solver::lp::{Limits, Lp, Microlp, Outcome, Relation, Solver};
use wharf_solver::sharing::{Finish, Program, Shares};
use wharf_solver::sharing::{
    feasible, finish_time, makespan, makespan_bisect, max_min, max_sum, water_filling,
};

/// A cluster and its jobs, with a number per job for whatever a program needs.
#[derive(Clone, Debug)]
struct Case {
    capacities: Vec<f64>,
    devices: Vec<f64>,
    speeds: Vec<f64>,
    numbers: Vec<f64>,
}

impl Case {
    fn program(&self) -> Program<'_> {
        Program { capacities: &self.capacities, devices: &self.devices, speeds: &self.speeds }
    }

    fn types(&self) -> usize {
        self.capacities.len()
    }

    fn jobs(&self) -> usize {
        self.devices.len()
    }

    /// Whether any speed of a job is on a type with capacity.
    fn runs(&self, job: usize) -> bool {
        let row = &self.speeds[job * self.types()..][..self.types()];
        row.iter().zip(&self.capacities).any(|(&speed, &capacity)| speed > 0.0 && capacity > 0.0)
    }

    fn rate(&self, job: usize, shares: &[f64]) -> f64 {
        let cells = job * self.types()..(job + 1) * self.types();
        shares[cells.clone()].iter().zip(&self.speeds[cells]).map(|(share, speed)| share * speed).sum()
    }

    /// Shares keep all constraints, whatever they were made for.
    fn check(&self, answer: &Shares) {
        let types = self.types();
        assert_eq!(answer.values.len(), self.jobs() * types);
        for (cell, &share) in answer.values.iter().enumerate() {
            assert!((0.0..=1.0 + 1e-9).contains(&share), "share {share}");
            assert!(self.speeds[cell] > 0.0 || share == 0.0, "share {share} where it cannot run");
        }
        for row in answer.values.chunks_exact(types) {
            assert!(row.iter().sum::<f64>() <= 1.0 + 1e-9, "{row:?}");
        }
        for (j, capacity) in self.capacities.iter().enumerate() {
            let shares = answer.values.iter().skip(j).step_by(types);
            let used: f64 = shares.zip(&self.devices).map(|(share, devices)| share * devices).sum();
            assert!(used <= capacity * (1.0 + 1e-9), "{used} of {capacity}");
        }
    }

    /// The shares' constraints as a general program, whose columns have the given values.
    fn general(&self, values: impl Fn(usize) -> f64) -> Lp {
        let types = self.types();
        let mut program = Lp::new();
        for cell in 0..self.jobs() * types {
            // The general solver lets rows be missed by 1e-7, which is a lot of a type that has nothing.
            let usable = self.speeds[cell] > 0.0 && self.capacities[cell % types] > 0.0;
            program.column(values(cell), 0.0, if usable { 1.0 } else { 0.0 });
        }
        for (j, &capacity) in self.capacities.iter().enumerate() {
            let terms: Vec<_> = self.devices.iter().enumerate().map(|(i, &d)| (i * types + j, d)).collect();
            program.row(&terms, Relation::AtMost, capacity);
        }
        for i in 0..self.jobs() {
            let terms: Vec<_> = (i * types..(i + 1) * types).map(|cell| (cell, 1.0)).collect();
            program.row(&terms, Relation::AtMost, 1.0);
        }
        program
    }

    /// Terms of a job's rate times a factor.
    fn rate_terms(&self, job: usize, factor: f64) -> Vec<(usize, f64)> {
        (job * self.types()..(job + 1) * self.types())
            .map(|cell| (cell, factor * self.speeds[cell]))
            .collect()
    }

    /// The best smallest `factor × rate` over some jobs, with lower bounds on `factor × rate` of others.
    fn general_level(&self, rising: &[usize], floors: &[(usize, f64)]) -> Option<f64> {
        let mut program = self.general(|_| 0.0);
        let level = program.column(1.0, 0.0, f64::INFINITY);
        for &i in rising {
            let mut terms = self.rate_terms(i, self.numbers[i]);
            terms.push((level, -1.0));
            program.row(&terms, Relation::AtLeast, 0.0);
        }
        for &(i, floor) in floors {
            program.row(&self.rate_terms(i, self.numbers[i]), Relation::AtLeast, floor);
        }
        Some(Microlp.solve(&program, Limits::default()).optimal()?.objective)
    }

    /// The same with numbers that are closer to each other: the general solver misses rows by 1e-7, which one job's loss
    /// can turn into another's gain of a thousand times that. Speeds are equal or some percent apart for the same reason:
    /// a job to which two types are nearly the same gives one away for nearly nothing.
    fn tame(mut self) -> Self {
        self.speeds.iter_mut().for_each(|speed| *speed = (speed.powf(0.3) * 50.0).round() / 50.0);
        self.numbers.iter_mut().for_each(|number| *number = number.powf(0.3));
        self.devices.iter_mut().for_each(|devices| *devices = devices.min(2.0));
        self
    }

    fn running(&self) -> Vec<usize> {
        (0..self.jobs()).filter(|&i| self.runs(i)).collect()
    }
}

/// Few values for many things, so that ties and empty types are common.
fn cases(jobs: usize) -> impl Strategy<Value = Case> {
    let capacity = prop_oneof![
        1 => Just(0.0),
        3 => (1_u8..=4).prop_map(f64::from),
        3 => 0.2..6.0_f64,
        1 => 10.0..50.0_f64,
    ];
    let speed = prop_oneof![1 => Just(0.0), 2 => (1_u8..=3).prop_map(f64::from), 4 => 0.05..20.0_f64];
    (1_usize..=5, 1..=jobs).prop_flat_map(move |(types, jobs)| {
        (
            proptest::collection::vec(capacity.clone(), types),
            proptest::collection::vec(prop_oneof![3 => Just(1.0), 1 => Just(2.0), 1 => Just(8.0)], jobs),
            proptest::collection::vec(speed.clone(), jobs * types),
            proptest::collection::vec(prop_oneof![1 => Just(1.0), 2 => 0.1..10.0_f64], jobs),
        )
            .prop_map(|(capacities, devices, speeds, numbers)| Case {
                capacities,
                devices,
                speeds,
                numbers,
            })
    })
}

fn close(own: f64, other: f64) -> bool {
    (own - other).abs() <= 1e-6 * other.abs().max(1e-9)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn max_min_random_clusters_is_the_general_optimum(case in cases(14)) {
        let answer = max_min(&case.program(), &case.numbers);
        case.check(&answer);
        prop_assert_eq!(answer.fallback, None);
        let running = case.running();
        if running.is_empty() {
            prop_assert_eq!(answer.objective, 0.0);
            return Ok(());
        }
        let smallest = running.iter().map(|&i| case.numbers[i] * case.rate(i, &answer.values));
        prop_assert!(close(answer.objective, smallest.fold(f64::INFINITY, f64::min)));
        let best = case.general_level(&running, &[]).expect("it is feasible and bounded");
        prop_assert!(close(answer.objective, best), "{} for {best}", answer.objective);
    }

    #[test]
    fn makespan_random_clusters_is_the_general_optimum(case in cases(14)) {
        let answer = makespan(&case.program(), &case.numbers);
        case.check(&answer);
        let factors = Case { numbers: case.numbers.iter().map(|work| 1.0 / work).collect(), ..case.clone() };
        let running = case.running();
        if running.is_empty() {
            prop_assert_eq!(answer.objective, 0.0);
            return Ok(());
        }
        let best = factors.general_level(&running, &[]).expect("it is feasible and bounded");
        prop_assert!(close(answer.objective, 1.0 / best), "{} for {}", answer.objective, 1.0 / best);
        let searched = makespan_bisect(&case.program(), &case.numbers);
        case.check(&searched);
        prop_assert!(searched.objective >= answer.objective * (1.0 - 1e-8));
        for &i in &running {
            let rate = case.rate(i, &searched.values);
            prop_assert!(rate * searched.objective >= case.numbers[i] * (1.0 - 1e-6));
        }
    }

    #[test]
    fn feasible_random_demands_as_the_general_solver_says(case in cases(10), part in 0.5..1.5_f64) {
        // Around what max-min gives everyone, some demands can be met and some cannot.
        let even = max_min(&case.program(), &vec![1.0; case.jobs()]);
        let demands: Vec<f64> = (0..case.jobs()).map(|i| part * case.rate(i, &even.values)).collect();
        let mut program = case.general(|_| 0.0);
        for (i, &demand) in demands.iter().enumerate() {
            program.row(&case.rate_terms(i, 1.0), Relation::AtLeast, demand);
        }
        let possible = matches!(Microlp.solve(&program, Limits::default()), Outcome::Optimal(_));
        match feasible(&case.program(), &demands) {
            Some(answer) => {
                case.check(&answer);
                for (i, demand) in demands.iter().enumerate() {
                    prop_assert!(case.rate(i, &answer.values) >= demand * (1.0 - 1e-6));
                }
                prop_assert!(possible || answer.objective < 1.0 + 1e-6);
            }
            None => prop_assert!(!possible),
        }
    }

    #[test]
    fn max_sum_random_clusters_is_the_general_optimum(case in cases(14), part in proptest::option::of(0.0..1.0_f64)) {
        let values: Vec<f64> =
            case.speeds.iter().enumerate().map(|(cell, speed)| speed * case.numbers[cell / case.types()]).collect();
        let even = max_min(&case.program(), &vec![1.0; case.jobs()]);
        let demands = part.map(|part| -> Vec<f64> {
            (0..case.jobs()).map(|i| part * case.rate(i, &even.values)).collect()
        });
        let answer = max_sum(&case.program(), &values, demands.as_deref());
        case.check(&answer);
        prop_assert_eq!(answer.fallback, None);
        let mut program = case.general(|cell| values[cell]);
        for (i, demand) in demands.iter().flatten().enumerate() {
            prop_assert!(case.rate(i, &answer.values) >= demand * (1.0 - 1e-6));
            program.row(&case.rate_terms(i, 1.0), Relation::AtLeast, *demand * (1.0 - 1e-9));
        }
        let best = Microlp.solve(&program, Limits::default()).optimal().expect("demands are feasible").objective;
        prop_assert!(close(answer.objective, best), "{} for {best}", answer.objective);
    }

    #[test]
    fn finish_time_random_clusters_cannot_be_better(case in cases(12), ages in proptest::collection::vec(0.0..50.0_f64, 12)) {
        let claims: Vec<Finish> = (0..case.jobs())
            .map(|i| Finish { elapsed_s: ages[i], remaining: 10.0 * case.numbers[i], allowance_s: 5.0 + ages[11 - i] })
            .collect();
        let answer = finish_time(&case.program(), &claims);
        case.check(&answer);
        prop_assert_eq!(answer.fallback, None);
        let running = case.running();
        let ratio = |i: usize| {
            (claims[i].elapsed_s + claims[i].remaining / case.rate(i, &answer.values)) / claims[i].allowance_s
        };
        let worst = running.iter().map(|&i| ratio(i)).fold(0.0, f64::max);
        prop_assert!(close(answer.objective, worst), "{} for {worst}", answer.objective);
        if running.is_empty() {
            return Ok(());
        }
        // A ratio that is a little better must be impossible.
        let better = worst * (1.0 - 2e-5);
        let mut program = case.general(|_| 0.0);
        for &i in &running {
            let left = better * claims[i].allowance_s - claims[i].elapsed_s;
            if left <= 0.0 {
                return Ok(());
            }
            program.row(&case.rate_terms(i, 1.0), Relation::AtLeast, claims[i].remaining / left);
        }
        // The general solver lets rows be missed by 1e-7, so that its yes is not always one.
        if let Outcome::Optimal(found) = Microlp.solve(&program, Limits::default()) {
            let missed = running.iter().map(|&i| {
                (claims[i].elapsed_s + claims[i].remaining / case.rate(i, &found.values)) / claims[i].allowance_s
            });
            prop_assert!(missed.fold(0.0, f64::max) > worst * (1.0 - 1e-5));
        }
    }

    #[test]
    fn water_filling_random_clusters_is_lexicographic(case in cases(7).prop_map(Case::tame)) {
        let answer = water_filling(&case.program(), &case.numbers);
        case.check(&answer);
        prop_assert_eq!(answer.fallback, None);
        let level = |i: usize| case.numbers[i] * case.rate(i, &answer.values);
        // Level after level: the best for all that have not stopped; then jobs that cannot be lifted alone stop.
        let mut rising = case.running();
        let mut floors: Vec<(usize, f64)> = Vec::new();
        while !rising.is_empty() {
            let Some(best) = case.general_level(&rising, &floors) else { return Ok(()) };
            let lifted = |&i: &usize| {
                let others = rising.iter().filter(|&&other| other != i).map(|&other| (other, best * (1.0 - 1e-7)));
                let floors: Vec<_> = floors.iter().copied().chain(others).collect();
                case.general_level(&[i], &floors).unwrap_or(best) > best * (1.0 + 1e-4)
            };
            let (on, stopped): (Vec<usize>, Vec<usize>) = rising.iter().copied().partition(lifted);
            if stopped.is_empty() {
                return Ok(());
            }
            for &i in &stopped {
                prop_assert!((level(i) / best - 1.0).abs() < 1e-3, "job {i}: {} for {best}", level(i));
                floors.push((i, best * (1.0 - 1e-7)));
            }
            for &i in &on {
                prop_assert!(level(i) >= best * (1.0 - 1e-6), "job {i}: {} below {best}", level(i));
            }
            rising = on;
        }
    }

    #[test]
    fn equal_jobs_have_equal_shares(case in cases(6)) {
        let (jobs, types) = (case.jobs(), case.types());
        let twice = |values: &[f64]| [values, values].concat();
        let double = Case {
            capacities: case.capacities.clone(),
            devices: twice(&case.devices),
            speeds: twice(&case.speeds),
            numbers: twice(&case.numbers),
        };
        for answer in [
            max_min(&double.program(), &double.numbers),
            makespan_bisect(&double.program(), &double.numbers),
            max_sum(&double.program(), &double.speeds, None),
            water_filling(&double.program(), &double.numbers),
        ] {
            let (first, second) = answer.values.split_at(jobs * types);
            for (one, other) in first.iter().zip(second) {
                prop_assert!((one - other).abs() < 1e-6, "{one} and {other}");
            }
        }
    }

    #[test]
    fn any_numbers_give_shares_that_fit(
        capacities in proptest::collection::vec(-9.0..9.0_f64, 1..=4),
        numbers in proptest::collection::vec((-10.0..9.0_f64, 0_u8..4), 60),
    ) {
        let wide = |&(power, kind): &(f64, u8)| if kind == 0 { 0.0 } else { 10.0_f64.powf(power) };
        let types = capacities.len();
        let jobs = 8;
        let case = Case {
            capacities: capacities.iter().map(|power| 10.0_f64.powf(*power)).collect(),
            devices: numbers[..jobs].iter().map(|&(power, _)| 10.0_f64.powf(power / 5.0)).collect(),
            speeds: numbers[8..8 + jobs * types].iter().map(wide).collect(),
            numbers: numbers[50 - jobs..50].iter().map(wide).collect(),
        };
        let claims: Vec<Finish> = (0..jobs)
            .map(|i| Finish { elapsed_s: case.numbers[i], remaining: case.speeds[i], allowance_s: case.devices[i] })
            .collect();
        case.check(&max_min(&case.program(), &case.numbers));
        case.check(&makespan(&case.program(), &case.numbers));
        case.check(&makespan_bisect(&case.program(), &case.numbers));
        case.check(&finish_time(&case.program(), &claims));
        case.check(&max_sum(&case.program(), &case.speeds, Some(&case.numbers)));
        case.check(&water_filling(&case.program(), &case.numbers));
    }
}

/// Every program on a cluster, whatever its numbers are.
fn all_programs(case: &Case) -> Vec<Shares> {
    let claims: Vec<Finish> = case
        .numbers
        .iter()
        .map(|&number| Finish { elapsed_s: number, remaining: number, allowance_s: 2.0 * number })
        .collect();
    let program = case.program();
    let mut answers = vec![
        max_min(&program, &case.numbers),
        makespan(&program, &case.numbers),
        makespan_bisect(&program, &case.numbers),
        finish_time(&program, &claims),
        max_sum(&program, &case.speeds, None),
        max_sum(&program, &case.speeds, Some(&case.numbers)),
        water_filling(&program, &case.numbers),
    ];
    answers.extend(feasible(&program, &case.numbers));
    answers
}

#[test]
fn all_programs_odd_clusters_have_defined_answers() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let case = |capacities: &[f64], devices: &[f64], speeds: &[f64], numbers: &[f64]| Case {
        capacities: capacities.to_vec(),
        devices: devices.to_vec(),
        speeds: speeds.to_vec(),
        numbers: numbers.to_vec(),
    };
    let odd = [
        ("no jobs", case(&[4.0, 4.0], &[], &[], &[])),
        ("no types", case(&[], &[1.0], &[], &[1.0])),
        ("no capacity", case(&[0.0, 0.0], &[1.0], &[1.0, 2.0], &[1.0])),
        ("one job", case(&[1.0], &[1.0], &[3.0], &[1.0])),
        ("cannot run", case(&[1.0, 1.0], &[1.0, 1.0], &[0.0, 0.0, 1.0, 2.0], &[1.0, 1.0])),
        ("larger than any type", case(&[2.0, 3.0], &[8.0, 1.0], &[5.0, 9.0, 1.0, 1.0], &[1.0, 1.0])),
        ("no devices", case(&[1.0], &[0.0, 1.0], &[1.0, 1.0], &[1.0, 1.0])),
        ("not a number", case(&[nan, 1.0], &[1.0, nan], &[1.0, nan, 1.0, 1.0], &[nan, 1.0])),
        ("infinite", case(&[inf, 1.0], &[1.0, inf], &[inf, 1.0, 1.0, 1.0], &[inf, 1.0])),
        ("negative", case(&[-1.0, 1.0], &[1.0, -1.0], &[-1.0, 1.0, 1.0, 1.0], &[-1.0, 1.0])),
        ("nothing to do", case(&[1.0, 1.0], &[1.0, 1.0], &[1.0, 2.0, 1.0, 2.0], &[0.0, 0.0])),
        ("far apart", case(&[1e9, 1e-9], &[1.0, 1e3], &[1e-10, 1e9, 1e9, 1e-10], &[1e-10, 1e9])),
    ];
    for (name, case) in odd {
        for answer in all_programs(&case) {
            assert_eq!(answer.values.len(), case.jobs() * case.types(), "{name}");
            assert!(
                answer.values.iter().all(|share| (0.0..=1.0 + 1e-9).contains(share)),
                "{name}: {answer:?}"
            );
            assert!(!answer.objective.is_nan(), "{name}: {answer:?}");
        }
    }
}

#[test]
fn job_that_cannot_run_is_omitted_from_the_minimum() {
    let program = Program { capacities: &[1.0, 1.0], devices: &[1.0, 1.0], speeds: &[0.0, 0.0, 1.0, 2.0] };
    let answer = max_min(&program, &[1.0, 1.0]);
    assert_eq!(answer.values[..2], [0.0, 0.0]);
    assert!((answer.objective - 2.0).abs() < 1e-8, "{answer:?}");
    assert_eq!(feasible(&program, &[0.1, 0.1]), None);
}

#[test]
fn demands_that_cannot_be_met_are_dropped_or_cut_and_named() {
    let program = Program { capacities: &[1.0], devices: &[1.0, 1.0], speeds: &[1.0, 1.0] };
    let answer = max_sum(&program, &[1.0, 2.0], Some(&[5.0, 0.0]));
    assert_eq!(answer.fallback, Some("dropped demands that no share could meet"));
    assert!((answer.objective - 2.0).abs() < 1e-6, "{answer:?}");
    let answer = max_sum(&program, &[1.0, 2.0], Some(&[0.8, 0.8]));
    assert_eq!(answer.fallback, Some("cut demands that cannot be met together"));
    assert!((answer.values[0] - 0.5).abs() < 1e-6, "{answer:?}");
}

#[test]
fn remainder_is_spread() {
    // The first job is as fast as it can be with a tenth of the cluster; the others share the rest, none with nothing.
    let program = Program { capacities: &[4.0], devices: &[1.0; 4], speeds: &[0.1, 1.0, 1.0, 1.0] };
    let answer = max_min(&program, &[1.0; 4]);
    assert!((answer.objective - 0.1).abs() < 1e-9);
    assert!(answer.values[1..].iter().all(|&share| (0.3..0.9).contains(&share)), "{answer:?}");
    assert!((answer.values[1] - answer.values[3]).abs() < 1e-9);
}

#[test]
fn water_filling_continues_past_a_cap_that_rounding_hides() {
    // The second job's cap is found by the level itself, with no type full: the fourth can still rise.
    let case = Case {
        capacities: vec![0.4380151967841991, 2.490764910550891, 12.401298444299073, 1.0, 5.363002741670596],
        devices: vec![1.0, 2.0, 1.0, 1.0, 1.0],
        numbers: vec![1.0, 1.9585406438684594, 1.6413384844629233, 1.6726074980493235, 1.0],
        speeds: vec![
            1.0,
            1.674475433400457,
            0.0,
            1.6754236491350496,
            1.2311444133449163, // first job
            1.0,
            1.0,
            1.3903891703159093,
            1.129566060083266,
            1.2311444133449163, // second
            2.013083335307513,
            1.2311444133449163,
            1.0,
            0.0,
            0.4334041517586422, // third
            0.4070905315369044,
            0.0,
            1.9659857745952682,
            0.0,
            0.4070905315369044, // fourth
            0.7219350192669824,
            1.0,
            2.3732645462921944,
            2.4476954431715563,
            1.856483119074619, // fifth
        ],
    };
    let answer = water_filling(&case.program(), &case.numbers);
    let levels: Vec<f64> = (0..5).map(|i| case.numbers[i] * case.rate(i, &answer.values)).collect();
    let cap = |i: usize, fastest: usize| case.numbers[i] * case.speeds[i * 5 + fastest];
    assert!((levels[1] - cap(1, 2)).abs() < 1e-5, "{levels:?}");
    assert!((levels[3] - cap(3, 2)).abs() < 1e-5, "{levels:?}");
}
