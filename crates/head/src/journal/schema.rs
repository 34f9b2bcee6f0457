//! The tables of the journal, and how older versions become the present one.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, ToSql, params};

use super::JournalError;
use super::replay::Position;
use crate::jobs::secrets::private_file;
use crate::journal::record::Record;

/// Raised with every change of the tables or of the records in them; [`migrate`] gains a step then.
pub(super) const VERSION: i64 = 2;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS events (sequence INTEGER PRIMARY KEY, time REAL NOT NULL, job INTEGER,
      record TEXT NOT NULL, spec BLOB, sum INTEGER NOT NULL);
    CREATE INDEX IF NOT EXISTS events_of_job ON events (job) WHERE job IS NOT NULL;
    CREATE INDEX IF NOT EXISTS specs_of_job ON events (job) WHERE spec IS NOT NULL;
    CREATE TABLE IF NOT EXISTS snapshot_nodes (node INTEGER PRIMARY KEY, image TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS snapshot_jobs (job INTEGER PRIMARY KEY, image TEXT NOT NULL, spec BLOB);";

/// An open journal.
pub(super) struct Opened {
    pub(super) connection: Connection,
    /// Why it can only be read; `None`: it can be written.
    pub(super) read_only: Option<rusqlite::Error>,
}

/// Opens a journal for one head alone, brings it up to the present version, or makes it. Where there is no space for SQLite's own
/// files it is opened for reading.
pub(super) fn open(path: &Path, now_unix_s: f64) -> Result<Opened, JournalError> {
    let database = |source: rusqlite::Error| match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            JournalError::InUse { path: path.to_owned() }
        }
        Some(ErrorCode::NotADatabase) => {
            JournalError::Ruined { path: path.to_owned(), what: "its first page is no journal's" }
        }
        _ => JournalError::Database { path: path.to_owned(), source },
    };
    private_file(path).map_err(|source| JournalError::File { path: path.to_owned(), source })?;
    let mut connection = Connection::open(path).map_err(database)?;
    let found = match prepare(&connection).and_then(|()| version(&connection)) {
        Err(error) if is_without_space(&error) => {
            drop(connection);
            return match open_alone(path) {
                Ok(connection) => Ok(Opened { connection, read_only: Some(error) }),
                Err(_) => Err(database(error)),
            };
        }
        found => found.map_err(database)?,
    };
    match found {
        None => create(&connection, now_unix_s).map_err(database)?,
        Some(VERSION) => {}
        Some(found) if found < VERSION => migrate(&mut connection).map_err(database)?,
        Some(found) => return Err(JournalError::Version { path: path.to_owned(), found }),
    }
    Ok(Opened { connection, read_only: None })
}

/// Whether SQLite had no space for a file. It states this in several ways.
fn is_without_space(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen)
    )
}

/// Opens a journal of the present version without any file beside it. No other connection can be made meanwhile.
fn open_alone(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "locking_mode", "exclusive")?;
    let found = version(&connection)?;
    found.filter(|found| *found == VERSION).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    Ok(connection)
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::ZERO)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // Durable, not only consistent: a reply means that the disk has it.
    connection.pragma_update(None, "synchronous", "full")?;
    Ok(())
}

fn version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let has_meta: bool = connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'meta')",
        [],
        |row| row.get(0),
    )?;
    if has_meta { meta(connection, "version") } else { Ok(None) }
}

fn create(connection: &Connection, now_unix_s: f64) -> rusqlite::Result<()> {
    connection.execute_batch(&format!("BEGIN; {TABLES}"))?;
    set_meta(connection, "version", VERSION)?;
    set_meta(connection, "epoch_unix_s", now_unix_s)?;
    connection.execute_batch("COMMIT")
}

/// From version 1, which had no sums, no index and no snapshots, and kept specs in a table of their own.
fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(&format!("ALTER TABLE events RENAME TO old_events; {TABLES}"))?;
    {
        let mut old = transaction.prepare("SELECT time, record FROM old_events ORDER BY sequence")?;
        let mut spec_of = transaction.prepare("SELECT spec FROM specs WHERE job = ?1")?;
        let mut insert = transaction.prepare("INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
        let mut rows = old.query([])?;
        let mut position = Position::default();
        while let Some(row) = rows.next()? {
            let (time, text): (f64, String) = (row.get(0)?, row.get(1)?);
            let record: Record = serde_json::from_str(&text).map_err(|error| {
                rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, error.into())
            })?;
            let job = record.jobs().next();
            let spec: Option<Vec<u8>> = match record {
                Record::JobSubmitted { job, .. } => {
                    spec_of.query_row(params![job], |row| row.get(0)).optional()?
                }
                _ => None,
            };
            position = position.next(time, &text, spec.as_deref());
            let sum = position.sum.cast_signed();
            insert.execute(params![position.sequence, time, job, text, spec, sum])?;
        }
    }
    transaction.execute_batch("DROP TABLE old_events; DROP TABLE specs;")?;
    set_meta(&transaction, "version", VERSION)?;
    transaction.commit()
}

/// A fact about the whole journal.
pub(super) fn meta<T: rusqlite::types::FromSql>(
    connection: &Connection,
    key: &str,
) -> rusqlite::Result<Option<T>> {
    connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0)).optional()
}

pub(super) fn set_meta(connection: &Connection, key: &str, value: impl ToSql) -> rusqlite::Result<()> {
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?1, ?2)", params![key, value]).map(drop)
}
