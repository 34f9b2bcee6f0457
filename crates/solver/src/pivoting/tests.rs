//! Answers of GLPK 4.65, and of trying everything; factors.

use super::*;

/// Numbers of devices.
const COUNTS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
/// What cannot be.
const X: f64 = -1e9;

/// Jobs get one of the numbers of one of the types each, the last one may get none and is worth a thousand more, and at most
/// three others change what they hold.
struct Case {
    /// Of each job, by type and number.
    values: &'static [&'static [f64]],
    held: Option<&'static [usize]>,
    capacity: &'static [u32],
    given: &'static [Option<usize>],
}

fn program(values: &[&[f64]], held: Option<&[usize]>, capacity: &[u32], bonus: f64) -> Program {
    let (jobs, width) = (values.len(), values[0].len());
    let at = |job: usize, configuration: usize| configuration * jobs + job;
    let mut costs = vec![0.0; jobs * width];
    for (job, row) in values.iter().enumerate() {
        for (configuration, value) in row.iter().enumerate() {
            costs[at(job, configuration)] = -(value + if job + 1 == jobs { bonus } else { 0.0 });
        }
    }
    let all = |job: usize, value: f64| (0..width).map(move |configuration| (at(job, configuration), value));
    let at_most =
        |entries: Vec<(usize, f64)>, upper: f64| Constraint { entries, lower: f64::NEG_INFINITY, upper };
    let mut constraints = vec![at_most(all(jobs - 1, 1.0).collect(), 1.0)];
    for (kind, &capacity) in capacity.iter().enumerate() {
        let columns = at(0, kind * 5)..at(0, kind * 5 + 5);
        let entries = columns.map(|column| (column, COUNTS[column / jobs % 5])).collect();
        constraints.push(at_most(entries, f64::from(capacity)));
    }
    if let Some(held) = held {
        let kept = held.iter().enumerate().map(|(job, &held)| (at(job, held), -1.0));
        constraints.push(at_most(kept.chain(all(jobs - 1, -1.0)).collect(), 3.0 - jobs as f64));
    }
    let one = |job: usize| Constraint { entries: all(job, 1.0).collect(), lower: 1.0, upper: 1.0 };
    constraints.extend((0..jobs - 1).map(one));
    Program { costs, constraints }
}

fn given(found: &[bool], jobs: usize) -> Vec<Option<usize>> {
    let width = found.len() / jobs;
    (0..jobs).map(|job| (0..width).find(|configuration| found[configuration * jobs + job])).collect()
}

