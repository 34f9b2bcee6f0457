//! A model as the planner sees it: a row of layers, and what one sample costs each.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::families::Shape;
use crate::layers::{LayerTimes, Part};

/// What a model computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 16 bits.
    Half,
    /// 32 bits.
    Single,
    /// Products of 8 bits, everything else of 16.
    Fp8,
    /// Products of 4 bits, everything else of 16.
    Fp4,
}

impl Precision {
    /// Bytes of a number.
    #[must_use]
    pub fn bytes(self) -> f64 {
        match self {
            Self::Single => 4.0,
            Self::Half | Self::Fp8 | Self::Fp4 => 2.0,
        }
    }

    /// All of them by the names that files and command lines have.
    pub const NAMES: &[(&str, Self)] = &[
        ("fp32", Self::Single),
        ("tf32", Self::Single),
        ("bf16", Self::Half),
        ("fp16", Self::Half),
        ("fp8", Self::Fp8),
        ("fp4", Self::Fp4),
    ];

    /// Bytes of what products multiply.
    #[must_use]
    pub fn operand_bytes(self) -> f64 {
        match self {
            Self::Single => 4.0,
            Self::Half => 2.0,
            Self::Fp8 => 1.0,
            Self::Fp4 => 0.5,
        }
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Half => "bf16",
            Self::Single => "fp32",
            Self::Fp8 => "fp8",
            Self::Fp4 => "fp4",
        }
    }

    /// Bytes of parameter, gradient and Adam's two moments for each parameter. With 16 bits there are a copy of 32 bits and the sum
    /// of gradients beside them.
    #[must_use]
    pub fn state_bytes(self) -> f64 {
        match self {
            Self::Single => 16.0,
            Self::Half | Self::Fp8 | Self::Fp4 => 18.0,
        }
    }
}

/// What a layer is made of: what devices reach of their peak, and how it is split over several, depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Products of matrices: attention and what follows it.
    Matrix,
    /// Convolutions, with a normalisation over the batch behind each.
    Convolution,
}

/// One layer: the least that a pipeline can cut out. Amounts are those of the forward pass of one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// Floating-point operations.
    pub flop: f64,
    /// What goes between a device and its memory besides the operands of products.
    pub traffic_bytes: f64,
    /// Parameters that every replica has.
    pub parameters: f64,
    /// Parameters of experts, of which a device may have some only.
    pub expert_parameters: f64,
    /// What the next layer is given.
    pub output_bytes: f64,
    /// What the devices that share the layer have to sum.
    pub summed_bytes: f64,
    /// What devices that have different experts send to each other, each way.
    pub exchanged_bytes: f64,
    /// What is alive while the layer's backward pass runs.
    pub working_bytes: f64,
    /// How often its parameters go through memory for each microbatch: the products, the sum of gradients, and what libraries lay
    /// out again.
    pub parameter_passes: f64,
    /// Kernels to start.
    pub kernels: u32,
    /// What profilers measure it as, where they do.
    pub part: Option<Part>,
}

/// A model.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// As the user says it.
    pub name: Arc<str>,
    /// Models of a family are alike in what an estimate gets wrong.
    pub family: Arc<str>,
    /// From the input on.
    pub layers: Vec<Layer>,
    /// What it computes with.
    pub precision: Precision,
    /// What its layers are.
    pub kind: Kind,
    /// Into how many equal parts a layer can be split.
    pub splits: u32,
    /// Experts of a layer; none where all tokens see the same.
    pub experts: u32,
    /// Bytes of parameters, gradients and optimizer for each parameter.
    pub state_bytes: f64,
    /// Its operators, where it is a transformer.
    pub shape: Option<Shape>,
    /// Share of its parameters that training changes: less than 1 with adapters (LoRA).
    pub trained: f64,
    /// What its parts were measured to take, by device type.
    pub measured: BTreeMap<Arc<str>, LayerTimes>,
}

impl Model {
    /// All of them.
    #[must_use]
    pub fn parameters(&self) -> f64 {
        self.layers.iter().map(|layer| layer.parameters + layer.expert_parameters).sum()
    }

    /// The same model computing with other numbers: everything that goes through memory or over links is as large as they are.
    #[must_use]
    pub fn in_precision(mut self, precision: Precision) -> Self {
        let ratio = precision.bytes() / self.precision.bytes();
        if precision != self.precision {
            for layer in &mut self.layers {
                layer.traffic_bytes *= ratio;
                layer.output_bytes *= ratio;
                layer.summed_bytes *= ratio;
                layer.exchanged_bytes *= ratio;
                layer.working_bytes *= ratio;
            }
            (self.precision, self.state_bytes) = (precision, precision.state_bytes());
        }
        self
    }

    /// Tokens of a sample, where it has such.
    #[must_use]
    pub fn tokens(&self) -> Option<f64> {
        self.shape.map(|shape| f64::from(shape.base.tokens))
    }

    /// The same model with sequences of another length; none where it has no sequences.
    #[must_use]
    pub fn with_tokens(&self, tokens: u32) -> Option<Self> {
        let model = self.shape?.with_tokens(tokens).model(&self.name, &self.family);
        Some(Self { state_bytes: self.state_bytes, ..model.in_precision(self.precision) })
    }

    /// The same model with only so many parameters trained, in adapters beside frozen weights (LoRA).
    #[must_use]
    pub fn with_adapters(mut self, parameters: f64) -> Self {
        self.trained = (parameters / self.parameters()).min(1.0);
        self.shape = self.shape.map(|shape| crate::families::Shape { is_frozen: true, ..shape });
        self
    }

    /// Operations of a forward pass of one sample.
    #[must_use]
    pub fn flop(&self) -> f64 {
        self.layers.iter().map(|layer| layer.flop).sum()
    }
}
