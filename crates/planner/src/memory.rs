//! What memory a stage of a plan needs.

use std::ops::Range;

use crate::estimate::Way;
use crate::families::Shape;
use crate::model::{Kind, Layer};
use crate::options::{Options, Recompute, Schedule};

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

/// What a device's memory holds, in GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Parameters.
    pub weights_gib: f64,
    /// Their gradients.
    pub gradients_gib: f64,
    /// Moments and copies of 32 bits.
    pub optimizer_gib: f64,
    /// What the backward pass needs of the forward pass.
    pub activations_gib: f64,
    /// What single operators work on, buffers, the framework and its libraries.
    pub workspace_gib: f64,
}

impl Memory {
    /// All of it.
    #[must_use]
    pub fn sum_gib(&self) -> f64 {
        self.weights_gib + self.gradients_gib + self.optimizer_gib + self.activations_gib + self.workspace_gib
    }

    /// What takes most of it, and how much.
    #[must_use]
    pub fn largest(&self) -> (&'static str, f64) {
        let all = [
            ("activations", self.activations_gib),
            ("the optimizer", self.optimizer_gib),
            ("weights", self.weights_gib),
            ("gradients", self.gradients_gib),
            ("workspace", self.workspace_gib),
        ];
        all.into_iter().fold(all[0], |most, one| if one.1 > most.1 { one } else { most })
    }
}

impl Way<'_> {
    /// What the fullest device of a stage needs.
    pub(crate) fn memory_gib(&self, stage: usize, range: &Range<usize>) -> f64 {
        self.memory(stage, range).sum_gib()
    }

    /// The same by what it is.
    pub(crate) fn memory(&self, stage: usize, range: &Range<usize>) -> Memory {
        let (model, options, rows) = (self.question.model, self.question.options, self.question.rows);
        let tensor = f64::from(self.degrees.tensor);
        let (parameters, experts) = rows.parameters(range);
        let expert = f64::from(self.degrees.expert);
        // What goes from layer to layer is whole on each device that shares matrices, and split where convolutions are.
        let kept_by = match model.kind {
            Kind::Matrix => 1.0,
            Kind::Convolution => tensor,
        };
        let alive = f64::from(self.alive(stage));
        let activations = if options.recompute == Recompute::Full {
            between(&rows.output_bytes, range) / kept_by * alive + rows.largest(range) / tensor
        } else {
            between(&rows.working_bytes, range) / tensor * alive
        };
        Memory {
            activations_gib: activations * self.samples / GIB,
            workspace_gib: self.question.hardware.workspace_gib,
            ..self.state(parameters / tensor, experts / tensor / expert)
        }
    }

    /// Parameters, gradients and optimizer of so many parameters of a device, those of experts apart.
    fn state(&self, parameters: f64, experts: f64) -> Memory {
        let model = self.question.model;
        let number = model.precision.bytes();
        let trained = model.trained;
        let optimizer = (model.state_bytes - 2.0 * number) * trained;
        let replicas = f64::from(self.degrees.data * self.degrees.context);
        let sharing = [replicas, replicas / f64::from(self.degrees.expert)];
        let share = |stage: u8, bytes: f64| {
            let shares = |replicas: f64| if self.question.options.zero >= stage { replicas } else { 1.0 };
            bytes * (parameters / shares(sharing[0]) + experts / shares(sharing[1])) / GIB
        };
        Memory {
            weights_gib: share(3, number),
            gradients_gib: share(2, number * trained),
            optimizer_gib: share(1, optimizer),
            ..Memory::default()
        }
    }

    /// The same of a framework that keeps what its operators need, as arXiv 2205.05198 counts it.
    pub(crate) fn eager_memory(&self, shape: &Shape, stage: usize, range: &Range<usize>) -> Memory {
        let options = self.question.options;
        let kept = Kept::of(shape, options, self.samples, self.degrees.tensor, self.degrees.context);
        let (parameters, experts) = self.own_parameters(stage, range);
        let layers = range.len() as f64;
        let alive = self.alive_share(stage);
        let is_last = stage + 1 == self.degrees.pipeline as usize;
        let mut activations = alive * layers * kept.layer(options.recompute);
        let mut working = match options.recompute {
            Recompute::Full => kept.layer(Recompute::None),
            Recompute::Selective => kept.scores,
            Recompute::None => 0.0,
        };
        if stage == 0 {
            activations += alive * kept.embedding;
        }
        if is_last {
            activations += kept.head;
            working = working.max(kept.loss);
        }
        let hardware = self.question.hardware;
        Memory {
            activations_gib: activations / GIB,
            workspace_gib: hardware.workspace_gib + working / GIB + FRAGMENTED * activations / GIB,
            ..self.state(parameters, experts)
        }
    }

    /// How many microbatches of a whole stage are alive at the same time: with chunks it is no whole number.
    fn alive_share(&self, stage: usize) -> f64 {
        let chunks = f64::from(self.question.options.chunks.max(1));
        let (pipeline, stage) = (f64::from(self.degrees.pipeline), stage as f64);
        if chunks < 2.0 || self.question.options.schedule == Schedule::Gpipe {
            return f64::from(self.alive(u32::try_from(stage as u64).unwrap_or(u32::MAX) as usize));
        }
        let started = 2.0 * (pipeline - stage - 1.0) + (chunks - 1.0) * pipeline + 1.0;
        started.min(f64::from(self.microbatches) * chunks) / chunks
    }

    /// Microbatches whose activations a stage has at the same time.
    fn alive(&self, stage: usize) -> u32 {
        let stages = self.degrees.pipeline;
        let ahead = stages - u32::try_from(stage).unwrap_or(stages).min(stages);
        match self.question.options.schedule {
            _ if stages == 1 => 1,
            Schedule::Gpipe => self.microbatches,
            Schedule::OneForwardOneBackward | Schedule::ZeroBubble => ahead.min(self.microbatches),
        }
    }
}

