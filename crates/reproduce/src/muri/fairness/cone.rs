//! Arithmetic of the three-dimensional second-order cone and of its Nesterov-Todd scaling.

pub(super) type Vector = [f64; 3];

/// The inner product with the signs of the cone, computed so that it stays exact near the boundary.
pub(super) fn determinant(v: Vector) -> f64 {
    (v[0] - v[1]) * (v[0] + v[1]) - v[2] * v[2]
}

pub(super) fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// The Jordan product.
pub(super) fn product(a: Vector, b: Vector) -> Vector {
    [dot(a, b), a[0] * b[1] + b[0] * a[1], a[0] * b[2] + b[0] * a[2]]
}

/// Solves `product(a, x) = b`.
pub(super) fn quotient(a: Vector, b: Vector) -> Vector {
    let rho = determinant(a);
    let zeta = a[1] * b[1] + a[2] * b[2];
    let factor = (zeta / a[0] - b[0]) / rho;
    [(a[0] * b[0] - zeta) / rho, factor * a[1] + b[1] / a[0], factor * a[2] + b[2] / a[0]]
}

/// The scaling that maps a dual point and its primal point to the same vector.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scaling {
    w: Vector,
    eta: f64,
    eta_squared: f64,
    eta_squared_inverse: f64,
}

impl Scaling {
    pub(super) fn new(s: Vector, z: Vector) -> Self {
        let (s_norm, z_norm) = (determinant(s).sqrt(), determinant(z).sqrt());
        let (s_inverse, z_inverse) = (1.0 / s_norm, 1.0 / z_norm);
        let s_bar = s.map(|value| value * s_inverse);
        let z_bar = z.map(|value| value * z_inverse);
        let half = 0.5 / ((1.0 + dot(s_bar, z_bar)) / 2.0).sqrt();
        let w = [(s_bar[0] + z_bar[0]) * half, (s_bar[1] - z_bar[1]) * half, (s_bar[2] - z_bar[2]) * half];
        let (eta_squared, eta_squared_inverse) = (s_norm / z_norm, z_norm / s_norm);
        Self { w, eta: eta_squared.sqrt(), eta_squared, eta_squared_inverse }
    }

    /// No scaling.
    pub(super) const fn identity() -> Self {
        Self { w: [1.0, 0.0, 0.0], eta: 1.0, eta_squared: 1.0, eta_squared_inverse: 1.0 }
    }

    /// Applies the scaling.
    pub(super) fn apply(&self, v: Vector) -> Vector {
        let w = self.w;
        let inner = w[1] * v[1] + w[2] * v[2];
        let factor = v[0] + inner / (1.0 + w[0]);
        [
            self.eta * (w[0] * v[0] + inner),
            self.eta * (v[1] + factor * w[1]),
            self.eta * (v[2] + factor * w[2]),
        ]
    }

    /// Applies the scaling twice.
    pub(super) fn apply_squared(&self, v: Vector) -> Vector {
        let (w, eta_squared) = (self.w, self.eta_squared);
        let factor = 2.0 * dot(w, v);
        [
            eta_squared * (factor * w[0] - v[0]),
            eta_squared * (factor * w[1] + v[1]),
            eta_squared * (factor * w[2] + v[2]),
        ]
    }

    /// Undoes the scaling twice.
    pub(super) fn undo_squared(&self, v: Vector) -> Vector {
        let (w, inverse) = (self.w, self.eta_squared_inverse);
        let factor = 2.0 * (w[0] * v[0] - w[1] * v[1] - w[2] * v[2]);
        [(factor * w[0] - v[0]) * inverse, (v[1] - factor * w[1]) * inverse, (v[2] - factor * w[2]) * inverse]
    }

    /// The inverse square in the coordinates `(v0 + v1, v0 - v1)`, as needed for blocks `(-a, -a, 0)` and
    /// `(-b, b, 0)`: the three entries for a = b = 1, and the determinant. Free of cancellation.
    pub(super) fn block(&self) -> Block {
        let w = self.w;
        let inverse = self.eta_squared_inverse;
        let third = w[2] * w[2];
        let (minus, plus) = if w[1] > 0.0 {
            let plus = w[0] + w[1];
            ((1.0 + third) / plus, plus)
        } else {
            let minus = w[0] - w[1];
            (minus, (1.0 + third) / minus)
        };
        Block {
            xx: 2.0 * minus * minus * inverse,
            xy: 2.0 * third * inverse,
            yy: 2.0 * plus * plus * inverse,
            determinant: 4.0 * (1.0 + 2.0 * third) * inverse * inverse,
        }
    }
}

/// A symmetric 2 × 2 matrix with its determinant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub xx: f64,
    pub xy: f64,
    pub yy: f64,
    pub determinant: f64,
}

/// A point inside the cone, prepared for asking how far directions from it go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Origin {
    bar: Vector,
    norm_inverse: f64,
    first_inverse: f64,
}

impl Origin {
    pub(super) fn new(point: Vector) -> Self {
        let norm = determinant(point).sqrt();
        if norm.is_nan() || norm <= 0.0 {
            return Self::default();
        }
        let norm_inverse = 1.0 / norm;
        let bar = point.map(|value| value * norm_inverse);
        Self { bar, norm_inverse, first_inverse: 1.0 / (bar[0] + 1.0) }
    }

    /// How fast a direction leaves the cone: the inverse of the longest step, at most 0 where it never does.
    pub(super) fn exit_rate(&self, direction: Vector) -> f64 {
        let bar = self.bar;
        let inner = bar[0] * direction[0] - bar[1] * direction[1] - bar[2] * direction[2];
        let factor = (inner + direction[0]) * self.first_inverse;
        let (first, second) = (direction[1] - factor * bar[1], direction[2] - factor * bar[2]);
        ((first * first + second * second).sqrt() - inner) * self.norm_inverse
    }
}
