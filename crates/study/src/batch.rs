//! Several policies on one trace and cluster: run in parallel, summed up and, where asked for, written to files.

use std::collections::BTreeMap;
use std::fs;
use std::io::BufWriter;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use wharf_core::ClusterSpec;
use wharf_document::shell::line;
use wharf_perf::Profile;
use wharf_policy::governor::Limits;
use wharf_report::files::{
    self, EVENTS_JSONL, EventWriter, FinishedCounter, OnFinished, REPORT_HTML, RoundWriter,
};
use wharf_report::html::{Page, PageRun};
use wharf_report::plot::{self, CdfSeries, Plot, StepSeries};
use wharf_report::{Breakdown, FileError, Report, RunLabels, SparkRun, Summary, human};
use wharf_sim::sweep::parallel::map_in_order;
use wharf_sim::{FailureList, Measure, Outcome, Prepared, Preset, Recorder, RunSpec, Settings};
use wharf_staging::StagedFile;
use wharf_trace::Trace;

use crate::{OutDir, PageFile, StudyError};

/// What to run.
#[derive(Debug)]
pub struct Batch {
    /// The workload.
    pub trace: Trace,
    /// What tables call the cluster.
    pub cluster_name: String,
    /// The machines.
    pub cluster: ClusterSpec,
    /// The rules.
    pub preset: Preset,
    /// Overrides, by policy.
    pub settings: BTreeMap<String, Settings>,
    /// Who may have how much.
    pub limits: Option<Limits>,
    /// The seed.
    pub seed: u64,
    /// How fast models run where.
    pub profile: Option<Profile>,
    /// Rounds after which runs end.
    pub rounds: Option<u64>,
    /// The content of failure files that settings name, by policy.
    pub failures: BTreeMap<String, FailureList>,
    /// The part of the runs that metrics are about.
    pub measure: Option<Measure>,
    /// The policies, each once.
    pub policies: Vec<String>,
    /// How many of them at the same time.
    pub threads: NonZeroUsize,
    /// The options that repeat the run of a policy, where that is possible.
    pub again: BTreeMap<String, Vec<String>>,
}

/// Files to write.
#[derive(Debug, Default)]
pub struct Outputs {
    /// A directory for all files.
    pub dir: Option<OutDir>,
    /// A page of its own.
    pub page: Option<PageFile>,
}

/// What is left of a run.
struct Ran {
    summary: Summary,
    /// For a page; only where one is written.
    page: Option<PageRun>,
    /// Its curves; only if they are wanted.
    spark: Option<SparkRun>,
}

/// Result of a batch for its caller.
#[derive(Debug)]
pub struct Results {
    /// Its runs.
    pub report: Report,
    /// Their curves, if they were wanted.
    pub sparks: Vec<SparkRun>,
}

impl Results {
    /// A sentence for each run that left jobs unfinished.
    pub fn unfinished(&self) -> Vec<String> {
        let sentence = |run: &Summary| {
            let unfinished = run.jobs - run.finished;
            let when = run.cut_off_s.map(human::duration);
            let when = when.map_or_else(String::new, |when| format!(" when it was cut off after {when}"));
            format!("`{}` left {unfinished} of {} jobs unfinished{when}", run.policy, run.jobs)
        };
        // Where jobs are packed, none ends.
        let is_short = |run: &&Summary| run.finished < run.jobs && !run.is_packing();
        self.report.runs.iter().filter(is_short).map(sentence).collect()
    }
}

