//! Which jobs are handed in, in which order, and which of them wait for one another.

use wharf_proto::JobSpec;
use wharf_proto::dependency::Kind;
use wharf_sim::nearest::nearest;

use super::decode::Problem;
use super::node::Place;
use super::ray::RayJob;
use super::resolve::{Resolved, Wrong, resolve};
use super::{Context, Entered, Format, Job, SlurmExecutor, place_of, read};
use crate::error::CliError;

/// A job to hand in after those that it waits for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    pub(crate) spec: JobSpec,
    /// What a Ray cluster is told, where one is to run it.
    pub(crate) ray: Option<RayJob>,
    /// Which of the jobs before it in the plan it waits for.
    pub(crate) waits: Vec<(Kind, usize)>,
    /// It is for a Slurm instead of the head.
    pub(crate) slurm: Option<SlurmExecutor>,
}

/// A job file's text, its form, and the name that messages have for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    pub(crate) format: Format,
}

/// The jobs of a file with the flags over each, or one of the flags alone.
pub(crate) fn plan(
    source: Option<Source<'_>>,
    flags: &Job,
    context: &Context,
) -> Result<Vec<Planned>, CliError> {
    let Some(source) = source else {
        let Resolved { spec, ray, waits, slurm } =
            resolve(flags, context).map_err(|wrong| of_flags(&wrong))?;
        return match waits.first() {
            None => Ok(vec![Planned { spec, ray, waits: vec![], slurm }]),
            Some((_, name, _)) => Err(CliError::usage(format!("`{name}` is not a job id"))
                .hint("names refer only to jobs of the same file")),
        };
    };
    let entered = read(source.text, source.format).map_err(|problem| of_file(&source, problem))?;
    if entered.is_empty() {
        return Err(CliError::input(format!("`{}` has no jobs", source.name))
            .hint("print an example with `wharf submit --example yaml`"));
    }
    if entered.len() > 1 && (flags.command.is_some() || flags.name.is_some()) {
        return Err(CliError::usage(format!(
            "`{}` has {} jobs; a name or command cannot apply to all",
            source.name,
            entered.len()
        ))
        .hint("change the file, or submit a file with one job"));
    }
    let mut resolved = Vec::new();
    for job in &entered {
        let at = |wrong: Wrong| of_file(&source, located(job, wrong));
        let job = flags.clone().over(job.job.clone());
        resolved.push(resolve(&job, context).map_err(at)?);
    }
    ordered(&entered, resolved).map_err(|problem| of_file(&source, problem))
}

fn located(job: &Entered, Wrong { field, message }: Wrong) -> Problem {
    Problem { place: place_of(&job.node, &field), field, message, hint: None }
}

fn of_flags(wrong: &Wrong) -> CliError {
    CliError::usage(format!("{}: {}", wrong.field, wrong.message))
}

pub(super) fn of_file(source: &Source<'_>, problem: Problem) -> CliError {
    let Place { line, column } = problem.place;
    let place = if line > 0 { format!("{}:{line}:{column}", source.name) } else { source.name.to_owned() };
    let field = if problem.field.is_empty() { String::new() } else { format!("{}: ", problem.field) };
    let error = CliError::input(format!("{place}: {field}{}", problem.message));
    match problem.hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// Puts jobs behind those of the same file that they wait for, and leaves them in their order otherwise.
fn ordered(entered: &[Entered], resolved: Vec<Resolved>) -> Result<Vec<Planned>, Problem> {
    let mut waits: Vec<Vec<(Kind, usize)>> = Vec::new();
    for (entry, job) in entered.iter().zip(&resolved) {
        let found = job.waits.iter().map(|(kind, name, field)| {
            let index = find(&resolved, name).map_err(|(message, hint)| Problem {
                hint,
                ..located(entry, Wrong { field: (*field).to_owned(), message })
            })?;
            Ok((*kind, index))
        });
        waits.push(found.collect::<Result<_, Problem>>()?);
    }
    // Where in the plan each job is; `None` while it is not.
    let mut positions: Vec<Option<usize>> = vec![None; resolved.len()];
    let mut planned = Vec::new();
    while planned.len() < resolved.len() {
        let is_next = |&index: &usize| {
            positions[index].is_none() && waits[index].iter().all(|&(_, other)| positions[other].is_some())
        };
        let Some(index) = (0..resolved.len()).find(is_next) else {
            let stuck = (0..resolved.len()).find(|&index| positions[index].is_none()).unwrap_or_default();
            let message = "it waits for itself, through the jobs that it waits for".to_owned();
            let field = resolved[stuck].waits.first().map_or("", |(.., field)| field).to_owned();
            return Err(located(&entered[stuck], Wrong { field, message }));
        };
        positions[index] = Some(planned.len());
        let waits = waits[index].iter().filter_map(|&(kind, other)| Some((kind, positions[other]?)));
        let Resolved { spec, ray, slurm, .. } = resolved[index].clone();
        planned.push(Planned { spec, ray, waits: waits.collect(), slurm });
    }
    Ok(planned)
}

/// The job of that name, or why there is none and what may have been meant.
fn find(resolved: &[Resolved], name: &str) -> Result<usize, (String, Option<String>)> {
    let names = || resolved.iter().map(|job| job.spec.name.as_str());
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