/// Made by handing random programs to cvxopt 1.3.3, which has GLPK 4.65, as cvxpy 1.5 does (`glpk.ilp`, defaults, preprocessing on).
#[test]
fn answers_are_those_of_glpk() {
    let cases = [
        Case {
            values: &[
                &[2.3, 4.6, X, X, X, X, 4.6, 6.9, X, X],
                &[X, 0.6, 0.9, 1.2, X, 0.7, 1.4, 2.1, 2.8, 3.5],
                &[X, X, 0.9, 1.2, X, X, X, 5.7, 7.6, 9.5],
                &[X, X, 6.9, X, X, 2.3, 4.6, 6.9, 9.2, 11.5],
            ],
            held: Some(&[0, 1, 2]),
            capacity: &[8, 16],
            given: &[Some(7), Some(7), Some(8), Some(2)],
        },
        Case {
            values: &[&[X, 0.6, 0.9, 1.2, X], &[X, X, 5.7, X, X]],
            held: Some(&[3]),
            capacity: &[16],
            given: &[Some(3), Some(2)],
        },
        Case {
            values: &[&[X, X, 0.9, X, X], &[X, X, 5.7, 7.6, X], &[X, X, 5.7, X, X]],
            held: Some(&[2, 2]),
            capacity: &[8],
            given: &[Some(2), Some(2), None],
        },
        Case {
            values: &[&[X, 3.8, 5.7, 7.6, 9.5], &[1.9, 3.8, 5.7, 7.6, 9.5]],
            held: Some(&[1]),
            capacity: &[4],
            given: &[Some(1), Some(1)],
        },
        Case {
            values: &[
                &[X, 2.2, X, X, X, 1.9, 3.8, X, X, X],
                &[X, X, 2.1, X, X, 0.3, 0.6, 0.9, 1.2, X],
                &[1.9, 3.8, 5.7, 7.6, 9.5, X, 1.4, 2.1, X, X],
            ],
            held: Some(&[6, 2]),
            capacity: &[8, 4],
            given: &[Some(6), Some(6), Some(3)],
        },
        Case {
            values: &[
                &[1.9, X, X, X, X, X, X, 3.3, 4.4, X],
                &[0.3, 0.6, X, X, X, X, X, 5.7, 7.6, 9.5],
                &[2.3, X, X, X, X, 0.7, 1.4, 2.1, 2.8, X],
                &[1.1, 2.2, 3.3, 4.4, 5.5, X, 2.2, 3.3, 4.4, 5.5],
            ],
            held: Some(&[0, 0, 0]),
            capacity: &[4, 8],
            given: &[Some(0), Some(8), Some(0), Some(1)],
        },
        Case {
            values: &[&[X, 4.6, 6.9, 9.2, X], &[X, 4.6, 6.9, X, X]],
            held: Some(&[2]),
            capacity: &[4],
            given: &[Some(1), Some(1)],
        },
        Case {
            values: &[&[X, 1.4, 2.1, X, X, 2.3, 4.6, X, X, X], &[X, X, 2.1, 2.8, 3.5, 2.3, 4.6, 6.9, 9.2, X]],
            held: Some(&[6]),
            capacity: &[8, 4],
            given: &[Some(6), Some(6)],
        },
        Case {
            values: &[&[0.3, X, X, X, X, X, 4.6, 6.9, X, X]],
            held: None,
            capacity: &[8, 4],
            given: &[Some(7)],
        },
        Case {
            values: &[
                &[X, 4.6, 6.9, 9.2, X, 2.3, X, X, X, X],
                &[0.7, 1.4, 2.1, 2.8, X, X, X, 6.9, 9.2, 11.5],
                &[2.3, 4.6, 6.9, X, X, 0.7, X, X, X, X],
                &[X, 0.6, 0.9, 1.2, 1.5, 1.9, X, X, X, X],
            ],
            held: Some(&[1, 1, 2]),
            capacity: &[8, 8],
            given: &[Some(2), Some(7), Some(2), Some(5)],
        },
        Case {
            values: &[&[X, X, 5.7, 7.6, 9.5], &[0.3, 0.6, 0.9, 1.2, 1.5], &[X, X, X, 2.8, 3.5]],
            held: Some(&[2, 4]),
            capacity: &[4],
            given: &[Some(0), Some(0), None],
        },
        Case {
            values: &[&[X, X, 5.7, 7.6, X], &[X, X, 5.7, 7.6, X], &[X, X, 5.7, 7.6, X]],
            held: Some(&[3, 3]),
            capacity: &[16],
            given: &[Some(2), Some(3), Some(2)],
        },
        Case {
            values: &[
                &[X, X, X, X, 5.5],
                &[2.3, 4.6, 6.9, 9.2, X],
                &[X, 2.2, 3.3, 4.4, 5.5],
                &[0.7, 1.4, 2.1, 2.8, X],
            ],
            held: Some(&[4, 2, 3]),
            capacity: &[16],
            given: &[Some(1), Some(0), Some(3), Some(2)],
        },
        Case {
            values: &[
                &[2.3, 4.6, 6.9, X, X, 2.3, 4.6, 6.9, 9.2, 11.5],
                &[2.3, 4.6, 6.9, X, X, 2.3, 4.6, 6.9, 9.2, 11.5],
                &[X, X, X, 2.8, 3.5, X, X, X, 2.8, 3.5],
                &[X, 4.6, 6.9, 9.2, 11.5, X, 3.8, 5.7, 7.6, 9.5],
            ],
            held: Some(&[1, 2, 4]),
            capacity: &[24, 4],
            given: &[Some(2), Some(7), Some(3), Some(3)],
        },
        Case {
            values: &[
                &[1.1, 2.2, 3.3, 4.4, 5.5, 2.3, 4.6, 6.9, X, X],
                &[X, X, X, 7.6, 9.5, X, X, X, X, X],
                &[X, X, 0.9, 1.2, 1.5, X, 4.6, 6.9, 9.2, 11.5],
                &[X, X, X, X, X, X, X, X, 1.2, 1.5],
                &[X, 3.8, 5.7, 7.6, 9.5, X, X, 3.3, 4.4, 5.5],
            ],
            held: Some(&[2, 3, 7, 8]),
            capacity: &[8, 4],
            given: &[Some(2), Some(5), Some(6), Some(5), Some(2)],
        },
        Case {
            values: &[
                &[X, 2.2, 3.3, X, X, X, X, 0.9, 1.2, X],
                &[X, X, X, 9.2, 11.5, X, X, X, X, X],
                &[0.3, 0.6, 0.9, 1.2, 1.5, 1.9, 3.8, 5.7, 7.6, 9.5],
                &[0.3, 0.6, 0.9, 1.2, 1.5, 1.9, 3.8, 5.7, 7.6, 9.5],
            ],
            held: Some(&[7, 3, 6]),
            capacity: &[4, 24],
            given: &[Some(1), Some(0), Some(9), Some(8)],
        },
        Case {
            values: &[
                &[X, X, 2.1, 2.8, 3.5, X, X, X, X, X],
                &[X, 4.6, 6.9, X, X, X, X, X, X, X],
                &[X, 0.6, 0.9, 1.2, 1.5, 1.9, 3.8, 5.7, 7.6, 9.5],
                &[X, X, X, X, X, X, X, X, 2.8, 3.5],
            ],
            held: Some(&[2, 1, 5]),
            capacity: &[4, 12],
            given: &[Some(0), Some(1), Some(7), Some(8)],
        },
        Case {
            values: &[
                &[X, X, X, X, 11.5],
                &[X, 4.6, 6.9, X, X],
                &[X, 4.6, 6.9, X, X],
                &[X, 2.2, 3.3, X, X],
                &[X, 4.6, 6.9, X, X],
            ],
            held: Some(&[4, 2, 2, 1]),
            capacity: &[12],
            given: &[Some(1), Some(2), Some(1), Some(1), Some(1)],
        },
        Case {
            values: &[
                &[X, 3.8, 5.7, 7.6, 9.5, 2.3, 4.6, 6.9, 9.2, 11.5],
                &[X, 1.4, 2.1, X, X, 2.3, 4.6, 6.9, 9.2, 11.5],
                &[X, X, X, 1.2, X, X, X, X, X, X],
                &[0.7, 1.4, 2.1, 2.8, X, X, 1.4, 2.1, 2.8, 3.5],
                &[0.3, 0.6, 0.9, 1.2, X, 1.1, 2.2, 3.3, X, X],
            ],
            held: None,
            capacity: &[4, 48],
            given: &[Some(9), Some(9), Some(5), Some(8), Some(7)],
        },
        Case {
            values: &[
                &[X, 2.2, 3.3, 4.4, 5.5, X, 4.6, 6.9, X, X],
                &[X, X, X, X, 9.5, X, X, X, X, 5.5],
                &[0.7, 1.4, 2.1, X, X, 0.3, 0.6, 0.9, 1.2, 1.5],
                &[X, X, X, X, 9.5, X, X, X, X, 5.5],
                &[X, 4.6, 6.9, 9.2, X, X, X, 5.7, 7.6, 9.5],
            ],
            held: Some(&[3, 4, 5, 4]),
            capacity: &[12, 12],
            given: &[Some(6), Some(0), Some(5), Some(8), Some(3)],
        },
    ];
    for (index, case) in cases.iter().enumerate() {
        let outcome = solve(&program(case.values, case.held, case.capacity, 1000.0));
        let Outcome::Found(found) = outcome else { panic!("case {index}: {outcome:?}") };
        assert_eq!(given(&found, case.values.len()), case.given, "case {index}");
    }
}

