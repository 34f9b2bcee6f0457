//! The tables of the metric store.
//!
//! A job's curve is made of the points of all its runs. A point is visible where no later run has a point at the same or a lower step:
//! work that was lost and done again counts once. Of the tasks of a run, the one with the lowest rank counts.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};
use wharf_curve::{NAMES_MAX, POINTS_MAX, Point, Refused, STEP_MAX, Segment, shown};
use wharf_proto::{JobMetrics, MetricPoints, RefusedMetrics};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS runs (job INTEGER NOT NULL, run INTEGER NOT NULL, rank INTEGER NOT NULL, lowest INTEGER NOT NULL,
      PRIMARY KEY (job, run)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS curves (id INTEGER PRIMARY KEY, job INTEGER NOT NULL, name TEXT NOT NULL, stride INTEGER NOT NULL,
      count INTEGER NOT NULL, step INTEGER, time REAL, value REAL, run INTEGER, UNIQUE (job, name));
    CREATE INDEX IF NOT EXISTS curves_by_time ON curves (time);
    CREATE TABLE IF NOT EXISTS points (curve INTEGER NOT NULL, step INTEGER NOT NULL, time REAL NOT NULL, value REAL,
      run INTEGER NOT NULL, PRIMARY KEY (curve, step)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS refused (job INTEGER PRIMARY KEY, points INTEGER NOT NULL, example TEXT NOT NULL);";

/// Points of a task that a worker has sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Batch {
    pub(crate) job: u32,
    pub(crate) run: u32,
    pub(crate) rank: u32,
    pub(crate) points: Vec<(String, Segment)>,
    pub(crate) refused: Option<Refused>,
}

impl Batch {
    /// How many points it has.
    pub(crate) fn count(&self) -> usize {
        self.points.iter().map(|(_, segment)| segment.points.len()).sum()
    }
}

/// Opens the store, or makes it.
pub(super) fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(1))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // A commit survives the end of the process; what a power cut takes is sent again by workers whose tasks run.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.execute_batch(TABLES)?;
    Ok(connection)
}

/// The state of a curve, beside its points.
struct CurveRow {
    id: i64,
    stride: i64,
    /// Points in the table.
    count: i64,
    /// The last point of all, with its run; it may not be in the table.
    last: Option<(Point, u32)>,
}

/// Adds a batch to the tables.
pub(super) fn add(connection: &Connection, batch: &Batch) -> rusqlite::Result<()> {
    let lowest = batch.points.iter().flat_map(|(_, segment)| &segment.points).map(|point| point.step).min();
    let mut refused = batch.refused.clone().unwrap_or_default();
    if let Some(lowest) = lowest
        && begin_run(connection, batch, lowest)?
    {
        for (name, segment) in &batch.points {
            match curve(connection, batch.job, name)? {
                Some(curve) => extend(connection, batch, curve, segment)?,
                None => {
                    refused.points += segment.points.len() as u64;
                    if refused.example.is_empty() {
                        refused.example = shown(name);
                    }
                }
            }
        }
    }
    if refused.points > 0 {
        let mut upsert = connection.prepare_cached(
            "INSERT INTO refused VALUES (?1, ?2, ?3) ON CONFLICT (job) DO UPDATE SET points = MAX(points, excluded.points)",
        )?;
        upsert.execute(params![batch.job, refused.points as i64, refused.example])?;
    }
    Ok(())
}

