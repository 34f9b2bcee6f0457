//! What memory a stage of a plan needs.

use std::ops::Range;

use crate::estimate::Way;
use crate::model::{Kind, Layer, Model};
use crate::options::Schedule;

const GIB: f64 = 1_073_741_824.0;

/// Amounts of any row of successive layers without a walk over them: cutting layers into stages asks for very many rows.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    parameters: Vec<f64>,
    expert_parameters: Vec<f64>,
    output_bytes: Vec<f64>,
    working_bytes: Vec<f64>,
    /// The largest working bytes of 1, 2, 4, 8 and so on layers, by the first of them.
    largest: Vec<Vec<f64>>,
}

impl Rows {
    pub(crate) fn of(layers: &[Layer]) -> Self {
        let sums = |pick: fn(&Layer) -> f64| {
            let mut sums = vec![0.0];
            let mut sum = 0.0;
            for layer in layers {
                sum += pick(layer);
                sums.push(sum);
            }
            sums
        };
        let mut largest = vec![layers.iter().map(|layer| layer.working_bytes).collect::<Vec<f64>>()];
        let mut half = 1;
        while let Some(last) = largest.last().filter(|last| last.len() > half) {
            let next = last.iter().zip(&last[half..]).map(|(one, two)| one.max(*two)).collect();
            largest.push(next);
            half *= 2;
        }
        Self {
            parameters: sums(|layer| layer.parameters),
            expert_parameters: sums(|layer| layer.expert_parameters),
            output_bytes: sums(|layer| layer.output_bytes),
            working_bytes: sums(|layer| layer.working_bytes),
            largest,
        }
    }

    /// Parameters, those of experts apart.
    pub(crate) fn parameters(&self, range: &Range<usize>) -> (f64, f64) {
        (between(&self.parameters, range), between(&self.expert_parameters, range))
    }

    /// The most that one layer of a row works on.
    fn largest(&self, range: &Range<usize>) -> f64 {
        let Some(power) = range.len().checked_ilog2() else { return 0.0 };
        let row = &self.largest[power as usize];
        row[range.start].max(row[range.end - (1 << power)])
    }
}

fn between(sums: &[f64], range: &Range<usize>) -> f64 {
    sums[range.end] - sums[range.start]
}

impl Way<'_> {
    /// What the fullest device of a stage needs.
    pub(crate) fn memory_gib(&self, stage: usize, range: &Range<usize>) -> f64 {
        let (model, options, rows) = (self.question.model, self.question.options, self.question.rows);
        let tensor = f64::from(self.degrees.tensor);
        let (parameters, experts) = rows.parameters(range);
        let state = |own: f64, replicas: f64| own / tensor * state_bytes(model, options.zero, replicas);
        let (data, expert) = (f64::from(self.degrees.data), f64::from(self.degrees.expert));
        let state = state(parameters, data) + state(experts / expert, data / expert);
        // What goes from layer to layer is whole on each device that shares matrices, and split where convolutions are.
        let kept_by = match model.kind {
            Kind::Matrix => 1.0,
            Kind::Convolution => tensor,
        };
        let alive = f64::from(self.alive(stage));
        let activations = if options.is_recomputing {
            between(&rows.output_bytes, range) / kept_by * alive + rows.largest(range) / tensor
        } else {
            between(&rows.working_bytes, range) / tensor * alive
        };
        (state + activations * self.samples) / GIB + self.question.hardware.workspace_gib
    }

    /// Microbatches whose activations a stage has at the same time.
    fn alive(&self, stage: usize) -> u32 {
        let stages = self.degrees.pipeline;
        let ahead = stages - u32::try_from(stage).unwrap_or(stages).min(stages);
        match self.question.options.schedule {
            _ if stages == 1 => 1,
            Schedule::Gpipe => self.microbatches,
            Schedule::OneForwardOneBackward => ahead.min(self.microbatches),
        }
    }
}

/// Bytes of each parameter that a device has, where so many replicas have it and share some out.
fn state_bytes(model: &Model, zero: u8, replicas: f64) -> f64 {
    let number = model.precision.bytes();
    let (parameter, gradient) = (number, number);
    let optimizer = model.state_bytes - parameter - gradient;
    let share = |stage: u8, bytes: f64| if zero >= stage { bytes / replicas } else { bytes };
    share(3, parameter) + share(2, gradient) + share(1, optimizer)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::*;
    use crate::{Degrees, Estimate, Gang, Hardware, Options, families, plans};

    #[test]
    fn rows_of_layers_have_the_sums_and_the_largest_of_their_layers() {
        let mut layers = families::find("moe-690m").unwrap().layers;
        for (index, layer) in layers.iter_mut().enumerate() {
            layer.working_bytes = (index * 7 % 5) as f64;
        }
        let rows = Rows::of(&layers);
        for start in 0..layers.len() {
            for end in start..=layers.len() {
                let own = &layers[start..end];
                let sum = |pick: fn(&Layer) -> f64| own.iter().map(pick).sum::<f64>();
                let (parameters, experts) = rows.parameters(&(start..end));
                assert!((parameters - sum(|layer| layer.parameters)).abs() < 1.0);
                assert!((experts - sum(|layer| layer.expert_parameters)).abs() < 1.0);
                let largest = own.iter().map(|layer| layer.working_bytes).fold(0.0, f64::max);
                assert_eq!(rows.largest(&(start..end)), largest, "{start}..{end}");
            }
        }
    }

    /// Eight replicas that each have other experts have these once: there is no replica to share their state with.
    #[test]
    fn state_of_experts_is_shared_by_those_who_have_the_same() {
        let model = families::find("moe-1.3b").unwrap();
        let mut hardware = Hardware::builtin("a100").unwrap();
        hardware.links.near.latency_s = 0.0;
        let of = |zero, expert| -> Estimate {
            let options = Options { zero, microbatches: Some(1), ..Options::default() };
            let gang = Gang { devices: 8, per_node: 8 };
            let degrees = Degrees { pipeline: 1, data: 8, tensor: 1, expert };
            let found = plans(&model, &hardware, gang, 64, options).unwrap();
            found.into_iter().find(|plan| plan.degrees == degrees).unwrap()
        };
        let experts: f64 = model.layers.iter().map(|layer| layer.expert_parameters).sum();
        let rest = model.parameters() - experts;
        for expert in [1, 8] {
            let saved = of(0, expert).memory_gib - of(1, expert).memory_gib;
            let replicas = 8.0 / f64::from(expert);
            let optimizer = model.state_bytes - 2.0 * model.precision.bytes();
            let shared = rest * 7.0 / 8.0 + experts / f64::from(expert) * (1.0 - 1.0 / replicas);
            assert!((saved - shared * optimizer / GIB).abs() < 1e-6, "e{expert}: {saved}");
        }
        let gathered = |expert| of(3, expert).parts.data_s - of(2, expert).parts.data_s;
        let share = gathered(8) / gathered(1) / (rest / model.parameters());
        assert!((share - 1.0).abs() < 1e-9, "own experts are there: {share}");
        let update = |expert| of(1, expert).parts.update_s * 8.0 / (rest + experts);
        assert!((update(8) / update(1) - 1.0).abs() < 1e-9, "all have an eighth of everything");
    }
}
