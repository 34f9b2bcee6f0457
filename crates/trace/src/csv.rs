//! CSV records (RFC 4180), and records with `|` between the fields, with exact line numbers.
//!
//! Why not the `csv` crate: a finding needs the line that an editor shows (blank lines and quoted line breaks
//! counted), and a quote that is never closed must be an error, not the end of the file.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::finding::{Findings, Note, Rule};
use crate::row::{Cell, Kind, Row, Schema};
use crate::source::{LINE_BYTES_MAX, Line, Lines};
use crate::text::shown;

/// Most lines that one record's quoted text may run over: an unclosed quote must not swallow the whole file.
const RECORD_LINES_MAX: u64 = 100;

/// What a reader of rows came upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A row, now in the buffer.
    Row,
    /// Something that is no row; it was reported.
    Bad,
    /// The end of the text.
    End,
}

/// What stands between the fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    /// A comma; text may be in double quotes.
    Comma,
    /// A vertical bar, perhaps also after the last field; nothing is quoted.
    Bar,
}

impl Separator {
    fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Bar => b'|',
        }
    }

    /// What to do about a row with fewer fields than the header, or with more.
    fn width_hint(self, is_short: bool) -> &'static str {
        match (self, is_short) {
            (Self::Comma, true) => "the row was cut, or a comma is missing",
            (Self::Comma, false) => "put text that contains commas in double quotes",
            (Self::Bar, true) => "the row was cut, or has another separator than the header",
            (Self::Bar, false) => {
                "a value contains `|`: leave columns of free text out of the dump, such as JobName"
            }
        }
    }
}

/// Reads rows of a CSV file whose first record is a header.
pub(crate) struct CsvRows {
    lines: Lines,
    separator: Separator,
    schema: &'static Schema,
    /// For each column of the schema, its place in the file.
    headers: Vec<Option<usize>>,
    width: usize,
    fields: Vec<(u32, u32)>,
    /// The first row of a file without a header, already read; its limits are in `fields`.
    first: Option<Row>,
    /// What states how many fields a row has.
    measure: &'static str,
}

impl CsvRows {
    /// Reads the header and reports what is wrong with it.
    pub(crate) fn new(
        lines: Lines,
        separator: Separator,
        schema: &'static Schema,
        findings: &mut Findings,
    ) -> io::Result<Self> {
        let headers = vec![None; schema.columns.len()];
        let (width, fields, first, measure) = (0, Vec::new(), None, "the header");
        let mut rows = Self { lines, separator, schema, headers, width, fields, first, measure };
        let mut row = Row::default();
        if rows.read_record(&mut row, findings)? == Step::Row {
            if separator == Separator::Bar && rows.fields.len() == 1 {
                let message = format!("found no `|` in the header {}", shown(&row.text));
                let note = Note::error(Rule::WrongSeparator, message);
                findings.push(
                    row.line,
                    None,
                    note.hint("dump with `sacct --parsable2` and without `--delimiter`"),
                );
                return Ok(rows);
            }
            rows.set_header(&row, findings);
            schema.check_header(&rows.headers, row.line, findings);
        }
        Ok(rows)
    }

    /// Reads rows whose columns are the schema's, in its order. A header may be there all the same.
    pub(crate) fn without_header(
        lines: Lines,
        schema: &'static Schema,
        findings: &mut Findings,
    ) -> io::Result<Self> {
        let width = schema.columns.len();
        let headers = (0..width).map(Some).collect();
        let (separator, fields, first, measure) = (Separator::Comma, Vec::new(), None, "the format");
        let mut rows = Self { lines, separator, schema, headers, width, fields, first, measure };
        let mut row = Row::default();
        if rows.read_record(&mut row, findings)? == Step::Row {
            let field = |(start, end): &(u32, u32)| &row.text[*start as usize..*end as usize];
            let names = schema.columns.iter().map(|column| column.name);
            if !rows.fields.iter().map(field).eq(names) {
                rows.first = Some(row);
            }
        }
        Ok(rows)
    }

    fn set_header(&mut self, row: &Row, findings: &mut Findings) {
        self.width = self.fields.len();
        for (place, (start, end)) in self.fields.iter().enumerate() {
            let name = row.text[*start as usize..*end as usize].trim();
            let named = || Some(Cow::Owned(name.to_owned()));
            match self.schema.find(name) {
                Some(index) if self.headers[index].is_some() => {
                    let note =
                        Note::error(Rule::DuplicateColumn, format!("duplicate column {}", shown(name)));
                    findings.push_named(row.line, named(), note);
                }
                Some(index) => self.headers[index] = Some(place),
                None => {
                    if let Some(note) = self.schema.unknown_column(name) {
                        findings.push_named(row.line, named(), note);
                    }
                }
            }
        }
    }

    /// The number of the line read last.
    pub(crate) fn line(&self) -> u64 {
        self.lines.number()
    }

    /// Reads the next row.
    pub(crate) fn read(&mut self, row: &mut Row, findings: &mut Findings) -> io::Result<Step> {
        if self.width == 0 {
            // Without a header no row makes sense.
            return Ok(Step::End);
        }
        let step = match self.first.take() {
            Some(first) => {
                *row = first;
                Step::Row
            }
            None => self.read_record(row, findings)?,
        };
        if step != Step::Row {
            return Ok(step);
        }
        if self.fields.len() != self.width {
            let message = format!("found {} fields, {} has {}", self.fields.len(), self.measure, self.width);
            let hint = self.separator.width_hint(self.fields.len() < self.width);
            findings.push(row.line, None, Note::error(Rule::TruncatedRow, message).hint(hint));
            return Ok(Step::Bad);
        }
        let cell = |place: &Option<usize>| match place {
            None => Cell::ABSENT,
            Some(place) => {
                let (start, end) = self.fields[*place];
                Cell { start, end, kind: if start == end { Kind::Empty } else { Kind::Plain } }
            }
        };
        row.cells.clear();
        row.cells.extend(self.headers.iter().map(cell));
        Ok(Step::Row)
    }

