//! The linter: everything that is wrong, or odd, in a trace file.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use wharf_core::{JobSpec, Time};

use crate::Trace;
use crate::error::TraceError;
use crate::finding::{Finding, Findings, Keep, Note, Rule, Severity};
use crate::format::{Codec, Format, Roles};
use crate::read::{Input, Located, read_jobs};
use crate::row::RowCheck;
use crate::text::shown;
use wharf_core::nearest::nearest;

/// What a trace is checked against.
#[derive(Clone, Copy, Debug, Default)]
pub struct LintOptions<'a> {
    /// The format; told from the content where it is `None`.
    pub format: Option<Format>,
    /// The models that have profiles; others are reported.
    pub known_models: Option<&'a [&'a str]>,
}

/// What a linter found, and the jobs that it read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Linted {
    /// Errors and warnings, by line.
    pub findings: Vec<Finding>,
    /// The jobs without errors, as [`crate::read_trace`] returns them where there are no errors at all.
    pub trace: Trace,
    lines: Vec<u64>,
    file: Arc<str>,
    codec: &'static Codec,
}

/// The property of a job that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The job as a whole.
    Job,
    /// Its number of devices.
    Devices,
    /// The device types that it may run on.
    DeviceTypes,
    /// Its model.
    Model,
}

impl Linted {
    /// Adds an error about a job, by its place in `trace`. It is reported at the line that the job begins at.
    pub fn reject(
        &mut self,
        job: usize,
        subject: Subject,
        rule: Rule,
        message: String,
        hint: Option<String>,
    ) {
        let roles = &self.codec.roles;
        let column = match subject {
            Subject::Job => roles.id,
            Subject::Devices => roles.devices,
            Subject::DeviceTypes => roles.device_types.unwrap_or(roles.devices),
            Subject::Model => roles.model,
        };
        self.findings.push(Finding {
            file: self.file.clone(),
            line: self.lines.get(job).copied().unwrap_or(1),
            column: Some(self.codec.schema.columns[column].name.into()),
            rule,
            severity: Severity::Error,
            message,
            hint,
        });
    }

    /// Whether a reader refuses the file.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}

/// Lists what is wrong with a trace file, errors and warnings, by line.
///
/// An `Err` means that there are no lines to speak of: no such file, a directory, not text.
pub fn lint(path: &Path, options: &LintOptions<'_>) -> Result<Linted, TraceError> {
    lint_input(Input::open(path, options.format)?, options)
}

/// Lists what is wrong with a trace from any reader; `name` stands for the file.
pub fn lint_reader(
    reader: impl Read + 'static,
    name: &str,
    options: &LintOptions<'_>,
) -> Result<Linted, TraceError> {
    lint_input(Input::from_reader(reader, name, options.format)?, options)
}

fn lint_input(input: Input, options: &LintOptions<'_>) -> Result<Linted, TraceError> {
    let (format, file) = (input.format, Arc::from(input.source.file.as_str()));
    let mut findings = Findings::new(&file, Keep::All);
    let mut checks = Checks {
        is_log: format.codec().log.is_some(),
        roles: format.codec().roles,
        known_models: options.known_models,
        unknown_models: BTreeSet::new(),
        last_submit: Time::ZERO,
    };
    let Located { trace, lines } = read_jobs(input, &mut findings, |job, row| checks.check(job, row))?;
    Ok(Linted { findings: findings.into_list(), trace, lines, file, codec: format.codec() })
}

/// Checks that need more than the row itself.
struct Checks<'a> {
    /// Whether it is a log, where rows in another order are too usual to list.
    is_log: bool,
    roles: Roles,
    known_models: Option<&'a [&'a str]>,
    /// Reported already: once a model is enough.
    unknown_models: BTreeSet<Arc<str>>,
    last_submit: Time,
}

impl Checks<'_> {
    fn check(&mut self, job: &JobSpec, row: &mut RowCheck<'_>) {
        self.check_order(job, row);
        self.check_model(job, row);
        self.check_stages(job, row);
    }

    fn check_order(&mut self, job: &JobSpec, row: &mut RowCheck<'_>) {
        if job.submit < self.last_submit && self.is_log {
            row.adapt(self.roles.id, "submitted before the row above; the reader sorts by submission");
        } else if job.submit < self.last_submit {
            let message =
                format!("submitted at {} s, before the row above ({} s)", job.submit, self.last_submit);
            let note = Note::warning(Rule::UnsortedSubmit, message);
            row.warn(
                self.roles.submit,
                note.hint("the reader sorts jobs by submission; sort the file to see what runs"),
            );
        }
        self.last_submit = job.submit;
    }

    fn check_model(&mut self, job: &JobSpec, row: &mut RowCheck<'_>) {
        let (Some(known), Some(model)) = (self.known_models, &job.model) else { return };
        if known.contains(&&**model) || !self.unknown_models.insert(model.clone()) {
            return;
        }
        let note =
            Note::warning(Rule::UnknownModel, format!("no profile of model {} is known", shown(model)));
        let note = match nearest(model, known.iter().copied()) {
            Some(near) => note.hint(format!("did you mean `{near}`?")),
            None => note,
        };
        row.warn(self.roles.model, note);
    }

    /// Stages overlap and are measured one by one, so they add up to more than an iteration; but not to thrice.
    fn check_stages(&self, job: &JobSpec, row: &mut RowCheck<'_>) {
        const STAGE_PER_ITERATION_MAX: f64 = 2.0;
        let Some(stages) = job.stages else { return };
        let all = [stages.data_ms, stages.compute_ms, stages.network_ms];
        for (place, stage_ms) in all.into_iter().enumerate() {
            if stage_ms > STAGE_PER_ITERATION_MAX * job.iteration_ms {
                let message =
                    format!("the stage takes {stage_ms} ms, the whole iteration {} ms", job.iteration_ms);
                let note = Note::warning(Rule::StageSum, message).hint("are both in milliseconds?");
                row.warn(self.roles.stages + place, note);
            }
        }
    }
}
