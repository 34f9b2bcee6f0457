//! Occupancy over time.

use serde::{Deserialize, Serialize};
use wharf_outcome::Sample;

use super::Plot;
use super::axis::Axis;
use super::frame::{Frame, band_class};
use crate::human;
use crate::svg::px;

/// A value that holds from each moment to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSeries {
    /// The run's name in the legend.
    pub name: String,
    /// Its values.
    pub curve: StepCurve,
}

/// The values of a step function, as they are or thinned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepCurve {
    /// Moments in seconds, ascending, and the value from each on. The last moment ends the series.
    Steps(Vec<(f64, f64)>),
    /// Equal parts of the time.
    Columns(Vec<StepColumn>),
}

/// What a step function does within a part of the time. In files: four numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 4]", into = "[f64; 4]")]
pub struct StepColumn {
    /// The part's middle, in seconds.
    pub middle: f64,
    /// The mean in it.
    pub mean: f64,
    /// The lowest value.
    pub min: f64,
    /// The highest value.
    pub max: f64,
}

impl From<[f64; 4]> for StepColumn {
    fn from([middle, mean, min, max]: [f64; 4]) -> Self {
        Self { middle, mean, min, max }
    }
}

impl From<StepColumn> for [f64; 4] {
    fn from(column: StepColumn) -> Self {
        [column.middle, column.mean, column.min, column.max]
    }
}

impl StepCurve {
    /// The share of devices with a running job.
    pub fn utilization(timeline: &[Sample], device_count: u32) -> Self {
        let devices = f64::from(device_count.max(1));
        Self::new(timeline, |sample| f64::from(sample.busy_devices) / devices)
    }

    /// The number of waiting jobs.
    pub fn queue_length(timeline: &[Sample]) -> Self {
        Self::new(timeline, |sample| f64::from(sample.waiting))
    }

    fn new(timeline: &[Sample], value: impl Fn(&Sample) -> f64) -> Self {
        Self::Steps(timeline.iter().map(|sample| (sample.time.seconds(), value(sample))).collect())
    }

    /// The same with at most so many parts, in times since `start`.
    #[must_use]
    pub fn thinned(&self, start: f64, columns_max: usize) -> Self {
        match self.since(start) {
            Self::Steps(points) if points.len() > columns_max => Self::Columns(columns(&points, columns_max)),
            curve => curve,
        }
    }

    /// The first moment, where there is one.
    pub fn start(&self) -> Option<f64> {
        match self {
            Self::Steps(points) => points.first().map(|point| point.0),
            Self::Columns(columns) => Some(columns.first()?.middle - half_width(columns)),
        }
    }

    /// The last moment, where there is one.
    pub(crate) fn end(&self) -> Option<f64> {
        self.steps().last().map(|point| point.0)
    }

    /// The means in so many equal parts of the time from 0 to `end`; it is 0 after its own end.
    pub(crate) fn means(&self, end: f64, count: usize) -> Vec<f64> {
        let mut points = self.steps();
        if let Some(last) = points.last_mut() {
            last.1 = 0.0;
        }
        points.push((end, 0.0));
        columns(&points, count).iter().map(|column| column.mean).collect()
    }

    /// Moments and the values from each on, of which the last only ends the series; columns hold their mean.
    fn steps(&self) -> Vec<(f64, f64)> {
        let columns = match self {
            Self::Steps(points) => return points.clone(),
            Self::Columns(columns) => columns,
        };
        let half = half_width(columns);
        let starts = columns.iter().map(|column| (column.middle - half, column.mean));
        starts.chain(columns.last().map(|last| (last.middle + half, 0.0))).collect()
    }

