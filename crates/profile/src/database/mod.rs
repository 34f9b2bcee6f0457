//! The database: one SQLite file.
//!
//! It has room for what is to come (stages), and tables that this version does not know are left alone.

mod cells;
mod comm;
mod measured;

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Row, Transaction, params};
use wharf_perf::{Place, Workload};

use crate::Scope;
use crate::error::{EntryProblem, ProfileError};
use crate::format::exact::CurveText;
use crate::format::row::{self, RowText};
use crate::measured::Measured;
use crate::records::{Changes, Facts, Key, Price, Records, locality, locality_name};

pub use measured::measurements;

/// What every SQLite file begins with.
pub(crate) const MAGIC: &[u8] = b"SQLite format 3\0";

/// Marks the file as ours.
const APPLICATION_ID: i64 = 0x5748_5046;

/// The version of the schema.
const VERSION: i64 = 1;

/// Time limit for a concurrent writer.
const PATIENCE: Duration = Duration::from_secs(10);

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS entry (
    model TEXT NOT NULL,
    batch_size INTEGER,
    device_type TEXT NOT NULL,
    devices INTEGER NOT NULL,
    locality TEXT NOT NULL,
    plan TEXT NOT NULL DEFAULT '',
    beside TEXT NOT NULL DEFAULT '',
    iterations_per_s REAL NOT NULL,
    memory_mib REAL,
    stages TEXT,
    is_estimate INTEGER NOT NULL,
    source TEXT NOT NULL,
    recorded TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX IF NOT EXISTS entry_key
    ON entry (model, ifnull(batch_size, -1), device_type, devices, locality, plan, beside);
CREATE TABLE IF NOT EXISTS price (
    device_type TEXT PRIMARY KEY,
    per_hour REAL NOT NULL,
    source TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS note (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
";

/// Reads a database.
///
/// # Errors
/// If it is corrupt, foreign, or of a later version; or an entry is invalid.
pub fn read(path: &Path) -> Result<Records, ProfileError> {
    read_scope(path, Scope::Everything)
}

pub(crate) fn read_scope(path: &Path, scope: Scope) -> Result<Records, ProfileError> {
    read_all(&open_to_read(path)?, path, scope)
}

fn open_to_read(path: &Path) -> Result<Connection, ProfileError> {
    let failed = failed(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(&failed)?;
    connection.busy_timeout(PATIENCE).map_err(&failed)?;
    check_owner(&connection, path)?;
    Ok(connection)
}

/// Adds records to a database, which is made where there is none, and states what that changed. All or nothing.
///
/// # Errors
/// As [`read`], and where it cannot be written.
pub fn add(path: &Path, records: &Records) -> Result<Changes, ProfileError> {
    add_measured(path, records, &[])
}

/// As [`add`], with the single measurements that the records come from.
///
/// # Errors
/// As [`add`].
pub fn add_measured(path: &Path, records: &Records, measured: &[Measured]) -> Result<Changes, ProfileError> {
    let failed = failed(path);
    let is_new = std::fs::metadata(path).map_or(true, |metadata| metadata.len() == 0);
    let mut connection = Connection::open(path).map_err(&failed)?;
    connection.busy_timeout(PATIENCE).map_err(&failed)?;
    if !is_new {
        check_owner(&connection, path)?;
    }
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(&failed)?;
    transaction.execute_batch(SCHEMA).map_err(&failed)?;
    transaction.execute_batch(cells::SCHEMA).map_err(&failed)?;
    transaction.execute_batch(comm::SCHEMA).map_err(&failed)?;
    transaction.execute_batch(measured::SCHEMA).map_err(&failed)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(&failed)?;
    transaction.pragma_update(None, "user_version", VERSION).map_err(&failed)?;
    let scope = if records.comm.is_empty() { Scope::Runs } else { Scope::Everything };
    let changes = read_all(&transaction, path, scope)?.changes_to(records);
    put(&transaction, &changes, records).map_err(&failed)?;
    for one in measured {
        measured::put(&transaction, one).map_err(&failed)?;
    }
    transaction.commit().map_err(&failed)?;
    Ok(changes.of_addition())
}

fn failed(path: &Path) -> impl Fn(rusqlite::Error) -> ProfileError {
    let path = path.display().to_string();
    move |source| ProfileError::Database { path: path.clone(), source }
}

fn check_owner(connection: &Connection, path: &Path) -> Result<(), ProfileError> {
    let number = |name: &str| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failed(path))
    };
    let path = path.display().to_string();
    if number("application_id")? != APPLICATION_ID {
        return Err(ProfileError::Foreign { path, problem: "an SQLite database of another program" });
    }
    match number("user_version")? {
        1..=VERSION => Ok(()),
        found => Err(ProfileError::Version { path, found, known: VERSION }),
    }
}

fn read_all(connection: &Connection, path: &Path, scope: Scope) -> Result<Records, ProfileError> {
    let failed = failed(path);
    let odd = |(field, problem): (String, EntryProblem)| ProfileError::Entry {
        path: path.display().to_string(),
        field,
        problem: problem.to_string(),
    };
    let mut records = Records::default();
    let mut statement = connection
        .prepare(
            "SELECT model, batch_size, device_type, devices, locality, plan, beside, iterations_per_s, memory_mib,
                    is_estimate, source, recorded FROM entry",
        )
        .map_err(&failed)?;
    let mut rows = statement.query([]).map_err(&failed)?;
    while let Some(row) = rows.next().map_err(&failed)? {
        let (key, facts) = entry(row).map_err(&failed)?;
        let name = || format!("`{}` on {}", key.workload.label(), key.place.device_type);
        if let Err(problem) = row::check(&key, &facts) {
            return Err(ProfileError::Entry {
                path: path.display().to_string(),
                field: name(),
                problem: problem.to_string(),
            });
        }
        records.insert(key, facts);
    }
    let mut statement =
        connection.prepare("SELECT device_type, per_hour, source FROM price").map_err(&failed)?;
    let mut rows = statement.query([]).map_err(&failed)?;
    while let Some(row) = rows.next().map_err(&failed)? {
        let (name, per_hour, source): (String, f64, String) = row.try_into().map_err(&failed)?;
        if let Err(problem) = row::check_price(per_hour) {
            let field = format!("price of `{name}`");
            return Err(ProfileError::Entry {
                path: path.display().to_string(),
                field,
                problem: problem.to_string(),
            });
        }
        records.set_price(&name, Price { per_hour, source });
    }
    let reference = connection
        .query_row("SELECT value FROM note WHERE key = 'reference'", [], |row| row.get::<_, String>(0));
    records.reference = match reference {
        Ok(name) => Some(name.into()),
        Err(rusqlite::Error::QueryReturnedNoRows) => None,
        Err(error) => return Err(failed(error)),
    };
    // Databases of earlier versions have not all tables.
    if scope == Scope::Everything && connection.table_exists(None, comm::TABLE).map_err(&failed)? {
        records.comm = CurveText::tables(comm::read(connection).map_err(&failed)?).map_err(&odd)?;
    }
    if connection.table_exists(None, cells::TABLE).map_err(&failed)? {
        let cells = cells::read(connection).map_err(&failed)?.cells().map_err(&odd)?;
        records.cells = (!cells.is_empty()).then_some(cells);
    }
    Ok(records)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<(Key, Facts)> {
    let model: String = row.get(0)?;
    let device_type: String = row.get(2)?;
    let locality_text: String = row.get(4)?;
    let unknown = || {
        let problem = format!("`{locality_text}` is neither packed nor spread");
        rusqlite::Error::FromSqlConversionFailure(4, rusqlite::types::Type::Text, problem.into())
    };
    let place = Place {
        device_type: device_type.into(),
        devices: row.get(3)?,
        locality: locality(&locality_text).ok_or_else(unknown)?,
    };
    let key = Key {
        workload: Workload { model: model.into(), batch_size: row.get(1)? },
        place,
        plan: row.get(5)?,
        beside: row::workloads(&row.get::<_, String>(6)?),
    };
    let facts = Facts {
        iterations_per_s: row.get(7)?,
        memory_mib: row.get(8)?,
        is_estimate: row.get(9)?,
        source: row.get(10)?,
        recorded: row.get(11)?,
    };
    Ok((key, facts))
}

/// Writes what is not known yet.
fn put(transaction: &Transaction<'_>, changes: &Changes, records: &Records) -> rusqlite::Result<()> {
    let changed = changes.changed.iter().map(|change| &change.key);
    let mut insert = transaction.prepare(
        "INSERT OR REPLACE INTO entry (model, batch_size, device_type, devices, locality, plan, beside,
             iterations_per_s, memory_mib, is_estimate, source, recorded)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?;
    for key in changes.new.iter().chain(changed) {
        let Some(facts) = records.get(key) else { continue };
        insert.execute(params![
            &*key.workload.model,
            key.workload.batch_size,
            &*key.place.device_type,
            key.place.devices,
            locality_name(key.place.locality),
            key.plan,
            RowText::beside(&key.beside),
            facts.iterations_per_s,
            facts.memory_mib,
            facts.is_estimate,
            facts.source,
            facts.recorded,
        ])?;
    }
    for (name, price) in records.prices() {
        transaction.execute(
            "INSERT OR REPLACE INTO price (device_type, per_hour, source) VALUES (?1, ?2, ?3)",
            params![&**name, price.per_hour, price.source],
        )?;
    }
    if let Some(reference) = &records.reference {
        transaction.execute(
            "INSERT OR REPLACE INTO note (key, value) VALUES ('reference', ?1)",
            params![&**reference],
        )?;
    }
    if let Some(cells) = &records.cells {
        cells::put(transaction, cells)?;
    }
    comm::put(transaction, &records.comm)
}
