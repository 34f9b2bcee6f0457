//! One row of a table, whatever the file's syntax, and typed access to its cells that states what is wrong.

use crate::finding::{Findings, Note, Rule};
use crate::text::shown;
use wharf_core::nearest::nearest;

/// A column that a format knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
}

/// Sets of columns of which one must be there as a whole.
pub(crate) type Alternatives = &'static [&'static [usize]];

/// How columns that a format does not know are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownColumns {
    /// As an error: they are probably misspelt.
    Error,
    /// As a warning.
    Warning,
    /// Not at all: the format has far more columns than a trace needs.
    Ignored,
}

/// The columns that a format knows; a column's position is how code refers to it.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) columns: &'static [Column],
    /// Groups of alternatives: of each group, one set of columns must be there as a whole.
    pub(crate) any_of: &'static [Alternatives],
    /// How a column that is not known is reported.
    pub(crate) unknown: UnknownColumns,
}

impl Schema {
    /// The position of a column.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    fn names(&self) -> Vec<&'static str> {
        self.columns.iter().map(|column| column.name).collect()
    }

    /// The note about a column that is not known.
    pub(crate) fn unknown_column(&self, name: &str) -> Option<Note> {
        let known = self.names();
        let message = format!("unknown column {}", shown(name));
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known columns are {}", known.join(", ")),
        };
        let note = match self.unknown {
            UnknownColumns::Error => Note::error(Rule::UnknownColumn, message),
            UnknownColumns::Warning => Note::warning(Rule::UnknownColumn, message + ", ignored"),
            UnknownColumns::Ignored => return None,
        };
        Some(note.hint(hint))
    }

    /// Reports what a header lacks; `headers` has each known column's place in the file.
    pub(crate) fn check_header(&self, headers: &[Option<usize>], line: u64, findings: &mut Findings) {
        let missing = |index: &usize| headers[*index].is_none();
        for index in (0..self.columns.len()).filter(|index| self.columns[*index].required && missing(index)) {
            let name = self.columns[index].name;
            let note = Note::error(Rule::MissingColumn, format!("the header has no column `{name}`"))
                .hint(format!("add `{name}` to the header and a value to each row"));
            findings.push(line, Some(name), note);
        }
        for &group in self.any_of {
            if group.iter().all(|set| set.iter().any(missing)) {
                let message = format!("the header has none of {}", self.choices(group));
                findings.push(line, None, Note::error(Rule::MissingColumn, message));
            }
        }
    }

    /// Alternatives in words.
    pub(crate) fn choices(&self, group: Alternatives) -> String {
        let set = |set: &&[usize]| {
            let names: Vec<_> = set.iter().map(|index| format!("`{}`", self.columns[*index].name)).collect();
            names.join(" with ")
        };
        group.iter().map(set).collect::<Vec<_>>().join(", or ")
    }
}

/// What a cell holds, as far as the file's syntax tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The file has no such column.
    Absent,
    /// Nothing.
    Empty,
    /// Text that may be a number: any CSV field.
    Plain,
    /// A JSON number.
    Number,
    /// A JSON string.
    Text,
    /// A JSON array of strings, joined by `;`.
    List,
    /// A JSON boolean or object, or an array of something else.
    Other,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) kind: Kind,
}

impl Cell {
    pub(crate) const ABSENT: Self = Self { start: 0, end: 0, kind: Kind::Absent };
}

/// A row; the buffers are used again for the next.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// Where the row begins.
    pub(crate) line: u64,
    /// The cells' text.
    pub(crate) text: String,
    /// One cell for each column of the schema.
    pub(crate) cells: Vec<Cell>,
}

/// Typed access to a row; whatever is wrong goes to the findings and is remembered.
pub(crate) struct RowCheck<'a> {
    pub(crate) row: &'a Row,
    pub(crate) schema: &'a Schema,
    pub(crate) findings: &'a mut Findings,
    /// Whether an error was found in this row.
    pub(crate) is_bad: bool,
    /// Whether the row is no job, which was counted.
    pub(crate) is_dropped: bool,
}

