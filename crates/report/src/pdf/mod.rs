//! Plots as PDF: one page, the standard fonts that every reader has, looks from the same style sheet as SVG.

mod font;
mod path;
mod style;

use std::fmt::Write as _;

use crate::human::trimmed;
use crate::svg::{Anchor, Shape};
use style::{Paint, Sheet};

/// Distance of the control points of a quarter of a circle, as a share of its radius.
const QUARTER: f64 = 0.552_284_749_8;

/// A page of this size with these shapes; equal shapes give equal bytes.
pub(crate) fn page(title: &str, width: f64, height: f64, shapes: &[Shape]) -> Vec<u8> {
    let sheet = Sheet::charts();
    let mut content = Content { sheet, text: Vec::new(), opacities: Vec::new() };
    // SVG's vertical axis points downwards.
    content.line(format_args!("1 0 0 -1 0 {} cm", num(height)));
    shapes.iter().for_each(|shape| content.shape(shape));
    document(title, (width, height), &content)
}

fn num(value: f64) -> String {
    trimmed(value, 3)
}

/// The drawing operators of a page.
struct Content {
    sheet: Sheet,
    text: Vec<u8>,
    /// Opacities other than 1, each a named graphics state.
    opacities: Vec<f64>,
}

impl Content {
    fn line(&mut self, operators: std::fmt::Arguments<'_>) {
        self.text.extend(operators.to_string().bytes());
        self.text.push(b'\n');
    }

    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Path { class, d } => {
                let paint = self.sheet.paint(class, false);
                self.painted(&paint, &path::operators(d));
            }
            Shape::Rect { class, corner, size, .. } => {
                let paint = self.sheet.paint(class, false);
                let [x, y, width, height] = [corner.0, corner.1, size.0, size.1].map(num);
                self.painted(&paint, &format!("{x} {y} {width} {height} re"));
            }
            Shape::Text { class, at, anchor, text, is_upwards } => {
                let paint = self.sheet.paint(class, true);
                self.write_text(&paint, *at, *anchor, text, *is_upwards);
            }
        }
    }

    fn painted(&mut self, paint: &Paint, outline: &str) {
        let operator = match (paint.fill, paint.stroke) {
            (Some(_), Some(_)) => "B",
            (Some(_), None) => "f",
            (None, Some(_)) => "S",
            (None, None) => return,
        };
        self.line(format_args!("q"));
        self.set_opacity(paint.opacity);
        if let Some(colour) = paint.fill {
            self.line(format_args!("{} rg", rgb(colour)));
        }
        if let Some(colour) = paint.stroke {
            let dashes: Vec<String> = paint.dashes.iter().copied().map(num).collect();
            self.line(format_args!(
                "{} RG {} w 1 j [{}] 0 d",
                rgb(colour),
                num(paint.width),
                dashes.join(" ")
            ));
        }
        self.line(format_args!("{outline} {operator}"));
        self.line(format_args!("Q"));
    }

    fn set_opacity(&mut self, opacity: f64) {
        if opacity >= 1.0 {
            return;
        }
        let known = self.opacities.iter().position(|&other| other == opacity);
        let index = known.unwrap_or_else(|| {
            self.opacities.push(opacity);
            self.opacities.len() - 1
        });
        self.line(format_args!("/O{index} gs"));
    }

    fn write_text(
        &mut self,
        paint: &Paint,
        (x, y): (f64, f64),
        anchor: Anchor,
        text: &str,
        is_upwards: bool,
    ) {
        let Some(colour) = paint.fill else { return };
        let bytes = font::encoded(text);
        let width = font::width(&bytes, paint.is_bold) * paint.size;
        let back = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let matrix = match is_upwards {
            true => format!("0 -1 -1 0 {} {}", num(x), num(y + back)),
            false => format!("1 0 0 -1 {} {}", num(x - back), num(y)),
        };
        let name = if paint.is_bold { "F2" } else { "F1" };
        let head = format!("BT {} rg /{name} {} Tf {matrix} Tm (", rgb(colour), num(paint.size));
        self.text.extend(head.bytes());
        self.text.extend(font::escaped(&bytes));
        self.text.extend(b") Tj ET\n");
    }
}

fn rgb([red, green, blue]: [u8; 3]) -> String {
    [red, green, blue].map(|part| num(f64::from(part) / 255.0)).join(" ")
}

