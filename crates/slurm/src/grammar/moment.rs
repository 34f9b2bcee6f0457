//! Moments as `--begin`, `--starttime` and `--deadline` write them, in any order of day and time: `teatime tomorrow`, `11/16-8:00pm`.

use jiff::civil::{Date, Time};
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};

/// On which side of now a moment is whose day, or whose year, is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A time of day is today's, and a day is of the last twelve months: of what has happened.
    Past,
    /// A time of day that has passed is tomorrow's, and such a day next year's: of what will happen.
    Future,
}

/// The byte of a text at which it stops being a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub usize);

/// The smallest number of seconds since the Unix epoch that `uts` takes.
const EPOCH_S_MIN: i64 = 1_000_000;

/// Names of times of day.
const NAMED: &[(&str, (i8, i8, i8))] =
    &[("midnight", (0, 0, 0)), ("noon", (12, 0, 0)), ("fika", (15, 0, 0)), ("teatime", (16, 0, 0))];

/// Seconds since the Unix epoch of `now+1hour`, `16:00`, `tomorrow`, `2030-01-20T12:34:00`.
///
/// # Errors
/// [`Malformed`]
pub fn moment(text: &str, now: &Zoned, side: Side) -> Result<f64, Malformed> {
    if let Some(digits) = text.strip_prefix("uts") {
        let second = digits.parse().ok().filter(|second| *second >= EPOCH_S_MIN).ok_or(Malformed(0))?;
        let timestamp = Timestamp::from_second(second).map_err(|_| Malformed(0))?;
        return Ok(timestamp.as_second() as f64);
    }
    let mut reader = Reader { text, at: 0, now, date: None, time: None };
    while let Some(letter) = reader.rest().bytes().next() {
        match letter {
            b' ' | b'\t' | b'-' | b'T' => reader.at += 1,
            _ => reader.part()?,
        }
    }
    reader.resolve(side).ok_or(Malformed(0))
}

/// A day; its year may be missing.
#[derive(Clone, Copy)]
struct Day {
    year: Option<i16>,
    month: i8,
    day: i8,
}

