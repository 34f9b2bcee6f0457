//! What was measured: how many iterations per second a workload makes on devices of a type, alone and beside others.

use std::collections::BTreeMap;
use std::sync::Arc;

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

impl Profile {
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
