//! How fast a job runs by itself on devices of a type: measured, estimated, or as it tells.
//!
//! What was measured counts most, then what a job tells of itself, then what a model made up. The rules, first that applies:
//!
//! 1. The profile has a measured speed of this model and batch size on this type and number of devices.
//! 2. It has measured speeds on this type with other numbers of devices: on the line between the two nearest (in logarithms);
//!    outside them, from the nearest by [`iteration_ratio`].
//! 3. The job tells its `iteration_ms`, which holds for the type that it asks for first, or else the profile's reference type:
//!    that, times what the profile says of the two places for the model with the nearest batch size, measured or not.
//! 4. The profile has not both places: times the mean ratio of the two types over all models, and by [`iteration_ratio`]
//!    for another number of devices.
//! 5. The job states nothing: the profile's own figure for the nearest batch size, at as many samples per second, on this
//!    type or another one times the mean ratio of the types.
//!
//! Where the profile does not know the types, what the job tells is taken to hold on all.

use std::sync::Arc;

use wharf_core::{Gang, JobSpec};

use crate::profile::{Entry, Locality, Profile, TypeId, WorkloadId};

/// What exchanging gradients costs two devices, as a share of their computing, by default.
const NETWORK_SHARE: f64 = 0.1;

/// Most of an iteration that stages can say goes to the network.
const NETWORK_SHARE_MAX: f64 = 0.9;

/// Where a speed comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Measured.
    Measured,
    /// It was worked out from measurements of something else, or by a model.
    Estimated,
    /// The job tells it of itself.
    Told,
}

/// How fast a job runs, and who reports this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// 0 where it cannot run, or nothing is known of it.
    pub iterations_per_s: f64,
    /// Where that comes from.
    pub source: Source,
}

impl Speed {
    /// A speed from a model.
    pub(crate) fn estimated(iterations_per_s: f64) -> Self {
        Self { iterations_per_s, source: Source::Estimated }
    }
}

/// How much faster the work of some jobs is done on each of these device types than on the type that a job's own figures hold
/// for; `None` where no job can run there. Jobs count by their device-seconds.
pub fn relative_speeds(profile: &Profile, jobs: &[JobSpec], types: &[&str]) -> Vec<Option<f64>> {
    let speeds = Speeds::new(profile.clone());
    let relative = |device_type: &&str| {
        let (mut there_s, mut here_s) = (0.0, 0.0);
        for job in jobs {
            let seconds = |name: &str| {
                let speed = speeds.alone(job, name, job.gang.devices).iterations_per_s;
                (speed > 0.0).then(|| f64::from(job.gang.devices) * job.iterations / speed)
            };
            let there = speeds.reference_of(job).and_then(|name| seconds(name));
            if let Some((there, here)) = there.zip(seconds(device_type)) {
                (there_s, here_s) = (there_s + there, here_s + here);
            }
        }
        (here_s > 0.0).then(|| there_s / here_s)
    };
    types.iter().map(relative).collect()
}

/// A profile with what is worked out of it once.
#[derive(Clone, Debug)]
pub(crate) struct Speeds {
    profile: Profile,
    reference: Option<TypeId>,
    /// By type: how much faster than the reference type, in the mean.
    ratios: Vec<Option<f64>>,
}

