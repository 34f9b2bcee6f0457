//! What the layers of a transformer cost one device, operator by operator.
//!
//! Operators and the bytes they move are those of Megatron-LM's layer (arXiv 1909.08053, 2205.05198): products by their shape,
//! attention fused or not, normalisations, dropouts and residuals by their bytes. A pass takes what the device or its host needs,
//! whichever is longer: kernels queue up while the host is ahead.

use crate::families::Shape;
use crate::framework::Host;
use crate::kernels::Kernels;
use crate::links::{Group, Links};
use crate::options::{Options, Recompute};

/// How sharply the slower of device and host decides: a power mean, where small exponents are a mixture of both.
const SHARPNESS: f64 = 8.0;
/// Elementwise operators of a layer are partly fused: share of the bytes they would move one by one.
const FUSED_SHARE: f64 = 0.7;
/// Processes that wait for the slowest: seconds for each collective while the device is idle, and how that grows with the logarithm of
/// their number.
const SKEW: (f64, f64) = (6.8e-6, 3.8);
/// A collective within a stream of kernels compared with one that has the device for itself.
pub(crate) const CROWDED: f64 = 1.5;
/// Bytes moved for each logit by the loss: in 32 bits, and with a vocabulary that is split; a whole one is not processed in place.
const LOSS_BYTES: [f64; 2] = [20.0, 150.0];
/// Bytes for each parameter and microbatch: its gradient is added to those of earlier microbatches.
pub(crate) const ADDED_BYTES: f64 = 4.0;
/// What fused attention reaches of products' speed forward, and backward (FlashAttention-2, arXiv 2307.08691: 0.5 to 0.7 of the peak).
const FUSED_ATTENTION: [f64; 2] = [0.72, 0.6];
/// Products of the backward pass of fused attention, in those of the forward pass: scores are computed again.
const FUSED_BACKWARD: f64 = 2.5;
/// Share of tensor-parallel traffic that stays exposed where products are cut into chunks that overlap with it.
const EXPOSED: f64 = 0.35;
/// Operators of a layer's forward and backward pass, and those that fusing attention saves or that scores without a fused softmax add.
const OPERATORS: [f64; 2] = [20.0, 44.0];
const FUSED_SAVES: [f64; 2] = [5.0, 12.0];
const UNFUSED_SOFTMAX: f64 = 6.0;
/// Operators of the head and the loss, and of the embedding.
const HEAD_OPERATORS: [f64; 2] = [25.0, 20.0];
const EMBEDDING_OPERATORS: [f64; 2] = [12.0, 10.0];

/// Seconds of one microbatch in something, and how much of them devices spend on each other's data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pass {
    pub(crate) total_s: f64,
    pub(crate) tensor_s: f64,
    pub(crate) expert_s: f64,
    pub(crate) context_s: f64,
}

impl std::ops::Add for Pass {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            total_s: self.total_s + other.total_s,
            tensor_s: self.tensor_s + other.tensor_s,
            expert_s: self.expert_s + other.expert_s,
            context_s: self.context_s + other.context_s,
        }
    }
}

/// Forward and backward; what is recomputed belongs to the latter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Passes {
    pub(crate) forward: Pass,
    pub(crate) backward: Pass,
}

/// What a pass needs of the device and of the host.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    device_s: f64,
    tensor_s: f64,
    expert_s: f64,
    context_s: f64,
    operators_s: f64,
    collectives: f64,
}

/// One microbatch of a transformer on one device of a tensor- and context-parallel group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    pub(crate) shape: &'a Shape,
    pub(crate) kernels: Kernels<'a>,
    pub(crate) links: &'a Links,
    pub(crate) host: Host,
    pub(crate) options: Options,
    pub(crate) samples: f64,
    pub(crate) tensor: Group,
    pub(crate) context: Group,
    pub(crate) expert: Group,
}

