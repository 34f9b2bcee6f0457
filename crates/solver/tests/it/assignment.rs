//! Assignments: scipy's choice among equals, the structured search against the written-out matrix, degenerate inputs.

use proptest::prelude::*;
use wharf_solver::assignment::{Method, Place, Queues, Unassignable, assign};

#[test]
fn equal_costs_are_decided_as_scipy_decides_them() {
    // From scipy 1.14.1; a dash is a row without a column.
    let table = [
        ("000 000 000", "012"),
        ("0000 0000", "01"),
        ("1212 2112 1122", "021"),
        ("2200 0202 0022 2000", "2013"),
        ("311 131 113 111 022", "12--0"),
        ("11 11 01 10", "--01"),
        ("54454 44444 45445 44455", "1032"),
    ];
    for (matrix, expected) in table {
        let rows: Vec<&str> = matrix.split(' ').collect();
        let digits = rows.iter().flat_map(|row| row.chars());
        let costs: Vec<f64> = digits.filter_map(|digit| digit.to_digit(10)).map(f64::from).collect();
        let columns = assign(rows.len(), rows[0].len(), &costs).expect("finite costs");
        let found: String = columns.iter().map(|col| col.map_or("-".into(), |col| col.to_string())).collect();
        assert_eq!(found, expected, "{matrix}");
    }
}

#[test]
fn invalid_costs_are_rejected_with_a_reason() {
    let wrong = Unassignable::Shape { rows: 2, cols: 2, length: 3 };
    assert_eq!(assign(2, 2, &[1.0; 3]), Err(wrong));
    assert_eq!(assign(1, 2, &[0.0, f64::NAN]), Err(Unassignable::Cost { row: 0, col: 1 }));
    assert_eq!(assign(2, 1, &[0.0, f64::NEG_INFINITY]), Err(Unassignable::Cost { row: 1, col: 0 }));
    let infinite = f64::INFINITY;
    assert_eq!(assign(2, 2, &[1.0, infinite, 1.0, infinite]), Err(Unassignable::Infeasible));
    assert_eq!(assign(2, 2, &[infinite, 1.0, 1.0, infinite]), Ok(vec![Some(1), Some(0)]));
    assert_eq!(assign(0, 3, &[]), Ok(Vec::new()));
    assert_eq!(assign(2, 0, &[]), Ok(vec![None, None]));
}

/// Remaining, wait and speeds.
type Job<'a> = (f64, f64, &'a [f64]);

/// Machines of each type, jobs, and the machine and position of each job.
type Case<'a> = (&'a [usize], &'a [Job<'a>], &'a [(usize, usize)]);

/// What a test owns of the jobs that wait.
#[derive(Debug)]
struct Waiting {
    machines: Vec<usize>,
    remaining: Vec<f64>,
    waits: Vec<f64>,
    speeds: Vec<f64>,
}

impl Waiting {
    fn new(machines: &[usize], jobs: &[Job<'_>]) -> Self {
        Self {
            machines: machines.to_vec(),
            remaining: jobs.iter().map(|job| job.0).collect(),
            waits: jobs.iter().map(|job| job.1).collect(),
            speeds: jobs.iter().flat_map(|job| job.2.iter().copied()).collect(),
        }
    }

    fn queues(&self) -> Queues<'_> {
        Queues {
            remaining: &self.remaining,
            waits: &self.waits,
            speeds: &self.speeds,
            machines: &self.machines,
        }
    }
}

