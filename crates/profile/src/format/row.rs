//! One entry as tables write it, in CSV and JSON alike.

use crate::error::EntryProblem;
use serde::{Deserialize, Serialize};
use wharf_perf::{Place, Workload};

use crate::records::{Facts, Key, locality, locality_name};

/// What stands between several neighbours.
const BETWEEN: &str = " + ";

/// Most devices of an entry.
const DEVICES_MAX: u32 = 1 << 20;

/// Most that an entry can be about at once.
const BESIDE_MAX: usize = 16;

/// Longest text of an entry.
const TEXT_MAX: usize = 1000;

/// An entry, column by column.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowText {
    pub(crate) model: String,
    #[serde(default)]
    pub(crate) batch_size: Option<u32>,
    pub(crate) device_type: String,
    pub(crate) devices: u32,
    #[serde(default)]
    pub(crate) locality: String,
    #[serde(default)]
    pub(crate) plan: String,
    #[serde(default)]
    pub(crate) beside: String,
    pub(crate) iterations_per_s: f64,
    #[serde(default)]
    pub(crate) memory_mib: Option<f64>,
    #[serde(default)]
    pub(crate) is_estimate: Option<bool>,
    #[serde(default)]
    pub(crate) source: String,
    #[serde(default)]
    pub(crate) recorded: String,
}

impl RowText {
    /// An entry in words.
    pub(crate) fn new(key: &Key, facts: &Facts) -> Self {
        Self {
            model: key.workload.model.to_string(),
            batch_size: key.workload.batch_size,
            device_type: key.place.device_type.to_string(),
            devices: key.place.devices,
            locality: locality_name(key.place.locality).to_owned(),
            plan: key.plan.clone(),
            beside: Self::beside(&key.beside),
            iterations_per_s: facts.iterations_per_s,
            memory_mib: facts.memory_mib,
            is_estimate: Some(facts.is_estimate),
            source: facts.source.clone(),
            recorded: facts.recorded.clone(),
        }
    }

    /// Neighbours in words.
    pub(crate) fn beside(workloads: &[Workload]) -> String {
        workloads.iter().map(Workload::label).collect::<Vec<_>>().join(BETWEEN)
    }

    /// What the words mean, with `source` as the source if they name none.
    pub(crate) fn entry(self, source: &str) -> Result<(Key, Facts), EntryProblem> {
        let lies = locality(&self.locality)
            .ok_or_else(|| EntryProblem::word("locality", &self.locality, "neither packed nor spread"))?;
        let key = Key {
            workload: Workload { model: self.model.into(), batch_size: self.batch_size },
            place: Place { device_type: self.device_type.into(), devices: self.devices, locality: lies },
            plan: self.plan,
            beside: workloads(&self.beside),
        };
        let facts = Facts {
            iterations_per_s: self.iterations_per_s,
            memory_mib: self.memory_mib,
            is_estimate: self.is_estimate.unwrap_or(false),
            source: if self.source.is_empty() { source.to_owned() } else { self.source },
            recorded: self.recorded,
        };
        check(&key, &facts)?;
        Ok((key, facts))
    }
}

/// Neighbours from words.
pub(crate) fn workloads(text: &str) -> Vec<Workload> {
    text.split(BETWEEN).filter(|label| !label.is_empty()).map(Workload::from_label).collect()
}

/// Whether an entry makes sense.
pub(crate) fn check(key: &Key, facts: &Facts) -> Result<(), EntryProblem> {
    let texts = [
        ("model", &*key.workload.model),
        ("device_type", &*key.place.device_type),
        ("plan", &key.plan),
        ("source", &facts.source),
        ("recorded", &facts.recorded),
    ];
    for (index, (name, text)) in texts.into_iter().enumerate() {
        if index < 2 && text.is_empty() {
            return Err(EntryProblem::field(name, "a name"));
        }
        if text.len() > TEXT_MAX || text.chars().any(char::is_control) {
            return Err(EntryProblem::field(name, format!("at most {TEXT_MAX} characters in one line")));
        }
    }
    let is_amount = |number: f64| number.is_finite() && number >= 0.0;
    if !(1..=DEVICES_MAX).contains(&key.place.devices) {
        return Err(EntryProblem::number(
            "devices",
            key.place.devices,
            format!("not from 1 to {DEVICES_MAX}"),
        ));
    }
    if key.workload.batch_size == Some(0) {
        return Err(EntryProblem::field("batch_size", "at least 1, or nothing"));
    }
    if key.beside.len() > BESIDE_MAX || key.beside.iter().any(|other| other.model.is_empty()) {
        return Err(EntryProblem::field("beside", format!("at most {BESIDE_MAX} names")));
    }
    if !is_amount(facts.iterations_per_s) {
        return Err(EntryProblem::number("iterations_per_s", facts.iterations_per_s, "not 0 or more"));
    }
    match facts.memory_mib {
        Some(memory_mib) if !is_amount(memory_mib) => {
            Err(EntryProblem::number("memory_mib", memory_mib, "not 0 or more"))
        }
        _ => Ok(()),
    }
}

/// Whether a price makes sense.
pub(crate) fn check_price(per_hour: f64) -> Result<(), EntryProblem> {
    let is_price = per_hour.is_finite() && per_hour >= 0.0;
    if is_price { Ok(()) } else { Err(EntryProblem::Amount { found: per_hour, problem: "not 0 or more" }) }
}
