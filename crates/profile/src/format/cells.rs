//! Crius's tables as CSV: iteration times of the best plans, times by plan (from its estimator, or measured), and the memory of
//! data-parallel copies. Workloads and places are written as in its database, `moe_690M_256` and `2_a40_2_n_2_d`.

use std::collections::BTreeMap;
use std::sync::Arc;

use csv::{ReaderBuilder, StringRecord};
use wharf_core::Plan;
use wharf_perf::cells::{Cell, Cells};
use wharf_perf::{Locality, Place, Workload, plan_name};

use super::crius;
use super::csv::{told, wrong};
use crate::error::{EntryProblem, ProfileError};
use crate::records::{Facts, Key, Records};

const WORKLOAD: &str = "l1_key";
const CELL: &str = "l2_key";
const TIME: &str = "iter_time_s";
const MEASURED_TIME: &str = "measured_iter_time_s";
const PLAN: [&str; 3] = ["pp", "dp", "mp"];
const DEVICES: &str = "num_gpus";
const MEMORY: &str = "mem_gb";

/// What a table is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// The best time of each cell.
    Best,
    /// Times by plan, made up by a model.
    Estimates,
    /// Times by plan, measured.
    Measured,
    /// The memory of a data-parallel copy.
    Memory,
}

/// The time of a plan in a cell; 0 iterations per second where it does not fit.
struct Planned {
    workload: Workload,
    cell: Cell,
    plan: Plan,
    iterations_per_s: f64,
    source: String,
}

fn subject(columns: &[&str]) -> Option<Subject> {
    let has = |names: &[&str]| names.iter().all(|name| columns.contains(name));
    let has_plan = has(&PLAN);
    match (has(&[WORKLOAD, CELL, TIME]), has_plan) {
        (true, true) => Some(Subject::Estimates),
        (true, false) => Some(Subject::Best),
        (false, true) if has(&[WORKLOAD, CELL, MEASURED_TIME]) => Some(Subject::Measured),
        _ => has(&[WORKLOAD, DEVICES, MEMORY]).then_some(Subject::Memory),
    }
}

/// Whether a header is that of such a table.
pub(super) fn is_header(columns: &[&str]) -> bool {
    subject(columns).is_some()
}

/// Reads a table. `known` states how many devices a node has; where it does not, it is as many as any host of the table has.
pub(crate) fn parse(text: &str, path: &str, known: Option<&Cells>) -> Result<Records, ProfileError> {
    let mut reader = ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| wrong(path, 1, told(&error)))?.clone();
    let columns: Vec<&str> = headers.iter().collect();
    let Some(subject) = subject(&columns) else { return Ok(Records::default()) };
    let mut cells = Cells::default();
    let mut memory: BTreeMap<Workload, BTreeMap<usize, f64>> = BTreeMap::new();
    let mut planned = Vec::new();
    for (index, row) in reader.records().enumerate() {
        let line = index + 2;
        let row = row.map_err(|error| wrong(path, line, told(&error)))?;
        let row = Fields { headers: &headers, row: &row };
        let read = match subject {
            Subject::Best => {
                row.best().map(|(workload, cell, time_s)| cells.insert_time(workload, cell, time_s))
            }
            Subject::Memory => row.memory().map(|(workload, at, memory_gb)| {
                memory.entry(workload).or_default().insert(at, memory_gb);
            }),
            Subject::Estimates => row.planned(TIME).map(|found| planned.extend(found)),
            Subject::Measured => row.planned(MEASURED_TIME).map(|found| planned.extend(found)),
        };
        read.map_err(|problem| wrong(path, line, problem.to_string()))?;
    }
    for (workload, row) in memory {
        cells.set_memory(workload, memory_row(&row));
    }
    let mut records = Records::default();
    let source = path.rsplit('/').next().unwrap_or(path);
    insert(&mut records, planned, subject == Subject::Estimates, source, known);
    records.cells = (!cells.is_empty()).then_some(cells);
    Ok(records)
}

/// Memory on 1, 2, 4 ... devices; what a table leaves out does not fit.
fn memory_row(row: &BTreeMap<usize, f64>) -> Vec<f64> {
    let count = row.last_key_value().map_or(0, |(&last, _)| last + 1);
    (0..count).map(|at| row.get(&at).copied().unwrap_or(-1.0)).collect()
}

