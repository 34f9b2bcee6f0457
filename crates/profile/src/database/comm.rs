//! Communication times in the database.

use rusqlite::{Connection, params};
use wharf_planner::comm::CommTables;

use crate::format::exact::CurveText;

pub(super) const TABLE: &str = "comm";

pub(super) const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS comm (
    device_type TEXT NOT NULL,
    hosts INTEGER NOT NULL,
    per_host INTEGER NOT NULL,
    is_infiniband INTEGER NOT NULL,
    operation TEXT NOT NULL,
    replica_groups TEXT NOT NULL,
    elements INTEGER NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (device_type, hosts, per_host, is_infiniband, operation, replica_groups, elements)
) WITHOUT ROWID;
";

/// All times, in words.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<Vec<CurveText>> {
    let mut statement = connection.prepare(
        "SELECT device_type, hosts, per_host, is_infiniband, operation, replica_groups, elements, seconds FROM comm
         ORDER BY device_type, hosts, per_host, is_infiniband, operation, replica_groups",
    )?;
    let mut rows = statement.query([])?;
    let mut curves: Vec<CurveText> = Vec::new();
    while let Some(row) = rows.next()? {
        // Fewer than none are refused as none are.
        let point = (u64::try_from(row.get::<_, i64>(6)?).unwrap_or(0), row.get(7)?);
        let curve = CurveText {
            device_type: row.get(0)?,
            hosts: row.get(1)?,
            per_host: row.get(2)?,
            is_infiniband: row.get(3)?,
            operation: row.get(4)?,
            groups: row.get(5)?,
            seconds: vec![point],
        };
        match curves.last_mut() {
            Some(last) if last.is_beside(&curve) => last.seconds.push(point),
            _ => curves.push(curve),
        }
    }
    Ok(curves)
}

/// Writes all times over what there is.
pub(super) fn put(connection: &Connection, tables: &CommTables) -> rusqlite::Result<()> {
    let mut insert =
        connection.prepare("INSERT OR REPLACE INTO comm VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    for (route, curve) in tables.curves() {
        for (elements, seconds) in curve.points() {
            insert.execute(params![
                &*route.device_type,
                route.hosts,
                route.per_host,
                route.is_infiniband,
                route.operation.name(),
                &*route.groups,
                elements as i64,
                seconds,
            ])?;
        }
    }
    Ok(())
}
