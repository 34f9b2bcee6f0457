//! The interior-point path: homogeneous embedding, Nesterov-Todd scaling and Mehrotra's predictor and corrector.
//!
//! The method of ECOS (Domahidi, Chu, Boyd 2013), with its starting point, step rules and tolerances, because the point
//! at which its path ends is the answer that is wanted.

use super::Claim;
use super::cone::{Origin, Scaling, determinant, dot, product, quotient};
use super::kkt::{Both, Coefficients, Kkt, Linear, Rows, Shared, Weights, transposed};

/// Share of the way to the boundary that a step goes, and how far the start is moved inside.
const GAMMA: f64 = 0.99;
const STEP_MIN: f64 = 1e-6;
const STEP_MAX: f64 = 0.999;
const SIGMA_MIN: f64 = 1e-4;
/// Relative infeasibility and gap at which the path ends.
const TOLERANCE: f64 = 1e-8;
const ITERATIONS_MAX: usize = 100;
/// Rounds of row and column scaling.
const EQUILIBRATIONS: usize = 3;
/// Complementarity below which solutions of linear systems are refined.
const REFINED_MU: f64 = 1e-3;
/// Rows and columns with smaller entries are not scaled.
const EMPTY: f64 = 1e-6;

/// A solver that keeps its memory from call to call.
#[derive(Debug, Default)]
pub struct FinishTimeFairness {
    coefficients: Vec<Coefficients>,
    /// Column scaling of the largest ratio and of each share, and the row scaling of the devices' sum.
    ratio_scale: f64,
    share_scale: Vec<f64>,
    sum_h: f64,
    point: Point,
    kkt: Kkt,
    /// Solution for the right side that every iteration has in common, and for the iteration's own.
    constant: Vec<Both>,
    constant_right: Vec<Both>,
    direction: Vec<Both>,
    right: Vec<Both>,
    residual: Vec<Both>,
    lambda: Vec<Rows>,
    origins: Vec<Origin>,
    slack_step: Vec<Rows>,
    multiplier_step: Vec<Rows>,
    centred: Vec<Rows>,
    shares: Vec<f64>,
}

/// Where the path is.
#[derive(Debug, Default)]
struct Point {
    /// Variables and multipliers.
    both: Vec<Both>,
    shared: Shared,
    slack: Vec<Rows>,
    sum_slack: f64,
    tau: f64,
    kappa: f64,
}

/// Scalars of one iteration's residual.
#[derive(Clone, Copy, Debug, Default)]
struct Residual {
    shared: Shared,
    tau: f64,
    gap: f64,
    is_end: bool,
}

/// The rows that jobs have in common, in scaled form.
#[derive(Clone, Copy, Debug, Default)]
struct SumRow {
    lambda: f64,
    slack_step: f64,
    multiplier_step: f64,
    centred: f64,
    scaling: f64,
}

impl FinishTimeFairness {
    /// A solver without memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The shares, in the order of `claims`, of a cluster with this many devices.
    ///
    /// A lone claim gets everything. Claims must have positive throughput, isolated time and devices.
    pub fn solve(&mut self, claims: &[Claim], devices: f64) -> &[f64] {
        self.shares.clear();
        if claims.len() < 2 {
            self.shares.resize(claims.len(), 1.0);
            return &self.shares;
        }
        self.scale(claims, devices);
        self.start();
        for _ in 0..ITERATIONS_MAX {
            let residual = self.residual();
            if residual.is_end || !self.advance(residual) {
                break;
            }
        }
        let tau = self.point.tau;
        self.shares
            .extend(self.point.both.iter().zip(&self.share_scale).map(|(both, scale)| both.x / scale / tau));
        &self.shares
    }

