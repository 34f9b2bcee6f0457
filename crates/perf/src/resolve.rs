//! Jobs that do not state how fast they are, and jobs that do not fit everywhere: what a profile says of them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use wharf_core::{ClusterSpec, Gang, JobSpec, Needs};

use crate::analytic;
use crate::estimates::{Estimates, Where};
use crate::profile::{Locality, Profile};
use crate::speed::{Speeds, iteration_ratio};
use wharf_planner::families;

/// Jobs that are named in a message.
const NAMED_MAX: usize = 5;

/// Jobs whose speed is not to be found out.
#[derive(Clone, Debug, PartialEq)]
pub struct Unresolved {
    /// The jobs, in the order in which they were given.
    pub jobs: Vec<UnresolvedJob>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub struct UnresolvedJob {
    /// The job's name.
    pub name: Arc<str>,
    /// Why.
    pub problem: Problem,
}

/// Why a job's speed is not to be found out.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// It tells neither its speed nor its model.
    NoModel,
    /// The profile has no entry of its model.
    UnknownModel {
        /// The model.
        model: Arc<str>,
    },
    /// The profile states that it fits no type of the cluster that it may run on.
    FitsNowhere {
        /// The model.
        model: Arc<str>,
        /// Its devices.
        devices: u32,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoModel => write!(f, "has neither `iteration_ms` nor a model"),
            Self::UnknownModel { model } => {
                write!(f, "has no `iteration_ms`, and the profile has no model `{model}`")
            }
            Self::FitsNowhere { model, devices } => {
                write!(f, "`{model}` on {devices} devices fits no device type that it may run on")
            }
        }
    }
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.jobs.len();
        write!(f, "no speed is known of {count} job{}", if count == 1 { "" } else { "s" })?;
        for (index, job) in self.jobs.iter().take(NAMED_MAX).enumerate() {
            write!(f, "{} job `{}` {}", if index == 0 { ":" } else { ";" }, job.name, job.problem)?;
        }
        if count > NAMED_MAX { write!(f, "; and {} more", count - NAMED_MAX) } else { Ok(()) }
    }
}

impl std::error::Error for Unresolved {}

/// The jobs of a trace on a cluster, with what a profile has to tell them before they can run: see [`resolve`]. Without a profile,
/// that is the built-in one, where it is needed.
///
/// # Errors
/// As [`resolve`].
pub fn with_speeds<'a>(
    jobs: &'a [JobSpec],
    cluster: &ClusterSpec,
    profile: Option<&Profile>,
) -> Result<Cow<'a, [JobSpec]>, Unresolved> {
    let mut jobs = in_pools(jobs, cluster);
    let builtin = match profile {
        None => analytic::profile_for(cluster, &jobs),
        Some(_) => None,
    };
    if let Some(profile) = profile.or(builtin.as_ref()).filter(|profile| !is_resolved(profile, &jobs)) {
        resolve(profile, jobs.to_mut(), cluster)?;
    }
    Ok(jobs)
}

/// The jobs, without their pools where no node of the cluster belongs to one: such a cluster is one pool for all.
fn in_pools<'a>(jobs: &'a [JobSpec], cluster: &ClusterSpec) -> Cow<'a, [JobSpec]> {
    let mut jobs = Cow::Borrowed(jobs);
    if cluster.has_pools() || jobs.iter().all(|job| job.gang.pool().is_none()) {
        return jobs;
    }
    for job in jobs.to_mut() {
        let needs = job.gang.needs.take().map(|needs| Needs { pool: None, ..(*needs).clone() });
        job.gang.needs = needs.filter(|needs| *needs != Needs::default()).map(Into::into);
    }
    jobs
}

/// Whether a profile has anything to say that jobs must be told before they can run: see [`resolve`].
fn is_resolved(profile: &Profile, jobs: &[JobSpec]) -> bool {
    let has_misfits = profile.entries().any(|(_, _, speed)| speed == 0.0);
    !has_misfits && jobs.iter().all(|job| job.iteration_ms > 0.0)
}

/// Tells jobs without `iteration_ms` what it is, on the type that it holds for; and keeps jobs away from the types of the
/// cluster that the profile says they do not fit. Of models that the profile does not know the planner's estimates count.
///
/// # Errors
/// The jobs of which neither knows anything, and those that fit nowhere.
pub fn resolve(profile: &Profile, jobs: &mut [JobSpec], cluster: &ClusterSpec) -> Result<(), Unresolved> {
    let speeds = Speeds::new(profile.clone());
    let estimates = Estimates::new(profile.clone());
    let mut types: Vec<(&Arc<str>, u32)> = Vec::new();
    for node in &cluster.nodes {
        match types.iter_mut().find(|(name, _)| **name == node.device_type) {
            Some((_, count)) => *count += node.devices,
            None => types.push((&node.device_type, node.devices)),
        }
    }
    let mut unresolved = Vec::new();
    for job in jobs {
        let problem = match planned(&estimates, job, cluster, &types) {
            Some(problem) => problem,
            None => keep_away(&speeds, job, &types).and_then(|()| tell_speed(&speeds, job)),
        };
        if let Err(problem) = problem {
            unresolved.push(UnresolvedJob { name: job.name.clone(), problem });
        }
    }
    if unresolved.is_empty() { Ok(()) } else { Err(Unresolved { jobs: unresolved }) }
}

