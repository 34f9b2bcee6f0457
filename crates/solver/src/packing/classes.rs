//! Classes of jobs that are treated as one.

use super::{Demand, Program};

/// A kind with different demands is split into at most so many classes.
const PER_KIND: usize = 4;

/// Jobs of one kind.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) kind: usize,
    pub(super) devices: u32,
    pub(super) jobs: Vec<usize>,
    /// Whether all demands are equal.
    pub(super) even: bool,
    /// The largest speed of the kind. Speeds and demands are relative to it.
    pub(super) scale: f64,
}

/// The largest speed of a job among types that have devices, alone or beside a kind that is there.
fn scale(program: &Program<'_>, job: usize, present: &[(usize, u32, usize)]) -> f64 {
    let (kind, devices) = (program.kinds[job], program.devices[job]);
    let mut scale = 0.0_f64;
    for device_type in (0..program.types()).filter(|&index| program.capacities[index] > 0.0) {
        scale = scale.max(program.speed(kind, device_type));
        for &(other, other_devices, count) in present {
            let beside = other_devices == devices && (other != kind || count > 1);
            if beside && program.speed_beside(other, kind, device_type) > 0.0 {
                scale = scale.max(program.speed_beside(kind, other, device_type));
            }
        }
    }
    scale
}

/// Jobs that can take part, in order of kind, devices and demand; and those that cannot.
struct Sorted {
    /// With their scale.
    jobs: Vec<(usize, f64)>,
    stranded: Vec<usize>,
}

fn sort(program: &Program<'_>, demands: &[Demand]) -> Sorted {
    let is_sound = |job: usize| {
        let demand = &demands[job];
        let numbers = [demand.fixed, demand.amount, demand.elapsed];
        program.devices[job] > 0 && numbers.iter().all(|number| number.is_finite() && *number >= 0.0)
    };
    let key = |job: usize| (program.kinds[job], program.devices[job]);
    let (mut sound, mut stranded): (Vec<usize>, Vec<usize>) =
        (0..demands.len()).partition(|&job| is_sound(job));
    sound.sort_by(|&a, &b| {
        let (x, y) = (&demands[a], &demands[b]);
        let by_demand = x.amount.total_cmp(&y.amount).then(x.elapsed.total_cmp(&y.elapsed));
        key(a).cmp(&key(b)).then(by_demand).then(a.cmp(&b))
    });
    let mut present: Vec<(usize, u32, usize)> = Vec::new();
    for chunk in sound.chunk_by(|&a, &b| key(a) == key(b)) {
        present.push((key(chunk[0]).0, key(chunk[0]).1, chunk.len()));
    }
    let mut jobs = Vec::new();
    for chunk in sound.chunk_by(|&a, &b| key(a) == key(b)) {
        let scale = scale(program, chunk[0], &present);
        if scale > 0.0 {
            jobs.extend(chunk.iter().map(|&job| (job, scale)));
        } else {
            stranded.extend(chunk);
        }
    }
    stranded.sort_unstable();
    Sorted { jobs, stranded }
}

/// Classes of equal jobs if there are few of them, else of jobs of one kind with similar demands; and jobs that
/// cannot take part.
pub(super) fn classes(program: &Program<'_>, demands: &[Demand]) -> (Vec<Class>, Vec<usize>) {
    let Sorted { jobs, stranded } = sort(program, demands);
    let key = |&(job, _): &(usize, f64)| (program.kinds[job], program.devices[job]);
    let equal = |a: &(usize, f64), b: &(usize, f64)| key(a) == key(b) && demands[a.0] == demands[b.0];
    let class = |jobs: &[(usize, f64)]| Class {
        kind: key(&jobs[0]).0,
        devices: key(&jobs[0]).1,
        jobs: jobs.iter().map(|&(job, _)| job).collect(),
        even: jobs.iter().all(|other| equal(&jobs[0], other)),
        scale: jobs[0].1,
    };
    let limit = program.classes;
    if jobs.chunk_by(equal).count() <= limit {
        return (jobs.chunk_by(equal).map(class).collect(), stranded);
    }
    let kinds = jobs.chunk_by(|a, b| key(a) == key(b)).count();
    let per_kind = (limit / kinds).clamp(1, PER_KIND);
    let mut classes = Vec::new();
    for chunk in jobs.chunk_by(|a, b| key(a) == key(b)) {
        classes.extend(chunk.chunks(chunk.len().div_ceil(per_kind)).map(class));
    }
    (classes, stranded)
}