    /// Writes the problem down and scales its rows and columns towards entries of one.
    fn scale(&mut self, claims: &[Claim], devices: f64) {
        self.coefficients.clear();
        self.coefficients.extend(claims.iter().map(|claim| Coefficients {
            ratio: -1.0,
            ratio_y: claim.remaining / claim.isolated,
            ratio_h: -claim.elapsed_s / claim.isolated,
            lower: 1.0,
            upper: 1.0,
            upper_h: 1.0,
            sum: claim.devices,
            cone_x: claim.throughput,
            cone_y: 1.0,
            cone_h: 2.0,
        }));
        self.share_scale.clear();
        self.share_scale.resize(claims.len(), 1.0);
        self.ratio_scale = 1.0;
        self.sum_h = devices;
        let root = |value: f64| if value < EMPTY { 1.0 } else { value.sqrt() };
        for _ in 0..EQUILIBRATIONS {
            let ratio = root(self.coefficients.iter().fold(0.0, |max: f64, c| max.max(c.ratio.abs())));
            let sum = root(self.coefficients.iter().fold(0.0, |max: f64, c| max.max(c.sum)));
            for (c, share_scale) in self.coefficients.iter_mut().zip(&mut self.share_scale) {
                let x = root(c.lower.max(c.upper).max(c.sum).max(c.cone_x));
                let y = root(c.ratio_y.max(c.cone_y));
                let row = root(c.ratio.abs().max(c.ratio_y));
                let (lower, upper) = (root(c.lower), root(c.upper));
                // A cone is scaled as a whole, by the sum of its rows' largest entries; the third row has none.
                let cone = root(2.0 * c.cone_x.max(c.cone_y));
                c.ratio /= row * ratio;
                c.ratio_y /= row * y;
                c.ratio_h /= row;
                c.lower /= lower * x;
                c.upper /= upper * x;
                c.upper_h /= upper;
                c.sum /= sum * x;
                c.cone_x /= cone * x;
                c.cone_y /= cone * y;
                c.cone_h /= cone;
                *share_scale *= x;
            }
            self.sum_h /= sum;
            self.ratio_scale *= ratio;
        }
    }

    /// The cost of the largest ratio, the only variable with one.
    fn cost(&self) -> f64 {
        1.0 / self.ratio_scale
    }

    /// Starts at the solutions of two least-squares problems, moved inside the cones.
    fn start(&mut self) {
        let n = self.coefficients.len();
        let cost = self.cost();
        self.constant_right.clear();
        self.constant_right.extend(self.coefficients.iter().map(|c| Both {
            x: 0.0,
            y: 0.0,
            rows: Rows { ratio: c.ratio_h, lower: 0.0, upper: c.upper_h, cone: [0.0, 0.0, c.cone_h] },
        }));
        self.kkt.weights.clear();
        let one = Linear::new(1.0, 1.0);
        let identity = |c: &Coefficients| Weights::new(c, one, one, one, Scaling::identity());
        self.kkt.weights.extend(self.coefficients.iter().map(identity));
        self.kkt.sum_squared = 1.0;
        self.kkt.refines = true;
        self.kkt.factor(&self.coefficients);

        let point = &mut self.point;
        let right_shared = Shared { ratio: 0.0, sum: self.sum_h };
        let primal = self.kkt.solve(&self.coefficients, &self.constant_right, right_shared, &mut point.both);
        point.slack.clear();
        point.slack.extend(point.both.iter().map(|both| negated(&both.rows)));
        point.sum_slack = -primal.sum;
        move_inside(&mut point.slack, &mut point.sum_slack);

        self.right.clear();
        self.right.resize(n, Both::default());
        let right_shared = Shared { ratio: -cost, sum: 0.0 };
        let dual = self.kkt.solve(&self.coefficients, &self.right, right_shared, &mut self.direction);
        let mut multipliers: Vec<Rows> = self.direction.iter().map(|both| both.rows).collect();
        let mut sum = dual.sum;
        move_inside(&mut multipliers, &mut sum);
        for (both, rows) in point.both.iter_mut().zip(multipliers) {
            both.rows = rows;
        }
        point.shared = Shared { ratio: primal.ratio, sum };
        (point.tau, point.kappa) = (1.0, 1.0);
    }

