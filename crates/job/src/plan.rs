//! Which jobs are handed in, in which order, and which of them wait for one another.

use wharf_document::decode::{Problem, place_of};
use wharf_document::nearest;
use wharf_document::node::Node;
use wharf_proto::JobSpec;
use wharf_proto::dependency::Kind;

use crate::document::{Entered, Format, read};
use crate::error::{FieldError, JobError};
use crate::job::Job;
use crate::resolve::{Context, Resolved, resolve};

/// A job to submit after those that it waits for.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The job as the contract has it.
    pub spec: JobSpec,
    /// The job as its owner wrote it, flags included.
    pub job: Job,
    /// The jobs before it in the plan that it waits for.
    pub waits: Vec<(Kind, usize)>,
    /// The name and the part of the document that it is from; none for flags alone.
    origin: Option<(String, Node)>,
}

impl Planned {
    /// An error about a field of this job that the runner does not support, at its position in the document.
    #[must_use]
    pub fn refused(&self, error: FieldError) -> JobError {
        match &self.origin {
            None => JobError::Flag(error),
            Some((name, node)) => JobError::Document { name: name.clone(), problem: located(node, error) },
        }
    }
}

/// A job file's text, its form, and the name that messages have for it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The name for messages.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
    /// The format of the text.
    pub format: Format,
}

/// The jobs of a file with the flags over each, or one of the flags alone.
///
/// # Errors
/// [`JobError`] for the first job that cannot be.
pub fn plan(source: Option<Source<'_>>, flags: &Job, context: &Context) -> Result<Vec<Planned>, JobError> {
    let Some(source) = source else {
        let Resolved { spec, waits } = resolve(flags, context)?;
        return match waits.into_iter().next() {
            None => Ok(vec![Planned { spec, job: flags.clone(), waits: vec![], origin: None }]),
            Some((_, name, _)) => Err(JobError::NotAnId(name)),
        };
    };
    let entered = read(source.text, source.format).map_err(|problem| of_file(&source, problem))?;
    if entered.is_empty() {
        return Err(JobError::NoJobs(source.name.to_owned()));
    }
    if entered.len() > 1 && (flags.command.is_some() || flags.name.is_some()) {
        return Err(JobError::Several { name: source.name.to_owned(), count: entered.len() });
    }
    let mut resolved = Vec::new();
    for Entered { job, node } in entered {
        let job = flags.clone().over(job);
        let Resolved { spec, waits } =
            resolve(&job, context).map_err(|error| of_file(&source, located(&node, error)))?;
        let origin = Some((source.name.to_owned(), node));
        resolved.push((Planned { spec, job, waits: vec![], origin }, waits));
    }
    ordered(resolved)
}

fn located(node: &Node, FieldError { field, message }: FieldError) -> Problem {
    Problem { place: place_of(node, &field), field, message, hint: None }
}

pub(crate) fn of_file(source: &Source<'_>, problem: Problem) -> JobError {
    JobError::Document { name: source.name.to_owned(), problem }
}

/// The jobs of the file that a job waits for, by name, and the field that states this.
type Waits = Vec<(Kind, String, &'static str)>;

/// Puts jobs behind those of the same file that they wait for, and leaves them in their order otherwise.
fn ordered(mut resolved: Vec<(Planned, Waits)>) -> Result<Vec<Planned>, JobError> {
    let mut waits: Vec<Vec<(Kind, usize)>> = Vec::new();
    for (job, names) in &resolved {
        let found = names.iter().map(|(kind, name, field)| {
            let index = find(&resolved, name).map_err(|(message, hint)| {
                let mut error = job.refused(FieldError::new(field, message));
                if let JobError::Document { problem, .. } = &mut error {
                    problem.hint = hint;
                }
                error
            })?;
            Ok((*kind, index))
        });
        waits.push(found.collect::<Result<_, JobError>>()?);
    }
    // Where in the plan each job is; `None` while it is not.
    let mut positions: Vec<Option<usize>> = vec![None; resolved.len()];
    for position in 0..resolved.len() {
        let is_next = |&index: &usize| {
            positions[index].is_none() && waits[index].iter().all(|&(_, other)| positions[other].is_some())
        };
        let Some(index) = (0..resolved.len()).find(is_next) else {
            let stuck = positions.iter().position(Option::is_none).unwrap_or_default();
            let (job, names) = &resolved[stuck];
            let field = names.first().map_or("", |(.., field)| field);
            return Err(job
                .refused(FieldError::new(field, "it waits for itself, through the jobs that it waits for")));
        };
        let known = waits[index].iter().filter_map(|&(kind, other)| Some((kind, positions[other]?)));
        resolved[index].0.waits = known.collect();
        positions[index] = Some(position);
    }
    let mut planned: Vec<_> = positions.into_iter().zip(resolved).collect();
    planned.sort_by_key(|(position, _)| *position);
    Ok(planned.into_iter().map(|(_, (job, _))| job).collect())
}

/// The job of that name, or why there is none and what may have been meant.
fn find(resolved: &[(Planned, Waits)], name: &str) -> Result<usize, (String, Option<String>)> {
    let names = || resolved.iter().map(|(job, _)| job.spec.name.as_str());
    let mut found = names().enumerate().filter(|(_, other)| *other == name).map(|(index, _)| index);
    match (found.next(), found.next()) {
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => Err((
            format!("several jobs of this file are called `{name}`"),
            Some("use unique names".to_owned()),
        )),
        (None, _) => {
            let hint = nearest(name, names()).map(|name| format!("did you mean `{name}`?"));
            let other = "other jobs are named by their id".to_owned();
            Err((format!("no job of this file is called `{name}`"), hint.or(Some(other))))
        }
    }
}
