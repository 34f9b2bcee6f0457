//! `wharf audit`: who has done what.

use serde::Serialize;
use wharf_client::unix_s;
use wharf_proto::access_client::AccessClient;
use wharf_proto::{AuditEntry, ReadAuditRequest};

use super::connect::{refused, with_connection};
use crate::args::{AuditArgs, OutputFormat, ResultArg};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// An entry as JSON.
#[derive(Serialize)]
struct Row {
    time_s: f64,
    user: String,
    role: String,
    token: String,
    address: String,
    action: String,
    objects: Vec<String>,
    result: String,
    detail: String,
    suppressed: u32,
}

impl From<AuditEntry> for Row {
    fn from(entry: AuditEntry) -> Self {
        Self {
            time_s: entry.time_s,
            user: entry.user,
            role: entry.role,
            token: entry.token,
            address: entry.address,
            action: entry.action,
            objects: entry.objects,
            result: entry.result,
            detail: entry.detail,
            suppressed: entry.suppressed,
        }
    }
}

/// Shows the entries that match.
pub(in crate::commands) fn audit(args: &AuditArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let now_s = unix_s();
    let result = args.result.map(|result| match result {
        ResultArg::Ok => "ok",
        ResultArg::Refused => "refused",
        ResultArg::Failed => "failed",
    });
    let request = ReadAuditRequest {
        user: args.user.clone().unwrap_or_default(),
        action: args.action.clone().unwrap_or_default(),
        result: result.unwrap_or_default().to_owned(),
        job_id: args.job,
        since_s: args.since.map(|moment| moment.unix_s(now_s)),
        until_s: args.until.map(|moment| moment.unix_s(now_s)),
        most: args.limit,
    };
    let reply = with_connection(&args.home, async |connection| {
        let mut client = AccessClient::new(connection).max_decoding_message_size(REPLY_BYTES_MAX);
        Ok(client.read_audit(request).await.map_err(refused)?.into_inner())
    })?;
    if reply.has_more {
        terminal.note(&format!("the latest {} entries; `--limit` shows more", args.limit));
    }
    let rows: Vec<Row> = reply.entries.into_iter().map(Row::from).collect();
    if terminal.format == OutputFormat::Json {
        terminal.json(&serde_json::json!({ "schema": 1, "entries": rows, "has_more": reply.has_more }))?;
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new(["time", "user", "token", "address", "action", "objects", "result", "detail"]);
    for row in &rows {
        let mut detail = row.detail.clone();
        if row.suppressed > 0 {
            detail += &format!(" (and {} more before)", row.suppressed);
        }
        let (time, objects) = (moment(row.time_s), row.objects.join(", "));
        grid.push([&time, &row.user, &row.token, &row.address, &row.action, &objects, &row.result, &detail]);
    }
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}

/// The largest reply: as many entries as the head returns at most.
const REPLY_BYTES_MAX: usize = 1 << 28;

/// A moment in the local time zone.
fn moment(time_s: f64) -> String {
    let time = jiff::Timestamp::from_microsecond((time_s * 1e6) as i64).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}
