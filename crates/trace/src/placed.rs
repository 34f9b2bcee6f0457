//! Rows without a header, separated by tabs or by any white space: what a field is follows from its place.

use std::fmt::Write as _;
use std::io;

use crate::csv::{Step, read_text};
use crate::finding::{Findings, Note, Rule};
use crate::row::{Cell, Kind, Row, Schema};
use crate::source::Lines;

/// How the fields of a line are separated and ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Tabs. A line's number of fields states which column each is; one more column has the line's number, from 0.
    Tabs {
        /// The column of each field, for each number of fields.
        layouts: &'static [&'static [usize]],
        /// The column of the line's number.
        number: usize,
    },
    /// Any white space, the columns in the order of the schema, and lines that begin with `;` as comments.
    Spaces,
}

/// Reads such rows.
pub(crate) struct PlacedRows {
    lines: Lines,
    schema: &'static Schema,
    placed: Placed,
    /// The number of fields of the first row.
    width: Option<usize>,
}

impl PlacedRows {
    pub(crate) fn new(lines: Lines, schema: &'static Schema, placed: Placed) -> Self {
        Self { lines, schema, placed, width: None }
    }

    /// The number of the line read last.
    pub(crate) fn line(&self) -> u64 {
        self.lines.number()
    }

    /// Reads the next row.
    pub(crate) fn read(&mut self, row: &mut Row, findings: &mut Findings) -> io::Result<Step> {
        loop {
            let line = match read_text(&mut self.lines, row, findings)? {
                Ok(line) => line,
                Err(step) => return Ok(step),
            };
            if self.placed == Placed::Spaces && line.trim_start().starts_with(';') {
                continue;
            }
            row.text.clear();
            row.text.push_str(line.trim_end_matches('\r'));
            break;
        }
        let fields = self.split(&row.text);
        let known: Vec<usize> =
            self.widths().filter(|&width| self.width.is_none_or(|first| first == width)).collect();
        if !known.contains(&fields.len()) {
            findings.push(row.line, None, self.wrong_width(fields.len(), &known));
            return Ok(Step::Bad);
        }
        self.width = Some(fields.len());
        self.fill(row, &fields);
        Ok(Step::Row)
    }

    /// Where each field is.
    fn split(&self, text: &str) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(self.schema.columns.len());
        let mut start = 0;
        let parts: Vec<&str> = match self.placed {
            Placed::Tabs { .. } => text.split('\t').collect(),
            Placed::Spaces => text.split(|character: char| character.is_ascii_whitespace()).collect(),
        };
        for part in parts {
            let from = start + (part.len() - part.trim_start().len());
            if self.placed != Placed::Spaces || !part.is_empty() {
                cells.push(plain(from, from + part.trim().len()));
            }
            start += part.len() + 1;
        }
        cells
    }

    /// The numbers of fields that a row may have.
    fn widths(&self) -> impl Iterator<Item = usize> {
        let (layouts, columns) = match self.placed {
            Placed::Tabs { layouts, .. } => (layouts, None),
            Placed::Spaces => (&[] as &[&[usize]], Some(self.schema.columns.len())),
        };
        layouts.iter().map(|layout| layout.len()).chain(columns)
    }

    fn wrong_width(&self, found: usize, known: &[usize]) -> Note {
        let widths: Vec<String> = known.iter().map(ToString::to_string).collect();
        let (between, hint) = match self.placed {
            Placed::Tabs { .. } => (" between tabs", "the row was cut, or has spaces instead of tabs"),
            Placed::Spaces => ("", "the row was cut, or has another separator than white space"),
        };
        let message = format!("found {found} fields{between}, expected {}", widths.join(" or "));
        Note::error(Rule::TruncatedRow, message).hint(hint)
    }

    /// Puts the cells into their columns, and adds the one that is not in the file.
    fn fill(&self, row: &mut Row, fields: &[Cell]) {
        row.cells.clear();
        let Placed::Tabs { layouts, number } = self.placed else {
            row.cells.extend_from_slice(fields);
            return;
        };
        row.cells.resize(self.schema.columns.len(), Cell::ABSENT);
        let layout = layouts.iter().find(|layout| layout.len() == fields.len());
        for (cell, &column) in fields.iter().zip(layout.into_iter().copied().flatten()) {
            row.cells[column] = *cell;
        }
        let from = row.text.len();
        // A string takes everything.
        let _ = write!(row.text, "{}", row.line - 1);
        row.cells[number] = plain(from, row.text.len());
    }
}

fn plain(start: usize, end: usize) -> Cell {
    let kind = if start == end { Kind::Empty } else { Kind::Plain };
    Cell { start: start as u32, end: end as u32, kind }
}
