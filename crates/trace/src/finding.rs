//! What is wrong with a line of a file, said once for the reader and the linter.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::text::shown;

/// Most findings of one rule that a lint lists; the rest is counted in one last finding.
pub const FINDINGS_PER_RULE_MAX: usize = 1000;

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// What a finding is about. The code is stable: people grep for it and silence it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule { $($(#[$doc])* $name,)* }

        impl Rule {
            /// Every rule, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The stable kebab-case name.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }
        }
    };
}

rules! {
    /// A byte sequence that is not UTF-8.
    BadUtf8 = "bad-utf8",
    /// A line of JSON Lines that is not one JSON object.
    BadJson = "bad-json",
    /// A CSV row with fewer or more fields than the header, or a quote that is never closed.
    TruncatedRow = "truncated-row",
    /// A header whose columns are separated in another way than the format's.
    WrongSeparator = "wrong-separator",
    /// A line longer than [`crate::LINE_BYTES_MAX`].
    LineTooLong = "line-too-long",
    /// A file without a single job (or node).
    NoRows = "no-rows",
    /// A required column that the header does not have.
    MissingColumn = "missing-column",
    /// A column that the format does not know.
    UnknownColumn = "unknown-column",
    /// A column that is there twice.
    DuplicateColumn = "duplicate-column",
    /// A required value that is empty.
    MissingValue = "missing-value",
    /// Text where a number belongs.
    NotANumber = "not-a-number",
    /// A fraction, or too large a number, where a count belongs.
    NotAnInteger = "not-an-integer",
    /// A number or a list where text belongs, or text that the format cannot carry.
    NotText = "not-text",
    /// An infinity or NaN, or a product that becomes one.
    NonFinite = "non-finite",
    /// A duration, an iteration time or a stage time below zero.
    NegativeDuration = "negative-duration",
    /// A submission before the trace begins.
    NegativeSubmit = "negative-submit",
    /// A count below zero.
    NegativeCount = "negative-count",
    /// A job whose iteration, or whole run, takes no time.
    ZeroDuration = "zero-duration",
    /// A job without iterations.
    ZeroIterations = "zero-iterations",
    /// A job that asks for no device.
    ZeroGang = "zero-gang",
    /// `devices_min` ≤ `devices` ≤ `devices_max` does not hold.
    GangRange = "gang-range",
    /// A job that can never run on the cluster given.
    ImpossibleGang = "impossible-gang",
    /// A submission earlier than the row before.
    UnsortedSubmit = "unsorted-submit",
    /// A job name used twice.
    DuplicateId = "duplicate-id",
    /// A model that no profile is known for.
    UnknownModel = "unknown-model",
    /// A deadline that has ended when the job is submitted.
    DeadlineBeforeSubmit = "deadline-before-submit",
    /// A stage that takes far longer than the iteration it is part of.
    StageSum = "stage-sum",
    /// A part of a device that is none: more than a whole one, or parts of several.
    DevicePart = "device-part",
    /// A count of nodes, switches or devices that is zero.
    ZeroCount = "zero-count",
    /// More devices in a node, or in the cluster, than Wharf handles.
    TooManyDevices = "too-many-devices",
    /// A node name used twice.
    DuplicateNode = "duplicate-node",
    /// Text where a date belongs, or a day that no calendar has.
    BadDate = "bad-date",
    /// Rows of a log that no job was made of: one finding a reason, with their number.
    DroppedRows = "dropped-rows",
    /// Jobs of a log that are not quite what the row says: one finding a reason, with their number.
    AdaptedJobs = "adapted-jobs",
    /// A time before the one that it follows: an end before its start, a start before its submission.
    TimesBackwards = "times-backwards",
    /// A job step without its job.
    OrphanStep = "orphan-step",
    /// A pool that the cluster does not have.
    UnknownPool = "unknown-pool",
    /// A job that a simulation rejects on the cluster given, for another reason than the size of its gang.
    NotSimulated = "not-simulated",
    /// Rows that were skipped because they are invalid: one finding a rule, with their number.
    SkippedRows = "skipped-rows",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

/// Whether a file can be used in spite of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is read; its author should check the line all the same.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// One thing wrong at one place of a file.
///
/// Displays as `file:line:column: error[rule]: message`; the hint is for a line of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file as the user named it.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: u64,
    /// The column's name, where the finding is about one.
    pub column: Option<Cow<'static, str>>,
    /// Which rule.
    pub rule: Rule,
    /// How bad.
    pub severity: Severity,
    /// What was found and what was expected.
    pub message: String,
    /// How to repair it.
    pub hint: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.file, self.line)?;
        if let Some(column) = &self.column {
            write!(f, "{column}:")?;
        }
        write!(f, " {}[{}]: {}", self.severity, self.rule, self.message)
    }
}