/// Notes times by plan. Of cells that lie alike, those with most devices on a host count; of the same entry, the last.
fn insert(
    records: &mut Records,
    mut planned: Vec<Planned>,
    is_estimate: bool,
    source: &str,
    known: Option<&Cells>,
) {
    let mut seen: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    for row in &planned {
        let most = seen.entry(row.cell.device_type.clone()).or_default();
        *most = row.cell.per_host.max(*most);
    }
    planned.sort_by_key(|row| row.cell.per_host);
    for row in planned {
        let Cell { device_type, hosts, per_host } = row.cell;
        let devices = hosts * per_host;
        let told = known.and_then(|cells| cells.device(&device_type)).map(|device| device.per_node);
        let per_node = told.or_else(|| seen.get(&device_type).copied()).unwrap_or(1);
        let is_packed = hosts <= devices.div_ceil(per_node.max(1));
        let locality = if is_packed { Locality::Packed } else { Locality::Spread };
        let key = Key {
            workload: row.workload,
            place: Place { device_type, devices, locality },
            plan: plan_name(row.plan),
            beside: vec![],
        };
        let source = if row.source.is_empty() { source.to_owned() } else { row.source };
        let facts = Facts {
            iterations_per_s: row.iterations_per_s,
            memory_mib: None,
            is_estimate,
            source,
            recorded: String::new(),
        };
        records.insert(key, facts);
    }
}

/// A row with the names of its columns.
struct Fields<'a> {
    headers: &'a StringRecord,
    row: &'a StringRecord,
}

impl Fields<'_> {
    fn text(&self, name: &str) -> &str {
        let column = self.headers.iter().position(|header| header == name);
        column.and_then(|column| self.row.get(column)).unwrap_or_default()
    }

    fn workload(&self) -> Result<Workload, EntryProblem> {
        let text = self.text(WORKLOAD);
        crius::workload(text).ok_or_else(|| EntryProblem::word(WORKLOAD, text, "not FAMILY_SIZE_BATCH"))
    }

    fn cell(&self) -> Result<Cell, EntryProblem> {
        let text = self.text(CELL);
        crius::cell(text).ok_or_else(|| EntryProblem::word(CELL, text, "not HOSTS_TYPE_HOSTS_n_DEVICES_d"))
    }

    fn number(&self, name: &str) -> Result<f64, EntryProblem> {
        let text = self.text(name);
        let number = text.parse::<f64>().ok().filter(|number| !number.is_nan());
        number.ok_or_else(|| EntryProblem::word(name, text, "not a number"))
    }

    fn count(&self, name: &str) -> Result<u32, EntryProblem> {
        let text = self.text(name);
        let count = text.parse().ok().filter(|count| *count > 0);
        count.ok_or_else(|| EntryProblem::word(name, text, "not a number above 0"))
    }

    fn best(&self) -> Result<(Workload, Cell, f64), EntryProblem> {
        let time_s = self.number(TIME)?;
        if !time_s.is_finite() {
            return Err(EntryProblem::word(TIME, &time_s.to_string(), "not seconds, or -1"));
        }
        Ok((self.workload()?, self.cell()?, time_s))
    }

    fn memory(&self) -> Result<(Workload, usize, f64), EntryProblem> {
        let (devices, memory_gb) = (self.count(DEVICES)?, self.number(MEMORY)?);
        if !devices.is_power_of_two() {
            return Err(EntryProblem::number(DEVICES, devices, "not 1, 2, 4, 8 ..."));
        }
        if !(memory_gb.is_finite() && (memory_gb >= 0.0 || memory_gb == -1.0)) {
            return Err(EntryProblem::number(MEMORY, memory_gb, "not 0 or more, or -1"));
        }
        Ok((self.workload()?, devices.trailing_zeros() as usize, memory_gb))
    }

    /// A plan's time; `None` where the row only states that nothing came out.
    fn planned(&self, time: &str) -> Result<Option<Planned>, EntryProblem> {
        let (workload, cell, time_s) = (self.workload()?, self.cell()?, self.number(time)?);
        if PLAN.iter().all(|name| self.text(name).is_empty()) {
            return Ok(None);
        }
        let [stages, data, tensor] = PLAN.map(|name| self.count(name));
        let plan = Plan { stages: stages?, data: data?, tensor: tensor? };
        let product = plan.stages.checked_mul(plan.data).and_then(|some| some.checked_mul(plan.tensor));
        if product != Some(cell.hosts * cell.per_host) {
            return Err(EntryProblem::Plan { plan: plan_name(plan) });
        }
        // Infinitely long, or -1: it does not fit.
        let iterations_per_s = if time_s > 0.0 { 1.0 / time_s } else { 0.0 };
        if !iterations_per_s.is_finite() {
            return Err(EntryProblem::number(time, time_s, "too short"));
        }
        let source = self.text("source").to_owned();
        Ok(Some(Planned { workload, cell, plan, iterations_per_s, source }))
    }
}
