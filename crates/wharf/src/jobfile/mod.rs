//! What users write to submit jobs: files in YAML, TOML or JSON, and flags that lie over them.
//!
//! A document becomes a tree that knows its places (crate `wharf-document`), the tree a typed [`Job`] (`job`), and a job the contract's
//! spec (`resolve`). Every refusal names file, line, column and field, and says what to write instead.

mod array;
mod choice;
mod container;
mod environment;
mod executor;
pub mod job;
mod plan;
mod ray;
mod resolve;
mod secrets;
pub(crate) mod shown;
#[cfg(test)]
mod tests;
mod tune;
mod units;
mod words;

use std::path::Path;

use clap::ValueEnum;

pub use array::{Array, ArrayError};
pub use container::{Container, Mount, Network, Runtime, Shm};
pub use environment::{Export, USUAL};
pub use executor::{Executor, SlurmExecutor};
pub use job::Job;
pub use secrets::{SecretSource, SecretSources};
pub use units::{Deadline, Fraction, Limit, Past, Seconds, Size, StopSignal, UnitError};
pub use words::{Words, WordsError};

pub(crate) use wharf_document::{decode, node};

use decode::{Decode, Fields, Problem, place_of};
use node::{Entry, Node, Value};
pub(crate) use plan::{Planned, Source, plan};
pub(crate) use ray::RayJob;
pub(crate) use resolve::Context;
pub(crate) use tune::{Sweep, clashes, placeholders, sweep};

/// A job file that can be copied and changed.
pub const EXAMPLE_YAML: &str = include_str!("example.yaml");
/// The same job in TOML.
pub const EXAMPLE_TOML: &str = include_str!("example.toml");
/// The same job in JSON, which has no comments.
pub const EXAMPLE_JSON: &str = include_str!("example.json");

/// In which form a job file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// YAML
    Yaml,
    /// TOML
    Toml,
    /// JSON
    Json,
}

impl Format {
    /// The form that a file's name tells.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_lowercase().as_str() {
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// An example in this form.
    #[must_use]
    pub fn example(self) -> &'static str {
        match self {
            Self::Yaml => EXAMPLE_YAML,
            Self::Toml => EXAMPLE_TOML,
            Self::Json => EXAMPLE_JSON,
        }
    }
}

/// A job of a file, and the part of the document that it was read from.
#[derive(Clone, Debug)]
struct Entered {
    job: Job,
    node: Node,
}

/// The jobs of a document: itself, or those under `jobs` with what stands beside it as their defaults.
fn read(text: &str, format: Format) -> Result<Vec<Entered>, Problem> {
    let node = match format {
        Format::Yaml => Node::from_yaml(text),
        Format::Toml => Node::from_toml(text),
        Format::Json => Node::from_json(text),
    };
    let node = node?;
    let known: Vec<&str> = std::iter::once("jobs").chain(Job::FIELDS.iter().copied()).collect();
    Fields::new(&node, "", &known)?;
    let Value::Map(entries) = &node.value else { return Ok(vec![]) };
    let Some(list) = entries.iter().find(|entry| entry.key == "jobs") else {
        return Ok(vec![Entered { job: Job::decode(&node, "")?, node }]);
    };
    let rest: Vec<Entry> = entries.iter().filter(|entry| entry.key != "jobs").cloned().collect();
    let common = Job::decode(&Node { place: node.place, value: Value::Map(rest) }, "")?;
    let Value::List(items) = &list.value.value else {
        let message = format!("expected a list of jobs, found {}", list.value.kind());
        return Err(Problem { place: list.value.place, field: "jobs".to_owned(), message, hint: None });
    };
    let entered = |(index, item): (usize, &Node)| {
        let job = Job::decode(item, &format!("jobs[{index}]"))?;
        Ok(Entered { job: job.over(common.clone()), node: item.clone() })
    };
    items.iter().enumerate().map(entered).collect()
}