    /// Finite values with one for each moment: of several changes at once only the last one lasts.
    fn since(&self, start: f64) -> Self {
        let points = match self {
            Self::Steps(points) => points,
            Self::Columns(columns) => {
                let shifted =
                    columns.iter().map(|column| StepColumn { middle: column.middle - start, ..*column });
                return Self::Columns(shifted.collect());
            }
        };
        let mut cleaned: Vec<(f64, f64)> = Vec::with_capacity(points.len());
        for &(time, value) in points.iter().filter(|(time, value)| time.is_finite() && value.is_finite()) {
            match cleaned.last_mut() {
                Some(last) if time - start <= last.0 => last.1 = value,
                _ => cleaned.push((time - start, value)),
            }
        }
        Self::Steps(cleaned)
    }

    /// Moments and values that a line goes through.
    fn line(&self) -> Vec<(f64, f64)> {
        match self {
            Self::Steps(points) => points.clone(),
            Self::Columns(columns) => columns.iter().map(|column| (column.middle, column.mean)).collect(),
        }
    }

    fn highest(&self) -> f64 {
        match self {
            Self::Steps(points) => points.iter().map(|point| point.1).fold(0.0, f64::max),
            Self::Columns(columns) => columns.iter().map(|column| column.max).fold(0.0, f64::max),
        }
    }
}

impl StepSeries {
    /// The share of devices with a running job.
    pub fn utilization(name: &str, timeline: &[Sample], device_count: u32) -> Self {
        Self { name: name.to_owned(), curve: StepCurve::utilization(timeline, device_count) }
    }

    /// The number of waiting jobs.
    pub fn queue_length(name: &str, timeline: &[Sample]) -> Self {
        Self { name: name.to_owned(), curve: StepCurve::queue_length(timeline) }
    }
}

/// The share of devices in use over time, from the first submission.
pub fn utilization(runs: &[StepSeries]) -> Plot {
    step_plot("Devices in use over time", "devices in use", runs, |_| Axis::share())
}

/// Waiting jobs over time, from the first submission.
pub fn queue_length(runs: &[StepSeries]) -> Plot {
    step_plot("Jobs waiting over time", "jobs waiting", runs, |max| Axis::counts(max, human::number))
}

fn step_plot(title: &str, y_title: &str, runs: &[StepSeries], y_axis: impl Fn(f64) -> Axis) -> Plot {
    let first_moments = runs.iter().filter_map(|run| run.curve.start());
    let start = first_moments.filter(|time| time.is_finite()).fold(f64::INFINITY, f64::min);
    let curves: Vec<StepCurve> = runs.iter().map(|run| run.curve.thinned(start, COLUMNS)).collect();
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let lines: Vec<Vec<(f64, f64)>> = curves.iter().map(StepCurve::line).collect();
    let x = Axis::time(lines.iter().flatten().map(|point| point.0).fold(0.0, f64::max));
    let has_bands = curves.len() <= BANDS_MAX;
    let means = || lines.iter().flatten().map(|point| point.1).fold(0.0, f64::max);
    let y =
        y_axis(if has_bands { curves.iter().map(StepCurve::highest).fold(0.0, f64::max) } else { means() });
    let mut frame = Frame::new(title, &names, (x, "time since the first submission"), (y, y_title));
    let mut thinned = false;
    for (index, curve) in curves.iter().enumerate() {
        let path = match curve {
            StepCurve::Steps(points) => step_path(&frame, points),
            StepCurve::Columns(columns) => {
                thinned = true;
                if has_bands {
                    frame.canvas.path(&band_class(index), &band_path(&frame, columns));
                }
                mean_path(&frame, columns)
            }
        };
        let marks = marks(&frame, &lines[index], index, curves.len());
        frame.series(index, &path, &marks);
    }
    if lines.iter().all(Vec::is_empty) {
        frame.nothing();
    } else if thinned && has_bands {
        frame.note("Line: mean of short parts of the time. Shade: lowest to highest value within them.");
    } else if thinned {
        frame.note("Lines are means of short parts of the time.");
    }
    frame.finish()
}

fn step_path(frame: &Frame, points: &[(f64, f64)]) -> String {
    let Some(&(time, value)) = points.first() else { return String::new() };
    let mut d = format!("M{} {}", px(frame.x(time)), px(frame.y(value)));
    for &(time, value) in &points[1..] {
        d += &format!("H{}V{}", px(frame.x(time)), px(frame.y(value)));
    }
    d
}

