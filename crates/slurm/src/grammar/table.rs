//! Tables as sacct, sacctmgr, sshare and sstat print them: columns such as `jobid%20`, or values between delimiters.

use super::getopt::{Opt, Parsed, Takes};

/// A field by its title, with its width; a negative width: values stand at the left.
pub type Field = (&'static str, i32);

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The title of its field.
    pub field: &'static str,
    /// How wide.
    pub width: usize,
    /// Values stand at the left.
    pub is_left: bool,
}

impl Column {
    fn of((field, width): Field) -> Self {
        Self { field, width: width.unsigned_abs() as usize, is_left: width < 0 }
    }

    /// A value as wide as the column; one that is cut ends with `+`.
    #[must_use]
    pub fn fitted(&self, value: &str) -> String {
        let width = self.width;
        let cut: String = if value.chars().count() > width && width > 0 {
            value.chars().take(width - 1).chain(['+']).collect()
        } else {
            value.to_owned()
        };
        if self.is_left { format!("{cut:<width$}") } else { format!("{cut:>width$}") }
    }
}

/// The columns of a format, each a field without blanks or its beginning in any case, with an optional `%width`; `all` means all of
/// them.
///
/// # Errors
/// What is the name of no field.
pub fn columns(fields: &[Field], format: &str) -> Result<Vec<Column>, String> {
    let mut columns = Vec::new();
    for word in format.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        if word.eq_ignore_ascii_case("all") {
            columns.extend(fields.iter().copied().map(Column::of));
            continue;
        }
        let (name, width) = word.split_once('%').unwrap_or((word, ""));
        let mut column = find(fields, name).map(Column::of).ok_or_else(|| name.to_owned())?;
        // Wider ones cannot be formatted.
        if let Ok(own) = width.trim_start_matches('-').parse::<u16>() {
            (column.width, column.is_left) = (own.into(), width.starts_with('-'));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// The field of that name, or else the first that begins with it.
fn find(fields: &[Field], name: &str) -> Option<Field> {
    let plain = |title: &str| title.replace(' ', "").to_ascii_lowercase();
    let wanted = plain(name);
    let exact = fields.iter().find(|(title, _)| plain(title) == wanted);
    let begins = |(title, _): &&Field| !wanted.is_empty() && plain(title).starts_with(&wanted);
    exact.or_else(|| fields.iter().find(begins)).copied()
}

/// The options of commands with such tables.
pub const OPTIONS: &[Opt] = &[
    Opt::new("delimiter", ' ', Takes::Value),
    Opt::new("format", 'o', Takes::Value),
    Opt::new("noheader", 'n', Takes::Nothing),
    Opt::new("parsable", 'p', Takes::Nothing),
    Opt::new("parsable2", 'P', Takes::Nothing),
];

/// The lines of a table; `value` gives what a row has in a field.
#[must_use]
pub fn lines<R>(
    columns: &[Column],
    rows: &[R],
    parsed: &Parsed,
    value: impl Fn(&R, &str) -> String,
) -> Vec<String> {
    let is_bare = parsed.has("noheader");
    if parsed.has("parsable") || parsed.has("parsable2") {
        let delimiter = parsed.value("delimiter").unwrap_or("|");
        let after = if parsed.has("parsable") { delimiter } else { "" };
        let joined = |values: Vec<String>| values.join(delimiter) + after;
        let header = joined(columns.iter().map(|column| column.field.to_owned()).collect());
        let rows =
            rows.iter().map(|row| joined(columns.iter().map(|column| value(row, column.field)).collect()));
        return (!is_bare).then_some(header).into_iter().chain(rows).collect();
    }
    // A blank after each column, also the last one.
    let line =
        |of: &dyn Fn(&Column) -> String| columns.iter().map(|column| of(column) + " ").collect::<String>();
    let mut lines = Vec::new();
    if !is_bare {
        lines.push(line(&|column| column.fitted(column.field)));
        lines.push(line(&|column| "-".repeat(column.width)));
    }
    lines.extend(rows.iter().map(|row| line(&|column| column.fitted(&value(row, column.field)))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::getopt::{self, Order};

    const FIELDS: &[Field] =
        &[("Account", 10), ("Elapsed", 10), ("ElapsedRaw", 10), ("JobID", -12), ("Def Acct", 10)];

    #[test]
    fn columns_are_found_by_name_and_beginning() {
        let of = |format: &str| {
            let columns = columns(FIELDS, format)?;
            Ok::<_, String>(columns.iter().map(|one| (one.field, one.width, one.is_left)).collect::<Vec<_>>())
        };
        assert_eq!(of("JOBID,account%20"), Ok(vec![("JobID", 12, true), ("Account", 20, false)]));
        assert_eq!(of("jobid%20, account%-9"), Ok(vec![("JobID", 20, false), ("Account", 9, true)]));
        assert_eq!(of("elap,defacct"), Ok(vec![("Elapsed", 10, false), ("Def Acct", 10, false)]));
        assert_eq!(of("jobid%70000"), Ok(vec![("JobID", 12, true)]), "wider than can be formatted");
        assert_eq!(of("jobid,nosuch"), Err("nosuch".to_owned()));
        assert_eq!(of("ALL").map(|all| all.len()), Ok(FIELDS.len()));
    }

    #[test]
    fn lines_are_aligned_or_delimited() {
        let columns = columns(FIELDS, "jobid%-6,account%4").unwrap();
        let rows = [("1", "ann"), ("2", "physics")];
        let printed = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let parsed = getopt::parse(OPTIONS, &words, Order::Anywhere).unwrap();
            let value =
                |row: &(&str, &str), field: &str| if field == "JobID" { row.0 } else { row.1 }.to_owned();
            lines(&columns, &rows, &parsed, value)
        };
        assert_eq!(printed(&[]), ["JobID  Acc+ ", "------ ---- ", "1       ann ", "2      phy+ "]);
        assert_eq!(printed(&["-nP"]), ["1|ann", "2|physics"]);
        assert_eq!(printed(&["-p", "--delimiter=;"]), ["JobID;Account;", "1;ann;", "2;physics;"]);
    }
}
