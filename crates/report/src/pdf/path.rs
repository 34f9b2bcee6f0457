//! Paths of plots as drawing operators of PDF.

use super::{QUARTER, num};

/// The operators of an SVG path; what plots have: `M L H V m l h v z` and half circles `a`.
pub(super) fn operators(d: &str) -> String {
    let mut pen = Pen::default();
    let mut rest = d;
    while let Some(command) = rest.chars().next() {
        rest = &rest[command.len_utf8()..];
        let end = rest.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(rest.len());
        let numbers: Vec<f64> = rest[..end].split_whitespace().filter_map(|word| word.parse().ok()).collect();
        rest = &rest[end..];
        pen.draw(command, &numbers);
    }
    pen.text.trim_end().to_owned()
}

#[derive(Default)]
struct Pen {
    at: (f64, f64),
    start: (f64, f64),
    text: String,
}

impl Pen {
    fn draw(&mut self, command: char, numbers: &[f64]) {
        let (x, y) = self.at;
        match (command, numbers) {
            ('M', &[to_x, to_y]) => self.go((to_x, to_y)),
            ('m', &[by_x, by_y]) => self.go((x + by_x, y + by_y)),
            ('L', &[to_x, to_y]) => self.line((to_x, to_y)),
            ('l', &[by_x, by_y]) => self.line((x + by_x, y + by_y)),
            ('H', &[to_x]) => self.line((to_x, y)),
            ('h', &[by_x]) => self.line((x + by_x, y)),
            ('V', &[to_y]) => self.line((x, to_y)),
            ('v', &[by_y]) => self.line((x, y + by_y)),
            ('a', &[_, _, _, _, sweep, by_x, by_y]) => self.half_circle(sweep > 0.0, (by_x, by_y)),
            ('z' | 'Z', []) => {
                self.text += "h ";
                self.at = self.start;
            }
            _ => debug_assert!(false, "plots have no `{command}` with {numbers:?}"),
        }
    }

    fn go(&mut self, to: (f64, f64)) {
        (self.at, self.start) = (to, to);
        self.text += &format!("{} {} m ", num(to.0), num(to.1));
    }

    fn line(&mut self, to: (f64, f64)) {
        self.at = to;
        self.text += &format!("{} {} l ", num(to.0), num(to.1));
    }

    /// Two quarters around the middle of the chord.
    fn half_circle(&mut self, is_clockwise: bool, (by_x, by_y): (f64, f64)) {
        let (x, y) = self.at;
        let middle = (x + by_x / 2.0, y + by_y / 2.0);
        let turn = |(x, y): (f64, f64)| if is_clockwise { (-y, x) } else { (y, -x) };
        let mut from = (-by_x / 2.0, -by_y / 2.0);
        for _ in 0..2 {
            let to = turn(from);
            let bent = |a: (f64, f64), b: (f64, f64)| {
                (middle.0 + a.0 + QUARTER * b.0, middle.1 + a.1 + QUARTER * b.1)
            };
            let points = [bent(from, to), bent(to, from), (middle.0 + to.0, middle.1 + to.1)];
            self.text += &(points.map(|(x, y)| format!("{} {} ", num(x), num(y))).concat() + "c ");
            from = to;
        }
        self.at = (x + by_x, y + by_y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_become_operators() {
        for (d, expected) in [
            ("M1 2L3 4", "1 2 m 3 4 l"),
            ("M62 219.5H147V282", "62 219.5 m 147 219.5 l 147 282 l"),
            ("M5 5m-3.5 -3.5h7v7h-7z", "5 5 m 1.5 1.5 m 8.5 1.5 l 8.5 8.5 l 1.5 8.5 l h"),
            ("M0 0m0 -5l4.5 8h-9z", "0 0 m 0 -5 m 4.5 3 l -4.5 3 l h"),
            ("", ""),
        ] {
            assert_eq!(operators(d), expected, "{d}");
        }
    }

    #[test]
    fn two_half_circles_are_a_circle() {
        let text = operators("M10 10m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z");
        let curves: Vec<&str> = text.split(" c").collect();
        let ends: Vec<Vec<f64>> = curves[..4]
            .iter()
            .map(|curve| {
                let numbers: Vec<f64> =
                    curve.split_whitespace().filter_map(|word| word.parse().ok()).collect();
                numbers[numbers.len() - 2..].to_vec()
            })
            .collect();
        // All the way around, by its lowest, right, highest and left point.
        assert_eq!(ends, [[10.0, 14.0], [14.0, 10.0], [10.0, 6.0], [6.0, 10.0]]);
    }
}
