//! A point inside a region: not any, but the one at which the published code's solver ends.
//!
//! `min-total-duration` asks its solver for shares that reach a makespan, and for nothing else. A whole region does, and
//! which of its points is returned decides how jobs are spread over types. That solver (ECOS: Domahidi, Chu and Boyd, 2013)
//! follows the central path of the homogeneous embedding from a start of its own, and ends well inside. This follows
//! the same path: scaling by the roots of the largest entries, the start of least residual, Mehrotra's steps.
//!
//! Equal unknowns and equal rows are written down once, with how often they are there: the path is the same.
//!
//! The region is `x ≥ 0` and `B x ≤ b` with few rows. A step then takes one matrix of as many rows as `B` has; rows of one
//! job only touch one another and the last rows, and nothing outside of that envelope is touched.

/// Rounds of scaling.
const SCALINGS: usize = 3;
/// Residuals and gap at which the path has been followed to its end.
const TOLERANCE: f64 = 1e-8;
/// Steps after which it is given up.
const STEPS_MAX: usize = 60;
/// The part of the way to the boundary that is gone at most.
const STEP_PART: f64 = 0.99;

/// The columns of `B`.
#[derive(Debug, Default)]
pub(super) struct Columns {
    starts: Vec<usize>,
    rows: Vec<usize>,
    values: Vec<f64>,
    /// A value as it is for one of several equal unknowns, which is what scaling checks.
    entries: Vec<f64>,
    /// How often each unknown is there.
    counts: Vec<f64>,
}

/// A value of a column: its row, what it is for one unknown, and how many equal ones there are in the row.
pub(super) type Value = (usize, f64, f64);

impl Columns {
    /// Adds a column that is there so often; values of zero do not count.
    pub(super) fn push(&mut self, count: f64, values: impl IntoIterator<Item = Value>) {
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        for (row, entry, times) in values.into_iter().filter(|(_, entry, _)| *entry != 0.0) {
            self.rows.push(row);
            self.entries.push(entry);
            self.values.push(entry * times);
        }
        self.counts.push(count);
        self.starts.push(self.rows.len());
    }

    fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    fn column(&self, index: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.starts[index]..self.starts[index + 1];
        self.rows[range.clone()].iter().copied().zip(self.values[range].iter().copied())
    }

    /// Adds `B x` to a list.
    fn add_product(&self, x: &[f64], out: &mut [f64]) {
        for (index, &factor) in x.iter().enumerate() {
            self.column(index).for_each(|(row, value)| out[row] += value * factor);
        }
    }

    /// The rows of a column with what they have for one unknown.
    fn entries(&self, index: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.starts[index]..self.starts[index + 1];
        self.rows[range.clone()].iter().copied().zip(self.entries[range].iter().copied())
    }

    /// `Bᵀ y`, one entry.
    fn dot(&self, index: usize, y: &[f64]) -> f64 {
        self.column(index).map(|(row, value)| value * y[row]).sum()
    }
}

/// The scaled region. Lists over constraints have those of `x ≥ 0` first, then the rows.
struct Region {
    columns: Columns,
    /// What stands for -1 in the rows of `x ≥ 0`.
    signs: Vec<f64>,
    bounds: Vec<f64>,
    /// How often each constraint is there.
    counts: Vec<f64>,
    /// What each unknown was multiplied with.
    units: Vec<f64>,
    /// The first column of each row's envelope in the matrix of a step.
    first: Vec<usize>,
}