/// Where all values count, the best solution is found.
#[test]
fn without_large_costs_it_is_the_best() {
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for round in 0..40 {
        let rows: Vec<Vec<f64>> =
            (0..4).map(|_| (0..10).map(|_| 1.0 + random(1000) as f64 / 100.0).collect()).collect();
        let values: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let capacity = [4 + random(9) as u32, 2 + random(9) as u32];
        let program = program(&values, None, &capacity, 0.0);
        let best = best_of_all(&rows, &capacity);
        let Outcome::Found(found) = solve(&program) else { panic!("round {round}") };
        let value =
            -program.costs.iter().zip(&found).map(|(cost, is)| cost * f64::from(u8::from(*is))).sum::<f64>();
        assert!((value - best).abs() < 1e-6, "round {round}: {value} is not {best}");
    }
}

fn best_of_all(rows: &[Vec<f64>], capacity: &[u32]) -> f64 {
    let Some((row, others)) = rows.split_first() else { return 0.0 };
    let mut best = if others.is_empty() { 0.0 } else { f64::NEG_INFINITY };
    for (configuration, value) in row.iter().enumerate() {
        let (kind, count) = (configuration / 5, COUNTS[configuration % 5] as u32);
        if count <= capacity[kind] {
            let mut left = capacity.to_vec();
            left[kind] -= count;
            best = best.max(value + best_of_all(others, &left));
        }
    }
    best
}

