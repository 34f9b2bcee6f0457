//! How long an iteration takes that is split in a given way, and what memory it needs.

use std::ops::Range;

use crate::hardware::Hardware;
use crate::layers::LayerTimes;
use crate::links::Group;
use crate::memory::{Memory, Rows};
use crate::model::{Kind, Layer, Model, Precision};
use crate::options::{Options, Recompute};
use crate::split::split;

/// What products of matrices reach of the peak; what keeps them from it is counted as traffic.
const MATRIX_SHARE: f64 = 0.8;
/// What convolutions reach where they are rounded to be fast, and where they are not.
const CONVOLUTION_SHARES: [f64; 2] = [0.10, 0.42];
/// What of the counted traffic does not stay in caches.
pub const TRAFFIC_SHARE: f64 = 0.8;
/// Sums over all replicas that the normalisations of a block of convolutions need, each small, in all passes.
const NORMALISATION_SUMS: f64 = 25.0;
/// The content of one: so many bytes.
const NORMALISATION_BYTES: f64 = 1024.0;
/// What replicas sum of each parameter's gradient: in 32 bits, with what stays idle meanwhile.
const GRADIENT_BYTES: f64 = 10.0;

/// How far off estimates are in four of five cases: on one node and on several with operators known, as judged on types of which
/// measurements were at hand; and otherwise.
pub(crate) const SPREADS: [f64; 3] = [0.10, 0.18, 0.25];

/// What products of a kind reach of a device's peak with numbers of a precision.
#[must_use]
pub fn product_share(kind: Kind, precision: Precision, is_rounding: bool) -> f64 {
    match kind {
        Kind::Matrix => MATRIX_SHARE,
        Kind::Convolution => CONVOLUTION_SHARES[usize::from(precision == Precision::Single && !is_rounding)],
    }
}

/// Over how many devices what is split; their product is the number of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Degrees {
    /// Stages of layers, one after another.
    pub pipeline: u32,
    /// Replicas, each with its part of the samples.
    pub data: u32,
    /// Devices that share every layer.
    pub tensor: u32,
    /// Devices that share the tokens of every sequence.
    pub context: u32,
    /// Over how many replicas the experts are shared out; 1 where each has all.
    pub expert: u32,
}

impl Degrees {
    /// Devices.
    #[must_use]
    pub fn devices(self) -> u32 {
        self.pipeline * self.stage()
    }

    /// Devices of a stage.
    pub(crate) fn stage(self) -> u32 {
        self.data * self.tensor * self.context
    }
}

/// Where an iteration's time goes. What devices do at the same time counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// Computing, on the slowest stage.
    pub compute_s: f64,
    /// Devices that share layers, summing up.
    pub tensor_s: f64,
    /// Tokens to their experts and back.
    pub expert_s: f64,
    /// Keys and values of sequences that devices share, as far as nothing is computed meanwhile.
    pub context_s: f64,
    /// Replicas, summing up gradients or statistics and gathering parameters: as far as nothing is computed meanwhile.
    pub data_s: f64,
    /// Between stages.
    pub pipeline_s: f64,
    /// The slowest stage, waiting for the others.
    pub bubble_s: f64,
    /// The optimizer.
    pub update_s: f64,
}

impl Parts {
    pub(crate) fn sum_s(&self) -> f64 {
        self.compute_s
            + self.tensor_s
            + self.expert_s
            + self.context_s
            + self.data_s
            + self.pipeline_s
            + self.bubble_s
            + self.update_s
    }
}

/// What is expected of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// How it is split.
    pub degrees: Degrees,
    /// Into how many parts each replica's samples are split.
    pub microbatches: u32,
    /// The layers of each stage.
    pub stages: Vec<Range<usize>>,
    /// Seconds of an iteration.
    pub iteration_s: f64,
    /// Where they go.
    pub parts: Parts,
    /// What the fullest device needs.
    pub memory_gib: f64,
    /// Of what that is made up.
    pub memory: Memory,
    /// Whether a device has that.
    pub is_fitting: bool,
    /// How far off such estimates are in four of five cases: 0.1 means a tenth.
    pub spread: f64,
}

impl Estimate {
    /// Between which times an iteration is in four of five cases.
    #[must_use]
    pub fn interval_s(&self) -> (f64, f64) {
        (self.iteration_s * (1.0 - self.spread), self.iteration_s * (1.0 + self.spread))
    }
}

