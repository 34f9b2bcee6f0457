//! Minimises a smooth function within bounds by limited-memory BFGS (Byrd, Lu, Nocedal and Zhu 1995; Morales and Nocedal
//! 2011), step by step as L-BFGS-B 3.0 does, on matrices that are small enough to be written out.

use super::line_search::Search;

/// Pairs of steps that are remembered.
const MEMORY: usize = 10;
/// Line-search evaluations before the memory is dropped.
const EVALUATIONS_MAX: u32 = 20;

/// A function's value and gradient.
pub(super) type Evaluation<const N: usize> = (f64, [f64; N]);

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Relative decrease of the function in one step.
    pub(super) decrease: f64,
    /// Largest component of the projected gradient.
    pub(super) gradient: f64,
    /// Steps at most.
    pub(super) steps: u32,
}

/// Box constraints.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds<const N: usize> {
    pub(super) lower: [f64; N],
    pub(super) upper: [f64; N],
}

struct Descent<const N: usize> {
    bounds: Bounds<N>,
    pairs: Vec<([f64; N], [f64; N])>,
    theta: f64,
}

/// The point where the descent from `start` ends.
pub(super) fn minimise<const N: usize>(
    start: [f64; N],
    bounds: Bounds<N>,
    limits: Limits,
    mut function: impl FnMut(&[f64; N]) -> Evaluation<N>,
) -> [f64; N] {
    let mut descent = Descent { bounds, pairs: Vec::new(), theta: 1.0 };
    let mut x = bounds.project(start);
    let (mut value, mut gradient) = function(&x);
    let mut steps = 0;
    // A gradient that is no number stops the descent as well.
    while bounds.projected_norm(&x, &gradient) > limits.gradient && steps < limits.steps {
        let target = descent.target(&x, &gradient);
        let direction: [f64; N] = std::array::from_fn(|index| target[index] - x[index]);
        let found = descent.search(steps == 0, &x, (value, &gradient), &target, &mut function);
        let Some((step, next, (next_value, next_gradient))) = found else {
            if descent.pairs.is_empty() {
                break;
            }
            descent.pairs.clear();
            descent.theta = 1.0;
            continue;
        };
        steps += 1;
        let decrease = value - next_value;
        let is_flat = decrease <= limits.decrease * value.abs().max(next_value.abs()).max(1.0);
        let is_stationary = bounds.projected_norm(&next, &next_gradient) <= limits.gradient;
        if !is_flat && !is_stationary {
            descent.remember(step, &direction, &gradient, &next_gradient);
        }
        (x, value, gradient) = (next, next_value, next_gradient);
        if is_flat || is_stationary {
            break;
        }
    }
    x
}

impl<const N: usize> Bounds<N> {
    fn project(&self, x: [f64; N]) -> [f64; N] {
        std::array::from_fn(|index| x[index].max(self.lower[index]).min(self.upper[index]))
    }

    /// The largest component of the gradient after it is cut off at the bounds.
    fn projected_norm(&self, x: &[f64; N], gradient: &[f64; N]) -> f64 {
        (0..N).fold(0.0, |norm: f64, index| {
            let slope = gradient[index];
            let cut = if slope < 0.0 {
                slope.max(x[index] - self.upper[index])
            } else {
                slope.min(x[index] - self.lower[index])
            };
            norm.max(cut.abs())
        })
    }
}

impl<const N: usize> Descent<N> {
    /// The approximate Hessian: a multiple of the identity, changed by the remembered pairs from old to new.
    fn hessian(&self) -> [[f64; N]; N] {
        let mut hessian = [[0.0; N]; N];
        for (index, row) in hessian.iter_mut().enumerate() {
            row[index] = self.theta;
        }
        for (step, change) in &self.pairs {
            let image = multiply(&hessian, step);
            let (bend, curvature) = (dot(step, &image), dot(step, change));
            for row in 0..N {
                for column in 0..N {
                    hessian[row][column] +=
                        change[row] * change[column] / curvature - image[row] * image[column] / bend;
                }
            }
        }
        hessian
    }

    /// Where the quadratic model is least: first along the projected gradient, then among the variables off their bounds.
    fn target(&self, x: &[f64; N], gradient: &[f64; N]) -> [f64; N] {
        let hessian = self.hessian();
        let (cauchy, is_free) = self.cauchy(&hessian, x, gradient);
        if self.pairs.is_empty() {
            return cauchy;
        }
        let free: Vec<usize> = (0..N).filter(|&index| is_free[index]).collect();
        let moved: [f64; N] = std::array::from_fn(|index| cauchy[index] - x[index]);
        let image = multiply(&hessian, &moved);
        let mut matrix: Vec<Vec<f64>> =
            free.iter().map(|&row| free.iter().map(|&column| hessian[row][column]).collect()).collect();
        let mut newton: Vec<f64> = free.iter().map(|&index| -(gradient[index] + image[index])).collect();
        if free.is_empty() || !solve(&mut matrix, &mut newton) {
            return cauchy;
        }
        self.subspace(x, gradient, cauchy, &free, &newton)
    }

