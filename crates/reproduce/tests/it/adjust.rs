//! Adjustments of choices against the program of the published simulator, by exhaustive search.

use proptest::prelude::*;
use wharf_reproduce::crius::decisions::{Holder, adjust};
use wharf_solver::choice::Configuration;

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
