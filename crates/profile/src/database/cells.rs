//! Exact cells in the database.

use rusqlite::{Connection, params};
use wharf_perf::Workload;
use wharf_perf::cells::Cells;

use crate::format::exact::{CellsText, DeviceText, FamilyText, MemoryText, TimeText};

pub(super) const TABLE: &str = "cell_time";

pub(super) const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS cell_time (
    model TEXT NOT NULL,
    batch_size INTEGER NOT NULL,
    device_type TEXT NOT NULL,
    hosts INTEGER NOT NULL,
    per_host INTEGER NOT NULL,
    time_s REAL NOT NULL,
    PRIMARY KEY (model, batch_size, device_type, hosts, per_host)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cell_memory (
    model TEXT NOT NULL,
    batch_size INTEGER NOT NULL,
    devices_log2 INTEGER NOT NULL,
    memory_gb REAL NOT NULL,
    PRIMARY KEY (model, batch_size, devices_log2)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cell_device (
    device_type TEXT PRIMARY KEY,
    memory_gb REAL NOT NULL,
    per_node INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cell_family (
    name TEXT PRIMARY KEY,
    sizes TEXT NOT NULL,
    batch_sizes TEXT NOT NULL
) WITHOUT ROWID;
";

/// All cells, in words.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<CellsText> {
    let mut text = CellsText::default();
    let mut statement = connection
        .prepare("SELECT model, batch_size, device_type, hosts, per_host, time_s FROM cell_time")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        text.times.push(TimeText {
            model: row.get(0)?,
            batch_size: batch_size(row.get(1)?),
            device_type: row.get(2)?,
            hosts: row.get(3)?,
            per_host: row.get(4)?,
            time_s: row.get(5)?,
        });
    }
    let mut statement = connection.prepare(
        "SELECT model, batch_size, memory_gb FROM cell_memory ORDER BY model, batch_size, devices_log2",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (model, batch_size, memory_gb): (String, _, f64) =
            (row.get(0)?, batch_size(row.get(1)?), row.get(2)?);
        match text.memory.last_mut() {
            Some(last) if (&last.model, last.batch_size) == (&model, batch_size) => {
                last.memory_gb.push(memory_gb);
            }
            _ => text.memory.push(MemoryText { model, batch_size, memory_gb: vec![memory_gb] }),
        }
    }
    let mut statement = connection.prepare("SELECT device_type, memory_gb, per_node FROM cell_device")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        text.devices.insert(row.get(0)?, DeviceText { memory_gb: row.get(1)?, per_node: row.get(2)? });
    }
    let mut statement = connection.prepare("SELECT name, sizes, batch_sizes FROM cell_family")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let family = FamilyText {
            sizes: list(&row.get::<_, String>(1)?, 1)?,
            batch_sizes: list(&row.get::<_, String>(2)?, 2)?,
        };
        text.families.insert(row.get(0)?, family);
    }
    Ok(text)
}

/// A list that is written as JSON.
fn list<T: serde::de::DeserializeOwned>(text: &str, column: usize) -> rusqlite::Result<Vec<T>> {
    let kind = rusqlite::types::Type::Text;
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, kind, error.into()))
}

/// 0 stands for any batch size.
fn batch_size(number: u32) -> Option<u32> {
    (number > 0).then_some(number)
}

/// Writes all cells over what there is.
pub(super) fn put(connection: &Connection, cells: &Cells) -> rusqlite::Result<()> {
    let number = |workload: &Workload| workload.batch_size.unwrap_or(0);
    let mut insert =
        connection.prepare("INSERT OR REPLACE INTO cell_time VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for (workload, cell, time_s) in cells.times() {
        let (model, batch_size) = (&*workload.model, number(workload));
        insert.execute(params![model, batch_size, &*cell.device_type, cell.hosts, cell.per_host, time_s])?;
    }
    let mut delete = connection.prepare("DELETE FROM cell_memory WHERE model = ?1 AND batch_size = ?2")?;
    let mut insert = connection.prepare("INSERT INTO cell_memory VALUES (?1, ?2, ?3, ?4)")?;
    for (workload, row) in cells.memory() {
        delete.execute(params![&*workload.model, number(workload)])?;
        for (at, memory_gb) in row.iter().enumerate() {
            insert.execute(params![&*workload.model, number(workload), at as i64, memory_gb])?;
        }
    }
    for (name, device) in cells.devices() {
        connection.execute(
            "INSERT OR REPLACE INTO cell_device VALUES (?1, ?2, ?3)",
            params![&**name, device.memory_gb, device.per_node],
        )?;
    }
    for (name, family) in cells.families() {
        let text = FamilyText::new(family);
        let lists = serde_json::to_string(&text.sizes)
            .and_then(|sizes| Ok((sizes, serde_json::to_string(&text.batch_sizes)?)))
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        connection.execute(
            "INSERT OR REPLACE INTO cell_family VALUES (?1, ?2, ?3)",
            params![&**name, lists.0, lists.1],
        )?;
    }
    Ok(())
}