impl Speeds {
    pub(crate) fn new(profile: Profile) -> Self {
        let reference = reference(&profile);
        let ratio = |(id, _): (TypeId, &Arc<str>)| mean_ratio(&profile, id, reference?);
        let ratios = profile.types().map(ratio).collect();
        Self { profile, reference, ratios }
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Whether a model made up anything that is known of a workload.
    pub(crate) fn is_estimated(&self, workload: WorkloadId) -> bool {
        let curves =
            self.profile.types().flat_map(|(id, _)| self.profile.curve(workload, id, Locality::Packed));
        curves.into_iter().any(|(_, entry)| entry.is_estimate)
    }

    /// The type that a job's own `iteration_ms` holds for.
    pub(crate) fn reference_of<'a>(&'a self, job: &'a JobSpec) -> Option<&'a Arc<str>> {
        let named = || self.reference.map(|id| self.profile.type_name(id));
        job.gang.device_types.first().filter(|name| &***name != Gang::OTHERS).or_else(named)
    }

    /// How fast a job runs by itself, its devices on as few nodes as hold them.
    pub(crate) fn alone(&self, job: &JobSpec, device_type: &str, devices: u32) -> Speed {
        let here = self.profile.device_type(device_type);
        let batch = job.batch_size;
        let model = job.model.as_deref();
        let exact = model.and_then(|model| self.profile.workload(model, batch));
        if let (Some(workload), Some(here)) = (exact, here) {
            let is_measured = |entry: &Entry| !entry.is_estimate;
            let entry = self.profile.entry(workload, here, devices, Locality::Packed);
            if let Some(entry) = entry.filter(is_measured) {
                return Speed { iterations_per_s: entry.iterations_per_s, source: Source::Measured };
            }
            if let Some(entry) = self.at(workload, here, devices).filter(is_measured) {
                return Speed::estimated(entry.iterations_per_s);
            }
        }
        let near = exact.or_else(|| self.profile.nearest_workload(model?, batch));
        if job.iteration_ms > 0.0 {
            self.scaled(job, near, exact.is_some(), device_type, here, devices)
        } else {
            self.untold(job, near, here, devices)
        }
    }

    /// The measured speed of a job whose devices are spread over more nodes than needed.
    pub(crate) fn spread(&self, job: &JobSpec, device_type: &str, devices: u32) -> Option<f64> {
        let workload = self.profile.workload(job.model.as_deref()?, job.batch_size)?;
        let here = self.profile.device_type(device_type)?;
        let entry = self.profile.entry(workload, here, devices, Locality::Spread)?;
        (!entry.is_estimate).then_some(entry.iterations_per_s)
    }

    /// What a job tells of itself, moved to other devices.
    fn scaled(
        &self,
        job: &JobSpec,
        near: Option<WorkloadId>,
        is_exact: bool,
        device_type: &str,
        here: Option<TypeId>,
        devices: u32,
    ) -> Speed {
        let told = Speed { iterations_per_s: 1000.0 / job.iteration_ms, source: Source::Told };
        let asked = job.gang.devices;
        let reference = self.reference_of(job);
        if devices == asked && reference.is_none_or(|reference| **reference == *device_type) {
            return told;
        }
        let there = reference.and_then(|reference| self.profile.device_type(reference));
        if let (Some(near), Some(here), Some(there)) = (near, here, there) {
            let places = (self.at(near, here, devices), self.at(near, there, asked));
            // That another batch size does not fit states nothing of this one.
            let counts = |now: Entry| is_exact || now.iterations_per_s > 0.0;
            if let (Some(now), Some(then)) = places
                && then.iterations_per_s > 0.0
                && counts(now)
            {
                let ratio = now.iterations_per_s / then.iterations_per_s;
                return Speed::estimated(told.iterations_per_s * ratio);
            }
        }
        let types = self.type_ratio(here, there);
        if types.is_none() && devices == asked {
            return told;
        }
        let counts = iteration_ratio(asked, devices, network_share(job));
        Speed::estimated(told.iterations_per_s * types.unwrap_or(1.0) / counts)
    }

    /// The speed of a job that states nothing of it.
    fn untold(&self, job: &JobSpec, near: Option<WorkloadId>, here: Option<TypeId>, devices: u32) -> Speed {
        let Some(near) = near else { return Speed { iterations_per_s: 0.0, source: Source::Told } };
        let batch = match (self.profile.workload_of(near).batch_size, job.batch_size) {
            (Some(known), Some(own)) => f64::from(known.max(1)) / f64::from(own.max(1)),
            _ => 1.0,
        };
        let on = |id: TypeId| Some(self.at(near, id, devices)?.iterations_per_s);
        let elsewhere = || {
            let others = self.reference.into_iter().chain(self.profile.types().map(|(id, _)| id));
            let moved = |id: TypeId| Some(on(id)? * self.type_ratio(here, Some(id)).unwrap_or(1.0));
            others.filter_map(moved).find(|&speed| speed > 0.0)
        };
        let speed = here.and_then(on).or_else(elsewhere).unwrap_or(0.0);
        Speed::estimated(speed * batch)
    }

    /// How much faster `here` is than `there`, in the mean over all models that ran on both and on the reference type.
    fn type_ratio(&self, here: Option<TypeId>, there: Option<TypeId>) -> Option<f64> {
        let ratio = |id: TypeId| self.ratios[id.index()];
        if here == there { None } else { Some(ratio(here?)? / ratio(there?)?) }
    }

    /// What the table says of a workload with so many devices, between its entries and beyond them. It is an estimate where
    /// one of the entries is.
    pub(crate) fn at(&self, workload: WorkloadId, device_type: TypeId, devices: u32) -> Option<Entry> {
        if let Some(entry) = self.profile.entry(workload, device_type, devices, Locality::Packed) {
            return Some(entry);
        }
        let (mut below, mut above) = (None, None);
        for (count, entry) in self.profile.curve(workload, device_type, Locality::Packed) {
            if count < devices {
                below = Some((count, entry));
            } else {
                above = above.or(Some((count, entry)));
            }
        }
        match (below, above) {
            (Some(below), Some(above)) => Some(between(below, above, devices)),
            (Some((count, entry)), None) | (None, Some((count, entry))) => Some(Entry {
                iterations_per_s: entry.iterations_per_s / iteration_ratio(count, devices, None),
                ..entry
            }),
            (None, None) => None,
        }
    }
}

/// On the line between two points, in logarithms; where a workload fits only the larger, it does not fit between.
fn between((fewer, low): (u32, Entry), (more, high): (u32, Entry), devices: u32) -> Entry {
    let is_estimate = low.is_estimate || high.is_estimate;
    let (low, high) = (low.iterations_per_s, high.iterations_per_s);
    let log = |count: u32| f64::from(count.max(1)).ln();
    let part = (log(devices) - log(fewer)) / (log(more) - log(fewer));
    let fits = low > 0.0 && high > 0.0;
    Entry { iterations_per_s: if fits { low * (high / low).powf(part) } else { 0.0 }, is_estimate }
}

/// How much longer an iteration over the same samples takes on `now` devices than on `then`.
///
/// With n devices it takes C/n for the computing, and N·r(n) for gradients that go round a ring, r(n) = 2(n-1)/n. What
/// part of the iteration on `then` devices the latter is, the caller may know; N is a tenth of C/`then` otherwise.
pub fn iteration_ratio(then: u32, now: u32, network_share: Option<f64>) -> f64 {
    if then == now {
        return 1.0;
    }
    let (before, after) = (f64::from(then.max(1)), f64::from(now.max(1)));
    let ring = |count: f64| 2.0 * (count - 1.0) / count;
    match network_share.filter(|_| then > 1) {
        Some(share) => (1.0 - share) * before / after + share * ring(after) / ring(before),
        None => (before / after + NETWORK_SHARE * ring(after)) / (1.0 + NETWORK_SHARE * ring(before)),
    }
}

/// The part of its iterations that a job spends on the network, on the gang that it asks for.
pub(crate) fn network_share(job: &JobSpec) -> Option<f64> {
    let stages = job.stages.filter(|_| job.iteration_ms > 0.0)?;
    Some((stages.network_ms / job.iteration_ms).clamp(0.0, NETWORK_SHARE_MAX))
}

/// The type that jobs mean that name none: the one that the profile says; or that on which most runs, of several
/// the fastest.
fn reference(profile: &Profile) -> Option<TypeId> {
    if let Some(told) = profile.told_reference().and_then(|name| profile.device_type(name)) {
        return Some(told);
    }
    let count = |id: TypeId| {
        let entries = profile.workloads().flat_map(|workload| profile.curve(workload, id, Locality::Packed));
        entries.filter(|(_, entry)| entry.iterations_per_s > 0.0).count()
    };
    let mut counted: Vec<(usize, &Arc<str>, TypeId)> =
        profile.types().map(|(id, name)| (count(id), name, id)).collect();
    counted.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let &(most, _, first) = counted.first()?;
    let mut best = (first, 1.0);
    for &(_, _, id) in counted.iter().take_while(|(count, ..)| *count == most) {
        let ratio = mean_ratio(profile, id, first).unwrap_or(0.0);
        if ratio > best.1 {
            best = (id, ratio);
        }
    }
    Some(best.0)
}

/// How much faster one type is than another: the geometric mean over all workloads and numbers of devices that both have.
fn mean_ratio(profile: &Profile, of: TypeId, to: TypeId) -> Option<f64> {
    if of == to {
        return Some(1.0);
    }
    let (mut sum, mut count) = (0.0, 0.0);
    for workload in profile.workloads() {
        for (devices, entry) in profile.curve(workload, of, Locality::Packed) {
            let other = profile.entry(workload, to, devices, Locality::Packed);
            let ratio = other.map_or(0.0, |other| entry.iterations_per_s / other.iterations_per_s);
            if ratio.is_finite() && ratio > 0.0 {
                sum += ratio.ln();
                count += 1.0;
            }
        }
    }
    (count > 0.0).then(|| (sum / count).exp())
}
