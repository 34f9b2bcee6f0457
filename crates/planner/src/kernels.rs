//! How long single kernels take on a device: products of matrices by their shape, everything else by the bytes it moves.

use crate::hardware::Hardware;
use crate::model::Precision;

/// Tiles that libraries of matrix products choose from, with what each reaches of a large tile's speed.
const TILES: [(f64, f64, f64); 4] =
    [(256.0, 128.0, 1.0), (128.0, 128.0, 0.95), (128.0, 64.0, 0.78), (64.0, 64.0, 0.6)];
/// Beyond so many waves the tiles of the last one do not all start at the same time.
const WAVES_IN_STEP: f64 = 8.0;
/// Length of the inner dimension at which starting and ending a tile takes as long as its products.
const RAMP: f64 = 61.0;
/// What kernels reach of the memory's bandwidth.
const MEMORY_SHARE: f64 = 0.85;
/// A kernel on its own, however small: starting, draining, and the gap to the next one of a stream.
pub(crate) const KERNEL_S: f64 = 7e-6;
/// How much faster than memory the cache is, and up to how much of its size operands are found in it: neighbours
/// of a stream share them.
const CACHE: (f64, f64) = (6.0, 2.0);

/// Kernels of one device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels<'a> {
    pub(crate) hardware: &'a Hardware,
    pub(crate) precision: Precision,
}

impl Kernels<'_> {
    /// So many products of an m × k with a k × n matrix in one kernel.
    pub(crate) fn product_s(&self, [m, n, k]: [f64; 3], count: f64) -> f64 {
        self.product_of_s([m, n, k], count, self.precision)
    }

    /// The same in 16 bits where the model's products are shorter: attention and heads stay in 16.
    pub(crate) fn long_product_s(&self, shape: [f64; 3], count: f64) -> f64 {
        let precision = match self.precision {
            Precision::Fp8 | Precision::Fp4 => Precision::Half,
            other => other,
        };
        self.product_of_s(shape, count, precision)
    }

    fn product_of_s(&self, [m, n, k]: [f64; 3], count: f64, precision: Precision) -> f64 {
        let units = f64::from(self.hardware.units.max(1));
        let flop_per_s = self.flop_per_s(precision) * k / (k + RAMP);
        let of_tile = |(rows, columns, share): (f64, f64, f64)| {
            let waves = (m / rows).ceil() * (n / columns).ceil() * count / units;
            let waves = if waves.ceil() > WAVES_IN_STEP { waves + 0.5 } else { waves.ceil() };
            waves * units * 2.0 * rows * columns * k / (flop_per_s * share)
        };
        let compute_s = TILES.into_iter().map(of_tile).fold(f64::INFINITY, f64::min);
        let operands =
            precision.operand_bytes() * (m * k + k * n) + 2.0_f64.max(precision.operand_bytes()) * m * n;
        compute_s.max(count * operands / self.memory_bytes_per_s()) + KERNEL_S
    }

    /// What products reach.
    pub(crate) fn flop_per_s(&self, precision: Precision) -> f64 {
        self.hardware.tflops(precision) * 1e12 * self.hardware.reached(precision)
    }

    /// Kernels that move so many bytes between them, each working on so many at a time.
    pub(crate) fn pass_s(&self, bytes: f64, kernels: f64, working: f64) -> f64 {
        let (speed, size) = CACHE;
        let beyond = working / (self.hardware.cache_bytes * size);
        let faster = 1.0 + (speed - 1.0) / (1.0 + beyond * beyond);
        bytes / (self.memory_bytes_per_s() * faster) + kernels * KERNEL_S
    }

    /// The same with operands that no cache holds.
    pub(crate) fn stream_s(&self, bytes: f64, kernels: f64) -> f64 {
        bytes / self.memory_bytes_per_s() + kernels * KERNEL_S
    }

    fn memory_bytes_per_s(&self) -> f64 {
        self.hardware.memory_gb_per_s * 1e9 * MEMORY_SHARE
    }
}
