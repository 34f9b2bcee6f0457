//! Sums, percentiles and confidence intervals, with every rounding under control.

use serde::{Deserialize, Serialize};
use wharf_outcome::MetricRules;

/// The sum with Neumaier's compensation: the order of the values does not show in the result's printed
/// digits.
pub fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sum = 0.0_f64;
    let mut lost = 0.0_f64;
    for value in values {
        let next = sum + value;
        // The smaller of the two addends loses its low digits.
        lost += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        sum = next;
    }
    sum + lost
}

/// The mean; `None` of nothing, or where the sum is not finite.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    finite(sum(values.iter().copied()) / values.len() as f64)
}

/// The finite values in ascending order.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The value below which the share `p` (0 to 1) of ascending values lies; `None` of nothing.
pub fn percentile(sorted: &[f64], p: f64, rules: MetricRules) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let p = p.clamp(0.0, 1.0);
    match rules {
        // A cast from float to integer truncates and saturates, as `int(n * p)` with a bound does.
        MetricRules::Muri => sorted.get(((sorted.len() as f64 * p) as usize).min(last)).copied(),
        MetricRules::Wharf | MetricRules::Gavel | MetricRules::Crius | MetricRules::Blox { .. } => {
            interpolate(sorted, p * last as f64)
        }
    }
}

/// Linear interpolation between neighbours, as numpy's default method does it: from the nearer end.
fn interpolate(sorted: &[f64], position: f64) -> Option<f64> {
    let low = *sorted.get(position.floor() as usize)?;
    let high = *sorted.get(position.ceil() as usize)?;
    let share = position.fract();
    let gap = high - low;
    let value = if share < 0.5 { low + gap * share } else { high - gap * (1.0 - share) };
    finite(value).map(|value| value.clamp(low, high))
}

/// Jain's index `(Σx)² / (n Σx²)`: 1 where all are equal, 1/n where one has everything.
pub fn jain_index(values: &[f64]) -> Option<f64> {
    let squares = sum(values.iter().map(|value| value * value));
    let total = sum(values.iter().copied());
    finite(total * total / (values.len() as f64 * squares))
}

/// The value, where it is a finite number.
pub(crate) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// A mean over repeated runs and how far it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Runs that have the value.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation (n − 1 in the denominator); of one run there is none.
    pub sd: Option<f64>,
    /// Lower end of the mean's 95 % confidence interval by Student's t.
    pub ci95_low: Option<f64>,
    /// Upper end of it.
    pub ci95_high: Option<f64>,
}

impl Estimate {
    /// Estimates from one value per run; `None` of nothing.
    pub fn new(values: &[f64]) -> Option<Self> {
        // Of equal values the mean is exactly that value, and their spread is none.
        let mean = match values {
            [first, rest @ ..] if rest.iter().all(|value| value == first) => finite(*first),
            _ => mean(values),
        }?;
        let count = values.len() as u64;
        let sd = (count > 1)
            .then(|| sum(values.iter().map(|value| (value - mean).powi(2))) / (count - 1) as f64)
            .and_then(|variance| finite(variance.sqrt()));
        let half = sd.map(|sd| t_95(count - 1) * sd / (count as f64).sqrt());
        let ci95_low = half.and_then(|half| finite(mean - half));
        let ci95_high = half.and_then(|half| finite(mean + half));
        Some(Self { count, mean, sd, ci95_low, ci95_high })
    }

    /// Half the width of the confidence interval.
    pub fn ci95_half(&self) -> Option<f64> {
        self.ci95_high.map(|high| high - self.mean)
    }
}

/// How much greater the mean of `a` is than that of `b`, without pairs: Welch's interval, which lets them spread differently.
/// Without two values on each side there is no interval; without any there is no number.
pub fn welch(a: &[f64], b: &[f64]) -> Estimate {
    let (first, second) = (Estimate::new(a), Estimate::new(b));
    let difference = first.zip(second).map_or(f64::NAN, |(first, second)| first.mean - second.mean);
    let error = |estimate: Option<Estimate>| {
        let estimate = estimate?;
        Some((estimate.sd?.powi(2) / estimate.count as f64, (estimate.count - 1) as f64))
    };
    let spread = error(first).zip(error(second)).map(|((va, da), (vb, db))| {
        // Welch and Satterthwaite's degrees of freedom, rounded down: never too narrow.
        let degrees = (va + vb).powi(2) / (va.powi(2) / da + vb.powi(2) / db);
        let degrees = if degrees.is_finite() { degrees.floor().max(1.0) } else { da.min(db) };
        ((va + vb).sqrt(), t_95(degrees as u64) * (va + vb).sqrt())
    });
    Estimate {
        count: (a.len() + b.len()) as u64,
        mean: difference,
        sd: spread.map(|spread| spread.0),
        ci95_low: spread.and_then(|spread| finite(difference - spread.1)),
        ci95_high: spread.and_then(|spread| finite(difference + spread.1)),
    }
}

