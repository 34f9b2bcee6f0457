//! What a profile knows of iterations that were measured.

use wharf_core::Plan;
use wharf_perf::cells::Cells;
use wharf_perf::{Locality, parse_plan};
use wharf_planner::{Degrees, Gang};
use wharf_profile::Records;

/// A measured iteration.
pub(super) struct Timed<'a> {
    pub(super) model: &'a str,
    pub(super) batch: u32,
    pub(super) device_type: &'a str,
    pub(super) devices: u32,
    /// Devices of a node, where that was noted.
    pub(super) per_node: Option<u32>,
    /// How it was split; the best way there is where that was not noted.
    pub(super) plan: Option<Plan>,
    pub(super) time_s: f64,
}

impl Timed<'_> {
    /// The gang, among nodes of this size, unless others are recorded.
    pub(super) fn gang(&self, per_node: u32) -> Gang {
        let per_node = self.per_node.unwrap_or(per_node).min(self.devices).max(1);
        Gang { devices: self.devices, per_node }
    }
}

/// Everything that was measured: exact cells, and entries of jobs that ran by themselves on as few nodes as hold them.
pub(super) fn times(records: &Records) -> impl Iterator<Item = Timed<'_>> {
    let cells = records.cells.iter().flat_map(Cells::times).filter_map(|(workload, cell, time_s)| {
        Some(Timed {
            model: &workload.model,
            batch: workload.batch_size?,
            device_type: &cell.device_type,
            devices: cell.hosts * cell.per_host,
            per_node: Some(cell.per_host),
            plan: None,
            time_s,
        })
    });
    let entries = records.entries().filter_map(|(key, facts)| {
        let is_alone = key.beside.is_empty() && key.place.locality == Locality::Packed;
        Some(Timed {
            model: &key.workload.model,
            batch: key.workload.batch_size?,
            device_type: &key.place.device_type,
            devices: key.place.devices,
            per_node: None,
            plan: parse_plan(&key.plan, key.place.devices),
            time_s: (is_alone && !facts.is_estimate).then(|| 1.0 / facts.iterations_per_s)?,
        })
    });
    cells.chain(entries).filter(|timed| timed.time_s.is_finite() && timed.time_s > 0.0)
}

/// Whether degrees are those of a plan.
pub(super) fn is_split_so(degrees: Degrees, plan: Plan) -> bool {
    (degrees.pipeline, degrees.data, degrees.tensor) == (plan.stages, plan.data, plan.tensor)
}