impl<'a> RowCheck<'a> {
    pub(crate) fn new(row: &'a Row, schema: &'a Schema, findings: &'a mut Findings) -> Self {
        Self { row, schema, findings, is_bad: false, is_dropped: false }
    }

    /// Reports an error about a column.
    pub(crate) fn error(&mut self, column: usize, note: Note) {
        self.is_bad = true;
        self.findings.push(self.row.line, Some(self.schema.columns[column].name), note);
    }

    /// Reports a warning about a column.
    pub(crate) fn warn(&mut self, column: usize, note: Note) {
        self.findings.push(self.row.line, Some(self.schema.columns[column].name), note);
    }

    /// Leaves the row out and counts it; `name` is the column that states which row it is.
    pub(crate) fn drop(&mut self, name: usize, reason: &'static str) {
        self.drop_part(name, reason, None);
    }

    /// Counts a row that becomes a job a little unlike it.
    pub(crate) fn adapt(&mut self, name: usize, reason: &'static str) {
        self.adapt_part(name, reason, None);
    }

    /// As [`Self::adapt`], because of a part of the row.
    pub(crate) fn adapt_part(&mut self, name: usize, reason: &'static str, part: Option<String>) {
        self.count_row(Rule::AdaptedJobs, name, reason, part);
    }

    /// As [`Self::drop`], because of a part of the row.
    pub(crate) fn drop_part(&mut self, name: usize, reason: &'static str, part: Option<String>) {
        // One reason a row is enough.
        if !self.is_dropped {
            self.is_dropped = true;
            self.count_row(Rule::DroppedRows, name, reason, part);
        }
    }

    fn count_row(&mut self, rule: Rule, name: usize, reason: &'static str, part: Option<String>) {
        let line = self.row.line;
        let name = self.raw(name).map_or_else(|| format!("line {line}"), str::to_owned);
        self.findings.tally(rule, reason, line, &name, part);
    }

    fn kind(&self, column: usize) -> Kind {
        self.row.cells[column].kind
    }