/// Half of what each of equal columns is wide.
fn half_width(columns: &[StepColumn]) -> f64 {
    match columns {
        [first, second, ..] => (second.middle - first.middle) / 2.0,
        _ => 0.0,
    }
}

/// Series with more points than this are thinned to as many columns.
const COLUMNS: usize = Frame::width() as usize / 2;

/// More shades than this hide each other.
const BANDS_MAX: usize = 3;

/// Mean, lowest and highest value in each of so many equal parts of the series.
fn columns(points: &[(f64, f64)], count: usize) -> Vec<StepColumn> {
    let (Some(&(first, _)), Some(&(last, _))) = (points.first(), points.last()) else { return vec![] };
    let width = (last - first) / count as f64;
    let mut index = 0;
    let column = |number: usize| {
        let (start, end) = (first + number as f64 * width, first + (number + 1) as f64 * width);
        let (mut area, mut min, mut max) = (0.0, f64::INFINITY, f64::NEG_INFINITY);
        loop {
            let (time, value) = points[index];
            let until = points.get(index + 1).map_or(f64::INFINITY, |next| next.0);
            area += value * (until.min(end) - time.max(start)).max(0.0);
            (min, max) = (min.min(value), max.max(value));
            if until >= end || index + 1 == points.len() {
                break;
            }
            index += 1;
        }
        StepColumn { middle: f64::midpoint(start, end), mean: (area / width).clamp(min, max), min, max }
    };
    (0..count).map(column).collect()
}

fn mean_path(frame: &Frame, columns: &[StepColumn]) -> String {
    let mut d = String::new();
    for column in columns {
        let command = if d.is_empty() { 'M' } else { 'L' };
        d += &format!("{command}{} {}", px(frame.x(column.middle)), px(frame.y(column.mean)));
    }
    d
}

fn band_path(frame: &Frame, columns: &[StepColumn]) -> String {
    let mut d = String::new();
    let upper = columns.iter().map(|column| (column.middle, column.max));
    let lower = columns.iter().rev().map(|column| (column.middle, column.min));
    for (time, value) in upper.chain(lower) {
        let command = if d.is_empty() { 'M' } else { 'L' };
        d += &format!("{command}{} {}", px(frame.x(time)), px(frame.y(value)));
    }
    d + "z"
}