/// Which findings are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Everything, up to a limit for each rule.
    All,
    /// The first error, and counts.
    FirstError,
    /// The first error that is not in a row, and counts; invalid rows are counted, too.
    ValidRows,
}

/// Collects findings about a trace.
#[derive(Debug)]
pub(crate) struct Findings {
    file: Arc<str>,
    keep: Keep,
    /// Whether the header was read, so that errors are about rows.
    is_in_rows: bool,
    /// Invalid rows, where only valid ones are kept.
    skipped: Vec<Skipped>,
    /// The line of the last of them.
    last_skipped: u64,
    list: Vec<Finding>,
    /// Per rule: how many were seen, and the first that was not listed.
    seen: BTreeMap<Rule, (usize, Option<Finding>)>,
    /// What is only counted, in the order of the first of each.
    tallies: Vec<Tally>,
}

/// Invalid rows that broke the same rule.
#[derive(Debug)]
struct Skipped {
    /// The error of the first.
    first: Finding,
    /// How many there are.
    count: u64,
    /// The lines of the first ones.
    lines: Vec<u64>,
}

impl Skipped {
    /// Lines that are listed.
    const LINES_MAX: usize = 5;

    fn into_finding(self) -> Finding {
        let Self { first, count, lines } = self;
        let plural = if count == 1 { "" } else { "s" };
        let listed: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let more = if count > lines.len() as u64 { ", …" } else { "" };
        let message = format!(
            "{count} row{plural} skipped ({}): {} (line{plural} {}{more})",
            first.rule,
            first.message,
            listed.join(", ")
        );
        Finding { rule: Rule::SkippedRows, severity: Severity::Warning, message, ..first }
    }
}

/// Rows that had the same thing happen to them.
#[derive(Debug)]
struct Tally {
    file: Arc<str>,
    rule: Rule,
    reason: &'static str,
    count: u64,
    /// The first of them.
    line: u64,
    job: String,
    /// The part of the first that the reason is about, where it has parts.
    part: Option<String>,
}

impl Tally {
    fn into_finding(self) -> Finding {
        let Self { file, rule, reason, count, line, job, part } = self;
        let plural = if count == 1 { "" } else { "s" };
        let mut first = shown(&job);
        if let Some(part) = part {
            first = format!("{first}, {part}");
        }
        let message = match rule {
            Rule::DroppedRows => format!("{count} row{plural} dropped: {reason} (first: {first})"),
            _ => format!("{reason} ({count} job{plural}, first: {first})"),
        };
        let (column, severity, hint) = (None, Severity::Warning, None);
        Finding { file, line, column, rule, severity, message, hint }
    }
}

impl Findings {
    /// No findings so far.
    pub(crate) fn new(file: &str, keep: Keep) -> Self {
        Self {
            file: file.into(),
            keep,
            is_in_rows: false,
            skipped: Vec::new(),
            last_skipped: 0,
            list: Vec::new(),
            seen: BTreeMap::new(),
            tallies: Vec::new(),
        }
    }

    /// The first error is kept, and counts; other warnings are dropped.
    pub(crate) fn first_error(file: &str) -> Self {
        Self::new(file, Keep::FirstError)
    }

    /// What follows is about another file.
    pub(crate) fn set_file(&mut self, file: &str) {
        self.file = file.into();
        (self.is_in_rows, self.last_skipped) = (false, 0);
    }

    /// What follows is about rows, until the end of the file is met.
    pub(crate) fn set_in_rows(&mut self, is_in_rows: bool) {
        self.is_in_rows = is_in_rows;
    }