    /// The cell's text, or `None` where it is empty.
    pub(crate) fn raw(&self, column: usize) -> Option<&'a str> {
        let cell = self.row.cells[column];
        let text = self.row.text.get(cell.start as usize..cell.end as usize)?;
        (!matches!(cell.kind, Kind::Absent | Kind::Empty) && !text.is_empty()).then_some(text)
    }

    /// Whether the file has the column at all.
    pub(crate) fn has_column(&self, column: usize) -> bool {
        self.kind(column) != Kind::Absent
    }

    /// Whether the cell holds anything.
    pub(crate) fn has(&self, column: usize) -> bool {
        self.raw(column).is_some()
    }

    /// Reports an empty cell, unless the whole column is missing, which was reported with the header.
    pub(crate) fn missing(&mut self, column: usize, why: &str) {
        if self.kind(column) == Kind::Absent && self.schema.columns[column].required {
            self.is_bad = true;
            return;
        }
        let name = self.schema.columns[column].name;
        self.error(column, Note::error(Rule::MissingValue, format!("`{name}` is empty; {why}")));
    }

    /// Text, or `None` where there is none.
    pub(crate) fn text(&mut self, column: usize) -> Option<&'a str> {
        let text = self.raw(column)?;
        if matches!(self.kind(column), Kind::Plain | Kind::Text) && !text.contains('\0') {
            return Some(text);
        }
        self.error(column, Note::error(Rule::NotText, format!("found {}, expected text", shown(text))));
        None
    }

    /// A name that must be there: text, or a bare number taken as text.
    pub(crate) fn name(&mut self, column: usize) -> Option<&'a str> {
        if self.kind(column) == Kind::Number {
            return self.raw(column);
        }
        if !self.has(column) {
            self.missing(column, "expected a name");
        }
        self.text(column)
    }

    /// A list of names, `;` between them.
    pub(crate) fn list(&mut self, column: usize) -> Option<&'a str> {
        let text = self.raw(column)?;
        if !matches!(self.kind(column), Kind::Plain | Kind::List) || text.contains('\0') {
            let note = Note::error(Rule::NotText, format!("found {}, expected a list of names", shown(text)));
            self.error(column, note);
            return None;
        }
        if text.split(';').any(|item| item.trim().is_empty()) {
            let note = Note::error(Rule::MissingValue, format!("found an empty name in {}", shown(text)));
            self.error(column, note);
            return None;
        }
        Some(text)
    }

    /// A finite number, or `None` where there is none.
    pub(crate) fn number(&mut self, column: usize) -> Option<f64> {
        let text = self.raw(column)?;
        let value = match self.kind(column) {
            Kind::Plain | Kind::Number => parse_number(text),
            _ => None,
        };
        match value {
            Some(value) if value.is_finite() => Some(value),
            Some(_) => {
                let note =
                    Note::error(Rule::NonFinite, format!("found {}, expected a finite number", shown(text)));
                self.error(column, note);
                None
            }
            None => {
                let is_quoted = self.kind(column) == Kind::Text;
                self.error(column, not_a_number(text, is_quoted));
                None
            }
        }
    }

    /// A finite number that must be there.
    pub(crate) fn required_number(&mut self, column: usize) -> Option<f64> {
        if !self.has(column) {
            self.missing(column, "expected a number");
        }
        self.number(column)
    }

    /// A whole number that must be there, from 0.
    pub(crate) fn required_count(&mut self, column: usize) -> Option<u32> {
        if !self.has(column) {
            self.missing(column, "expected a whole number");
        }
        self.count(column)
    }

    /// A whole number from 0, or `None` where there is none.
    pub(crate) fn count(&mut self, column: usize) -> Option<u32> {
        let text = self.raw(column)?;
        if matches!(self.kind(column), Kind::Plain | Kind::Number)
            && let Ok(count) = text.parse::<u32>()
        {
            return Some(count);
        }
        let value = self.whole(column, 0.0, f64::from(u32::MAX))?;
        Some(value as u32)
    }

    /// A whole number of either sign, or `None` where there is none.
    pub(crate) fn integer(&mut self, column: usize) -> Option<i32> {
        let value = self.whole(column, f64::from(i32::MIN), f64::from(i32::MAX))?;
        Some(value as i32)
    }

    fn whole(&mut self, column: usize, min: f64, max: f64) -> Option<f64> {
        let value = self.number(column)?;
        if value.fract() == 0.0 && (min..=max).contains(&value) {
            return Some(value);
        }
        let shown = shown(self.raw(column).unwrap_or_default());
        let note = if value < min && min == 0.0 {
            Note::error(Rule::NegativeCount, format!("found {shown}, expected 0 or more"))
        } else {
            Note::error(Rule::NotAnInteger, format!("found {shown}, expected a whole number up to {max}"))
        };
        self.error(column, note);
        None
    }

    /// Milliseconds or seconds of work: at least zero.
    pub(crate) fn length(&mut self, column: usize) -> Option<f64> {
        let value = self.number(column)?;
        if value < 0.0 {
            let note = Note::error(Rule::NegativeDuration, format!("found {value}, expected 0 or more"))
                .hint("an end before a start? use start and end the other way round, or drop the job");
            self.error(column, note);
            return None;
        }
        Some(value)
    }
}

/// The nearest float, as `str::parse` gives it; most numbers in traces are whole, and those are quick.
fn parse_number(text: &str) -> Option<f64> {
    /// Up to so many digits every whole number is a float.
    const EXACT_DIGITS: usize = 15;
    if (1..=EXACT_DIGITS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(text.bytes().fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0')) as f64);
    }
    text.parse().ok()
}

fn not_a_number(text: &str, is_quoted: bool) -> Note {
    let note = Note::error(Rule::NotANumber, format!("found {}, expected a number", shown(text)));
    let is_number = |text: &str| text.parse::<f64>().is_ok();
    let plain = text.replace([',', '_', ' ', '\''], "");
    if is_quoted && is_number(text) {
        return note.hint("write the number without quotes");
    }
    if is_number(&plain) {
        return note.hint(format!("write {plain} without separators"));
    }
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    if digits.len() < text.len() && is_number(digits) {
        return note.hint("write the number without a unit");
    }
    note
}
