//! Who is where, and what is free: as it is, and as it would be after some moves.

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::{JobId, NodeId, NodeShare, View};

/// So many devices on each of these nodes, all of one type; by node.
pub(super) type Spots = Vec<(NodeId, u32)>;

/// A job's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) kind: usize,
    pub(super) count: u32,
    pub(super) spots: Spots,
}

impl Seat {
    pub(super) fn new(kind: usize, mut spots: Spots) -> Self {
        spots.sort_unstable();
        Self { kind, count: spots.iter().map(|&(_, count)| count).sum(), spots }
    }

    /// The place that a placement is; its type is that of its first node.
    pub(super) fn of(view: &View<'_>, placement: &[NodeShare]) -> Option<Self> {
        let with_devices = || placement.iter().filter(|share| !share.devices.is_empty());
        let kind = view.topology().node(with_devices().next()?.node).device_type.index();
        Some(Self::new(kind, with_devices().map(|share| (share.node, share.devices.len())).collect()))
    }

    /// Whether a placement is this place.
    pub(super) fn is_of(&self, placement: &[NodeShare]) -> bool {
        let is_same = |share: &&NodeShare| self.on(share.node) == share.devices.len();
        let with_devices = || placement.iter().filter(|share| !share.devices.is_empty());
        with_devices().count() == self.spots.len() && with_devices().all(|share| is_same(&share))
    }

    /// Whether one of the two is on all nodes of the other.
    pub(super) fn is_around(&self, other: &Self) -> bool {
        let (few, many) = if self.spots.len() < other.spots.len() { (self, other) } else { (other, self) };
        few.spots.iter().all(|&(node, _)| many.on(node) > 0)
    }

    /// Devices on one node.
    pub(super) fn on(&self, node: NodeId) -> u32 {
        self.spots.iter().find(|spot| spot.0 == node).map_or(0, |spot| spot.1)
    }
}

/// One node.
#[derive(Clone, Debug, Default)]
struct Node {
    kind: usize,
    switch: u32,
    /// Working devices; none while it gets no jobs.
    size: u32,
    free: u32,
    /// By id.
    jobs: Vec<JobId>,
}

/// All nodes of one type.
#[derive(Clone, Debug, Default)]
struct Kind {
    nodes: Vec<NodeId>,
    /// Working devices of the largest node.
    size: u32,
    free: u32,
    /// Nodes by the number of their free devices.
    by_free: Vec<BTreeSet<NodeId>>,
    /// Nodes of which all devices are free, and their devices.
    idle: BTreeSet<NodeId>,
    idle_devices: u32,
    /// Most devices of the type on one switch.
    on_switch: u32,
}

/// The cluster as a table of free devices. A place is found without looking at every node.
#[derive(Clone, Debug, Default)]
pub(super) struct Board {
    nodes: Vec<Node>,
    kinds: Vec<Kind>,
    seats: BTreeMap<JobId, Seat>,
}

impl Board {
    /// Takes note of one node as it is.
    pub(super) fn sync_node(&mut self, view: &View<'_>, id: NodeId) {
        let (topology, schedule) = (view.topology(), view.schedule());
        let spec = topology.node(id);
        let kind = spec.device_type.index();
        self.kinds.resize_with(topology.types().len().max(self.kinds.len()), Kind::default);
        if self.nodes.len() <= id.index() {
            self.nodes.resize_with(id.index() + 1, Node::default);
        }
        if self.kinds[kind].nodes.binary_search(&id).is_err() {
            let at = self.kinds[kind].nodes.partition_point(|&other| other < id);
            self.kinds[kind].nodes.insert(at, id);
            self.nodes[id.index()] = Node { kind, switch: spec.spec.switch, ..Node::default() };
            self.shelve(id, 0);
        }
        let size = spec.spec.devices - schedule.broken(id).len();
        // Nothing is free while the size changes, so that it is not counted as idle with the other one.
        self.set_free(id, 0);
        self.nodes[id.index()].size = if schedule.is_up(id) { size } else { 0 };
        self.set_free(id, schedule.free(id).len());
        let mut switches: BTreeMap<u32, u32> = BTreeMap::new();
        let of_kind = &mut self.kinds[kind];
        of_kind.size = 0;
        for node in of_kind.nodes.iter().map(|node| &self.nodes[node.index()]) {
            of_kind.size = of_kind.size.max(node.size);
            *switches.entry(node.switch).or_default() += node.size;
        }
        of_kind.on_switch = switches.into_values().max().unwrap_or(0);
    }

