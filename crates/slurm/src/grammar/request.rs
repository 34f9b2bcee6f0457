//! What a user asks of sbatch: script, environment and command line laid over one another.

use std::collections::{BTreeMap, BTreeSet};

use super::array::Array;
use super::constraint::Constraint;
use super::dependency::{self, Dependencies};
use super::getopt::{self, Given, Order};
use super::limit::TimeLimit;
use super::nodes::NodeCount;
use super::options::{self, Class};
use super::refusal::{Kind, Refusal};
use super::script;
use super::signal::Warning;
use super::{gres, memory};

/// Options that exclude one another.
const MEMORY: [&str; 3] = ["mem", "mem-per-cpu", "mem-per-gpu"];

/// All options that hold, with values that they can have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    given: BTreeMap<&'static str, String>,
    verbosity: u32,
}

/// What is known where a job is submitted.
pub struct Sources<'a> {
    /// What messages call the script.
    pub name: &'a str,
    /// The script.
    pub script: &'a str,
    /// A variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The options of the command line.
    pub command_line: &'a [Given],
}

impl Request {
    /// Lays the command line over the environment, and that over the script's directives.
    ///
    /// # Errors
    /// [`Refusal`] for whatever is wrong in one of them.
    pub fn read(sources: &Sources<'_>) -> Result<(Self, Vec<String>), Refusal> {
        let found = script::directives(sources.name, sources.script)?;
        let mut notes = Vec::new();
        if found.says_slurm {
            let text =
                "Change from #SLURM to #SBATCH in your script and verify the options are valid in sbatch";
            notes.push(format!("error: {text}"));
        }
        let mut request = Self::default();
        request.lay(&of_words(&found.words)?)?;
        let environment = options::of_environment(sources.variable);
        let given = |&(name, ref value): &(&'static str, String)| Given { name, value: Some(value.clone()) };
        let environment: Vec<Given> = environment.iter().map(given).collect();
        let named = |layer: &[Given]| layer.iter().any(|given| given.name == "ignore-pbs");
        if !named(&environment) && !named(sources.command_line) && !request.has("ignore-pbs") {
            request.lay(&of_words(&found.translated)?)?;
        }
        request.lay(&environment)?;
        request.lay(sources.command_line)?;
        let ignored = request.given.keys().filter(|name| options::class(name) == Class::Ignored);
        notes.extend(ignored.map(|name| format!("warning: --{name} is ignored: not supported by Wharf")));
        Ok((request, notes))
    }

    /// The options of a command line alone, as srun and salloc have them.
    ///
    /// # Errors
    /// [`Refusal`] for a value that an option cannot have.
    pub fn of_command_line(given: &[Given]) -> Result<Self, Refusal> {
        let mut request = Self::default();
        request.lay(given)?;
        Ok(request)
    }

    /// Lays options over those that are there.
    fn lay(&mut self, layer: &[Given]) -> Result<(), Refusal> {
        for Given { name, value } in layer {
            let value = value.clone().unwrap_or_default();
            if options::class(name) == Class::Rejected {
                return Err(Refusal::failed(format!("--{name} is not supported: Wharf has no equivalent")));
            }
            options::check(name, &value)?;
            match *name {
                "requeue" => drop(self.given.remove("no-requeue")),
                "no-requeue" => drop(self.given.remove("requeue")),
                "verbose" => self.verbosity += 1,
                _ => {}
            }
            self.given.insert(name, value);
        }
        let own: BTreeSet<&str> =
            layer.iter().map(|given| given.name).filter(|name| MEMORY.contains(name)).collect();
        if own.len() > 1 {
            let text = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.";
            return Err(Refusal::new(Kind::Fatal, text));
        }
        if !own.is_empty() {
            self.given.retain(|name, _| !MEMORY.contains(name) || own.contains(name));
        }
        Ok(())
    }

    /// What can be known to be wrong without a cluster.
    ///
    /// # Errors
    /// [`Refusal`] with what sbatch would say.
    pub fn check(&self) -> Result<(), Refusal> {
        self.get("gres").map_or(Ok(Vec::new()), gres::of_gres)?;
        for name in ["gpus", "gpus-per-node", "gpus-per-task"] {
            self.get(name).map_or(Ok(Vec::new()), gres::of_gpus)?;
        }
        self.dependencies()?;
        self.constraint()?;
        Ok(())
    }

    /// Lets an option have another value, such as what is in the file that it names.
    pub fn set(&mut self, name: &'static str, value: String) {
        self.given.insert(name, value);
    }

    /// Whether an option holds.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The value of an option.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(String::as_str)
    }

