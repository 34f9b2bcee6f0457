//! Crius's table of communication times: a row for each operation, size and set of devices.

use csv::ReaderBuilder;
use serde::Deserialize;
use wharf_planner::comm::{CommTables, Operation, Route};

use super::csv::{told, wrong};
use crate::error::{EntryProblem, ProfileError};
use crate::records::Records;

/// Columns without which a row states nothing.
const NEEDED: [&str; 5] = ["gpu_type", "op", "replica_groups", "num_f32_elements", "time_s"];

/// Most hosts, and most devices on a host.
const COUNT_MAX: u32 = 1 << 20;

/// Longest text of a row.
const TEXT_MAX: usize = 10_000;

/// Most elements: below this all whole numbers are exact.
const ELEMENTS_MAX: u64 = 1 << 53;

#[derive(Deserialize)]
struct Row {
    gpu_type: String,
    num_hosts: u32,
    gpus_per_host: u32,
    #[serde(default)]
    infiniband: u8,
    op: String,
    replica_groups: String,
    num_f32_elements: u64,
    time_s: f64,
}

/// Whether a header is that of such a table.
pub(super) fn is_header(columns: &[&str]) -> bool {
    NEEDED.iter().all(|name| columns.contains(name))
}

/// Reads a table; `path` is for messages.
pub(crate) fn parse(text: &str, path: &str) -> Result<Records, ProfileError> {
    let mut reader = ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let mut comm = CommTables::default();
    for (index, row) in reader.deserialize::<Row>().enumerate() {
        let line = index + 2;
        let row = row.map_err(|error| wrong(path, line, told(&error)))?;
        let operation = Operation::from_name(&row.op).ok_or_else(|| {
            let names = Operation::ALL.map(Operation::name).join(", ");
            wrong(path, line, format!("op: `{}` is none of {names}", row.op))
        })?;
        let route = Route {
            device_type: row.gpu_type.into(),
            hosts: row.num_hosts,
            per_host: row.gpus_per_host,
            is_infiniband: row.infiniband != 0,
            operation,
            groups: row.replica_groups.into(),
        };
        check(&route, row.num_f32_elements, row.time_s)
            .map_err(|problem| wrong(path, line, problem.to_string()))?;
        if comm.insert(route, row.num_f32_elements, row.time_s).is_some() {
            return Err(wrong(path, line, "duplicate row with the same keys".to_owned()));
        }
    }
    let mut records = Records::default();
    records.comm = comm;
    Ok(records)
}

/// Whether a point makes sense.
pub(crate) fn check(route: &Route, elements: u64, seconds: f64) -> Result<(), EntryProblem> {
    let Route { device_type, hosts, per_host, groups, .. } = route;
    if device_type.is_empty() {
        return Err(EntryProblem::field("device type", "a name"));
    }
    if [device_type, groups].iter().any(|text| text.len() > TEXT_MAX || text.chars().any(char::is_control)) {
        return Err(EntryProblem::Expected(format!("at most {TEXT_MAX} characters in one line")));
    }
    if [hosts, per_host].iter().any(|count| !(1..=COUNT_MAX).contains(*count)) {
        return Err(EntryProblem::number(
            "hosts",
            format!("{hosts} x {per_host}"),
            format!("not each from 1 to {COUNT_MAX}"),
        ));
    }
    if !(1..=ELEMENTS_MAX).contains(&elements) {
        return Err(EntryProblem::number("elements", elements, format!("not from 1 to {ELEMENTS_MAX}")));
    }
    let is_time = seconds.is_finite() && seconds >= 0.0;
    if is_time { Ok(()) } else { Err(EntryProblem::number("seconds", seconds, "not 0 or more")) }
}
