//! Plots as SVG and PDF: the same bytes for the same run, light and dark, readable without colour.
//!
//! Lines differ in colour, dash pattern and marker; the best bar has a star; what is drawn has a tooltip.
//! Series are thinned to the pixel grid, so that a plot's size does not grow with the trace.

mod axis;
mod bars;
mod cdf;
mod curves;
mod frame;
mod gantt;
mod steps;

pub use bars::{Bar, bars};
pub use cdf::{CdfSeries, jct_cdf};
pub use curves::{Curve, Titles, curves, scatter};
pub use gantt::{gantt, node_devices};
pub use steps::{StepColumn, StepCurve, StepSeries, queue_length, utilization};

use crate::svg::{STYLE, Shape, escape, px};

/// Width of plots over time.
const WIDTH: f64 = 760.0;
/// Colours before they repeat.
const COLOURS: usize = 7;

/// A drawing, ready to be saved or put into a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    title: String,
    width: f64,
    height: f64,
    shapes: Vec<Shape>,
}

impl Plot {
    /// What it shows.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// A file of its own, with its style.
    pub fn to_svg(&self) -> String {
        self.render(&format!("<style>\n{STYLE}</style>\n"))
    }

    /// The same as a PDF file of one page, in its light form.
    pub fn to_pdf(&self) -> Vec<u8> {
        crate::pdf::page(&self.title, self.width, self.height, &self.shapes)
    }

    /// An element for a page that has the style once for all plots.
    pub(crate) fn to_inline(&self) -> String {
        self.render("")
    }

    fn render(&self, style: &str) -> String {
        let (title, width, height) = (escape(&self.title), px(self.width), px(self.height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n\
             {style}{}</svg>\n",
            self.shapes.iter().map(Shape::markup).collect::<String>()
        )
    }
}