    /// Whether nothing more is wanted.
    pub(crate) fn is_full(&self) -> bool {
        self.keep != Keep::All && !self.list.is_empty()
    }

    /// Whether no error was found so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.list.iter().all(|finding| finding.severity != Severity::Error)
    }

    /// Counts a row. Such counts are kept even where other warnings are not: nothing is left out in silence.
    pub(crate) fn tally(
        &mut self,
        rule: Rule,
        reason: &'static str,
        line: u64,
        job: &str,
        part: Option<String>,
    ) {
        let is_same =
            |tally: &&mut Tally| tally.rule == rule && tally.reason == reason && tally.file == self.file;
        match self.tallies.iter_mut().find(is_same) {
            Some(tally) => tally.count += 1,
            None => {
                let (file, job) = (self.file.clone(), job.to_owned());
                self.tallies.push(Tally { file, rule, reason, count: 1, line, job, part });
            }
        }
    }

    /// Adds a finding.
    pub(crate) fn push(&mut self, line: u64, column: Option<&'static str>, note: Note) {
        self.push_named(line, column.map(Cow::Borrowed), note);
    }

    /// Adds a finding about a column whose name is the file's own.
    pub(crate) fn push_named(&mut self, line: u64, column: Option<Cow<'static, str>>, note: Note) {
        if self.is_full() || (self.keep != Keep::All && note.severity == Severity::Warning) {
            return;
        }
        let finding = Finding {
            file: self.file.clone(),
            line,
            column,
            rule: note.rule,
            severity: note.severity,
            message: note.message,
            hint: note.hint,
        };
        if self.keep == Keep::ValidRows && self.is_in_rows {
            self.skip(finding);
            return;
        }
        let (count, first_unlisted) = self.seen.entry(finding.rule).or_default();
        *count += 1;
        if *count <= FINDINGS_PER_RULE_MAX {
            self.list.push(finding);
        } else if first_unlisted.is_none() {
            *first_unlisted = Some(finding);
        }
    }

    /// Counts an invalid row, by its first error.
    fn skip(&mut self, error: Finding) {
        if std::mem::replace(&mut self.last_skipped, error.line) == error.line {
            return;
        }
        match self.skipped.iter_mut().find(|skipped| skipped.first.rule == error.rule) {
            Some(skipped) => {
                skipped.count += 1;
                if skipped.lines.len() < Skipped::LINES_MAX {
                    skipped.lines.push(error.line);
                }
            }
            None => self.skipped.push(Skipped { count: 1, lines: vec![error.line], first: error }),
        }
    }

    /// The findings in the order they were made, then one for each rule that had too many, then the counts.
    pub(crate) fn into_list(mut self) -> Vec<Finding> {
        for (_, (count, first_unlisted)) in self.seen {
            if let Some(mut finding) = first_unlisted {
                let unlisted = count - FINDINGS_PER_RULE_MAX;
                finding.message = format!("{} (and {} more like this)", finding.message, unlisted - 1);
                self.list.push(finding);
            }
        }
        self.list.extend(self.tallies.into_iter().map(Tally::into_finding));
        self.list
    }

    /// The first error, if any.
    pub(crate) fn into_first_error(self) -> Option<Finding> {
        self.list.into_iter().find(|finding| finding.severity == Severity::Error)
    }

    /// The counts, or the first error.
    pub(crate) fn into_notes(mut self) -> Result<Vec<Finding>, Finding> {
        let skipped = std::mem::take(&mut self.skipped).into_iter().map(Skipped::into_finding);
        let tallies = std::mem::take(&mut self.tallies).into_iter().map(Tally::into_finding);
        let notes = skipped.chain(tallies).collect();
        self.into_first_error().map_or(Ok(notes), Err)
    }
}

/// A finding before it is known where it belongs.
#[derive(Debug)]
pub(crate) struct Note {
    rule: Rule,
    severity: Severity,
    message: String,
    hint: Option<String>,
}

impl Note {
    pub(crate) fn error(rule: Rule, message: impl Into<String>) -> Self {
        Self { rule, severity: Severity::Error, message: message.into(), hint: None }
    }

    pub(crate) fn warning(rule: Rule, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(rule, message) }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}
