//! Between the wire's types and the core's.

use std::sync::Arc;

use wharf_core::{Gang, JobSpec, Needs, PerfModel, Request, Reshapes, Scope, StageTimes, Time, Topology};
use wharf_proto::{JobSpec as WireSpec, Reshapes as WireReshapes};

/// What a job is taken to need where its owner does not say: an hour.
const UNKNOWN_LENGTH_S: f64 = 3600.0;

/// A submitted job as the policy sees it. `epoch_unix_s` is when the engine's time began.
pub(crate) fn to_core(spec: &WireSpec, submit: Time, epoch_unix_s: f64) -> JobSpec {
    let (iterations, iteration_ms) = if spec.iterations > 0.0 && spec.iteration_ms > 0.0 {
        (spec.iterations, spec.iteration_ms)
    } else if spec.time_limit_s > 0.0 {
        (spec.time_limit_s, 1000.0)
    } else {
        (UNKNOWN_LENGTH_S, 1000.0)
    };
    let text = |text: &str| (!text.is_empty()).then(|| text.into());
    let gang = gang(spec);
    JobSpec {
        user: text(&spec.user),
        model: text(&spec.model),
        duration_s: (spec.duration_s > 0.0).then_some(spec.duration_s),
        batch_size: (spec.batch_size > 0).then_some(spec.batch_size),
        priority: spec.priority,
        weight: if spec.weight > 0.0 { spec.weight } else { 1.0 },
        deadline: (spec.deadline_s > 0.0).then(|| Time::from_seconds(spec.deadline_s - epoch_unix_s)),
        stages: spec.stages.map(|stages| StageTimes {
            data_ms: stages.data_ms,
            compute_ms: stages.compute_ms,
            network_ms: stages.network_ms,
        }),
        ..JobSpec { gang, ..JobSpec::new(&spec.name, submit, 1, iterations, iteration_ms) }
    }
}

/// Where an owner does not state how long an iteration takes, and the performance model knows: as many iterations as the owner
/// says, or as make up the job's length. A job of unknown length stays one.
pub(crate) fn with_known_speed(
    core: JobSpec,
    told: &WireSpec,
    topology: &Topology,
    perf: &dyn PerfModel,
) -> JobSpec {
    if told.iteration_ms > 0.0 || core.model.is_none() {
        return core;
    }
    if told.iterations <= 0.0 && !declares_length(told, &core) {
        return core;
    }
    let length_s = core.iterations * core.iteration_ms / 1000.0;
    let untold = JobSpec { iteration_ms: 0.0, ..core.clone() };
    let iteration_s = perf.iteration_s(topology, &untold, &[], &[]);
    if !(iteration_s > 0.0 && iteration_s.is_finite()) {
        return core;
    }
    let iterations = if told.iterations > 0.0 { told.iterations } else { length_s / iteration_s };
    JobSpec { iterations, iteration_ms: iteration_s * 1000.0, ..core }
}

/// Whether a job declares its time limit, or its length: iterations of a speed that it declares or the performance model has.
pub(crate) fn declares_length(told: &WireSpec, core: &JobSpec) -> bool {
    let has_speed = told.iteration_ms > 0.0 || core.iterations == told.iterations;
    told.time_limit_s > 0.0 || told.iterations > 0.0 && has_speed
}

fn gang(spec: &WireSpec) -> Gang {
    let gang = spec.gang.clone().unwrap_or_default();
    let devices = gang.devices.max(1);
    let or = |value: u32| if value == 0 { devices } else { value };
    let needs = Needs {
        scope: Scope::default(),
        groups: Vec::new(),
        nodes: (gang.nodes > 0).then_some(gang.nodes),
        pool: (!spec.pool.is_empty()).then(|| spec.pool.as_str().into()),
        node: None,
        names: gang.node_names.iter().map(|name| name.as_str().into()).collect(),
        reservation: (!spec.reservation.is_empty()).then(|| spec.reservation.as_str().into()),
        request: Request::per_device(spec.cpus, spec.memory_mib),
    };
    Gang {
        devices,
        devices_min: or(gang.devices_min),
        devices_max: or(gang.devices_max),
        device_types: gang.device_types.iter().map(|name| name.as_str().into()).collect(),
        needs: (needs != Needs::default()).then(|| Arc::new(needs)),
    }
}

