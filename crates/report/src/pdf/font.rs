//! Helvetica and Helvetica-Bold: the encoding of text, and how wide it is.

/// Widths of the printable ASCII characters in thousandths of the size, from Adobe's font metrics: plain and bold.
#[rustfmt::skip]
const WIDTHS: [[u16; 95]; 2] = [
    [
        278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556,
        556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
        667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556,
        556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
    ],
    [
        278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556,
        556, 556, 333, 333, 584, 584, 584, 611, 975, 722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611, 833, 722, 778,
        667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 333, 278, 333, 584, 556, 333, 556, 611, 556, 611, 556, 333, 611,
        611, 278, 278, 556, 278, 889, 611, 611, 611, 611, 389, 556, 333, 611, 556, 778, 556, 556, 500, 389, 280, 389, 584,
    ],
];

/// Width of a character beyond ASCII: that of most letters.
const OTHER_WIDTH: u16 = 556;

/// Text in the fonts' encoding (Windows code page 1252); a character that it lacks is replaced by a similar one, or a question mark.
pub(super) fn encoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for char in text.chars() {
        match char {
            ' '..='~' => bytes.push(char as u8),
            '\u{a0}'..='\u{ff}' => bytes.push(char as u32 as u8),
            '…' => bytes.push(0x85),
            '‘' => bytes.push(0x91),
            '’' => bytes.push(0x92),
            '“' => bytes.push(0x93),
            '”' => bytes.push(0x94),
            '–' => bytes.push(0x96),
            '—' => bytes.push(0x97),
            '€' => bytes.push(0x80),
            '★' => bytes.push(b'*'),
            '→' => bytes.extend(b"->"),
            'ρ' => bytes.extend(b"rho"),
            '\n' | '\t' => bytes.push(b' '),
            _ => bytes.push(b'?'),
        }
    }
    bytes
}

/// The width of encoded text at size 1.
pub(super) fn width(bytes: &[u8], is_bold: bool) -> f64 {
    let widths = &WIDTHS[usize::from(is_bold)];
    let width = |byte: &u8| usize::from(*byte).checked_sub(32).and_then(|index| widths.get(index));
    bytes.iter().map(|byte| f64::from(width(byte).copied().unwrap_or(OTHER_WIDTH))).sum::<f64>() / 1000.0
}

/// The bytes as a literal string holds them.
pub(super) fn escaped(bytes: &[u8]) -> Vec<u8> {
    let escape = |&byte: &u8| match byte {
        b'(' | b')' | b'\\' => vec![b'\\', byte],
        byte => vec![byte],
    };
    bytes.iter().flat_map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_is_that_of_the_metrics() {
        // H 722, i 222, space 278, % 889 of Helvetica; bold H 722, i 278.
        assert_eq!(width(b"Hi %", false), (722.0 + 222.0 + 278.0 + 889.0) / 1000.0);
        assert_eq!(width(b"Hi", true), 1.0);
        // The last of each table, to notice a number that is missing.
        assert_eq!((width(b"~", false), width(b"~", true)), (0.584, 0.584));
        assert_eq!((width(b"zZ9", false), width(b"@W", true)), (0.5 + 0.611 + 0.556, 0.975 + 0.944));
    }

    #[test]
    fn text_is_encoded_and_cannot_leave_its_string() {
        assert_eq!(encoded("5 × 3 – é ★ ρ→漢"), b"5 \xd7 3 \x96 \xe9 * rho->?");
        assert_eq!(escaped(b"a) Tj (\\"), b"a\\) Tj \\(\\\\");
    }
}