    /// Takes note of what is free: jobs that the policy is not told of come and go too. Returns whether more is than before.
    pub(super) fn sync_free(&mut self, view: &View<'_>) -> bool {
        let mut is_more = false;
        for id in (0..self.nodes.len()).map(NodeId::from_index) {
            let free = view.schedule().free(id).len();
            is_more |= free > self.nodes[id.index()].free;
            self.set_free(id, free);
        }
        is_more
    }

    /// Takes note of one job as it is.
    pub(super) fn sync_job(&mut self, view: &View<'_>, job: JobId) {
        let seat = view.schedule().placement(job).and_then(|placement| Seat::of(view, placement));
        if self.seats.get(&job) == seat.as_ref() {
            return;
        }
        let left = self.lift(job);
        if let Some(seat) = &seat {
            self.put(job, seat.clone());
        }
        // What a device holds beside this job is in the schedule only.
        for (node, _) in left.into_iter().chain(seat).flat_map(|seat| seat.spots) {
            self.set_free(node, view.schedule().free(node).len());
        }
    }

    fn shelve(&mut self, id: NodeId, free: u32) {
        let shelves = &mut self.kinds[self.nodes[id.index()].kind].by_free;
        if shelves.len() <= free as usize {
            shelves.resize_with(free as usize + 1, BTreeSet::new);
        }
        shelves[free as usize].insert(id);
    }

    /// Takes note of what is free on a node. On one that gets no new jobs nothing is, whatever the schedule says.
    fn set_free(&mut self, id: NodeId, free: u32) {
        let Node { kind, size, free: before, .. } = self.nodes[id.index()];
        let free = free.min(size);
        if before == free {
            return;
        }
        let of_kind = &mut self.kinds[kind];
        if before == size && of_kind.idle.remove(&id) {
            of_kind.idle_devices -= size;
        }
        if free == size && size > 0 && of_kind.idle.insert(id) {
            of_kind.idle_devices += size;
        }
        of_kind.by_free[before as usize].remove(&id);
        of_kind.free = of_kind.free + free - before;
        self.nodes[id.index()].free = free;
        self.shelve(id, free);
    }

    pub(super) fn seat(&self, job: JobId) -> Option<&Seat> {
        self.seats.get(&job)
    }

