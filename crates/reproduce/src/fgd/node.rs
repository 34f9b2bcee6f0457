//! What is left on nodes. Nodes with equal rests share one state, so that each is scored once for each specification.

use std::collections::HashMap;

use super::fragmentation::Typical;
use super::workload::{Machine, Shape, WHOLE};

/// The classes of pods on a node that have GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Classes {
    has_shares: bool,
    /// Bit `n` stands for pods with `n + 1` whole GPUs.
    whole: u128,
}

impl Classes {
    /// The class of a specification; none where it asks for no GPU.
    fn of(shape: &Shape) -> Self {
        if shape.is_share() {
            return Self { has_shares: true, whole: 0 };
        }
        // A node has at most 128 GPUs.
        let whole = shape.gpus.checked_sub(1).and_then(|bit| 1u128.checked_shl(bit)).unwrap_or_default();
        Self { has_shares: false, whole }
    }

    fn with(self, other: Self) -> Self {
        Self { has_shares: self.has_shares || other.has_shares, whole: self.whole | other.whole }
    }

    pub(super) fn count(self) -> u32 {
        u32::from(self.has_shares) + self.whole.count_ones()
    }

    /// Whether a specification's class is among them.
    pub(super) fn has(self, shape: &Shape) -> bool {
        self.with(Self::of(shape)) == self && shape.gpus > 0
    }
}

/// What is left on a node, but for memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rest {
    pub(super) gpu_type: usize,
    pub(super) cpu_milli: u32,
    /// Idle thousandths of each GPU.
    pub(super) idle: Vec<u32>,
    /// Classes of the pods on it; kept only for the rule that asks for them.
    pub(super) classes: Classes,
}

impl Rest {
    pub(super) fn of(machine: &Machine) -> Self {
        let Machine { gpu_type, cpu_milli, gpus, .. } = *machine;
        Self { gpu_type, cpu_milli, idle: vec![WHOLE; gpus], classes: Classes::default() }
    }

    /// Whether a pod fits, its type of GPU and memory aside.
    pub(super) fn fits(&self, shape: &Shape) -> bool {
        let fitting = self.idle.iter().filter(|&&idle| idle >= shape.milli).count();
        self.cpu_milli >= shape.cpu_milli && fitting >= shape.gpus as usize
    }

    pub(super) fn idle_milli(&self) -> u32 {
        self.idle.iter().sum()
    }

    /// GPUs that are wholly idle.
    pub(super) fn free_gpus(&self) -> usize {
        self.idle.iter().filter(|&&idle| idle == WHOLE).count()
    }

    /// The rest with a pod on some of its GPUs.
    pub(super) fn after(&self, shape: &Shape, gpus: &[usize]) -> Self {
        let mut rest = self.clone();
        rest.cpu_milli -= shape.cpu_milli;
        gpus.iter().for_each(|&gpu| rest.idle[gpu] -= shape.milli);
        rest
    }

    pub(super) fn add_class(&mut self, shape: &Shape) {
        self.classes = self.classes.with(Classes::of(shape));
    }
}

/// All rests that occurred, each with its fragmentation.
#[derive(Default)]
pub(super) struct Rests {
    known: HashMap<Rest, usize>,
    all: Vec<(Rest, f64)>,
}

impl Rests {
    /// The position of a rest.
    pub(super) fn add(&mut self, rest: Rest, typical: &mut Typical) -> usize {
        let next = self.all.len();
        let position = *self.known.entry(rest.clone()).or_insert(next);
        if position == next {
            let unusable = typical.unusable(rest.gpu_type, rest.cpu_milli, &rest.idle);
            self.all.push((rest, unusable));
        }
        position
    }

    pub(super) fn get(&self, position: usize) -> &Rest {
        &self.all[position].0
    }

    pub(super) fn unusable(&self, position: usize) -> f64 {
        self.all[position].1
    }
}
