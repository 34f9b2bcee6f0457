//! A model as the planner sees it: a row of layers, and what one sample costs each.

use std::sync::Arc;

/// What a model computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 16 bits.
    Half,
    /// 32 bits.
    Single,
}

impl Precision {
    /// Bytes of a number.
    #[must_use]
    pub fn bytes(self) -> f64 {
        match self {
            Self::Half => 2.0,
            Self::Single => 4.0,
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
    /// out anew.
    pub parameter_passes: f64,
    /// Kernels to start.
    pub kernels: u32,
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
}

impl Model {
    /// All of them.
    #[must_use]
    pub fn parameters(&self) -> f64 {
        self.layers.iter().map(|layer| layer.parameters + layer.expert_parameters).sum()
    }

    /// Operations of a forward pass of one sample.
    #[must_use]
    pub fn flop(&self) -> f64 {
        self.layers.iter().map(|layer| layer.flop).sum()
    }
}
