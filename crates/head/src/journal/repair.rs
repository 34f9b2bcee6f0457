//! A damaged journal is copied up to its last whole event, and kept beside the copy.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::replay::{Entries, Position, base};
use super::{ACCEPTED, CLUSTER, FILE_IDENTITY, INCARNATIONS, JournalError, LIMITS, POLICY, schema};

/// Puts a whole journal instead of a damaged one. Returns where the damaged one is now.
pub(super) fn repair(path: &Path, now_unix_s: f64) -> Result<PathBuf, JournalError> {
    let file = |path: &Path| {
        let path = path.to_owned();
        move |source| JournalError::File { path, source }
    };
    let copy_path = path.with_extension("repaired");
    if copy_path.exists() {
        std::fs::remove_file(&copy_path).map_err(file(&copy_path))?;
    }
    let old =
        open_damaged(path).map_err(|source| JournalError::Database { path: path.to_owned(), source })?;
    let copy = schema::open(&copy_path, now_unix_s)?.connection;
    copy_whole(&old, &copy, path)?;
    drop(old);
    drop(copy);
    let damaged = path.with_extension(format!("damaged-{}", now_unix_s as u64));
    std::fs::rename(path, &damaged).map_err(file(path))?;
    for suffix in ["-wal", "-shm"] {
        let beside = |base: &Path| {
            let mut name = base.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        if beside(path).exists() {
            std::fs::rename(beside(path), beside(&damaged)).map_err(file(path))?;
        }
    }
    std::fs::rename(&copy_path, path).map_err(file(&copy_path))?;
    Ok(damaged)
}

/// Opens a file whose length or tables may not be what its first page says.
fn open_damaged(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    // SQLite refuses to check a file that is too short, unless it is informed that one knows.
    connection.execute_batch("PRAGMA writable_schema = ON")?;
    Ok(connection)
}

/// Copies what can be read and trusted. What SQLite cannot read is where it ends.
fn copy_whole(old: &Connection, copy: &Connection, path: &Path) -> Result<(), JournalError> {
    let writing = |source| JournalError::Database { path: path.with_extension("repaired"), source };
    let ruined = |what| JournalError::Ruined { path: path.to_owned(), what };
    let epoch: f64 = schema::meta(old, "epoch_unix_s")
        .ok()
        .flatten()
        .ok_or_else(|| ruined("when it began cannot be read"))?;
    copy.execute_batch("BEGIN").map_err(writing)?;
    schema::set_meta(copy, "epoch_unix_s", epoch).map_err(writing)?;
    let start = base(old).map_err(|_| ruined("where its events begin cannot be read"))?;
    schema::set_meta(copy, "base_sequence", start.sequence).map_err(writing)?;
    schema::set_meta(copy, "base_sum", start.sum.cast_signed()).map_err(writing)?;
    // Older journals have none; then it is not known what was the case where the events begin.
    if let Ok(Some(books)) = schema::meta::<String>(old, "books") {
        schema::set_meta(copy, "books", books).map_err(writing)?;
    }
    if let Ok(Some(base_s)) = schema::meta::<f64>(old, "base_time_s") {
        schema::set_meta(copy, "base_time_s", base_s).map_err(writing)?;
    }
    // The identity is that of the damaged file, so that the copy counts as one.
    for key in [FILE_IDENTITY, CLUSTER] {
        if let Ok(Some(text)) = schema::meta::<String>(old, key) {
            schema::set_meta(copy, key, text).map_err(writing)?;
        }
    }
    let last = copy_events(old, copy, start).map_err(writing)?;
    // A snapshot that is ahead of the events that are left cannot be used, nor one that is itself damaged: then all
    // events have to be there.
    let snapshot: i64 = schema::meta(old, "snapshot_sequence").ok().flatten().unwrap_or(0);
    if snapshot > 0 && snapshot <= last.sequence && copy_snapshot(old, copy).map_err(writing)? {
        schema::set_meta(copy, "snapshot_sequence", snapshot).map_err(writing)?;
        for key in [POLICY, LIMITS, ACCEPTED, INCARNATIONS] {
            if let Some(text) = schema::meta::<String>(old, key).ok().flatten() {
                schema::set_meta(copy, key, text).map_err(writing)?;
            }
        }
    } else if start.sequence > 0 {
        return Err(ruined("its snapshot cannot be read and the events before it are gone"));
    } else {
        copy.execute_batch("DELETE FROM snapshot_nodes; DELETE FROM snapshot_jobs").map_err(writing)?;
    }
    copy.execute_batch("COMMIT").map_err(writing)
}

fn copy_events(old: &Connection, copy: &Connection, start: Position) -> rusqlite::Result<Position> {
    let mut insert = copy.prepare("INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    let mut last = start;
    let Ok(mut query) = old.prepare(Entries::QUERY) else { return Ok(last) };
    let Ok(rows) = query.query([]) else { return Ok(last) };
    let mut entries = Entries::new(rows, start);
    while let Ok(Ok(Some(entry))) = entries.next() {
        last = entry.position;
        let sum = last.sum.cast_signed();
        insert.execute(params![last.sequence, entry.time_s, entry.job, entry.text, entry.spec, sum])?;
    }
    Ok(last)
}

/// Copies the snapshot and returns whether all of it could be read.
fn copy_snapshot(old: &Connection, copy: &Connection) -> rusqlite::Result<bool> {
    let mut insert = copy.prepare("INSERT INTO snapshot_nodes VALUES (?1, ?2)")?;
    let Ok(mut query) = old.prepare("SELECT node, image FROM snapshot_nodes") else { return Ok(false) };
    let Ok(mut rows) = query.query([]) else { return Ok(false) };
    loop {
        let row: rusqlite::Result<Option<(i64, String)>> =
            rows.next().and_then(|row| row.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose());
        match row {
            Ok(Some((node, image))) => insert.execute(params![node, image])?,
            Ok(None) => break,
            Err(_) => return Ok(false),
        };
    }
    let mut insert = copy.prepare("INSERT INTO snapshot_jobs VALUES (?1, ?2, ?3)")?;
    let Ok(mut query) = old.prepare("SELECT job, image, spec FROM snapshot_jobs") else { return Ok(false) };
    let Ok(mut rows) = query.query([]) else { return Ok(false) };
    loop {
        type Columns = (i64, String, Option<Vec<u8>>);
        let row: rusqlite::Result<Option<Columns>> = rows
            .next()
            .and_then(|row| row.map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).transpose());
        match row {
            Ok(Some((job, image, spec))) => insert.execute(params![job, image, spec])?,
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        };
    }
}
