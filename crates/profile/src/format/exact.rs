//! Exact cells and communication times as documents and databases write them.

use crate::error::EntryProblem;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wharf_perf::Workload;
use wharf_perf::cells::{Cell, Cells, Device, Family};
use wharf_planner::comm::{CommTables, Operation, Route};

use super::comm;
use super::crius::{COUNT_MAX, is_name};

/// Most numbers of devices of which the memory is told: 1, 2, 4 and so on.
const MEMORY_MAX: usize = 32;

/// Exact cells.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellsText {
    #[serde(default)]
    pub(crate) devices: BTreeMap<String, DeviceText>,
    #[serde(default)]
    pub(crate) families: BTreeMap<String, FamilyText>,
    #[serde(default)]
    pub(crate) memory: Vec<MemoryText>,
    #[serde(default)]
    pub(crate) times: Vec<TimeText>,
}

/// A device type.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceText {
    pub(crate) memory_gb: f64,
    pub(crate) per_node: u32,
}

/// A family of models.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FamilyText {
    pub(crate) sizes: Vec<String>,
    pub(crate) batch_sizes: Vec<u32>,
}

/// The memory of a data-parallel copy on 1, 2, 4 ... devices.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemoryText {
    pub(crate) model: String,
    pub(crate) batch_size: Option<u32>,
    pub(crate) memory_gb: Vec<f64>,
}

/// The time of an iteration in a cell; below 0 where it was tried and did not run.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimeText {
    pub(crate) model: String,
    pub(crate) batch_size: Option<u32>,
    pub(crate) device_type: String,
    pub(crate) hosts: u32,
    pub(crate) per_host: u32,
    pub(crate) time_s: f64,
}

/// The times of an operation, by elements.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CurveText {
    pub(crate) device_type: String,
    pub(crate) hosts: u32,
    pub(crate) per_host: u32,
    pub(crate) is_infiniband: bool,
    pub(crate) operation: String,
    pub(crate) groups: String,
    pub(crate) seconds: Vec<(u64, f64)>,
}

impl CellsText {
    /// Cells in words.
    pub(crate) fn new(cells: &Cells) -> Self {
        let device = |(name, device): (&std::sync::Arc<str>, Device)| {
            (name.to_string(), DeviceText { memory_gb: device.memory_gb, per_node: device.per_node })
        };
        let time = |(workload, cell, time_s): (&Workload, &Cell, f64)| TimeText {
            model: workload.model.to_string(),
            batch_size: workload.batch_size,
            device_type: cell.device_type.to_string(),
            hosts: cell.hosts,
            per_host: cell.per_host,
            time_s,
        };
        let memory = |(workload, row): (&Workload, &[f64])| MemoryText {
            model: workload.model.to_string(),
            batch_size: workload.batch_size,
            memory_gb: row.to_vec(),
        };
        Self {
            devices: cells.devices().map(device).collect(),
            families: cells
                .families()
                .map(|(name, family)| (name.to_string(), FamilyText::new(family)))
                .collect(),
            memory: cells.memory().map(memory).collect(),
            times: cells.times().map(time).collect(),
        }
    }

    /// What the words mean; or which of them makes no sense, and why.
    pub(crate) fn cells(self) -> Result<Cells, (String, EntryProblem)> {
        let mut cells = Cells::default();
        for (name, device) in self.devices {
            let field = format!("device type `{name}`");
            device.put(&name, &mut cells).map_err(|problem| (field, problem))?;
        }
        for (name, family) in self.families {
            let field = format!("family `{name}`");
            family.put(&name, &mut cells).map_err(|problem| (field, problem))?;
        }
        for memory in self.memory {
            let field = format!("memory of `{}`", memory.model);
            memory.put(&mut cells).map_err(|problem| (field, problem))?;
        }
        for time in self.times {
            let field =
                format!("cell {} x {} {} of `{}`", time.hosts, time.per_host, time.device_type, time.model);
            time.put(&mut cells).map_err(|problem| (field, problem))?;
        }
        Ok(cells)
    }
}

impl DeviceText {
    fn put(self, name: &str, cells: &mut Cells) -> Result<(), EntryProblem> {
        let Self { memory_gb, per_node } = self;
        if !is_name(name) || !(1..=COUNT_MAX).contains(&per_node) || !is_amount(memory_gb) {
            return Err(EntryProblem::Expected(format!(
                "a name, memory, and from 1 to {COUNT_MAX} devices on a node"
            )));
        }
        cells.set_device(name, Device { memory_gb, per_node });
        Ok(())
    }
}