#[test]
fn queues_are_filled_as_scipy_fills_the_written_out_matrix() {
    let same: [Job<'_>; 5] = [(12.0, 0.0, &[1.0, 2.0]); 5];
    let done: [Job<'_>; 4] = [(0.0, 3.0, &[1.0, 1.0]); 4];
    let some_cannot: [Job<'_>; 4] = [
        (10.0, 5.0, &[1.0, 1.0, 0.0]),
        (10.0, 0.0, &[1.0, 1.0, 2.0]),
        (20.0, 7.0, &[1.0, 1.0, 2.0]),
        (5.0, 1.0, &[2.0, 1.0, 0.0]),
    ];
    let long: [Job<'_>; 6] = [
        (8.0, 0.0, &[1.0, 4.0]),
        (4.0, 0.0, &[1.0, 4.0]),
        (2.0, 0.0, &[1.0, 4.0]),
        (1.0, 0.0, &[1.0, 4.0]),
        (4.0, 0.0, &[2.0, 4.0]),
        (8.0, 0.0, &[4.0, 1.0]),
    ];
    // Machine and position of each job, from scipy 1.14.1.
    let table: [Case<'_>; 4] = [
        (&[1, 2], &same, &[(1, 0), (2, 0), (0, 0), (1, 1), (2, 1)]),
        (&[2, 1], &done, &[(0, 0), (1, 0), (2, 0), (0, 1)]),
        (&[1, 0, 1], &some_cannot, &[(0, 0), (1, 1), (1, 0), (0, 1)]),
        (&[1, 1], &long, &[(1, 0), (1, 1), (1, 3), (1, 4), (1, 2), (0, 0)]),
    ];
    for (machines, jobs, expected) in table {
        let waiting = Waiting::new(machines, jobs);
        let places = waiting.queues().exact();
        let found: Vec<(usize, usize)> =
            places.iter().flatten().map(|place| (place.machine, place.position)).collect();
        assert_eq!(found, expected, "{jobs:?} on {machines:?}");
    }
}

#[test]
fn degenerate_queues_have_answers() {
    let job: Job<'_> = (f64::NAN, f64::NAN, &[f64::INFINITY, f64::NAN]);
    for machines in [&[0, 0], &[1, 0], &[0, 3]] {
        let waiting = Waiting::new(machines, &[job, (0.0, 0.0, &[0.0, 0.0]), (-1.0, 0.0, &[1.0, -1.0])]);
        let none = machines.iter().sum::<usize>() == 0;
        assert!(waiting.queues().exact().iter().all(|place| place.is_none() == none));
        assert!(waiting.queues().fast().places.iter().all(|place| place.is_none() == none));
    }
    let none = Waiting::new(&[3, 4], &[]);
    assert!(none.queues().exact().is_empty() && none.queues().fast().places.is_empty());
}

/// Few values, so that costs are often equal.
fn waiting() -> impl Strategy<Value = Waiting> {
    (1_usize..4).prop_flat_map(|types| {
        let job = (0_u8..5, 0_u8..3, proptest::collection::vec(0_u8..4, types));
        (proptest::collection::vec(0_usize..4, types), proptest::collection::vec(job, 1..16), 0.0..1.0_f64)
            .prop_map(|(machines, jobs, noise)| Waiting {
                machines,
                remaining: jobs.iter().map(|job| f64::from(job.0) + noise * f64::from(job.1)).collect(),
                waits: jobs.iter().map(|job| f64::from(job.1)).collect(),
                speeds: jobs.iter().flat_map(|job| job.2.iter().map(|&speed| f64::from(speed))).collect(),
            })
    })
}

/// The whole matrix, as the published simulator writes it.
fn matrix(queues: &Queues<'_>) -> (usize, usize, Vec<f64>) {
    let of_type = |(index, &count): (usize, &usize)| std::iter::repeat_n(index, count);
    let types: Vec<usize> = queues.machines.iter().enumerate().flat_map(of_type).collect();
    let mut costs = Vec::new();
    for job in 0..queues.jobs() {
        for factor in 1..=queues.jobs() {
            let cost = |&kind: &usize| factor as f64 * queues.duration_s(job, kind) + queues.waits[job];
            costs.extend(types.iter().map(cost));
        }
    }
    (queues.jobs(), queues.jobs() * types.len(), costs)
}

/// Whether no two jobs have the same place.
fn is_consistent(places: &[Option<Place>]) -> bool {
    let mut seats: Vec<(usize, usize)> =
        places.iter().flatten().map(|place| (place.machine, place.position)).collect();
    seats.sort_unstable();
    seats.windows(2).all(|pair| pair[0] != pair[1])
}

proptest! {
    #[test]
    fn structured_search_equals_the_matrix(waiting in waiting()) {
        let queues = waiting.queues();
        let places = queues.exact();
        let (rows, cols, costs) = matrix(&queues);
        let machines = cols / rows;
        let columns = assign(rows, cols, &costs).expect("finite costs");
        let found: Vec<Option<usize>> =
            places.iter().map(|place| place.map(|place| place.position * machines + place.machine)).collect();
        prop_assert_eq!(found, columns);
    }

    #[test]
    fn groups_cost_no_more_than_the_matrix(waiting in waiting()) {
        let queues = waiting.queues();
        let (exact, fast) = (queues.exact(), queues.fast());
        prop_assert_eq!(fast.method, Method::Exact);
        prop_assert!(is_consistent(&fast.places));
        prop_assert!(fast.places.iter().all(Option::is_some) == (queues.machines.iter().sum::<usize>() > 0));
        let (least, cost) = (queues.cost(&exact), queues.cost(&fast.places));
        prop_assert!((cost - least).abs() <= 1e-9 * least.abs(), "{} instead of {}", cost, least);
    }
}
