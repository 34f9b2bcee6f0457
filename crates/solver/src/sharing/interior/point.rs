//! Where the path is: the variables of the model, those of its dual, and the steps between points.

use crate::sharing::model::Model;

/// Part of the possible that the first shares take, which leaves all slacks positive.
const START: f64 = 0.5;
/// Part of the way to the boundary that a step goes.
const KEEP_INSIDE: f64 = 0.99;

/// Values of all variables, or changes of them.
///
/// In pairs, each a variable and the multiplier that is zero where it is not: share and reduced price, idle time and
/// its price, rate above the demand and its price, idle devices and their price.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    pub(super) shares: Vec<f64>,
    pub(super) reduced: Vec<f64>,
    pub(super) idle: Vec<f64>,
    pub(super) time_prices: Vec<f64>,
    pub(super) extra: Vec<f64>,
    pub(super) demand_prices: Vec<f64>,
    pub(super) free: Vec<f64>,
    pub(super) prices: Vec<f64>,
    pub(super) level: f64,
}

/// How far a step may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub(super) primal: f64,
    pub(super) dual: f64,
}

impl Reach {
    /// No step at all.
    pub(super) const NONE: Self = Self { primal: 0.0, dual: 0.0 };
}

impl Point {
    pub(super) fn zeros(jobs: usize, types: usize) -> Self {
        let (cells, rows, columns) = (vec![0.0; jobs * types], vec![0.0; jobs], vec![0.0; types]);
        Self {
            shares: cells.clone(),
            reduced: cells,
            idle: rows.clone(),
            time_prices: rows.clone(),
            extra: rows.clone(),
            demand_prices: rows,
            free: columns.clone(),
            prices: columns,
            level: 0.0,
        }
    }

    /// A point inside all bounds whose products of pairs are equal, and that product.
    pub(super) fn start(model: &Model) -> (Self, f64) {
        let (jobs, types) = (model.jobs(), model.types);
        let mut point = Self::zeros(jobs, types);
        let occupied: f64 = model.devices.iter().sum();
        point.free.copy_from_slice(&model.capacities);
        for i in 0..jobs {
            let mut idle = 1.0;
            for j in 0..types {
                let cell = i * types + j;
                if model.speeds[cell] > 0.0 {
                    let share = START * (model.capacities[j] / occupied).min(1.0 / types as f64);
                    point.shares[cell] = share;
                    point.free[j] -= share * model.devices[i];
                    idle -= share;
                }
            }
            point.idle[i] = idle;
        }
        let mu = point.start_demands(model);
        let prices = |slacks: &[f64]| -> Vec<f64> { slacks.iter().map(|slack| mu / slack).collect() };
        point.reduced = prices(&point.shares);
        point.time_prices = prices(&point.idle);
        point.prices = prices(&point.free);
        for i in 0..jobs {
            point.demand_prices[i] = if model.demands(i) { mu / point.extra[i] } else { 0.0 };
        }
        for (reduced, &speed) in point.reduced.iter_mut().zip(&model.speeds) {
            *reduced = if speed > 0.0 { *reduced } else { 1.0 };
        }
        (point, mu)
    }

    /// The first product of pairs, and the level and the slacks of demands that go with it.
    ///
    /// The product makes the prices of types about as large as they will be, with half of the devices still free. Were it
    /// smaller, prices would have to grow a thousand times while everything else shrinks, in as many small steps.
    fn start_demands(&mut self, model: &Model) -> f64 {
        let rates = model.rates(&self.shares);
        let product = if model.gain > 0.0 {
            START * model.gain / model.types as f64
        } else {
            let cells = self.shares.len() as f64;
            let value = model.values.iter().map(|value| value.abs()).sum::<f64>() / cells;
            let devices = model.devices.iter().sum::<f64>() / model.jobs() as f64;
            let free = self.free.iter().copied().fold(0.0, f64::max);
            if value > 0.0 { value * (free / devices).clamp(START, model.jobs() as f64) } else { 1.0 }
        };
        if model.gain > 0.0 {
            self.level = start_level(model, &rates, product);
        }
        for (i, &rate) in rates.iter().enumerate() {
            if model.demands(i) {
                let extra = rate - model.floors[i] - model.slopes[i] * self.level;
                self.extra[i] = extra.max(START * rate);
            }
        }
        product
    }

