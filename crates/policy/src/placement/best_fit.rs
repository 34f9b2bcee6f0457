//! The tightest node that fits.

use wharf_core::{Gang, NodeShare, Schedule, Topology};

use super::{Placer, all_of, free_of_allowed, share, take_in_order};

/// Leaves as few free devices behind as it can; a gang larger than a node takes the emptiest nodes, on any switch.
#[derive(Clone, Copy, Debug, Default)]
pub struct BestFit;

impl Placer for BestFit {
    fn place(
        &mut self,
        topology: &Topology,
        schedule: &Schedule,
        gang: &Gang,
        placement: &mut Vec<NodeShare>,
    ) -> bool {
        placement.clear();
        free_of_allowed(topology, schedule, gang).any(|free| {
            if free.devices() < gang.devices {
                return false;
            }
            match free.best_fit(gang.devices) {
                Some(node) => {
                    placement.push(share(schedule, node, gang.devices));
                    true
                }
                None => take_in_order(schedule, all_of(free.most_free_first()), gang.devices, placement),
            }
        })
    }
}
