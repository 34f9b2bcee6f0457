//! What a page shows of a run, small enough to be kept beside its summary and to be read back.

use serde::{Deserialize, Serialize};
use wharf_core::{ClusterSpec, JobSpec};
use wharf_outcome::{JobRecord, Outcome};

use crate::breakdown::{Breakdown, largest};
use crate::metrics::ReportError;
use crate::plot::StepCurve;
use crate::stats;
use crate::stays::Stays;

/// The version of the document.
pub const DIGEST_SCHEMA: u32 = 1;

/// Completion times that are kept; of more, as many quantiles.
const JCTS_MAX: usize = 400;
/// Parts of the time that curves are kept in.
const COLUMNS_MAX: usize = 240;
/// Rows of each grouping that are kept; `breakdown.csv` has them all.
const ROWS_MAX: usize = 200;
/// Bytes that rectangles may take.
const STAYS_BYTES: usize = 3_000_000;

/// How often jobs were stopped before their end: the heads of [`Digest::stops`].
pub const STOP_CLASSES: [&str; 5] = ["never", "once", "2 to 3", "4 to 7", "8 or more"];

/// What a page shows of a run beside its summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// The document's version.
    pub schema: u32,
    /// The program that made the run.
    pub wharf: String,
    /// The command line that makes it again.
    pub command: Option<String>,
    /// Completion times of finished jobs, ascending: all of them, or quantiles at equal distances.
    pub jcts_s: Vec<f64>,
    /// Rows by size, user and model, and fairness.
    pub breakdown: Breakdown,
    /// Rows that were left out there, by size, user and model.
    pub rows_left_out: [u64; 3],
    /// Jobs by how often they were stopped, as [`STOP_CLASSES`] heads them.
    pub stops: [u64; 5],
    /// The share of devices with a running job, over time since the first submission.
    pub utilization: StepCurve,
    /// Waiting jobs over the same time.
    pub queue: StepCurve,
    /// Who held which devices when, where that was recorded.
    pub stays: Option<Stays>,
}

impl Digest {
    /// Takes from an outcome what a page shows.
    pub fn new(cluster: &ClusterSpec, specs: &[JobSpec], outcome: &Outcome) -> Self {
        let jobs: Vec<&JobRecord> = outcome.jobs.iter().filter(|job| outcome.counts(job)).collect();
        let jcts = stats::sorted(jobs.iter().filter_map(|job| job.jct_s()));
        let mut breakdown = Breakdown::new(specs, outcome);
        let rows = [&mut breakdown.by_size, &mut breakdown.by_user, &mut breakdown.by_model];
        let rows_left_out = rows.map(|rows| {
            let more = rows.len().saturating_sub(ROWS_MAX);
            *rows = largest(rows, ROWS_MAX).into_iter().cloned().collect();
            more as u64
        });
        let mut stops = [0; 5];
        for job in jobs {
            stops[(u32::BITS - job.preemptions.leading_zeros()).min(4) as usize] += 1;
        }
        let start = outcome.timeline.first().map_or(0.0, |sample| sample.time.seconds());
        let curve = |curve: StepCurve| rounded(curve.thinned(start, COLUMNS_MAX));
        Self {
            schema: DIGEST_SCHEMA,
            wharf: env!("CARGO_PKG_VERSION").to_owned(),
            command: None,
            jcts_s: quantiles(&jcts),
            breakdown,
            rows_left_out,
            stops,
            utilization: curve(StepCurve::utilization(&outcome.timeline, outcome.device_count)),
            queue: curve(StepCurve::queue_length(&outcome.timeline)),
            stays: Stays::new(cluster, &outcome.spans, specs).and_then(|stays| stays.within(STAYS_BYTES)),
        }
    }

