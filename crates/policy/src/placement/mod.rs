//! Placement strategies: where a gang goes, independently of which job is next.

mod best_fit;
mod consolidated;
mod needs;
mod random;
mod topology_aware;

use wharf_core::{
    DeviceSet, DeviceTypeId, FreeOfType, Gang, NodeId, NodeShare, Topology, Vacancy, View, is_slice,
};

pub use best_fit::BestFit;
pub use consolidated::Consolidated;
pub use needs::WithNeeds;
pub use random::Random;
pub use topology_aware::TopologyAware;

/// Finds free devices for a gang.
pub trait Placer: Send {
    /// Fills `placement` with devices for `gang` and returns whether there are enough.
    fn place(
        &mut self,
        topology: &Topology,
        vacancy: &Vacancy,
        gang: &Gang,
        placement: &mut Vec<NodeShare>,
    ) -> bool;
}

/// The strategies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Strategy {
    /// As few nodes as possible, whole nodes for large gangs, never across switches (YARN's way).
    #[default]
    Consolidated,
    /// Any free devices.
    Random,
    /// The tightest node that fits; large gangs take the emptiest nodes.
    BestFit,
    /// The tightest node, else the tightest switch, else the fewest switches.
    TopologyAware,
}

impl Strategy {
    /// Every strategy with the word that chooses it.
    pub const ALL: [(&'static str, Self); 4] = [
        ("consolidated", Self::Consolidated),
        ("random", Self::Random),
        ("best-fit", Self::BestFit),
        ("topology-aware", Self::TopologyAware),
    ];

    /// A placer of this strategy; `seed` is for those that draw at random.
    pub fn placer(self, seed: u64) -> Box<dyn Placer> {
        let placer: Box<dyn Placer> = match self {
            Self::Consolidated => Box::new(Consolidated),
            Self::Random => Box::new(Random::new(seed)),
            Self::BestFit => Box::new(BestFit),
            Self::TopologyAware => Box::new(TopologyAware),
        };
        Box::new(WithNeeds(placer))
    }
}

/// The device types that a gang may use and the cluster has, in order of preference.
pub fn allowed_types<'a>(topology: &'a Topology, gang: &'a Gang) -> impl Iterator<Item = DeviceTypeId> + 'a {
    let is_named = |kind: DeviceTypeId| gang.device_types.contains(&topology.types()[kind.index()]);
    let named = gang.device_types.iter().filter_map(|name| topology.type_id(name));
    let others = gang.allows(Gang::OTHERS).then(|| (0..topology.types().len()).map(DeviceTypeId::from_index));
    let is_other = move |&kind: &DeviceTypeId| !is_named(kind) && !is_slice(&topology.types()[kind.index()]);
    named.chain(others.into_iter().flatten().filter(is_other))
}

/// The device types of nodes that a gang may use: all where it has no devices.
pub(crate) fn types_of<'a>(view: &View<'a>, gang: &'a Gang) -> impl Iterator<Item = DeviceTypeId> + 'a {
    let all = (0..view.topology().types().len()).map(DeviceTypeId::from_index);
    let (any, some) = match gang.has_devices() {
        true => (None, Some(allowed_types(view.topology(), gang))),
        false => (Some(all), None),
    };
    any.into_iter().flatten().chain(some.into_iter().flatten())
}

/// What is free of each type that a gang may use.
pub(crate) fn free_of_allowed<'a>(
    topology: &'a Topology,
    vacancy: &'a Vacancy,
    gang: &'a Gang,
) -> impl Iterator<Item = &'a FreeOfType> {
    allowed_types(topology, gang).filter_map(|kind| vacancy.free_index().of_type(kind))
}

/// The `count` lowest free devices of a node.
pub(crate) fn share(vacancy: &Vacancy, node: NodeId, count: u32) -> NodeShare {
    NodeShare::new(node, vacancy.free(node).lowest(count))
}

/// The tightest node that fits, of the first type that has enough free; else what `elsewhere` finds among the nodes of that type.
pub(crate) fn tightest_or(
    topology: &Topology,
    vacancy: &Vacancy,
    gang: &Gang,
    placement: &mut Vec<NodeShare>,
    elsewhere: impl Fn(&FreeOfType, &mut Vec<NodeShare>) -> bool,
) -> bool {
    placement.clear();
    free_of_allowed(topology, vacancy, gang).any(|free| {
        if free.devices() < gang.devices {
            return false;
        }
        match free.best_fit(gang.devices) {
            Some(node) => {
                placement.push(share(vacancy, node, gang.devices));
                true
            }
            None => elsewhere(free, placement),
        }
    })
}

/// Nodes of which everything that is free may be taken.
pub(crate) fn all_of(nodes: impl Iterator<Item = NodeId>) -> impl Iterator<Item = (NodeId, u32)> {
    nodes.map(|node| (node, u32::MAX))
}

/// Takes free devices from `nodes` in order, at most so many of each, until `count` are found; `false` (and nothing)
/// where they do not do.
pub(crate) fn take_in_order(
    vacancy: &Vacancy,
    nodes: impl Iterator<Item = (NodeId, u32)>,
    count: u32,
    placement: &mut Vec<NodeShare>,
) -> bool {
    let mut missing = count;
    for (node, room) in nodes {
        let share = share(vacancy, node, missing.min(room));
        missing -= share.devices.len();
        if share.devices != DeviceSet::EMPTY {
            placement.push(share);
        }
        if missing == 0 {
            return true;
        }
    }
    placement.clear();
    false
}

#[cfg(test)]
mod tests {
    use wharf_core::{ClusterSpec, NodeSpec, State};

    use super::*;

    /// Two switches with two nodes of four devices each, all idle.
    fn two_switches() -> State {
        let mut cluster = ClusterSpec::uniform("gpu", 4, 4);
        for (index, node) in cluster.nodes.iter_mut().enumerate() {
            *node = NodeSpec { switch: index as u32 / 2, ..node.clone() };
        }
        State::new(&cluster, 1)
    }

    fn nodes_used(strategy: Strategy, gang: u32) -> Option<Vec<u32>> {
        let state = two_switches();
        let mut placement = Vec::new();
        let found =
            strategy.placer(7).place(state.topology(), state.schedule(), &Gang::fixed(gang), &mut placement);
        let given: u32 = placement.iter().map(|share| share.devices.len()).sum();
        assert_eq!(given, if found { gang } else { 0 }, "{strategy:?} gives a whole gang or nothing");
        found.then(|| placement.iter().map(|share| share.node.0).collect())
    }

    #[test]
    fn strategies_place_whole_gangs() {
        for (strategy, gang, nodes) in [
            (Strategy::Consolidated, 3, Some(vec![0])),
            (Strategy::Consolidated, 8, Some(vec![0, 1])),
            (Strategy::Consolidated, 6, Some(vec![0, 1])),
            (Strategy::Consolidated, 12, None),
            (Strategy::BestFit, 12, Some(vec![0, 1, 2])),
            (Strategy::TopologyAware, 8, Some(vec![0, 1])),
            (Strategy::TopologyAware, 12, Some(vec![0, 1, 2])),
            (Strategy::BestFit, 17, None),
            (Strategy::TopologyAware, 17, None),
            (Strategy::Random, 17, None),
        ] {
            assert_eq!(nodes_used(strategy, gang), nodes, "{strategy:?} with {gang}");
        }
        assert!(nodes_used(Strategy::Random, 16).is_some());
    }
}