    /// Reads one record into `row.text` and its field limits into `fields`; blank lines are passed over.
    fn read_record(&mut self, row: &mut Row, findings: &mut Findings) -> io::Result<Step> {
        row.text.clear();
        self.fields.clear();
        let line = match read_text(&mut self.lines, row, findings)? {
            Ok(line) => line,
            Err(step) => return Ok(step),
        };
        if self.separator == Separator::Comma && line.contains('"') {
            return self.read_quoted(row, findings);
        }
        row.text.push_str(line);
        split_plain(line, self.separator.byte(), &mut self.fields);
        Ok(Step::Row)
    }

    /// The slow path: a record with quotes, perhaps over several lines.
    fn read_quoted(&mut self, row: &mut Row, findings: &mut Findings) -> io::Result<Step> {
        let mut record = self.lines.bytes().to_vec();
        loop {
            let Ok(text) = std::str::from_utf8(&record) else {
                findings.push(row.line, None, bad_utf8(&record));
                return Ok(Step::Bad);
            };
            match split_quoted(text, &mut row.text, &mut self.fields) {
                Quoted::Whole => return Ok(Step::Row),
                Quoted::TextAfterQuote => {
                    let note =
                        Note::error(Rule::TruncatedRow, "found text after a closing quote, expected a comma")
                            .hint("write a quote inside quoted text twice");
                    findings.push(row.line, None, note);
                    return Ok(Step::Bad);
                }
                Quoted::Open => {}
            }
            let lines = self.lines.number() - row.line + 1;
            let more = lines < RECORD_LINES_MAX && record.len() <= LINE_BYTES_MAX;
            let more = more && self.lines.read()? == Line::Some;
            if !more {
                let note = Note::error(Rule::TruncatedRow, "a quote that opens in this row is never closed")
                    .hint("close it, or write a quote inside quoted text twice");
                findings.push(row.line, None, note);
                return Ok(Step::Bad);
            }
            record.push(b'\n');
            record.extend_from_slice(self.lines.bytes());
        }
    }
}

/// The next line that is not blank; or what else was met, which is told where it is a mistake.
pub(crate) fn read_text<'a>(
    lines: &'a mut Lines,
    row: &mut Row,
    findings: &mut Findings,
) -> io::Result<Result<&'a str, Step>> {
    loop {
        let found = lines.read()?;
        row.line = lines.number();
        match found {
            Line::End => return Ok(Err(Step::End)),
            Line::TooLong => {
                findings.push(row.line, None, too_long());
                return Ok(Err(Step::Bad));
            }
            Line::Some if lines.bytes().trim_ascii().is_empty() => {}
            Line::Some => break,
        }
    }
    Ok(std::str::from_utf8(lines.bytes()).map_err(|_| {
        findings.push(row.line, None, bad_utf8(lines.bytes()));
        Step::Bad
    }))
}

/// The note about a line that is not UTF-8.
pub(crate) fn bad_utf8(bytes: &[u8]) -> Note {
    let offset = std::str::from_utf8(bytes).err().map_or(0, |error| error.valid_up_to());
    let byte = bytes.get(offset).copied().unwrap_or_default();
    Note::error(Rule::BadUtf8, format!("byte {} of the line (0x{byte:02x}) is not UTF-8", offset + 1))
        .hint("save the file as UTF-8")
}

/// The note about a line that is too long.
fn too_long() -> Note {
    Note::error(Rule::LineTooLong, format!("the line is longer than {LINE_BYTES_MAX} bytes"))
}

fn split_plain(line: &str, separator: u8, fields: &mut Vec<(u32, u32)>) {
    let mut start = 0;
    for part in line.as_bytes().split(|byte| *byte == separator) {
        let lead = part.len() - part.trim_ascii_start().len();
        let from = start + lead;
        let length = part.trim_ascii().len();
        fields.push((from as u32, (from + length) as u32));
        start += part.len() + 1;
    }
}

enum Quoted {
    Whole,
    Open,
    TextAfterQuote,
}

/// Splits a record with quotes; fields go unquoted into `out`.
fn split_quoted(text: &str, out: &mut String, fields: &mut Vec<(u32, u32)>) -> Quoted {
    out.clear();
    fields.clear();
    let mut rest = text;
    loop {
        let start = out.len();
        let lead = rest.trim_start_matches([' ', '\t']);
        let after = if let Some(quoted) = lead.strip_prefix('"') {
            let Some(after) = unquote(quoted, out) else { return Quoted::Open };
            fields.push((start as u32, out.len() as u32));
            after.trim_ascii_start()
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            out.push_str(rest[..end].trim_ascii());
            fields.push((start as u32, out.len() as u32));
            &rest[end..]
        };
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Quoted::Whole,
            None => return Quoted::TextAfterQuote,
        }
    }
}

/// Copies quoted text up to its closing quote and returns what follows; `None` where it is not closed.
fn unquote<'a>(mut rest: &'a str, out: &mut String) -> Option<&'a str> {
    loop {
        let (inside, after) = rest.split_once('"')?;
        out.push_str(inside);
        match after.strip_prefix('"') {
            Some(next) => {
                out.push('"');
                rest = next;
            }
            None => return Some(after),
        }
    }
}

/// Writes a text field, quoted where it must be.
pub(crate) fn write_text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let special = |byte: u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if text.bytes().any(special) || text.trim() != text {
        write!(out, "\"{}\"", text.replace('"', "\"\""))
    } else {
        out.write_all(text.as_bytes())
    }
}
