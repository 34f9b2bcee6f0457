//! Dates of logs: `2017-10-09 07:01:55`, without a zone.

use crate::finding::{Note, Rule};
use crate::row::RowCheck;
use crate::text::shown;

const DAY_S: f64 = 86_400.0;

impl<'a> RowCheck<'a> {
    /// The text of a cell of a log, where it says anything: logs write nothing, `None` or `nan` for nothing.
    pub(super) fn told(&self, column: usize) -> Option<&'a str> {
        self.raw(column)
            .filter(|text| !matches!(*text, "None" | "none" | "null" | "nan" | "NaN" | "NULL" | "Unknown"))
    }

    /// A date as seconds since 1970, or `None` where there is none. What is no date is reported.
    pub(super) fn date(&mut self, column: usize) -> Option<f64> {
        let text = self.told(column)?;
        let date = parse_date(text);
        if date.is_none() {
            let message = format!("found {}, expected a date such as 2017-10-09 07:01:55", shown(text));
            self.error(column, Note::error(Rule::BadDate, message));
        }
        date
    }
}

/// Seconds since 1970 of `YEAR-MONTH-DAY HOUR:MINUTE:SECOND`, with `T` for the space and a fraction where there is one.
///
/// There is no zone in these logs: a job over the end of summer time is an hour longer, or shorter, than it says.
pub(super) fn parse_date(text: &str) -> Option<f64> {
    let text = text.trim();
    let (day, time) = text.split_once([' ', 'T'])?;
    let [year, month, day] = split(day, '-')?;
    let (year, month, day): (i64, i64, i64) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
    let [hour, minute, second] = split(time, ':')?;
    let (hour, minute): (i64, i64) = (number(hour, 2)?, number(minute, 2)?);
    let (second, fraction) = match second.split_once('.') {
        Some((second, fraction)) if fraction.bytes().all(|byte| byte.is_ascii_digit()) => {
            (second, format!("0.{fraction}").parse().unwrap_or(0.0))
        }
        Some(_) => return None,
        None => (second, 0.0),
    };
    let second: i64 = number(second, 2)?;
    let is_valid = (1970..=2999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let seconds = || (hour * 3600 + minute * 60 + second) as f64 + fraction;
    is_valid.then(|| days_since_1970(year, month, day) as f64 * DAY_S + seconds())
}

fn split(text: &str, separator: char) -> Option<[&str; 3]> {
    let mut parts = text.split(separator);
    let three = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(three)
}

fn number(text: &str, digits_max: usize) -> Option<i64> {
    let is_number = (1..=digits_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    years + (1..month).map(|month| days_in(year, month)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        for (text, expected) in [
            ("1970-01-01 00:00:00", Some(0.0)),
            ("2000-03-01 00:00:00", Some(951_868_800.0)),
            ("2017-10-09 07:01:55", Some(1_507_532_515.0)),
            ("2020-02-29T23:59:59.5", Some(1_583_020_799.5)),
            ("2100-03-01 00:00:00", Some(4_107_542_400.0)),
            ("2017-2-3 4:5:6", Some(1_486_094_706.0)),
            ("2017-02-29 00:00:00", None),
            ("2017-13-01 00:00:00", None),
            ("2017-10-09", None),
            ("2017-10-09 24:00:00", None),
            ("2017-10-09 07:01:55 PDT", None),
            ("1969-12-31 23:59:59", None),
            ("2017-10-09 07:01:-5", None),
            ("99999999999-01-01 00:00:00", None),
            ("", None),
        ] {
            assert_eq!(parse_date(text), expected, "{text}");
        }
    }
}
