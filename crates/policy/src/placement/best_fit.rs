//! The tightest node that fits.

use wharf_core::{Gang, NodeShare, Topology, Vacancy};

use super::{Placer, all_of, take_in_order, tightest_or};

/// Leaves as few free devices behind as it can; a gang larger than a node takes the emptiest nodes, on any switch.
#[derive(Clone, Copy, Debug, Default)]
pub struct BestFit;

impl Placer for BestFit {
    fn place(
        &mut self,
        topology: &Topology,
        vacancy: &Vacancy,
        gang: &Gang,
        placement: &mut Vec<NodeShare>,
    ) -> bool {
        tightest_or(topology, vacancy, gang, placement, |free, placement| {
            take_in_order(vacancy, all_of(free.most_free_first()), gang.devices, placement)
        })
    }
}
