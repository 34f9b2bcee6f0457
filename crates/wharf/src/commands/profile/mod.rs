//! `wharf profile`: import, export, show, query, diff.

mod diff;
mod exchange;
mod query;
mod show;

use std::path::Path;

use serde_json::{Value, json};
use wharf_profile::records::locality_name;
use wharf_profile::{Facts, Key, Records};

use crate::args::{ProfileCommand, ProfileFilterArgs};
use crate::error::{CliError, translate};
use crate::exit::Exit;
use crate::output::Terminal;

/// Does what the arguments say.
///
/// # Errors
/// Whatever is wrong with the input or the output.
pub(super) fn execute(command: &ProfileCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    match command {
        ProfileCommand::Import(args) => exchange::import(args, terminal)?,
        ProfileCommand::Export(args) => exchange::export(args, terminal)?,
        ProfileCommand::Show(args) => show::show(args, terminal)?,
        ProfileCommand::Query(args) => query::query(args, terminal)?,
        ProfileCommand::Diff(args) => diff::diff(args, terminal)?,
    }
    Ok(Exit::Ok)
}

/// Everything in a profile; what is odd about it is told.
fn read(path: &Path, terminal: &Terminal) -> Result<Records, CliError> {
    let read = wharf_profile::read(path).map_err(|error| translate::profile(&error))?;
    read.notes.iter().for_each(|note| terminal.warn(note));
    Ok(read.records)
}

/// Keeps the entries that were asked for.
fn filter(records: &mut Records, wanted: &ProfileFilterArgs) {
    let is = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    records.retain(|key, _| {
        is(&wanted.model, &key.workload.model)
            && is(&wanted.device_type, &key.place.device_type)
            && wanted.devices.is_none_or(|devices| devices == key.place.devices)
    });
}

/// Whether an entry was measured.
fn how(facts: &Facts) -> &'static str {
    if facts.is_estimate { "estimated" } else { "measured" }
}

/// Neighbours in words.
fn beside(key: &Key) -> String {
    key.beside.iter().map(wharf_perf::Workload::label).collect::<Vec<_>>().join(" + ")
}

/// A speed for people.
fn number(value: f64) -> String {
    if value == 0.0 || value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.4}") }
}

/// What an entry is about.
fn key_document(key: &Key) -> Value {
    json!({
        "model": &*key.workload.model,
        "batch_size": key.workload.batch_size,
        "device_type": &*key.place.device_type,
        "devices": key.place.devices,
        "locality": locality_name(key.place.locality),
        "plan": key.plan,
        "beside": key.beside.iter().map(wharf_perf::Workload::label).collect::<Vec<_>>(),
    })
}
