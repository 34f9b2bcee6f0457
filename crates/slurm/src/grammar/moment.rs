//! Moments as `--begin` and `--deadline` write them.

use jiff::civil::{Date, DateTime, Time};
use jiff::{Timestamp, ToSpan as _, Zoned};

/// Seconds since the Unix epoch of `now+1hour`, `16:00`, `tomorrow`, `2030-01-20T12:34:00`; none where a text is no moment.
pub fn moment(text: &str, now: &Zoned) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let seconds = |timestamp: Timestamp| timestamp.as_second() as f64;
    if lower == "now" {
        return Some(seconds(now.timestamp()));
    }
    if let Some(rest) = lower.strip_prefix("now+") {
        return Some(seconds(now.timestamp()) + span_s(rest)?);
    }
    let at = |date: Date, time: Time| {
        Some(seconds(date.to_datetime(time).to_zoned(now.time_zone().clone()).ok()?.timestamp()))
    };
    let today = now.date();
    let tomorrow = today.checked_add(1.day()).ok()?;
    let hour = |hour: i8| Time::new(hour, 0, 0, 0).ok();
    // A time of day that has passed is tomorrow's.
    let next = |time: Time| at(if time > now.time() { today } else { tomorrow }, time);
    match lower.as_str() {
        "today" => return at(today, now.time()),
        "tomorrow" => return at(tomorrow, now.time()),
        "midnight" => return at(tomorrow, Time::midnight()),
        "noon" => return next(hour(12)?),
        "teatime" => return next(hour(16)?),
        _ => {}
    }
    if let Ok(time) = text.parse::<Time>() {
        return next(time);
    }
    if let Ok(moment) = text.parse::<DateTime>() {
        return at(moment.date(), moment.time());
    }
    None
}

/// A number with an optional unit; seconds where there is none.
fn span_s(text: &str) -> Option<f64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit_s = match unit.trim_end_matches('s') {
        "" | "second" | "sec" => 1.0,
        "minute" | "min" => 60.0,
        "hour" => 3600.0,
        "day" => 86_400.0,
        "week" => 604_800.0,
        _ => return None,
    };
    Some(f64::from(digits.parse::<u32>().ok()?) * unit_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_slurm_reads_them() {
        let now: Zoned = "2026-11-16T15:00:00[UTC]".parse().unwrap();
        let start = now.timestamp().as_second() as f64;
        for (text, after_s) in [
            ("now", Some(0.0)),
            ("now+90", Some(90.0)),
            ("now+2hours", Some(7200.0)),
            ("now+1day", Some(86_400.0)),
            ("16:00", Some(3600.0)),
            ("14:00", Some(23.0 * 3600.0)),
            ("teatime", Some(3600.0)),
            ("midnight", Some(9.0 * 3600.0)),
            ("2026-11-16T15:01:30", Some(90.0)),
            ("2026-11-17", Some(9.0 * 3600.0)),
            ("now+2fortnights", None),
            ("soon", None),
        ] {
            assert_eq!(moment(text, &now).map(|at| at - start), after_s, "{text}");
        }
    }
}
