//! Curves: the history of a metric in a bounded number of points.
//!
//! A curve divides the steps into buckets of equal width, a power of two, and stores the first point of each bucket. Where more than
//! [`POINTS_MAX`] buckets have a point, the width (the *stride*) is doubled. Strides are nested, "first" is associative, and points travel
//! with the stride that they were thinned with: a curve that is thinned in several places, in any order and with any repetition,
//! has the same points as one that is thinned once. The last point of all is stored as well.

mod name;
mod number;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use name::{NAME_BYTES_MAX, NAMES_MAX, NameError, check_name, shown};
pub use number::Number;

/// Buckets of a curve; its last point may be one more.
pub const POINTS_MAX: usize = 512;

/// Steps from here on cannot be distinguished as numbers of JSON.
pub const STEP_MAX: u64 = 1 << 53;

/// The value of a metric at a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u64, f64, Number)", into = "(u64, f64, Number)")]
pub struct Point {
    /// Iterations done.
    pub step: u64,
    /// Seconds since the Unix epoch.
    pub time_s: f64,
    /// May be NaN or infinite.
    pub value: f64,
}

impl From<(u64, f64, Number)> for Point {
    fn from((step, time_s, Number(value)): (u64, f64, Number)) -> Self {
        Self { step, time_s, value }
    }
}

impl From<Point> for (u64, f64, Number) {
    fn from(point: Point) -> Self {
        (point.step, point.time_s, Number(point.value))
    }
}

impl Point {
    /// Whether it takes the place of another one of the same step: the later one does.
    fn replaces(&self, other: &Self) -> bool {
        let key = |point: &Self| (point.time_s, point.value.to_bits());
        let (own, others) = (key(self), key(other));
        own.0.total_cmp(&others.0).then(own.1.cmp(&others.1)).is_gt()
    }

    /// Whether its step and time are within bounds.
    pub fn is_valid(&self) -> bool {
        self.step < STEP_MAX && self.time_s.is_finite() && self.time_s >= 0.0
    }
}

/// The points of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    stride: u64,
    /// By step: the first of each bucket.
    firsts: BTreeMap<u64, Point>,
    last: Option<Point>,
}

impl Default for Curve {
    fn default() -> Self {
        Self { stride: 1, firsts: BTreeMap::new(), last: None }
    }
}

impl Curve {
    /// Adds a point. Returns whether the curve has changed.
    pub fn add(&mut self, point: Point) -> bool {
        let is_last = self
            .last
            .is_none_or(|last| point.step > last.step || point.step == last.step && point.replaces(&last));
        if is_last {
            self.last = Some(point);
        }
        is_last | self.add_first(point)
    }

    /// Adds points that were thinned with a stride.
    pub fn extend(&mut self, segment: &Segment) {
        self.widen(segment.stride);
        segment.points.iter().for_each(|point| {
            self.add(*point);
        });
    }

    /// Makes the buckets at least so wide. Returns whether they were narrower.
    fn widen(&mut self, stride: u64) -> bool {
        let stride = stride.clamp(1, STEP_MAX).next_power_of_two();
        if stride <= self.stride {
            return false;
        }
        self.stride = stride;
        let mut before = None;
        self.firsts.retain(|step, _| before.replace(step / stride) != Some(step / stride));
        true
    }

    /// Its points with its stride.
    pub fn segment(&self) -> Segment {
        Segment { stride: self.stride, points: self.points().collect() }
    }

    fn add_first(&mut self, point: Point) -> bool {
        let begin = point.step - point.step % self.stride;
        let end = begin.saturating_add(self.stride);
        let known = self.firsts.range(begin..end).next().map(|(_, known)| *known);
        match known {
            Some(known) if known.step < point.step => return false,
            Some(known) if known.step == point.step && !point.replaces(&known) => return false,
            Some(known) => drop(self.firsts.remove(&known.step)),
            None => {}
        }
        self.firsts.insert(point.step, point);
        while self.firsts.len() > POINTS_MAX {
            self.widen(2 * self.stride);
        }
        true
    }

    /// The width of its buckets.
    pub fn stride(&self) -> u64 {
        self.stride
    }

    /// Its points by step.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        let last = self.last.filter(|last| !self.firsts.contains_key(&last.step));
        self.firsts.values().copied().chain(last)
    }
}

/// Points of a metric that were thinned with a stride.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// The width of the buckets that have at most one of them.
    pub stride: u64,
    /// By step.
    pub points: Vec<Point>,
}

/// Points by metric.
pub type Points = BTreeMap<String, Segment>;

/// The curves of one run, and the points that were added since they were last taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    by_name: BTreeMap<String, Curve>,
    fresh: BTreeMap<String, Vec<Point>>,
    fresh_count: usize,
    refused: Refused,
}

/// Names that could not be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Points that were dropped because of their names.
    pub points: u64,
    /// One of the names, as it can be shown.
    pub example: String,
}

/// Points beyond which everything is sent again instead of the new ones.
const FRESH_MAX: usize = 4 * POINTS_MAX;

impl Curves {
    /// Adds a point. Names beyond [`NAMES_MAX`] are refused: they never displace an earlier one.
    pub fn add(&mut self, name: &str, point: Point) {
        let is_new = point.is_valid() && self.named(name).is_some_and(|curve| curve.add(point));
        if is_new && self.fresh_count <= FRESH_MAX {
            self.fresh_count += 1;
            self.fresh.entry(name.to_owned()).or_default().push(point);
        }
    }

    /// The points of a name were thinned with such a stride.
    pub fn widen(&mut self, name: &str, stride: u64) {
        if let Some(curve) = self.by_name.get_mut(name) {
            curve.widen(stride);
        }
    }

