//! Nodes and jobs of the engine as an export contains them.

use wharf_core::{
    DeviceSet, GaveWay, JobId, JobImage, NodeImage, NodeShare, NodeSpec, Phase, Reshapes, Time,
};
use wharf_proto::{JobPhase, Placement};

use crate::jobs::wire as job_wire;
use crate::journal::record::{EndRecord, of_shares, to_share};
use crate::journal::spec_record::SpecRecord;
use crate::journal::victim_record::ChosenRecord;
use crate::journal::wire;

pub(super) fn of_node(image: &NodeImage) -> wharf_proto::NodeImage {
    let spec = &image.spec;
    wharf_proto::NodeImage {
        name: spec.name.to_string(),
        device_type: spec.device_type.to_string(),
        devices: spec.devices,
        cpus: spec.cpus,
        memory_gib: spec.memory_gib,
        switch: spec.switch,
        pool: spec.pool.to_string(),
        is_there: image.is_there,
        is_cordoned: image.is_cordoned,
        is_closed: image.is_closed,
        broken: image.broken.iter().collect(),
    }
}

pub(super) fn to_node(image: wharf_proto::NodeImage) -> NodeImage {
    let mut broken = DeviceSet::EMPTY;
    image.broken.iter().for_each(|&device| broken.insert(device));
    NodeImage {
        spec: NodeSpec {
            name: image.name.into(),
            device_type: image.device_type.into(),
            devices: image.devices,
            cpus: image.cpus,
            memory_gib: image.memory_gib,
            switch: image.switch,
            pool: image.pool.into(),
            details: None,
        },
        is_there: image.is_there,
        is_cordoned: image.is_cordoned,
        is_closed: image.is_closed,
        broken,
    }
}

pub(super) fn of_job(image: &JobImage) -> wharf_proto::JobImage {
    let (phase, outcome) = match image.phase {
        Phase::Waiting => (JobPhase::Waiting, None),
        Phase::Held => (JobPhase::Held, None),
        Phase::Placed => (JobPhase::Placed, None),
        Phase::Running => (JobPhase::Running, None),
        Phase::Stopping => (JobPhase::Stopping, None),
        Phase::Ended(end) => (JobPhase::default(), Some(end)),
    };
    let placement = |shares: &[NodeShare]| Placement { shares: wire::to_devices(&of_shares(shares)) };
    let end = |end| wire::to_end(EndRecord::of(end));
    wharf_proto::JobImage {
        spec: Some(SpecRecord::of(&image.spec).to_wire()),
        phase: phase.into(),
        outcome: outcome.map(end),
        generation: image.generation,
        placement: image.placement.as_deref().map(placement),
        first_start_s: image.first_start.map(Time::seconds),
        end_s: image.end.map(Time::seconds),
        preemptions: image.preemptions,
        done: image.done,
        since_s: image.since.seconds(),
        iteration_s: image.iteration_s.is_finite().then_some(image.iteration_s),
        attained_s: image.attained_s,
        placed_at_s: image.placed_at.seconds(),
        saved_at_s: image.saved_at.seconds(),
        gave_way: image.gave_way.map(|gave| wharf_proto::GaveWay {
            to: gave.to.map(|to| to.0),
            chosen: wire::to_chosen(ChosenRecord::of(gave.chosen)).into(),
        }),
        gave_way_at_s: image.gave_way.map(|gave| gave.at.seconds()).unwrap_or_default(),
        reshapes: Some(image.reshapes)
            .filter(|counts| *counts != Reshapes::default())
            .map(job_wire::reshapes),
        left: image.left.as_deref().map(placement),
        leaving_generation: image.leaving_generation,
        ending: image.ending.map(end),
    }
}

/// `None` where a part is missing, or not of this version.
pub(super) fn to_job(image: wharf_proto::JobImage) -> Option<JobImage> {
    let end = |end| Some(wire::of_end(end)?.to_core());
    let phase = match (image.outcome, JobPhase::try_from(image.phase).ok()?) {
        (Some(outcome), _) => Phase::Ended(end(outcome)?),
        (None, JobPhase::Waiting) => Phase::Waiting,
        (None, JobPhase::Held) => Phase::Held,
        (None, JobPhase::Placed) => Phase::Placed,
        (None, JobPhase::Running) => Phase::Running,
        (None, JobPhase::Stopping) => Phase::Stopping,
        (None, _) => return None,
    };
    let placement = |placement: Placement| {
        placement.shares.into_iter().map(|share| to_share(&(share.node, share.devices))).collect()
    };
    let moment = |time_s: Option<f64>| time_s.map_or(Some(None), |time_s| Time::try_new(time_s).map(Some));
    let reshapes = image.reshapes.unwrap_or_default();
    let gave_way = match image.gave_way {
        Some(gave) => Some(GaveWay {
            at: Time::try_new(image.gave_way_at_s)?,
            to: gave.to.map(JobId),
            chosen: wire::of_chosen(gave.chosen)?.to_core(),
        }),
        None => None,
    };
    let ending = match image.ending {
        Some(ending) => Some(end(ending)?),
        None => None,
    };
    Some(JobImage {
        spec: SpecRecord::of_wire(image.spec?).to_core().ok()?,
        placement: image.placement.map(placement),
        phase,
        generation: image.generation,
        first_start: moment(image.first_start_s)?,
        end: moment(image.end_s)?,
        preemptions: image.preemptions,
        done: image.done,
        since: Time::try_new(image.since_s)?,
        iteration_s: image.iteration_s.unwrap_or(f64::INFINITY),
        attained_s: image.attained_s,
        placed_at: Time::try_new(image.placed_at_s)?,
        saved_at: Time::try_new(image.saved_at_s)?,
        gave_way,
        reshapes: Reshapes {
            shrinks: reshapes.shrinks,
            grows: reshapes.grows,
            type_changes: reshapes.type_changes,
            moves: reshapes.moves,
        },
        left: image.left.map(placement),
        leaving_generation: image.leaving_generation,
        ending,
    })
}
