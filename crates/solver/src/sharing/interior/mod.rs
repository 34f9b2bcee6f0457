//! A primal-dual interior-point method for the model, linear in the number of jobs.
//!
//! Mehrotra's predictor and corrector. Every iterate is judged by what it proves: its shares, made feasible, against
//! the bound that its prices give by duality. The two are computed without the method's own residuals, so that an
//! answer is as good as it says even where rounding spoiled the path.

mod embedding;
mod newton;
mod point;

pub(super) use self::embedding::end;

use self::newton::{Aim, Newton};
use self::point::{Point, Reach};
use super::model::Model;

const ITERATIONS_MAX: usize = 100;
/// Relative distance of the bounds that ends the path.
const TOLERANCE: f64 = 1e-10;
/// Iterations without a better proof that end it too.
const PATIENCE: usize = 25;
/// Steps shorter than this part lead along a side.
const SHORT: f64 = 0.2;
const TOWARDS_MIDDLE: f64 = 0.7;
/// Steps towards the centre of the best shares, and the relative change of shares that ends them.
const CENTRING_MAX: usize = 16;
const CENTRED: f64 = 1e-4;
/// A centred point may prove less than the path's end by this much.
const CENTRING_TOLERANCE: f64 = 1e-9;
/// Smaller shares may move as they like.
const SMALL: f64 = 1e-7;

/// What a point of the path proves.
#[derive(Debug)]
pub(super) struct Solved {
    /// Shares that keep all constraints, floors within `gap`.
    pub(super) shares: Vec<f64>,
    /// Their objective, and what none can have more than.
    pub(super) value: f64,
    pub(super) bound: f64,
    /// Relative distance of the two, or what floors miss if that is more.
    pub(super) gap: f64,
    /// Whether more rate for a job would cost the objective.
    pub(super) tight: Vec<bool>,
    /// Whether more devices of a type would help the objective.
    pub(super) full: Vec<bool>,
}

/// A path through the inside of a model's shares.
#[derive(Debug)]
pub(super) struct Path<'a> {
    model: &'a Model,
    point: Point,
    /// Mean product of pairs at the point.
    product: f64,
    newton: Newton,
    step: Point,
}

impl<'a> Path<'a> {
    pub(super) fn new(model: &'a Model) -> Self {
        let (jobs, types) = (model.jobs(), model.types);
        let (point, product) = Point::start(model);
        Self { model, point, product, newton: Newton::new(jobs, types), step: Point::zeros(jobs, types) }
    }

    /// Follows the path to the best shares.
    pub(super) fn follow(&mut self) -> Option<Solved> {
        self.follow_until(|solved| solved.gap <= TOLERANCE)
    }

    /// Follows the path until it proves enough, or all that it can.
    pub(super) fn follow_until(&mut self, enough: impl Fn(&Solved) -> bool) -> Option<Solved> {
        let model = self.model;
        let mut guess = Point::zeros(model.jobs(), model.types);
        let mut best: Option<Solved> = None;
        let mut since = 0;
        let pairs = model.pairs() as f64;
        for _ in 0..ITERATIONS_MAX {
            if !self.newton.prepare(model, &self.point) {
                break;
            }
            self.product = self.point.products(&guess, Reach::NONE) / pairs;
            self.newton.step(model, &self.point, Aim { product: 0.0, correction: None }, &mut guess);
            let reach = self.point.reach(&guess);
            let ratio = self.point.products(&guess, reach) / pairs / self.product;
            let scale = reach.primal * reach.dual;
            let aim = Aim { product: self.product * ratio.powi(3), correction: Some((&guess, scale)) };
            self.newton.step(model, &self.point, aim, &mut self.step);
            let mut reach = self.point.reach(&self.step);
            if reach.primal.min(reach.dual) < SHORT {
                // Too close to a side: towards the middle first.
                let aim = Aim { product: self.product * TOWARDS_MIDDLE, correction: None };
                self.newton.step(model, &self.point, aim, &mut self.step);
                reach = self.point.reach(&self.step);
            }
            if !self.step.is_finite() {
                break;
            }
            self.point.advance(&self.step, reach);
            let proof = prove(model, &self.point);
            since += 1;
            let done = enough(&proof);
            if done || best.as_ref().is_none_or(|best| proof.gap < best.gap) {
                (best, since) = (Some(proof), 0);
            }
            if done || since > PATIENCE {
                break;
            }
        }
        self.product = self.point.products(&guess, Reach::NONE) / pairs;
        best
    }

