//! Sweep files: parameters over a job. What they become is one array, whose element `i` has the `i`-th configuration.

mod clash;
mod placeholders;
mod record;
mod results;
mod search;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use wharf_document::decode::{Decode, Fields, Problem, place_of};
use wharf_document::node::{Node, Value};
use wharf_proto::{Configuration, JobSpec, Parameters};

use crate::array::Array;
use crate::error::{FieldError, JobError};
use crate::job::Job;
use crate::plan::{Source, of_file};
use crate::resolve::{Context, Resolved, path_below, resolve, stem};
use crate::units::UnitError;
pub use clash::clashes;
use clash::shares_checkpoint_dir;
pub use placeholders::{Placeholders, placeholders};
pub use record::{Submission, SweepFolderError, SweepRecord};
pub use results::{SweepResults, SweepResultsError};
use search::{Domain, Kind, Search};

/// What a sweep file says.
const FIELDS: &[&str] = &["name", "parameters", "search", "count", "seed", "csv", "job"];

/// A sweep that can be submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// What it is called.
    pub name: String,
    /// The array, with all parameters.
    pub spec: JobSpec,
}

impl Sweep {
    /// The parameters' names, and the configurations by index.
    #[must_use]
    pub fn parameters(&self) -> (&[String], &[Configuration]) {
        self.spec.parameters.as_ref().map_or((&[], &[]), |all| (&all.names, &all.rows))
    }
}

/// Reads a sweep file.
///
/// # Errors
/// [`JobError`] at the field that is wrong.
pub fn sweep(source: Source<'_>, flags: &Job, context: &Context) -> Result<Sweep, JobError> {
    let read = |problem| of_file(&source, problem);
    let node = source.format.parse(source.text).map_err(read)?;
    decode(&node, flags, context).map_err(read)
}

fn decode(node: &Node, flags: &Job, context: &Context) -> Result<Sweep, Problem> {
    let fields = Fields::new(node, "", FIELDS)?;
    let at = |field: &str, message: String| Problem {
        place: place_of(node, field),
        field: field.to_owned(),
        message,
        hint: None,
    };
    let domains = fields.take::<Domains>("parameters")?;
    let table: Option<String> = fields.take("csv")?;
    let parameters = match (domains, table) {
        (Some(Domains(domains)), None) => {
            let search = Search {
                kind: fields.take("search")?.unwrap_or(Kind::Grid),
                count: fields.take("count")?,
                seed: fields.take("seed")?.unwrap_or(0),
            };
            search.parameters(&domains).map_err(|(field, message)| at(&field, message))?
        }
        (None, Some(table)) => {
            let path = path_below(context, &context.folder, &table);
            from_csv(&path).map_err(|error| at("csv", error.message()))?
        }
        (Some(_), Some(_)) => {
            return Err(at("csv", "it has the parameters; leave `parameters` out".to_owned()));
        }
        (None, None) => {
            return Err(at(
                "",
                "the sweep has no parameters; set `parameters`, or a file with `csv`".to_owned(),
            ));
        }
    };
    let job: Option<Job> = fields.take("job")?;
    let Some(job) = job else { return Err(at("", "the sweep has no job; add `job`".to_owned())) };
    if flags.array.is_some() || job.array.is_some() {
        return Err(at("job.array", "a sweep is an array already; leave it out".to_owned()));
    }
    let name: Option<String> = fields.take("name")?;
    let count = parameters.rows.len();
    let indexes = (0..u32::try_from(count).unwrap_or(u32::MAX)).collect();
    let array = Array::new(indexes).map_err(|error| at("parameters", error.to_string()))?;
    let job = Job { array: Some(array), ..flags.clone().over(job) };
    let job = Job { name: job.name.clone().or(name), ..job };
    let is_named = job.name.is_some();
    let refused = |FieldError { field, message }| at(&format!("job.{field}"), message);
    let Resolved { mut spec, waits, .. } = resolve(&job, context).map_err(refused)?;
    if let Some((_, name, field)) = waits.first() {
        return Err(at(
            &format!("job.{field}"),
            format!("`{name}` is not a job id; a sweep has no other jobs"),
        ));
    }
    spec.parameters = Some(parameters);
    crate::check::check(&spec).map_err(|error| at("parameters", error.problem.to_string()))?;
    if shares_checkpoint_dir(&spec) {
        let message = "several elements would overwrite each other's checkpoints there; put %a into it, or leave it out: each \
                       element then gets a directory of its own";
        return Err(at("job.checkpoint.dir", message.to_owned()));
    }
    check_placeholders(&placeholders(&spec)).map_err(|(field, message)| at(&field, message))?;
    let name = if is_named { spec.name.as_str() } else { stem(&spec.name) };
    Ok(Sweep { name: name.to_owned(), spec })
}

/// Refuses parameters that have no effect, and placeholders that no parameter fills in.
fn check_placeholders(found: &Placeholders) -> Result<(), (String, String)> {
    let unknown = found.unknown.first().or(found.doubtful.first());
    match (found.unused.first(), found.unknown.first()) {
        (Some(name), _) => {
            let unknown =
                unknown.map_or(String::new(), |unknown| format!(", and `{{{unknown}}}` is no parameter"));
            let message = format!(
                "nothing uses it{unknown}; put `{{{name}}}` into the command, or into a variable as in `env: {{X: '{{{name}}}'}}`"
            );
            Err((format!("parameters.{name}"), message))
        }
        (None, Some(unknown)) => {
            let message =
                format!("`{{{unknown}}}` is no parameter; name it in `parameters`, or leave the braces out");
            Err(("job.command".to_owned(), message))
        }
        (None, None) => Ok(()),
    }
}

/// Parameters in the order of the file.
struct Domains(Vec<(String, Domain)>);

impl Decode for Domains {
    fn decode(node: &Node, at: &str) -> Result<Self, Problem> {
        let Value::Map(entries) = &node.value else {
            let message = format!("expected a map from names to values, found {}", node.kind());
            return Err(Problem { place: node.place, field: at.to_owned(), message, hint: None });
        };
        let read = entries.iter().map(|entry| {
            let domain = Domain::decode(&entry.value, &wharf_document::decode::path(at, &entry.key))?;
            Ok((entry.key.clone(), domain))
        });
        read.collect::<Result<_, _>>().map(Self)
    }
}

/// Why a table of parameters cannot be used.
#[derive(Debug, thiserror::Error)]
enum TableError {
    #[error("cannot read `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: csv::Error,
    },
    #[error("`{}` has no rows below its header", path.display())]
    Empty { path: PathBuf },
}

impl TableError {
    /// The message of a problem of the sweep file.
    fn message(&self) -> String {
        match self {
            Self::Read { source, .. } => format!("{self}: {source}"),
            Self::Empty { .. } => self.to_string(),
        }
    }
}

/// A column for each parameter, a row for each configuration.
fn from_csv(path: &Path) -> Result<Parameters, TableError> {
    let failed = |source: csv::Error| TableError::Read { path: path.to_owned(), source };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(path).map_err(failed)?;
    let texts = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<String>>();
    let names = texts(reader.headers().map_err(failed)?);
    let rows = reader.records().map(|record| Ok(Configuration { values: texts(&record?) }));
    let rows = rows.collect::<Result<Vec<_>, csv::Error>>().map_err(failed)?;
    if rows.is_empty() {
        return Err(TableError::Empty { path: path.to_owned() });
    }
    Ok(Parameters { names, rows })
}

/// A text that is no number.
fn number(text: &str) -> Result<f64, UnitError> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| UnitError::new(text, "a number"))
}
