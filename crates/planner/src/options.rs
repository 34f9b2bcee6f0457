//! What a user can say about how a model is trained.

use crate::framework::Framework;
use crate::hardware::Hardware;

/// In which order stages of a pipeline work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// All forward passes, then all backward ones: every microbatch is alive at once.
    Gpipe,
    /// A backward pass as soon as there can be one: as many microbatches are alive as there are stages ahead.
    #[default]
    OneForwardOneBackward,
    /// The same, with gradients of weights computed where a stage would wait.
    ZeroBubble,
}

/// What the backward pass computes anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recompute {
    /// Nothing.
    None,
    /// Scores and softmax of attention.
    Selective,
    /// Whole layers.
    #[default]
    Full,
}

impl Recompute {
    /// All of it by the names that files and command lines have.
    pub const NAMES: [(&str, Self); 3] =
        [("none", Self::None), ("selective", Self::Selective), ("full", Self::Full)];

    /// What has that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, recompute)| recompute)
    }
}

/// How attention is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attention {
    /// Scores are written to memory.
    #[default]
    Unfused,
    /// One kernel, in which scores never reach memory (FlashAttention and similar).
    Fused,
}

/// Degrees that are decided beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// Pipeline stages.
    pub pipeline: Option<u32>,
    /// Replicas.
    pub data: Option<u32>,
    /// Devices that share layers.
    pub tensor: Option<u32>,
    /// Devices that share sequences.
    pub context: Option<u32>,
    /// Replicas that share experts.
    pub expert: Option<u32>,
    /// Samples of a microbatch.
    pub samples: Option<u32>,
}

/// How training is done. The default is what a compiled program does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// What trains.
    pub framework: Framework,
    /// Into how many parts a replica's samples are split; the planner chooses where none is given.
    pub microbatches: Option<u32>,
    /// Degrees that are decided beforehand.
    pub fixed: Fixed,
    /// Order of the stages.
    pub schedule: Schedule,
    /// Chunks of layers on each stage, which pass over all stages in turn (interleaved schedules); 1 without.
    pub chunks: u32,
    /// What the backward pass computes anew.
    pub recompute: Recompute,
    /// How attention is computed; as is usual where nothing is given.
    pub attention: Option<Attention>,
    /// What replicas share out among them instead of each having all of it: 1 the optimizer's state, 2 also gradients, 3 also
    /// parameters.
    pub zero: u8,
    /// Whether devices of different nodes may share layers, which needs a network as fast as what is within a node.
    pub is_tensor_between_nodes: bool,
    /// Whether devices that share layers also share the activations between those layers.
    pub is_sequence_parallel: Option<bool>,
    /// Whether gradients of a layer are summed while the backward pass continues to those before it.
    pub is_overlapping: Option<bool>,
    /// Whether sums within a layer overlap with its products.
    pub is_tensor_overlapping: Option<bool>,
    /// What of a device's memory training may take.
    pub memory_share: f64,
}

impl Options {
    /// What is trained with where nothing else is known: Megatron-LM.
    #[must_use]
    pub fn usual() -> Self {
        Self { framework: Framework::Megatron, ..Self::default() }
    }

    /// The same with what is usual on such devices where nothing is given. On devices with products of 8 bits (from 2022 on) frameworks
    /// fuse attention, and Megatron-LM shares sequences within layers and overlaps all traffic that it can; DDP, FSDP and DeepSpeed overlap
    /// the reduction of gradients everywhere.
    #[must_use]
    pub fn resolved(self, hardware: &Hardware) -> Self {
        let is_recent = hardware.short_tflops[0].is_some() && self.framework.host().is_some();
        let attention = if is_recent { Attention::Fused } else { Attention::Unfused };
        let is_megatron = is_recent && self.framework == Framework::Megatron;
        Self {
            attention: self.attention.or(Some(attention)),
            is_sequence_parallel: self.is_sequence_parallel.or(Some(is_megatron)),
            is_overlapping: self.is_overlapping.or(Some(is_megatron || self.framework.is_overlapping())),
            is_tensor_overlapping: self.is_tensor_overlapping.or(Some(is_megatron)),
            ..self
        }
    }

    pub(crate) fn is_fused(&self) -> bool {
        self.attention == Some(Attention::Fused)
    }

    pub(crate) fn is_overlapping(&self) -> bool {
        self.is_overlapping == Some(true)
    }

    pub(crate) fn is_tensor_overlapping(&self) -> bool {
        self.is_tensor_overlapping == Some(true)
    }

    pub(crate) fn is_sequence_parallel(&self) -> bool {
        self.is_sequence_parallel == Some(true)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            framework: Framework::default(),
            microbatches: None,
            fixed: Fixed::default(),
            schedule: Schedule::default(),
            chunks: 1,
            recompute: Recompute::default(),
            attention: None,
            zero: 0,
            is_tensor_between_nodes: false,
            is_sequence_parallel: None,
            is_overlapping: None,
            is_tensor_overlapping: None,
            memory_share: 0.9,
        }
    }
}
