//! Signals by name, and the one that a job gets before its time limit.

use std::fmt;
use std::str::FromStr;

/// Names that can be written with or without `SIG`, in any case.
const NAMES: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];
const NUMBER_MAX: i32 = 64;
/// Seconds before the limit where none are named, and the most that can be.
const BEFORE_S: u32 = 60;
const BEFORE_MAX_S: u32 = 65_535;

/// What the system says of a process that a signal has ended.
#[must_use]
pub fn said(number: i32) -> String {
    let text = match number {
        1 => "Hangup",
        2 => "Interrupt",
        3 => "Quit",
        4 => "Illegal instruction",
        5 => "Trace/breakpoint trap",
        6 => "Aborted",
        7 => "Bus error",
        8 => "Floating point exception",
        9 => "Killed",
        10 => "User defined signal 1",
        11 => "Segmentation fault",
        12 => "User defined signal 2",
        13 => "Broken pipe",
        14 => "Alarm clock",
        15 => "Terminated",
        24 => "CPU time limit exceeded",
        25 => "File size limit exceeded",
        31 => "Bad system call",
        _ => return format!("Terminated by signal {}", name(number)),
    };
    text.to_owned()
}

/// The number of a signal by name or number.
#[must_use]
pub fn number(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return (1..=NUMBER_MAX).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// What a signal is called; its number where it has no name.
#[must_use]
pub fn name(number: i32) -> String {
    let known = NAMES.iter().find(|(_, known)| *known == number);
    known.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

/// A signal that a job is sent before its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The signal's number.
    pub signal: i32,
    /// How long before the limit.
    pub before_s: u32,
    /// Only the batch shell gets it, rather than the steps.
    pub is_batch_only: bool,
    /// It may also be sent for a reservation's sake.
    pub is_for_reservation: bool,
}

/// A text that is no such signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a signal; write [R][B]:SIGNAL[@SECONDS]")]
pub struct NoSignal;

impl FromStr for Warning {
    type Err = NoSignal;

    fn from_str(text: &str) -> Result<Self, NoSignal> {
        let (flags, rest) = text.split_once(':').unwrap_or(("", text));
        let flags = flags.to_ascii_uppercase();
        if !flags.chars().all(|flag| flag == 'R' || flag == 'B') {
            return Err(NoSignal);
        }
        let (signal, before) = match rest.split_once('@') {
            Some((signal, "")) => (signal, Some(0)),
            Some((signal, before)) => (signal, before.parse::<u32>().ok()),
            None => (rest, Some(BEFORE_S)),
        };
        Ok(Self {
            signal: number(signal).ok_or(NoSignal)?,
            before_s: before.filter(|before_s| *before_s <= BEFORE_MAX_S).ok_or(NoSignal)?,
            is_batch_only: flags.contains('B'),
            is_for_reservation: flags.contains('R'),
        })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = match (self.is_for_reservation, self.is_batch_only) {
            (true, true) => "RB:",
            (true, false) => "R:",
            (false, true) => "B:",
            (false, false) => "",
        };
        write!(f, "{flags}{}", name(self.signal))?;
        if self.before_s == BEFORE_S { Ok(()) } else { write!(f, "@{}", self.before_s) }
    }
}
