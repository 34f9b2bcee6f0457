//! One Newton step: a job is a 2 × 2 block, and only the prices of the types and the level couple them.
//!
//! With the changes of shares eliminated, a job's two equations (its time, its demand) have the matrix
//! `[Q0 + u, −Q1; −Q1, Q2 + 1/o]`, where `Qn` is the sum of `share / reduced × speedⁿ`. Near the end one ratio can be
//! 10²⁰ times another, so that differences of products are taken as products of differences, and speeds are counted
//! from that of the dominating ratio: its own price then is one unknown, instead of the difference of two large ones.

use super::point::Point;
use crate::sharing::model::Model;

/// Pivots are at least this part of what they were before elimination.
const SINGULAR: f64 = 1e-15;

/// The coupling matrix and each job's inverted block.
#[derive(Debug)]
pub(super) struct Newton {
    types: usize,
    /// Per cell: `share / reduced`.
    ratios: Vec<f64>,
    blocks: Vec<Block>,
    /// Lower triangle of the factor of the prices' matrix, row-major.
    factor: Vec<f64>,
    /// Coupling of prices and level, and the level's own entry.
    level_column: Vec<f64>,
    level_entry: f64,
    /// What the last point misses of its equations.
    cells: Vec<f64>,
    times: Vec<f64>,
    demands: Vec<f64>,
    capacities: Vec<f64>,
    gain: f64,
    /// Right sides of the shares' equations with the misses in them, and of the blocks.
    right: Vec<f64>,
    solved: Vec<[f64; 2]>,
}

/// An inverted block, for the price of the job's time less what `pivot` costs at the price of the demand.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    pivot: f64,
    time: f64,
    cross: f64,
    demand: f64,
}

/// What the products of pairs shall become: `target − value × price − correction`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim<'a> {
    pub(super) product: f64,
    /// A step whose own products are taken off, times a factor.
    pub(super) correction: Option<(&'a Point, f64)>,
}

impl Aim<'_> {
    fn of(&self, value: f64, price: f64, correction: impl Fn(&Point) -> f64) -> f64 {
        self.product - value * price - self.correction.map_or(0.0, |(step, scale)| scale * correction(step))
    }
}

impl Block {
    fn solve(&self, time: f64, demand: f64) -> (f64, f64) {
        (self.time * time + self.cross * demand, self.cross * time + self.demand * demand)
    }
}

impl Newton {
    pub(super) fn new(jobs: usize, types: usize) -> Self {
        Self {
            types,
            ratios: vec![0.0; jobs * types],
            blocks: vec![Block::default(); jobs],
            factor: vec![0.0; types * types],
            level_column: vec![0.0; types],
            level_entry: 0.0,
            cells: vec![0.0; jobs * types],
            times: vec![0.0; jobs],
            demands: vec![0.0; jobs],
            capacities: vec![0.0; types],
            gain: 0.0,
            right: vec![0.0; jobs * types],
            solved: vec![[0.0; 2]; jobs],
        }
    }

    /// Computes what a point misses, and the matrix there. False if the matrix has no factor.
    pub(super) fn prepare(&mut self, model: &Model, point: &Point) -> bool {
        self.misses(model, point);
        let types = self.types;
        self.factor.fill(0.0);
        self.level_column.fill(0.0);
        self.level_entry = 0.0;
        for i in 0..model.jobs() {
            let cells = i * types..(i + 1) * types;
            let pairs = point.shares[cells.clone()].iter().zip(&point.reduced[cells.clone()]);
            self.ratios[cells.clone()].iter_mut().zip(pairs).for_each(|(ratio, (x, z))| *ratio = x / z);
            let job = Job {
                ratios: &self.ratios[cells.clone()],
                speeds: &model.speeds[cells],
                idle: point.idle[i] / point.time_prices[i],
                stiffness: if model.demands(i) { point.demand_prices[i] / point.extra[i] } else { 0.0 },
                devices: model.devices[i],
                slope: model.slopes[i],
            };
            self.blocks[i] = job.add_to(&mut self.factor, &mut self.level_column, &mut self.level_entry);
        }
        for j in 0..types {
            self.factor[j * types + j] += point.free[j] / point.prices[j];
        }
        if model.gain > 0.0 {
            if self.level_entry <= 0.0 || !self.level_entry.is_finite() {
                return false;
            }
            for j in 0..types {
                for l in 0..=j {
                    let product = self.level_column[j] * self.level_column[l];
                    self.factor[j * types + l] += product / self.level_entry;
                }
            }
        }
        factorise(&mut self.factor, types)
    }

    fn misses(&mut self, model: &Model, point: &Point) {
        let types = self.types;
        self.gain = model.gain;
        for j in 0..types {
            self.capacities[j] = model.capacities[j] - point.free[j];
        }
        for i in 0..model.jobs() {
            let (time, demand) = (point.time_prices[i], point.demand_prices[i]);
            let (mut spent, mut rate) = (0.0, 0.0);
            for j in 0..types {
                let cell = i * types + j;
                let (share, speed) = (point.shares[cell], model.speeds[cell]);
                let priced = model.devices[i] * point.prices[j] + time - speed * demand - point.reduced[cell];
                self.cells[cell] = if speed > 0.0 { model.values[cell] - priced } else { 0.0 };
                self.capacities[j] -= model.devices[i] * share;
                spent += share;
                rate += speed * share;
            }
            self.times[i] = 1.0 - spent - point.idle[i];
            self.demands[i] = model.floors[i] + model.slopes[i] * point.level + point.extra[i] - rate;
            self.gain -= model.slopes[i] * demand;
        }
    }

