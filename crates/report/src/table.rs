//! One table, three renderings: text for people, tab-separated values and JSON for programs.

use comfy_table::{Cell as TextCell, CellAlignment, ContentArrangement, presets};
use serde_json::{Map, Number, Value};

use crate::metric::Unit;
use crate::stats::Estimate;

/// Rows under named columns.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// A column's names and the kind of its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    name: String,
    title: String,
    kind: ColumnKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ColumnKind {
    Text,
    Number(Unit),
    /// One column for people, four for programs.
    Estimate(Unit),
}

/// What the four columns of an estimate are called, after the column's own name.
const ESTIMATE_PARTS: [&str; 4] = ["mean", "sd", "ci95_low", "ci95_high"];

impl Column {
    /// A column of text: its name for programs and its title for people.
    pub fn text(name: &str, title: &str) -> Self {
        Self { name: name.to_owned(), title: title.to_owned(), kind: ColumnKind::Text }
    }

    /// A column of numbers.
    pub fn number(name: &str, title: &str, unit: Unit) -> Self {
        Self { kind: ColumnKind::Number(unit), ..Self::text(name, title) }
    }

    /// A column of means over repeated runs.
    pub fn estimate(name: &str, title: &str, unit: Unit) -> Self {
        Self { kind: ColumnKind::Estimate(unit), ..Self::text(name, title) }
    }

    /// The name for programs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The title people read.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Whether its values are numbers, which stand on the right.
    pub fn is_numeric(&self) -> bool {
        self.kind != ColumnKind::Text
    }

    fn program_names(&self) -> Vec<String> {
        match self.kind {
            ColumnKind::Estimate(_) => ESTIMATE_PARTS.map(|part| format!("{}_{part}", self.name)).to_vec(),
            _ => vec![self.name.clone()],
        }
    }
}

/// One value, perhaps the best of those it competes with.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    value: CellValue,
    best: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum CellValue {
    Missing,
    Text(String),
    Count(u64),
    Number(f64),
    Estimate(Estimate),
}

impl Cell {
    /// Text.
    pub fn text(text: &str) -> Self {
        Self { value: CellValue::Text(text.to_owned()), best: false }
    }

    /// A whole number.
    pub fn count(count: u64) -> Self {
        Self { value: CellValue::Count(count), best: false }
    }

    /// A number; missing where there is none, or none that is finite.
    pub fn number(number: Option<f64>) -> Self {
        let number = number.filter(|number| number.is_finite());
        Self { value: number.map_or(CellValue::Missing, CellValue::Number), best: false }
    }

    /// A mean over repeated runs.
    pub fn estimate(estimate: Option<Estimate>) -> Self {
        Self { value: estimate.map_or(CellValue::Missing, CellValue::Estimate), best: false }
    }

    /// The cell, marked as the best of those it competes with, or not.
    #[must_use]
    pub fn marked(self, best: bool) -> Self {
        Self { best, ..self }
    }

    /// Whether it is marked as the best.
    pub fn is_best(&self) -> bool {
        self.best
    }

    /// Its number with all digits, where it is one; of an estimate the mean.
    pub fn number_text(&self) -> Option<String> {
        match &self.value {
            CellValue::Count(count) => Some(count.to_string()),
            CellValue::Number(number) => Some(number.to_string()),
            CellValue::Estimate(estimate) => Some(estimate.mean.to_string()),
            CellValue::Missing | CellValue::Text(_) => None,
        }
    }

    /// What people read in `column`, without the mark.
    pub fn show(&self, column: &Column) -> String {
        let unit = match column.kind {
            ColumnKind::Number(unit) | ColumnKind::Estimate(unit) => unit,
            ColumnKind::Text => Unit::Number,
        };
        match &self.value {
            CellValue::Missing => "-".to_owned(),
            CellValue::Text(text) => text.clone(),
            CellValue::Count(count) => crate::human::count(*count),
            CellValue::Number(number) => unit.show(*number),
            CellValue::Estimate(estimate) => match estimate.ci95_half() {
                Some(half) => format!("{} ± {}", unit.show(estimate.mean), unit.show(half)),
                None => unit.show(estimate.mean),
            },
        }
    }

    /// The values for programs: as many as the column has names.
    fn program_values(&self, column: &Column) -> Vec<Value> {
        let number =
            |number: Option<f64>| number.and_then(Number::from_f64).map_or(Value::Null, Value::Number);
        match (&self.value, column.kind) {
            (CellValue::Estimate(e), ColumnKind::Estimate(_)) => {
                [Some(e.mean), e.sd, e.ci95_low, e.ci95_high].map(number).to_vec()
            }
            (_, ColumnKind::Estimate(_)) => vec![Value::Null; ESTIMATE_PARTS.len()],
            (CellValue::Missing, _) => vec![Value::Null],
            (CellValue::Text(text), _) => vec![Value::String(text.clone())],
            (CellValue::Count(count), _) => vec![Value::from(*count)],
            (CellValue::Number(value), _) => vec![number(Some(*value))],
            (CellValue::Estimate(e), _) => vec![number(Some(e.mean))],
        }
    }
}