/// How often a job was started on other devices than the last time, for people.
pub(crate) fn reshapes(counts: Reshapes) -> WireReshapes {
    let Reshapes { shrinks, grows, type_changes, moves } = counts;
    WireReshapes { shrinks, grows, type_changes, moves }
}

#[cfg(test)]
mod tests {
    use wharf_core::ClusterSpec;
    use wharf_perf::{Costs, Locality, Model, Order, Place, Profile, Sharing, Workload};

    use super::*;
    use crate::journal::spec_record::SpecRecord;

    #[test]
    fn gang_survives_the_journal() {
        let wanted = wharf_proto::Gang {
            devices: 8,
            devices_min: 4,
            devices_max: 16,
            device_types: vec!["a40".to_owned(), "v100".to_owned()],
            nodes: 2,
            node_names: vec!["n1".to_owned(), "n2".to_owned()],
            ..wharf_proto::Gang::default()
        };
        let bare = WireSpec { gang: Some(wanted), ..WireSpec::default() };
        for spec in [
            WireSpec::default(),
            bare.clone(),
            WireSpec { cpus: 7, ..bare.clone() },
            WireSpec { memory_mib: 1500, ..bare.clone() },
            WireSpec { cpus: 3, memory_mib: 9, pool: "p".to_owned(), reservation: "r".to_owned(), ..bare },
        ] {
            let core = JobSpec { gang: gang(&spec), ..JobSpec::new("a", Time::ZERO, 1, 1.0, 1.0) };
            let needs = core.gang.needs.as_deref();
            assert!(needs.is_none_or(|needs| needs.groups.is_empty() && needs.request.is_per_device()));
            let record = SpecRecord::of(&core);
            assert_eq!(record.to_core().map_err(drop), Ok(core.clone()), "{spec:?}");
            let sent = SpecRecord::of_wire(record.to_wire());
            assert_eq!(sent.to_core().map_err(drop), Ok(core), "{spec:?}");
        }
    }

    #[test]
    fn undeclared_speed_is_the_profiles() {
        let mut profile = Profile::default();
        let workload = Workload { model: "bert".into(), batch_size: None };
        let place = Place { device_type: "a40".into(), devices: 2, locality: Locality::Packed };
        profile.insert(workload, place, 4.0);
        let costs = Costs {
            restart_s: 30.0,
            spread_slowdown: 0.0,
            switch_slowdown: 0.0,
            interleave_factors: [1.0, 1.0, 1.0],
        };
        let perf = Model::new(costs, Sharing::None, Order::Best).with_profile(profile);
        let topology = Topology::new(&ClusterSpec::uniform("a40", 1, 2));
        let gang = wharf_proto::Gang { devices: 2, ..wharf_proto::Gang::default() };
        let job = |model: &str, iterations, iteration_ms, time_limit_s| WireSpec {
            model: model.to_owned(),
            gang: Some(gang.clone()),
            iterations,
            iteration_ms,
            time_limit_s,
            ..WireSpec::default()
        };
        const HOUR: f64 = UNKNOWN_LENGTH_S;
        for (spec, expected, is_declared) in [
            (job("bert", 1000.0, 0.0, 0.0), (1000.0, 250.0), true),
            (job("bert", 0.0, 0.0, 100.0), (400.0, 250.0), true),
            (job("bert", 1000.0, 20.0, 0.0), (1000.0, 20.0), true),
            (job("gpt", 1000.0, 0.0, 100.0), (100.0, 1000.0), true),
            (job("gpt", 1000.0, 0.0, 0.0), (HOUR, 1000.0), false),
            (job("bert", 0.0, 0.0, 0.0), (HOUR, 1000.0), false),
            // A limit of just the length that others are taken to have.
            (job("bert", 0.0, 0.0, HOUR), (4.0 * HOUR, 250.0), true),
            (job("gpt", 0.0, 0.0, HOUR), (HOUR, 1000.0), true),
        ] {
            let core = to_core(&spec, Time::ZERO, 0.0);
            let core = with_known_speed(core, &spec, &topology, &perf);
            assert_eq!((core.iterations, core.iteration_ms), expected, "{spec:?}");
            assert_eq!(declares_length(&spec, &core), is_declared, "{spec:?}");
        }
    }
}
