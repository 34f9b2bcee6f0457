//! `wharf profile`: import, export, show, query, comm, diff, run, capture.

mod capture;
mod cells;
mod comm;
mod diff;
mod exchange;
mod learn;
mod measure;
mod measured;
mod python;
mod query;
mod show;

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use wharf_profile::records::{Change, locality_name};
use wharf_profile::{Changes, Facts, Key, Records, Tally};
use wharf_staging::StagedFile;

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
        ProfileCommand::Comm(args) => comm::comm(args, terminal)?,
        ProfileCommand::Diff(args) => diff::diff(args, terminal)?,
        ProfileCommand::Run(args) => return measure::run(args, terminal),
        ProfileCommand::Capture(args) => capture::capture(args, terminal)?,
        ProfileCommand::Learn(args) => learn::learn(args, terminal)?,
    }
    Ok(Exit::Ok)
}

/// Everything in a profile; what is odd about it is told.
pub(super) fn read(path: &Path, terminal: &Terminal) -> Result<Records, CliError> {
    let read = wharf_profile::read(path).map_err(|error| translate::profile(&error))?;
    read.notes.iter().for_each(|note| terminal.warn(note));
    if !read.left_out.is_empty() {
        let names = read.left_out.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        terminal.note(&format!("skipped in `{}`, not profiles: {names}", path.display()));
    }
    Ok(read.records)
}

/// As [`read`], with an entry for every place that exact cells tell of.
fn read_unfolded(path: &Path, terminal: &Terminal) -> Result<Records, CliError> {
    let mut records = read(path, terminal)?;
    records.unfold();
    Ok(records)
}

/// Writes a document as a file.
fn save(target: &Path, document: &Value) -> Result<(), CliError> {
    let mut file = StagedFile::create(target)?;
    file.write_all(format!("{document:#}\n").as_bytes()).map_err(|error| CliError::write(target, error))?;
    Ok(file.commit()?)
}

/// Keeps the entries that were asked for.
fn filter(records: &mut Records, wanted: &ProfileFilterArgs) {
    let is = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    records.retain(|key, _| {
        is(&wanted.model, &key.workload.model)
            && is(&wanted.device_type, &key.place.device_type)
            && wanted.devices.is_none_or(|devices| devices == key.place.devices)
    });
    let are = |hosts: u32, per_host: u32| {
        wanted.devices.is_none_or(|devices| u64::from(hosts) * u64::from(per_host) == u64::from(devices))
    };
    if let Some(cells) = &mut records.cells {
        cells.retain(
            |workload| is(&wanted.model, &workload.model),
            |cell| are(cell.hosts, cell.per_host),
            |name| is(&wanted.device_type, name),
        );
    }
    records.comm.retain(|route| {
        // They are about no model.
        wanted.model.is_none()
            && is(&wanted.device_type, &route.device_type)
            && are(route.hosts, route.per_host)
    });
}

/// What is new, gone, changed and equal.
fn tally_document(tally: &Tally) -> Value {
    json!({ "new": tally.new, "gone": tally.gone, "changed": tally.changed, "equal": tally.equal })
}

/// States how exact cells and communication times differ, where there are any.
fn note_tallies(changes: &Changes, terminal: &Terminal) {
    for (name, tally) in [("exact cells", &changes.cells), ("communication", &changes.comm)] {
        if !tally.is_empty() {
            let gone = if tally.gone > 0 { format!(", {} gone", tally.gone) } else { String::new() };
            terminal.note(&format!(
                "{name}: {} new, {} changed, {} equal{gone}",
                tally.new, tally.changed, tally.equal
            ));
        }
    }
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

/// Entries that have other speeds than before.
fn changed_documents(changed: &[Change]) -> Vec<Value> {
    let document = |change: &Change| {
        json!({
            "entry": key_document(&change.key),
            "before": change.before.iterations_per_s,
            "after": change.after.iterations_per_s,
            "ratio": change.ratio(),
        })
    };
    changed.iter().map(document).collect()
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
