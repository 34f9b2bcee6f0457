//! Checks and conversions that the formats share on the way from a row to a job.

use std::collections::HashMap;
use std::sync::Arc;

use wharf_core::{StageTimes, Time};

use super::sacct::Steps;
use crate::finding::{Note, Rule};
use crate::row::RowCheck;
use crate::text::Interner;

/// Texts that many jobs have in common, kept once.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) names: Interner,
    /// Whether jobs that did not complete are left out.
    pub(crate) only_completed: bool,
    /// Job steps and the jobs that they belong to.
    pub(crate) steps: Steps,
    lists: HashMap<Box<str>, Arc<[Arc<str>]>>,
    none: Arc<[Arc<str>]>,
}

impl Shared {
    pub(crate) fn new(only_completed: bool) -> Self {
        let (names, steps, lists, none) = Default::default();
        Self { names, only_completed, steps, lists, none }
    }

    /// The names of a `;`-separated list; none for `None`.
    pub(crate) fn list(&mut self, text: Option<&str>) -> Arc<[Arc<str>]> {
        let Some(text) = text else { return self.none.clone() };
        if let Some(list) = self.lists.get(text) {
            return list.clone();
        }
        let list: Arc<[Arc<str>]> = text.split(';').map(|item| self.names.get(item.trim())).collect();
        self.lists.insert(text.into(), list.clone());
        list
    }
}

impl RowCheck<'_> {
    /// When a job is submitted: `column` holds seconds × `per_second`.
    pub(super) fn submit(&mut self, column: usize, per_second: f64) -> Option<Time> {
        let value = self.required_number(column)?;
        if value < 0.0 {
            let note = Note::error(Rule::NegativeSubmit, format!("found {value}, expected 0 or more"))
                .hint("count from the beginning of the trace: subtract the first submission from all");
            self.error(column, note);
            return None;
        }
        Some(Time::from_seconds(value / per_second))
    }

    /// How many devices a job asks for.
    pub(super) fn gang(&mut self, column: usize) -> Option<u32> {
        let devices = self.required_count(column)?;
        if devices == 0 {
            let note = Note::error(Rule::ZeroGang, "found 0, expected at least one device");
            self.error(column, note.hint("drop jobs that need no device"));
            return None;
        }
        Some(devices)
    }

    /// Iterations, more than zero.
    pub(super) fn iterations(&mut self, column: usize) -> Option<f64> {
        let value = self.required_number(column)?;
        if value > 0.0 {
            return Some(value);
        }
        let note = if value == 0.0 {
            Note::error(Rule::ZeroIterations, "found 0, expected more than 0")
                .hint("drop jobs that do nothing")
        } else {
            Note::error(Rule::NegativeCount, format!("found {value}, expected more than 0"))
        };
        self.error(column, note);
        None
    }

    /// A job's weight, more than zero.
    pub(super) fn weight(&mut self, column: usize) -> Option<f64> {
        let value = self.required_number(column)?;
        if value > 0.0 {
            return Some(value);
        }
        let note = Note::error(Rule::NegativeCount, format!("found {value}, expected more than 0"));
        self.error(column, note.hint("leave it empty for the usual weight, 1"));
        None
    }

    /// A length of time that must be there and be more than zero.
    pub(super) fn positive_length(&mut self, column: usize) -> Option<f64> {
        if !self.has(column) {
            self.missing(column, "expected a number");
            return None;
        }
        let value = self.length(column)?;
        if value == 0.0 {
            self.error(column, Note::error(Rule::ZeroDuration, "found 0, expected more than 0"));
            return None;
        }
        Some(value)
    }

    /// Reports a run whose length is beyond all numbers.
    pub(super) fn check_solo(&mut self, column: usize, iterations: f64, iteration_ms: f64) {
        if !(iterations * iteration_ms).is_finite() {
            let message =
                format!("{iterations:e} iterations of {iteration_ms:e} ms are too long to compute with");
            self.error(column, Note::error(Rule::NonFinite, message));
        }
    }

    /// Three stages in columns that follow each other: all of them or none.
    pub(super) fn stages(&mut self, first: usize) -> Option<StageTimes> {
        let columns = [first, first + 1, first + 2];
        if !columns.iter().any(|column| self.has(*column)) {
            return None;
        }
        for column in columns {
            if !self.has(column) {
                self.missing(column, "give all three stages or none");
            }
        }
        let [data_ms, compute_ms, network_ms] = columns.map(|column| self.length(column));
        let stages = StageTimes { data_ms: data_ms?, compute_ms: compute_ms?, network_ms: network_ms? };
        Some(stages)
    }
}
