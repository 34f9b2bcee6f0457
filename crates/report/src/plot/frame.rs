//! What line plots have in common: title, legend, axes, and how series are distinguished.

use super::axis::Axis;
use super::{COLOURS, Plot, WIDTH};
use crate::human::shortened;
use crate::svg::{Anchor, Canvas, px};

const LEFT: f64 = 62.0;
const RIGHT: f64 = 18.0;
const PLOT_HEIGHT: f64 = 250.0;
const TITLE_HEIGHT: f64 = 32.0;
const BOTTOM: f64 = 46.0;
const LEGEND_ROW: f64 = 18.0;
const LEGEND_SAMPLE: f64 = 34.0;
const LEGEND_GAP: f64 = 18.0;
/// Mean width of a character at 12 px; fonts differ, so a little generous.
const CHAR_WIDTH: f64 = 6.8;
const NAME_LENGTH_MAX: usize = 48;
const DASHES: usize = 6;
const MARKS: usize = 6;

/// A line plot in the making.
pub(super) struct Frame {
    pub(super) canvas: Canvas,
    title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    top: f64,
    series_count: usize,
}

impl Frame {
    /// Draws title, legend and axes.
    pub(super) fn new(
        title: &str,
        names: &[&str],
        (x, x_title): (Axis, &str),
        (y, y_title): (Axis, &str),
    ) -> Self {
        let mut canvas = Canvas::default();
        canvas.text("title", (LEFT, 20.0), Anchor::Start, title);
        let top = TITLE_HEIGHT + legend(&mut canvas, names);
        let mut frame = Self { canvas, title: title.to_owned(), x, y, top, series_count: names.len() };
        frame.axes(x_title, y_title);
        frame
    }

    fn axes(&mut self, x_title: &str, y_title: &str) {
        let (right, bottom) = (WIDTH - RIGHT, self.top + PLOT_HEIGHT);
        for (value, label) in self.y.ticks.clone() {
            let y = self.y(value);
            self.canvas.line("grid", (LEFT, y), (right, y));
            self.canvas.text("tick", (LEFT - 7.0, y + 4.0), Anchor::End, &label);
        }
        for (value, label) in self.x.ticks.clone() {
            let x = self.x(value);
            self.canvas.line("grid", (x, self.top), (x, bottom));
            self.canvas.text("tick", (x, bottom + 16.0), Anchor::Middle, &label);
        }
        self.canvas.line("base", (LEFT, bottom), (right, bottom));
        self.canvas.text("axis", ((LEFT + right) / 2.0, bottom + 36.0), Anchor::Middle, x_title);
        self.canvas.text_upwards("axis", (14.0, self.top + PLOT_HEIGHT / 2.0), y_title);
    }

    /// Pixels across the plotting area.
    pub(super) const fn width() -> f64 {
        WIDTH - RIGHT - LEFT
    }

    pub(super) fn x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * Self::width()
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.top + (1.0 - self.y.place(value)) * PLOT_HEIGHT
    }

    /// Draws a series, with markers at these pixels where there is more than one series.
    pub(super) fn series(&mut self, index: usize, d: &str, marks: &[(f64, f64)]) {
        self.canvas.path(&line_class(index), d);
        if self.series_count > 1 && !d.is_empty() {
            self.points(index, marks);
        }
    }

    /// Draws markers at these pixels.
    pub(super) fn points(&mut self, index: usize, marks: &[(f64, f64)]) {
        let d: String = marks.iter().map(|&at| mark(index, at)).collect();
        self.canvas.path(&mark_class(index), &d);
    }

    /// Says in the middle that there is nothing to see.
    pub(super) fn nothing(&mut self) {
        let at = (LEFT + Self::width() / 2.0, self.top + PLOT_HEIGHT / 2.0);
        self.canvas.text("note", at, Anchor::Middle, "nothing to show");
    }

    /// A remark below the plot.
    pub(super) fn note(&mut self, text: &str) {
        let y = self.top + PLOT_HEIGHT + BOTTOM + 6.0;
        self.canvas.text("note", (LEFT, y), Anchor::Start, text);
    }

    pub(super) fn finish(self) -> Plot {
        let height = self.top + PLOT_HEIGHT + BOTTOM + 14.0;
        Plot { title: self.title, width: WIDTH, height, shapes: self.canvas.into_shapes() }
    }
}

/// Draws the names of more than one series in as many rows as they need; gives the height.
fn legend(canvas: &mut Canvas, names: &[&str]) -> f64 {
    if names.len() < 2 {
        return 0.0;
    }
    let (mut x, mut row) = (LEFT, 0.0);
    for (index, name) in names.iter().enumerate() {
        let name = shortened(name, NAME_LENGTH_MAX);
        let width = LEGEND_SAMPLE + name.chars().count() as f64 * CHAR_WIDTH;
        if x > LEFT && x + width > WIDTH - RIGHT {
            (x, row) = (LEFT, row + 1.0);
        }
        let y = TITLE_HEIGHT + 6.0 + row * LEGEND_ROW;
        canvas.line(&line_class(index), (x, y), (x + LEGEND_SAMPLE - 8.0, y));
        canvas.path(&mark_class(index), &mark(index, (x + (LEGEND_SAMPLE - 8.0) / 2.0, y)));
        canvas.text("name", (x + LEGEND_SAMPLE, y + 4.0), Anchor::Start, &name);
        x += width + LEGEND_GAP;
    }
    (row + 1.0) * LEGEND_ROW + 4.0
}

fn line_class(index: usize) -> String {
    format!("series s{} d{}", index % COLOURS, index % DASHES)
}

fn mark_class(index: usize) -> String {
    format!("mark f{}", index % COLOURS)
}

/// The area between the extremes of a thinned series.
pub(super) fn band_class(index: usize) -> String {
    format!("band f{}", index % COLOURS)
}

/// Circle, square, triangle, diamond, triangle downwards, cross: six shapes of about equal weight.
fn mark(index: usize, (x, y): (f64, f64)) -> String {
    let at = format!("{} {}", px(x), px(y));
    match index % MARKS {
        0 => format!("M{at}m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"),
        1 => format!("M{at}m-3.5 -3.5h7v7h-7z"),
        2 => format!("M{at}m0 -5l4.5 8h-9z"),
        3 => format!("M{at}m0 -5l4.5 5l-4.5 5l-4.5 -5z"),
        4 => format!("M{at}m0 5l4.5 -8h-9z"),
        _ => format!("M{at}m-1.5 -4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z"),
    }
}
