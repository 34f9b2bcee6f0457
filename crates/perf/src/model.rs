//! The performance model of Wharf's own rules.

use std::collections::BTreeSet;

use wharf_core::{JobSpec, NodeShare, PerfModel, Topology};

use crate::interference;
use crate::interleave::{GROUP_SIZE_MAX, Interleaving, Order, Stages};
use crate::opportunistic::{BOTH_OPPORTUNISTIC_FACTOR, iteration_beside_s};

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
    /// How much longer than its stages tell a group of two, three or four interleaved jobs takes.
    pub interleave_factors: [f64; GROUP_SIZE_MAX - 1],
}

/// Jobs run at the speed that their specs tell, less what spreading and sharing cost.
#[derive(Clone, Debug)]
pub struct Model {
    costs: Costs,
    sharing: Sharing,
    order: Order,
    checkpoint_interval_s: Option<f64>,
}

impl Model {
    /// A model with these costs, for a policy that shares devices in this way.
    pub fn new(costs: Costs, sharing: Sharing, order: Order) -> Self {
        Self { costs, sharing, order, checkpoint_interval_s: None }
    }

    /// The same model, where all jobs save their work every so often.
    #[must_use]
    pub fn with_checkpoints(self, interval_s: f64) -> Self {
        Self { checkpoint_interval_s: Some(interval_s), ..self }
    }

    /// Seconds per iteration of jobs that take turns; one after the other where their stages are not known.
    fn lockstep_s(&self, job: &JobSpec, neighbours: &[&JobSpec]) -> f64 {
        let members = || std::iter::once(job).chain(neighbours.iter().copied());
        let stages: Option<Vec<Stages>> = members().map(|member| member.stages.map(Stages::from)).collect();
        match stages {
            Some(stages) if stages.len() <= GROUP_SIZE_MAX => {
                let interleaving = Interleaving { resources: 4, factors: self.costs.interleave_factors };
                interleaving.iteration_s(&stages, job.iteration_ms / 1000.0, self.order)
            }
            _ => members().map(|member| member.iteration_ms / 1000.0).sum(),
        }
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
            Sharing::Lockstep => alone_s.max(self.lockstep_s(job, neighbours)),
            Sharing::Opportunistic => opportunistic_s(job, alone_s, neighbours),
            Sharing::None | Sharing::Interference => alone_s * interference::slowdown(job, neighbours),
        }
    }

    fn restart_s(&self, _job: &JobSpec) -> f64 {
        self.costs.restart_s
    }

    fn checkpoint_interval_s(&self) -> Option<f64> {
        self.checkpoint_interval_s
    }
}

/// A guaranteed job runs as if alone; an opportunistic one (with a negative priority) in the gaps of its neighbours.
fn opportunistic_s(job: &JobSpec, alone_s: f64, neighbours: &[&JobSpec]) -> f64 {
    if job.priority >= 0 {
        return alone_s;
    }
    neighbours.iter().fold(alone_s, |slowest, other| {
        let beside = match (job.stages, other.stages) {
            (Some(own), Some(theirs)) if other.priority >= 0 => {
                iteration_beside_s(own.into(), theirs.into(), other.iteration_ms / 1000.0)
            }
            _ => alone_s * BOTH_OPPORTUNISTIC_FACTOR,
        };
        slowest.max(beside)
    })
}
