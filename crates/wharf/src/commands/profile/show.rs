//! `wharf profile show`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use wharf_profile::records::locality_name;
use wharf_profile::{Facts, Key, Records};

use super::{beside, filter, how, key_document, number, read_unfolded};
use crate::args::{OutputFormat, ProfileShowArgs};
use crate::error::CliError;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Shows an overview, the entries that were asked for, or the prices.
pub(super) fn show(args: &ProfileShowArgs, terminal: &Terminal) -> Result<(), CliError> {
    if args.measured {
        return super::measured::show(&args.profile, &args.filter, terminal);
    }
    let mut records = read_unfolded(&args.profile, terminal)?;
    if args.prices {
        return prices(&records, terminal);
    }
    if args.cells {
        filter(&mut records, &args.filter);
        return super::cells::show(&records, terminal);
    }
    let wanted = &args.filter;
    let is_overview =
        wanted.model.is_none() && wanted.device_type.is_none() && wanted.devices.is_none() && !args.pairs;
    if is_overview && terminal.format != OutputFormat::Json {
        return overview(&records, terminal);
    }
    let models: BTreeSet<String> = records.entries().map(|(key, _)| key.workload.model.to_string()).collect();
    filter(&mut records, wanted);
    if !args.pairs {
        records.retain(|key, _| key.beside.is_empty());
    }
    if records.entries().len() == 0
        && let Some(model) = &wanted.model
        && !models.contains(model)
    {
        return Err(CliError::input(format!("the profile has no model `{model}`"))
            .hint_nearest(model, models.iter().map(String::as_str))
            .hint("`wharf profile show PROFILE` lists the models"));
    }
    entries(&records, terminal)
}

fn prices(records: &Records, terminal: &Terminal) -> Result<(), CliError> {
    if terminal.format == OutputFormat::Json {
        let prices: BTreeMap<&str, f64> =
            records.prices().map(|(name, price)| (&**name, price.per_hour)).collect();
        return terminal.json(&json!({ "schema": 1, "prices": prices }));
    }
    let mut grid = Grid::new(["type", "per hour", "source"]);
    for (name, price) in records.prices() {
        grid.push([name, &price.per_hour.to_string(), &price.source]);
    }
    terminal.grid(&grid)
}

/// What there is of a model.
#[derive(Default)]
struct Extent<'a> {
    batches: BTreeSet<Option<u32>>,
    types: BTreeSet<&'a str>,
    counts: BTreeSet<u32>,
    alone: usize,
    beside: usize,
    measured: usize,
}

fn overview(records: &Records, terminal: &Terminal) -> Result<(), CliError> {
    let mut models: BTreeMap<&str, Extent<'_>> = BTreeMap::new();
    for (key, facts) in records.entries() {
        let extent = models.entry(&key.workload.model).or_default();
        extent.batches.insert(key.workload.batch_size);
        extent.types.insert(&key.place.device_type);
        extent.counts.insert(key.place.devices);
        extent.measured += usize::from(!facts.is_estimate);
        if key.beside.is_empty() {
            extent.alone += 1;
        } else {
            extent.beside += 1;
        }
    }
    let mut grid =
        Grid::new(["model", "batch sizes", "device types", "devices", "alone", "beside", "measured"]);
    for (model, extent) in models {
        let batches: Vec<String> = extent.batches.iter().flatten().map(u32::to_string).collect();
        let counts: Vec<String> = extent.counts.iter().map(u32::to_string).collect();
        grid.push([
            model,
            &shortened(&batches),
            &extent.types.into_iter().collect::<Vec<_>>().join(" "),
            &shortened(&counts),
            &extent.alone.to_string(),
            &extent.beside.to_string(),
            &extent.measured.to_string(),
        ]);
    }
    terminal.grid(&grid)?;
    if terminal.format == OutputFormat::Table {
        terminal.note("see `--model NAME` for the entries of a model, `--prices` for prices");
        if let Some(cells) = &records.cells {
            terminal.note(&format!("`--cells` lists {} times of exact cells", cells.times().count()));
        }
        if !records.comm.is_empty() {
            terminal.note(&format!("`wharf profile comm` shows {} communication times", records.comm.len()));
        }
    }
    Ok(())
}

/// A few of many numbers.
fn shortened(numbers: &[String]) -> String {
    const SHOWN_MAX: usize = 8;
    match numbers {
        [] => "any".to_owned(),
        [first, .., last] if numbers.len() > SHOWN_MAX => format!("{first} to {last} ({})", numbers.len()),
        _ => numbers.join(" "),
    }
}

fn entries(records: &Records, terminal: &Terminal) -> Result<(), CliError> {
    if terminal.format == OutputFormat::Json {
        let entries: Vec<_> = records.entries().map(|(key, facts)| entry_document(key, facts)).collect();
        let reference = records.reference.as_deref();
        return terminal.json(&json!({ "schema": 1, "reference": reference, "entries": entries }));
    }
    let mut grid = Grid::new([
        "model",
        "batch size",
        "type",
        "devices",
        "locality",
        "plan",
        "beside",
        "iterations/s",
        "how",
        "source",
    ]);
    for (key, facts) in records.entries() {
        grid.push([
            &key.workload.model,
            &key.workload.batch_size.map_or_else(String::new, |batch| batch.to_string()),
            &key.place.device_type,
            &key.place.devices.to_string(),
            locality_name(key.place.locality),
            &key.plan,
            &beside(key),
            &number(facts.iterations_per_s),
            how(facts),
            &facts.source,
        ]);
    }
    terminal.grid(&grid)
}

fn entry_document(key: &Key, facts: &Facts) -> serde_json::Value {
    let mut document = key_document(key);
    document["iterations_per_s"] = json!(facts.iterations_per_s);
    document["memory_mib"] = json!(facts.memory_mib);
    document["is_estimate"] = json!(facts.is_estimate);
    document["source"] = json!(facts.source);
    document["recorded"] = json!(facts.recorded);
    document
}