    /// All that have a place, by id.
    pub(super) fn seated(&self) -> impl Iterator<Item = JobId> + '_ {
        self.seats.keys().copied()
    }

    /// Takes a job from its place.
    pub(super) fn lift(&mut self, job: JobId) -> Option<Seat> {
        let seat = self.seats.remove(&job)?;
        for &(node, count) in &seat.spots {
            let here = &mut self.nodes[node.index()];
            here.jobs.retain(|&other| other != job);
            if here.size > 0 {
                let free = (here.free + count).min(here.size);
                self.set_free(node, free);
            }
        }
        Some(seat)
    }

    /// Gives a job a place.
    pub(super) fn put(&mut self, job: JobId, seat: Seat) {
        for &(node, count) in &seat.spots {
            let here = &mut self.nodes[node.index()];
            let at = here.jobs.partition_point(|&other| other < job);
            here.jobs.insert(at, job);
            // On a node that gets no new jobs nothing is free, and what it has stays.
            let free = here.free.saturating_sub(count);
            self.set_free(node, free);
        }
        self.seats.insert(job, seat);
    }

    /// Whether a place is free.
    pub(super) fn is_free(&self, seat: &Seat) -> bool {
        seat.spots.iter().all(|&(node, count)| self.nodes[node.index()].free >= count)
    }

    /// Free devices of a type.
    pub(super) fn free(&self, kind: usize) -> u32 {
        self.kinds.get(kind).map_or(0, |kind| kind.free)
    }

    /// Free devices of all types.
    pub(super) fn free_count(&self) -> u32 {
        self.kinds.iter().map(|kind| kind.free).sum()
    }

    /// Most devices of a type in one node.
    pub(super) fn size(&self, kind: usize) -> u32 {
        self.kinds.get(kind).map_or(0, |kind| kind.size)
    }

    /// Working and free devices of a node.
    pub(super) fn room(&self, node: NodeId) -> (u32, u32) {
        let node = &self.nodes[node.index()];
        (node.size, node.free)
    }

    pub(super) fn switch(&self, node: NodeId) -> u32 {
        self.nodes[node.index()].switch
    }

    /// The jobs on a node.
    pub(super) fn jobs_on(&self, node: NodeId) -> &[JobId] {
        &self.nodes[node.index()].jobs
    }

    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes of a type, those with the most free devices first.
    pub(super) fn freest_first(&self, kind: usize) -> impl Iterator<Item = NodeId> + '_ {
        let shelves = self.kinds.get(kind).map_or(&[][..], |kind| &kind.by_free);
        shelves.iter().rev().flatten().copied()
    }

    /// A place for so many devices of a type: on the tightest node, or on whole nodes of one switch where one node is not
    /// enough.
    pub(super) fn fit(&self, kind: usize, count: u32, avoid: Option<NodeId>) -> Option<Seat> {
        let of_kind = self.kinds.get(kind)?;
        if of_kind.free < count || count == 0 {
            return None;
        }
        if count > of_kind.size {
            return self.fit_many(kind, count, avoid);
        }
        let shelves = of_kind.by_free.get(count as usize..)?;
        let node = shelves.iter().flatten().copied().find(|&node| Some(node) != avoid)?;
        Some(Seat::new(kind, vec![(node, count)]))
    }

    fn fit_many(&self, kind: usize, count: u32, avoid: Option<NodeId>) -> Option<Seat> {
        let of_kind = &self.kinds[kind];
        // One node may be taken in part.
        if of_kind.idle_devices + of_kind.size <= count {
            return None;
        }
        let mut idle: BTreeMap<u32, Vec<(NodeId, u32)>> = BTreeMap::new();
        let across = self.is_across(kind, count);
        for &id in of_kind.idle.iter().filter(|&&id| Some(id) != avoid) {
            let node = &self.nodes[id.index()];
            let switch = if across { 0 } else { node.switch };
            idle.entry(switch).or_default().push((id, node.size));
        }
        idle.into_iter().find_map(|(switch, nodes)| {
            self.take_whole(kind, count, nodes, |node| across || self.switch(node) == switch, avoid)
        })
    }

    /// Whole nodes, the largest first, and one more for what is missing then.
    fn take_whole(
        &self,
        kind: usize,
        count: u32,
        mut nodes: Spots,
        is_near: impl Fn(NodeId) -> bool,
        avoid: Option<NodeId>,
    ) -> Option<Seat> {
        nodes.sort_by_key(|&(node, size)| (std::cmp::Reverse(size), node));
        let mut spots = Vec::new();
        let mut missing = count;
        for (node, size) in nodes {
            if size <= missing {
                spots.push((node, size));
                missing -= size;
            }
        }
        if missing > 0 {
            let shelves = self.kinds[kind].by_free.get(missing as usize..)?;
            let is_other = |node: NodeId| spots.iter().all(|spot| spot.0 != node) && Some(node) != avoid;
            let node = shelves.iter().flatten().copied().find(|&node| is_other(node) && is_near(node))?;
            spots.push((node, missing));
        }
        Some(Seat::new(kind, spots))
    }

    /// Whether no switch has so many devices of a type: nodes of several have to do.
    pub(super) fn is_across(&self, kind: usize, count: u32) -> bool {
        self.kinds[kind].on_switch < count
    }

    /// A larger place that leaves a job where it is: more devices of its node, or more nodes beside its own.
    pub(super) fn fit_around(&self, seat: &Seat, count: u32) -> Option<Seat> {
        let size = self.size(seat.kind);
        if let &[(node, _)] = &seat.spots[..]
            && count <= size
        {
            let larger = Seat::new(seat.kind, vec![(node, count)]);
            return self.is_free(&larger).then_some(larger);
        }
        let is_whole = |&(node, _): &(NodeId, u32)| {
            let (size, free) = self.room(node);
            size > 0 && size == free
        };
        if !seat.spots.iter().all(is_whole) || count <= seat.count || !self.is_free(seat) {
            return None;
        }
        let own: Spots = seat.spots.iter().map(|&(node, _)| (node, self.room(node).0)).collect();
        let held: u32 = own.iter().map(|&(_, size)| size).sum();
        let missing = count.checked_sub(held)?;
        let switch = self.switch(own[0].0);
        let across = self.is_across(seat.kind, count);
        let mut spots = own;
        let mut left = missing;
        for &id in &self.kinds[seat.kind].nodes {
            let spot = (id, self.room(id).0);
            let is_near = across || self.switch(id) == switch;
            if is_whole(&spot) && is_near && spot.1 <= left && spots.iter().all(|own| own.0 != id) {
                left -= spot.1;
                spots.push(spot);
            }
        }
        (left == 0).then(|| Seat::new(seat.kind, spots))
    }
}

