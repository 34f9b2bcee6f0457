//! An iteration of a transformer in a framework whose host starts every operator.

use std::ops::Range;

use crate::block::{Block, CROWDED, Pass, Passes};
use crate::estimate::{Estimate, Parts, SPREADS, Way};
use crate::families::Shape;
use crate::framework::Host;
use crate::kernels::Kernels;
use crate::options::Schedule;

/// Bytes that the optimizer moves for each parameter: gradients unscaled, checked and clipped, Adam's moments and the copy in
/// 32 bits read and written, the copy in 16 bits written.
const STEP_BYTES: f64 = 38.0;
/// Copying gradients into one buffer and dividing them, for each parameter of several replicas.
const COPIED_BYTES: f64 = 4.0;
/// What replicas sum of a gradient: 16 bits.
const GRADIENT_BYTES: f64 = 2.0;
/// Share of the bubble that remains where weights' gradients fill it (zero-bubble schedules, arXiv 2401.10241: ZB-H1).
const ZERO_BUBBLE: f64 = 1.0 / 3.0;

/// One stage's load of a microbatch.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    forward: Pass,
    backward: Pass,
}

impl Load {
    fn total_s(&self) -> f64 {
        self.forward.total_s + self.backward.total_s
    }

    fn add(&mut self, passes: Passes, times: f64) {
        let scaled = |pass: Pass| Pass {
            total_s: pass.total_s * times,
            tensor_s: pass.tensor_s * times,
            expert_s: pass.expert_s * times,
            context_s: pass.context_s * times,
        };
        self.forward = self.forward + scaled(passes.forward);
        self.backward = self.backward + scaled(passes.backward);
    }
}

/// Layers cut into stages as frameworks do it: equally many, and where they do not divide, one more for those in the middle, which have
/// neither embedding nor head.
pub(crate) fn even_cut(layers: usize, stages: usize) -> Option<Vec<Range<usize>>> {
    if stages == 0 || stages > layers {
        return None;
    }
    let (each, more) = (layers / stages, layers % stages);
    let first = (stages - more).div_ceil(2);
    let mut from = 0;
    let mut cut = Vec::with_capacity(stages);
    for stage in 0..stages {
        let own = each + usize::from((first..first + more).contains(&stage));
        cut.push(from..from + own);
        from += own;
    }
    Some(cut)
}

