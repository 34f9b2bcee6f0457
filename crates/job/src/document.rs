//! Job files: YAML, TOML or JSON with one job, or with several and what they have in common.

use std::path::Path;

use wharf_document::decode::{Decode as _, Fields, Problem};
use wharf_document::node::{Entry, Node, Value};

use crate::choice::choices;
use crate::job::Job;

/// A job file that can be copied and changed.
pub const EXAMPLE_YAML: &str = include_str!("example.yaml");
/// The same job in TOML.
pub const EXAMPLE_TOML: &str = include_str!("example.toml");
/// The same job in JSON, which has no comments.
pub const EXAMPLE_JSON: &str = include_str!("example.json");

choices! {
    /// The format of a job file.
    pub Format: "the name of a format" {
        /// YAML
        Yaml = "yaml",
        /// TOML
        Toml = "toml",
        /// JSON
        Json = "json",
    }
}

impl Format {
    /// The format that a file's name tells.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_lowercase().as_str() {
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// Reads a document in this format.
    pub(crate) fn parse(self, text: &str) -> Result<Node, Problem> {
        let node = match self {
            Self::Yaml => Node::from_yaml(text),
            Self::Toml => Node::from_toml(text),
            Self::Json => Node::from_json(text),
        };
        node.map_err(Problem::from)
    }

    /// An example in this format.
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
pub(crate) struct Entered {
    pub(crate) job: Job,
    pub(crate) node: Node,
}

/// The jobs of a document: itself, or those under `jobs` with what stands beside it as their defaults.
pub(crate) fn read(text: &str, format: Format) -> Result<Vec<Entered>, Problem> {
    let node = format.parse(text)?;
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
