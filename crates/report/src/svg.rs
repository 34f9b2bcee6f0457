//! The elements of plots, and their markup as SVG with escaping in one place.
//!
//! Looks come from classes only (`svg.css`), so that a page can follow light and dark.

use crate::human::trimmed;

/// The style of all plots: colours as variables, dash patterns, fonts.
pub(crate) const STYLE: &str = include_str!("svg.css");

/// Text made safe for element content and attributes, in HTML and XML alike.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(char),
            // XML 1.0 has no way to write these.
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            char => safe.push(char),
        }
    }
    safe
}

/// A coordinate: a tenth of a pixel is below what can be seen.
pub(crate) fn px(value: f64) -> String {
    trimmed(value, 1)
}

/// Where text stands relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// An element of a plot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// A line or an outline.
    Path { class: String, d: String },
    /// A rectangle with a tooltip.
    Rect { class: String, corner: (f64, f64), size: (f64, f64), tooltip: String },
    /// Text at a point; one that reads upwards is turned about it.
    Text { class: String, at: (f64, f64), anchor: Anchor, text: String, is_upwards: bool },
}

impl Shape {
    /// The element as markup, with the end of its line.
    pub(crate) fn markup(&self) -> String {
        match self {
            Self::Path { class, d } => format!("<path class=\"{class}\" d=\"{d}\"/>\n"),
            Self::Rect { class, corner, size, tooltip } => {
                let [x, y, width, height] = [corner.0, corner.1, size.0, size.1].map(px);
                let tooltip = escape(tooltip);
                format!(
                    "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\">\
                     <title>{tooltip}</title></rect>\n"
                )
            }
            Self::Text { class, at, anchor, text, is_upwards } => {
                let [x, y] = [at.0, at.1].map(px);
                let place = match is_upwards {
                    true => format!("transform=\"translate({x} {y}) rotate(-90)\""),
                    false => format!("x=\"{x}\" y=\"{y}\""),
                };
                let anchor = match anchor {
                    Anchor::Start => "",
                    Anchor::Middle => " text-anchor=\"middle\"",
                    Anchor::End => " text-anchor=\"end\"",
                };
                format!("<text class=\"{class}\" {place}{anchor}>{}</text>\n", escape(text))
            }
        }
    }
}

/// Elements in drawing order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Canvas {
    shapes: Vec<Shape>,
}

impl Canvas {
    pub(crate) fn into_shapes(self) -> Vec<Shape> {
        self.shapes
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(px);
        self.path(class, &format!("M{x1} {y1}L{x2} {y2}"));
    }

    pub(crate) fn path(&mut self, class: &str, d: &str) {
        if !d.is_empty() {
            self.shapes.push(Shape::Path { class: class.to_owned(), d: d.to_owned() });
        }
    }

    /// A rectangle with a tooltip.
    pub(crate) fn rect(&mut self, class: &str, corner: (f64, f64), size: (f64, f64), tooltip: &str) {
        let (class, tooltip) = (class.to_owned(), tooltip.to_owned());
        self.shapes.push(Shape::Rect { class, corner, size, tooltip });
    }

    pub(crate) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let (class, text) = (class.to_owned(), text.to_owned());
        self.shapes.push(Shape::Text { class, at, anchor, text, is_upwards: false });
    }

    /// Text that reads upwards, centred on its point.
    pub(crate) fn text_upwards(&mut self, class: &str, at: (f64, f64), text: &str) {
        let (class, text) = (class.to_owned(), text.to_owned());
        self.shapes.push(Shape::Text { class, at, anchor: Anchor::Middle, text, is_upwards: true });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_leaves_nothing_that_ends_an_element_or_attribute() {
        assert_eq!(escape(r#"<a href="x">'&'</a>"#), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
        assert_eq!(escape("a\u{0}b\u{1b}[1m"), "a\u{fffd}b\u{fffd}[1m");
    }
}