    /// How far the point is from satisfying the equations, and whether that is near enough.
    fn residual(&mut self) -> Residual {
        let (cost, tau, kappa) = (self.cost(), self.point.tau, self.point.kappa);
        let point = &self.point;
        let shared = point.shared;
        let mut ratio = 0.0;
        let mut sum = point.sum_slack - tau * self.sum_h;
        let mut gap = point.sum_slack * shared.sum;
        let mut height = self.sum_h * shared.sum;
        let mut squares = Squares { h: self.sum_h * self.sum_h, ..Squares::default() };
        squares.x += shared.ratio * shared.ratio;
        squares.s += point.sum_slack * point.sum_slack;
        squares.z += shared.sum * shared.sum;
        self.residual.clear();
        for ((c, v), s) in self.coefficients.iter().zip(&point.both).zip(&point.slack) {
            let z = &v.rows;
            let (gx, gy) = transposed(c, z, shared.sum);
            ratio -= c.ratio * z.ratio;
            sum += c.sum * v.x;
            let (x, y) = (c.cone_x * v.x, c.cone_y * v.y);
            let rows = Rows {
                ratio: s.ratio + c.ratio * shared.ratio + c.ratio_y * v.y - tau * c.ratio_h,
                lower: s.lower - c.lower * v.x,
                upper: s.upper + c.upper * v.x - tau * c.upper_h,
                cone: [s.cone[0] - x - y, s.cone[1] - x + y, s.cone[2] - tau * c.cone_h],
            };
            gap += s.ratio * z.ratio + s.lower * z.lower + s.upper * z.upper + dot(s.cone, z.cone);
            height += c.ratio_h * z.ratio + c.upper_h * z.upper + c.cone_h * z.cone[2];
            squares.x += v.x * v.x + v.y * v.y;
            squares.s += square(s);
            squares.z += square(z);
            squares.h += c.ratio_h * c.ratio_h + c.upper_h * c.upper_h + c.cone_h * c.cone_h;
            squares.primal += square(&rows);
            squares.dual += gx * gx + gy * gy;
            self.residual.push(Both { x: -gx, y: -gy, rows });
        }
        ratio -= tau * cost;
        squares.primal += sum * sum;
        squares.dual += ratio * ratio;
        let value = cost * shared.ratio;
        let is_end = squares.are_small(tau, cost) && is_gap_small(gap, value / tau, -height / tau);
        Residual { shared: Shared { ratio, sum }, tau: kappa + value + height, gap, is_end }
    }