    /// The step from `point` that makes up for all misses and brings the products of pairs to their aim.
    pub(super) fn step(&mut self, model: &Model, point: &Point, aim: Aim<'_>, step: &mut Point) {
        let types = self.types;
        let mut prices: Vec<f64> = (0..types)
            .map(|j| {
                let product = aim.of(point.free[j], point.prices[j], |step| step.free[j] * step.prices[j]);
                product / point.prices[j] - self.capacities[j]
            })
            .collect();
        let mut level = self.gain;
        for i in 0..model.jobs() {
            self.right_side(model, point, aim, i);
            let block = self.blocks[i];
            let [time, demand] = self.solved[i];
            let (time, demand) = block.solve(time, demand);
            for (j, price) in prices.iter_mut().enumerate() {
                let cell = i * types + j;
                let coupling = self.ratios[cell] * (time - (model.speeds[cell] - block.pivot) * demand);
                *price += model.devices[i] * (self.right[cell] - coupling);
            }
            level -= model.slopes[i] * demand;
        }
        if model.gain > 0.0 {
            let over = level / self.level_entry;
            prices.iter_mut().zip(&self.level_column).for_each(|(price, column)| *price -= column * over);
        }
        substitute(&self.factor, types, &mut prices);
        step.level = 0.0;
        if model.gain > 0.0 {
            let coupled: f64 =
                prices.iter().zip(&self.level_column).map(|(price, column)| price * column).sum();
            step.level = (level + coupled) / self.level_entry;
        }
        step.prices = prices;
        step.free.copy_from_slice(&self.capacities);
        for i in 0..model.jobs() {
            self.step_of_job(model, point, aim, i, step);
        }
        for j in 0..types {
            let (free, price) = (point.free[j], point.prices[j]);
            if free <= price {
                let product = aim.of(free, price, |step| step.free[j] * step.prices[j]);
                step.free[j] = (product - free * step.prices[j]) / price;
            }
        }
    }

    /// Right sides of a job's equations.
    fn right_side(&mut self, model: &Model, point: &Point, aim: Aim<'_>, i: usize) {
        let pivot = self.blocks[i].pivot;
        let (mut time, mut rate) = (0.0, 0.0);
        for cell in i * self.types..(i + 1) * self.types {
            if model.speeds[cell] <= 0.0 {
                continue;
            }
            let (x, z) = (point.shares[cell], point.reduced[cell]);
            let product = aim.of(x, z, |step| step.shares[cell] * step.reduced[cell]);
            let right = (product + x * self.cells[cell]) / z;
            self.right[cell] = right;
            time += right;
            rate += right * (model.speeds[cell] - pivot);
        }
        let product = aim.of(point.idle[i], point.time_prices[i], |step| step.idle[i] * step.time_prices[i]);
        let idle = product / point.time_prices[i] - self.times[i];
        time += idle;
        let mut demand = 0.0;
        if model.demands(i) {
            let price = point.demand_prices[i];
            let product = aim.of(point.extra[i], price, |step| step.extra[i] * step.demand_prices[i]);
            demand = self.demands[i] - rate + pivot * idle + product / price;
        }
        self.solved[i] = [time, demand];
    }

    fn step_of_job(&self, model: &Model, point: &Point, aim: Aim<'_>, i: usize, step: &mut Point) {
        let block = self.blocks[i];
        let [mut time, mut demand] = self.solved[i];
        demand += model.slopes[i] * step.level;
        let cells = i * self.types..(i + 1) * self.types;
        for (j, cell) in cells.clone().enumerate() {
            let moved = model.devices[i] * self.ratios[cell] * step.prices[j];
            time -= moved;
            demand += (model.speeds[cell] - block.pivot) * moved;
        }
        let (pivoted, demand) = block.solve(time, demand);
        let time = pivoted + block.pivot * demand;
        let (mut spent, mut rate) = (0.0, 0.0);
        for (j, cell) in cells.enumerate() {
            let speed = model.speeds[cell];
            if speed <= 0.0 {
                continue;
            }
            let own = pivoted - (speed - block.pivot) * demand;
            let reduced = model.devices[i] * step.prices[j] + own - self.cells[cell];
            let (x, z) = (point.shares[cell], point.reduced[cell]);
            let product = aim.of(x, z, |step| step.shares[cell] * step.reduced[cell]);
            let share = (product - x * reduced) / z;
            step.shares[cell] = share;
            step.reduced[cell] = reduced;
            step.free[j] -= model.devices[i] * share;
            spent += share;
            rate += share * speed;
        }
        // Where the slack is the larger of its pair, its change follows from the row it is in, so that rounding errors
        // of large ratios do not leave the row unmet; otherwise from the product, so that it stays positive.
        let (idle, price) = (point.idle[i], point.time_prices[i]);
        let product = aim.of(idle, price, |step| step.idle[i] * step.time_prices[i]);
        step.idle[i] = if idle > price { self.times[i] - spent } else { (product - idle * time) / price };
        step.time_prices[i] = time;
        if model.demands(i) {
            let (extra, price) = (point.extra[i], point.demand_prices[i]);
            let product = aim.of(extra, price, |step| step.extra[i] * step.demand_prices[i]);
            let met = rate - model.slopes[i] * step.level - self.demands[i];
            step.extra[i] = if extra > price { met } else { (product - extra * demand) / price };
            step.demand_prices[i] = demand;
        }
    }
}

