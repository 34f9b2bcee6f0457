//! `wharf history`: what a cluster has done, as a trace.

use std::io::Write as _;

use wharf_core::{ClusterSpec, JobEnd, JobId, JobImage, JobSpec, NodeSpec, Phase, Time};
use wharf_head::PolicyChoice;
use wharf_sim::{Deadlines, JobRecord, MetricRules, NoRecorder, Outcome, RunSpec, Tally};
use wharf_trace::{Format, Trace, write_cluster, write_trace};

use super::super::connect::with;
use super::super::regime;
use super::Foresight;
use super::whatif::has_run;
use crate::args::HistoryArgs;
use crate::error::{CliError, translate};
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;
use wharf_staging::StagedFile;

/// Writes the jobs that a head has seen as a trace.
pub(in crate::commands) fn history(args: &HistoryArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let foresight = with(&args.home, async |client| Foresight::ask(client, u32::MAX).await)?;
    let window = window(&foresight, args.since.map(|since| since.0));
    if window.trace.jobs.is_empty() {
        return Err(CliError::input("no job ended in that period"));
    }
    let format = Format::from_path(&args.as_trace).unwrap_or(Format::NATIVE_CSV);
    let mut file = StagedFile::create(&args.as_trace)?;
    let losses = write_trace(&window.trace, format, &mut file)
        .map_err(|error| CliError::write(&args.as_trace, error))?;
    let cluster = args.cluster.as_deref().map(StagedFile::create).transpose()?;
    if let (Some(mut cluster), Some(path)) = (cluster, &args.cluster) {
        write_cluster(&window.cluster, &mut cluster).map_err(|error| CliError::write(path, error))?;
        cluster.flush().map_err(|error| CliError::write(path, error))?;
        cluster.commit()?;
    }
    file.commit()?;
    for loss in losses {
        terminal.warn(&loss.to_string());
    }
    let left_out = match window.left_out {
        0 => String::new(),
        count => format!("; {count} that are not over, or never ran, are left out"),
    };
    terminal.note(&format!(
        "{} jobs are in `{}`{left_out}",
        window.trace.jobs.len(),
        args.as_trace.display()
    ));
    Ok(Exit::Ok)
}

/// Jobs of a stretch of time with the lengths that they really had, and where they ran.
pub(super) struct Window {
    pub(super) trace: Trace,
    pub(super) cluster: ClusterSpec,
    images: Vec<JobImage>,
    left_out: usize,
}

/// The jobs submitted in the last so many seconds, or ever, that have come to an end of their own.
pub(super) fn window(foresight: &Foresight, since_s: Option<f64>) -> Window {
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
    let cluster = ClusterSpec { nodes: nodes.map(|node| NodeSpec::clone(&node.spec)).collect() };
    Window { trace, cluster, images: images.into_iter().map(|(_, image)| image).collect(), left_out }
}

impl Window {
    /// What happened.
    pub(super) fn outcome(&self) -> Outcome {
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

    /// What would have happened under a policy.
    pub(super) fn simulate(&self, choice: &PolicyChoice) -> Result<Outcome, CliError> {
        let settings = regime::settings(choice)?;
        let preset = input::preset("wharf")?;
        let spec = RunSpec {
            trace: &self.trace,
            cluster: &self.cluster,
            policy: &choice.name,
            preset: &preset,
            settings: &settings,
            seed: super::SEED,
            profile: None,
            rounds: None,
            failures: None,
        };
        wharf_sim::run(&spec, &mut NoRecorder).map_err(|error| translate::run(&error))
    }
}
