//! Random numbers: one stream for each purpose, so that a draw added to one leaves the others as they were.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

/// What a stream of random numbers is for. The text is part of the seed: renaming one changes its draws.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Arrivals,
    Bursts,
    Durations,
    Gangs,
    Models,
    Users,
    Priorities,
    Deadlines,
    Blocks,
}

impl Purpose {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Arrivals => b"arrivals",
            Self::Bursts => b"bursts",
            Self::Durations => b"durations",
            Self::Gangs => b"gangs",
            Self::Models => b"models",
            Self::Users => b"users",
            Self::Priorities => b"priorities",
            Self::Deadlines => b"deadlines",
            Self::Blocks => b"blocks",
        }
    }
}

/// A portable stream of random numbers.
pub(crate) struct Draw(ChaCha8Rng);

impl Draw {
    /// The stream of a seed for a purpose. The key is laid out here, not by a library that may change its mind.
    pub(crate) fn new(seed: u64, purpose: Purpose) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        for (byte, letter) in key[8..].iter_mut().zip(purpose.label()) {
            *byte = *letter;
        }
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Evenly from 0 to 1, without 1.
    pub(crate) fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.0.next_u64() >> 11) as f64 * STEP
    }

    /// Evenly from 0 to 1, without 0: for logarithms.
    pub(super) fn open_unit(&mut self) -> f64 {
        1.0 - self.unit()
    }

    /// True in this share of draws.
    pub(super) fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// Exponential with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -self.open_unit().ln()
    }

    /// Standard normal (Box and Muller; the second value is thrown away to keep draws in step).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.open_unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// Picks indexes in proportion to weights.
pub(super) struct Weighted {
    /// Sums of weights up to and with each index.
    sums: Vec<f64>,
}

impl Weighted {
    /// Weights must be finite, not negative, and not all zero.
    pub(crate) fn new(weights: impl Iterator<Item = f64>) -> Self {
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { sums: sums.collect() }
    }

    pub(super) fn pick(&self, draw: &mut Draw) -> usize {
        let total = self.sums.last().copied().unwrap_or(0.0);
        let target = draw.unit() * total;
        let index = self.sums.partition_point(|sum| *sum <= target);
        index.min(self.sums.len().saturating_sub(1))
    }
}
