//! One JSON document with the jobs in a list, read job by job: a large log need not fit into memory.
//!
//! The list is the document itself, or its member `jobs`. A job is an object with the schema's columns as keys, or a list
//! with their values in the schema's order.

use std::io::{self, BufRead};

use serde_json::value::RawValue;

use crate::csv::{Step, bad_utf8};
use crate::finding::{Findings, Note, Rule};
use crate::jsonl::{Object, bad_json, fill, push_value};
use crate::row::{Cell, Kind, Row, Schema};
use crate::source::LINE_BYTES_MAX;

/// The member that holds the list.
const LIST: &[u8] = b"jobs";

/// Reads the elements of a list as rows.
pub(crate) struct JsonElements {
    bytes: Bytes,
    schema: &'static Schema,
    place: Place,
    element: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    /// Behind the list's bracket.
    First,
    /// Behind an element.
    Next,
    End,
}

impl JsonElements {
    pub(crate) fn new(reader: Box<dyn BufRead>, schema: &'static Schema) -> Self {
        Self { bytes: Bytes { reader, line: 1 }, schema, place: Place::Start, element: Vec::new() }
    }

    /// The line that was come to.
    pub(crate) fn line(&self) -> u64 {
        self.bytes.line
    }

    /// Reads the next row.
    pub(crate) fn read(&mut self, row: &mut Row, findings: &mut Findings) -> io::Result<Step> {
        let step = match self.find_element()? {
            Found::Element => None,
            Found::End => Some(Step::End),
            Found::Wrong(what) => {
                // Past this nothing is sure.
                self.place = Place::End;
                let note = Note::error(Rule::BadJson, what);
                findings.push(
                    self.bytes.line,
                    None,
                    note.hint("expected a list of jobs, or an object whose `jobs` is one"),
                );
                Some(Step::Bad)
            }
        };
        if let Some(step) = step {
            return Ok(step);
        }
        row.line = self.bytes.line;
        match self.bytes.value(Some(&mut self.element))? {
            Value::Whole => Ok(self.fill(row, findings)),
            Value::TooLong => {
                let message = format!("the job is longer than {LINE_BYTES_MAX} bytes");
                findings.push(row.line, None, Note::error(Rule::LineTooLong, message));
                Ok(Step::Bad)
            }
            Value::Cut => {
                self.place = Place::End;
                let note = Note::error(Rule::BadJson, "the file ends within a job");
                findings.push(row.line, None, note.hint("it may be cut short: copy or download it again"));
                Ok(Step::Bad)
            }
        }
    }

    /// Goes to the beginning of the next element.
    fn find_element(&mut self) -> io::Result<Found> {
        if self.place == Place::Start {
            let found = self.find_list()?;
            if !matches!(found, Found::Element) {
                return Ok(found);
            }
            self.place = Place::First;
        }
        if self.place == Place::End {
            return Ok(Found::End);
        }
        let is_first = self.place == Place::First;
        self.place = Place::Next;
        match (self.bytes.peek()?, is_first) {
            (Some(b']'), _) => {
                self.place = Place::End;
                Ok(Found::End)
            }
            (None, _) => Ok(Found::Wrong("the file ends within the list of jobs")),
            (Some(b','), false) => {
                self.bytes.skip(1);
                match self.bytes.peek()? {
                    Some(b']' | b',') | None => Ok(Found::Wrong("found a comma with no job behind it")),
                    Some(_) => Ok(Found::Element),
                }
            }
            (Some(_), false) => Ok(Found::Wrong("found no comma between two jobs")),
            (Some(b','), true) => Ok(Found::Wrong("found a comma with no job before it")),
            (Some(_), true) => Ok(Found::Element),
        }
    }

    /// Goes behind the bracket that opens the list.
    fn find_list(&mut self) -> io::Result<Found> {
        self.bytes.skip_mark()?;
        match self.bytes.peek()? {
            Some(b'[') => {
                self.bytes.skip(1);
                return Ok(Found::Element);
            }
            Some(b'{') => self.bytes.skip(1),
            _ => return Ok(Found::Wrong("found neither a list nor an object")),
        }
        loop {
            match self.bytes.peek()? {
                Some(b'"') => {}
                Some(b',') => {
                    self.bytes.skip(1);
                    continue;
                }
                _ => return Ok(Found::Wrong("the object has no list `jobs`")),
            }
            let mut key = Vec::new();
            if self.bytes.value(Some(&mut key))? != Value::Whole || self.bytes.peek()? != Some(b':') {
                return Ok(Found::Wrong("invalid JSON"));
            }
            self.bytes.skip(1);
            let is_list = key.trim_ascii_end() == [b"\"", LIST, b"\""].concat();
            match self.bytes.peek()? {
                Some(b'[') if is_list => {
                    self.bytes.skip(1);
                    return Ok(Found::Element);
                }
                Some(_) if self.bytes.value(None)? == Value::Whole => {}
                _ => return Ok(Found::Wrong("the object ends too early")),
            }
        }
    }

