//! Exact cells in `wharf profile show` and `wharf profile query`.

use serde_json::json;
use wharf_perf::Workload;
use wharf_perf::cells::{Answer, Cell, Cells, Found, Mode};
use wharf_profile::Records;

use super::number;
use crate::args::{OutputFormat, ProfileQueryArgs};
use crate::error::CliError;
use crate::output::Terminal;
use crate::output::grid::Grid;

fn cells(records: &Records) -> Result<&Cells, CliError> {
    records.cells.as_ref().ok_or_else(|| {
        CliError::input("the profile has no exact cells")
            .hint("Crius's folder has them, and a database into which that was imported")
    })
}

/// Lists the times of all cells.
pub(super) fn show(records: &Records, terminal: &Terminal) -> Result<(), CliError> {
    let cells = cells(records)?;
    if terminal.format == OutputFormat::Json {
        return terminal.json(&document(cells));
    }
    let mut grid = Grid::new(["model", "batch size", "type", "hosts", "per host", "s/iteration"]);
    for (workload, cell, time_s) in cells.times() {
        grid.push([
            &workload.model,
            &workload.batch_size.map_or_else(String::new, |batch| batch.to_string()),
            &cell.device_type,
            &cell.hosts.to_string(),
            &cell.per_host.to_string(),
            &if time_s > 0.0 { format!("{time_s:.4}") } else { "does not run".to_owned() },
        ]);
    }
    terminal.grid(&grid)?;
    let (memory, devices) = (cells.memory().count(), cells.devices().count());
    terminal.note(&format!(
        "also kept: memory of data-parallel copies (workloads: {memory}), device types ({devices}); `--output json` has them"
    ));
    Ok(())
}

fn document(cells: &Cells) -> serde_json::Value {
    let times: Vec<_> = cells
        .times()
        .map(|(workload, cell, time_s)| {
            json!({
                "model": &*workload.model,
                "batch_size": workload.batch_size,
                "device_type": &*cell.device_type,
                "hosts": cell.hosts,
                "per_host": cell.per_host,
                "time_s": time_s,
            })
        })
        .collect();
    let memory: Vec<_> = cells
        .memory()
        .map(|(workload, row)| {
            json!({ "model": &*workload.model, "batch_size": workload.batch_size, "memory_gb": row })
        })
        .collect();
    let devices: Vec<_> = cells
        .devices()
        .map(|(name, device)| {
            json!({ "device_type": &**name, "memory_gb": device.memory_gb, "per_node": device.per_node })
        })
        .collect();
    json!({ "schema": 1, "times": times, "memory": memory, "devices": devices })
}

/// What is known of one type.
struct Line<'a> {
    device_type: &'a str,
    answer: Answer,
    found: Option<Found>,
}

impl Line<'_> {
    /// Whose figure it is.
    fn how(&self) -> String {
        match self.found {
            _ if !self.answer.is_feasible => "-".to_owned(),
            Some(Found { halvings: 0, growths: 0, .. }) | None => "this cell".to_owned(),
            Some(Found { growths: 0, .. }) => "the best locality".to_owned(),
            Some(Found { growths, .. }) => {
                format!("a model {growths} size{} larger", if growths == 1 { "" } else { "s" })
            }
        }
    }
}

/// Asks for a workload on so many hosts with so many devices each.
pub(super) fn query(
    args: &ProfileQueryArgs,
    records: &Records,
    types: &[String],
    [hosts, per_host]: [u32; 2],
    terminal: &Terminal,
) -> Result<(), CliError> {
    let cells = cells(records)?;
    let Some(batch_size) = args.batch_size else {
        return Err(CliError::usage("exact cells require `--batch-size`"));
    };
    let workload = Workload { model: args.model.as_str().into(), batch_size: Some(batch_size) };
    let mode = if args.data_parallel { Mode::DataParallel } else { Mode::Best };
    let line = |device_type: &'_ String| {
        let cell = Cell { device_type: device_type.as_str().into(), hosts, per_host };
        let answer = cells.query(mode, args.data_parallel, &workload, &cell);
        (answer, cells.find(&workload, &cell))
    };
    let lines: Vec<Line<'_>> = types
        .iter()
        .map(|device_type| {
            let (answer, found) = line(device_type);
            Line { device_type, answer, found }
        })
        .collect();
    let iteration_s = |answer: Answer| answer.is_feasible.then(|| f64::from(batch_size) / answer.throughput);
    if terminal.format == OutputFormat::Json {
        let answers: Vec<_> = lines
            .iter()
            .map(|line| {
                json!({
                    "device_type": line.device_type,
                    "is_feasible": line.answer.is_feasible,
                    "samples_per_s": line.answer.is_feasible.then_some(line.answer.throughput),
                    "iteration_ms": iteration_s(line.answer).map(|time_s| time_s * 1000.0),
                    "how": line.how(),
                })
            })
            .collect();
        return terminal.json(&json!({
            "schema": 1,
            "model": args.model,
            "batch_size": batch_size,
            "hosts": hosts,
            "per_host": per_host,
            "is_data_parallel": args.data_parallel,
            "answers": answers,
        }));
    }
    let mut grid = Grid::new(["type", "hosts", "per host", "samples/s", "ms/iteration", "by"]);
    for line in &lines {
        let throughput = if line.answer.is_feasible { line.answer.throughput } else { 0.0 };
        grid.push([
            line.device_type,
            &hosts.to_string(),
            &per_host.to_string(),
            &number(throughput),
            &iteration_s(line.answer)
                .map_or_else(|| "does not run".to_owned(), |time_s| format!("{:.2}", time_s * 1000.0)),
            &line.how(),
        ]);
    }
    terminal.grid(&grid)
}