impl Block<'_> {
    /// Tokens of a microbatch on this device.
    fn tokens(&self) -> f64 {
        self.samples * f64::from(self.shape.base.tokens) / f64::from(self.context.size)
    }

    /// A layer, with experts or without.
    pub(crate) fn layer(&self, has_experts: bool) -> Passes {
        let forward = self.forward(has_experts);
        let again = match self.options.recompute {
            Recompute::None => Pass::default(),
            Recompute::Selective if self.options.is_fused() => Pass::default(),
            Recompute::Selective => Pass { total_s: self.core(false).0, ..Pass::default() },
            Recompute::Full => {
                self.pass(Work { operators_s: forward.operators_s + self.host.recompute_s, ..forward })
            }
        };
        Passes { forward: self.pass(forward), backward: again + self.pass(self.backward(has_experts)) }
    }

    fn forward(&self, has_experts: bool) -> Work {
        let [query, keys, inner, hidden] = self.widths();
        let tokens = self.tokens();
        let gates = self.shape.gates();
        let product = |n: f64, k: f64| self.kernels.product_s([tokens, n, k], 1.0);
        let mut device_s = product(query + 2.0 * keys, hidden) + product(hidden, query);
        let mut expert_s = 0.0;
        let mut operators = self.operators(0);
        if has_experts {
            let (own_s, sent_s) = self.experts(gates);
            device_s += own_s;
            expert_s = sent_s;
            operators += 14.0;
        } else {
            device_s += product(gates * inner, hidden) + product(hidden, inner);
        }
        let (core_s, core_operators) = self.core(false);
        device_s += core_s + self.elementwise([22.0, 22.0], 4.0);
        Work {
            device_s,
            tensor_s: self.tensor_s(2.0),
            expert_s,
            context_s: self.context_s(core_s, 1.0),
            operators_s: (operators + core_operators) * self.host.forward_s,
            collectives: self.collectives() + if has_experts && self.expert.size > 1 { 2.0 } else { 0.0 },
        }
    }

    fn backward(&self, has_experts: bool) -> Work {
        let [query, keys, inner, hidden] = self.widths();
        let tokens = self.tokens();
        let gates = self.shape.gates();
        let weights = if self.shape.is_frozen { 0.0 } else { 1.0 };
        let product = |n: f64, k: f64| {
            self.kernels.product_s([tokens, k, n], 1.0)
                + weights * self.kernels.product_s([n, k, tokens], 1.0)
        };
        let mut device_s = product(query + 2.0 * keys, hidden) + product(hidden, query);
        let mut expert_s = 0.0;
        let mut operators = self.operators(1);
        if has_experts {
            let (own_s, sent_s) = self.experts(gates);
            device_s += 2.0 * own_s;
            expert_s = sent_s;
            operators += 20.0;
        } else {
            device_s += product(gates * inner, hidden) + product(hidden, inner);
        }
        let (core_s, core_operators) = self.core(true);
        device_s += core_s + self.elementwise([38.0, 34.0], 6.0);
        device_s +=
            self.kernels.stream_s(weights * ADDED_BYTES * self.parameters(has_experts), weights * 12.0);
        Work {
            device_s,
            tensor_s: self.tensor_s(2.0),
            expert_s,
            context_s: self.context_s(core_s, 2.0),
            operators_s: (operators + core_operators) * self.host.backward_s,
            collectives: self.collectives() + if has_experts && self.expert.size > 1 { 2.0 } else { 0.0 },
        }
    }

    /// Widths of queries, of keys, of the perceptron on this device, and of a token.
    fn widths(&self) -> [f64; 4] {
        let shape = &self.shape.base;
        let tensor = f64::from(self.tensor.size);
        let hidden = f64::from(shape.hidden);
        let keys = hidden * f64::from(shape.key_heads) / f64::from(shape.heads);
        // Heads of keys that are fewer than devices are copied.
        let keys = keys / tensor.min(f64::from(shape.key_heads));
        [hidden / tensor, keys, f64::from(shape.inner) / tensor, hidden]
    }

    /// Parameters of a layer on this device.
    fn parameters(&self, has_experts: bool) -> f64 {
        let [query, keys, inner, hidden] = self.widths();
        let perceptron = (self.shape.gates() + 1.0) * inner * hidden;
        let perceptrons = match self.shape.experts {
            Some(experts) if has_experts => f64::from(experts.number) / f64::from(self.expert.size),
            _ => 1.0,
        };
        (2.0 * query + 2.0 * keys) * hidden + perceptrons * perceptron
    }

    /// Operators of a pass, without those of attention's core.
    fn operators(&self, pass: usize) -> f64 {
        OPERATORS[pass] - if self.options.is_fused() { FUSED_SAVES[pass] } else { 0.0 }
    }

    /// Scores, softmax and what they weigh: seconds and additional operators.
    fn core(&self, is_backward: bool) -> (f64, f64) {
        let shape = &self.shape.base;
        let (context, pass) = (f64::from(self.context.size), usize::from(is_backward));
        let tokens = f64::from(shape.tokens);
        let own = tokens / context;
        let count = self.samples * f64::from(shape.heads) / f64::from(self.tensor.size);
        let width = f64::from(shape.hidden) / f64::from(shape.heads);
        if self.options.is_fused() {
            let seen = if self.shape.is_causal { 0.5 } else { 1.0 };
            let flop =
                4.0 * count * own * tokens * width * seen * if is_backward { FUSED_BACKWARD } else { 1.0 };
            let speed = self.kernels.flop_per_s(crate::model::Precision::Half) * FUSED_ATTENTION[pass];
            return (flop / speed + self.kernels.stream_s(8.0 * count * own * width, 1.0), 0.0);
        }
        let scores = count * own * tokens;
        // Megatron-LM's fused softmax takes heads by fours.
        let is_fused = count % 4.0 == 0.0;
        let product = |shape: [f64; 3]| self.kernels.long_product_s(shape, count);
        let products = if is_backward {
            3.0 * product([own, width, tokens]) + product([own, tokens, width])
        } else {
            product([own, tokens, width]) + product([own, width, tokens])
        };
        let bytes = match (is_fused, is_backward) {
            (true, false) => 9.0,
            (true, true) => 11.0,
            (false, false) => 24.0,
            (false, true) => 28.0,
        };
        let kernels = if is_fused { 2.0 } else { 7.0 };
        let softmax = self.kernels.pass_s(bytes * scores, kernels, 4.0 * scores);
        (products + softmax, if is_fused { 0.0 } else { UNFUSED_SOFTMAX })
    }

    /// Normalisations, dropouts, residuals: bytes for each token and width, whole on every device or split, in so many kernels each.
    fn elementwise(&self, [whole, split]: [f64; 2], kernels: f64) -> f64 {
        let shape = &self.shape.base;
        let tensor = f64::from(self.tensor.size);
        let size = self.tokens() * f64::from(shape.hidden);
        let size_of_inner = self.tokens() * f64::from(shape.inner) / 4.0;
        let whole_by = if self.options.is_sequence_parallel() { tensor } else { 1.0 };
        self.kernels.pass_s(FUSED_SHARE * whole * size / whole_by, kernels, 6.0 * size / whole_by)
            + self.kernels.pass_s(
                FUSED_SHARE * split * size_of_inner / tensor,
                kernels,
                16.0 * size_of_inner / tensor,
            )
    }

    /// The perceptrons of the experts on this device, and tokens on their way to others and back.
    fn experts(&self, gates: f64) -> (f64, f64) {
        let Some(experts) = self.shape.experts else { return (0.0, 0.0) };
        let [_, _, inner, hidden] = self.widths();
        let own = (f64::from(experts.number) / f64::from(self.expert.size)).max(1.0);
        let routed = self.tokens() * f64::from(experts.chosen);
        let product = |n: f64, k: f64| self.kernels.product_s([routed / own, n, k], own);
        let moved = self.kernels.stream_s(8.0 * routed * hidden, 8.0);
        let sent =
            2.0 * self.links.exchange_s(self.expert, 2.0 * routed * hidden / f64::from(self.tensor.size));
        (product(gates * inner, hidden) + product(hidden, inner) + moved, sent)
    }

    /// Sums within a layer, or what sequence parallelism replaces them by: as much.
    fn tensor_s(&self, sums: f64) -> f64 {
        if self.tensor.size < 2 {
            return 0.0;
        }
        let bytes = 2.0 * self.tokens() * f64::from(self.shape.base.hidden);
        let one = CROWDED * self.links.all_reduce_s(self.tensor, bytes) + self.host.arrival_s;
        sums * one * if self.options.is_tensor_overlapping() { EXPOSED } else { 1.0 }
    }

    fn collectives(&self) -> f64 {
        if self.tensor.size > 1 { 2.0 } else { 0.0 }
    }

    /// Keys and values of the whole sequence, which come while attention works on those that are there.
    fn context_s(&self, core_s: f64, times: f64) -> f64 {
        let [_, keys, ..] = self.widths();
        let bytes = 2.0 * 2.0 * keys * self.samples * f64::from(self.shape.base.tokens);
        (times * self.links.exchange_s(self.context, bytes) - core_s).max(0.0)
    }

    /// Embedding, of words and of places.
    pub(crate) fn embedding(&self) -> Passes {
        let hidden = f64::from(self.shape.base.hidden);
        let bytes = self.tokens() * hidden;
        let words = f64::from(self.shape.base.vocabulary) * hidden / f64::from(self.tensor.size);
        let forward = Work {
            device_s: self.kernels.stream_s(20.0 * bytes, 6.0),
            tensor_s: self.tensor_s(1.0),
            operators_s: EMBEDDING_OPERATORS[0] * self.host.forward_s,
            ..Work::default()
        };
        let backward = Work {
            device_s: self.kernels.stream_s(10.0 * bytes + ADDED_BYTES * words, 6.0),
            operators_s: EMBEDDING_OPERATORS[1] * self.host.backward_s,
            ..Work::default()
        };
        Passes { forward: self.pass(forward), backward: self.pass(backward) }
    }

    /// Scores of all words, and the loss.
    pub(crate) fn head(&self) -> Passes {
        let (hidden, tensor) = (f64::from(self.shape.base.hidden), f64::from(self.tensor.size));
        let (tokens, words) = (self.tokens(), f64::from(self.shape.base.vocabulary) / tensor);
        let product_s = self.kernels.long_product_s([tokens, words, hidden], 1.0);
        let logits = tokens * words * LOSS_BYTES[usize::from(self.tensor.size == 1)];
        let small = self.links.all_reduce_s(self.tensor, 4.0 * tokens);
        let forward = Work {
            device_s: product_s + self.kernels.stream_s(0.6 * logits, 12.0),
            tensor_s: 3.0 * small,
            operators_s: HEAD_OPERATORS[0] * self.host.forward_s,
            collectives: 1.5 * self.collectives(),
            ..Work::default()
        };
        let backward = Work {
            device_s: 2.0 * product_s
                + self.kernels.stream_s(0.4 * logits, 8.0)
                + self.kernels.stream_s(ADDED_BYTES * words * hidden, 1.0),
            tensor_s: self.tensor_s(1.0),
            operators_s: HEAD_OPERATORS[1] * self.host.backward_s,
            ..Work::default()
        };
        Passes { forward: self.pass(forward), backward: self.pass(backward) }
    }

    /// How long a pass takes, where device and host work at the same time.
    fn pass(&self, work: Work) -> Pass {
        let speed = self.kernels.hardware.host_speed;
        let host_s = (work.operators_s + work.collectives * self.host.collective_s) / speed;
        let others_s = work.tensor_s + work.expert_s + work.context_s;
        let total = |device_s: f64| {
            let idle = if host_s > 0.0 { (1.0 - device_s / host_s).max(0.0) } else { 0.0 };
            let (skew_s, growth) = SKEW;
            let skew_s = match self.tensor.size {
                0 | 1 => 0.0,
                size => work.collectives * skew_s * f64::from(size).log2().powf(growth) / speed,
            };
            let host_s = host_s + skew_s * idle;
            (device_s.powf(SHARPNESS) + host_s.powf(SHARPNESS)).powf(1.0 / SHARPNESS)
        };
        let total_s = total(work.device_s + others_s);
        let exposed_s = total_s - total(work.device_s);
        let share = |part_s: f64| if others_s > 0.0 { exposed_s.max(0.0) * part_s / others_s } else { 0.0 };
        Pass {
            total_s,
            tensor_s: share(work.tensor_s),
            expert_s: share(work.expert_s),
            context_s: share(work.context_s),
        }
    }
}