    /// Moves the element's values into the row's cells.
    fn fill(&self, row: &mut Row, findings: &mut Findings) -> Step {
        let Ok(text) = std::str::from_utf8(&self.element) else {
            findings.push(row.line, None, bad_utf8(&self.element));
            return Step::Bad;
        };
        if !text.starts_with('[') {
            return match serde_json::from_str::<Object<'_>>(text) {
                Ok(object) => fill(row, self.schema, &object, findings),
                Err(error) => {
                    findings.push(row.line, None, bad_json(&error));
                    Step::Bad
                }
            };
        }
        let values = match serde_json::from_str::<Vec<&RawValue>>(text) {
            Ok(values) => values,
            Err(error) => {
                findings.push(row.line, None, bad_json(&error));
                return Step::Bad;
            }
        };
        let width = self.schema.columns.len();
        if values.len() != width {
            let message = format!("found {} values, expected {width}", values.len());
            let names: Vec<_> = self.schema.columns.iter().map(|column| column.name).collect();
            let note = Note::error(Rule::TruncatedRow, message);
            findings.push(row.line, None, note.hint(format!("a job is a list of {}", names.join(", "))));
            return Step::Bad;
        }
        row.text.clear();
        row.cells.clear();
        row.cells.resize(width, Cell { kind: Kind::Empty, ..Cell::ABSENT });
        for (cell, value) in row.cells.iter_mut().zip(values) {
            let start = row.text.len();
            let kind = push_value(&mut row.text, value.get());
            *cell = Cell { start: start as u32, end: row.text.len() as u32, kind };
        }
        Step::Row
    }
}

enum Found {
    Element,
    End,
    Wrong(&'static str),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    Whole,
    TooLong,
    Cut,
}

/// The text, byte by byte, with its line numbers.
struct Bytes {
    reader: Box<dyn BufRead>,
    line: u64,
}

impl Bytes {
    /// The next byte that is no white space; it stays where it is.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(None);
            }
            let blank = buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let next = buffer.get(blank).copied();
            self.line += count_lines(&buffer[..blank]);
            self.reader.consume(blank);
            if next.is_some() {
                return Ok(next);
            }
        }
    }

    fn skip(&mut self, count: usize) {
        self.reader.consume(count);
    }

    /// Passes over a byte-order mark.
    fn skip_mark(&mut self) -> io::Result<()> {
        if self.reader.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
            self.reader.consume(3);
        }
        Ok(())
    }

    /// Reads one value, which begins at the next byte, into `out`, or passes over it. Only brackets and quotes are looked
    /// at: whether it is JSON shows later.
    fn value(&mut self, mut out: Option<&mut Vec<u8>>) -> io::Result<Value> {
        if let Some(out) = out.as_deref_mut() {
            out.clear();
        }
        let mut scan = Scan::default();
        let mut is_long = false;
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(if scan.is_whole_at_end() { Value::Whole } else { Value::Cut });
            }
            let end = buffer.iter().position(|&byte| scan.ends_before(byte));
            let used = end.unwrap_or(buffer.len());
            self.line += count_lines(&buffer[..used]);
            if let Some(out) = out.as_deref_mut().filter(|_| !is_long) {
                out.extend_from_slice(&buffer[..used]);
                is_long = out.len() > LINE_BYTES_MAX;
            }
            self.reader.consume(used);
            if end.is_some() {
                return Ok(if is_long { Value::TooLong } else { Value::Whole });
            }
        }
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// How far a value is read.
#[derive(Default)]
struct Scan {
    depth: u64,
    in_text: bool,
    is_escaped: bool,
    /// A bracket, brace or quote closed the value: it ends before the next byte.
    is_closed: bool,
    /// It is a number or a word, which ends before the next delimiter.
    is_bare: bool,
}

impl Scan {
    fn ends_before(&mut self, byte: u8) -> bool {
        if self.is_closed {
            return true;
        }
        if self.in_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => {
                    self.in_text = false;
                    self.is_closed = self.depth == 0;
                }
                _ => {}
            }
            return false;
        }
        match byte {
            b',' | b']' | b'}' if self.depth == 0 => return true,
            b'"' => self.in_text = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => {
                self.depth -= 1;
                self.is_closed = self.depth == 0;
            }
            _ => self.is_bare = true,
        }
        false
    }

    /// Whether the value is whole where the text ends.
    fn is_whole_at_end(&self) -> bool {
        self.is_closed || (self.is_bare && self.depth == 0 && !self.in_text)
    }
}
