//! The linter: everything that is wrong, or odd, in a trace file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use wharf_core::{ClusterSpec, Gang, JobSpec, Time};

use crate::error::TraceError;
use crate::finding::{Finding, Findings, Note, Rule};
use crate::folder::Folder;
use crate::format::{Format, Roles};
use crate::read::{choose, scan};
use crate::row::RowCheck;
use crate::source::{self, Source};
use crate::text::shown;
use wharf_core::nearest::nearest;

/// What a trace is checked against.
#[derive(Clone, Copy, Debug, Default)]
pub struct LintOptions<'a> {
    /// The format; told from the content where it is `None`.
    pub format: Option<Format>,
    /// The cluster that every job must fit.
    pub cluster: Option<&'a ClusterSpec>,
    /// The models that have profiles; others are reported.
    pub known_models: Option<&'a [&'a str]>,
}

/// Lists what is wrong with a trace file, errors and warnings, by line.
///
/// An `Err` means that there are no lines to speak of: no such file, a directory, not text.
pub fn lint(path: &Path, options: &LintOptions<'_>) -> Result<Vec<Finding>, TraceError> {
    let folder = Folder::resolve(path, options.format);
    let main = folder.as_ref().map_or(path, |folder| &folder.main);
    let format = options.format.or(folder.as_ref().map(|folder| folder.format));
    lint_source(source::open(main)?, Some(main), &LintOptions { format, ..*options })
}

/// Lists what is wrong with a trace from any reader; `name` stands for the file.
pub fn lint_reader(
    reader: impl Read + 'static,
    name: &str,
    options: &LintOptions<'_>,
) -> Result<Vec<Finding>, TraceError> {
    lint_source(source::from_reader(Box::new(reader), name)?, None, options)
}

fn lint_source(
    source: Source,
    path: Option<&Path>,
    options: &LintOptions<'_>,
) -> Result<Vec<Finding>, TraceError> {
    let format = choose(&source, options.format, path)?;
    let mut findings = Findings::all(&source.file);
    let mut checks = Checks {
        is_log: format.is_log(),
        roles: format.codec().roles,
        capacity: options.cluster.map(Capacity::new),
        known_models: options.known_models,
        unknown_models: BTreeSet::new(),
        last_submit: Time::ZERO,
    };
    scan(source, format, &mut findings, |job, row| checks.check(&job, row))?;
    Ok(findings.into_list())
}

/// Checks that need more than the row itself.
struct Checks<'a> {
    /// Whether it is a log, where rows in another order are too usual to list.
    is_log: bool,
    roles: Roles,
    capacity: Option<Capacity<'a>>,
    known_models: Option<&'a [&'a str]>,
    /// Reported already: once a model is enough.
    unknown_models: BTreeSet<Arc<str>>,
    last_submit: Time,
}

impl Checks<'_> {
    fn check(&mut self, job: &JobSpec, row: &mut RowCheck<'_>) {
        self.check_order(job, row);
        self.check_capacity(job, row);
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

    fn check_capacity(&self, job: &JobSpec, row: &mut RowCheck<'_>) {
        let Some(capacity) = &self.capacity else { return };
        let available = capacity.for_types(&job.gang.device_types);
        let gang = &job.gang;
        if available == 0 {
            let wanted: Vec<&str> = gang.device_types.iter().map(|name| &**name).collect();
            let message = format!("the cluster has no device of type {}", shown(&wanted.join(";")));
            let note = Note::error(Rule::ImpossibleGang, message);
            row.error(
                self.roles.device_types.unwrap_or(self.roles.devices),
                note.hint(capacity.types_in_words()),
            );
        } else if gang.devices_min > available {
            let message =
                format!("needs {} devices, the cluster has {available}{}", gang.devices_min, of_types(job));
            let note = Note::error(Rule::ImpossibleGang, message);
            row.error(
                self.roles.devices,
                note.hint("such a job waits for ever: use a larger cluster or drop it"),
            );
        } else if gang.devices > available {
            let message =
                format!("asks for {} devices, the cluster has {available}{}", gang.devices, of_types(job));
            let note = Note::warning(Rule::ImpossibleGang, message);
            row.warn(self.roles.devices, note.hint("it can only run shrunk"));
        }
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

fn of_types(job: &JobSpec) -> &'static str {
    if job.gang.device_types.is_empty() { "" } else { " of the types allowed" }
}

/// Devices of each type.
struct Capacity<'a> {
    by_type: BTreeMap<&'a str, u32>,
    total: u32,
}

impl<'a> Capacity<'a> {
    fn new(cluster: &'a ClusterSpec) -> Self {
        let mut by_type = BTreeMap::new();
        for node in &cluster.nodes {
            let count: &mut u32 = by_type.entry(&*node.device_type).or_default();
            *count = count.saturating_add(node.devices);
        }
        let total = by_type.values().fold(0u32, |sum, count| sum.saturating_add(*count));
        Self { by_type, total }
    }

    fn for_types(&self, types: &[Arc<str>]) -> u32 {
        if types.is_empty() || types.iter().any(|name| &**name == Gang::OTHERS) {
            return self.total;
        }
        let types: BTreeSet<&str> = types.iter().map(|name| &**name).collect();
        types.iter().fold(0u32, |sum, name| sum.saturating_add(self.by_type.get(name).copied().unwrap_or(0)))
    }

    fn types_in_words(&self) -> String {
        let types: Vec<_> = self.by_type.keys().map(|name| format!("`{name}`")).collect();
        format!("it has {}", types.join(", "))
    }
}