/// Notes that a run reports from a step on, and drops points that it replaces. Returns whether its points count.
fn begin_run(connection: &Connection, batch: &Batch, lowest: u64) -> rusqlite::Result<bool> {
    let Batch { job, run, rank, .. } = *batch;
    let lowest = lowest as i64;
    let known: Option<(u32, i64)> = connection
        .prepare_cached("SELECT rank, lowest FROM runs WHERE job = ?1 AND run = ?2")?
        .query_row(params![job, run], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let is_lower = match known {
        Some((known, _)) if known < rank => return Ok(false),
        Some((known, _)) if known > rank => {
            // Another task of the run has reported before the one that counts.
            drop_points(connection, job, (run.into(), run.into()), 0)?;
            true
        }
        Some((_, known)) => lowest < known,
        None => true,
    };
    if is_lower {
        connection
            .prepare_cached("INSERT OR REPLACE INTO runs VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![job, run, rank, lowest])?;
        drop_points(connection, job, (0, i64::from(run) - 1), lowest)?;
    }
    Ok(true)
}

/// Drops the points of the first to the last of a job's runs from a step on. What is left of each curve is counted again.
fn drop_points(
    connection: &Connection,
    job: u32,
    (first, last): (i64, i64),
    from: i64,
) -> rusqlite::Result<()> {
    let mut curves = connection.prepare_cached("SELECT id FROM curves WHERE job = ?1")?;
    let ids = curves.query_map([job], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    for id in ids {
        let gone = connection
            .prepare_cached("DELETE FROM points WHERE curve = ?1 AND step >= ?4 AND run BETWEEN ?2 AND ?3")?
            .execute(params![id, first, last, from])?;
        let latest = connection
            .prepare_cached(
                "UPDATE curves SET step = NULL WHERE id = ?1 AND step >= ?4 AND run BETWEEN ?2 AND ?3",
            )?
            .execute(params![id, first, last, from])?;
        if gone > 0 || latest > 0 {
            recount(connection, id)?;
        }
    }
    Ok(())
}

/// Counts the points of a curve, and finds its last one where that is not known.
fn recount(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE curves SET count = (SELECT COUNT(*) FROM points WHERE curve = ?1) WHERE id = ?1",
        )?
        .execute([id])?;
    connection
        .prepare_cached(
            "UPDATE curves SET (step, time, value, run) =
               (SELECT step, time, value, run FROM points WHERE curve = ?1 ORDER BY step DESC LIMIT 1)
             WHERE id = ?1 AND step IS NULL",
        )?
        .execute([id])?;
    Ok(())
}

/// The curve of a metric; `None` where the job has too many.
fn curve(connection: &Connection, job: u32, name: &str) -> rusqlite::Result<Option<CurveRow>> {
    let mut select = connection.prepare_cached(
        "SELECT id, stride, count, step, time, value, run FROM curves WHERE job = ?1 AND name = ?2",
    )?;
    let known = select.query_row(params![job, name], |row| {
        let step: Option<i64> = row.get(3)?;
        let last = match step {
            Some(step) => Some((point(row, step, 4)?, row.get(6)?)),
            None => None,
        };
        Ok(CurveRow { id: row.get(0)?, stride: row.get(1)?, count: row.get(2)?, last })
    });
    if let Some(known) = known.optional()? {
        return Ok(Some(known));
    }
    let mut count = connection.prepare_cached("SELECT COUNT(*) FROM curves WHERE job = ?1")?;
    let names: i64 = count.query_row([job], |row| row.get(0))?;
    if names >= NAMES_MAX as i64 || wharf_curve::check_name(name).is_err() {
        return Ok(None);
    }
    connection
        .prepare_cached("INSERT INTO curves (job, name, stride, count) VALUES (?1, ?2, 1, 0)")?
        .execute(params![job, name])?;
    Ok(Some(CurveRow { id: connection.last_insert_rowid(), stride: 1, count: 0, last: None }))
}

/// A point from a row with its time and value from a column on. NaN is NULL there.
fn point(row: &rusqlite::Row<'_>, step: i64, column: usize) -> rusqlite::Result<Point> {
    let value: Option<f64> = row.get(column + 1)?;
    Ok(Point { step: step.cast_unsigned(), time_s: row.get(column)?, value: value.unwrap_or(f64::NAN) })
}

/// Adds points to a curve.
fn extend(
    connection: &Connection,
    batch: &Batch,
    mut curve: CurveRow,
    segment: &Segment,
) -> rusqlite::Result<()> {
    let stride = segment.stride.clamp(1, STEP_MAX).next_power_of_two() as i64;
    if stride > curve.stride {
        widen(connection, &mut curve, stride)?;
    }
    let replaced: Option<i64> = connection
        .prepare_cached("SELECT MIN(lowest) FROM runs WHERE job = ?1 AND run > ?2")?
        .query_row(params![batch.job, batch.run], |row| row.get(0))?;
    let is_visible = |point: &&Point| replaced.is_none_or(|from| (point.step as i64) < from);
    for point in segment.points.iter().filter(|point| point.is_valid()).filter(is_visible) {
        let key = (point.step, batch.run, point.time_s);
        if curve.last.is_none_or(|(last, run)| key > (last.step, run, last.time_s)) {
            curve.last = Some((*point, batch.run));
        }
        insert(connection, &mut curve, batch.run, point)?;
        while curve.count > POINTS_MAX as i64 {
            let stride = 2 * curve.stride;
            widen(connection, &mut curve, stride)?;
        }
    }
    let (last, run) = curve.last.map_or((None, None), |(last, run)| (Some(last), Some(run)));
    connection
        .prepare_cached(
            "UPDATE curves SET stride = ?2, count = ?3, step = ?4, time = ?5, value = ?6, run = ?7 WHERE id = ?1",
        )?
        .execute(params![
            curve.id,
            curve.stride,
            curve.count,
            last.map(|last| last.step.cast_signed()),
            last.map(|last| last.time_s),
            last.map(|last| last.value),
            run,
        ])?;
    Ok(())
}

/// Puts a point into its bucket, where it is the first of it.
fn insert(connection: &Connection, curve: &mut CurveRow, run: u32, point: &Point) -> rusqlite::Result<()> {
    let step = point.step as i64;
    let begin = step - step % curve.stride;
    let known: Option<(i64, f64, u32)> = connection
        .prepare_cached(
            "SELECT step, time, run FROM points WHERE curve = ?1 AND step >= ?2 AND step < ?3 ORDER BY step LIMIT 1",
        )?
        .query_row(params![curve.id, begin, begin + curve.stride], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    match known {
        Some((known, time_s, known_run)) => {
            let is_later = (known_run, time_s) < (run, point.time_s);
            if known < step || known == step && !is_later {
                return Ok(());
            }
            connection
                .prepare_cached("DELETE FROM points WHERE curve = ?1 AND step = ?2")?
                .execute(params![curve.id, known])?;
        }
        None => curve.count += 1,
    }
    connection.prepare_cached("INSERT INTO points VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(params![
        curve.id,
        step,
        point.time_s,
        point.value,
        run
    ])?;
    Ok(())
}

/// Makes the buckets of a curve wider: each keeps its first point.
fn widen(connection: &Connection, curve: &mut CurveRow, stride: i64) -> rusqlite::Result<()> {
    curve.stride = stride;
    connection
        .prepare_cached(
            "DELETE FROM points WHERE curve = ?1 AND step NOT IN
               (SELECT MIN(step) FROM points WHERE curve = ?1 GROUP BY step / ?2)",
        )?
        .execute(params![curve.id, stride])?;
    curve.count = connection
        .prepare_cached("SELECT COUNT(*) FROM points WHERE curve = ?1")?
        .query_row([curve.id], |row| row.get(0))?;
    Ok(())
}

/// The stored metrics of a job, those of the names that are asked for, or all.
pub(super) fn read(connection: &Connection, job: u32, names: &[String]) -> rusqlite::Result<JobMetrics> {
    let mut curves = connection.prepare_cached(
        "SELECT id, name, stride, step, time, value, run FROM curves WHERE job = ?1 ORDER BY name",
    )?;
    let mut points = connection
        .prepare_cached("SELECT step, time, value, run FROM points WHERE curve = ?1 ORDER BY step")?;
    let mut metrics = Vec::new();
    let mut rows = curves.query([job])?;
    while let Some(row) = rows.next()? {
        let (id, name): (i64, String) = (row.get(0)?, row.get(1)?);
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        let stride: i64 = row.get(2)?;
        let mut metric = MetricPoints { name, stride: stride.cast_unsigned(), ..MetricPoints::default() };
        let push = |metric: &mut MetricPoints, point: Point, run: u32| {
            metric.step.push(point.step);
            metric.time_s.push(point.time_s);
            metric.value.push(point.value);
            metric.run.push(run);
        };
        let mut found = points.query([id])?;
        while let Some(row) = found.next()? {
            push(&mut metric, point(row, row.get(0)?, 1)?, row.get(3)?);
        }
        if let Some(step) = row.get::<_, Option<i64>>(3)?
            && metric.step.last().is_none_or(|last| *last < step.cast_unsigned())
        {
            push(&mut metric, point(row, step, 4)?, row.get(6)?);
        }
        if !metric.step.is_empty() {
            metrics.push(metric);
        }
    }
    let refused = connection
        .prepare_cached("SELECT points, example FROM refused WHERE job = ?1")?
        .query_row([job], |row| {
            let points: i64 = row.get(0)?;
            Ok(RefusedMetrics { points: points.cast_unsigned(), example: row.get(1)? })
        })
        .optional()?;
    Ok(JobMetrics { job_id: job, metrics, refused })
}

/// Removes jobs whose last points are older than a time. Returns how many.
pub(super) fn remove_before(connection: &Connection, unix_s: f64) -> rusqlite::Result<usize> {
    let mut old = connection.prepare_cached("SELECT job FROM curves GROUP BY job HAVING MAX(time) < ?1")?;
    let jobs = old.query_map([unix_s], |row| row.get(0))?.collect::<rusqlite::Result<Vec<u32>>>()?;
    jobs.iter().try_for_each(|job| remove(connection, *job))?;
    Ok(jobs.len())
}

/// Removes the jobs whose last points are the oldest.
pub(super) fn remove_oldest(connection: &Connection, count: u32) -> rusqlite::Result<usize> {
    let mut old =
        connection.prepare_cached("SELECT job FROM curves GROUP BY job ORDER BY MAX(time) LIMIT ?1")?;
    let jobs = old.query_map([count], |row| row.get(0))?.collect::<rusqlite::Result<Vec<u32>>>()?;
    jobs.iter().try_for_each(|job| remove(connection, *job))?;
    Ok(jobs.len())
}

fn remove(connection: &Connection, job: u32) -> rusqlite::Result<()> {
    for statement in [
        "DELETE FROM points WHERE curve IN (SELECT id FROM curves WHERE job = ?1)",
        "DELETE FROM curves WHERE job = ?1",
        "DELETE FROM runs WHERE job = ?1",
        "DELETE FROM refused WHERE job = ?1",
    ] {
        connection.prepare_cached(statement)?.execute([job])?;
    }
    Ok(())
}

/// Bytes of the file that are in use.
pub(super) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let (pages, free, size) = (number("page_count")?, number("freelist_count")?, number("page_size")?);
    Ok(((pages - free) * size).cast_unsigned())
}