/// A gang: devices of one type, so many on each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gang {
    /// All of them.
    pub devices: u32,
    /// Of a node.
    pub per_node: u32,
}

/// What is the same for all plans of a model on a gang.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) model: &'a Model,
    pub(crate) hardware: &'a Hardware,
    pub(crate) gang: Gang,
    pub(crate) batch: u32,
    pub(crate) options: Options,
    /// The layers of each stage, where the user decides.
    pub(crate) cuts: Option<&'a [Range<usize>]>,
    /// The model's layers.
    pub(crate) rows: &'a Rows,
    /// What the model's layers were measured to take on such devices.
    pub(crate) times: Option<&'a LayerTimes>,
}

/// What one microbatch costs in a layer.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    compute_s: f64,
    tensor_s: f64,
    expert_s: f64,
    data_s: f64,
}

impl Cost {
    pub(crate) fn sum_s(&self) -> f64 {
        self.compute_s + self.tensor_s + self.expert_s + self.data_s
    }
}

impl Question<'_> {
    /// What is expected of a way to split it; `None` where it cannot be split so.
    pub(crate) fn estimate(&self, degrees: Degrees, microbatches: u32) -> Option<Estimate> {
        let per_replica = self.batch / degrees.data;
        if per_replica * degrees.data != self.batch || !per_replica.is_multiple_of(microbatches.max(1)) {
            return None;
        }
        let way =
            Way { question: self, degrees, microbatches, samples: f64::from(per_replica / microbatches) };
        way.estimate()
    }
}

/// A way to split.
pub(crate) struct Way<'a> {
    pub(crate) question: &'a Question<'a>,
    pub(crate) degrees: Degrees,
    pub(crate) microbatches: u32,
    /// Of a microbatch.
    pub(crate) samples: f64,
}

