//! What was measured: how many iterations per second a workload makes on devices of a type, alone and beside others.

mod gavel;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use thiserror::Error;

/// What is trained, as far as speed depends on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workload {
    /// The model, as traces name it.
    pub model: Arc<str>,
    /// Samples per iteration, over the whole gang.
    pub batch_size: Option<u32>,
}

impl Workload {
    /// A workload from a label such as `ResNet-18 (batch size 128)`.
    pub fn from_label(label: &str) -> Self {
        let batch = |label: &str| {
            let (model, rest) = label.split_once(" (batch size ")?;
            Some((model.to_owned(), rest.strip_suffix(')')?.parse().ok()?))
        };
        match batch(label) {
            Some((model, batch_size)) => Self { model: model.into(), batch_size: Some(batch_size) },
            None => Self { model: label.into(), batch_size: None },
        }
    }
}

/// How the devices of a gang lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Locality {
    /// On as few nodes as hold them.
    Packed,
    /// Over more nodes than that.
    Spread,
}

/// Where a workload runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The type of all devices.
    pub device_type: Arc<str>,
    /// How many.
    pub devices: u32,
    /// How they lie.
    pub locality: Locality,
}

/// A table of measured speeds.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Profile {
    alone: BTreeMap<(Workload, Place), f64>,
    /// The speeds of both, of the first and of the second.
    beside: BTreeMap<(Workload, Workload, Place), [f64; 2]>,
}

/// Why there is no profile.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("cannot read profile `{path}`")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is of no known kind.
    #[error("`{path}` is no profile")]
    Unknown {
        /// The file.
        path: String,
        /// Why the kind that it looks like does not fit.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An entry makes no sense.
    #[error("profile `{path}`: {field}: {problem}")]
    Entry {
        /// The file.
        path: String,
        /// Which entry.
        field: String,
        /// What is wrong, and what would do.
        problem: String,
    },
}

impl Profile {
    /// Reads a profile; the kind is told from the content.
    ///
    /// # Errors
    /// [`ProfileError`] naming the file, and the entry where one is wrong.
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ProfileError::Read { path: shown.clone(), source })?;
        gavel::parse(&text, &shown)
    }

    /// Notes a speed in iterations per second; 0 where the workload does not fit the devices.
    pub fn insert(&mut self, workload: Workload, place: Place, iterations_per_s: f64) {
        self.alone.insert((workload, place), iterations_per_s);
    }

    /// Notes the speeds of two workloads that share the same devices.
    pub fn insert_pair(&mut self, first: Workload, second: Workload, place: Place, speeds: [f64; 2]) {
        self.beside.insert((second.clone(), first.clone(), place.clone()), [speeds[1], speeds[0]]);
        self.beside.insert((first, second, place), speeds);
    }

    /// The measured speed of a workload by itself.
    pub fn alone(&self, workload: &Workload, place: &Place) -> Option<f64> {
        self.alone.get(&(workload.clone(), place.clone())).copied()
    }

    /// The measured speeds of two workloads on the same devices, of the first and of the second.
    pub fn beside(&self, first: &Workload, second: &Workload, place: &Place) -> Option<[f64; 2]> {
        self.beside.get(&(first.clone(), second.clone(), place.clone())).copied()
    }

    /// All measured speeds of workloads by themselves, in order.
    pub fn entries(&self) -> impl Iterator<Item = (&Workload, &Place, f64)> {
        self.alone.iter().map(|((workload, place), &speed)| (workload, place, speed))
    }

    /// All measured pairs, each in both orders.
    pub fn pairs(&self) -> impl Iterator<Item = (&Workload, &Workload, &Place, [f64; 2])> {
        self.beside.iter().map(|((first, second, place), &speeds)| (first, second, place, speeds))
    }
}
