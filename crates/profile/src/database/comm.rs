//! Communication times in the database.

use rusqlite::{Connection, Row, params};
use wharf_perf::comm::{CommTables, Operation, Route};

use crate::format::comm::check;

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

/// All times.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<CommTables> {
    let mut tables = CommTables::default();
    let mut statement = connection.prepare(
        "SELECT device_type, hosts, per_host, is_infiniband, operation, replica_groups, elements, seconds FROM comm",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (route, elements, seconds) = point(row)?;
        let odd = |problem: String| {
            let kind = rusqlite::types::Type::Real;
            rusqlite::Error::FromSqlConversionFailure(7, kind, format!("communication: {problem}").into())
        };
        check(&route, elements, seconds).map_err(odd)?;
        tables.insert(route, elements, seconds);
    }
    Ok(tables)
}

fn point(row: &Row<'_>) -> rusqlite::Result<(Route, u64, f64)> {
    let name: String = row.get(4)?;
    let unknown = || {
        let problem = format!("`{name}` is no operation that is known");
        rusqlite::Error::FromSqlConversionFailure(4, rusqlite::types::Type::Text, problem.into())
    };
    let route = Route {
        device_type: row.get::<_, String>(0)?.into(),
        hosts: row.get(1)?,
        per_host: row.get(2)?,
        is_infiniband: row.get(3)?,
        operation: Operation::from_name(&name).ok_or_else(unknown)?,
        groups: row.get::<_, String>(5)?.into(),
    };
    // Less than nothing is refused as nothing is.
    let elements = u64::try_from(row.get::<_, i64>(6)?).unwrap_or(0);
    Ok((route, elements, row.get(7)?))
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
