//! An image of everything, which spares the next start the events before it.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension as _, Transaction, params};
use wharf_core::{JobId, NodeId, State};

use super::image::{HeadState, JobImageRecord, NodeImageRecord};
use super::{ACCEPTED, INCARNATIONS, LIMITS, POLICY, reader, schema};

/// Writes images of all nodes and of the jobs that changed.
pub(super) fn write_images(
    transaction: &Transaction<'_>,
    state: &State,
    head_state: &HeadState,
    jobs: &BTreeSet<u32>,
) -> rusqlite::Result<()> {
    let to_text = |error: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
    let mut insert = transaction.prepare("INSERT OR REPLACE INTO snapshot_nodes VALUES (?1, ?2)")?;
    for index in 0..state.topology().nodes().len() {
        let image = NodeImageRecord::of(&state.node_image(NodeId::from_index(index)));
        let node = index as u32;
        let image = image.noted(head_state.node_reasons.get(&node), head_state.left.get(&node).copied());
        insert.execute(params![index as i64, serde_json::to_string(&image).map_err(to_text)?])?;
    }
    let mut insert = transaction.prepare(
        "INSERT OR REPLACE INTO snapshot_jobs (job, image, spec) VALUES (?1, ?2, COALESCE(
           (SELECT spec FROM events WHERE job = ?1 AND spec IS NOT NULL),
           (SELECT spec FROM snapshot_jobs WHERE job = ?1)))",
    )?;
    for &job in jobs {
        let image = JobImageRecord::of(&state.job_image(JobId(job)), job, head_state);
        insert.execute(params![job, serde_json::to_string(&image).map_err(to_text)?])?;
    }
    Ok(())
}

/// Writes what is known beside nodes and jobs.
pub(super) fn write_facts(transaction: &Transaction<'_>, head_state: &HeadState) -> rusqlite::Result<()> {
    let write = |key, text: serde_json::Result<String>| {
        let text = text.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        schema::set_meta(transaction, key, text)
    };
    if let Some(choice) = &head_state.policy {
        write(POLICY, serde_json::to_string(choice))?;
    }
    if let Some(limits) = &head_state.limits {
        write(LIMITS, serde_json::to_string(limits))?;
    }
    write(ACCEPTED, serde_json::to_string(&head_state.accepted))?;
    write(INCARNATIONS, serde_json::to_string(&head_state.incarnations))
}

/// Drops events that a snapshot covers and that are older than the retention time.
pub(super) fn prune(transaction: &Transaction<'_>, sequence: i64, before_s: f64) -> rusqlite::Result<()> {
    let last: Option<(i64, i64)> = transaction
        .query_row(
            "SELECT sequence, sum FROM events WHERE sequence <= ?1 AND time < ?2 ORDER BY sequence DESC LIMIT 1",
            params![sequence, before_s],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((last, sum)) = last else { return Ok(()) };
    // Usage is computed from the remaining events and needs the state before them.
    let books = reader::books_until(transaction, last)?;
    schema::set_meta(transaction, "books", books)?;
    let base_s: f64 =
        transaction
            .query_row("SELECT time FROM events WHERE sequence = ?1", params![last], |row| row.get(0))?;
    schema::set_meta(transaction, "base_time_s", base_s)?;
    schema::set_meta(transaction, "base_sequence", last)?;
    schema::set_meta(transaction, "base_sum", sum)?;
    transaction.execute("DELETE FROM events WHERE sequence <= ?1", params![last])?;
    Ok(())
}