#[test]
fn what_cannot_be_is_told() {
    let one = |lower: f64, upper: f64| Constraint { entries: vec![(0, 1.0), (1, 1.0)], lower, upper };
    let cases = [
        (vec![one(3.0, 4.0)], Outcome::Impossible),
        (vec![one(2.0, 2.0), one(f64::NEG_INFINITY, 1.0)], Outcome::Impossible),
        (vec![one(2.0, 2.0)], Outcome::Found(vec![true, true])),
        (vec![one(f64::NEG_INFINITY, 0.0)], Outcome::Found(vec![false, false])),
        (vec![one(1.0, 1.0)], Outcome::Found(vec![false, true])),
    ];
    for (constraints, expected) in cases {
        let program = Program { costs: vec![2.0, 1.0], constraints };
        assert_eq!(solve(&program), expected, "{program:?}");
    }
}

/// Factors of a random basis, and of each that comes of replacing one of its columns, solve for it.
#[test]
fn factors_follow_a_replaced_column() {
    let mut state = 11_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let size = 12;
    let mut column = |own: usize| -> Vec<(usize, f64)> {
        let others = (0..size).filter(|&row| row != own && random(4) == 0).collect::<Vec<_>>();
        let entries = others.into_iter().map(|row| (row, 1.0 + random(8) as f64));
        let entries: Vec<(usize, f64)> = entries.collect();
        [(own, 9.0 + random(8) as f64)].into_iter().chain(entries).collect()
    };
    let mut columns: Vec<Vec<(usize, f64)>> = (0..size).map(&mut column).collect();
    let mut factors = factors::Factors::new(columns.clone()).expect("an inverse");
    for round in 0..60 {
        let expected: Vec<f64> = (0..size).map(|index| (index + round) as f64 / 8.0).collect();
        let mut found = vec![0.0; size];
        for (entries, value) in columns.iter().zip(&expected) {
            entries.iter().for_each(|&(row, entry)| found[row] += entry * value);
        }
        factors.forward(&mut found);
        let mut prices: Vec<f64> = columns.iter().map(|entries| linear::dot(entries, &expected)).collect();
        factors.backward(&mut prices);
        for (place, value) in expected.iter().enumerate() {
            assert!((found[place] - value).abs() < 1e-9, "round {round}: {found:?} is not {expected:?}");
            assert!((prices[place] - value).abs() < 1e-9, "round {round}: {prices:?} is not {expected:?}");
        }
        let replaced = round % size;
        columns[replaced] = column(replaced);
        if !factors.replace(replaced, &columns[replaced]) {
            factors = factors::Factors::new(columns.clone()).expect("an inverse");
        }
    }
    assert!(factors.replaced() > 30, "{}", factors.replaced());
}

#[test]
fn a_column_that_depends_on_others_has_no_factors() {
    let columns = vec![vec![(0, 1.0), (1, 2.0)], vec![(0, 2.0), (1, 4.0)]];
    assert!(factors::Factors::new(columns).is_none());
}