    /// The Newton point within the bounds: projected where that still goes down, cut short otherwise.
    fn subspace(
        &self,
        x: &[f64; N],
        gradient: &[f64; N],
        cauchy: [f64; N],
        free: &[usize],
        newton: &[f64],
    ) -> [f64; N] {
        let Bounds { lower, upper } = &self.bounds;
        let mut target = cauchy;
        let mut is_cut = false;
        for (&index, &step) in free.iter().zip(newton) {
            target[index] = (cauchy[index] + step).max(lower[index]).min(upper[index]);
            is_cut |= target[index] == lower[index] || target[index] == upper[index];
        }
        let slope: f64 = (0..N).map(|index| (target[index] - x[index]) * gradient[index]).sum();
        if !is_cut || slope <= 0.0 {
            return target;
        }
        let mut length = 1.0;
        let mut blocking = None;
        for (&index, &step) in free.iter().zip(newton) {
            let room = if step < 0.0 { lower[index] - cauchy[index] } else { upper[index] - cauchy[index] };
            let is_beyond = if step < 0.0 { step * length < room } else { step * length > room };
            if step != 0.0 && is_beyond {
                length = (room / step).max(0.0);
                blocking = Some((index, if step < 0.0 { lower[index] } else { upper[index] }));
            }
        }
        let mut target = cauchy;
        for (&index, &step) in free.iter().zip(newton) {
            target[index] += length * step;
        }
        if let Some((index, bound)) = blocking {
            target[index] = bound;
        }
        target
    }

    /// The first minimum of the model along the projected gradient, and which variables are off their bounds there.
    fn cauchy(&self, hessian: &[[f64; N]; N], x: &[f64; N], gradient: &[f64; N]) -> ([f64; N], [bool; N]) {
        let Bounds { lower, upper } = &self.bounds;
        let mut direction = [0.0; N];
        let mut is_free = [true; N];
        let mut breaks: Vec<(f64, usize)> = Vec::new();
        for index in 0..N {
            let down = -gradient[index];
            let is_held = lower[index] == upper[index]
                || (x[index] <= lower[index] && down <= 0.0)
                || (x[index] >= upper[index] && down >= 0.0);
            if is_held {
                is_free[index] = false;
                continue;
            }
            direction[index] = down;
            let room = if down < 0.0 { lower[index] - x[index] } else { upper[index] - x[index] };
            if down != 0.0 && room.is_finite() {
                breaks.push((room / down, index));
            }
        }
        breaks.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut moved = [0.0; N];
        let mut point = *x;
        let mut time = 0.0;
        let mut slope = -dot(&direction, &direction);
        let mut bend = self.theta * -slope;
        if !self.pairs.is_empty() {
            bend = dot(&direction, &multiply(hessian, &direction));
        }
        let bend_floor = f64::EPSILON * bend;
        let mut best = -slope / bend;
        for (at, index) in breaks {
            if best < at - time {
                break;
            }
            for other in 0..N {
                moved[other] += (at - time) * direction[other];
            }
            time = at;
            point[index] = if direction[index] > 0.0 { upper[index] } else { lower[index] };
            moved[index] = point[index] - x[index];
            direction[index] = 0.0;
            is_free[index] = false;
            let image = multiply(hessian, &direction);
            slope = dot(gradient, &direction) + dot(&image, &moved);
            bend = dot(&image, &direction).max(bend_floor);
            best = if direction.iter().all(|&part| part == 0.0) { 0.0 } else { -slope / bend };
        }
        let time = time + best.max(0.0);
        for index in 0..N {
            if is_free[index] {
                point[index] = x[index] + time * direction[index];
            }
        }
        (point, is_free)
    }