/// Markers on a few moments, another few for each series.
fn marks(frame: &Frame, points: &[(f64, f64)], index: usize, count: usize) -> Vec<(f64, f64)> {
    const MARKS: usize = 6;
    let Some(&(last, _)) = points.last() else { return vec![] };
    let share = |number: usize| (number as f64 + (index as f64 + 0.5) / count as f64) / MARKS as f64;
    let at = |number| {
        let time = last * share(number);
        let after = points.partition_point(|point| point.0 <= time);
        let value = points.get(after.checked_sub(1)?)?.1;
        Some((frame.x(time), frame.y(value)))
    };
    (0..MARKS).filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn columns_keep_extremes_and_mean() {
        // One busy second in every hundred: the spikes must survive.
        let points: Vec<(f64, f64)> = (0..1000)
            .flat_map(|index| [(f64::from(index) * 100.0, 9.0), (f64::from(index) * 100.0 + 1.0, 0.0)])
            .chain([(100_000.0, 0.0)])
            .collect();
        let columns = columns(&points, COLUMNS);
        assert_eq!(columns.len(), COLUMNS);
        assert!(columns.iter().all(|column| column.max == 9.0 && column.min == 0.0));
        let mean = columns.iter().map(|column| column.mean).sum::<f64>() / COLUMNS as f64;
        assert!((mean - 0.09).abs() < 1e-6, "{mean}");
    }

    #[test]
    fn thinned_plot_is_small_with_a_note() {
        let points = (0..100_000).map(|index| (f64::from(index), f64::from(index % 7))).collect();
        let svg =
            queue_length(&[StepSeries { name: "fifo".to_owned(), curve: StepCurve::Steps(points) }]).to_svg();
        assert!(svg.len() < 40_000 && svg.contains("mean of short parts"));
    }

    #[test]
    fn a_thinned_series_begins_where_it_began() {
        let curve = StepCurve::Steps((0..1000).map(|index| (f64::from(index), 1.0)).collect());
        let (start, end) = (curve.thinned(0.0, 10).start().unwrap(), curve.thinned(0.0, 10).end().unwrap());
        assert!(start.abs() < 1e-9 && (end - 999.0).abs() < 1e-9, "{start} {end}");
    }

    #[test]
    fn changes_at_one_moment_count_once() {
        let curve = StepCurve::Steps(vec![(5.0, 1.0), (5.0, 2.0), (f64::NAN, 1.0), (6.0, 0.0)]);
        assert_eq!(curve.thinned(5.0, 9), StepCurve::Steps(vec![(0.0, 2.0), (1.0, 0.0)]));
    }

    #[test]
    fn plots_without_data_have_a_note() {
        for plot in [utilization(&[]), queue_length(&[StepSeries::queue_length("a", &[])])] {
            let svg = plot.to_svg();
            assert!(svg.contains("nothing to show") && !svg.contains("NaN"));
        }
    }

    #[test]
    fn small_utilization_plot_as_a_golden() {
        let outcome = fixture::outcome();
        let run = StepSeries::utilization("fifo", &outcome.timeline, outcome.device_count);
        insta::assert_snapshot!(utilization(&[run]).to_inline(), @r#"
        <svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 760 342" width="760" height="342" role="img" aria-label="Devices in use over time">
        <text class="title" x="62" y="20">Devices in use over time</text>
        <path class="grid" d="M62 282L742 282"/>
        <text class="tick" x="55" y="286" text-anchor="end">0 %</text>
        <path class="grid" d="M62 219.5L742 219.5"/>
        <text class="tick" x="55" y="223.5" text-anchor="end">25 %</text>
        <path class="grid" d="M62 157L742 157"/>
        <text class="tick" x="55" y="161" text-anchor="end">50 %</text>
        <path class="grid" d="M62 94.5L742 94.5"/>
        <text class="tick" x="55" y="98.5" text-anchor="end">75 %</text>
        <path class="grid" d="M62 32L742 32"/>
        <text class="tick" x="55" y="36" text-anchor="end">100 %</text>
        <path class="grid" d="M62 32L62 282"/>
        <text class="tick" x="62" y="298" text-anchor="middle">0</text>
        <path class="grid" d="M147 32L147 282"/>
        <text class="tick" x="147" y="298" text-anchor="middle">10s</text>
        <path class="grid" d="M232 32L232 282"/>
        <text class="tick" x="232" y="298" text-anchor="middle">20s</text>
        <path class="grid" d="M317 32L317 282"/>
        <text class="tick" x="317" y="298" text-anchor="middle">30s</text>
        <path class="grid" d="M402 32L402 282"/>
        <text class="tick" x="402" y="298" text-anchor="middle">40s</text>
        <path class="grid" d="M487 32L487 282"/>
        <text class="tick" x="487" y="298" text-anchor="middle">50s</text>
        <path class="grid" d="M572 32L572 282"/>
        <text class="tick" x="572" y="298" text-anchor="middle">60s</text>
        <path class="grid" d="M657 32L657 282"/>
        <text class="tick" x="657" y="298" text-anchor="middle">70s</text>
        <path class="grid" d="M742 32L742 282"/>
        <text class="tick" x="742" y="298" text-anchor="middle">80s</text>
        <path class="base" d="M62 282L742 282"/>
        <text class="axis" x="402" y="318" text-anchor="middle">time since the first submission</text>
        <text class="axis" transform="translate(14 157) rotate(-90)" text-anchor="middle">devices in use</text>
        <path class="series s0 d0" d="M62 219.5H147V282H232V32H402V157H742V282"/>
        </svg>
        "#);
    }
}
