//! The linear systems of one interior-point iteration, in time linear in the number of jobs.

use super::cone::{Scaling, Vector};

/// One job's coefficients, after scaling rows and columns to similar size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Coefficients {
    /// Ratio row: coefficient of the largest ratio (negative) and of the job's inverse rate, and the right side.
    pub ratio: f64,
    pub ratio_y: f64,
    pub ratio_h: f64,
    /// Rows `share >= 0` and `share <= 1`.
    pub lower: f64,
    pub upper: f64,
    pub upper_h: f64,
    /// The job's entry in the row of the devices' sum.
    pub sum: f64,
    /// Cone rows: coefficients of share and inverse rate, and the right side of the third.
    pub cone_x: f64,
    pub cone_y: f64,
    pub cone_h: f64,
}

/// A vector over all rows of one job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rows {
    pub ratio: f64,
    pub lower: f64,
    pub upper: f64,
    pub cone: Vector,
}

/// A vector over one job's variables and rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Both {
    /// The share.
    pub x: f64,
    /// The inverse rate.
    pub y: f64,
    pub rows: Rows,
}

/// The part of such a vector that jobs have in common: the largest ratio, and the row of the devices' sum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shared {
    pub ratio: f64,
    pub sum: f64,
}

/// A linear row's scaling: its inverse square, its square and itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear {
    pub weight: f64,
    pub squared: f64,
    pub scaling: f64,
}

impl Linear {
    pub(super) fn new(slack: f64, multiplier: f64) -> Self {
        let squared = slack / multiplier;
        Self { weight: multiplier / slack, squared, scaling: squared.sqrt() }
    }
}

/// One job's scalings, and what is derived from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    pub ratio: Linear,
    pub lower: Linear,
    pub upper: Linear,
    pub cone: Scaling,
    inverse_xx: f64,
    inverse_xy: f64,
    inverse_yy: f64,
    /// The share of the ratio row's weight that is left once the job's own variables have given way.
    stiffness: f64,
}

impl Weights {
    pub(super) fn new(c: &Coefficients, ratio: Linear, lower: Linear, upper: Linear, cone: Scaling) -> Self {
        let block = cone.block();
        let bounds = c.lower * c.lower * lower.weight + c.upper * c.upper * upper.weight;
        let xx = bounds + c.cone_x * c.cone_x * block.xx;
        let xy = c.cone_x * c.cone_y * block.xy;
        let yy = c.cone_y * c.cone_y * block.yy;
        let pull = ratio.weight * c.ratio_y * c.ratio_y;
        let scale = c.cone_x * c.cone_y;
        // All terms are positive: nothing is lost where one of them dominates.
        let own = bounds * yy + scale * scale * block.determinant;
        let inverse = 1.0 / (own + pull * xx);
        Self {
            ratio,
            lower,
            upper,
            cone,
            inverse_xx: (yy + pull) * inverse,
            inverse_xy: -xy * inverse,
            inverse_yy: xx * inverse,
            stiffness: own * inverse,
        }
    }
}

/// The system for one set of scalings.
#[derive(Debug, Default)]
pub(super) struct Kkt {
    pub weights: Vec<Weights>,
    /// The squared scaling of the devices' sum.
    pub sum_squared: f64,
    /// Whether solutions need refinement: only where scalings differ by many orders of magnitude.
    pub refines: bool,
    ratio_ratio: f64,
    ratio_sum: f64,
    sum_sum: f64,
    residual: Vec<Both>,
    correction: Vec<Both>,
}

/// Rounds of iterative refinement; few are needed, and only near the end of the path.
const REFINEMENTS: usize = 3;
/// Refinement stops when all residuals are this small.
const ACCURACY: f64 = 1e-14;

impl Kkt {
    /// Prepares the couplings from `weights` and `sum_squared`.
    pub(super) fn factor(&mut self, coefficients: &[Coefficients]) {
        let (mut ratio_ratio, mut ratio_sum, mut sum_sum) = (0.0, 0.0, self.sum_squared);
        for (c, w) in coefficients.iter().zip(&self.weights) {
            ratio_ratio += c.ratio * c.ratio * w.ratio.weight * w.stiffness;
            ratio_sum -= c.ratio * c.ratio_y * w.ratio.weight * w.inverse_xy * c.sum;
            sum_sum += c.sum * c.sum * w.inverse_xx;
        }
        (self.ratio_ratio, self.ratio_sum, self.sum_sum) = (ratio_ratio, ratio_sum, sum_sum);
    }

    /// Solves for variables and multipliers; `right` holds the right sides of the variables' and the rows' equations.
    pub(super) fn solve(
        &mut self,
        coefficients: &[Coefficients],
        right: &[Both],
        right_shared: Shared,
        solution: &mut Vec<Both>,
    ) -> Shared {
        solution.resize(coefficients.len(), Both::default());
        let mut shared = self.solve_once(coefficients, right, right_shared, solution);
        if !self.refines {
            return shared;
        }
        let mut residual = std::mem::take(&mut self.residual);
        let mut correction = std::mem::take(&mut self.correction);
        residual.resize(coefficients.len(), Both::default());
        correction.resize(coefficients.len(), Both::default());
        let mut error_before = f64::INFINITY;
        for _ in 0..REFINEMENTS {
            let (rest, error) =
                self.residual(coefficients, right, right_shared, solution, shared, &mut residual);
            if error <= ACCURACY || error > 0.5 * error_before {
                break;
            }
            error_before = error;
            let more = self.solve_once(coefficients, &residual, rest, &mut correction);
            shared.ratio += more.ratio;
            shared.sum += more.sum;
            for (value, more) in solution.iter_mut().zip(&correction) {
                add(value, more);
            }
        }
        self.residual = residual;
        self.correction = correction;
        shared
    }

