//! The plots' style sheet, as far as plots use it: classes, colours as variables, widths, dashes, sizes.

use std::collections::BTreeMap;

use crate::svg::STYLE;

/// How a shape is drawn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Paint {
    pub(super) fill: Option<[u8; 3]>,
    pub(super) stroke: Option<[u8; 3]>,
    pub(super) width: f64,
    pub(super) dashes: Vec<f64>,
    pub(super) opacity: f64,
    pub(super) size: f64,
    pub(super) is_bold: bool,
}

/// Rules in order: later ones win.
pub(super) struct Sheet {
    variables: BTreeMap<String, String>,
    rules: Vec<Rule>,
}

struct Rule {
    /// Whether it is for text only.
    is_text: bool,
    /// Classes that an element must have.
    classes: Vec<String>,
    declarations: Vec<(String, String)>,
}

/// The element that all rules are about.
const ROOT: &str = "svg.chart";

impl Sheet {
    /// The style of all plots, in its light form.
    pub(super) fn charts() -> Self {
        Self::new(STYLE)
    }

    fn new(text: &str) -> Self {
        let mut sheet = Self { variables: BTreeMap::new(), rules: Vec::new() };
        for (selectors, body) in blocks(text) {
            let declarations = declarations(body);
            for selector in selectors.split(',').map(str::trim) {
                let Some(rest) = selector.strip_prefix(ROOT) else { continue };
                let rest = rest.trim();
                if rest.is_empty() {
                    let variables = declarations.iter().filter(|(name, _)| name.starts_with("--"));
                    sheet.variables.extend(variables.cloned());
                }
                let is_text = rest.starts_with("text");
                let classes = rest.trim_start_matches("text").split('.').filter(|class| !class.is_empty());
                let classes = classes.map(str::to_owned).collect();
                sheet.rules.push(Rule { is_text, classes, declarations: declarations.clone() });
            }
        }
        sheet
    }

    /// How an element with these classes, separated by blanks, is drawn.
    pub(super) fn paint(&self, class: &str, is_text: bool) -> Paint {
        let own: Vec<&str> = class.split(' ').collect();
        let mut paint = Paint {
            fill: Some([0; 3]),
            stroke: None,
            width: 1.0,
            dashes: Vec::new(),
            opacity: 1.0,
            size: 12.0,
            is_bold: false,
        };
        let applies = |rule: &&Rule| {
            (is_text || !rule.is_text) && rule.classes.iter().all(|class| own.contains(&class.as_str()))
        };
        for (name, value) in self.rules.iter().filter(applies).flat_map(|rule| &rule.declarations) {
            self.declare(&mut paint, name, value);
        }
        paint
    }

    fn declare(&self, paint: &mut Paint, name: &str, value: &str) {
        let pixels = |text: &str| text.trim_end_matches("px").parse().unwrap_or(0.0);
        match name {
            "fill" => paint.fill = self.colour(value),
            "stroke" => paint.stroke = self.colour(value),
            "stroke-width" => paint.width = pixels(value),
            "stroke-dasharray" => paint.dashes = value.split(' ').map(pixels).collect(),
            "opacity" => paint.opacity = pixels(value),
            "font-size" => paint.size = pixels(value),
            "font-weight" => paint.is_bold = pixels(value) >= 600.0,
            _ => {}
        }
    }

    /// `#rrggbb`, `var(--name)`, or nothing.
    fn colour(&self, value: &str) -> Option<[u8; 3]> {
        let variable = value.strip_prefix("var(").and_then(|rest| rest.strip_suffix(')'));
        let value = variable.map_or(Some(value), |name| self.variables.get(name).map(String::as_str))?;
        let digits = value.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.is_ascii())?;
        let part = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
        Some([part(0)?, part(2)?, part(4)?])
    }
}

/// Selectors and bodies of the rules, without those of media queries.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((head, after)) = rest.split_once('{') {
        if head.trim_start().starts_with('@') {
            // It ends where as many braces were closed as opened.
            let mut depth = 1;
            let end = after.char_indices().find_map(|(at, character)| {
                depth += i32::from(character == '{') - i32::from(character == '}');
                (depth == 0).then_some(at)
            });
            rest = &after[end.map_or(after.len(), |end| end + 1)..];
            continue;
        }
        let (body, next) = after.split_once('}').unwrap_or((after, ""));
        found.push((head.trim(), body));
        rest = next;
    }
    found
}

fn declarations(body: &str) -> Vec<(String, String)> {
    let pair = |text: &str| {
        let (name, value) = text.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    body.split(';').filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_the_looks_of_the_style_sheet() {
        let sheet = Sheet::charts();
        let bar = sheet.paint("bar", false);
        assert_eq!((bar.fill, bar.stroke), (Some([0x9a, 0xa7, 0xb4]), None));
        assert_eq!(sheet.paint("bar best", false).fill, Some([0x00, 0x72, 0xb2]));
        let series = sheet.paint("series s1 d1", false);
        assert_eq!((series.fill, series.stroke, series.width), (None, Some([0xd5, 0x5e, 0x00]), 1.8));
        assert_eq!(series.dashes, [8.0, 3.0]);
        assert_eq!(sheet.paint("band f2", false).opacity, 0.16);
        let title = sheet.paint("title", true);
        assert_eq!((title.size, title.is_bold, title.fill), (14.0, true, Some([0x1b, 0x1f, 0x24])));
        assert_eq!(sheet.paint("tick", true).size, 11.0);
        assert_eq!(sheet.paint("grid", false).fill, None);
    }

    #[test]
    fn rules_of_media_queries_are_passed_over() {
        let text = "svg.chart { --a: #010203; } @media (x) { svg.chart { --a: #ffffff; } } svg.chart .b { fill: var(--a); }";
        assert_eq!(Sheet::new(text).paint("b", false).fill, Some([1, 2, 3]));
    }
}
