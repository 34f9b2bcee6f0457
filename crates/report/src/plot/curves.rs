//! Curves and points over logarithmic axes: how something grows, and how near one number is to another.

use super::Plot;
use super::axis::Axis;
use super::frame::Frame;
use crate::svg::px;

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Positive numbers; others are left out.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    fn shown(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let is_shown = |value: f64| value.is_finite() && value > 0.0;
        self.points.iter().copied().filter(move |&(x, y)| is_shown(x) && is_shown(y))
    }
}

/// What the axes mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Titles<'a> {
    /// Of the whole.
    pub plot: &'a str,
    /// Below.
    pub x: &'a str,
    /// At the side.
    pub y: &'a str,
}

/// One line for each series, over powers of two.
pub fn curves(titles: Titles<'_>, series: &[Curve]) -> Plot {
    let (x_range, y_range) = (range(series, |point| point.0), range(series, |point| point.1));
    let x = Axis::powers_of_two(x_range.0, x_range.1);
    let mut frame = frame(titles, series, x, Axis::log(y_range.0, y_range.1));
    for (index, curve) in series.iter().enumerate() {
        let at: Vec<(f64, f64)> = curve.shown().map(|(x, y)| (frame.x(x), frame.y(y))).collect();
        let step = |(index, &(x, y)): (usize, &(f64, f64))| {
            format!("{}{} {}", if index == 0 { 'M' } else { 'L' }, px(x), px(y))
        };
        let d: String = at.iter().enumerate().map(step).collect();
        frame.series(index, &d, &at);
        // A line of one point is none.
        if let &[only] = at.as_slice() {
            frame.points(index, &[only]);
        }
    }
    frame.finish()
}

/// A mark for each point, and the line on which both numbers are the same.
pub fn scatter(titles: Titles<'_>, series: &[Curve]) -> Plot {
    let (one, two) = (range(series, |point| point.0), range(series, |point| point.1));
    let (low, high) = (one.0.min(two.0), one.1.max(two.1));
    let mut frame = frame(titles, series, Axis::log(low, high), Axis::log(low, high));
    let end = |value: f64, frame: &Frame| (frame.x(value), frame.y(value));
    let (from, to) = (end(low, &frame), end(high, &frame));
    frame.canvas.line("base", from, to);
    for (index, curve) in series.iter().enumerate() {
        let at: Vec<(f64, f64)> = curve.shown().map(|(x, y)| (frame.x(x), frame.y(y))).collect();
        frame.points(index, &at);
    }
    frame.finish()
}

fn frame(titles: Titles<'_>, series: &[Curve], x: Axis, y: Axis) -> Frame {
    let names: Vec<&str> = series.iter().map(|curve| curve.name.as_str()).collect();
    let mut frame = Frame::new(titles.plot, &names, (x, titles.x), (y, titles.y));
    if series.iter().all(|curve| curve.shown().next().is_none()) {
        frame.nothing();
    }
    frame
}

/// The least and the largest of what is shown.
fn range(series: &[Curve], pick: fn((f64, f64)) -> f64) -> (f64, f64) {
    let all = || series.iter().flat_map(Curve::shown).map(pick);
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    if low <= high { (low, high) } else { (1.0, 10.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLES: Titles<'_> = Titles { plot: "Speed", x: "devices", y: "samples a second" };

    fn curve(name: &str, points: &[(f64, f64)]) -> Curve {
        Curve { name: name.to_owned(), points: points.to_vec() }
    }

    #[test]
    fn every_point_has_a_mark_and_odd_ones_are_left_out() {
        let points = [(1.0, 3.0), (2.0, 5.9), (4.0, f64::NAN), (8.0, 20.0), (0.0, 1.0)];
        let svg = curves(TITLES, &[curve("a40", &points), curve("v100", &[(2.0, 9.0)])]).to_svg();
        assert!(!svg.contains("NaN"));
        let marks = |shape: &str| svg.matches(shape).count();
        // One of each in the legend.
        assert_eq!((marks("a4 4 0 1 0 8 0"), marks("m-3.5 -3.5h7")), (1 + 3, 1 + 2));
        assert!(svg.contains(">8<") && svg.contains("samples a second"));
        let dots = scatter(TITLES, &[curve("one", &points), curve("two", &[])]).to_svg();
        assert_eq!(dots.matches("a4 4 0 1 0 8 0").count(), 1 + 3);
    }

    #[test]
    fn empty_result_has_a_note() {
        assert!(curves(TITLES, &[]).to_svg().contains("nothing to show"));
        assert!(scatter(TITLES, &[curve("a", &[(-1.0, 2.0)])]).to_svg().contains("nothing to show"));
    }
}