    /// One predictor and corrector step; false where rounding leaves no way forward.
    fn advance(&mut self, residual: Residual) -> bool {
        let n = self.coefficients.len() as f64;
        let (tau, kappa, cost) = (self.point.tau, self.point.kappa, self.cost());
        // One for each row and each cone, and one for the embedding.
        let mu = (residual.gap + kappa * tau) / (4.0 * n + 1.0 + 1.0);
        self.kkt.refines = mu < REFINED_MU;
        let Some(mut sum) = self.rescale() else { return false };
        let constant_shared = Shared { ratio: -cost, sum: self.sum_h };
        let constant =
            self.kkt.solve(&self.coefficients, &self.constant_right, constant_shared, &mut self.constant);
        let denominator = kappa / tau - self.objective(constant, &self.constant);

        // Predictor: straight towards the solution.
        self.right.clear();
        self.right.extend(self.residual.iter().zip(&self.point.slack).map(|(residual, slack)| Both {
            x: residual.x,
            y: residual.y,
            rows: combined(slack, 1.0, &residual.rows, -1.0),
        }));
        let right_shared =
            Shared { ratio: residual.shared.ratio, sum: self.point.sum_slack - residual.shared.sum };
        let own = self.kkt.solve(&self.coefficients, &self.right, right_shared, &mut self.direction);
        let tau_step = (residual.tau - kappa + self.objective(own, &self.direction)) / denominator;
        let kappa_step = -kappa - kappa / tau * tau_step;
        self.multiplier_steps(tau_step);
        sum.multiplier_step = sum.scaling * (own.sum + tau_step * constant.sum);
        sum.slack_step = -sum.multiplier_step - sum.lambda;
        for ((slack, multiplier), lambda) in
            self.slack_step.iter_mut().zip(&self.multiplier_step).zip(&self.lambda)
        {
            *slack = combined(multiplier, -1.0, lambda, -1.0);
        }
        let reach = self.reach(&sum, (tau_step, kappa_step));
        let sigma = (1.0 - reach).powi(3).clamp(SIGMA_MIN, 1.0);

        // Corrector: recentred by how well the predictor did.
        self.centre(&mut sum, sigma * mu);
        let keep = 1.0 - sigma;
        self.right.clear();
        for ((residual, centred), weights) in self.residual.iter().zip(&self.centred).zip(&self.kkt.weights) {
            let rows = combined(&scaled(weights, centred), 1.0, &residual.rows, -keep);
            self.right.push(Both { x: keep * residual.x, y: keep * residual.y, rows });
        }
        let right_shared = Shared {
            ratio: keep * residual.shared.ratio,
            sum: sum.scaling * sum.centred - keep * residual.shared.sum,
        };
        let own = self.kkt.solve(&self.coefficients, &self.right, right_shared, &mut self.direction);
        let kappa_right = kappa * tau + kappa_step * tau_step - sigma * mu;
        let tau_step =
            (keep * residual.tau - kappa_right / tau + self.objective(own, &self.direction)) / denominator;
        let kappa_step = -(kappa_right + kappa * tau_step) / tau;
        self.multiplier_steps(tau_step);
        sum.multiplier_step = sum.scaling * (own.sum + tau_step * constant.sum);
        sum.slack_step = -(sum.centred + sum.multiplier_step);
        for ((slack, multiplier), centred) in
            self.slack_step.iter_mut().zip(&self.multiplier_step).zip(&self.centred)
        {
            *slack = combined(multiplier, -1.0, centred, -1.0);
        }
        let step = self.reach(&sum, (tau_step, kappa_step)) * GAMMA;
        if !(step.is_finite() && tau_step.is_finite()) {
            return false;
        }
        let shared =
            Shared { ratio: own.ratio + tau_step * constant.ratio, sum: own.sum + tau_step * constant.sum };
        self.take_step(step, tau_step, kappa_step, shared, sum.scaling * sum.slack_step);
        true
    }

    /// Scalings and scaled points for the current point; `None` where it is no longer inside the cones.
    fn rescale(&mut self) -> Option<SumRow> {
        let point = &self.point;
        self.kkt.weights.clear();
        self.lambda.clear();
        self.origins.clear();
        for ((c, v), s) in self.coefficients.iter().zip(&point.both).zip(&point.slack) {
            let z = &v.rows;
            let linear = [(s.ratio, z.ratio), (s.lower, z.lower), (s.upper, z.upper)];
            let inside = linear.iter().all(|&(s, z)| s > 0.0 && z > 0.0)
                && determinant(s.cone) > 0.0
                && determinant(z.cone) > 0.0;
            if !inside {
                return None;
            }
            let [ratio, lower, upper] = linear.map(|(s, z)| Linear::new(s, z));
            let weights = Weights::new(c, ratio, lower, upper, Scaling::new(s.cone, z.cone));
            let cone = weights.cone.apply(z.cone);
            self.lambda.push(Rows {
                ratio: ratio.scaling * z.ratio,
                lower: lower.scaling * z.lower,
                upper: upper.scaling * z.upper,
                cone,
            });
            self.origins.push(Origin::new(cone));
            self.kkt.weights.push(weights);
        }
        let (slack, multiplier) = (point.sum_slack, point.shared.sum);
        if !(slack > 0.0 && multiplier > 0.0) {
            return None;
        }
        self.kkt.sum_squared = slack / multiplier;
        self.kkt.factor(&self.coefficients);
        let (lambda, scaling) = ((slack * multiplier).sqrt(), (slack / multiplier).sqrt());
        Some(SumRow { lambda, scaling, ..SumRow::default() })
    }

