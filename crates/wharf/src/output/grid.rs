//! Rows of text under a header: a table for people, tab-separated values for programs.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

use super::escaped;

/// Rows of text.
#[derive(Clone, Debug)]
pub(crate) struct Grid<const COLUMNS: usize> {
    header: [&'static str; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
}

impl Grid<2> {
    /// A document as rows of `field` (`a.b`, `list.0.c`) and `value`.
    pub(crate) fn of_fields(document: &Value) -> Self {
        fn add(grid: &mut Grid<2>, name: &str, value: &Value) {
            let inner = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
            match value {
                Value::Object(fields) => fields.iter().for_each(|(key, value)| add(grid, &inner(key), value)),
                Value::Array(items) => {
                    let items = items.iter().enumerate();
                    items.for_each(|(index, value)| add(grid, &inner(&index.to_string()), value));
                }
                Value::Null => grid.push([name, ""]),
                Value::String(text) => grid.push([name, text]),
                other => grid.push([name, &other.to_string()]),
            }
        }
        let mut grid = Self::new(["field", "value"]);
        add(&mut grid, "", document);
        grid
    }
}

impl<const COLUMNS: usize> Grid<COLUMNS> {
    /// No rows yet.
    pub(crate) fn new(header: [&'static str; COLUMNS]) -> Self {
        Self { header, rows: vec![] }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: [&str; COLUMNS]) {
        self.rows.push(row.map(|cell| escaped(cell).into_owned()));
    }

    /// A table, at most `width` characters wide where that is known.
    pub(crate) fn to_text(&self, width: Option<u16>) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(self.header);
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        for row in &self.rows {
            table.add_row(row);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        lines.concat()
    }

    /// Comma-separated values, with quotes where they are needed (RFC 4180).
    pub(crate) fn to_csv(&self) -> String {
        let quoted = |cell: &str| {
            if cell.contains(['"', ',', '\n', '\r']) {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell.to_owned()
            }
        };
        let line =
            |cells: &[String]| cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\r\n";
        let header = line(&self.header.map(|name| name.replace(' ', "_")));
        std::iter::once(header).chain(self.rows.iter().map(|row| line(row))).collect()
    }

    /// Tab-separated values.
    pub(crate) fn to_plain(&self) -> String {
        let clean = |cell: &String| cell.replace(['\t', '\n', '\r'], " ");
        let rows = self.rows.iter().map(|row| row.iter().map(clean).collect::<Vec<_>>().join("\t"));
        std::iter::once(self.header.join("\t")).chain(rows).map(|line| line + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        let mut grid = Grid::new(["a b", "c"]);
        grid.push(["x, y", "say \"hi\""]);
        assert_eq!(grid.to_csv(), "a_b,c\r\n\"x, y\",\"say \"\"hi\"\"\"\r\n");
    }

    #[test]
    fn cell_with_control_characters_is_escaped_in_every_form() {
        let mut grid = Grid::new(["name"]);
        grid.push(["\u{1b}]0;owned\u{7}"]);
        for text in [grid.to_text(None), grid.to_plain(), grid.to_csv()] {
            assert!(text.contains("\\u{1b}]0;owned\\u{7}") && !text.contains('\u{1b}'), "{text}");
        }
    }

    #[test]
    fn document_becomes_rows_of_fields() {
        let document = serde_json::json!({"a": {"b": 1.5, "c": null}, "list": [{"d": "x\ty"}, true]});
        let plain = Grid::of_fields(&document).to_plain();
        assert_eq!(plain, "field\tvalue\na.b\t1.5\na.c\t\nlist.0.d\tx y\nlist.1\ttrue\n");
    }
}
