//! One metric across runs.

use super::Plot;
use crate::human::shortened;
use crate::metric::Metric;
use crate::svg::{Anchor, Canvas};

/// Two of them stand side by side on a page.
const WIDTH: f64 = 460.0;
const ROW: f64 = 28.0;
const BAR: f64 = 18.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 14.0;
const RIGHT: f64 = 100.0;
/// Height of the ends of an error bar.
const WHISKER: f64 = 8.0;
/// Width of a bold character at 12 px; fonts differ, so a little generous.
const CHAR_WIDTH: f64 = 7.6;
const NAME_LENGTH_MAX: usize = 26;

/// One run's bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The run's name.
    pub name: String,
    /// Its value; without one there is no bar.
    pub value: Option<f64>,
    /// The 95 % confidence interval of the value, where it is a mean over several runs.
    pub interval: Option<(f64, f64)>,
    /// Whether it is to be marked as the best.
    pub best: bool,
}

impl Bar {
    /// The interval that is drawn: nothing is below zero.
    fn shown_interval(&self) -> Option<(f64, f64)> {
        let (low, high) = self.interval.filter(|(low, high)| low.is_finite() && high.is_finite())?;
        (low < high).then_some((low.max(0.0), high.max(0.0)))
    }
}

/// A horizontal bar per run, labelled with its value, with an error bar where there is an interval; the best has a star.
pub fn bars(metric: Metric, runs: &[Bar]) -> Plot {
    let better = if metric.higher_is_better() { "more is better" } else { "less is better" };
    let title = format!("{} ({better})", metric.title());
    let longest = runs.iter().map(|run| run.name.chars().count().min(NAME_LENGTH_MAX)).max().unwrap_or(0);
    let left = 24.0 + longest as f64 * CHAR_WIDTH;
    let highs = runs.iter().filter_map(|run| Some(run.shown_interval()?.1));
    let known = runs.iter().filter_map(|run| run.value).filter(|value| value.is_finite()).chain(highs);
    let max = known.fold(0.0, f64::max);
    let mut canvas = Canvas::default();
    canvas.text("title", (16.0, 22.0), Anchor::Start, &title);
    for (index, run) in runs.iter().enumerate() {
        draw_bar(&mut canvas, metric, run, (left, TOP + index as f64 * ROW + BAR / 2.0), max);
    }
    let bottom = TOP + (runs.len().max(1) as f64 - 1.0) * ROW + BAR;
    canvas.line("base", (left, TOP - 5.0), (left, bottom + 5.0));
    Plot { title, width: WIDTH, height: bottom + BOTTOM, shapes: canvas.into_shapes() }
}

fn draw_bar(canvas: &mut Canvas, metric: Metric, run: &Bar, (left, middle): (f64, f64), max: f64) {
    let value = run.value.filter(|value| value.is_finite());
    let (class, bar_class, mark) =
        if run.best { ("name strong", "bar best", " ★") } else { ("name", "bar", "") };
    let text = value.map_or_else(|| "no value".to_owned(), |value| metric.unit().show(value)) + mark;
    let place =
        |value: f64| if max > 0.0 { (value / max).clamp(0.0, 1.0) * (WIDTH - RIGHT - left) } else { 0.0 };
    let length = value.map_or(0.0, place);
    let interval = run.shown_interval().map(|(low, high)| (left + place(low), left + place(high)));
    let end = interval.map_or(left + length, |(_, high)| high.max(left + length));
    canvas.text(class, (left - 8.0, middle + 4.0), Anchor::End, &shortened(&run.name, NAME_LENGTH_MAX));
    let within = run.shown_interval().map_or_else(String::new, |(low, high)| {
        format!(" ({} to {})", metric.unit().show(low), metric.unit().show(high))
    });
    let tooltip = format!("{}: {text}{within}", run.name);
    canvas.rect(bar_class, (left, middle - BAR / 2.0), (length, BAR), &tooltip);
    if let Some((low, high)) = interval {
        canvas.line("whisker", (low, middle), (high, middle));
        for x in [low, high] {
            canvas.line("whisker", (x, middle - WHISKER / 2.0), (x, middle + WHISKER / 2.0));
        }
    }
    canvas.text(class, (end + 7.0, middle + 4.0), Anchor::Start, &text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::px;

    fn bar(name: &str, value: Option<f64>, best: bool) -> Bar {
        Bar { name: name.to_owned(), value, interval: None, best }
    }

    #[test]
    fn bars_as_a_golden() {
        let runs = [bar("fifo", Some(7980.0), false), bar("a<b", Some(3990.0), true), bar("c", None, false)];
        insta::assert_snapshot!(bars(Metric::AvgJct, &runs).to_inline(), @r#"
        <svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 460 128" width="460" height="128" role="img" aria-label="avg JCT (less is better)">
        <text class="title" x="16" y="22">avg JCT (less is better)</text>
        <text class="name" x="46.4" y="53" text-anchor="end">fifo</text>
        <rect class="bar" x="54.4" y="40" width="305.6" height="18"><title>fifo: 2h 13m</title></rect>
        <text class="name" x="367" y="53">2h 13m</text>
        <text class="name strong" x="46.4" y="81" text-anchor="end">a&lt;b</text>
        <rect class="bar best" x="54.4" y="68" width="152.8" height="18"><title>a&lt;b: 1h 7m ★</title></rect>
        <text class="name strong" x="214.2" y="81">1h 7m ★</text>
        <text class="name" x="46.4" y="109" text-anchor="end">c</text>
        <rect class="bar" x="54.4" y="96" width="0" height="18"><title>c: no value</title></rect>
        <text class="name" x="61.4" y="109">no value</text>
        <path class="base" d="M54.4 35L54.4 119"/>
        </svg>
        "#);
    }

    #[test]
    fn intervals_are_drawn_to_the_scale_of_the_bars() {
        let with = |name: &str, value: f64, interval| Bar {
            interval: Some(interval),
            ..bar(name, Some(value), false)
        };
        let runs =
            [with("a", 100.0, (50.0, 200.0)), with("b", 20.0, (-30.0, 70.0)), with("c", 10.0, (10.0, 10.0))];
        let svg = bars(Metric::AvgJct, &runs).to_inline();
        // From 31.6 to 360 pixels are 200 s, the end of the longest interval.
        let at = |value: f64| px(31.6 + (360.0 - 31.6) * value / 200.0);
        let whisker = |low: f64, high: f64, y: f64| {
            format!("class=\"whisker\" d=\"M{} {y}L{} {y}\"", at(low), at(high))
        };
        assert!(
            svg.contains(&whisker(50.0, 200.0, 49.0)) && svg.contains(&whisker(0.0, 70.0, 77.0)),
            "{svg}"
        );
        assert_eq!(svg.matches("whisker").count(), 6, "an interval without width is none: {svg}");
        assert!(svg.contains(">a: 1m 40s (50s to 3m 20s)<"), "{svg}");
    }

    #[test]
    fn bars_of_nothing_or_zero_have_no_nan() {
        for runs in [vec![], vec![bar("a", Some(0.0), true)], vec![bar("a", Some(f64::NAN), false)]] {
            assert!(!bars(Metric::Makespan, &runs).to_svg().contains("NaN"));
        }
    }
}
