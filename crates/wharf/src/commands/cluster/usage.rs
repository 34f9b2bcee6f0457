//! `wharf usage`: who used what.

use std::collections::BTreeMap;

use serde::Serialize;
use wharf_client::unix_s;
use wharf_proto::usage_request::By;
use wharf_proto::{UsageReply, UsageRequest, UsageRow};

use super::connect::with;
use crate::args::{OutputFormat, UsageArgs, UsageBy};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// A row as JSON.
#[derive(Serialize)]
struct Row {
    key: String,
    allocated_h: f64,
    running_h: f64,
    starting_h: f64,
    stopping_h: f64,
    /// Of the running hours: idle, unwatched, repeated work.
    idle_h: f64,
    unwatched_h: f64,
    lost_h: f64,
    /// Of jobs, not of devices.
    waiting_h: f64,
    held_h: f64,
    submitted: u32,
    finished: u32,
    failed: u32,
    cancelled: u32,
    timed_out: u32,
    interrupted: BTreeMap<&'static str, u32>,
}

impl From<UsageRow> for Row {
    fn from(row: UsageRow) -> Self {
        Self {
            interrupted: row.interrupted.iter().map(|one| (one.cause().word(), one.count)).collect(),
            key: row.key,
            allocated_h: row.allocated_h,
            running_h: row.running_h,
            starting_h: row.starting_h,
            stopping_h: row.stopping_h,
            idle_h: row.idle_h,
            unwatched_h: row.unwatched_h,
            lost_h: row.lost_h,
            waiting_h: row.waiting_h,
            held_h: row.held_h,
            submitted: row.submitted,
            finished: row.finished,
            failed: row.failed,
            cancelled: row.cancelled,
            timed_out: row.timed_out,
        }
    }
}

/// Shows who used what.
pub(in crate::commands) fn usage(args: &UsageArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let now_s = unix_s();
    let (by, title) = match args.by {
        UsageBy::User => (By::User, "user"),
        UsageBy::Account => (By::Account, "account"),
        UsageBy::Pool => (By::Pool, "pool"),
        UsageBy::Type => (By::Type, "type"),
        UsageBy::Job => (By::Job, "job"),
        UsageBy::Cause => (By::Cause, "cause"),
    };
    let request = UsageRequest {
        since_s: args.since.map(|moment| moment.unix_s(now_s)),
        until_s: args.until.map(|moment| moment.unix_s(now_s)),
        by: by.into(),
    };
    let reply = with(&args.home, async |client| Ok(client.usage(request).await?))?;
    let known_from_s = (reply.known_from_s > 0.0).then_some(reply.known_from_s);
    if let Some(from_s) =
        known_from_s.filter(|from_s| request.since_s.is_none_or(|since_s| since_s < *from_s))
    {
        terminal.warn(&format!("older events were dropped: the figures begin at {}", moment(from_s)));
    }
    let terminal = &terminal.with_csv(args.csv);
    if terminal.format == OutputFormat::Json {
        let UsageReply { rows, total, since_s, until_s, .. } = reply;
        let rows: Vec<Row> = rows.into_iter().map(Row::from).collect();
        let total = total.map(Row::from);
        terminal.json(&serde_json::json!({
            "schema": 1, "by": title, "since_s": since_s, "until_s": until_s, "known_from_s": known_from_s,
            "rows": rows, "total": total,
        }))?;
        return Ok(Exit::Ok);
    }
    let is_exact = terminal.format != OutputFormat::Table;
    // A total among the rows would be counted twice when rows are added up.
    let rows = reply.rows.into_iter().chain(reply.total.filter(|_| !is_exact)).map(Row::from);
    let grid = grid(title, rows, is_exact);
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}

fn grid(title: &'static str, rows: impl Iterator<Item = Row>, is_exact: bool) -> Grid<16> {
    let mut grid = Grid::new([
        title,
        "allocated h",
        "running h",
        "starting h",
        "stopping h",
        "idle h",
        "unwatched h",
        "lost h",
        "waiting h",
        "held h",
        "jobs",
        "finished",
        "failed",
        "cancelled",
        "timed out",
        "interrupted",
    ]);
    let hours = |hours: f64| if is_exact { hours.to_string() } else { format!("{hours:.2}") };
    for row in rows {
        let causes: Vec<String> =
            row.interrupted.iter().map(|(cause, count)| format!("{count} × {cause}")).collect();
        let cells = [
            row.key,
            hours(row.allocated_h),
            hours(row.running_h),
            hours(row.starting_h),
            hours(row.stopping_h),
            hours(row.idle_h),
            hours(row.unwatched_h),
            hours(row.lost_h),
            hours(row.waiting_h),
            hours(row.held_h),
            row.submitted.to_string(),
            row.finished.to_string(),
            row.failed.to_string(),
            row.cancelled.to_string(),
            row.timed_out.to_string(),
            causes.join(", "),
        ];
        grid.push(cells.each_ref().map(String::as_str));
    }
    grid
}

/// A time in the reader's time zone.
fn moment(unix_s: f64) -> String {
    let timestamp = jiff::Timestamp::from_second(unix_s as i64);
    timestamp.map_or_else(
        |_| format!("@{unix_s:.0}"),
        |at| at.to_zoned(jiff::tz::TimeZone::system()).strftime("%F %T").to_string(),
    )
}
