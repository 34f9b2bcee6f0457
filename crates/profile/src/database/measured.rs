//! Single measurements in the database.

use std::path::Path;

use rusqlite::{Connection, Row, Transaction, params};

use super::{failed, open_to_read};
use crate::error::ProfileError;
use crate::measured::{Measured, Subject};

const TABLE: &str = "measured";

pub(super) const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS measured (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    model TEXT NOT NULL,
    device_type TEXT NOT NULL,
    devices INTEGER NOT NULL,
    seconds REAL NOT NULL,
    rounds INTEGER NOT NULL,
    times INTEGER NOT NULL,
    flop REAL NOT NULL,
    bytes REAL NOT NULL,
    is_product INTEGER NOT NULL,
    machine TEXT NOT NULL,
    versions TEXT NOT NULL,
    recorded TEXT NOT NULL,
    PRIMARY KEY (kind, key, model, device_type, devices)
) WITHOUT ROWID;
";

/// All single measurements, by subject.
///
/// # Errors
/// As [`super::read`].
pub fn measurements(path: &Path) -> Result<Vec<Measured>, ProfileError> {
    let connection = open_to_read(path)?;
    // Databases of earlier versions have no such table.
    if !connection.table_exists(None, TABLE).map_err(failed(path))? {
        return Ok(vec![]);
    }
    read(&connection).map_err(failed(path))
}

fn read(connection: &Connection) -> rusqlite::Result<Vec<Measured>> {
    let mut statement = connection.prepare(
        "SELECT kind, key, model, device_type, devices, seconds, rounds, times, flop, bytes, is_product,
                machine, versions, recorded
         FROM measured ORDER BY kind, model, device_type, devices, key",
    )?;
    let rows = statement.query_map([], one)?;
    rows.collect()
}

fn one(row: &Row<'_>) -> rusqlite::Result<Measured> {
    let subject = Subject {
        kind: row.get(0)?,
        key: row.get(1)?,
        model: row.get(2)?,
        device_type: row.get(3)?,
        devices: row.get(4)?,
    };
    Ok(Measured {
        subject,
        seconds: row.get(5)?,
        rounds: row.get(6)?,
        times: row.get(7)?,
        flop: row.get(8)?,
        bytes: row.get(9)?,
        is_product: row.get(10)?,
        machine: row.get(11)?,
        versions: row.get(12)?,
        recorded: row.get(13)?,
    })
}

/// Notes a measurement instead of what there was.
pub(super) fn put(transaction: &Transaction<'_>, measured: &Measured) -> rusqlite::Result<()> {
    let Measured { subject, seconds, rounds, times, flop, bytes, is_product, .. } = measured;
    let Subject { kind, key, model, device_type, devices } = subject;
    let Measured { machine, versions, recorded, .. } = measured;
    transaction.execute(
        "INSERT OR REPLACE INTO measured VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        params![
            kind, key, model, device_type, devices, seconds, rounds, times, flop, bytes, is_product, machine,
            versions, recorded
        ],
    )?;
    Ok(())
}
