//! Between the wire's types and the core's.

use wharf_core::{Gang, JobEnd, JobSpec, Time};
use wharf_proto::{Dependency, JobSpec as WireSpec, dependency};

/// What a job is taken to need where its owner does not say: an hour.
const UNKNOWN_LENGTH_S: f64 = 3600.0;

/// A submitted job as the policy sees it.
pub(crate) fn to_core(spec: &WireSpec, submit: Time) -> JobSpec {
    let gang = spec.gang.clone().unwrap_or_default();
    let devices = gang.devices.max(1);
    let or = |value: u32| if value == 0 { devices } else { value };
    let (iterations, iteration_ms) = if spec.iterations > 0.0 && spec.iteration_ms > 0.0 {
        (spec.iterations, spec.iteration_ms)
    } else if spec.time_limit_s > 0.0 {
        (spec.time_limit_s, 1000.0)
    } else {
        (UNKNOWN_LENGTH_S, 1000.0)
    };
    let text = |text: &str| (!text.is_empty()).then(|| text.into());
    JobSpec {
        user: text(&spec.user),
        gang: Gang {
            devices,
            devices_min: or(gang.devices_min),
            devices_max: or(gang.devices_max),
            device_types: gang.device_types.iter().map(|name| name.as_str().into()).collect(),
        },
        model: text(&spec.model),
        batch_size: (spec.batch_size > 0).then_some(spec.batch_size),
        priority: spec.priority,
        ..JobSpec::new(&spec.name, submit, devices, iterations, iteration_ms)
    }
}

/// Whether a job may start as far as other jobs are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependencies {
    Met,
    Open,
    Impossible,
}

/// Judges dependencies by how other jobs ended: `end_of` gives `None` for an unknown job.
pub(crate) fn dependencies(
    dependencies: &[Dependency],
    end_of: impl Fn(u32) -> Option<Option<JobEnd>>,
) -> Dependencies {
    let mut verdict = Dependencies::Met;
    for dependency in dependencies {
        let is_ok = match (end_of(dependency.job_id), dependency.kind()) {
            (None, _) => Some(false),
            (Some(None), _) => None,
            (
                Some(Some(_)),
                dependency::Kind::After | dependency::Kind::AfterAny | dependency::Kind::Singleton,
            ) => Some(true),
            (Some(Some(end)), dependency::Kind::AfterOk | dependency::Kind::AfterCorr) => {
                Some(end == JobEnd::Finished)
            }
            (Some(Some(end)), dependency::Kind::AfterNotOk) => Some(end != JobEnd::Finished),
        };
        match is_ok {
            Some(true) => {}
            Some(false) => return Dependencies::Impossible,
            None => verdict = Dependencies::Open,
        }
    }
    verdict
}
