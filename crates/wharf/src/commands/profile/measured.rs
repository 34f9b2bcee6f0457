//! `wharf profile show --measured`.

use std::path::Path;

use serde_json::json;
use wharf_profile::database;
use wharf_profile::measured::Measured;

use crate::args::{OutputFormat, ProfileFilterArgs};
use crate::error::{CliError, translate};
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Shows single measurements.
pub(super) fn show(path: &Path, filter: &ProfileFilterArgs, terminal: &Terminal) -> Result<(), CliError> {
    let mut rows = database::measurements(path).map_err(|error| translate::profile(&error))?;
    let is = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    rows.retain(|one| {
        is(&filter.model, &one.subject.model)
            && is(&filter.device_type, &one.subject.device_type)
            && filter.devices.is_none_or(|devices| devices == one.subject.devices)
    });
    if terminal.format == OutputFormat::Json {
        let rows: Vec<_> = rows.iter().map(document).collect();
        return terminal.json(&json!({ "schema": 1, "measured": rows }));
    }
    let mut grid =
        Grid::new(["what", "which", "type", "devices", "ms", "times", "GFLOP/s", "rounds", "recorded"]);
    for Measured { subject, seconds, rounds, times, flop, recorded, .. } in &rows {
        let rate = if *flop > 0.0 { format!("{:.2}", flop / seconds / 1e9) } else { String::new() };
        grid.push([
            subject.kind.as_str(),
            &subject.key,
            &subject.device_type,
            &subject.devices.to_string(),
            &format!("{:.4}", seconds * 1e3),
            &times.to_string(),
            &rate,
            &rounds.to_string(),
            recorded,
        ]);
    }
    terminal.grid(&grid)
}

fn document(one: &Measured) -> serde_json::Value {
    json!({
        "kind": one.subject.kind,
        "key": one.subject.key,
        "model": one.subject.model,
        "device_type": one.subject.device_type,
        "devices": one.subject.devices,
        "seconds": one.seconds,
        "rounds": one.rounds,
        "times": one.times,
        "flop": one.flop,
        "bytes": one.bytes,
        "is_product": one.is_product,
        "machine": one.machine,
        "versions": one.versions,
        "recorded": one.recorded,
    })
}