    /// The value of an option that is a number.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u32> {
        self.get(name)?.parse().ok()
    }

    /// How often `--verbose` was given.
    #[must_use]
    pub fn verbosity(&self) -> u32 {
        self.verbosity
    }

    /// How long it may run; none: not set.
    #[must_use]
    pub fn time(&self) -> Option<TimeLimit> {
        self.get("time")?.parse().ok()
    }

    /// How many nodes it wants.
    #[must_use]
    pub fn nodes(&self) -> Option<NodeCount> {
        NodeCount::parse(self.get("nodes")?).ok()
    }

    /// Mebibytes by one of the three options for memory.
    #[must_use]
    pub fn memory(&self, name: &str) -> Option<u64> {
        memory::mebibytes(self.get(name)?)
    }

    /// The signal before the time limit.
    #[must_use]
    pub fn signal(&self) -> Option<Warning> {
        self.get("signal")?.parse().ok()
    }

    /// The array that it is.
    ///
    /// # Errors
    /// [`Refusal`] with what sbatch would say.
    pub fn array(&self, size_max: u32) -> Result<Option<Array>, Refusal> {
        self.get("array").map(|text| Array::parse(text, size_max)).transpose()
    }

    /// What it waits for.
    ///
    /// # Errors
    /// [`Refusal`] with what sbatch would say.
    pub fn dependencies(&self) -> Result<Dependencies, Refusal> {
        self.get("dependency")
            .filter(|text| !text.is_empty())
            .map_or(Ok(Dependencies::default()), dependency::parse)
    }

    /// What features its nodes must have.
    ///
    /// # Errors
    /// [`Refusal`] with what sbatch would say.
    pub fn constraint(&self) -> Result<Option<Constraint>, Refusal> {
        self.get("constraint").map(Constraint::parse).transpose()
    }

    /// Whether output files are added to rather than begun again.
    #[must_use]
    pub fn appends(&self) -> bool {
        self.get("open-mode").is_some_and(|mode| mode.starts_with('a'))
    }

    /// All options as `sbatch -v` shows them; `folder` is where it is submitted from.
    #[must_use]
    pub fn shown(&self, folder: &str) -> BTreeMap<&'static str, String> {
        let mut shown = BTreeMap::new();
        for (&name, value) in &self.given {
            let (name, text) = match name {
                "time" | "time-min" => (
                    name,
                    value.parse::<TimeLimit>().map_or_else(|_| value.clone(), |limit| limit.to_string()),
                ),
                "mem" | "mem-per-cpu" | "mem-per-gpu" => {
                    (name, memory::mebibytes(value).map_or_else(|| value.clone(), memory::shown))
                }
                "nodes" => {
                    (name, NodeCount::parse(value).map_or_else(|_| value.clone(), |count| count.to_string()))
                }
                "signal" => (
                    name,
                    value.parse::<Warning>().map_or_else(|_| value.clone(), |warning| warning.to_string()),
                ),
                "gres" => (name, gres::shown(value)),
                "distribution" => (name, options::distribution(value).unwrap_or_else(|| value.clone())),
                "open-mode" => (name, value.chars().take(1).collect()),
                "exclusive" if value.is_empty() => (name, "exclusive".to_owned()),
                "requeue" | "oversubscribe" => (name, name.to_owned()),
                "no-requeue" => ("requeue", name.to_owned()),
                "output" | "error" | "input" => (name, joined(folder, value)),
                "hold" | "overcommit" | "parsable" | "wait" | "quiet" | "test-only" => {
                    (name, "set".to_owned())
                }
                _ => (name, value.clone()),
            };
            shown.insert(name, text);
        }
        shown
    }
}

/// A path as seen from a folder.
#[must_use]
pub fn joined(folder: &str, path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", folder.trim_end_matches('/')) }
}

/// The options in the words of directives, which hold nothing else.
fn of_words(words: &[String]) -> Result<Vec<Given>, Refusal> {
    let parsed = getopt::parse(&options::sbatch(), words, Order::First)?;
    match parsed.rest.first() {
        None => Ok(parsed.given),
        Some(word) => {
            let text = format!("Invalid directive found in batch script: {word}");
            Err(Refusal::new(Kind::Value, text))
        }
    }
}
