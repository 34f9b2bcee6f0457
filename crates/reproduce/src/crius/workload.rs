//! The jobs of a trace, in the rounds in which they are submitted.

use super::decisions::{Job, Quota, Site};
use wharf_core::{Gang, JobSpec};

use super::error::CriusError;
use super::settings::{Numbers, Settings};

/// A job that will come.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    /// Its place in the trace.
    pub(super) spec: u32,
    /// The round.
    pub(super) round: u64,
    /// The job; its times are set when it comes.
    pub(super) job: Job,
    /// When the trace wants it done.
    deadline_s: Option<f64>,
}

/// All jobs, by round.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    /// When the first job comes.
    pub(super) start_s: f64,
    /// By round; in the order of the file within one.
    pub(super) arrivals: Vec<Arrival>,
}

impl Workload {
    pub(super) fn new(
        specs: &[JobSpec],
        rows: &[u32],
        site: &Site,
        settings: &Settings,
        numbers: &Numbers,
    ) -> Result<Self, CriusError> {
        let mut in_file_order: Vec<usize> = (0..specs.len()).collect();
        in_file_order.sort_by_key(|&index| specs[index].row);
        let submit_s = |index: usize| specs[index].submit.seconds().trunc();
        let start_s = in_file_order.first().map_or(0.0, |&index| submit_s(index));
        let mut arrivals = Vec::with_capacity(specs.len());
        let mut round = 0;
        for index in in_file_order {
            let (spec, row) = (&specs[index], rows[index]);
            // The published code reads the file once: a job that comes before the row above joins its round.
            round = round_of(submit_s(index) - start_s, numbers.round_s).max(round);
            let quota = quota(spec, site)?;
            let batch = f64::from(spec.batch_size.unwrap_or(0));
            let job = Job::new(row, batch, quota, 0.0, iterations(spec, settings, numbers));
            arrivals.push(Arrival {
                spec: index as u32,
                round,
                job,
                deadline_s: spec.deadline.map(|deadline| deadline.seconds().trunc()),
            });
        }
        Ok(Self { start_s, arrivals })
    }

    /// Rounds that are simulated where no number is given: as many as jobs come in, rounded up to one digit and zeros.
    pub(super) fn default_rounds(&self) -> u64 {
        let rounds = self.arrivals.last().map_or(0, |last| last.round + 1);
        let zeros = 10_u64.pow(rounds.checked_ilog10().unwrap_or(0));
        (rounds / zeros + 1) * zeros
    }
}

impl Arrival {
    /// The job as it is submitted at the beginning of its round.
    pub(super) fn submit(&self, timer: f64, settings: &Settings, numbers: &Numbers) -> Job {
        let mut job = self.job.clone();
        job.submitted_s = timer;
        job.deadline_s = match self.deadline_s {
            _ if settings.policy.is_loose => timer + numbers.loose_deadline_s,
            Some(deadline_s) => timer + numbers.deadline_factor * (deadline_s - timer),
            None => f64::INFINITY,
        };
        job
    }
}

/// The round of a job that comes so long after the first: rounds take in what comes until their end.
fn round_of(after_s: f64, round_s: f64) -> u64 {
    if after_s <= round_s { 0 } else { (after_s / round_s).ceil() as u64 - 1 }
}

fn iterations(spec: &JobSpec, settings: &Settings, numbers: &Numbers) -> f64 {
    let iterations = match settings.density {
        1.0 => spec.iterations,
        density => (spec.iterations * density).trunc().max(1.0),
    };
    (iterations / numbers.iterations_divisor).floor()
}

/// What a job asks for: the first type that it names.
fn quota(spec: &JobSpec, site: &Site) -> Result<Quota, CriusError> {
    if spec.gang.devices == 0 {
        return Err(CriusError::NoGang { job: spec.name.to_string() });
    }
    let asked = spec.gang.device_types.first().filter(|name| &***name != Gang::OTHERS);
    let kind = match asked {
        Some(name) => site.find(name),
        None => site.kinds().next(),
    };
    let Some(kind) = kind else {
        let known: Vec<&str> = site.kinds().map(|kind| &*site.kind(kind).name).collect();
        return Err(CriusError::NoType {
            job: spec.name.to_string(),
            device_type: asked.map(ToString::to_string).unwrap_or_default(),
            known: known.join(", "),
        });
    };
    Ok(Quota::new(kind, site.best(kind, spec.gang.devices)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_take_in_what_comes_until_their_end() {
        for (after_s, round) in [(0.0, 0), (300.0, 0), (301.0, 1), (600.0, 1), (601.0, 2)] {
            assert_eq!(round_of(after_s, 300.0), round, "{after_s}");
        }
    }

    #[test]
    fn rounds_are_rounded_up_to_a_digit_and_zeros() {
        for (rounds, expected) in [(5716, 6000), (282, 300), (1, 2), (9, 10), (300, 400)] {
            let quota =
                Quota::new(crate::crius::decisions::Kind(0), crate::crius::decisions::Shape::single(1));
            let last = Arrival {
                spec: 0,
                round: rounds - 1,
                job: Job::new(0, 1.0, quota, 0.0, 1.0),
                deadline_s: None,
            };
            let workload = Workload { start_s: 0.0, arrivals: vec![last] };
            assert_eq!(workload.default_rounds(), expected);
        }
    }
}