impl Day {
    fn of(date: Date) -> Self {
        Self { year: Some(date.year()), month: date.month(), day: date.day() }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    now: &'a Zoned,
    date: Option<Day>,
    time: Option<(i8, i8, i8)>,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn malformed<T>(&self) -> Result<T, Malformed> {
        Err(Malformed(self.at))
    }

    /// Whether a word, in any case, is next; then it is passed.
    fn take(&mut self, word: &str) -> bool {
        let is_next = self.rest().get(..word.len()).is_some_and(|next| next.eq_ignore_ascii_case(word));
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    fn part(&mut self) -> Result<(), Malformed> {
        if self.take("today") {
            self.date = Some(Day::of(self.now.date()));
            return Ok(());
        }
        if self.take("tomorrow") {
            let tomorrow = self.now.date().checked_add(1.day()).map_err(|_| Malformed(self.at))?;
            self.date = Some(Day::of(tomorrow));
            return Ok(());
        }
        for (name, time) in NAMED {
            if self.take(name) {
                self.time = Some(*time);
                return Ok(());
            }
        }
        if self.take("now") {
            return self.since_now();
        }
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return self.malformed();
        }
        if self.rest().as_bytes().get(digits) == Some(&b':') {
            return if self.time.is_some() { self.malformed() } else { self.time() };
        }
        if digits == 1 && !matches!(self.rest().as_bytes().get(1), Some(b'/' | b'.')) {
            self.at += 1;
            return self.malformed();
        }
        if self.date.is_some() {
            return self.malformed();
        }
        if digits == 4 && self.rest().as_bytes().get(4) == Some(&b'-') {
            return self.date_of_iso();
        }
        self.date_of_month()
    }

    /// `+1hour` and `-2days` behind `now`, with blanks between.
    fn since_now(&mut self) -> Result<(), Malformed> {
        let blanks = |reader: &mut Self| while reader.take(" ") {};
        blanks(self);
        let sign = match (self.take("+"), self.rest().starts_with('-')) {
            (true, _) => 1,
            (false, true) => {
                self.at += 1;
                -1
            }
            (false, false) if self.rest().is_empty() => 0,
            _ => return self.malformed(),
        };
        let mut delta_s = 0;
        if sign != 0 {
            blanks(self);
            let start = self.at;
            let Some(number) = self.digits(1..=9) else { return Err(Malformed(start.saturating_sub(1))) };
            blanks(self);
            let unit: String = self.rest().chars().take_while(char::is_ascii_alphabetic).collect();
            delta_s = i64::from(number) * unit_s(&unit).ok_or(Malformed(start))?;
            self.at += unit.len();
        }
        let delta = SignedDuration::from_secs(sign * delta_s);
        let at = self.now.checked_add(delta).map_err(|_| Malformed(self.at))?;
        self.date = Some(Day::of(at.date()));
        self.time = Some((at.hour(), at.minute(), at.second()));
        Ok(())
    }

    /// A number of so many digits.
    fn digits(&mut self, count: std::ops::RangeInclusive<usize>) -> Option<u32> {
        let found = self.rest().bytes().take(*count.end()).take_while(u8::is_ascii_digit).count();
        let number = self.rest()[..found].parse().ok().filter(|_| count.contains(&found))?;
        self.at += found;
        Some(number)
    }

    /// A number of one or two digits within bounds; an error is at the number's first digit.
    fn number(&mut self, start: usize, bounds: std::ops::RangeInclusive<u32>) -> Result<i8, Malformed> {
        let number = self.digits(1..=2).filter(|number| bounds.contains(number));
        number.and_then(|number| i8::try_from(number).ok()).ok_or(Malformed(start))
    }

    /// `HH:MM[:SS]`, with `am` or `pm`.
    fn time(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        let mut hour = self.number(start, 0..=23)?;
        self.at += 1;
        let minute = self.number(self.at, 0..=59)?;
        let second = if self.take(":") { self.number(self.at, 0..=59)? } else { 0 };
        while self.rest().starts_with(' ') {
            self.at += 1;
        }
        if self.take("pm") {
            hour = if hour < 12 { hour + 12 } else { hour };
        } else if self.take("am") {
            hour = if hour == 12 { 0 } else { hour };
        }
        self.time = Some((hour, minute, second));
        Ok(())
    }

    /// `YYYY-MM-DD`.
    fn date_of_iso(&mut self) -> Result<(), Malformed> {
        let year = self.digits(4..=4).and_then(|year| i16::try_from(year).ok());
        self.at += 1;
        let month = self.number(self.at, 1..=12)?;
        if !self.take("-") {
            return self.malformed();
        }
        let day = self.number(self.at, 1..=31)?;
        self.date = Some(Day { year, month, day });
        Ok(())
    }

    /// `MMDD[YY]`, `MM/DD[/YY]`, `MM.DD[.YY]`.
    fn date_of_month(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        let separated = |reader: &mut Self| reader.take("/") || reader.take(".");
        let month = self.number(start, 1..=12)?;
        separated(self);
        let day = self.number(start, 1..=31)?;
        let is_followed = separated(self) || self.rest().starts_with(|letter: char| letter.is_ascii_digit());
        let year = if is_followed { Some(2000 + i16::from(self.number(self.at, 0..=99)?)) } else { None };
        if self.rest().starts_with(|letter: char| letter.is_ascii_digit()) {
            return self.malformed();
        }
        self.date = Some(Day { year, month, day });
        Ok(())
    }

    fn resolve(&self, side: Side) -> Option<f64> {
        let today = self.now.date();
        let (hour, minute, second) = self.time.unwrap_or_default();
        let time = Time::new(hour, minute, second, 0).ok()?;
        let day = self.date.unwrap_or_else(|| {
            let is_ahead = (hour, minute) > (self.now.hour(), self.now.minute());
            let is_today = side == Side::Past || self.time.is_none() || is_ahead;
            let date = if is_today { Some(today) } else { today.checked_add(1.day()).ok() };
            Day::of(date.unwrap_or(today))
        });
        let year = day.year.unwrap_or_else(|| match side {
            Side::Past => today.year() - i16::from(day.month > today.month()),
            Side::Future => today.year() + i16::from((day.month, day.day) < (today.month(), today.day())),
        });
        // As `mktime` does: the 30th of February is a day of March.
        let first = Date::new(year, day.month, 1).ok()?;
        let date = first.checked_add((i64::from(day.day) - 1).days()).ok()?;
        let at = date.to_datetime(time).to_zoned(self.now.time_zone().clone()).ok()?;
        Some(at.timestamp().as_second() as f64)
    }
}

/// Seconds of a unit; seconds where there is none.
fn unit_s(unit: &str) -> Option<i64> {
    Some(match unit.to_ascii_lowercase().trim_end_matches('s') {
        "" | "second" | "sec" => 1,
        "minute" | "min" => 60,
        "hour" => 3600,
        "day" => 86_400,
        "week" => 604_800,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use jiff::civil::DateTime;

    use super::*;

    /// Measured with `sacct -vv -S` and `sbatch --begin` of Slurm 22.05.8 on 2026-11-19 at 21:37:51: a moment of the past and one of
    /// the future, or the byte that is refused. `-`: the same as that of the past.
    const MEASURED: &str = include_str!("moment/measured.txt");

    fn seconds(text: &str, now: &Zoned) -> f64 {
        let moment: DateTime = text.parse().unwrap();
        moment.to_zoned(now.time_zone().clone()).unwrap().timestamp().as_second() as f64
    }

    #[test]
    fn moments_are_those_of_slurm() {
        let now: Zoned = "2026-11-19T21:37:51[UTC]".parse().unwrap();
        let mut count = 0;
        for line in MEASURED.lines() {
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            let [form, past, future] = fields[..] else { panic!("{line}") };
            let future = if future == "-" { past } else { future };
            for (side, expected) in [(Side::Past, past), (Side::Future, future)] {
                let expected = match expected.strip_prefix("pos=") {
                    Some(at) => Err(Malformed(at.parse().unwrap())),
                    None => Ok(seconds(expected, &now)),
                };
                assert_eq!(moment(form, &now, side), expected, "{form} {side:?}");
            }
            count += 1;
        }
        assert_eq!(count, 66);
    }

    #[test]
    fn moments_with_short_units_are_read_although_slurm_refuses_them() {
        let now: Zoned = "2026-11-19T21:37:51[UTC]".parse().unwrap();
        assert_eq!(moment("now-30min", &now, Side::Past), Ok(seconds("2026-11-19T21:07:51", &now)));
    }

    #[test]
    fn distances_beyond_the_calendar_are_refused() {
        let now: Zoned = "2026-11-19T21:37:51[UTC]".parse().unwrap();
        for text in ["now+999999999weeks", "now-999999999weeks", "now+999999999days", "now-999999999hours"] {
            assert_eq!(moment(text, &now, Side::Future), Err(Malformed(text.len())), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[0-9apmTnow/:. +-]{0,12}|.{0,12}") {
            let now: Zoned = "2026-11-19T21:37:51[UTC]".parse().unwrap();
            for side in [Side::Past, Side::Future] {
                let _ = moment(&text, &now, side);
            }
        }
    }
}