impl Batch {
    /// Checks every policy, its settings and that every job fits.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn prepare(&self) -> Result<PreparedBatch<'_>, StudyError> {
        let runs = self.policies.iter().map(|policy| self.prepare_run(policy)).collect::<Result<_, _>>()?;
        Ok(PreparedBatch { batch: self, runs })
    }

    /// Checks one of the policies.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn prepare_run<'a>(&'a self, policy: &'a str) -> Result<PreparedRun<'a>, StudyError> {
        let run = wharf_sim::prepare(&self.spec(policy), self.limits.as_ref())?;
        Ok(PreparedRun { batch: self, policy, run })
    }

    fn settings_of(&self, policy: &str) -> &Settings {
        static NONE: Settings = Settings::NONE;
        self.settings.get(policy).unwrap_or(&NONE)
    }

    fn spec<'a>(&'a self, policy: &'a str) -> RunSpec<'a> {
        RunSpec {
            trace: &self.trace,
            cluster: &self.cluster,
            policy,
            preset: &self.preset,
            settings: self.settings_of(policy),
            seed: self.seed,
            profile: self.profile.as_ref(),
            rounds: self.rounds,
            failures: self.failures.get(policy),
        }
    }

    /// What a page shows of a run.
    fn page_run(&self, summary: &Summary, outcome: &Outcome) -> PageRun {
        let run = PageRun::new(summary.clone(), &self.cluster, &self.trace.jobs, outcome);
        let Some(again) = self.again.get(&summary.policy) else { return run };
        let head = ["wharf", "sim", "--policy", &summary.policy];
        run.with_command(line(head.into_iter().chain(again.iter().map(String::as_str))))
    }

    /// The metrics of a run.
    pub fn summary(&self, policy: &str, outcome: &Outcome, wall_ms: f64) -> Summary {
        // Runs with different windows are not comparable.
        let window = self.measure.map_or_else(String::new, |measure| format!(" [{measure}]"));
        let labels = RunLabels {
            policy: policy.to_owned(),
            trace: format!("{}{window}", self.trace.name),
            preset: self.preset.name.clone(),
            cluster: self.cluster_name.clone(),
            seed: self.seed,
        };
        Summary::new(labels, outcome, wall_ms)
    }

    fn write_files(&self, dir: &Path, run: &PageRun, outcome: &Outcome) -> Result<(), FileError> {
        let jobs = &self.trace.jobs;
        files::write_jobs(&dir.join(files::JOBS_CSV), jobs, outcome)?;
        files::write_timeline(&dir.join(files::TIMELINE_CSV), outcome)?;
        files::write_breakdown(&dir.join(files::BREAKDOWN_CSV), &Breakdown::new(jobs, outcome))?;
        files::write_digest(&dir.join(files::RUN_JSON), &run.digest)?;
        files::write_summary(&dir.join(files::SUMMARY_JSON), &Report::new(vec![run.summary.clone()]))
    }

    fn plots(&self, summary: &Summary, outcome: &Outcome) -> [(&'static str, Plot); 4] {
        let name = &summary.policy;
        let counted = outcome.jobs.iter().filter(|job| outcome.counts(job));
        let jcts_s = counted.filter_map(wharf_sim::JobRecord::jct_s).collect();
        let cdf = plot::jct_cdf(&[CdfSeries { name: name.clone(), jcts_s }]);
        let busy =
            plot::utilization(&[StepSeries::utilization(name, &outcome.timeline, outcome.device_count)]);
        let queue = plot::queue_length(&[StepSeries::queue_length(name, &outcome.timeline)]);
        let nodes = plot::node_devices(&self.cluster);
        let gantt =
            plot::gantt(&format!("{name}: jobs on devices"), &nodes, &outcome.spans, &self.trace.jobs);
        [("jct-cdf", cdf), ("utilization", busy), ("queue", queue), ("gantt", gantt)]
    }

    /// The run's directory: trace, policy, and settings where there are any.
    fn run_name(&self, policy: &str) -> String {
        let variant =
            self.settings_of(policy).iter().map(|(key, value)| match Path::new(value).file_stem() {
                Some(stem) if Path::new(value).is_file() => format!("-{key}-{}", stem.to_string_lossy()),
                _ => format!("-{key}-{value}"),
            });
        let name: String = std::iter::once(format!("{}-{policy}", self.trace.name)).chain(variant).collect();
        let plain = |letter: char| letter.is_alphanumeric() || "-_.+".contains(letter);
        let name: String = name.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect();
        name.trim_start_matches('.').to_owned()
    }
}

/// The runs of a batch, checked.
#[derive(Debug)]
pub struct PreparedBatch<'a> {
    batch: &'a Batch,
    runs: Vec<PreparedRun<'a>>,
}

/// The run of one policy, checked.
#[derive(Debug)]
pub struct PreparedRun<'a> {
    batch: &'a Batch,
    policy: &'a str,
    run: Prepared<'a>,
}

