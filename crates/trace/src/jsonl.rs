//! JSON Lines: one object a line, the same rows as CSV.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::csv::{Step, read_text};
use crate::finding::{Findings, Note, Rule};
use crate::row::{Cell, Kind, Row, Schema, UnknownColumns};
use crate::source::Lines;
use crate::text::shown;

/// Reads rows of a JSON Lines file.
pub(crate) struct JsonRows {
    lines: Lines,
    schema: &'static Schema,
}

impl JsonRows {
    pub(crate) fn new(lines: Lines, schema: &'static Schema) -> Self {
        Self { lines, schema }
    }

    /// The number of the line read last.
    pub(crate) fn line(&self) -> u64 {
        self.lines.number()
    }

    /// Reads the next row.
    pub(crate) fn read(&mut self, row: &mut Row, findings: &mut Findings) -> io::Result<Step> {
        let line = match read_text(&mut self.lines, row, findings)? {
            Ok(line) => line,
            Err(step) => return Ok(step),
        };
        match serde_json::from_str::<Object<'_>>(line) {
            Ok(object) => Ok(fill(row, self.schema, &object, findings)),
            Err(error) => {
                findings.push(row.line, None, bad_json(&error));
                Ok(Step::Bad)
            }
        }
    }
}

pub(crate) fn bad_json(error: &serde_json::Error) -> Note {
    let what = match error.classify() {
        serde_json::error::Category::Eof => "the object ends too early",
        serde_json::error::Category::Data => "expected an object",
        _ => "invalid JSON",
    };
    Note::error(Rule::BadJson, format!("{what} (character {} of the line)", error.column()))
        .hint("each line is one JSON object: {\"job_id\": \"a\", \"submit_s\": 0, ...}")
}

/// Moves an object's members into the row's cells.
pub(crate) fn fill(row: &mut Row, schema: &Schema, object: &Object<'_>, findings: &mut Findings) -> Step {
    row.text.clear();
    row.cells.clear();
    row.cells.resize(schema.columns.len(), Cell { kind: Kind::Empty, ..Cell::ABSENT });
    let mut seen = 0u64;
    let mut step = Step::Row;
    for (key, value) in &object.0 {
        let Some(index) = schema.find(key) else {
            if let Some(note) = schema.unknown_column(key) {
                findings.push_named(row.line, Some(Cow::Owned(key.to_string())), note);
            }
            if schema.unknown == UnknownColumns::Error {
                step = Step::Bad;
            }
            continue;
        };
        if seen >> index & 1 == 1 {
            let note = Note::error(Rule::DuplicateColumn, format!("duplicate key {}", shown(key)));
            findings.push_named(row.line, Some(Cow::Owned(key.to_string())), note);
            step = Step::Bad;
        }
        seen |= 1 << index;
        let start = row.text.len();
        let kind = push_value(&mut row.text, value.get());
        row.cells[index] = Cell { start: start as u32, end: row.text.len() as u32, kind };
    }
    step
}

/// Appends a value's text and states what it is.
pub(crate) fn push_value(text: &mut String, raw: &str) -> Kind {
    match raw.as_bytes().first() {
        Some(b'n') => Kind::Empty,
        Some(b'"') => match serde_json::from_str::<Cow<'_, str>>(raw) {
            Ok(value) => {
                text.push_str(&value);
                Kind::Text
            }
            Err(_) => other(text, raw),
        },
        Some(b'[') => match serde_json::from_str::<Vec<Cow<'_, str>>>(raw) {
            Ok(items) if items.iter().all(|item| is_list_item(item)) => {
                text.push_str(&items.join(";"));
                if items.is_empty() { Kind::Empty } else { Kind::List }
            }
            _ => other(text, raw),
        },
        Some(b'-' | b'0'..=b'9') => {
            text.push_str(raw);
            Kind::Number
        }
        _ => other(text, raw),
    }
}

/// Whether a name can stand in a `;`-separated list without change.
fn is_list_item(item: &str) -> bool {
    !item.is_empty() && !item.contains(';') && item.trim() == item
}

fn other(text: &mut String, raw: &str) -> Kind {
    text.push_str(raw);
    Kind::Other
}

/// The members of an object, in the file's order, with their values unread.
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(16);
                while let Some(member) = map.next_entry::<BorrowedKey<'de>, &'de RawValue>()? {
                    members.push((member.0.0, member.1));
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// A key that is borrowed where it has no escapes; plain `Cow` would always copy.
#[derive(serde::Deserialize)]
struct BorrowedKey<'a>(#[serde(borrow)] Cow<'a, str>);

/// Writes a JSON string.
pub(crate) fn write_text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    serde_json::to_writer(out, text).map_err(io::Error::from)
}
