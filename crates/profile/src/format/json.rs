//! Wharf's own JSON: everything that a profile knows, in one document.

use std::collections::BTreeMap;
use std::io::Write;

use serde::{Deserialize, Serialize};

use super::exact::{CellsText, CurveText};
use super::row::{RowText, check_price};
use crate::error::{EntryProblem, ProfileError};
use crate::records::{Price, Records};

/// What tells the document from others.
pub(super) const MARK: &str = "wharf-profile";

/// The version of the document.
const SCHEMA: i64 = 1;

#[derive(Serialize, Deserialize)]
struct Document {
    kind: String,
    schema: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    #[serde(default)]
    prices: BTreeMap<String, PriceText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cells: Option<CellsText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    comm: Vec<CurveText>,
    entries: Vec<RowText>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceText {
    per_hour: f64,
    #[serde(default)]
    source: String,
}

/// Reads a document; `path` is for messages.
pub(crate) fn parse(text: &str, path: &str) -> Result<Records, ProfileError> {
    let document: Document = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|source| ProfileError::Unknown { path: path.to_owned(), source: Box::new(source) })?;
    if !(1..=SCHEMA).contains(&document.schema) {
        return Err(ProfileError::Version { path: path.to_owned(), found: document.schema, known: SCHEMA });
    }
    let source = path.rsplit('/').next().unwrap_or(path);
    let wrong =
        |field: String, problem: String| ProfileError::Entry { path: path.to_owned(), field, problem };
    let mut records = Records::default();
    records.reference = document.reference.map(|name| name.into());
    for (index, row) in document.entries.into_iter().enumerate() {
        let field = || format!("entries[{index}]");
        let (key, facts) = row.entry(source).map_err(|problem| wrong(field(), problem.to_string()))?;
        if records.get(&key).is_some() {
            return Err(wrong(field(), "duplicate row with the same keys".to_owned()));
        }
        records.insert(key, facts);
    }
    for (name, price) in document.prices {
        check_price(price.per_hour)
            .map_err(|problem| wrong(format!("prices.{name}"), problem.to_string()))?;
        let source = if price.source.is_empty() { source.to_owned() } else { price.source };
        records.set_price(&name, Price { per_hour: price.per_hour, source });
    }
    let odd = |(field, problem): (String, EntryProblem)| wrong(field, problem.to_string());
    records.cells = document.cells.map(CellsText::cells).transpose().map_err(odd)?;
    records.comm = CurveText::tables(document.comm).map_err(odd)?;
    Ok(records)
}

/// Writes everything.
///
/// # Errors
/// Where `out` does not take it.
pub fn write_json(records: &Records, out: &mut dyn Write) -> std::io::Result<()> {
    let price = |price: &Price| PriceText { per_hour: price.per_hour, source: price.source.clone() };
    let document = Document {
        kind: MARK.to_owned(),
        schema: SCHEMA,
        reference: records.reference.as_ref().map(|name| name.to_string()),
        prices: records.prices().map(|(name, known)| (name.to_string(), price(known))).collect(),
        cells: records.cells.as_ref().map(CellsText::new),
        comm: CurveText::all(&records.comm),
        entries: records.entries().map(|(key, facts)| RowText::new(key, facts)).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}