impl Way<'_> {
    fn estimate(&self) -> Option<Estimate> {
        let Question { model, options, times, .. } = *self.question;
        if let (Some(shape), Some(host), None) = (&model.shape, options.framework.host(), times) {
            return self.eager(shape, host);
        }
        let layers = &self.question.model.layers;
        let costs: Vec<Cost> = layers.iter().map(|layer| self.cost(layer)).collect();
        let weights: Vec<f64> = costs.iter().map(Cost::sum_s).collect();
        let count = self.degrees.pipeline as usize;
        let limit_gib = self.question.hardware.memory_gib * self.question.options.memory_share;
        let fitting = match self.question.cuts {
            Some(cuts) => Some(cuts.to_vec()).filter(|cuts| self.fits(cuts, limit_gib)),
            None => split(&weights, count, |stage, range| self.memory_gib(stage, range) <= limit_gib),
        };
        let is_fitting = fitting.is_some();
        let cuts = || self.question.cuts.map(<[Range<usize>]>::to_vec);
        let stages = fitting.or_else(cuts).or_else(|| split(&weights, count, |_, _| true))?;
        if stages.len() != count {
            return None;
        }
        let memory = stages.iter().enumerate().map(|(stage, range)| self.memory(stage, range));
        let memory = memory.max_by(|one, two| one.sum_gib().total_cmp(&two.sum_gib())).unwrap_or_default();
        let parts = self.parts(&costs, &stages);
        Some(Estimate {
            degrees: self.degrees,
            microbatches: self.microbatches,
            iteration_s: parts.sum_s(),
            parts,
            memory_gib: memory.sum_gib(),
            memory,
            is_fitting,
            spread: SPREADS[2],
            stages,
        })
    }

    fn fits(&self, cuts: &[Range<usize>], limit_gib: f64) -> bool {
        cuts.iter().enumerate().all(|(stage, range)| self.memory_gib(stage, range) <= limit_gib)
    }

    pub(crate) fn group(&self, size: u32, stride: u32) -> Group {
        Group { size, stride, per_node: self.question.gang.per_node }
    }

    /// Forward passes whose time a training step has: the backward pass takes two, and another where it computes again.
    fn passes(&self) -> f64 {
        if self.question.options.recompute == Recompute::Full { 4.0 } else { 3.0 }
    }

    /// What a device needs of its time while no more than so many of its node work.
    fn relief(&self, working: u32) -> f64 {
        let Question { hardware, gang, .. } = *self.question;
        hardware.relief(working, hardware.per_node.unwrap_or(1).max(gang.per_node))
    }

    /// The devices of the gang that are on one node.
    fn on_node(&self) -> u32 {
        self.question.gang.per_node.min(self.question.gang.devices)
    }

    /// Seconds that a device computes for one microbatch in a layer while all of the gang do.
    fn compute_s(&self, layer: &Layer, own_bytes: f64) -> f64 {
        self.relief(self.on_node()) * self.busy_s(layer, own_bytes)
    }

    /// The same while all devices of its node work: as measured, or else as its data sheet lets expect.
    fn busy_s(&self, layer: &Layer, own_bytes: f64) -> f64 {
        let Question { model, hardware, times, .. } = *self.question;
        let tensor = self.degrees.tensor;
        let measured = times.zip(layer.part);
        if let Some(time_s) = measured.and_then(|(times, part)| times.time_s(part, tensor, self.samples)) {
            return time_s;
        }
        let (shared, passes) = (f64::from(tensor), self.passes());
        let bandwidth = hardware.memory_gb_per_s * 1e9;
        let peak = hardware.tflops(model.precision);
        let tflops = peak * product_share(model.kind, model.precision, hardware.is_rounding);
        let busy_s = passes * layer.flop * self.samples / shared / (tflops * 1e12)
            + passes * TRAFFIC_SHARE * layer.traffic_bytes * self.samples / shared / bandwidth
            + layer.parameter_passes * own_bytes / bandwidth;
        busy_s.max(passes * f64::from(layer.kernels) * hardware.kernel_s)
    }

    fn cost(&self, layer: &Layer) -> Cost {
        let Question { model, hardware, options, .. } = *self.question;
        let Degrees { data, tensor, expert, .. } = self.degrees;
        let passes = self.passes();
        let own = (layer.parameters + layer.expert_parameters / f64::from(expert)) * model.precision.bytes()
            / f64::from(tensor);
        let links = &hardware.links;
        let summed = layer.summed_bytes * self.samples;
        let tensor_s = match model.kind {
            // Two sums a pass, and none after the weights' gradients.
            Kind::Matrix => 2.0 * (passes - 1.0) * links.all_reduce_s(self.group(tensor, 1), summed / 2.0),
            Kind::Convolution => passes * links.all_reduce_s(self.group(tensor, 1), summed),
        };
        let exchanged = layer.exchanged_bytes * self.samples;
        let expert_s = 2.0 * (passes - 1.0) * links.exchange_s(self.group(expert, tensor), exchanged);
        let replicas = self.group(data, tensor);
        let mut data_s = match model.kind {
            Kind::Matrix => 0.0,
            Kind::Convolution => NORMALISATION_SUMS * links.all_reduce_s(replicas, NORMALISATION_BYTES),
        };
        if options.zero >= 3 {
            // A device with its own experts has them whole.
            let experts = if expert == 1 { layer.expert_parameters } else { 0.0 };
            let gathered = (layer.parameters + experts) * model.precision.bytes() / f64::from(tensor);
            data_s += (passes - 1.0) * links.exchange_s(replicas, gathered);
        }
        Cost { compute_s: self.compute_s(layer, own), tensor_s, expert_s, data_s }
    }

    fn parts(&self, costs: &[Cost], stages: &[Range<usize>]) -> Parts {
        let times = self.stage_times(costs, stages);
        let slowest =
            (0..times.len()).fold(0, |best, stage| if times[stage] > times[best] { stage } else { best });
        let own = &costs[stages[slowest].clone()];
        let alone_s: f64 = own.iter().map(Cost::sum_s).sum();
        let rounds = f64::from(self.microbatches);
        let relief = if alone_s > 0.0 { times[slowest] / alone_s } else { 1.0 };
        let part = |pick: fn(&Cost) -> f64| rounds * relief * own.iter().map(pick).sum::<f64>();
        let send_s = self.send_s(stages);
        let (sum_s, update_s) = self.update_s(stages);
        Parts {
            compute_s: part(|cost| cost.compute_s),
            tensor_s: part(|cost| cost.tensor_s),
            expert_s: part(|cost| cost.expert_s),
            context_s: 0.0,
            data_s: part(|cost| cost.data_s) + sum_s - self.hidden_s(sum_s, times[slowest], own.len()),
            pipeline_s: 2.0 * send_s * (rounds - 1.0 + (stages.len() - 1) as f64),
            bubble_s: times.iter().sum::<f64>() - times[slowest],
            update_s,
        }
    }

    /// What of the sums of gradients continues while the last microbatch's backward pass does: all but those of the first layer, which come when
    /// there is nothing left to compute, and no more than that pass takes.
    fn hidden_s(&self, sum_s: f64, stage_s: f64, layers: usize) -> f64 {
        if !self.question.options.is_overlapping() || layers == 0 {
            return 0.0;
        }
        let backward_s = stage_s * (self.passes() - 1.0) / self.passes();
        sum_s.min(backward_s) * (1.0 - 1.0 / layers as f64)
    }

    /// What each stage takes for a microbatch. Stages work in step: what one has more to do than others is done while these wait, and leave
    /// to it what they share.
    fn stage_times(&self, costs: &[Cost], stages: &[Range<usize>]) -> Vec<f64> {
        let stage_s = |range: &Range<usize>| costs[range.clone()].iter().map(Cost::sum_s).sum::<f64>();
        let times: Vec<f64> = stages.iter().map(stage_s).collect();
        if self.question.hardware.at_once.is_none() {
            return times;
        }
        let mut order: Vec<usize> = (0..times.len()).collect();
        order.sort_by(|one, two| times[*one].total_cmp(&times[*two]));
        let of_stage = self.degrees.data * self.degrees.tensor;
        let (mut eased, mut done_s, mut sum_s) = (times.clone(), 0.0, 0.0);
        for (working, stage) in (1..=times.len()).rev().zip(order) {
            let devices = of_stage.saturating_mul(u32::try_from(working).unwrap_or(u32::MAX));
            let relief = self.relief(devices.min(self.on_node())) / self.relief(self.on_node());
            sum_s += (times[stage] - done_s) * relief;
            (eased[stage], done_s) = (sum_s, times[stage]);
        }
        eased
    }

    /// The slowest way from one stage to the next, for one microbatch in one direction.
    fn send_s(&self, stages: &[Range<usize>]) -> f64 {
        let Question { model, hardware, gang, .. } = *self.question;
        let devices = self.degrees.data * self.degrees.tensor;
        let ends = stages.split_last().map_or(&[][..], |(_, rest)| rest).iter();
        let bytes = ends.filter_map(|range| Some(model.layers.get(range.end.checked_sub(1)?)?.output_bytes));
        let most = bytes.fold(0.0, f64::max) * self.samples;
        hardware.links.send_s(self.group(devices, 1), gang.devices, most)
    }

    /// Summing up gradients, and the optimizer's step: of the stage that takes longest.
    fn update_s(&self, stages: &[Range<usize>]) -> (f64, f64) {
        let Question { model, hardware, options, .. } = *self.question;
        let Degrees { data, tensor, expert, .. } = self.degrees;
        let bytes = match model.precision {
            Precision::Single => 4.0,
            _ => GRADIENT_BYTES,
        };
        let shares = |replicas: f64| if options.zero > 0 { replicas } else { 1.0 };
        let (replicas, owners) = (f64::from(data), f64::from(expert));
        let of = |range: &Range<usize>| {
            let (parameters, experts) = self.question.rows.parameters(range);
            let (parameters, experts) = (parameters / f64::from(tensor), experts / f64::from(tensor));
            let summed = parameters + if expert == 1 { experts } else { 0.0 };
            let sum_s = hardware.links.all_reduce_s(self.group(data, tensor), summed * bytes);
            let own = parameters / shares(replicas) + experts / owners / shares(replicas / owners);
            let measured_s = self.question.times.and_then(|times| times.update_s(own));
            let passes_s = own * 2.0 * model.state_bytes / (hardware.memory_gb_per_s * 1e9);
            (sum_s, self.relief(self.on_node()) * measured_s.unwrap_or(passes_s))
        };
        let longer = |a: (f64, f64), b: (f64, f64)| if b.0 + b.1 > a.0 + a.1 { b } else { a };
        stages.iter().map(of).fold((0.0, 0.0), longer)
    }
}