/// Tells a job that states nothing of its speed what the planner expects, on the fastest of the types that it fits, and keeps it away
/// from the others. `None` where the profile knows its model, or the planner does not.
fn planned(
    estimates: &Estimates,
    job: &mut JobSpec,
    cluster: &ClusterSpec,
    types: &[(&Arc<str>, u32)],
) -> Option<Result<(), Problem>> {
    let (model, batch) = (job.model.clone()?, job.batch_size?);
    let profile = estimates.profile();
    // A profile that knows nothing is wanted to state nothing.
    let is_profiled = profile.is_empty() || profile.nearest_workload(&model, Some(batch)).is_some();
    if job.iteration_ms > 0.0 || is_profiled || !families::is_known(&model) {
        return None;
    }
    let Gang { devices, devices_min, devices_max, .. } = job.gang;
    // What it asks for; else the nearest power of two on which it fits.
    let mut counts: Vec<u32> = (0..u32::BITS).map(|power| 1 << power).collect();
    counts.retain(|count| (devices_min..=devices_max).contains(count));
    counts.sort_by_key(|count| count.abs_diff(devices));
    counts.insert(0, devices);
    let expect = |name: &str, devices: u32| {
        let node = cluster.nodes.iter().find(|node| *node.device_type == *name);
        let place = Where { device_type: name, per_node: node.map(|node| node.devices), devices };
        estimates.expect(&model, batch, place)
    };
    let speed = |name: &str, count: u32| {
        let speed = expect(name, count)?.iterations_per_s;
        (speed > 0.0).then(|| speed / iteration_ratio(count, devices, None))
    };
    let allowed: Vec<&Arc<str>> =
        types.iter().map(|&(name, _)| name).filter(|name| job.gang.allows(name)).collect();
    if allowed.iter().all(|name| expect(name, devices).is_none()) {
        return None;
    }
    let mut fitting: Vec<(&Arc<str>, f64)> = allowed
        .into_iter()
        .filter_map(|name| Some((name, counts.iter().find_map(|&count| speed(name, count))?)))
        .collect();
    fitting.sort_by(|one, two| two.1.total_cmp(&one.1));
    let Some(&(_, fastest)) = fitting.first() else {
        return Some(Err(Problem::FitsNowhere { model, devices }));
    };
    job.iteration_ms = 1000.0 / fastest;
    job.gang.device_types = fitting.into_iter().map(|(name, _)| name.clone()).collect();
    Some(Ok(()))
}

/// Takes the types that a job does not fit off those that it may run on. The type that its `iteration_ms` holds for
/// stays the first.
fn keep_away(speeds: &Speeds, job: &mut JobSpec, types: &[(&Arc<str>, u32)]) -> Result<(), Problem> {
    let Some(model) = job.model.clone() else { return Ok(()) };
    let Some(workload) = speeds.profile().workload(&model, job.batch_size) else { return Ok(()) };
    let Gang { devices, devices_min, devices_max, .. } = job.gang;
    let fits = |name: &str| {
        let Some(id) = speeds.profile().device_type(name) else { return true };
        let mut known = speeds
            .profile()
            .curve(workload, id, Locality::Packed)
            .filter(|(count, _)| (devices_min..=devices_max).contains(count))
            .peekable();
        known.peek().is_none() || known.any(|(_, entry)| entry.iterations_per_s > 0.0)
    };
    let allowed = |name: &Arc<str>| job.gang.allows(name);
    let possible: Vec<&Arc<str>> = types.iter().map(|&(name, _)| name).filter(|name| allowed(name)).collect();
    if possible.iter().all(|name| fits(name)) {
        return Ok(());
    }
    let fitting: u32 =
        types.iter().filter(|(name, _)| allowed(name) && fits(name)).map(|&(_, count)| count).sum();
    if fitting < devices_min {
        // An estimate is not reason enough to refuse a job that declares its own speed.
        let is_certain = !speeds.is_estimated(workload) || job.iteration_ms == 0.0;
        return if is_certain { Err(Problem::FitsNowhere { model, devices }) } else { Ok(()) };
    }
    let reference = speeds.reference_of(job).filter(|name| fits(name)).cloned();
    let others = possible.into_iter().filter(|name| fits(name) && Some(*name) != reference.as_ref()).cloned();
    job.gang.device_types = reference.iter().cloned().chain(others).collect();
    Ok(())
}

fn tell_speed(speeds: &Speeds, job: &mut JobSpec) -> Result<(), Problem> {
    if job.iteration_ms > 0.0 {
        return Ok(());
    }
    let Some(model) = job.model.clone() else { return Err(Problem::NoModel) };
    let reference = speeds.reference_of(job).cloned();
    let speed = speeds.alone(job, reference.as_deref().unwrap_or_default(), job.gang.devices);
    if speed.iterations_per_s > 0.0 {
        job.iteration_ms = 1000.0 / speed.iterations_per_s;
        return Ok(());
    }
    match speeds.profile().nearest_workload(&model, job.batch_size) {
        Some(_) => Err(Problem::FitsNowhere { model, devices: job.gang.devices }),
        None => Err(Problem::UnknownModel { model }),
    }
}
