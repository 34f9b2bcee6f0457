//! A line search after Moré and Thuente (1994): a step that lowers a function enough, where its slope is small enough.

/// Part of the first slope that the decrease must reach.
const DECREASE: f64 = 1e-3;
/// Part of the first slope that the slope must come down to.
const CURVATURE: f64 = 0.9;
/// Relative width of the interval below which it is not worth going on.
const WIDTH: f64 = 0.1;

/// One end of the interval that holds a good step.
#[derive(Clone, Copy, Debug)]
struct Point {
    step: f64,
    value: f64,
    slope: f64,
}

/// The state of a search; values and slopes at the steps that it asks for are told one by one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    bracketed: bool,
    is_first_stage: bool,
    first: Point,
    best: Point,
    other: Point,
    width: f64,
    former_width: f64,
    step_min: f64,
    step_max: f64,
    limit: f64,
}

impl Search {
    /// A search from 0, where the function has `value` and `slope` (below 0), that tries `step` first.
    pub(super) fn new(value: f64, slope: f64, step: f64, limit: f64) -> Self {
        let first = Point { step: 0.0, value, slope };
        Self {
            bracketed: false,
            is_first_stage: true,
            first,
            best: first,
            other: first,
            width: limit,
            former_width: 2.0 * limit,
            step_min: 0.0,
            step_max: 5.0 * step,
            limit,
        }
    }

    /// Tells the function at `step`. Gives the next step to try; `None` where this one is taken.
    pub(super) fn next(&mut self, step: f64, value: f64, slope: f64) -> Option<f64> {
        let slope_test = DECREASE * self.first.slope;
        let value_test = self.first.value + step * slope_test;
        if self.is_first_stage && value <= value_test && slope >= 0.0 {
            self.is_first_stage = false;
        }
        if self.is_over(step, value, slope, value_test, slope_test) {
            return None;
        }
        let tried = Point { step, value, slope };
        let mut next = if self.is_first_stage && value <= self.best.value && value > value_test {
            // Until a decrease is found, the function less its required decrease is searched.
            let tilt = |point: Point, sign: f64| Point {
                step: point.step,
                value: point.value + sign * point.step * slope_test,
                slope: point.slope + sign * slope_test,
            };
            self.best = tilt(self.best, -1.0);
            self.other = tilt(self.other, -1.0);
            let next = self.interpolate(tilt(tried, -1.0));
            self.best = tilt(self.best, 1.0);
            self.other = tilt(self.other, 1.0);
            next
        } else {
            self.interpolate(tried)
        };
        if self.bracketed {
            let (best, other) = (self.best.step, self.other.step);
            if (other - best).abs() >= 0.66 * self.former_width {
                next = best + 0.5 * (other - best);
            }
            self.former_width = self.width;
            self.width = (other - best).abs();
            (self.step_min, self.step_max) = (best.min(other), best.max(other));
        } else {
            self.step_min = next + 1.1 * (next - self.best.step);
            self.step_max = next + 4.0 * (next - self.best.step);
        }
        next = next.max(0.0).min(self.limit);
        if self.bracketed && (next <= self.step_min || next >= self.step_max || self.is_narrow()) {
            next = self.best.step;
        }
        Some(next)
    }

    fn is_narrow(&self) -> bool {
        self.step_max - self.step_min <= WIDTH * self.step_max
    }

    fn is_over(&self, step: f64, value: f64, slope: f64, value_test: f64, slope_test: f64) -> bool {
        let is_stuck = self.bracketed && (step <= self.step_min || step >= self.step_max || self.is_narrow());
        let is_at_limit = step == self.limit && value <= value_test && slope <= slope_test;
        let is_at_zero = step == 0.0 && (value > value_test || slope >= slope_test);
        let is_good = value <= value_test && slope.abs() <= CURVATURE * -self.first.slope;
        is_stuck || is_at_limit || is_at_zero || is_good
    }