    /// Reads a document back.
    ///
    /// # Errors
    /// On malformed JSON and on another schema; the schema is checked first.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        #[derive(Deserialize)]
        struct Version {
            schema: u64,
        }
        let Version { schema: found } = serde_json::from_str(text)?;
        if found != u64::from(DIGEST_SCHEMA) {
            return Err(ReportError::DigestSchema { found });
        }
        Ok(serde_json::from_str(text)?)
    }

    /// Whether all numbers can be drawn: a file may hold anything.
    pub(crate) fn is_sound(&self) -> bool {
        let is_finite = |curve: &StepCurve| match curve {
            StepCurve::Steps(points) => {
                points.iter().all(|(time, value)| time.is_finite() && value.is_finite())
            }
            StepCurve::Columns(columns) => {
                columns.iter().all(|column| <[f64; 4]>::from(*column).iter().all(|number| number.is_finite()))
            }
        };
        self.jcts_s.iter().all(|jct| jct.is_finite())
            && is_finite(&self.utilization)
            && is_finite(&self.queue)
            && self.stays.as_ref().is_none_or(Stays::is_sound)
    }
}

/// All of few values, or as many quantiles as are kept; the least and the greatest are always among them.
fn quantiles(sorted: &[f64]) -> Vec<f64> {
    if sorted.len() <= JCTS_MAX {
        return sorted.iter().copied().map(short).collect();
    }
    let last = (sorted.len() - 1) as f64;
    let at = |index: usize| sorted[(index as f64 / (JCTS_MAX - 1) as f64 * last).round() as usize];
    (0..JCTS_MAX).map(at).map(short).collect()
}

fn rounded(curve: StepCurve) -> StepCurve {
    match curve {
        StepCurve::Steps(points) => {
            StepCurve::Steps(points.into_iter().map(|(time, value)| (short(time), short(value))).collect())
        }
        StepCurve::Columns(columns) => StepCurve::Columns(
            columns.into_iter().map(|column| <[f64; 4]>::from(column).map(short).into()).collect(),
        ),
    }
}

/// A number for a drawing: six digits are more than can be seen.
fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn digest_of_four_jobs_reads_back() {
        let cluster = ClusterSpec::uniform("v100", 1, 4);
        let digest = Digest::new(&cluster, &fixture::specs(), &fixture::outcome());
        assert_eq!(digest.jcts_s, [10.0, 40.0, 70.0]);
        assert_eq!(digest.stops, [3, 0, 1, 0, 0], "one was stopped three times");
        let text = serde_json::to_string(&digest).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
        assert!(digest.is_sound());
    }

    #[test]
    fn digest_of_a_long_run_stays_small() {
        let mut outcome = fixture::outcome();
        let sample = outcome.timeline[0];
        outcome.timeline = (0..100_000_u32)
            .map(|index| wharf_outcome::Sample {
                time: fixture::at(f64::from(index)),
                waiting: index % 7,
                ..sample
            })
            .collect();
        let job = outcome.jobs[0];
        outcome.jobs = (0..100_000).map(|index| JobRecord { job: wharf_core::JobId(index), ..job }).collect();
        let digest = Digest::new(&ClusterSpec::default(), &[], &outcome);
        let text = serde_json::to_string(&digest).unwrap();
        assert!(text.len() < 40_000, "{}", text.len());
        assert_eq!(digest.jcts_s.len(), JCTS_MAX);
    }

    #[test]
    fn quantiles_keep_both_ends() {
        let values: Vec<f64> = (0..=5000).map(f64::from).collect();
        let kept = quantiles(&values);
        assert_eq!((kept[0], kept[JCTS_MAX - 1], kept.len()), (0.0, 5000.0, JCTS_MAX));
    }

    #[test]
    fn stops_are_counted_in_classes() {
        let mut outcome = fixture::outcome();
        for (job, preemptions) in outcome.jobs.iter_mut().zip([1, 2, 7, 900]) {
            job.preemptions = preemptions;
        }
        let digest = Digest::new(&ClusterSpec::default(), &[], &outcome);
        assert_eq!(digest.stops, [0, 1, 1, 1, 1]);
    }
}