impl Region {
    fn new(mut columns: Columns, bounds: &[(f64, f64)]) -> Self {
        let (count, row_count) = (columns.len(), bounds.len());
        let mut signs = vec![-1.0; count];
        let mut units = vec![1.0; count];
        let mut scales = vec![1.0; row_count];
        for _ in 0..SCALINGS {
            let mut row_max = vec![0.0_f64; row_count];
            let mut unit_max: Vec<f64> = signs.iter().map(|sign: &f64| sign.abs()).collect();
            for (index, unit_max) in unit_max.iter_mut().enumerate() {
                for (row, value) in columns.entries(index) {
                    row_max[row] = row_max[row].max(value.abs());
                    *unit_max = unit_max.max(value.abs());
                }
            }
            let root = |largest: f64| if largest > 0.0 { largest.sqrt() } else { 1.0 };
            for index in 0..count {
                let unit = root(unit_max[index]);
                units[index] *= unit;
                let sign_row = root(signs[index].abs());
                signs[index] /= sign_row * unit;
                for place in columns.starts[index]..columns.starts[index + 1] {
                    let scale = root(row_max[columns.rows[place]]) * unit;
                    columns.values[place] /= scale;
                    columns.entries[place] /= scale;
                }
            }
            scales.iter_mut().zip(row_max).for_each(|(scale, largest)| *scale *= root(largest));
        }
        let scaled = bounds.iter().zip(&scales).map(|((bound, _), scale)| bound / scale);
        let counts = columns.counts.iter().copied().chain(bounds.iter().map(|(_, count)| *count)).collect();
        let bounds = std::iter::repeat_n(0.0, count).chain(scaled).collect();
        let mut first: Vec<usize> = (0..row_count).collect();
        for index in 0..count {
            let lowest = columns.column(index).map(|(row, _)| row).min().unwrap_or(0);
            columns.column(index).for_each(|(row, _)| first[row] = first[row].min(lowest));
        }
        Self { columns, signs, bounds, counts, units, first }
    }

    fn constraint_count(&self) -> usize {
        self.bounds.len()
    }

    /// `G x` over all constraints.
    fn product(&self, x: &[f64]) -> Vec<f64> {
        let mut out: Vec<f64> = self.signs.iter().zip(x).map(|(sign, x)| sign * x).collect();
        out.resize(self.constraint_count(), 0.0);
        self.columns.add_product(x, &mut out[self.signs.len()..]);
        out
    }

    /// `Gᵀ z`.
    fn back_product(&self, z: &[f64]) -> Vec<f64> {
        let counted: Vec<f64> = z.iter().zip(&self.counts).map(|(z, count)| z * count).collect();
        let (own, rows) = counted.split_at(self.signs.len());
        let entry = |(index, (sign, own)): (usize, (&f64, &f64))| sign * own + self.columns.dot(index, rows);
        self.signs.iter().zip(own).enumerate().map(entry).collect()
    }

    /// The sum of products over all constraints.
    fn dot(&self, a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).zip(&self.counts).map(|((a, b), count)| a * b * count).sum()
    }
}

/// The matrix of one step, factored.
struct Step<'a> {
    region: &'a Region,
    weights: &'a [f64],
    /// The part of each unknown's own constraint.
    diagonal: Vec<f64>,
    /// Lower triangle, each row from its envelope's first column on.
    factor: Vec<Vec<f64>>,
}

impl<'a> Step<'a> {
    /// Prepares solving `Gᵀ dz = bx`, `G dx - weights dz = bz`.
    fn new(region: &'a Region, weights: &'a [f64]) -> Option<Self> {
        let counted: Vec<f64> =
            weights.iter().zip(&region.counts).map(|(weight, count)| weight / count).collect();
        let (own, rows) = counted.split_at(region.signs.len());
        let diagonal: Vec<f64> =
            region.signs.iter().zip(own).map(|(sign, weight)| sign * sign / weight).collect();
        let mut factor: Vec<Vec<f64>> =
            region.first.iter().enumerate().map(|(row, first)| vec![0.0; row - first + 1]).collect();
        for (row, weight) in rows.iter().enumerate() {
            *factor[row].last_mut()? += weight;
        }
        for (index, diagonal) in diagonal.iter().enumerate() {
            for (row, value) in region.columns.column(index) {
                let value = value / diagonal;
                for (other, with) in region.columns.column(index).filter(|(other, _)| *other <= row) {
                    factor[row][other - region.first[row]] += value * with;
                }
            }
        }
        let mut step = Self { region, weights, diagonal, factor };
        step.decompose().then_some(step)
    }

    /// Cholesky's decomposition within the envelope; false where the matrix is not positive.
    fn decompose(&mut self) -> bool {
        let first = &self.region.first;
        for row in 0..self.factor.len() {
            let (done, rest) = self.factor.split_at_mut(row);
            let line = &mut rest[0];
            for column in first[row]..row {
                let from = first[row].max(first[column]);
                let (a, b) =
                    (&line[from - first[row]..column - first[row]], &done[column][from - first[column]..]);
                let sum: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                let pivot = done[column][column - first[column]];
                line[column - first[row]] = (line[column - first[row]] - sum) / pivot;
            }
            let width = line.len() - 1;
            let rest = line[width] - line[..width].iter().map(|value| value * value).sum::<f64>();
            if !(rest > 0.0 && rest.is_finite()) {
                return false;
            }
            line[width] = rest.sqrt();
        }
        true
    }

