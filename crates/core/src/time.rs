//! One type for moments in time.

use std::cmp::Ordering;
use std::fmt;

/// Finite seconds since the engine's epoch.
///
/// A 64-bit float, ordered by `total_cmp`: this is what lets a reference simulator's results be reproduced
/// bit by bit. Arithmetic goes through methods only, so that each rounding is visible where it happens.
#[derive(Clone, Copy, PartialEq)]
pub struct Time(f64);

impl Time {
    /// The engine's epoch.
    pub const ZERO: Self = Self(0.0);
    /// Later than every moment that an input can name.
    pub const FAR: Self = Self(f64::MAX);

    /// A moment, or `None` where `seconds` is not finite.
    pub fn try_new(seconds: f64) -> Option<Self> {
        seconds.is_finite().then_some(Self(seconds))
    }

    /// A moment from seconds that are known to be finite.
    ///
    /// # Panics
    /// Panics on an infinity or NaN: those are stopped where input is read.
    #[inline]
    pub fn from_seconds(seconds: f64) -> Self {
        assert!(seconds.is_finite(), "a time must be finite");
        // `-0.0 + 0.0` is `0.0`: one zero only, or equal times would order differently.
        Self(seconds + 0.0)
    }

    /// Seconds since the epoch.
    #[inline]
    pub const fn seconds(self) -> f64 {
        self.0
    }

    /// The moment `seconds` later (earlier where negative); past the largest finite time it is [`Time::FAR`].
    #[inline]
    pub fn plus(self, seconds: f64) -> Self {
        let sum = self.0 + seconds;
        if sum.is_finite() { Self::from_seconds(sum) } else { Self::FAR }
    }

    /// Seconds from `earlier` to `self`; negative where `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Self) -> f64 {
        self.0 - earlier.0
    }

    /// The bits that a journal keeps.
    pub const fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    /// The later of two moments.
    #[inline]
    pub fn max(self, other: Self) -> Self {
        if self >= other { self } else { other }
    }

    /// The earlier of two moments.
    #[inline]
    pub fn min(self, other: Self) -> Self {
        if self <= other { self } else { other }
    }
}

impl Eq for Time {}

impl Ord for Time {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Time {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_total_and_zero_is_one() {
        assert_eq!(Time::from_seconds(-0.0).to_bits(), Time::ZERO.to_bits());
        assert!(Time::from_seconds(1.0) < Time::from_seconds(1.0 + f64::EPSILON));
        assert_eq!(Time::try_new(f64::NAN), None);
        assert_eq!(Time::FAR.plus(f64::MAX), Time::FAR);
    }
}
