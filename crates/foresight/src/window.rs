//! The history of a head as a trace, and as the outcome of a run.

use wharf_core::{ClusterSpec, JobEnd, JobId, JobImage, JobSpec, NodeSpec, Phase, Time};
use wharf_head::PolicyChoice;
use wharf_sim::{Deadlines, JobRecord, MetricRules, NoRecorder, Outcome, Preset, RunSpec, Tally};
use wharf_trace::Trace;

use crate::{Foresight, ForesightError, SEED, regime};

/// The jobs of a period with their actual lengths, and the nodes.
pub struct Window {
    /// The jobs.
    pub trace: Trace,
    /// The nodes.
    pub cluster: ClusterSpec,
    /// Number of jobs of the period that are not over, or never ran.
    pub left_out: usize,
    images: Vec<JobImage>,
}

impl Window {
    /// The jobs submitted in the last `since_s` seconds, or ever, that ran to an end of their own.
    pub fn new(foresight: &Foresight, since_s: Option<f64>) -> Self {
        let live = &foresight.live;
        let from =
            since_s.map_or(Time::ZERO, |since_s| Time::from_seconds((live.now.seconds() - since_s).max(0.0)));
        let jobs = live.jobs.iter().filter(|job| job.image.spec.submit >= from);
        let (mut images, mut left_out) = (Vec::new(), 0);
        for job in jobs {
            match job.image.phase {
                Phase::Ended(end) if has_run(end) && job.image.attained_s > 0.0 => {
                    images.push((job.id, job.image.clone()));
                }
                _ => left_out += 1,
            }
        }
        images.sort_by_key(|(id, image)| (image.spec.submit, *id));
        let first = images.first().map_or(Time::ZERO, |(_, image)| image.spec.submit);
        let spec = |(id, image): &(u32, JobImage)| {
            let spec = &image.spec;
            JobSpec {
                name: format!("{}-{id}", spec.name).into(),
                submit: Time::from_seconds(spec.submit.since(first)),
                iterations: image.attained_s * 1000.0 / spec.iteration_ms,
                weight: 1.0,
                deadline: spec.deadline.map(|deadline| Time::from_seconds(deadline.since(first).max(0.0))),
                array: None,
                ..spec.clone()
            }
        };
        let trace = Trace { name: "history".to_owned(), jobs: images.iter().map(spec).collect() };
        let nodes = live.nodes.iter().filter(|node| node.is_there && !node.is_cordoned);
        let cluster = ClusterSpec::of(nodes.map(|node| NodeSpec::clone(&node.spec)).collect());
        Self { trace, cluster, images: images.into_iter().map(|(_, image)| image).collect(), left_out }
    }

    /// What happened.
    pub fn outcome(&self) -> Outcome {
        let record = |(index, image): (usize, &JobImage)| JobRecord {
            job: JobId::from_index(index),
            devices: image.spec.gang.devices,
            submit: image.spec.submit,
            first_start: image.first_start,
            end: image.end,
            queue_s: image.end.map_or(0.0, |end| (end.since(image.spec.submit) - image.attained_s).max(0.0)),
            run_s: image.attained_s,
            preemptions: image.preemptions,
            failures: 0,
        };
        let done = |image: &JobImage| image.end.filter(|_| image.phase == Phase::Ended(JobEnd::Finished));
        // One that failed was not done in time, whenever that was.
        let ends = self.images.iter().map(|image| (image.spec.deadline, done(image).or(Some(Time::FAR))));
        let held = |image: &JobImage| image.attained_s * f64::from(image.spec.gang.devices);
        Outcome {
            jobs: self.images.iter().enumerate().map(record).collect(),
            timeline: Vec::new(),
            spans: Vec::new(),
            event_count: 0,
            busy_device_s: self.images.iter().map(held).sum(),
            device_count: self.cluster.device_count(),
            rules: MetricRules::Wharf,
            tally: Tally { deadlines: Deadlines::count(ends, Time::ZERO), ..Tally::default() },
            measure: None,
            packing: None,
        }
    }

    /// What would have happened with a policy.
    ///
    /// # Errors
    /// [`ForesightError::Run`] where the policy cannot be built, or the run fails.
    pub fn simulate(&self, choice: &PolicyChoice) -> Result<Outcome, ForesightError> {
        let settings = regime::settings(choice)?;
        let preset = Preset::load("wharf")?;
        let spec = RunSpec {
            trace: &self.trace,
            cluster: &self.cluster,
            policy: &choice.name,
            preset: &preset,
            settings: &settings,
            seed: SEED,
            profile: None,
            rounds: None,
            failures: None,
        };
        Ok(wharf_sim::run(&spec, &mut NoRecorder)?)
    }
}

/// Whether a job came to an end of its own.
fn has_run(end: JobEnd) -> bool {
    !matches!(end, JobEnd::Cancelled | JobEnd::Rejected)
}