    /// The step that cubic and quadratic interpolation suggest, after which the interval is updated.
    fn interpolate(&mut self, tried: Point) -> f64 {
        let best = self.best;
        let is_opposite = tried.slope * (best.slope / best.slope.abs()) < 0.0;
        let next = if tried.value > best.value {
            self.bracketed = true;
            after_rise(best, tried)
        } else if is_opposite {
            self.bracketed = true;
            after_turn(best, tried)
        } else if tried.slope.abs() < best.slope.abs() {
            self.after_flattening(tried)
        } else if self.bracketed {
            let (gamma, theta) = cubic(self.other, tried, f64::NEG_INFINITY);
            let gamma = if tried.step > self.other.step { -gamma } else { gamma };
            let (p, q) = ((gamma - tried.slope) + theta, ((gamma - tried.slope) + gamma) + self.other.slope);
            tried.step + p / q * (self.other.step - tried.step)
        } else if tried.step > best.step {
            self.step_max
        } else {
            self.step_min
        };
        if tried.value > best.value {
            self.other = tried;
        } else {
            if is_opposite {
                self.other = best;
            }
            self.best = tried;
        }
        next
    }

    fn after_flattening(&self, tried: Point) -> f64 {
        let best = self.best;
        let (gamma, theta) = cubic(best, tried, 0.0);
        let gamma = if tried.step > best.step { -gamma } else { gamma };
        let (p, q) = ((gamma - tried.slope) + theta, (gamma + (best.slope - tried.slope)) + gamma);
        let ratio = p / q;
        let by_cubic = if ratio < 0.0 && gamma != 0.0 {
            tried.step + ratio * (best.step - tried.step)
        } else if tried.step > best.step {
            self.step_max
        } else {
            self.step_min
        };
        let by_secant = tried.step + tried.slope / (tried.slope - best.slope) * (best.step - tried.step);
        let is_cubic_nearer = (by_cubic - tried.step).abs() < (by_secant - tried.step).abs();
        if self.bracketed {
            let next = if is_cubic_nearer { by_cubic } else { by_secant };
            let bound = tried.step + 0.66 * (self.other.step - tried.step);
            if tried.step > best.step { next.min(bound) } else { next.max(bound) }
        } else {
            let is_cubic_farther = (by_cubic - tried.step).abs() > (by_secant - tried.step).abs();
            let next = if is_cubic_farther { by_cubic } else { by_secant };
            next.min(self.step_max).max(self.step_min)
        }
    }
}

fn after_rise(best: Point, tried: Point) -> f64 {
    let (gamma, theta) = cubic(best, tried, f64::NEG_INFINITY);
    let gamma = if tried.step < best.step { -gamma } else { gamma };
    let (p, q) = ((gamma - best.slope) + theta, ((gamma - best.slope) + gamma) + tried.slope);
    let length = tried.step - best.step;
    let by_cubic = best.step + p / q * length;
    let secant = (best.value - tried.value) / length + best.slope;
    let by_quadratic = best.step + best.slope / secant / 2.0 * length;
    if (by_cubic - best.step).abs() < (by_quadratic - best.step).abs() {
        by_cubic
    } else {
        by_cubic + (by_quadratic - by_cubic) / 2.0
    }
}

fn after_turn(best: Point, tried: Point) -> f64 {
    let (gamma, theta) = cubic(best, tried, f64::NEG_INFINITY);
    let gamma = if tried.step > best.step { -gamma } else { gamma };
    let (p, q) = ((gamma - tried.slope) + theta, ((gamma - tried.slope) + gamma) + best.slope);
    let by_cubic = tried.step + p / q * (best.step - tried.step);
    let by_secant = tried.step + tried.slope / (tried.slope - best.slope) * (best.step - tried.step);
    if (by_cubic - tried.step).abs() > (by_secant - tried.step).abs() { by_cubic } else { by_secant }
}

/// The two terms of the minimiser of the cubic through two points with their slopes; the root is taken of no less than
/// `floor`.
fn cubic(from: Point, tried: Point, floor: f64) -> (f64, f64) {
    let theta = 3.0 * (from.value - tried.value) / (tried.step - from.step) + from.slope + tried.slope;
    let scale = theta.abs().max(from.slope.abs()).max(tried.slope.abs());
    let square = (theta / scale) * (theta / scale) - (from.slope / scale) * (tried.slope / scale);
    (scale * square.max(floor).sqrt(), theta)
}