    fn solve(&self, bx: &[f64], bz: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let weighted: Vec<f64> = bz.iter().zip(self.weights).map(|(b, weight)| b / weight).collect();
        let mut x = self.region.back_product(&weighted);
        x.iter_mut().zip(bx).zip(&self.diagonal).for_each(|((x, b), diagonal)| *x = (*x + b) / diagonal);
        let mut y = vec![0.0; self.factor.len()];
        self.region.columns.add_product(&x, &mut y);
        self.substitute(&mut y);
        for (index, x) in x.iter_mut().enumerate() {
            *x -= self.region.columns.dot(index, &y) / self.diagonal[index];
        }
        let mut z = self.region.product(&x);
        z.iter_mut().zip(bz).zip(self.weights).for_each(|((z, b), weight)| *z = (*z - b) / weight);
        (x, z)
    }

    /// Forward and back substitution, in place.
    fn substitute(&self, y: &mut [f64]) {
        let first = &self.region.first;
        for row in 0..y.len() {
            let line = &self.factor[row];
            let width = line.len() - 1;
            let sum: f64 = line[..width].iter().zip(&y[first[row]..row]).map(|(a, b)| a * b).sum();
            y[row] = (y[row] - sum) / line[width];
        }
        for row in (0..y.len()).rev() {
            let line = &self.factor[row];
            let width = line.len() - 1;
            y[row] /= line[width];
            let value = y[row];
            y[first[row]..row].iter_mut().zip(line).for_each(|(y, a)| *y -= a * value);
        }
    }
}

/// Where the path has been followed to.
struct Iterate {
    x: Vec<f64>,
    s: Vec<f64>,
    z: Vec<f64>,
    tau: f64,
    kappa: f64,
}

/// The point of `x ≥ 0`, `B x ≤ bounds` at which the published code's solver ends; none where it finds none. Bounds come with
/// how often their rows are there.
pub(super) fn point(columns: Columns, bounds: &[(f64, f64)]) -> Option<Vec<f64>> {
    let region = Region::new(columns, bounds);
    let mut at = start(&region)?;
    for _ in 0..STEPS_MAX {
        if is_over(&region, &at) {
            let value = |(x, unit): (&f64, &f64)| x / at.tau / unit;
            return Some(at.x.iter().zip(&region.units).map(value).collect());
        }
        at = advance(&region, at)?;
    }
    None
}

fn start(region: &Region) -> Option<Iterate> {
    let ones = vec![1.0; region.constraint_count()];
    let (x, z) = Step::new(region, &ones)?.solve(&vec![0.0; region.signs.len()], &region.bounds);
    let s = into_cone(z.iter().map(|z| -z).collect());
    Some(Iterate { x, s, z: ones, tau: 1.0, kappa: 1.0 })
}

/// Adds as much to all as makes each positive, and a little more.
fn into_cone(mut values: Vec<f64>) -> Vec<f64> {
    let lowest = values.iter().copied().filter(|value| *value <= 0.0).fold(STEP_PART, f64::min);
    values.iter_mut().for_each(|value| *value += 1.0 - lowest);
    values
}

fn residual(region: &Region, at: &Iterate) -> Vec<f64> {
    let mut residual = region.product(&at.x);
    for (place, value) in residual.iter_mut().enumerate() {
        *value += at.s[place] - at.tau * region.bounds[place];
    }
    residual
}

fn is_over(region: &Region, at: &Iterate) -> bool {
    let norm = |values: &[f64]| region.dot(values, values).sqrt();
    let primal = norm(&residual(region, at)) / norm(&region.bounds).max(1.0) / at.tau;
    let gradient = region.back_product(&at.z);
    let squares = gradient.iter().zip(&region.counts).map(|(value, count)| value * value / count);
    let dual = squares.sum::<f64>().sqrt() / at.tau;
    region.dot(&at.s, &at.z) < TOLERANCE && primal < TOLERANCE && dual < TOLERANCE
}