#[cfg(test)]
mod tests {
    use wharf_core::{Cadence, ClusterSpec, Engine, Knowledge, Regime};
    use wharf_perf::{Costs, Model, Order, Sharing};

    use super::*;
    use crate::{BuildArgs, Settings, Strategy};

    /// Three nodes of four devices, and two of two.
    fn board() -> Board {
        let nodes = [("a", 3, 4), ("b", 2, 2)];
        let nodes =
            nodes.iter().flat_map(|&(kind, nodes, size)| ClusterSpec::uniform(kind, nodes, size).nodes);
        let costs = Costs {
            restart_s: 30.0,
            spread_slowdown: 0.0,
            switch_slowdown: 0.0,
            interleave_factors: [1.0, 1.0, 1.0],
        };
        let settings = Settings::default();
        let args = BuildArgs { settings: &settings, placement: Strategy::default(), seed: 0 };
        let model = || Model::new(costs, Sharing::None, Order::Best);
        let policy = (crate::find("fifo").expect("registered").build)(&args).expect("defaults");
        let regime = Regime {
            policy,
            perf: Box::new(model()),
            cadence: Cadence::Events,
            slots: 1,
            access: wharf_core::Access::default(),
        };
        let engine = Engine::new(&ClusterSpec::of(nodes.collect()), regime);
        let perf = model();
        let view = View::new(wharf_core::Time::ZERO, engine.state(), &perf, Knowledge::Durations);
        let mut board = Board::default();
        for index in 0..5 {
            board.sync_node(&view, NodeId::from_index(index));
        }
        board
    }

    fn spots(seat: Option<Seat>) -> Vec<(u32, u32)> {
        seat.map_or(Vec::new(), |seat| seat.spots.iter().map(|&(node, count)| (node.0, count)).collect())
    }

    #[test]
    fn places_are_tight_and_whole() {
        let mut board = board();
        for (job, kind, count, expected) in [
            (0, 0, 1, vec![(0, 1)]),
            (1, 0, 2, vec![(0, 2)]),
            (2, 0, 8, vec![(1, 4), (2, 4)]),
            (3, 0, 2, vec![]),
            (4, 0, 1, vec![(0, 1)]),
            (5, 1, 3, vec![(3, 2), (4, 1)]),
            (6, 1, 1, vec![(4, 1)]),
        ] {
            let seat = board.fit(kind, count, None);
            assert_eq!(spots(seat.clone()), expected, "job {job}");
            if let Some(seat) = seat {
                board.put(JobId(job), seat);
            }
        }
        assert_eq!((board.free(0), board.free(1)), (0, 0));
        // What is lifted is free again, and there is room where it was.
        let lifted = board.lift(JobId(2)).expect("it has a place");
        assert_eq!(board.free(0), 8);
        assert_eq!(spots(board.fit(0, 4, Some(NodeId(1)))), [(2, 4)]);
        assert!(board.is_free(&lifted));
        let first = Seat::new(0, vec![(NodeId(1), 4)]);
        assert_eq!(spots(board.fit_around(&first, 8)), [(1, 4), (2, 4)], "it grows where it is");
        assert_eq!(board.fit_around(&first, 12), None);
    }
}
