//! `wharf profile diff`.

use serde_json::json;
use wharf_profile::records::locality_name;

use super::{
    beside, changed_documents, filter, how, key_document, note_tallies, number, read_unfolded, tally_document,
};
use crate::args::{OutputFormat, ProfileDiffArgs};
use crate::error::CliError;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// States how two profiles differ.
pub(super) fn diff(args: &ProfileDiffArgs, terminal: &Terminal) -> Result<(), CliError> {
    let [mut before, mut after] =
        [read_unfolded(&args.before, terminal)?, read_unfolded(&args.after, terminal)?];
    filter(&mut before, &args.filter);
    filter(&mut after, &args.filter);
    let changes = before.changes_to(&after);
    let mean = geometric_mean(changes.changed.iter().filter_map(|change| change.ratio()));
    if terminal.format == OutputFormat::Json {
        let changed = changed_documents(&changes.changed);
        return terminal.json(&json!({
            "schema": 1,
            "equal": changes.equal,
            "mean_ratio": mean,
            "only_before": changes.gone.iter().map(key_document).collect::<Vec<_>>(),
            "only_after": changes.new.iter().map(key_document).collect::<Vec<_>>(),
            "changed": changed,
            "cells": tally_document(&changes.cells),
            "comm": tally_document(&changes.comm),
        }));
    }
    let mut grid = Grid::new([
        "model",
        "batch size",
        "type",
        "devices",
        "locality",
        "beside",
        "before",
        "after",
        "ratio",
        "how",
    ]);
    for change in &changes.changed {
        let key = &change.key;
        grid.push([
            &key.workload.model,
            &key.workload.batch_size.map_or_else(String::new, |batch| batch.to_string()),
            &key.place.device_type,
            &key.place.devices.to_string(),
            locality_name(key.place.locality),
            &beside(key),
            &number(change.before.iterations_per_s),
            &number(change.after.iterations_per_s),
            &change.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
            how(&change.after),
        ]);
    }
    terminal.grid(&grid)?;
    let mean = mean.map_or_else(String::new, |mean| format!(", {mean:.3} times as fast in the mean"));
    terminal.note(&format!(
        "{} changed{mean}; {} equal; {} only in the first, {} only in the second",
        changes.changed.len(),
        changes.equal,
        changes.gone.len(),
        changes.new.len()
    ));
    note_tallies(&changes, terminal);
    Ok(())
}

/// The geometric mean of what is above 0; `None` of nothing.
fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = ratios.filter(|ratio| *ratio > 0.0).map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}
