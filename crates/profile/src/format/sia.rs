//! Sia's tables: the time of a step by placement and samples per device, a folder for each application.
//!
//! `placements-TYPE.csv` writes a placement as the devices on each node (`44`: four on each of two), `scalability-TYPE.csv` has
//! numbers of nodes and of replicas. The model is the folder's name, the batch size is samples per device × devices. A gang is
//! packed that lies on as few nodes as the largest share of a node in the file allows; of several placements that are alike in
//! that, the mean time counts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use csv::{ReaderBuilder, StringRecord};
use wharf_perf::{Locality, Place, Workload};

use crate::error::{EntryProblem, ProfileError};
use crate::records::{Facts, Key, Records};

/// Whether a file has the name of one of Sia's tables; its device type.
fn device_type(path: &Path) -> Option<&str> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".csv")?;
    stem.strip_prefix("placements-").or_else(|| stem.strip_prefix("scalability-"))
}

/// Whether a file has the name of one of Sia's tables.
pub(crate) fn is_table(path: &Path) -> bool {
    device_type(path).is_some_and(|name| !name.is_empty())
}

/// Whether a header is that of one of Sia's tables.
pub(super) fn is_header(header: &str) -> bool {
    let columns: Vec<&str> = header.split(',').map(str::trim).collect();
    let has = |names: &[&str]| names.iter().all(|name| columns.contains(name));
    has(&["local_bsz", "step_time"]) && (has(&["placement"]) || has(&["num_nodes", "num_replicas"]))
}

/// A row: nodes, the largest share of one, devices, samples per device, seconds of a step.
struct Step {
    nodes: u32,
    largest: u32,
    devices: u32,
    batch_size: u32,
    step_s: f64,
}

/// Reads a table.
pub(crate) fn parse(text: &str, path: &Path) -> Result<Records, ProfileError> {
    let shown = path.display().to_string();
    let folder = path.parent().and_then(|folder| folder.file_name()).and_then(|name| name.to_str());
    let (Some(model), Some(device_type)) = (folder, device_type(path)) else {
        let problem = "a table of Sia's that is in no folder named after its model";
        return Err(ProfileError::Foreign { path: shown, problem });
    };
    let mut reader = ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let headers = reader.headers().cloned().unwrap_or_default();
    let mut steps = Vec::new();
    for (index, row) in reader.records().enumerate() {
        let read = |row: StringRecord| step(&headers, &row).map_err(|problem| problem.to_string());
        let step = row.map_err(|error| error.to_string()).and_then(read);
        let wrong = |problem| ProfileError::Entry {
            path: shown.clone(),
            field: format!("line {}", index + 2),
            problem,
        };
        steps.push(step.map_err(wrong)?);
    }
    let source = format!("{model}/{}", path.file_name().unwrap_or_default().to_string_lossy());
    Ok(records(&steps, model, device_type, &source))
}

fn records(steps: &[Step], model: &str, device_type: &str, source: &str) -> Records {
    let node_devices = steps.iter().map(|step| step.largest).max().unwrap_or(1);
    let (model, device_type): (Arc<str>, Arc<str>) = (model.into(), device_type.into());
    let mut times: BTreeMap<(u32, u32, Locality), Vec<f64>> = BTreeMap::new();
    for step in steps {
        let is_packed = step.nodes <= step.devices.div_ceil(node_devices);
        let locality = if is_packed { Locality::Packed } else { Locality::Spread };
        let Some(batch_size) = step.batch_size.checked_mul(step.devices) else { continue };
        times.entry((batch_size, step.devices, locality)).or_default().push(step.step_s);
    }
    let mut records = Records::default();
    for ((batch_size, devices, locality), times_s) in times {
        let mean_s = times_s.iter().sum::<f64>() / times_s.len() as f64;
        let key = Key {
            workload: Workload { model: model.clone(), batch_size: Some(batch_size) },
            place: Place { device_type: device_type.clone(), devices, locality },
            plan: String::new(),
            beside: vec![],
        };
        let facts = Facts {
            iterations_per_s: 1.0 / mean_s,
            memory_mib: None,
            is_estimate: false,
            source: source.to_owned(),
            recorded: String::new(),
        };
        records.insert(key, facts);
    }
    records
}

fn step(headers: &StringRecord, row: &StringRecord) -> Result<Step, EntryProblem> {
    let text = |name: &str| {
        let column = headers.iter().position(|header| header == name);
        column.and_then(|column| row.get(column))
    };
    let count = |name: &str| {
        let found = text(name).unwrap_or_default();
        // Some tables write whole numbers as `20.0`.
        let whole = found.strip_suffix(".0").unwrap_or(found);
        let number = whole.parse::<u32>().ok().filter(|number| *number > 0);
        number.ok_or_else(|| EntryProblem::word(name, found, "not a number above 0"))
    };
    let step_text = text("step_time").unwrap_or_default();
    let step_s = step_text.parse::<f64>().ok().filter(|time| time.is_finite() && *time > 0.0);
    let step_s = step_s.ok_or_else(|| EntryProblem::word("step_time", step_text, "not seconds above 0"))?;
    let batch_size = count("local_bsz")?;
    if let Some(placement) = text("placement").map(|text| text.strip_suffix(".0").unwrap_or(text)) {
        let shares: Option<Vec<u32>> = placement.chars().map(|digit| digit.to_digit(10)).collect();
        let shares = shares.filter(|shares| !shares.is_empty() && !shares.contains(&0));
        let shares =
            shares.ok_or_else(|| EntryProblem::word("placement", placement, "not a digit for each node"))?;
        let largest = shares.iter().copied().max().unwrap_or(1);
        return Ok(Step {
            nodes: shares.len() as u32,
            largest,
            devices: shares.iter().sum(),
            batch_size,
            step_s,
        });
    }
    let (nodes, devices) = (count("num_nodes")?, count("num_replicas")?);
    Ok(Step { nodes, largest: devices.div_ceil(nodes), devices, batch_size, step_s })
}
