//! Tab-separated rows without a header: what a field is follows from its place.

use std::fmt::Write as _;
use std::io;

use crate::csv::{Step, read_text};
use crate::finding::{Findings, Note, Rule};
use crate::row::{Cell, Kind, Row, Schema};
use crate::source::Lines;

/// Reads rows of a tab-separated file.
pub(crate) struct TabRows {
    lines: Lines,
    schema: &'static Schema,
    layouts: &'static [&'static [usize]],
    /// The column that the line's number, from 0, is put into.
    number: usize,
    /// What the first row had.
    layout: Option<&'static [usize]>,
}

impl TabRows {
    pub(crate) fn new(
        lines: Lines,
        schema: &'static Schema,
        layouts: &'static [&'static [usize]],
        number: usize,
    ) -> Self {
        Self { lines, schema, layouts, number, layout: None }
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
        row.text.clear();
        row.text.push_str(line.trim_end_matches('\r'));
        let width = row.text.split('\t').count();
        let known =
            self.layouts.iter().copied().filter(|layout| self.layout.is_none_or(|first| first == *layout));
        let Some(layout) = known.clone().find(|layout| layout.len() == width) else {
            let widths: Vec<_> = known.map(|layout| layout.len().to_string()).collect();
            let message = format!("found {width} fields between tabs, expected {}", widths.join(" or "));
            let note = Note::error(Rule::TruncatedRow, message);
            findings.push(row.line, None, note.hint("the row was cut, or has spaces instead of tabs"));
            return Ok(Step::Bad);
        };
        self.layout = Some(layout);
        self.fill(row, layout);
        Ok(Step::Row)
    }

    /// Finds the cells, and adds the one that is not in the file.
    fn fill(&self, row: &mut Row, layout: &[usize]) {
        row.cells.clear();
        row.cells.resize(self.schema.columns.len(), Cell::ABSENT);
        let mut start = 0;
        for (field, &column) in row.text.split('\t').zip(layout) {
            let from = start + (field.len() - field.trim_start().len());
            row.cells[column] = plain(from, from + field.trim().len());
            start += field.len() + 1;
        }
        let from = row.text.len();
        // A string takes everything.
        let _ = write!(row.text, "{}", row.line - 1);
        row.cells[self.number] = plain(from, row.text.len());
    }
}

fn plain(start: usize, end: usize) -> Cell {
    let kind = if start == end { Kind::Empty } else { Kind::Plain };
    Cell { start: start as u32, end: end as u32, kind }
}
