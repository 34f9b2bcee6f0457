//! Any free devices: the baseline that shows what placement is worth.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use wharf_core::{Gang, NodeShare, Topology, Vacancy};

use super::{Placer, all_of, free_of_allowed, take_in_order};

/// Starts at a node drawn at random and takes what is free from there on.
#[derive(Debug)]
pub struct Random {
    rng: ChaCha8Rng,
}

impl Random {
    /// A placer whose draws depend on the seed alone.
    pub fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed) }
    }
}

impl Placer for Random {
    fn place(
        &mut self,
        topology: &Topology,
        vacancy: &Vacancy,
        gang: &Gang,
        placement: &mut Vec<NodeShare>,
    ) -> bool {
        placement.clear();
        let nodes = topology.nodes().len();
        free_of_allowed(topology, vacancy, gang).any(|free| {
            if free.devices() < gang.devices {
                return false;
            }
            let start = self.rng.random_range(0..nodes);
            let from = |first: usize| {
                (1..=free.devices_per_node_max())
                    .filter_map(|count| free.with_exactly(count)?.next_from(first))
                    .min()
            };
            let mut next = start;
            let mut wrapped = false;
            let in_circle = std::iter::from_fn(|| {
                let node = from(next)
                    .or_else(|| (!std::mem::replace(&mut wrapped, true)).then(|| from(0)).flatten())?;
                next = node.index() + 1;
                (!wrapped || node.index() < start).then_some(node)
            });
            take_in_order(vacancy, all_of(in_circle), gang.devices, placement)
        })
    }
}