    /// Continues to where all products of pairs are equal: the centre of the best shares, or of all if there is no
    /// objective. `None` if the way is lost.
    pub(super) fn centre(&mut self) -> Option<Solved> {
        let aim = Aim { product: self.product, correction: None };
        let steps = if self.model.has_objective() { CENTRING_MAX } else { ITERATIONS_MAX };
        for _ in 0..steps {
            if !self.newton.prepare(self.model, &self.point) {
                return None;
            }
            self.newton.step(self.model, &self.point, aim, &mut self.step);
            if !self.step.is_finite() {
                return None;
            }
            let reach = self.point.reach(&self.step);
            let shares = self.point.shares.iter().zip(&self.step.shares).filter(|&(&share, _)| share > SMALL);
            let moved = shares.map(|(share, step)| (step / share).abs()).fold(0.0, f64::max);
            self.point.advance(&self.step, reach);
            if moved < CENTRED && reach.primal >= 1.0 && reach.dual >= 1.0 {
                break;
            }
        }
        Some(prove(self.model, &self.point))
    }
}

/// The best shares, and of those the one in the middle.
pub(super) fn solve(model: &Model) -> Option<Solved> {
    let mut path = Path::new(model);
    if !model.has_objective() {
        return path.centre();
    }
    let best = path.follow()?;
    let centred = path.centre().filter(|centred| centred.gap <= best.gap.max(CENTRING_TOLERANCE));
    Some(centred.unwrap_or(best))
}

/// What a point proves.
fn prove(model: &Model, point: &Point) -> Solved {
    let mut shares = point.shares.clone();
    model.repair(&mut shares);
    let rates = model.rates(&shares);
    let mut value: f64 = shares.iter().zip(&model.values).map(|(share, value)| share * value).sum();
    if model.gain > 0.0 {
        value += model.gain * model.level(&rates);
    }
    let bound = bound(model, point);
    let floors = (0..model.jobs()).filter(|&i| model.slopes[i] <= 0.0 && model.floors[i] > 0.0);
    let missed = floors.map(|i| 1.0 - rates[i] / model.floors[i]).fold(0.0, f64::max);
    let apart = if model.has_objective() { ((bound - value) / bound.abs()).abs() } else { 0.0 };
    let gap = if apart.is_finite() { apart.max(missed) } else { f64::INFINITY };
    let tight = |i| model.demands(i) && point.demand_prices[i] > point.extra[i];
    let full = point.prices.iter().zip(&point.free).map(|(price, free)| price > free);
    Solved { shares, value, bound, gap, tight: (0..model.jobs()).map(tight).collect(), full: full.collect() }
}

/// The dual objective of a point's prices. Prices of time and reduced prices are recomputed, so that nothing but the
/// sign of the other prices is needed for it to be a bound.
fn bound(model: &Model, point: &Point) -> f64 {
    let types = model.types;
    let mut scale = 1.0;
    if model.gain > 0.0 {
        let priced: f64 = point.demand_prices.iter().zip(&model.slopes).map(|(y, slope)| y * slope).sum();
        scale = model.gain / priced;
    }
    let capacities = point.prices.iter().zip(&model.capacities);
    let mut bound: f64 = capacities.map(|(price, capacity)| scale * price * capacity).sum();
    for i in 0..model.jobs() {
        let demand_price = scale * point.demand_prices[i];
        let mut worth = 0.0_f64;
        for j in 0..types {
            let cell = i * types + j;
            let cost = scale * model.devices[i] * point.prices[j];
            worth = worth.max(model.values[cell] + model.speeds[cell] * demand_price - cost);
        }
        bound += worth - model.floors[i] * demand_price;
    }
    bound
}