    /// Cost and right side times a direction.
    fn objective(&self, shared: Shared, direction: &[Both]) -> f64 {
        let own = |(c, v): (&Coefficients, &Both)| {
            c.ratio_h * v.rows.ratio + c.upper_h * v.rows.upper + c.cone_h * v.rows.cone[2]
        };
        let rows: f64 = self.coefficients.iter().zip(direction).map(own).sum();
        self.cost() * shared.ratio + self.sum_h * shared.sum + rows
    }

    /// Scaled multipliers' steps of the whole direction.
    fn multiplier_steps(&mut self, tau_step: f64) {
        self.multiplier_step.clear();
        let parts = self.direction.iter().zip(&self.constant).zip(&self.kkt.weights);
        self.multiplier_step.extend(parts.map(|((own, constant), weights)| {
            scaled(weights, &combined(&own.rows, 1.0, &constant.rows, tau_step))
        }));
        self.slack_step.resize(self.multiplier_step.len(), Rows::default());
    }

    /// The longest step that stays inside all cones.
    fn reach(&self, sum: &SumRow, (tau_step, kappa_step): (f64, f64)) -> f64 {
        let mut rate = (-sum.slack_step / sum.lambda).max(-sum.multiplier_step / sum.lambda);
        rate = rate.max(-tau_step / self.point.tau).max(-kappa_step / self.point.kappa);
        let rows = self.lambda.iter().zip(&self.origins).zip(&self.slack_step).zip(&self.multiplier_step);
        for (((lambda, origin), slack), multiplier) in rows {
            let linear = [
                (lambda.ratio, slack.ratio, multiplier.ratio),
                (lambda.lower, slack.lower, multiplier.lower),
                (lambda.upper, slack.upper, multiplier.upper),
            ];
            for (lambda, slack, multiplier) in linear {
                rate = rate.max(-slack.min(multiplier) / lambda);
            }
            rate = rate.max(origin.exit_rate(slack.cone)).max(origin.exit_rate(multiplier.cone));
        }
        if rate > 0.0 { (1.0 / rate).clamp(STEP_MIN, STEP_MAX) } else { STEP_MAX }
    }

    /// The corrector's target: second-order terms of the predictor, recentred.
    fn centre(&mut self, sum: &mut SumRow, target: f64) {
        let linear = |lambda: f64, slack: f64, multiplier: f64| {
            (lambda * lambda + slack * multiplier - target) / lambda
        };
        sum.centred = linear(sum.lambda, sum.slack_step, sum.multiplier_step);
        self.centred.clear();
        let parts = self.lambda.iter().zip(&self.slack_step).zip(&self.multiplier_step);
        self.centred.extend(parts.map(|((lambda, slack), multiplier)| {
            let mut cone = product(lambda.cone, lambda.cone);
            for (value, more) in cone.iter_mut().zip(product(slack.cone, multiplier.cone)) {
                *value += more;
            }
            cone[0] -= target;
            Rows {
                ratio: linear(lambda.ratio, slack.ratio, multiplier.ratio),
                lower: linear(lambda.lower, slack.lower, multiplier.lower),
                upper: linear(lambda.upper, slack.upper, multiplier.upper),
                cone: quotient(lambda.cone, cone),
            }
        }));
    }