    fn named(&mut self, name: &str) -> Option<&mut Curve> {
        if !self.by_name.contains_key(name) {
            if self.by_name.len() >= NAMES_MAX || check_name(name).is_err() {
                self.refused.points += 1;
                if self.refused.example.is_empty() {
                    self.refused.example = shown(name);
                }
                return None;
            }
            self.by_name.insert(name.to_owned(), Curve::default());
        }
        self.by_name.get_mut(name)
    }

    /// Adds the points of another one.
    pub fn extend(&mut self, points: &Points) {
        for (name, segment) in points {
            segment.points.iter().for_each(|point| self.add(name, *point));
            self.widen(name, segment.stride);
        }
    }

    /// The points that were added since the last call, or more.
    pub fn take_fresh(&mut self) -> Points {
        let fresh = std::mem::take(&mut self.fresh);
        if std::mem::take(&mut self.fresh_count) > FRESH_MAX {
            return self.points();
        }
        let stride = |name: &str| self.by_name.get(name).map_or(1, Curve::stride);
        fresh
            .into_iter()
            .map(|(name, points)| {
                let stride = stride(&name);
                (name, Segment { stride, points })
            })
            .collect()
    }

    /// All points.
    pub fn points(&self) -> Points {
        self.by_name.iter().map(|(name, curve)| (name.clone(), curve.segment())).collect()
    }

    /// Counts names that were refused elsewhere.
    pub fn note_refused(&mut self, refused: &Refused) {
        if refused.points > self.refused.points {
            self.refused = refused.clone();
        }
    }

    /// Whether there is no point.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The names that could not be stored.
    pub fn refused(&self) -> &Refused {
        &self.refused
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(step: u64) -> Point {
        Point { step, time_s: step as f64, value: -(step as f64) }
    }

    fn curve(points: impl IntoIterator<Item = Point>) -> Curve {
        let mut curve = Curve::default();
        for point in points {
            curve.add(point);
        }
        curve
    }

    #[test]
    fn long_curve_keeps_evenly_spaced_points_and_the_last_one() {
        let curve = curve((1..=1_000_000).map(point));
        let steps: Vec<u64> = curve.points().map(|point| point.step).collect();
        assert_eq!(curve.stride(), 2048);
        assert_eq!((steps[0], steps[1], steps.last()), (1, 2048, Some(&1_000_000)));
        assert!(steps.len() > POINTS_MAX / 2 && steps.len() <= POINTS_MAX + 1);
        assert!(steps[1..steps.len() - 1].windows(2).all(|pair| pair[1] - pair[0] == 2048));
    }

    #[test]
    fn later_value_of_a_step_replaces_the_earlier_one() {
        let at = |time_s, value| Point { step: 7, time_s, value };
        for order in [[at(1.0, 5.0), at(2.0, f64::NAN)], [at(2.0, f64::NAN), at(1.0, 5.0)]] {
            let points: Vec<Point> = curve(order).points().collect();
            assert!(points.len() == 1 && points[0].value.is_nan());
        }
    }

    #[test]
    fn names_beyond_the_limit_are_refused_and_displace_none() {
        let mut curves = Curves::default();
        (0..10_000).for_each(|index| curves.add(&format!("m{index}"), point(1)));
        curves.add("bad\nname", point(1));
        assert_eq!(curves.points().len(), NAMES_MAX);
        assert!(curves.points().contains_key("m0"));
        assert_eq!(curves.refused().points, 10_001 - NAMES_MAX as u64);
        assert_eq!(curves.refused().example, format!("m{NAMES_MAX}"));
    }

    #[test]
    fn fresh_points_rebuild_the_curves_elsewhere() {
        let (mut here, mut there) = (Curves::default(), Curves::default());
        for step in 0..100_000 {
            here.add("loss", point(step));
            if step % 7919 == 0 {
                there.extend(&here.take_fresh());
            }
        }
        there.extend(&here.take_fresh());
        assert_eq!(there.points(), here.points());
        assert!(here.take_fresh().is_empty());
    }

    #[test]
    fn points_survive_json() {
        let points = [f64::NAN, f64::INFINITY, 0.25].map(|value| Point { value, ..point(3) }).to_vec();
        let segment = Segment { stride: 2, points };
        let text = serde_json::to_string(&segment).unwrap();
        assert_eq!(text, r#"{"stride":2,"points":[[3,3.0,"nan"],[3,3.0,"inf"],[3,3.0,0.25]]}"#);
        let read: Segment = serde_json::from_str(&text).unwrap();
        assert!(read.points[0].value.is_nan() && read.points[1..] == segment.points[1..]);
    }

    proptest! {
        /// Thinned in several places, in another order, and with repetitions.
        #[test]
        fn thinning_in_parts_equals_thinning_at_once(
            steps in proptest::collection::vec(0u64..20_000, 1..3000),
            cuts in proptest::collection::vec(0usize..3000, 0..8),
            seed in any::<u64>(),
        ) {
            let all = curve(steps.iter().copied().map(point));
            let mut shuffled = steps.clone();
            let mut state = seed | 1;
            for index in (1..shuffled.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                shuffled.swap(index, (state >> 33) as usize % (index + 1));
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(shuffled.len())).collect();
            cuts.extend([0, shuffled.len()]);
            cuts.sort_unstable();
            let mut merged = Curve::default();
            for pair in cuts.windows(2) {
                let part = curve(shuffled[pair[0]..pair[1]].iter().copied().map(point));
                for _ in 0..2 {
                    merged.extend(&part.segment());
                }
            }
            prop_assert_eq!(merged, all);
        }
    }
}
