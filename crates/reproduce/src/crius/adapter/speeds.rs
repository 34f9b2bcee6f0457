//! What the performance model says of a job, in the shapes that the rules can ask for.

use std::collections::BTreeMap;

use wharf_core::{DeviceSet, JobId, NodeId, NodeShare, View};

use wharf_policy::placement::allowed_types;

use crate::crius::decisions::{INFEASIBLE, Kind, Question, Shape, Site, Source, doubling_shapes};

/// Samples per second by type and shape.
pub(super) struct Speeds {
    known: BTreeMap<(Kind, Shape), f64>,
}

impl Speeds {
    /// Asks the performance model. A job that it knows nothing of is taken to be equally fast wherever it may run.
    pub(super) fn new(view: &View<'_>, job: JobId, site: &Site) -> Self {
        let gang = &view.spec(job).gang;
        let mut known = BTreeMap::new();
        for kind in site.kinds() {
            let id = view.topology().type_id(&site.kind(kind).name);
            if !id.is_some_and(|id| allowed_types(view.topology(), gang).any(|allowed| allowed == id)) {
                continue;
            }
            for shape in doubling_shapes(gang.devices_max) {
                let is_taken = (gang.devices_min..=gang.devices_max).contains(&shape.devices());
                if is_taken && let Some(speed) = speed(view, job, site, kind, shape) {
                    known.insert((kind, shape), speed);
                }
            }
        }
        if known.values().all(|speed| *speed <= 0.0) {
            known.values_mut().for_each(|speed| *speed = 1.0);
        }
        Self { known }
    }

    /// The shapes that it has an answer for.
    pub(super) fn shapes(&self) -> Vec<Shape> {
        let mut shapes: Vec<Shape> = self.known.keys().map(|(_, shape)| *shape).collect();
        shapes.sort_unstable();
        shapes.dedup();
        shapes
    }
}

/// `None` where the type has too few or too small nodes.
fn speed(view: &View<'_>, job: JobId, site: &Site, kind: Kind, shape: Shape) -> Option<f64> {
    let nodes = site.nodes(kind);
    let large = nodes.filter(|node| site.devices(*node).len() as u32 >= shape.per_host);
    let share = |node| NodeShare::new(NodeId(site.origin(node)), DeviceSet::first(shape.per_host));
    let placement: Vec<NodeShare> = large.take(shape.hosts as usize).map(share).collect();
    if placement.len() < shape.hosts as usize {
        return None;
    }
    let spec = view.spec(job);
    let speed = if shape == site.best(kind, shape.devices()) {
        let id = view.topology().type_id(&site.kind(kind).name)?;
        view.perf().speed(view.topology(), spec, id, shape.devices(), &[])
    } else {
        1.0 / view.perf().iteration_s(view.topology(), spec, &placement, &[])
    };
    let samples = f64::from(spec.batch_size.unwrap_or(1).max(1));
    Some(if speed.is_finite() { speed * samples } else { 0.0 })
}

impl Source for Speeds {
    fn throughput(&self, _: Question, kind: Kind, shape: Shape) -> f64 {
        match self.known.get(&(kind, shape)) {
            Some(&speed) if speed > 0.0 => speed,
            _ => INFEASIBLE,
        }
    }
}