    /// Searches on the way to a target; `None` where that does not go down.
    fn search(
        &self,
        is_first: bool,
        x: &[f64; N],
        (value, gradient): (f64, &[f64; N]),
        target: &[f64; N],
        function: &mut impl FnMut(&[f64; N]) -> Evaluation<N>,
    ) -> Option<(f64, [f64; N], Evaluation<N>)> {
        let direction: [f64; N] = std::array::from_fn(|index| target[index] - x[index]);
        let slope = dot(gradient, &direction);
        if slope.is_nan() || slope >= 0.0 {
            return None;
        }
        let limit = if is_first { 1.0 } else { self.longest(x, &direction) };
        let mut step = if is_first { (1.0 / dot(&direction, &direction).sqrt()).min(limit) } else { 1.0 };
        if step > limit {
            return None;
        }
        let mut search = Search::new(value, slope, step, limit);
        for _ in 0..EVALUATIONS_MAX {
            let next = if step == 1.0 {
                *target
            } else {
                self.bounds.project(std::array::from_fn(|index| step * direction[index] + x[index]))
            };
            let (next_value, next_gradient) = function(&next);
            match search.next(step, next_value, dot(&next_gradient, &direction)) {
                None => return Some((step, next, (next_value, next_gradient))),
                Some(other) => step = other,
            }
        }
        None
    }

    /// How far the direction can be followed within the bounds.
    fn longest(&self, x: &[f64; N], direction: &[f64; N]) -> f64 {
        let Bounds { lower, upper } = &self.bounds;
        let mut longest = 1e10;
        for index in 0..N {
            let part = direction[index];
            let room = if part < 0.0 { lower[index] - x[index] } else { upper[index] - x[index] };
            if part < 0.0 && room >= 0.0 || part > 0.0 && room <= 0.0 {
                longest = 0.0;
            } else if part < 0.0 && part * longest < room || part > 0.0 && part * longest > room {
                longest = room / part;
            }
        }
        longest
    }

    fn remember(&mut self, step: f64, direction: &[f64; N], before: &[f64; N], after: &[f64; N]) {
        let change: [f64; N] = std::array::from_fn(|index| after[index] - before[index]);
        let moved = direction.map(|part| step * part);
        let curvature = dot(&change, &moved);
        if curvature <= f64::EPSILON * -dot(before, &moved) {
            return;
        }
        self.theta = dot(&change, &change) / curvature;
        if self.pairs.len() == MEMORY {
            self.pairs.remove(0);
        }
        self.pairs.push((moved, change));
    }
}

fn dot<const N: usize>(one: &[f64; N], other: &[f64; N]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn multiply<const N: usize>(matrix: &[[f64; N]; N], vector: &[f64; N]) -> [f64; N] {
    std::array::from_fn(|row| dot(&matrix[row], vector))
}

/// Solves a small system in place by elimination; `false` where it is singular.
fn solve(matrix: &mut [Vec<f64>], right: &mut [f64]) -> bool {
    let size = right.len();
    for pivot in 0..size {
        let largest = (pivot..size)
            .max_by(|&one, &other| matrix[one][pivot].abs().total_cmp(&matrix[other][pivot].abs()))
            .unwrap_or(pivot);
        matrix.swap(pivot, largest);
        right.swap(pivot, largest);
        let head = matrix[pivot][pivot];
        if head == 0.0 || !head.is_finite() {
            return false;
        }
        for row in pivot + 1..size {
            let factor = matrix[row][pivot] / head;
            let (above, below) = matrix.split_at_mut(row);
            for (to, from) in below[0][pivot..].iter_mut().zip(&above[pivot][pivot..]) {
                *to -= factor * from;
            }
            right[row] -= factor * right[pivot];
        }
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|column| matrix[row][column] * right[column]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_minima_inside_and_on_the_bounds() {
        let limits = Limits { decrease: 1e-15, gradient: 1e-8, steps: 200 };
        // Rosenbrock's valley, whose free minimum is at (1, 1).
        let valley = |x: &[f64; 2]| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            (a * a + 100.0 * b * b, [-2.0 * a - 400.0 * x[0] * b, 200.0 * b])
        };
        for (upper, expected) in [([9.0, 9.0], [1.0, 1.0]), ([0.5, 9.0], [0.5, 0.25])] {
            let bounds = Bounds { lower: [-2.0; 2], upper };
            let found = minimise([-1.2, 1.0], bounds, limits, valley);
            for index in 0..2 {
                assert!((found[index] - expected[index]).abs() < 1e-5, "{found:?} is not {expected:?}");
            }
        }
    }

    #[test]
    fn a_variable_without_room_stays() {
        let limits = Limits { decrease: 1e-12, gradient: 1e-9, steps: 50 };
        let bowl = |x: &[f64; 2]| (x[0] * x[0] + x[1] * x[1], [2.0 * x[0], 2.0 * x[1]]);
        let bounds = Bounds { lower: [3.0, -5.0], upper: [3.0, 5.0] };
        let found = minimise([3.0, 4.0], bounds, limits, bowl);
        assert_eq!(found[0], 3.0);
        assert!(found[1].abs() < 1e-6);
    }
}
