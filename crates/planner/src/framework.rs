//! Training frameworks: times of their hosts to start operators, and their defaults.

/// A training framework.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Framework {
    /// Megatron-LM on PyTorch, eager.
    Megatron,
    /// PyTorch with DDP or FSDP.
    Torch,
    /// DeepSpeed on PyTorch.
    DeepSpeed,
    /// JAX: a compiled program, whose operators are fused and need no host between them.
    #[default]
    Jax,
}

/// Seconds that a host of the A100's generation (AMD Rome, 2.25 GHz) needs to start work on one device. An eager operator takes 5 to 10 µs in
/// PyTorch's dispatcher and several times as much with the Python code of a module around it; the backward pass runs in C++.
/// The constants are fitted to iterations of GPT models of 0.2 to 1.3 billion parameters on 1 to 8 A100 (vTrain's single-node
/// measurements), which hosts limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// One operator of a forward pass.
    pub forward_s: f64,
    /// One operator of a backward pass.
    pub backward_s: f64,
    /// One collective operation.
    pub collective_s: f64,
    /// What a collective in a stream of kernels takes beyond its time alone: the processes do not arrive at the same time.
    pub arrival_s: f64,
    /// Saving and restoring the random state of a layer that is recomputed.
    pub recompute_s: f64,
    /// Waiting for one message between stages.
    pub send_s: f64,
    /// One optimizer step, whatever its size.
    pub step_s: f64,
}

impl Framework {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Megatron, Self::Torch, Self::DeepSpeed, Self::Jax];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Megatron => "megatron",
            Self::Torch => "torch",
            Self::DeepSpeed => "deepspeed",
            Self::Jax => "jax",
        }
    }

    /// The framework of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|framework| framework.name() == name)
    }

    /// What its host needs; none where the program is compiled.
    #[must_use]
    pub fn host(self) -> Option<Host> {
        let megatron = Host {
            forward_s: 40e-6,
            backward_s: 28e-6,
            collective_s: 40e-6,
            arrival_s: 76e-6,
            recompute_s: 63e-6,
            send_s: 53e-6,
            step_s: 0.43e-3,
        };
        match self {
            Self::Megatron => Some(megatron),
            // No fused kernels of the framework's own, but less Python around each operator.
            Self::Torch => Some(Host { forward_s: 32e-6, ..megatron }),
            // Hooks around every module.
            Self::DeepSpeed => Some(Host { forward_s: 44e-6, step_s: 2e-3, ..megatron }),
            Self::Jax => None,
        }
    }

    /// Whether gradients are reduced during the backward pass by default.
    #[must_use]
    pub fn is_overlapping(self) -> bool {
        matches!(self, Self::Torch | Self::DeepSpeed)
    }
}
