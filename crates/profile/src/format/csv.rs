//! Wharf's own CSV: a row per entry; or a table of prices, a row per device type.

use std::io::Write;

use csv::{Reader, ReaderBuilder, Writer};
use serde::Deserialize;

use super::row::{RowText, check_price};
use crate::error::ProfileError;
use crate::records::{Price, Records};

/// Columns without which a row states nothing.
const NEEDED: [&str; 4] = ["model", "device_type", "devices", "iterations_per_s"];

/// The columns of prices.
const PRICES: [&str; 2] = ["device_type", "price_per_h"];

#[derive(Deserialize)]
struct PriceRow {
    device_type: String,
    price_per_h: f64,
    #[serde(default)]
    source: String,
}

/// Whether a header is that of entries or of prices.
pub(super) fn is_ours(header: &str) -> bool {
    let columns: Vec<&str> = header.split(',').map(str::trim).collect();
    let has = |names: &[&str]| names.iter().all(|name| columns.contains(name));
    has(&NEEDED) || has(&PRICES)
}

/// Reads entries or prices; `path` is for messages.
pub(crate) fn parse(text: &str, path: &str) -> Result<Records, ProfileError> {
    let mut reader =
        ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let source = path.rsplit('/').next().unwrap_or(path).to_owned();
    let headers = reader.headers().map_err(|error| wrong(path, 1, error.to_string()))?;
    let is_prices = headers.iter().any(|name| name == PRICES[1]);
    if is_prices { prices(&mut reader, path, &source) } else { entries(&mut reader, path, &source) }
}

fn entries(reader: &mut Reader<&[u8]>, path: &str, source: &str) -> Result<Records, ProfileError> {
    let mut records = Records::default();
    for (index, row) in reader.deserialize::<RowText>().enumerate() {
        let line = index + 2;
        let row = row.map_err(|error| wrong(path, line, told(&error)))?;
        let (key, facts) = row.entry(source).map_err(|problem| wrong(path, line, problem.to_string()))?;
        if records.get(&key).is_some() {
            let problem = format!("`{}` occurs twice with the same keys", key.workload.label());
            return Err(wrong(path, line, problem));
        }
        records.insert(key, facts);
    }
    Ok(records)
}

fn prices(reader: &mut Reader<&[u8]>, path: &str, source: &str) -> Result<Records, ProfileError> {
    let mut records = Records::default();
    for (index, row) in reader.deserialize::<PriceRow>().enumerate() {
        let line = index + 2;
        let PriceRow { device_type, price_per_h: per_hour, source: own } =
            row.map_err(|error| wrong(path, line, told(&error)))?;
        check_price(per_hour).map_err(|problem| wrong(path, line, format!("price_per_h: {problem}")))?;
        let source = if own.is_empty() { source.to_owned() } else { own };
        records.set_price(&device_type, Price { per_hour, source });
    }
    Ok(records)
}

/// An error without the line that the message names already.
pub(super) fn told(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} columns where the header has {expected_len}")
        }
        _ => error.to_string(),
    }
}

/// What is wrong with a line.
pub(super) fn wrong(path: &str, line: usize, problem: String) -> ProfileError {
    ProfileError::Entry { path: path.to_owned(), field: format!("line {line}"), problem }
}

/// Writes all entries. Prices have a table of their own: [`write_prices`].
///
/// # Errors
/// Where `out` does not take it.
pub fn write_csv(records: &Records, out: &mut dyn Write) -> std::io::Result<()> {
    let mut writer = Writer::from_writer(out);
    for (key, facts) in records.entries() {
        writer.serialize(RowText::new(key, facts)).map_err(std::io::Error::other)?;
    }
    if records.entries().len() == 0 {
        writer.write_record(NEEDED).map_err(std::io::Error::other)?;
    }
    writer.flush()
}

/// Writes all prices.
///
/// # Errors
/// Where `out` does not take it.
pub fn write_prices(records: &Records, out: &mut dyn Write) -> std::io::Result<()> {
    let mut writer = Writer::from_writer(out);
    writer.write_record(["device_type", "price_per_h", "source"]).map_err(std::io::Error::other)?;
    for (name, price) in records.prices() {
        let per_hour = price.per_hour.to_string();
        writer.write_record([name, per_hour.as_str(), &price.source]).map_err(std::io::Error::other)?;
    }
    writer.flush()
}