    fn take_step(&mut self, step: f64, tau_step: f64, kappa_step: f64, shared: Shared, sum_slack_step: f64) {
        let point = &mut self.point;
        for (index, both) in point.both.iter_mut().enumerate() {
            let (own, constant) = (&self.direction[index], &self.constant[index]);
            both.x += step * (own.x + tau_step * constant.x);
            both.y += step * (own.y + tau_step * constant.y);
            let rows = combined(&own.rows, 1.0, &constant.rows, tau_step);
            both.rows = combined(&both.rows, 1.0, &rows, step);
            let slack = scaled(&self.kkt.weights[index], &self.slack_step[index]);
            point.slack[index] = combined(&point.slack[index], 1.0, &slack, step);
        }
        point.shared.ratio += step * shared.ratio;
        point.shared.sum += step * shared.sum;
        point.sum_slack += step * sum_slack_step;
        point.tau += step * tau_step;
        point.kappa += step * kappa_step;
    }
}

/// Squared norms of an iterate and its residuals.
#[derive(Clone, Copy, Debug, Default)]
struct Squares {
    x: f64,
    s: f64,
    z: f64,
    h: f64,
    primal: f64,
    dual: f64,
}

impl Squares {
    fn are_small(&self, tau: f64, cost: f64) -> bool {
        let primal = self.primal.sqrt() / (self.h.sqrt().max(1.0) + self.x.sqrt() + self.s.sqrt()) / tau;
        let dual = self.dual.sqrt() / (cost.max(1.0) + self.z.sqrt()) / tau;
        primal < TOLERANCE && dual < TOLERANCE
    }
}

fn is_gap_small(gap: f64, primal_cost: f64, dual_cost: f64) -> bool {
    let relative = match (primal_cost < 0.0, dual_cost > 0.0) {
        (true, _) => gap / -primal_cost,
        (_, true) => gap / dual_cost,
        _ => f64::INFINITY,
    };
    gap < TOLERANCE || relative < TOLERANCE
}

fn square(rows: &Rows) -> f64 {
    rows.ratio * rows.ratio + rows.lower * rows.lower + rows.upper * rows.upper + dot(rows.cone, rows.cone)
}

fn negated(rows: &Rows) -> Rows {
    Rows { ratio: -rows.ratio, lower: -rows.lower, upper: -rows.upper, cone: rows.cone.map(|value| -value) }
}

/// `a * a_factor + b * b_factor`.
fn combined(a: &Rows, a_factor: f64, b: &Rows, b_factor: f64) -> Rows {
    let mix = |a: f64, b: f64| a_factor * a + b_factor * b;
    Rows {
        ratio: mix(a.ratio, b.ratio),
        lower: mix(a.lower, b.lower),
        upper: mix(a.upper, b.upper),
        cone: [mix(a.cone[0], b.cone[0]), mix(a.cone[1], b.cone[1]), mix(a.cone[2], b.cone[2])],
    }
}

/// Applies a job's scalings.
fn scaled(weights: &Weights, rows: &Rows) -> Rows {
    Rows {
        ratio: rows.ratio * weights.ratio.scaling,
        lower: rows.lower * weights.lower.scaling,
        upper: rows.upper * weights.upper.scaling,
        cone: weights.cone.apply(rows.cone),
    }
}

/// Moves a point inside all cones, by the same amount in each.
fn move_inside(rows: &mut [Rows], sum: &mut f64) {
    let mut depth = -GAMMA;
    let mut consider = |value: f64| {
        if value <= 0.0 && -value > depth {
            depth = -value;
        }
    };
    consider(*sum);
    for row in rows.iter() {
        consider(row.ratio);
        consider(row.lower);
        consider(row.upper);
        consider(row.cone[0] - (row.cone[1] * row.cone[1] + row.cone[2] * row.cone[2]).sqrt());
    }
    let shift = depth + 1.0;
    *sum += shift;
    for row in rows {
        row.ratio += shift;
        row.lower += shift;
        row.upper += shift;
        row.cone[0] += shift;
    }
}