    fn solve_once(
        &self,
        coefficients: &[Coefficients],
        right: &[Both],
        right_shared: Shared,
        out: &mut [Both],
    ) -> Shared {
        let (mut ratio_right, mut sum_right) = (right_shared.ratio, -right_shared.sum);
        for (((c, w), r), out) in coefficients.iter().zip(&self.weights).zip(right).zip(out.iter_mut()) {
            let cone = w.cone.undo_squared(r.rows.cone);
            let pulled = w.ratio.weight * r.rows.ratio;
            let x = r.x - c.lower * w.lower.weight * r.rows.lower + c.upper * w.upper.weight * r.rows.upper
                - c.cone_x * (cone[0] + cone[1]);
            let y = r.y + c.ratio_y * pulled + c.cone_y * (cone[1] - cone[0]);
            out.x = w.inverse_xx * x + w.inverse_xy * y;
            out.y = w.inverse_xy * x + w.inverse_yy * y;
            ratio_right += c.ratio * pulled - c.ratio * c.ratio_y * w.ratio.weight * out.y;
            sum_right += c.sum * out.x;
        }
        // [ratio_ratio, ratio_sum; ratio_sum, -sum_sum] (ratio, sum) = (ratio_right, -sum_right)
        let determinant = self.ratio_ratio * self.sum_sum + self.ratio_sum * self.ratio_sum;
        let ratio = (ratio_right * self.sum_sum - self.ratio_sum * sum_right) / determinant;
        let sum = (self.ratio_ratio * sum_right + self.ratio_sum * ratio_right) / determinant;
        for (((c, w), r), out) in coefficients.iter().zip(&self.weights).zip(right).zip(out) {
            let (pull_x, pull_y) = (c.sum * sum, c.ratio * c.ratio_y * w.ratio.weight * ratio);
            out.x -= w.inverse_xx * pull_x + w.inverse_xy * pull_y;
            out.y -= w.inverse_xy * pull_x + w.inverse_yy * pull_y;
            out.rows.ratio = w.ratio.weight * (c.ratio * ratio + c.ratio_y * out.y - r.rows.ratio);
            out.rows.lower = w.lower.weight * (-c.lower * out.x - r.rows.lower);
            out.rows.upper = w.upper.weight * (c.upper * out.x - r.rows.upper);
            let (x, y) = (c.cone_x * out.x, c.cone_y * out.y);
            out.rows.cone =
                w.cone.undo_squared([-x - y - r.rows.cone[0], y - x - r.rows.cone[1], -r.rows.cone[2]]);
        }
        Shared { ratio, sum }
    }

    /// What the solution leaves of the right sides, and the largest entry of that.
    fn residual(
        &self,
        coefficients: &[Coefficients],
        right: &[Both],
        right_shared: Shared,
        solution: &[Both],
        shared: Shared,
        out: &mut [Both],
    ) -> (Shared, f64) {
        let mut rest =
            Shared { ratio: right_shared.ratio, sum: right_shared.sum + self.sum_squared * shared.sum };
        let mut error = 0.0_f64;
        for ((((c, w), r), v), out) in
            coefficients.iter().zip(&self.weights).zip(right).zip(solution).zip(out.iter_mut())
        {
            rest.ratio -= c.ratio * v.rows.ratio;
            rest.sum -= c.sum * v.x;
            let (gx, gy) = transposed(c, &v.rows, shared.sum);
            out.x = r.x - gx;
            out.y = r.y - gy;
            let (x, y) = (c.cone_x * v.x, c.cone_y * v.y);
            let squared = w.cone.apply_squared(v.rows.cone);
            out.rows.ratio =
                r.rows.ratio - (c.ratio * shared.ratio + c.ratio_y * v.y) + v.rows.ratio * w.ratio.squared;
            out.rows.lower = r.rows.lower + c.lower * v.x + v.rows.lower * w.lower.squared;
            out.rows.upper = r.rows.upper - c.upper * v.x + v.rows.upper * w.upper.squared;
            out.rows.cone = [
                r.rows.cone[0] + x + y + squared[0],
                r.rows.cone[1] + x - y + squared[1],
                r.rows.cone[2] + squared[2],
            ];
            error = error.max(out.x.abs()).max(out.y.abs()).max(out.rows.ratio.abs());
            error = error.max(out.rows.lower.abs()).max(out.rows.upper.abs());
            error = error.max(out.rows.cone[0].abs()).max(out.rows.cone[1].abs());
        }
        error = error.max(rest.ratio.abs()).max(rest.sum.abs());
        (rest, error)
    }
}

/// The job's columns times multipliers.
pub(super) fn transposed(c: &Coefficients, rows: &Rows, sum: f64) -> (f64, f64) {
    let x =
        -c.lower * rows.lower + c.upper * rows.upper + c.sum * sum - c.cone_x * (rows.cone[0] + rows.cone[1]);
    let y = c.ratio_y * rows.ratio + c.cone_y * (rows.cone[1] - rows.cone[0]);
    (x, y)
}

fn add(value: &mut Both, more: &Both) {
    value.x += more.x;
    value.y += more.y;
    value.rows.ratio += more.rows.ratio;
    value.rows.lower += more.rows.lower;
    value.rows.upper += more.rows.upper;
    for (value, more) in value.rows.cone.iter_mut().zip(&more.rows.cone) {
        *value += more;
    }
}
