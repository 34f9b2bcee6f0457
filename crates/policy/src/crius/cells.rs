//! The cells of jobs: device type x number of devices, each with the speed of its best plan.
//!
//! The performance model answers for a type and a number with the best division into pipeline stages that it knows, so
//! the stages of a cell are the model's choice: [`wharf_core::PerfModel::plan`] tells them.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_core::{DeviceTypeId, Gang, JobId, Needs, View};

use super::Rules;
use crate::elastic::{Offer, Pool, offers};
use crate::placement::allowed_types;

/// What jobs must have in common to have the same cells.
type Likeness = (Option<Arc<str>>, Option<u32>, [u64; 4], [u32; 3], Arc<[Arc<str>]>, Option<Arc<Needs>>);

/// Jobs with the same cells.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    /// By type and number.
    pub(super) cells: Vec<Offer>,
    /// Cells by speed, the fastest first; only those that no cell of the type beats with fewer devices.
    pub(super) by_speed: Vec<usize>,
    /// Most speed for each device, by type.
    pub(super) thrift: Vec<f64>,
    /// The speed on what it asks for, or on what comes closest.
    pub(super) asked: f64,
    /// The type that it asks for, where it names one.
    pub(super) asked_kind: Option<usize>,
}

impl Class {
    /// The speed on so many devices of a type; 0 where that is not one of its cells.
    pub(super) fn speed(&self, kind: usize, count: u32) -> f64 {
        let at = self.cells.binary_search_by_key(&(kind, count), |cell| (cell.kind, cell.count));
        at.map_or(0.0, |at| self.cells[at].speed)
    }

    /// The speed in the fastest cell.
    pub(super) fn fastest(&self) -> f64 {
        self.by_speed.first().map_or(0.0, |&index| self.cells[index].speed)
    }

    fn new(cells: Vec<Offer>, kinds: usize, gang: &Gang, asked_kind: Option<usize>, is_pruned: bool) -> Self {
        let mut by_speed: Vec<usize> = (0..cells.len()).collect();
        let is_beaten = |index: usize| {
            let own = cells[index];
            cells
                .iter()
                .any(|other| other.kind == own.kind && other.count < own.count && other.speed >= own.speed)
        };
        by_speed.retain(|&index| !is_pruned || !is_beaten(index));
        by_speed.sort_by(|&one, &other| {
            let (one, other) = (cells[one], cells[other]);
            let small = one.count.cmp(&other.count).then(one.kind.cmp(&other.kind));
            other.speed.total_cmp(&one.speed).then(small)
        });
        let mut thrift = vec![0.0_f64; kinds];
        for cell in &cells {
            thrift[cell.kind] = thrift[cell.kind].max(cell.speed / f64::from(cell.count));
        }
        let asked = cells
            .iter()
            .min_by_key(|cell| {
                (asked_kind.is_some_and(|kind| kind != cell.kind), cell.count.abs_diff(gang.devices))
            })
            .map_or(1.0, |cell| cell.speed);
        Self { cells, by_speed, thrift, asked, asked_kind }
    }
}

/// All classes of jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    known: BTreeMap<Likeness, usize>,
    list: Vec<Arc<Class>>,
}

impl Classes {
    pub(super) fn get(&self, class: usize) -> Arc<Class> {
        self.list[class].clone()
    }

    /// The class of a job.
    pub(super) fn learn(&mut self, view: &View<'_>, job: JobId, pools: &[Pool], rules: &Rules) -> usize {
        let spec = view.spec(job);
        let stages = spec.stages.map_or([0; 3], |stages| {
            [stages.data_ms.to_bits(), stages.compute_ms.to_bits(), stages.network_ms.to_bits()]
        });
        let gang = &spec.gang;
        let likeness: Likeness = (
            spec.model.clone(),
            spec.batch_size,
            [spec.iteration_ms.to_bits(), stages[0], stages[1], stages[2]],
            [gang.devices, gang.devices_min, gang.devices_max],
            gang.device_types.clone(),
            gang.needs.clone(),
        );
        if let Some(&class) = self.known.get(&likeness) {
            return class;
        }
        let is_named = !gang.device_types.is_empty();
        let asked_kind =
            allowed_types(view.topology(), gang).next().filter(|_| is_named).map(|kind| kind.index());
        let mut cells = offers(view, job, pools);
        if rules.is_data_parallel {
            let (topology, perf) = (view.topology(), view.perf());
            cells.retain(|cell| {
                let kind = DeviceTypeId::from_index(cell.kind);
                perf.data_parallel_speed(topology, spec, kind, cell.count) > 0.0
            });
        }
        restrict(&mut cells, gang, asked_kind, rules);
        let kinds = view.topology().types().len();
        self.list.push(Arc::new(Class::new(cells, kinds, gang, asked_kind, rules.is_pruned)));
        self.known.insert(likeness, self.list.len() - 1);
        self.list.len() - 1
    }
}

/// Leaves the cells that the variant of the policy may use. A job that has any keeps some.
fn restrict(cells: &mut Vec<Offer>, gang: &Gang, asked_kind: Option<usize>, rules: &Rules) {
    if !rules.may_retype
        && let Some(kind) = asked_kind.filter(|&kind| cells.iter().any(|cell| cell.kind == kind))
    {
        cells.retain(|cell| cell.kind == kind);
    }
    if !rules.may_resize {
        let nearest = cells.iter().map(|cell| cell.count).min_by_key(|count| count.abs_diff(gang.devices));
        cells.retain(|cell| Some(cell.count) == nearest);
    }
}