/// The file: catalogue, page, content, fonts, and the table of where they are.
fn document(title: &str, (width, height): (f64, f64), content: &Content) -> Vec<u8> {
    let mut states = String::new();
    for (index, &opacity) in content.opacities.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = write!(states, "/O{index} << /ca {0} /CA {0} >> ", num(opacity));
    }
    let font = |name: &str| {
        format!("<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>").into_bytes()
    };
    let page = format!(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {} {}] /Contents 4 0 R \
         /Resources << /Font << /F1 5 0 R /F2 6 0 R >> /ExtGState << {states}>> >> >>",
        num(width),
        num(height)
    );
    let stream = [
        format!("<< /Length {} >>\nstream\n", content.text.len()).into_bytes(),
        content.text.clone(),
        b"endstream".to_vec(),
    ]
    .concat();
    let info = [b"<< /Title (".to_vec(), font::escaped(&font::encoded(title)), b") >>".to_vec()].concat();
    let objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        page.into_bytes(),
        stream,
        font("Helvetica"),
        font("Helvetica-Bold"),
        info,
    ];
    let mut file = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n".to_vec();
    let mut table = "0000000000 65535 f \n".to_owned();
    for (index, object) in objects.iter().enumerate() {
        let _ = writeln!(table, "{:010} 00000 n ", file.len());
        file.extend(format!("{} 0 obj\n", index + 1).bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    let (start, count) = (file.len(), objects.len() + 1);
    let trailer = format!(
        "xref\n0 {count}\n{table}trailer\n<< /Size {count} /Root 1 0 R /Info {} 0 R >>\nstartxref\n{start}\n%%EOF\n",
        objects.len()
    );
    file.extend(trailer.bytes());
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes() -> Vec<Shape> {
        vec![
            Shape::Text {
                class: "title".to_owned(),
                at: (10.0, 20.0),
                anchor: Anchor::Start,
                text: "GPU use (50 %) ★".to_owned(),
                is_upwards: false,
            },
            Shape::Rect {
                class: "bar best".to_owned(),
                corner: (10.0, 30.0),
                size: (50.0, 18.0),
                tooltip: String::new(),
            },
            Shape::Path { class: "series s1 d1".to_owned(), d: "M10 60H40V50".to_owned() },
            Shape::Path { class: "band f0".to_owned(), d: "M10 60l5 5h-5z".to_owned() },
            Shape::Text {
                class: "axis".to_owned(),
                at: (5.0, 50.0),
                anchor: Anchor::Middle,
                text: "jobs".to_owned(),
                is_upwards: true,
            },
        ]
    }

    /// The text between two markers.
    fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
        text.split_once(from).unwrap().1.split_once(to).unwrap().0
    }

    #[test]
    fn page_draws_every_shape_with_its_style() {
        let file = page("a (b)", 200.0, 100.0, &shapes());
        let text = String::from_utf8_lossy(&file);
        insta::assert_snapshot!(between(&text, "stream\n", "endstream"), @r"
        1 0 0 -1 0 100 cm
        BT 0.106 0.122 0.141 rg /F2 14 Tf 1 0 0 -1 10 20 Tm (GPU use \(50 %\) *) Tj ET
        q
        0 0.447 0.698 rg
        10 30 50 18 re f
        Q
        q
        0.835 0.369 0 RG 1.8 w 1 j [8 3] 0 d
        10 60 m 40 60 l 40 50 l S
        Q
        q
        /O0 gs
        0 0.447 0.698 rg
        10 60 m 15 65 l 10 65 l h f
        Q
        BT 0.341 0.376 0.416 rg /F1 11 Tf 0 -1 -1 0 5 60.087 Tm (jobs) Tj ET
        ");
        assert!(text.contains("/MediaBox [0 0 200 100]") && text.contains("/Title (a \\(b\\))"));
    }

    #[test]
    fn table_points_at_every_object_and_the_length_is_right() {
        let file = page("t", 200.0, 100.0, &shapes());
        let at = |needle: &[u8]| file.windows(needle.len()).position(|part| part == needle).unwrap();
        let table = at(b"xref\n");
        let text = String::from_utf8_lossy(&file[table..]).into_owned();
        let offsets: Vec<usize> =
            text.lines().skip(3).take(7).map(|line| line[..10].parse().unwrap()).collect();
        for (index, &offset) in offsets.iter().enumerate() {
            assert!(file[offset..].starts_with(format!("{} 0 obj\n", index + 1).as_bytes()), "{index}");
        }
        assert!(text.ends_with(&format!("startxref\n{table}\n%%EOF\n")), "{text}");
        let (start, end) = (at(b"stream\n") + 7, at(b"endstream"));
        let head = String::from_utf8_lossy(&file[offsets[3]..start]).into_owned();
        assert_eq!(between(&head, "/Length ", " "), (end - start).to_string());
    }
}
