//! What a user can say about how a model is trained.

/// In which order stages of a pipeline work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// All forward passes, then all backward ones: every microbatch is alive at once.
    Gpipe,
    /// A backward pass as soon as there can be one: as many microbatches are alive as there are stages ahead.
    #[default]
    OneForwardOneBackward,
}

/// How training is done. The default is what current trainers do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Into how many parts a replica's samples are split; the planner chooses where none is given.
    pub microbatches: Option<u32>,
    /// Order of the stages.
    pub schedule: Schedule,
    /// Whether the backward pass computes again what the forward pass had within a layer.
    pub is_recomputing: bool,
    /// What replicas share out among them instead of each having all of it: 1 the optimizer's state, 2 also gradients, 3 also
    /// parameters.
    pub zero: u8,
    /// Whether devices of different nodes may share layers, which needs a network as fast as what is within a node.
    pub is_tensor_between_nodes: bool,
    /// Whether gradients of a layer are summed while the backward pass continues to those before it.
    pub is_overlapping: bool,
    /// What of a device's memory training may take.
    pub memory_share: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            microbatches: None,
            schedule: Schedule::default(),
            is_recomputing: true,
            zero: 0,
            is_tensor_between_nodes: false,
            is_overlapping: false,
            memory_share: 0.9,
        }
    }
}
