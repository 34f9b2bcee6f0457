//! Axes: where a value lies, and which values are labelled.

use crate::human;

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86400.0;

/// Round lengths of time, the steps of a time axis.
const LADDER: [f64; 32] = [
    0.01,
    0.1,
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    30.0,
    MINUTE,
    2.0 * MINUTE,
    5.0 * MINUTE,
    10.0 * MINUTE,
    20.0 * MINUTE,
    30.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    3.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
    DAY,
    2.0 * DAY,
    5.0 * DAY,
    10.0 * DAY,
    20.0 * DAY,
    50.0 * DAY,
    100.0 * DAY,
    200.0 * DAY,
    500.0 * DAY,
    1e3 * DAY,
    1e4 * DAY,
    1e5 * DAY,
    1e6 * DAY,
];

/// Labels on a logarithmic time axis, those to keep first.
const LOG_TICKS: [&[f64]; 3] = [
    &[1.0, MINUTE, HOUR, DAY, 10.0 * DAY, 100.0 * DAY, 1e3 * DAY, 1e4 * DAY, 1e5 * DAY, 1e6 * DAY, 0.01],
    &[0.1, 10.0, 10.0 * MINUTE, 6.0 * HOUR],
    &LADDER,
];

/// Least distance of two labels, as a share of the axis.
const LOG_TICK_GAP: f64 = 0.07;