impl Way<'_> {
    /// What is expected where operators are known and the host starts each.
    pub(crate) fn eager(&self, shape: &Shape, host: Host) -> Option<Estimate> {
        let options = self.question.options;
        let count = self.degrees.pipeline as usize;
        let stages = match self.question.cuts {
            Some(cuts) if cuts.len() == count => cuts.to_vec(),
            Some(_) => return None,
            None => even_cut(self.question.model.layers.len(), count)?,
        };
        if !self.can_interleave(&stages) {
            return None;
        }
        let memory = stages.iter().enumerate().map(|(stage, range)| self.eager_memory(shape, stage, range));
        let memory = memory.max_by(|one, two| one.sum_gib().total_cmp(&two.sum_gib()))?;
        let limit_gib = self.question.hardware.memory_gib * options.memory_share;
        let parts = self.eager_parts(shape, host, &stages);
        Some(Estimate {
            degrees: self.degrees,
            microbatches: self.microbatches,
            iteration_s: parts.sum_s(),
            parts,
            memory_gib: memory.sum_gib(),
            memory,
            is_fitting: memory.sum_gib() <= limit_gib,
            spread: SPREADS[usize::from(self.question.gang.devices > self.question.gang.per_node)],
            stages,
        })
    }

    /// Several chunks of layers a stage need as many layers, and microbatches in rounds of all stages.
    fn can_interleave(&self, stages: &[Range<usize>]) -> bool {
        let chunks = self.question.options.chunks as usize;
        let pipeline = self.degrees.pipeline;
        chunks <= 1
            || pipeline > 1
                && self.microbatches.is_multiple_of(pipeline)
                && stages.iter().all(|stage| stage.len() >= chunks)
    }

    fn block<'b>(&'b self, shape: &'b Shape, host: Host) -> Block<'b> {
        let Way { question, degrees, .. } = self;
        Block {
            shape,
            kernels: Kernels { hardware: question.hardware, precision: question.model.precision },
            links: &question.hardware.links,
            host,
            options: question.options,
            samples: self.samples,
            tensor: self.group(degrees.tensor, 1),
            context: self.group(degrees.context, degrees.tensor),
            expert: self.group(degrees.expert, degrees.tensor * degrees.context),
        }
    }

    fn loads(&self, block: &Block<'_>, stages: &[Range<usize>]) -> Vec<Load> {
        let plain = block.layer(false);
        let mixed = if self.question.model.experts > 0 { block.layer(true) } else { plain };
        let layers = &self.question.model.layers;
        let mut loads: Vec<Load> = stages
            .iter()
            .map(|range| {
                let experts =
                    layers[range.clone()].iter().filter(|layer| layer.expert_parameters > 0.0).count();
                let mut load = Load::default();
                load.add(plain, (range.len() - experts) as f64);
                load.add(mixed, experts as f64);
                load
            })
            .collect();
        loads.first_mut().into_iter().for_each(|first| first.add(block.embedding(), 1.0));
        loads.last_mut().into_iter().for_each(|last| last.add(block.head(), 1.0));
        loads
    }

    fn eager_parts(&self, shape: &Shape, host: Host, stages: &[Range<usize>]) -> Parts {
        let options = self.question.options;
        let block = self.block(shape, host);
        let loads = self.loads(&block, stages);
        let slowest = loads.iter().max_by(|one, two| one.total_s().total_cmp(&two.total_s()));
        let slowest = slowest.copied().unwrap_or_default();
        let rounds = f64::from(self.microbatches);
        let chunks = f64::from(options.chunks.max(1));
        let own = slowest.forward + slowest.backward;
        let sum_s: f64 = loads.iter().map(Load::total_s).sum();
        let bubble_s = (sum_s - own.total_s) / chunks
            * if options.schedule == Schedule::ZeroBubble { ZERO_BUBBLE } else { 1.0 };
        let (data_s, update_s) = self.eager_update_s(&block, stages, slowest);
        let sharded_s = self.sharded_s(stages, &slowest);
        Parts {
            compute_s: rounds * (own.total_s - own.tensor_s - own.expert_s - own.context_s),
            tensor_s: rounds * own.tensor_s,
            expert_s: rounds * own.expert_s,
            context_s: rounds * own.context_s,
            data_s: data_s + rounds * sharded_s,
            pipeline_s: self.eager_send_s(shape, host)
                * (rounds * chunks + f64::from(self.degrees.pipeline - 1)),
            bubble_s,
            update_s,
        }
    }

    /// One microbatch on its way to the next stage and its gradient back.
    fn eager_send_s(&self, shape: &Shape, host: Host) -> f64 {
        if self.degrees.pipeline < 2 {
            return 0.0;
        }
        let Way { question, degrees, .. } = self;
        let hidden = f64::from(shape.base.hidden);
        let tokens = self.samples * f64::from(shape.base.tokens) / f64::from(degrees.context);
        let bytes = 2.0 * tokens * hidden;
        let tensor = f64::from(degrees.tensor);
        let links = &question.hardware.links;
        let stage = self.group(degrees.stage(), 1);
        // Each device of a stage sends its part, which the next stage gathers.
        let send_s = links.send_s(stage, question.gang.devices, bytes / tensor);
        let gather_s = links.exchange_s(self.group(degrees.tensor, 1), bytes);
        let is_hidden = question.options.is_overlapping() && question.options.chunks > 1;
        let moved_s = if is_hidden { 0.0 } else { send_s + gather_s };
        2.0 * (host.send_s / question.hardware.host_speed + moved_s)
    }

    /// Parameters of a stage on one device: all, those of experts, and what is trained of them.
    pub(crate) fn own_parameters(&self, stage: usize, range: &Range<usize>) -> (f64, f64) {
        let tensor = f64::from(self.degrees.tensor);
        let (parameters, experts) = self.question.rows.parameters(range);
        // The last of several stages has a copy of the embedding where both ends share it.
        let is_last = stage + 1 == self.degrees.pipeline as usize;
        let copied = match &self.question.model.shape {
            Some(shape) if shape.base.is_tied && is_last && stage > 0 => {
                f64::from(shape.base.vocabulary) * f64::from(shape.base.hidden)
            }
            _ => 0.0,
        };
        ((parameters + copied) / tensor, experts / tensor / f64::from(self.degrees.expert))
    }

    /// Summing gradients, and the optimizer's step, of the stage that takes longest.
    fn eager_update_s(&self, block: &Block<'_>, stages: &[Range<usize>], slowest: Load) -> (f64, f64) {
        let Way { question, degrees, .. } = self;
        let trained = question.model.trained;
        let replicas = degrees.data * degrees.context;
        let links = &question.hardware.links;
        let group = self.group(replicas, degrees.tensor);
        let owners = self.group(replicas / degrees.expert.min(replicas), degrees.tensor * degrees.expert);
        let one = |(stage, range): (usize, &Range<usize>)| {
            let (own, experts) = self.own_parameters(stage, range);
            let (own, experts) = (own * trained, experts * trained);
            let sum_s = if question.options.zero >= 3 {
                0.0
            } else {
                links.all_reduce_s(group, GRADIENT_BYTES * own)
                    + links.all_reduce_s(owners, GRADIENT_BYTES * experts)
            };
            let copied = if replicas > 1 { COPIED_BYTES * (own + experts) } else { 0.0 };
            let shards = if question.options.zero >= 1 { f64::from(replicas) } else { 1.0 };
            let layers = range.len() as f64;
            let hidden_s = if question.options.is_overlapping() {
                sum_s.min(slowest.backward.total_s) * (1.0 - 1.0 / layers.max(1.0))
            } else {
                0.0
            };
            let bytes = STEP_BYTES * (own + experts) / shards + copied;
            (sum_s - hidden_s, block.kernels.stream_s(bytes, 8.0 + 12.0))
        };
        let longer = |a: (f64, f64), b: (f64, f64)| if b.0 + b.1 > a.0 + a.1 { b } else { a };
        let (sum_s, step_s) = stages.iter().enumerate().map(one).fold((0.0, 0.0), longer);
        (sum_s + self.tied_s(), step_s + block.host.step_s / question.hardware.host_speed)
    }

    /// The first and the last stage add up gradients of the words that both have.
    fn tied_s(&self) -> f64 {
        let Way { question, degrees, .. } = self;
        let Some(shape) = question.model.shape.as_ref().filter(|shape| shape.base.is_tied) else {
            return 0.0;
        };
        if degrees.pipeline < 2 {
            return 0.0;
        }
        let words =
            f64::from(shape.base.vocabulary) * f64::from(shape.base.hidden) / f64::from(degrees.tensor);
        let group = self.group(2, degrees.stage() * (degrees.pipeline - 1));
        question.hardware.links.all_reduce_s(group, GRADIENT_BYTES * words)
    }

    /// Parameters that are gathered before each pass and gradients that are scattered after it, as far as that takes longer than the passes.
    fn sharded_s(&self, stages: &[Range<usize>], slowest: &Load) -> f64 {
        let Way { question, degrees, .. } = self;
        if question.options.zero < 3 {
            return 0.0;
        }
        let group = self.group(degrees.data * degrees.context, degrees.tensor);
        let most = stages.iter().enumerate().map(|(stage, range)| self.own_parameters(stage, range).0);
        let bytes = 2.0 * most.fold(0.0, f64::max);
        let one_s = CROWDED * question.hardware.links.exchange_s(group, bytes);
        let exposed = |moved_s: f64, pass_s: f64| {
            if question.options.is_overlapping() { (moved_s - pass_s).max(0.0) } else { moved_s }
        };
        exposed(one_s, slowest.forward.total_s)
            + exposed(one_s * (1.0 + question.model.trained), slowest.backward.total_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_cut_evenly_with_more_in_the_middle() {
        let lengths = |layers, stages| -> Option<Vec<usize>> {
            Some(even_cut(layers, stages)?.iter().map(ExactSizeIterator::len).collect())
        };
        assert_eq!(lengths(12, 4), Some(vec![3; 4]));
        assert_eq!(lengths(126, 8), Some(vec![15, 16, 16, 16, 16, 16, 16, 15]));
        assert_eq!(lengths(5, 2), Some(vec![2, 3]));
        assert_eq!(lengths(3, 4), None);
    }
}
