//! Lengths of time as people write them.

/// Seconds of a text such as `90`, `1.5h`, `1h30m`, `2w`; `None` where it is no length of time.
#[must_use]
pub fn parse_seconds(text: &str) -> Option<f64> {
    let is_length = |seconds: &f64| seconds.is_finite() && *seconds >= 0.0;
    if let Ok(seconds) = text.parse() {
        return Some(seconds).filter(is_length);
    }
    let mut rest = text;
    let mut total = None;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| letter != '.' && !letter.is_ascii_digit())?;
        let value: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let is_number = |letter: char| letter == '.' || letter.is_ascii_digit();
        let letters = rest.find(is_number).unwrap_or(rest.len());
        let unit_s = match &rest[..letters] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            "w" => 604_800.0,
            _ => return None,
        };
        total = Some(total.unwrap_or(0.0) + value * unit_s);
        rest = &rest[letters..];
    }
    total.filter(is_length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_units_or_are_seconds() {
        let cases = [
            ("90", Some(90.0)),
            ("1.5h", Some(5400.0)),
            ("1h30m", Some(5400.0)),
            ("2w", Some(1_209_600.0)),
            ("250ms", Some(0.25)),
            ("", None),
            ("h", None),
            ("1x", None),
            ("-1", None),
            ("inf", None),
            ("1h30", None),
        ];
        for (text, seconds) in cases {
            assert_eq!(parse_seconds(text), seconds, "{text}");
        }
    }
}