/// What the allocator loses between blocks of changing sizes.
const FRAGMENTED: f64 = 0.05;

/// Bytes that one microbatch leaves behind on one device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// A layer's input.
    input: f64,
    /// What a layer's operators keep, without scores.
    operators: f64,
    /// Scores of attention, as long as they are kept.
    scores: f64,
    embedding: f64,
    head: f64,
    /// What the loss works on beside what is kept.
    loss: f64,
}

impl Kept {
    pub(crate) fn of(shape: &Shape, options: Options, samples: f64, tensor: u32, context: u32) -> Self {
        let base = &shape.base;
        let tensor = f64::from(tensor);
        let whole_by = if options.is_sequence_parallel() { tensor } else { 1.0 };
        let tokens = samples * f64::from(base.tokens) / f64::from(context);
        let size = tokens * f64::from(base.hidden);
        let keys = f64::from(base.key_heads) / f64::from(base.heads);
        let wide = f64::from(base.inner) / f64::from(base.hidden);
        let split = 4.0 + 4.0 * keys + wide * (2.0 * shape.gates() + 2.0) * shape.routed();
        let scores = if options.is_fused() {
            0.0
        } else {
            5.0 * f64::from(base.heads) * tokens * f64::from(base.tokens) / tensor
        };
        let logits = tokens * f64::from(base.vocabulary) / tensor;
        Self {
            input: 2.0 * size / whole_by,
            operators: 10.0 * size / whole_by + split * size / tensor,
            scores,
            embedding: size / whole_by,
            head: 4.0 * size / whole_by + 4.0 * logits,
            loss: 6.0 * logits,
        }
    }

    /// A layer, where so much is recomputed.
    pub(crate) fn layer(&self, recompute: Recompute) -> f64 {
        match recompute {
            Recompute::None => self.operators + self.scores,
            Recompute::Selective => self.operators,
            Recompute::Full => self.input,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::*;
    use crate::{
        Attention, Degrees, Estimate, Fixed, Framework, Gang, Hardware, Options, Recompute, families, plans,
    };

    /// Activations as arXiv 2205.05198 counts them, in bytes of a layer of b sequences of s tokens, h wide, with a heads, on t devices.
    #[test]
    fn activations_are_those_of_published_formulas() {
        let (tokens, hidden, heads) = (2048.0, 12_288.0, 96.0);
        let shape = families::find("gpt-175b").unwrap().with_tokens(2048).unwrap().shape.unwrap();
        let size = |samples: f64| samples * tokens * hidden;
        for (samples, tensor) in [(1.0, 1_u32), (2.0, 4), (4.0, 8)] {
            let (t, scores) = (f64::from(tensor), 5.0 * heads * tokens / hidden);
            let of = |is_sequence_parallel, recompute| {
                let is_sequence_parallel = Some(is_sequence_parallel);
                let attention = Some(Attention::Unfused);
                let options = Options { is_sequence_parallel, attention, ..Options::default() };
                Kept::of(&shape, options, samples, tensor, 1).layer(recompute)
            };
            for (found, expected) in [
                (of(false, Recompute::None), 10.0 + 24.0 / t + scores / t),
                (of(true, Recompute::None), (34.0 + scores) / t),
                (of(false, Recompute::Selective), 10.0 + 24.0 / t),
                (of(true, Recompute::Selective), 34.0 / t),
                (of(false, Recompute::Full), 2.0),
            ] {
                assert!((found / (size(samples) * expected) - 1.0).abs() < 1e-12, "{found} {expected}");
            }
        }
        // The first stage of an interleaved pipeline has L (1 + (p - 1) / (p v)) layers alive, and its embedding as often.
        let model = families::find("gpt-175b").unwrap().with_tokens(2048).unwrap();
        let fixed =
            Fixed { tensor: Some(8), pipeline: Some(8), data: Some(1), samples: Some(1), ..Fixed::default() };
        let options = Options {
            framework: Framework::Megatron,
            recompute: Recompute::Selective,
            is_sequence_parallel: Some(true),
            chunks: 3,
            fixed,
            ..Options::default()
        };
        let hardware = Hardware::builtin("a100-80gb").unwrap();
        let found = plans(&model, &hardware, Gang { devices: 64, per_node: 8 }, 64, options).unwrap();
        let alive = 1.0 + 7.0 / 24.0;
        let expected = size(1.0) / 8.0 * (96.0 * 34.0 + 8.0) * alive / GIB;
        assert!((found[0].memory.activations_gib / expected - 1.0).abs() < 1e-9, "{:?}", found[0].memory);
    }

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
        hardware.links.rings = crate::links::Rings::default();
        let of = |zero, expert| -> Estimate {
            let options = Options { zero, microbatches: Some(1), ..Options::default() };
            let gang = Gang { devices: 8, per_node: 8 };
            let degrees = Degrees { pipeline: 1, data: 8, tensor: 1, context: 1, expert };
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
