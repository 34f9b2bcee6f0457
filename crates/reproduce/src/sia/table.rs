//! Reads the columns that are wanted out of a CSV file, by their names.

use std::path::{Path, PathBuf};

use super::error::SiaError;

/// The wanted columns of a file.
#[derive(Debug)]
pub(super) struct Table {
    path: PathBuf,
    names: Vec<&'static str>,
    rows: Vec<(u64, Vec<String>)>,
}

/// One row of a [`Table`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    table: &'a Table,
    line: u64,
    fields: &'a [String],
}

impl Table {
    pub(super) fn read(path: &Path, names: &[&'static str]) -> Result<Self, SiaError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SiaError::Read { path: path.to_owned(), source })?;
        let bad = |line, problem| SiaError::Table { path: path.to_owned(), line, problem };
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().map_err(|error| bad(1, error.to_string()))?.clone();
        let column = |name: &&str| {
            header
                .iter()
                .position(|known| known == *name)
                .ok_or_else(|| bad(1, format!("there is no column `{name}`")))
        };
        let columns = names.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| {
                let line = error.position().map_or(0, csv::Position::line);
                bad(line, error.to_string())
            })?;
            let line = record.position().map_or(0, csv::Position::line);
            rows.push((line, columns.iter().map(|&column| record[column].trim().to_owned()).collect()));
        }
        Ok(Self { path: path.to_owned(), names: names.to_vec(), rows })
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, fields)| Row { table: self, line: *line, fields })
    }
}

impl Row<'_> {
    pub(super) fn text(&self, column: usize) -> &str {
        &self.fields[column]
    }

    pub(super) fn number(&self, column: usize) -> Result<f64, SiaError> {
        let text = self.text(column);
        // The standard parser states what is a number; this one states which.
        let is_number = text.parse().is_ok_and(f64::is_finite);
        if is_number { Ok(parse(text)) } else { Err(self.bad(column)) }
    }

    pub(super) fn count(&self, column: usize) -> Result<u32, SiaError> {
        self.text(column).parse().map_err(|_| self.bad(column))
    }

    fn bad(&self, column: usize) -> SiaError {
        let problem = format!("`{}` is no `{}`", self.text(column), self.table.names[column]);
        SiaError::Table { path: self.table.path.clone(), line: self.line, problem }
    }
}

/// Digits that count.
const DIGITS: u32 = 17;

/// A number as pandas reads it: the first 17 digits are summed up in floating point, then scaled by a power of ten. That is
/// up to two units off in the last place, and what the reference computed with.
fn parse(text: &str) -> f64 {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut exponent: i32 = exponent.parse().unwrap_or_default();
    let (mut number, mut digits) = (0.0, 0);
    for digit in whole.chars().filter_map(|digit| digit.to_digit(10)) {
        if digits < DIGITS {
            number = number * 10.0 + f64::from(digit);
            digits += 1;
        } else {
            exponent += 1;
        }
    }
    for digit in decimals.chars().filter_map(|digit| digit.to_digit(10)).take((DIGITS - digits) as usize) {
        number = number * 10.0 + f64::from(digit);
        exponent -= 1;
    }
    let number = if mantissa.starts_with('-') { -number } else { number };
    if exponent < 0 { number / 10f64.powi(-exponent) } else { number * 10f64.powi(exponent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_pandas_reads_them() {
        for (text, expected) in
            [("1", 1.0), ("-2.5", -2.5), ("1.5e3", 1500.0), ("2e-2", 0.02), ("0.125", 0.125)]
        {
            assert_eq!(parse(text), expected);
        }
        let (text, near) = ("0.0004995360016822816", 0.000_499_536_001_682_281_6);
        assert!((parse(text) / near - 1.0_f64).abs() < 1e-12);
    }
}