/// A job's numbers at a point.
struct Job<'a> {
    ratios: &'a [f64],
    speeds: &'a [f64],
    /// Idle time over its price.
    idle: f64,
    /// Price of the demand over the extra rate; zero without demand.
    stiffness: f64,
    devices: f64,
    slope: f64,
}

impl Job<'_> {
    /// Adds the job to the coupling matrix and returns its inverted block.
    fn add_to(&self, matrix: &mut [f64], column: &mut [f64], entry: &mut f64) -> Block {
        let (q, a, types) = (self.ratios, self.speeds, self.ratios.len());
        let (o, u) = (self.stiffness, self.idle);
        let all = self.without(types);
        let determinant = o * all.spread + all.zeroth + o * u * all.second + u;
        let scale = self.devices * self.devices / determinant;
        for j in 0..types {
            if q[j] <= 0.0 {
                continue;
            }
            let rest = self.without(j);
            let own = o * rest.spread + rest.zeroth + o * u * rest.second + u;
            matrix[j * types + j] += scale * q[j] * own;
            let mut apart = 0.0;
            for m in 0..types {
                apart += q[m] * (a[m] - a[j]);
            }
            column[j] += self.slope * self.devices * q[j] * o * (apart - a[j] * u) / determinant;
            for l in 0..j {
                let mut sum = 0.0;
                for m in 0..types {
                    sum += q[m] * (a[m] - a[j]) * (a[m] - a[l]);
                }
                matrix[j * types + l] -= scale * q[j] * q[l] * (o * (sum + a[j] * a[l] * u) + 1.0);
            }
        }
        let demand = o * (all.zeroth + u) / determinant;
        *entry += self.slope * self.slope * demand;
        let pivot = self.pivot();
        let (mut first, mut second) = (-pivot * u, pivot * pivot * u);
        for j in 0..types {
            first += q[j] * (a[j] - pivot);
            second += q[j] * (a[j] - pivot) * (a[j] - pivot);
        }
        Block { pivot, time: (o * second + 1.0) / determinant, cross: o * first / determinant, demand }
    }

    /// Speed of the type with the largest ratio; zero, the speed of idling, if that has a larger one.
    fn pivot(&self) -> f64 {
        let mut largest = (self.idle, 0.0);
        for (&ratio, &speed) in self.ratios.iter().zip(self.speeds) {
            largest = if ratio > largest.0 { (ratio, speed) } else { largest };
        }
        largest.1
    }

    /// Sums over the types but one.
    fn without(&self, one: usize) -> Sums {
        let (q, a) = (self.ratios, self.speeds);
        let mut sums = Sums::default();
        for j in 0..q.len() {
            if j == one {
                continue;
            }
            sums.zeroth += q[j];
            sums.second += q[j] * a[j] * a[j];
            for l in 0..j {
                if l != one {
                    let apart = a[j] - a[l];
                    sums.spread += q[j] * q[l] * apart * apart;
                }
            }
        }
        sums
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    zeroth: f64,
    second: f64,
    /// Over pairs of types: product of ratios × squared difference of speeds.
    spread: f64,
}

/// Cholesky's factor in place of the lower triangle. False if a number is not finite.
fn factorise(matrix: &mut [f64], size: usize) -> bool {
    for j in 0..size {
        let own = matrix[j * size + j];
        let mut pivot = own;
        for m in 0..j {
            pivot -= matrix[j * size + m] * matrix[j * size + m];
        }
        // A pivot that is nothing but rounding errors belongs to prices that can be traded for each other.
        let pivot = pivot.max(SINGULAR * own).max(f64::MIN_POSITIVE).sqrt();
        matrix[j * size + j] = pivot;
        for i in j + 1..size {
            let mut sum = matrix[i * size + j];
            for m in 0..j {
                sum -= matrix[i * size + m] * matrix[j * size + m];
            }
            matrix[i * size + j] = sum / pivot;
        }
    }
    matrix.iter().all(|entry| entry.is_finite())
}

fn substitute(factor: &[f64], size: usize, right: &mut [f64]) {
    for i in 0..size {
        for m in 0..i {
            right[i] -= factor[i * size + m] * right[m];
        }
        right[i] /= factor[i * size + i];
    }
    for i in (0..size).rev() {
        for m in i + 1..size {
            right[i] -= factor[m * size + i] * right[m];
        }
        right[i] /= factor[i * size + i];
    }
}