impl PreparedBatch<'_> {
    /// Runs everything, and puts files and a page where they are wanted. Results come in the order of the policies, with curves if
    /// `has_curves`. `on_finished` counts finished jobs of all runs.
    ///
    /// # Errors
    /// The first failure; nothing is left behind then.
    pub fn run(
        self,
        outputs: Outputs,
        command: &str,
        has_curves: bool,
        on_finished: OnFinished<'_>,
    ) -> Result<Results, StudyError> {
        let Self { batch, runs } = self;
        let order: Vec<usize> = (0..runs.len()).collect();
        let Outputs { dir, page } = outputs;
        // Each is taken once.
        let runs: Vec<_> = runs.into_iter().map(|run| Mutex::new(Some(run))).collect();
        let ran = map_in_order(&runs, &order, batch.threads, |_, run| {
            let run = run.lock().unwrap_or_else(PoisonError::into_inner).take();
            run.map(|run| match &dir {
                Some(out) => run.into_files(out, has_curves, on_finished),
                None => run.alone(page.is_some(), has_curves, on_finished),
            })
            .transpose()
        })?;
        let (mut summaries, mut runs, mut sparks) = (Vec::new(), Vec::new(), Vec::new());
        for ran in ran.into_iter().flatten().flatten() {
            summaries.push(ran.summary);
            runs.extend(ran.page);
            sparks.extend(ran.spark);
        }
        let title = format!("{} on {}", batch.trace.name, batch.cluster_name);
        let shown = Page { title, commands: vec![command.to_owned()], runs, tables: vec![] };
        if dir.is_some() || page.is_some() {
            let text = wharf_report::html::render(&shown);
            let page = page.map(|page| page.write(&text)).transpose()?;
            dir.as_ref().map(|out| out.write(Path::new(REPORT_HTML), &text)).transpose()?;
            // Everything is written before anything appears.
            dir.map(OutDir::commit).transpose()?;
            page.map(StagedFile::commit).transpose()?;
        }
        Ok(Results { report: Report::new(summaries), sparks })
    }
}

impl PreparedRun<'_> {
    /// Simulates; gives what came out and how long that took.
    ///
    /// # Errors
    /// What goes wrong in the run.
    pub fn simulate(self, recorder: &mut dyn Recorder) -> Result<(Outcome, f64), StudyError> {
        let started = Instant::now();
        let outcome = self.run.run(recorder)?;
        let outcome = match self.batch.measure {
            Some(measure) => outcome.measured(measure, &self.batch.trace.jobs),
            None => outcome,
        };
        Ok((outcome, started.elapsed().as_secs_f64() * 1000.0))
    }

    fn alone(self, is_shown: bool, has_curves: bool, on_finished: OnFinished<'_>) -> Result<Ran, StudyError> {
        let Self { batch, policy, .. } = self;
        // The use of devices in a part of the time is read off the timeline.
        let has_timeline = is_shown || has_curves || batch.measure.is_some();
        let mut recorder = FinishedCounter::new(on_finished).with_timeline(has_timeline);
        let (outcome, wall_ms) = self.simulate(&mut recorder)?;
        let summary = batch.summary(policy, &outcome, wall_ms);
        let page = is_shown.then(|| batch.page_run(&summary, &outcome));
        let spark = has_curves.then(|| SparkRun::new(policy, &outcome));
        Ok(Ran { summary, page, spark })
    }

    fn into_files(
        self,
        out: &OutDir,
        has_curves: bool,
        on_finished: OnFinished<'_>,
    ) -> Result<Ran, StudyError> {
        let Self { batch, policy, .. } = self;
        let jobs = &batch.trace.jobs;
        let name = batch.run_name(policy);
        let dir = out.path().join(&name);
        let events = out.target().join(&name).join(EVENTS_JSONL);
        let failed = |error| StudyError::write(&events, error);
        fs::create_dir(&dir).map_err(failed)?;
        let file = fs::File::create(dir.join(EVENTS_JSONL)).map_err(failed)?;
        let mut recorder = EventWriter::new(BufWriter::with_capacity(1 << 18, file), jobs, on_finished)
            .with_rounds(RoundWriter::new(&dir, jobs));
        let (outcome, wall_ms) = self.simulate(&mut recorder)?;
        recorder.finish().map_err(failed)?;
        let summary = batch.summary(policy, &outcome, wall_ms);
        let page = batch.page_run(&summary, &outcome);
        batch.write_files(&dir, &page, &outcome).map_err(|error| out.failed(error))?;
        for (stem, plot) in batch.plots(&summary, &outcome) {
            out.write(&Path::new(&name).join(format!("{stem}.svg")), plot.to_svg())?;
            out.write(&Path::new(&name).join(format!("{stem}.pdf")), plot.to_pdf())?;
        }
        let spark = has_curves.then(|| SparkRun::new(policy, &outcome));
        Ok(Ran { summary, page: Some(page), spark })
    }
}

/// Each name once.
///
/// # Errors
/// Where a name is there twice, or empty: the runs could not be distinguished.
pub fn distinct(policies: &[String]) -> Result<Vec<String>, StudyError> {
    for (index, policy) in policies.iter().enumerate() {
        if policy.trim().is_empty() {
            return Err(StudyError::NamelessPolicy);
        }
        if policies[..index].contains(policy) {
            return Err(StudyError::RepeatedPolicy(policy.clone()));
        }
    }
    Ok(policies.to_vec())
}
