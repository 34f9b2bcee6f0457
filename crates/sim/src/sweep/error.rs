//! What can be wrong with a scenario: always with the place that states this.

use std::path::PathBuf;

use wharf_trace::{ClusterError, TraceError};

use super::document::Place;
use crate::preset::PresetError;
use crate::run::RunError;

/// A scenario that cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read `{}`", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{place}: not valid TOML: {message}")]
    Syntax {
        /// Where.
        place: Place,
        /// What the parser said.
        message: String,
    },
    /// A key that means nothing here.
    #[error("{place}: unknown key `{key}` in {context}")]
    UnknownKey {
        /// Where.
        place: Place,
        /// The key.
        key: String,
        /// What it was found in.
        context: &'static str,
        /// What there could be.
        known: Vec<String>,
    },
    /// A key that must be there.
    #[error("{place}: {context} has no `{key}`")]
    MissingKey {
        /// Where.
        place: Place,
        /// The key.
        key: &'static str,
        /// What lacks it.
        context: &'static str,
    },
    /// A value of another type.
    #[error("{place}: `{key}` must be {expected}, not {found}")]
    WrongType {
        /// Where.
        place: Place,
        /// The key.
        key: String,
        /// What belongs there.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A list without entries, which would make the whole matrix run nothing.
    #[error("{place}: `{key}` is empty")]
    EmptyList {
        /// Where.
        place: Place,
        /// The key.
        key: &'static str,
    },
    /// A value that cannot be.
    #[error("{place}: {message}")]
    BadValue {
        /// Where.
        place: Place,
        /// What is wrong with it.
        message: String,
    },
    /// A file that includes itself.
    #[error("{place}: scenario includes itself: {}", chain_text(chain))]
    IncludeCycle {
        /// Where the last inclusion is.
        place: Place,
        /// The files, from the one that is included again to that inclusion.
        chain: Vec<PathBuf>,
    },
    /// Neither the file nor what it includes has anything to run.
    #[error("scenario `{}` has no [[matrix]]: there is nothing to run", file.display())]
    NoMatrix {
        /// The file.
        file: PathBuf,
    },
    /// A trace or cluster file that is not there.
    #[error("{place}: there is no {what} `{name}`")]
    NotFound {
        /// Where.
        place: Place,
        /// Trace or cluster.
        what: &'static str,
        /// As the scenario calls it.
        name: String,
        /// Where it was searched for.
        tried: Vec<PathBuf>,
    },
    /// A trace that cannot be used.
    #[error("{place}: trace cannot be used")]
    Trace {
        /// Where.
        place: Place,
        /// Why.
        #[source]
        source: Box<TraceError>,
    },
    /// A cluster that cannot be used.
    #[error("{place}: cluster cannot be used")]
    Cluster {
        /// Where.
        place: Place,
        /// Why.
        #[source]
        source: Box<ClusterError>,
    },
    /// A preset that cannot be used.
    #[error("{place}: preset cannot be used")]
    Preset {
        /// Where.
        place: Place,
        /// Why.
        #[source]
        source: Box<PresetError>,
    },
    /// A run that cannot be done.
    #[error("{place}: {run} cannot be run")]
    Run {
        /// Where the policy is named.
        place: Place,
        /// Policy, trace, cluster and preset.
        run: String,
        /// Why.
        #[source]
        source: Box<RunError>,
    },
}

fn chain_text(chain: &[PathBuf]) -> String {
    let names: Vec<String> = chain.iter().map(|file| format!("`{}`", file.display())).collect();
    names.join(" includes ")
}
