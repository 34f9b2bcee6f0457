//! Small text helpers: numbers that read back as the same bits, excerpts for messages, interning.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;

/// Writes the shortest decimal that parses back to the same bits: `3`, `0.5`, `1e300`.
pub(crate) fn write_number(out: &mut dyn Write, value: f64) -> io::Result<()> {
    /// Below this every whole number is exact and as short as its exponent form.
    const WHOLE_MAX: f64 = 1e15;
    let size = value.abs();
    if value == value.trunc() && size < WHOLE_MAX && (value != 0.0 || value.is_sign_positive()) {
        write!(out, "{}", value as i64)
    } else if (1e-5..1e17).contains(&size) || value == 0.0 {
        write!(out, "{value}")
    } else {
        write!(out, "{value:e}")
    }
}

/// A value as a message shows it: quoted, escaped, and cut where it is long.
pub(crate) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 40;
    let mut shown: String = text.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// Hands out one shared copy of each text.
#[derive(Debug, Default)]
pub(crate) struct Interner(HashSet<Arc<str>>);

impl Interner {
    pub(crate) fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.0.insert(new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_number_is_short_and_exact() {
        let mut inputs: Vec<(f64, &str)> = vec![
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-17.0, "-17"),
            (0.1, "0.1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e300, "1e300"),
            (5e-324, "5e-324"),
            (123_456_789_012_345_680.0, "1.2345678901234568e17"),
        ];
        inputs.push((f64::MAX, "1.7976931348623157e308"));
        for (value, expected) in inputs {
            let mut out = Vec::new();
            write_number(&mut out, value).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text, expected);
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
    }
}