/// One predictor and corrector step.
fn advance(region: &Region, at: Iterate) -> Option<Iterate> {
    let Iterate { mut x, mut s, mut z, mut tau, mut kappa } = at;
    let at = Iterate { x: x.clone(), s: s.clone(), z: z.clone(), tau, kappa };
    let rx: Vec<f64> = region.back_product(&z).into_iter().map(|value| -value).collect();
    let rz = residual(region, &at);
    let h = &region.bounds;
    let rt = kappa + region.dot(h, &z);
    let mu = (region.dot(&s, &z) + kappa * tau) / (region.counts.iter().sum::<f64>() + 1.0);
    let weights: Vec<f64> = s.iter().zip(&z).map(|(s, z)| s / z).collect();
    let w: Vec<f64> = weights.iter().map(|weight| weight.sqrt()).collect();
    let lambda: Vec<f64> = s.iter().zip(&z).map(|(s, z)| (s * z).sqrt()).collect();
    let step = Step::new(region, &weights)?;
    let (x1, z1) = step.solve(&vec![0.0; x.len()], h);
    let denominator = kappa / tau - region.dot(h, &z1);

    let bz: Vec<f64> = s.iter().zip(&rz).map(|(s, r)| s - r).collect();
    let (_, z2) = step.solve(&rx, &bz);
    let d_tau = (rt - kappa + region.dot(h, &z2)) / denominator;
    let wz: Vec<f64> = (0..z.len()).map(|i| w[i] * (z2[i] + d_tau * z1[i])).collect();
    let ws: Vec<f64> = wz.iter().zip(&lambda).map(|(wz, lambda)| -wz - lambda).collect();
    let d_kappa = -kappa - kappa / tau * d_tau;
    let length = longest(&lambda, &ws, &wz, [(tau, d_tau), (kappa, d_kappa)]);
    let sigma = (1.0 - length).powi(3).clamp(1e-4, 1.0);

    let corrected: Vec<f64> =
        (0..z.len()).map(|i| (lambda[i] * lambda[i] + ws[i] * wz[i] - sigma * mu) / lambda[i]).collect();
    let bx: Vec<f64> = rx.iter().map(|r| (1.0 - sigma) * r).collect();
    let bz: Vec<f64> = (0..z.len()).map(|i| -(1.0 - sigma) * rz[i] + w[i] * corrected[i]).collect();
    let (x2, z2) = step.solve(&bx, &bz);
    let b_kappa = kappa * tau + d_kappa * d_tau - sigma * mu;
    let d_tau = ((1.0 - sigma) * rt - b_kappa / tau + region.dot(h, &z2)) / denominator;
    let dz: Vec<f64> = z2.iter().zip(&z1).map(|(z2, z1)| z2 + d_tau * z1).collect();
    let wz: Vec<f64> = w.iter().zip(&dz).map(|(w, dz)| w * dz).collect();
    let ws: Vec<f64> = corrected.iter().zip(&wz).map(|(corrected, wz)| -(corrected + wz)).collect();
    let d_kappa = -(b_kappa + kappa * d_tau) / tau;
    let length = longest(&lambda, &ws, &wz, [(tau, d_tau), (kappa, d_kappa)]) * STEP_PART;
    x.iter_mut().zip(x2.iter().zip(&x1)).for_each(|(x, (x2, x1))| *x += length * (x2 + d_tau * x1));
    z.iter_mut().zip(&dz).for_each(|(z, dz)| *z += length * dz);
    s.iter_mut().zip(w.iter().zip(&ws)).for_each(|(s, (w, ws))| *s += length * w * ws);
    tau += length * d_tau;
    kappa += length * d_kappa;
    (tau.is_finite() && kappa.is_finite()).then_some(Iterate { x, s, z, tau, kappa })
}

/// The part of a step, just below 1 at most, after which everything is still positive.
fn longest(lambda: &[f64], ds: &[f64], dz: &[f64], others: [(f64, f64); 2]) -> f64 {
    let ratios = lambda.iter().zip(ds.iter().zip(dz)).map(|(lambda, (ds, dz))| ds.min(*dz) / lambda);
    let lowest = ratios.fold(0.0, f64::min);
    let mut length = if lowest < 0.0 { -1.0 / lowest } else { f64::INFINITY };
    for (value, change) in others {
        if change < 0.0 {
            length = length.min(-value / change);
        }
    }
    length.clamp(1e-6, 0.999)
}
