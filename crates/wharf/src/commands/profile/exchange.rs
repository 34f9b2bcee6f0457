//! `wharf profile import`, `wharf profile export`.

use std::path::Path;

use serde_json::json;
use wharf_profile::{Changes, Records, database, write_csv, write_json, write_prices};

use super::{changed_documents, filter, note_tallies, read, tally_document};
use crate::args::{OutputFormat, ProfileExportArgs, ProfileImportArgs, ProfileKindArg};
use crate::error::{CliError, ErrorKind, translate};
use crate::input::is_standard;
use crate::output::Terminal;
use crate::output::grid::Grid;
use wharf_staging::StagedFile;

/// Takes tables into a database, and states what was new.
pub(super) fn import(args: &ProfileImportArgs, terminal: &Terminal) -> Result<(), CliError> {
    let mut records = Records::default();
    for file in &args.files {
        let mut more = read(file, terminal)?;
        if let Some(source) = &args.source {
            more.set_source(source);
        }
        let replaced = records.add(more).changed.len();
        if replaced > 0 {
            terminal.warn(&format!("`{}` replaces {replaced} entries of files before it", file.display()));
        }
    }
    records.date(&wharf_profiler::now());
    let changes = if args.dry_run { foreseen(&args.into, &records)? } else { put(&args.into, &records)? };
    show(&args.into, args.dry_run, &changes, terminal)
}

pub(super) fn foreseen(path: &Path, records: &Records) -> Result<Changes, CliError> {
    let known = match path.exists() {
        true => database::read(path).map_err(|error| translate::profile(&error))?,
        false => Records::default(),
    };
    Ok(known.changes_to(records).of_addition())
}

/// Adds to a database at once, or makes a whole one that then appears.
pub(super) fn put(path: &Path, records: &Records) -> Result<Changes, CliError> {
    let add = |path: &Path| database::add(path, records).map_err(|error| translate::profile(&error));
    if path.exists() {
        return add(path);
    }
    let staged = StagedFile::create(path)?;
    let changes = add(staged.path())?;
    staged.commit()?;
    Ok(changes)
}

/// States what adding to a database has changed, or would.
pub(super) fn show(
    into: &Path,
    is_dry_run: bool,
    changes: &Changes,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let Changes { new, changed, equal, prices, .. } = changes;
    if terminal.format == OutputFormat::Json {
        let changed = changed_documents(changed);
        return terminal.json(&json!({
            "schema": 1,
            "profile": into.to_string_lossy(),
            "is_dry_run": is_dry_run,
            "new": new.len(),
            "equal": equal,
            "changed": changed,
            "prices": prices.iter().map(|name| &**name).collect::<Vec<_>>(),
            "cells": tally_document(&changes.cells),
            "comm": tally_document(&changes.comm),
        }));
    }
    let mut grid = Grid::new(["new", "changed", "equal", "prices"]);
    grid.push([
        &new.len().to_string(),
        &changed.len().to_string(),
        &equal.to_string(),
        &prices.len().to_string(),
    ]);
    terminal.grid(&grid)?;
    note_tallies(changes, terminal);
    if is_dry_run {
        terminal.note(&format!("`{}` is unchanged", into.display()));
    }
    Ok(())
}

/// Writes a profile.
pub(super) fn export(args: &ProfileExportArgs, terminal: &Terminal) -> Result<(), CliError> {
    let mut records = read(&args.profile, terminal)?;
    let kind = args.to.unwrap_or_else(|| by_ending(&args.target));
    if kind == ProfileKindArg::Csv {
        records.unfold();
    }
    filter(&mut records, &args.filter);
    let target = &args.target;
    if kind == ProfileKindArg::Csv && records.prices().len() > 0 {
        terminal.detail("export prices with `--to prices`");
    }
    if is_standard(target) {
        if kind == ProfileKindArg::Db {
            return Err(
                CliError::usage("a database cannot be written to standard output").hint("name a file")
            );
        }
        return terminal.stream(|out| write(&records, kind, out).map_err(CliError::stdout));
    }
    if target.exists() && !args.force {
        let message = format!("`{}` already exists", target.display());
        return Err(CliError::new(ErrorKind::Output, message)
            .hint("`--force` writes over it; `wharf profile import` adds to a database"));
    }
    let mut file = StagedFile::create(target)?;
    if kind == ProfileKindArg::Db {
        database::add(file.path(), &records).map_err(|error| translate::profile(&error))?;
    } else {
        write(&records, kind, &mut file).map_err(|error| CliError::write(target, error))?;
    }
    file.commit()?;
    terminal.detail(&format!("{} entries written", records.entries().len()));
    Ok(())
}

fn by_ending(path: &Path) -> ProfileKindArg {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => ProfileKindArg::Json,
        Some("db" | "sqlite") => ProfileKindArg::Db,
        _ => ProfileKindArg::Csv,
    }
}

fn write(records: &Records, kind: ProfileKindArg, out: &mut dyn std::io::Write) -> std::io::Result<()> {
    match kind {
        ProfileKindArg::Json => write_json(records, out),
        ProfileKindArg::Prices => write_prices(records, out),
        ProfileKindArg::Csv | ProfileKindArg::Db => write_csv(records, out),
    }
}