/// Two-sided 95 % points of Student's t for 1 to 30 degrees of freedom (any statistics textbook's table).
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The same beyond 30: from this many degrees of freedom on, this value.
const T_95_BEYOND: [(u64, f64); 4] = [(1000, 1.962), (120, 1.980), (60, 2.000), (40, 2.021)];

/// Between two entries the one with fewer degrees of freedom counts: the interval is never too narrow.
fn t_95(degrees: u64) -> f64 {
    let beyond = T_95_BEYOND.iter().find(|&&(from, _)| degrees >= from).map(|&(_, t)| t);
    beyond.unwrap_or_else(|| T_95[(degrees.clamp(1, 30) - 1) as usize])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sum_keeps_what_plain_addition_loses() {
        assert_eq!(sum([1e16, 1.0, -1e16]), 1.0);
        assert_eq!(sum([0.1; 10]), 1.0);
        assert_eq!(sum([]), 0.0);
    }

    #[test]
    fn percentile_follows_the_rules() {
        // What `numpy.percentile([1, 2, 3, 4], 95)` gives, to the last bit.
        const NUMPY_P95: f64 = 3.8499999999999996;
        let values = [1.0, 2.0, 3.0, 4.0];
        for (p, muri, wharf) in
            [(0.0, 1.0, 1.0), (0.25, 2.0, 1.75), (0.5, 3.0, 2.5), (0.95, 4.0, NUMPY_P95), (1.0, 4.0, 4.0)]
        {
            assert_eq!(percentile(&values, p, MetricRules::Muri), Some(muri), "muri {p}");
            assert_eq!(percentile(&values, p, MetricRules::Wharf), Some(wharf), "wharf {p}");
        }
        assert_eq!(percentile(&[], 0.5, MetricRules::Wharf), None);
        assert_eq!(percentile(&[7.0], 0.99, MetricRules::Muri), Some(7.0));
    }

    #[test]
    fn jain_index_spans_equal_to_all_for_one() {
        assert_eq!(jain_index(&[2.0, 2.0]), Some(1.0));
        assert_eq!(jain_index(&[4.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[]), None);
        assert_eq!(jain_index(&[0.0]), None);
    }

    #[test]
    fn estimate_uses_students_t() {
        let estimate = Estimate::new(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((estimate.count, estimate.mean, estimate.sd), (3, 2.0, Some(1.0)));
        assert!((estimate.ci95_half().unwrap() - 4.303 / 3f64.sqrt()).abs() < 1e-12);
        let one = Estimate::new(&[5.0]).unwrap();
        assert_eq!((one.sd, one.ci95_low), (None, None));
        assert_eq!(Estimate::new(&[]), None);
        for (degrees, t) in [(0, 12.706), (1, 12.706), (30, 2.042), (39, 2.042), (59, 2.021), (9999, 1.962)] {
            assert_eq!(t_95(degrees), t);
        }
    }

    #[test]
    fn welch_as_a_textbook_has_it() {
        // Variances 1 and 4 over 3 and 5: error √(1/3 + 4/5), degrees (17/15)² / ((1/3)²/2 + (4/5)²/4) = 5.96.
        let estimate = welch(
            &[9.0, 10.0, 11.0],
            &[2.0, 4.0, 4.0, 4.0, 7.0].map(|x: f64| 4.2 + (x - 4.2) * (4.0 / 3.2_f64).sqrt()),
        );
        assert!((estimate.mean - 5.8).abs() < 1e-9, "{estimate:?}");
        let error = (1.0_f64 / 3.0 + 4.0 / 5.0).sqrt();
        assert!((estimate.ci95_high.unwrap() - 5.8 - 2.571 * error).abs() < 1e-9, "{estimate:?}");
        assert_eq!(welch(&[1.0], &[2.0, 3.0]).ci95_low, None);
        assert!(welch(&[], &[1.0]).mean.is_nan());
    }

    proptest! {
        #[test]
        fn percentiles_are_monotone_and_in_range(
            values in prop::collection::vec(0.0..1e9, 1..60),
            a in 0.0..=1.0,
            b in 0.0..=1.0,
        ) {
            let values = sorted(values);
            let (min, max) = (values[0], values[values.len() - 1]);
            for rules in [MetricRules::Muri, MetricRules::Wharf] {
                let low = percentile(&values, f64::min(a, b), rules).unwrap();
                let high = percentile(&values, f64::max(a, b), rules).unwrap();
                prop_assert!(low <= high + 1e-12 * max);
                prop_assert!(min <= low && high <= max);
            }
        }
    }
}
