//! Where an interior-point solver with a homogeneous embedding ends if there is nothing to make best.
//!
//! Such a solver (the reference's is one) starts with all multipliers at one, and keeps a part of that start's error in
//! proportion to the distance that is left. Its path therefore does not end at the centre of the feasible shares, but
//! where the product of all slacks, each in units of its row, is largest in comparison to their sum: for `D` slacks `s`,
//! where `Σ log s − (D + 1) log (1 + Σ s)` is. For a given sum that is a point of the path of a linear objective, so that a
//! few of those, each with the sum of the last, lead there.

use super::Path;
use crate::sharing::model::Model;

/// Rounds of scaling rows and columns by the roots of their largest entries.
const SCALINGS: usize = 3;
/// Points after which the sum is what it is, and its relative change that ends them earlier.
const SUMS_MAX: usize = 30;
const SUM_TOLERANCE: f64 = 1e-4;

/// What the rows are divided by.
struct Rows {
    shares: Vec<f64>,
    types: Vec<f64>,
    times: Vec<f64>,
    demands: Vec<f64>,
}

/// The shares that such a solver ends at, for a model that has floors and nothing to make best.
pub(in crate::sharing) fn end(model: &mut Model) -> Option<Vec<f64>> {
    let rows = Rows::new(model);
    let types = model.types;
    for cell in 0..model.values.len() {
        let (i, j) = (cell / types, cell % types);
        if model.speeds[cell] > 0.0 {
            let demanded = if model.demands(i) { model.speeds[cell] / rows.demands[i] } else { 0.0 };
            model.values[cell] =
                model.devices[i] / rows.types[j] + 1.0 / rows.times[i] - 1.0 / rows.shares[cell] - demanded;
        }
    }
    let slacks = model.pairs() as f64;
    let mut path = Path::new(model);
    let mut last = f64::INFINITY;
    for _ in 0..SUMS_MAX {
        let sum = rows.sum(&path);
        if (sum / last - 1.0).abs() < SUM_TOLERANCE {
            break;
        }
        last = sum;
        path.product = (1.0 + sum) / (1.0 + slacks);
        path.centre()?;
    }
    let shares = path.centre()?.shares;
    let rates = model.rates(&shares);
    let missed = |i: usize| rates[i] < model.floors[i] * (1.0 - 1e-7);
    (!(0..model.jobs()).any(missed)).then_some(shares)
}

impl Rows {
    fn new(model: &Model) -> Self {
        let (jobs, types) = (model.jobs(), model.types);
        let mut columns = vec![1.0; jobs * types];
        // Demands are in units of the fastest speed, their rows in iterations per second.
        let mut rows = Self {
            shares: vec![1.0; jobs * types],
            types: vec![1.0; types],
            times: vec![1.0; jobs],
            demands: model.fastest.iter().map(|fastest| 1.0 / fastest).collect(),
        };
        for _ in 0..SCALINGS {
            let mut largest = Self {
                shares: vec![0.0; jobs * types],
                types: vec![0.0; types],
                times: vec![0.0; jobs],
                demands: vec![0.0; jobs],
            };
            for (cell, column) in columns.iter_mut().enumerate() {
                let (i, j) = (cell / types, cell % types);
                let share = 1.0 / (rows.shares[cell] * *column);
                let device = model.devices[i] / (rows.types[j] * *column);
                let time = 1.0 / (rows.times[i] * *column);
                let demand = model.speeds[cell] / (rows.demands[i] * *column);
                largest.shares[cell] = share;
                largest.types[j] = largest.types[j].max(device);
                largest.times[i] = largest.times[i].max(time);
                largest.demands[i] = largest.demands[i].max(demand);
                *column *= share.max(device).max(time).max(demand).sqrt();
            }
            let scale = |rows: &mut [f64], largest: &[f64]| {
                rows.iter_mut().zip(largest).for_each(|(row, largest)| *row *= largest.sqrt());
            };
            scale(&mut rows.shares, &largest.shares);
            scale(&mut rows.types, &largest.types);
            scale(&mut rows.times, &largest.times);
            scale(&mut rows.demands, &largest.demands);
        }
        rows
    }

    /// Sum of all slacks at a path's point.
    fn sum(&self, path: &Path<'_>) -> f64 {
        let sum =
            |slacks: &[f64], rows: &[f64]| -> f64 { slacks.iter().zip(rows).map(|(s, row)| s / row).sum() };
        let point = &path.point;
        sum(&point.shares, &self.shares)
            + sum(&point.free, &self.types)
            + sum(&point.idle, &self.times)
            + sum(&point.extra, &self.demands)
    }
}