impl FamilyText {
    pub(crate) fn new(family: &Family) -> Self {
        Self {
            sizes: family.sizes.iter().map(ToString::to_string).collect(),
            batch_sizes: family.batch_sizes.clone(),
        }
    }

    fn put(self, name: &str, cells: &mut Cells) -> Result<(), EntryProblem> {
        if !is_name(name) || !self.sizes.iter().all(|size| is_name(size)) || self.batch_sizes.contains(&0) {
            return Err(EntryProblem::Expected("names, and batch sizes of at least 1".to_owned()));
        }
        let sizes = self.sizes.into_iter().map(Into::into).collect();
        cells.set_family(name, Family { sizes, batch_sizes: self.batch_sizes });
        Ok(())
    }
}

impl MemoryText {
    fn put(self, cells: &mut Cells) -> Result<(), EntryProblem> {
        let is_memory = |memory_gb: f64| is_amount(memory_gb) || memory_gb == -1.0;
        if self.memory_gb.len() > MEMORY_MAX || !self.memory_gb.iter().all(|&memory_gb| is_memory(memory_gb))
        {
            return Err(EntryProblem::Expected(format!(
                "at most {MEMORY_MAX} figures, each 0 or more, or -1"
            )));
        }
        cells.set_memory(workload(self.model, self.batch_size)?, self.memory_gb);
        Ok(())
    }
}

impl TimeText {
    fn put(self, cells: &mut Cells) -> Result<(), EntryProblem> {
        let Self { hosts, per_host, time_s, .. } = self;
        let is_count = |count| (1..=COUNT_MAX).contains(&count);
        if !is_name(&self.device_type) || !is_count(hosts) || !is_count(per_host) {
            return Err(EntryProblem::Expected(format!(
                "a device type, and from 1 to {COUNT_MAX} hosts and devices"
            )));
        }
        if !time_s.is_finite() {
            return Err(EntryProblem::Amount { found: time_s, problem: "not seconds" });
        }
        let cell = Cell { device_type: self.device_type.into(), hosts, per_host };
        cells.insert_time(workload(self.model, self.batch_size)?, cell, time_s);
        Ok(())
    }
}

impl CurveText {
    /// A curve in words.
    pub(crate) fn all(comm: &CommTables) -> Vec<Self> {
        let text = |(route, curve): (&Route, &wharf_planner::comm::Curve)| Self {
            device_type: route.device_type.to_string(),
            hosts: route.hosts,
            per_host: route.per_host,
            is_infiniband: route.is_infiniband,
            operation: route.operation.name().to_owned(),
            groups: route.groups.to_string(),
            seconds: curve.points().collect(),
        };
        comm.curves().map(text).collect()
    }

    /// Whether two curves are about the same operation of the same devices.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        let key = |curve: &Self| (curve.hosts, curve.per_host, curve.is_infiniband);
        key(self) == key(other)
            && self.operation == other.operation
            && self.groups == other.groups
            && self.device_type == other.device_type
    }

    /// What many curves mean; or which of them makes no sense, and why.
    pub(crate) fn tables(curves: Vec<Self>) -> Result<CommTables, (String, EntryProblem)> {
        let mut comm = CommTables::default();
        for curve in curves {
            let Self { operation, hosts, per_host, device_type, .. } = &curve;
            let field = format!("`{operation}` on {hosts} x {per_host} {device_type}");
            curve.put(&mut comm).map_err(|problem| (field, problem))?;
        }
        Ok(comm)
    }

    /// Adds what the words mean.
    fn put(self, comm: &mut CommTables) -> Result<(), EntryProblem> {
        let names = || Operation::ALL.map(Operation::name).join(", ");
        let operation = Operation::from_name(&self.operation).ok_or_else(|| {
            EntryProblem::word("operation", &self.operation, format!("none of {}", names()))
        })?;
        let route = Route {
            device_type: self.device_type.into(),
            hosts: self.hosts,
            per_host: self.per_host,
            is_infiniband: self.is_infiniband,
            operation,
            groups: self.groups.into(),
        };
        for (elements, seconds) in self.seconds {
            comm::check(&route, elements, seconds)?;
            comm.insert(route.clone(), elements, seconds);
        }
        Ok(())
    }
}

fn workload(model: String, batch_size: Option<u32>) -> Result<Workload, EntryProblem> {
    if !is_name(&model) || batch_size == Some(0) {
        return Err(EntryProblem::Expected("a model, and a batch size of at least 1 or none".to_owned()));
    }
    Ok(Workload { model: model.into(), batch_size })
}

fn is_amount(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}
