//! Which of several entries of a workload in a place counts, under which plan, and what data parallelism makes there.

use wharf_core::Plan;
use wharf_perf::{Entry, parse_plan};

use crate::records::Facts;

/// What is said of a workload in a place, looked through entry by entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<'a> {
    devices: u32,
    plan: &'a str,
    facts: &'a Facts,
    measured: Plans,
    estimated: Plans,
}

/// Entries that were all measured, or all made up by a model.
#[derive(Clone, Copy, Debug, Default)]
struct Plans {
    /// The fastest plan, and its speed.
    best: Option<(Plan, f64)>,
    /// The speed of data parallelism.
    data_parallel: Option<f64>,
}

impl<'a> Choice<'a> {
    /// The first entry.
    pub(crate) fn new(devices: u32, plan: &'a str, facts: &'a Facts) -> Self {
        let nothing = Plans::default();
        let mut choice = Self { devices, plan, facts, measured: nothing, estimated: nothing };
        choice.look(plan, facts);
        choice
    }

    /// Another entry. What was measured counts more than what was not; then the entry that names no plan; then the faster one.
    pub(crate) fn look(&mut self, plan: &'a str, facts: &'a Facts) {
        let rank = |plan: &str, facts: &Facts| (!facts.is_estimate, plan.is_empty());
        let (known, new) = (rank(self.plan, self.facts), rank(plan, facts));
        if new > known || new == known && facts.iterations_per_s > self.facts.iterations_per_s {
            (self.plan, self.facts) = (plan, facts);
        }
        let plans = if facts.is_estimate { &mut self.estimated } else { &mut self.measured };
        let Some(plan) = parse_plan(plan, self.devices) else { return };
        let speed = facts.iterations_per_s;
        if speed > plans.best.map_or(0.0, |(_, best)| best) {
            plans.best = Some((plan, speed));
        }
        if (plan.stages, plan.tensor) == (1, 1) {
            plans.data_parallel = Some(speed);
        }
    }

    /// The speed that counts.
    pub(crate) fn entry(&self) -> Entry {
        Entry { iterations_per_s: self.facts.iterations_per_s, is_estimate: self.facts.is_estimate }
    }

    /// The plan of the entry that counts; where it names none, the best that others name.
    pub(crate) fn plan(&self) -> Option<Plan> {
        if self.facts.iterations_per_s <= 0.0 {
            return None;
        }
        if !self.plan.is_empty() {
            return parse_plan(self.plan, self.devices);
        }
        self.measured.best.or(self.estimated.best).map(|(plan, _)| plan)
    }

    /// The speed of data parallelism. Where a model made it up and the best plan was measured, the measurement counts, and of
    /// the model how much slower data parallelism is than its best plan.
    pub(crate) fn data_parallel(&self) -> Option<Entry> {
        let is_known = self.measured.best.is_some() || self.estimated.best.is_some();
        if self.devices == 1 && is_known {
            return Some(self.entry());
        }
        if let Some(iterations_per_s) = self.measured.data_parallel {
            return Some(Entry { iterations_per_s, is_estimate: false });
        }
        let made_up = self.estimated.data_parallel?;
        let iterations_per_s = match self.estimated.best {
            Some((_, best)) if !self.facts.is_estimate => self.facts.iterations_per_s * (made_up / best),
            _ => made_up,
        };
        Some(Entry { iterations_per_s, is_estimate: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(devices: u32, entries: &[(&str, f64, bool)]) -> (f64, Option<Plan>, Option<(f64, bool)>) {
        let facts: Vec<Facts> = entries
            .iter()
            .map(|&(_, iterations_per_s, is_estimate)| Facts {
                iterations_per_s,
                memory_mib: None,
                is_estimate,
                source: String::new(),
                recorded: String::new(),
            })
            .collect();
        let mut choice = Choice::new(devices, entries[0].0, &facts[0]);
        for (&(plan, ..), facts) in entries.iter().zip(&facts).skip(1) {
            choice.look(plan, facts);
        }
        let data = choice.data_parallel().map(|entry| (entry.iterations_per_s, entry.is_estimate));
        (choice.entry().iterations_per_s, choice.plan(), data)
    }

    #[test]
    fn measured_counts_more_than_plain_and_plain_more_than_fast() {
        let plan = |stages, data, tensor| Some(Plan { stages, data, tensor });
        for (devices, entries, speed, best, data) in [
            // Nothing is said of plans.
            (4, vec![("", 2.0, false)], 2.0, None, None),
            // The fastest plan, and data parallelism beside it.
            (4, vec![("dp4", 1.0, false), ("tp4", 3.0, false)], 3.0, plan(1, 1, 4), Some((1.0, false))),
            // The best time was measured and its plan not noted: the model's plan, and its ratio.
            (
                4,
                vec![("", 3.0, false), ("dp4", 1.0, true), ("pp2.dp2", 2.0, true), ("tp4", 0.0, true)],
                3.0,
                plan(2, 2, 1),
                Some((1.5, true)),
            ),
            // Only a model's word.
            (4, vec![("dp4", 1.0, true), ("pp2.dp2", 2.0, true)], 2.0, plan(2, 2, 1), Some((1.0, true))),
            // A measured plan counts more than a model's word on no plan in particular.
            (4, vec![("", 9.0, true), ("tp4", 2.0, false)], 2.0, plan(1, 1, 4), None),
            // A name that means no plan.
            (4, vec![("zero-3", 2.0, false), ("dp4", 1.0, false)], 2.0, None, Some((1.0, false))),
            // It does not fit at all, or not by samples only.
            (4, vec![("", 0.0, false), ("dp4", 1.0, true)], 0.0, None, Some((0.0, true))),
            (
                4,
                vec![("", 3.0, false), ("dp4", 0.0, true), ("tp4", 2.0, true)],
                3.0,
                plan(1, 1, 4),
                Some((0.0, true)),
            ),
            // One device can only be used in one way.
            (1, vec![("", 3.0, false), ("dp1", 2.0, true)], 3.0, plan(1, 1, 1), Some((3.0, false))),
            // A plan for another number of devices is only a name.
            (8, vec![("dp4", 2.0, false)], 2.0, None, None),
        ] {
            assert_eq!(choose(devices, &entries), (speed, best, data), "{entries:?}");
        }
    }
}