/// A range of values with labelled ticks.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to at least `max` in round steps of 1, 2 or 5.
    pub(super) fn from_zero(max: f64, show: impl Fn(f64) -> String) -> Self {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        let rough = max / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|&step| step >= rough);
        Self::stepped(max, step.unwrap_or(rough), show)
    }

    /// From 0 to at least `max` in whole numbers.
    pub(super) fn counts(max: f64, show: impl Fn(f64) -> String) -> Self {
        if max > 5.0 { Self::from_zero(max, show) } else { Self::stepped(max.max(1.0), 1.0, show) }
    }

    /// From 0 to 1 in quarters.
    pub(super) fn share() -> Self {
        Self::stepped(1.0, 0.25, |share| format!("{:.0} %", share * 100.0))
    }

    fn stepped(max: f64, step: f64, show: impl Fn(f64) -> String) -> Self {
        let count = (max / step - 1e-9).ceil().clamp(1.0, 50.0);
        let ticks = (0..=count as u32).map(|index| f64::from(index) * step).map(|tick| (tick, show(tick)));
        Self { low: 0.0, high: count * step, is_log: false, ticks: ticks.collect() }
    }

    /// From 0 to exactly `length_s`, with ticks at round times.
    pub(super) fn time(length_s: f64) -> Self {
        let high = if length_s.is_finite() && length_s > 0.0 { length_s } else { 1.0 };
        let longest = LADDER[LADDER.len() - 1];
        let step = LADDER.into_iter().find(|step| high / step <= 9.0).unwrap_or(longest.max(high / 5.0));
        let count = (high / step + 1e-9).floor() as u32;
        let (unit, name) = tick_unit(step, high);
        let label = |tick: f64| if tick == 0.0 { "0".to_owned() } else { human::number(tick / unit) + name };
        let ticks = (0..=count).map(|index| f64::from(index) * step).map(|tick| (tick, label(tick)));
        Self { low: 0.0, high, is_log: false, ticks: ticks.collect() }
    }

    /// Logarithmic over these positive times, widened to round ones.
    pub(super) fn log_time(min_s: f64, max_s: f64) -> Self {
        let low = LADDER.into_iter().rev().find(|&step| step <= min_s).unwrap_or(LADDER[0]);
        let high =
            LADDER.into_iter().find(|&step| step >= max_s && step > low).unwrap_or(max_s.max(low * 10.0));
        let mut axis = Self { low, high, is_log: true, ticks: vec![] };
        for tick in LOG_TICKS.into_iter().flatten().copied().filter(|tick| (low..=high).contains(tick)) {
            let at = axis.place(tick);
            if axis.ticks.iter().all(|(other, _)| (axis.place(*other) - at).abs() >= LOG_TICK_GAP) {
                axis.ticks.push((tick, human::duration_tick(tick)));
            }
        }
        axis
    }

    /// Logarithmic over these positive numbers, widened to powers of two, each of which has a label while there is room.
    pub(super) fn powers_of_two(min: f64, max: f64) -> Self {
        let (low, high) = (min.log2().floor(), max.log2().ceil());
        let high = if high > low { high } else { low + 1.0 };
        let every = ((high - low) / 12.0).ceil().max(1.0);
        let count = ((high - low) / every).floor().clamp(1.0, 50.0) as u32;
        let ticks = (0..=count).map(|index| (low + f64::from(index) * every).exp2());
        let ticks = ticks.map(|tick| (tick, human::number(tick))).collect();
        Self { low: low.exp2(), high: high.exp2(), is_log: true, ticks }
    }

    /// Logarithmic over these positive numbers, widened to 1, 2 or 5 times a power of ten.
    pub(super) fn log(min: f64, max: f64) -> Self {
        let round = |power: f64| [1.0, 2.0, 5.0].map(|factor| factor * 10_f64.powf(power));
        let (first, last) = (min.log10().floor(), max.log10().ceil());
        let count = (last - first).clamp(0.0, 40.0) as u32;
        let all: Vec<f64> = (0..=count).flat_map(|index| round(first + f64::from(index))).collect();
        let low = all.iter().rev().copied().find(|&tick| tick <= min * (1.0 + 1e-9)).unwrap_or(min);
        let high = all.iter().copied().find(|&tick| tick >= max * (1.0 - 1e-9) && tick > low);
        let mut axis = Self { low, high: high.unwrap_or(low * 10.0), is_log: true, ticks: vec![] };
        // Powers of ten first, the others where there is room.
        let (tens, others): (Vec<f64>, Vec<f64>) =
            all.iter().partition(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-9);
        for tick in tens.into_iter().chain(others).filter(|tick| (axis.low..=axis.high).contains(tick)) {
            let at = axis.place(tick);
            if axis.ticks.iter().all(|(other, _)| (axis.place(*other) - at).abs() >= LOG_TICK_GAP) {
                axis.ticks.push((tick, human::number(tick)));
            }
        }
        axis
    }

    /// Where a value lies, 0 to 1; values outside lie on the nearer end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.is_log { value.max(self.low).ln() } else { value };
        let share = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low));
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// One unit for all labels: the largest in which the steps are whole, halves or quarters.
fn tick_unit(step: f64, high: f64) -> (f64, &'static str) {
    let fits = |unit: f64| high >= 2.0 * unit && (4.0 * step / unit).fract() == 0.0;
    [(DAY, "d"), (HOUR, "h"), (MINUTE, "m")].into_iter().find(|(unit, _)| fits(*unit)).unwrap_or((1.0, "s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(&Axis::from_zero(37.0, human::number)), ["0", "10", "20", "30", "40"]);
        assert_eq!(labels(&Axis::counts(2.0, human::number)), ["0", "1", "2"]);
        assert_eq!(labels(&Axis::from_zero(f64::NAN, human::number)).len(), 6);
        assert_eq!(labels(&Axis::time(80.0)), ["0", "10s", "20s", "30s", "40s", "50s", "60s", "70s", "80s"]);
        assert_eq!(labels(&Axis::time(3.0 * DAY)), ["0", "0.5d", "1d", "1.5d", "2d", "2.5d", "3d"]);
        assert_eq!(labels(&Axis::log_time(20.0, 5e5)), ["1m", "1h", "1d", "10d", "10m", "6h", "20s"]);
        assert_eq!(labels(&Axis::log_time(40.0, 40.0)), ["1m", "30s"]);
        assert_eq!(labels(&Axis::powers_of_two(1.0, 6.0)), ["1", "2", "4", "8"]);
        assert_eq!(labels(&Axis::powers_of_two(4.0, 4.0)), ["4", "8"]);
        assert_eq!(labels(&Axis::log(0.3, 40.0)), ["1", "10", "0.2", "0.5", "2", "5", "20", "50"]);
        assert_eq!(labels(&Axis::log(7.0, 7.0)), ["10", "5"]);
    }

    #[test]
    fn place_is_bounded_and_never_nan() {
        for axis in [
            Axis::time(0.0),
            Axis::log_time(1e300, 1e300),
            Axis::share(),
            Axis::from_zero(0.0, human::number),
        ] {
            for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e308] {
                assert!((0.0..=1.0).contains(&axis.place(value)));
            }
        }
    }
}
