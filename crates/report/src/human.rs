//! Numbers as people read them. Files and JSON keep full precision; tables and plots use these.

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86400.0;

/// Names that [`jobs`] lists before it counts the rest.
const NAMED_MAX: usize = 5;

/// Jobs in words: the first few by name, the others as a number.
pub fn jobs(names: &[String]) -> String {
    let named: Vec<&str> = names.iter().take(NAMED_MAX).map(String::as_str).collect();
    let noun = if names.len() == 1 { "job" } else { "jobs" };
    match names.len().saturating_sub(NAMED_MAX) {
        0 => format!("{noun} {}", named.join(", ")),
        more => format!("{noun} {} and {more} more", named.join(", ")),
    }
}

/// A length of time: `0.25s`, `42s`, `3m 20s`, `2h 13m`, `3d 10h`, `34.2d`.
pub fn duration(seconds: f64) -> String {
    let size = seconds.abs();
    let sign = if seconds < 0.0 { "-" } else { "" };
    if !size.is_finite() {
        return "-".to_owned();
    }
    // Each bound is where rounding would print the next unit's 1.
    let text = if size == 0.0 {
        return "0s".to_owned();
    } else if size < 0.005 {
        "<0.01s".to_owned()
    } else if size < 9.95 {
        format!("{}s", trimmed(size, 2))
    } else if size < 59.5 {
        format!("{size:.0}s")
    } else if size < HOUR - 0.5 {
        two_units(size, MINUTE, "m", 1.0, "s")
    } else if size < DAY - 30.0 {
        two_units(size, HOUR, "h", MINUTE, "m")
    } else if size < 10.0 * DAY - HOUR / 2.0 {
        two_units(size, DAY, "d", HOUR, "h")
    } else if size < 99.95 * DAY {
        format!("{:.1}d", size / DAY)
    } else {
        format!("{}d", grouped((size / DAY).round()))
    };
    format!("{sign}{text}")
}

fn two_units(seconds: f64, large: f64, large_name: &str, small: f64, small_name: &str) -> String {
    let smalls = (seconds / small).round();
    let per_large = large / small;
    format!("{:.0}{large_name} {:.0}{small_name}", (smalls / per_large).floor(), smalls % per_large)
}

/// A tick of a time axis: one unit, no more digits than needed (`90s` is `1.5m`).
pub(crate) fn duration_tick(seconds: f64) -> String {
    let (unit, name) = match seconds.abs() {
        size if size >= DAY => (DAY, "d"),
        size if size >= HOUR => (HOUR, "h"),
        size if size >= MINUTE => (MINUTE, "m"),
        _ => (1.0, "s"),
    };
    if seconds == 0.0 { "0".to_owned() } else { format!("{}{name}", number(seconds / unit)) }
}

/// A share of one as a percentage: `87.5 %`.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { "-".to_owned() }
}

/// A plain number: thousands grouped, at most two decimals.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        "-".to_owned()
    } else if value.abs() >= 1000.0 {
        grouped(value.round())
    } else {
        trimmed(value, 2)
    }
}

/// A whole number with thousands grouped by commas.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn grouped(whole: f64) -> String {
    if whole.abs() >= 1e15 {
        return format!("{whole:.2e}");
    }
    let sign = if whole < 0.0 { "-" } else { "" };
    format!("{sign}{}", count(whole.abs() as u64))
}

/// Fixed decimals without trailing zeros, and without a negative zero.
pub(crate) fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// At most `limit` characters, with `…` in the middle where something was cut: names often differ at their ends.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    if count <= limit {
        return text.to_owned();
    }
    let kept = limit.saturating_sub(1);
    let (head, tail) = (kept - kept / 2, kept / 2);
    text.chars().take(head).chain(['…']).chain(text.chars().skip(count - tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_picks_a_unit() {
        for (seconds, expected) in [
            (0.0, "0s"),
            (0.001, "<0.01s"),
            (0.25, "0.25s"),
            (9.96, "10s"),
            (59.4, "59s"),
            (59.6, "1m 0s"),
            (200.0, "3m 20s"),
            (3599.6, "1h 0m"),
            (7980.0, "2h 13m"),
            (86380.0, "1d 0h"),
            (293_760.0, "3d 10h"),
            (863_000.0, "10.0d"),
            (2_954_880.0, "34.2d"),
            (8_640_000.0, "100d"),
            (-90.0, "-1m 30s"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(duration(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn numbers_are_grouped_and_trimmed() {
        for (value, expected) in
            [(0.0, "0"), (-0.001, "0"), (1.5, "1.5"), (999.994, "999.99"), (1_234_567.8, "1,234,568")]
        {
            assert_eq!(number(value), expected);
        }
        assert_eq!(percent(0.8754), "87.5 %");
        assert_eq!(duration_tick(5400.0), "1.5h");
        assert_eq!(shortened("abcdef", 4), "ab…f");
        assert_eq!((shortened("abcd", 4).as_str(), shortened("abcd", 1).as_str()), ("abcd", "…"));
    }
}
