//! The performance model of Wharf's own rules.

use std::collections::BTreeSet;

use wharf_core::{JobSpec, NodeShare, PerfModel, Topology};

/// What happens to jobs on the same devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It does not come to that.
    None,
    /// They interleave their stages and advance in lockstep (Muri).
    Lockstep,
    /// Guaranteed jobs run as if alone, opportunistic ones in the gaps (AntMan).
    Opportunistic,
    /// Each slows the other down by a ratio (FFS, BSBF).
    Interference,
}

/// What disturbances cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Seconds from a launch to the first iteration.
    pub restart_s: f64,
    /// How much slower a gang is that is spread over many more nodes than it needs: 0.3 means up to 30 %.
    pub spread_slowdown: f64,
    /// How much slower a gang is whose nodes hang on several switches.
    pub switch_slowdown: f64,
}

/// Jobs run at the speed that their specs tell, less what spreading and sharing cost.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    costs: Costs,
    sharing: Sharing,
}

impl Model {
    /// A model with these costs, for a policy that shares devices in this way.
    pub fn new(costs: Costs, sharing: Sharing) -> Self {
        Self { costs, sharing }
    }

    fn spread_factor(&self, topology: &Topology, placement: &[NodeShare]) -> f64 {
        if placement.len() <= 1 {
            return 1.0;
        }
        let given: u32 = placement.iter().map(|share| share.devices.len()).sum();
        let largest = placement.iter().map(|share| topology.node(share.node).spec.devices).max().unwrap_or(1);
        let needed = given.div_ceil(largest) as usize;
        let excess = (placement.len() - needed) as f64 / placement.len() as f64;
        let switches: BTreeSet<u32> =
            placement.iter().map(|share| topology.node(share.node).spec.switch).collect();
        let across = if switches.len() > 1 { self.costs.switch_slowdown } else { 0.0 };
        1.0 + self.costs.spread_slowdown * excess + across
    }
}

impl PerfModel for Model {
    fn iteration_s(
        &self,
        topology: &Topology,
        job: &JobSpec,
        placement: &[NodeShare],
        neighbours: &[&JobSpec],
    ) -> f64 {
        let alone_s = job.iteration_ms / 1000.0 * self.spread_factor(topology, placement);
        if neighbours.is_empty() {
            return alone_s;
        }
        match self.sharing {
            Sharing::None | Sharing::Lockstep | Sharing::Opportunistic | Sharing::Interference => {
                alone_s * (1.0 + neighbours.len() as f64)
            }
        }
    }

    fn restart_s(&self, _job: &JobSpec) -> f64 {
        self.costs.restart_s
    }
}