    /// Whether the numbers that all others follow from are finite.
    pub(super) fn is_finite(&self) -> bool {
        let jobs = self.time_prices.iter().chain(&self.demand_prices).sum::<f64>();
        (self.level + jobs + self.prices.iter().sum::<f64>() + self.shares.iter().sum::<f64>()).is_finite()
    }

    /// Longest step along `step` that keeps everything inside, at most one.
    pub(super) fn reach(&self, step: &Self) -> Reach {
        let longest = |values: &[f64], steps: &[f64]| {
            let ratios = values
                .iter()
                .zip(steps)
                .map(|(value, step)| if *step < 0.0 { -value / step } else { f64::INFINITY });
            ratios.fold(f64::INFINITY, f64::min)
        };
        let primal = longest(&self.shares, &step.shares)
            .min(longest(&self.idle, &step.idle))
            .min(longest(&self.extra, &step.extra))
            .min(longest(&self.free, &step.free));
        let dual = longest(&self.reduced, &step.reduced)
            .min(longest(&self.time_prices, &step.time_prices))
            .min(longest(&self.demand_prices, &step.demand_prices))
            .min(longest(&self.prices, &step.prices));
        Reach { primal: (KEEP_INSIDE * primal).min(1.0), dual: (KEEP_INSIDE * dual).min(1.0) }
    }

    pub(super) fn advance(&mut self, step: &Self, reach: Reach) {
        let add = |values: &mut [f64], steps: &[f64], length: f64| {
            values.iter_mut().zip(steps).for_each(|(value, step)| *value += length * step);
        };
        add(&mut self.shares, &step.shares, reach.primal);
        add(&mut self.idle, &step.idle, reach.primal);
        add(&mut self.extra, &step.extra, reach.primal);
        add(&mut self.free, &step.free, reach.primal);
        self.level += reach.primal * step.level;
        add(&mut self.reduced, &step.reduced, reach.dual);
        add(&mut self.time_prices, &step.time_prices, reach.dual);
        add(&mut self.demand_prices, &step.demand_prices, reach.dual);
        add(&mut self.prices, &step.prices, reach.dual);
    }

    /// Sum of the products of pairs, after a step of the given length.
    pub(super) fn products(&self, step: &Self, reach: Reach) -> f64 {
        let sum = |values: &[f64], steps: &[f64], prices: &[f64], price_steps: &[f64]| -> f64 {
            let pairs = values.iter().zip(steps).zip(prices.iter().zip(price_steps));
            pairs.map(|((v, dv), (p, dp))| (v + reach.primal * dv) * (p + reach.dual * dp)).sum()
        };
        sum(&self.shares, &step.shares, &self.reduced, &step.reduced)
            + sum(&self.idle, &step.idle, &self.time_prices, &step.time_prices)
            + sum(&self.extra, &step.extra, &self.demand_prices, &step.demand_prices)
            + sum(&self.free, &step.free, &self.prices, &step.prices)
    }
}

/// The level at which the demands' prices, product over slack, add up to the gain.
fn start_level(model: &Model, rates: &[f64], product: f64) -> f64 {
    let most = model.level(rates);
    let priced = |below: f64| -> f64 {
        let slack = |i: usize| rates[i] - model.floors[i] - model.slopes[i] * (most - below);
        (0..rates.len())
            .filter(|&i| model.slopes[i] > 0.0)
            .map(|i| model.slopes[i] * product / slack(i))
            .sum()
    };
    // All slacks are at least slope × distance below the most, so that jobs × product / gain is far enough.
    let (mut near, mut far) = (0.0, rates.len() as f64 * product / model.gain);
    for _ in 0..40 {
        let middle = f64::midpoint(near, far);
        if priced(middle) > model.gain { near = middle } else { far = middle }
    }
    most - far
}