impl Table {
    /// A table without rows.
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row; it is cut or filled up to the number of columns.
    pub fn push(&mut self, mut row: Vec<Cell>) {
        row.resize(self.columns.len(), Cell::number(None));
        self.rows.push(row);
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The rows: each has a cell per column.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// Aligned text for people; the best of a column ends in `*`. Lines have no trailing spaces.
    pub fn to_text(&self) -> String {
        let mut text = comfy_table::Table::new();
        text.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        text.set_header(self.columns.iter().map(|column| aligned(clean(&column.title) + " ", column)));
        for row in &self.rows {
            let cells = self.columns.iter().zip(row).map(|(column, cell)| {
                let mark = if cell.best { "*" } else { " " };
                aligned(clean(&cell.show(column)) + mark, column)
            });
            text.add_row(cells);
        }
        for column in text.column_iter_mut() {
            column.set_padding((0, 1));
        }
        text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    /// Tab-separated values under a line of names; full precision, an empty cell where there is no value.
    pub fn to_plain(&self) -> String {
        let mut text = self.columns.iter().flat_map(Column::program_names).collect::<Vec<_>>().join("\t");
        text.push('\n');
        for row in &self.rows {
            let values = self.columns.iter().zip(row).flat_map(|(column, cell)| cell.program_values(column));
            text.push_str(&values.map(|value| plain(&value)).collect::<Vec<_>>().join("\t"));
            text.push('\n');
        }
        text
    }

    /// The rows as an array of objects; `null` where there is no value.
    pub fn to_json(&self) -> Value {
        let row = |row: &Vec<Cell>| {
            let pairs = self.columns.iter().zip(row).flat_map(|(column, cell)| {
                column.program_names().into_iter().zip(cell.program_values(column))
            });
            Value::Object(pairs.collect::<Map<_, _>>())
        };
        Value::Array(self.rows.iter().map(row).collect())
    }
}

fn aligned(text: String, column: &Column) -> TextCell {
    let alignment = if column.is_numeric() { CellAlignment::Right } else { CellAlignment::Left };
    TextCell::new(text).set_alignment(alignment)
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => clean(text),
        other => other.to_string(),
    }
}

/// Control characters (tabs, line ends, escapes) would break the rows, or the terminal.
fn clean(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

/// Converts tab-separated lines, whose cells hold no tabs or line ends, to CSV.
pub fn csv(plain: &str) -> String {
    let quoted = |cell: &str| match cell.contains([',', '"']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    };
    let line = |line: &str| line.split('\t').map(quoted).collect::<Vec<_>>().join(",") + "\n";
    plain.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec![
            Column::text("policy", "policy"),
            Column::number("avg_jct_s", "avg JCT", Unit::Seconds),
            Column::estimate("makespan_s", "makespan", Unit::Seconds),
        ]);
        let estimate = Estimate::new(&[7980.0, 8040.0]);
        table.push(vec![Cell::text("fifo"), Cell::number(Some(0.1 + 0.2)), Cell::estimate(estimate)]);
        table.push(vec![Cell::text("a\tb"), Cell::number(Some(100.0)).marked(true)]);
        table.push(vec![Cell::text("x"), Cell::number(Some(f64::NAN)), Cell::estimate(None)]);
        table
    }

    #[test]
    fn table_in_three_forms() {
        insta::assert_snapshot!(table().to_text(), @"
        policy  avg JCT         makespan
        fifo       0.3s  2h 14m ± 6m 21s
        a�b      1m 40s*               -
        x             -                -
        ");
        insta::assert_snapshot!(table().to_plain().replace('\t', "|"), @"
        policy|avg_jct_s|makespan_s_mean|makespan_s_sd|makespan_s_ci95_low|makespan_s_ci95_high
        fifo|0.30000000000000004|8010.0|42.42640687119285|7628.82|8391.18
        a�b|100.0||||
        x|||||
        ");
        insta::assert_snapshot!(table().to_json().to_string(), @r#"
        [{"avg_jct_s":0.30000000000000004,"makespan_s_ci95_high":8391.18,"makespan_s_ci95_low":7628.82,"makespan_s_mean":8010.0,"makespan_s_sd":42.42640687119285,"policy":"fifo"},{"avg_jct_s":100.0,"makespan_s_ci95_high":null,"makespan_s_ci95_low":null,"makespan_s_mean":null,"makespan_s_sd":null,"policy":"a\tb"},{"avg_jct_s":null,"makespan_s_ci95_high":null,"makespan_s_ci95_low":null,"makespan_s_mean":null,"makespan_s_sd":null,"policy":"x"}]
        "#);
    }

    #[test]
    fn table_without_rows_has_a_header() {
        assert_eq!(Table::new(vec![Column::text("policy", "policy")]).to_text(), "policy\n");
    }
}
