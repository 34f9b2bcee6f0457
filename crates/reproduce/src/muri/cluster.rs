//! First fit over equal nodes, as the published `yarn` placement does it.

use wharf_core::{ClusterSpec, DEVICES_PER_NODE_MAX, DeviceSet, NodeId, NodeShare};

use super::error::MuriError;

/// Equal nodes under switches.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Devices in each node.
    pub node_devices: u32,
    /// The nodes' ids, switch by switch.
    pub nodes: Vec<NodeId>,
    /// Where each switch's nodes end in `nodes`.
    switch_ends: Vec<usize>,
}

impl Shape {
    pub(super) fn new(cluster: &ClusterSpec) -> Result<Self, MuriError> {
        let Some(first) = cluster.nodes.first() else { return Err(MuriError::NoDevices) };
        let node_devices = first.devices;
        if node_devices == 0 {
            return Err(MuriError::NoDevices);
        }
        if let Some(node) = cluster
            .nodes
            .iter()
            .find(|node| node.devices != node_devices || node.devices > DEVICES_PER_NODE_MAX)
        {
            return Err(MuriError::UnequalNodes {
                node: node.name.to_string(),
                devices: node.devices,
                expected: node_devices.min(DEVICES_PER_NODE_MAX),
            });
        }
        let switch = |node: &NodeId| cluster.nodes[node.index()].switch;
        let mut nodes: Vec<NodeId> = (0..cluster.nodes.len()).map(NodeId::from_index).collect();
        nodes.sort_by_key(switch);
        let mut end = 0;
        let switch_ends = nodes
            .chunk_by(|a, b| switch(a) == switch(b))
            .map(|chunk| {
                end += chunk.len();
                end
            })
            .collect();
        Ok(Self { node_devices, nodes, switch_ends })
    }

    /// Devices in the cluster.
    pub(super) fn devices(&self) -> u32 {
        self.node_devices * self.nodes.len() as u32
    }

    /// Whether first fit, in any order, places all gangs whose sum is at most the cluster.
    ///
    /// With sizes that divide one another, free space is split over nodes only in amounts that are each smaller than
    /// the smallest gang in the later node; their sum stays below any gang that could not be placed.
    pub(super) fn never_fragments(&self, sizes: &[u32]) -> bool {
        let divides = |&size: &u32| {
            size.is_power_of_two() && size <= self.node_devices || size % self.node_devices == 0
        };
        self.switch_ends.len() == 1 && self.node_devices.is_power_of_two() && sizes.iter().all(divides)
    }

    /// Whether a gang fits when all else is gone.
    pub(super) fn can_hold(&self, devices: u32) -> bool {
        let switches = std::iter::once(0).chain(self.switch_ends.iter().copied()).zip(&self.switch_ends);
        let nodes_max = switches.map(|(start, &end)| end - start).max().unwrap_or(0);
        devices.div_ceil(self.node_devices) as usize <= nodes_max
    }
}

/// Free devices per node while the cluster is being filled. Devices are only ever taken, never given back.
#[derive(Debug)]
pub(super) struct Filling<'a> {
    shape: &'a Shape,
    free: Vec<u32>,
    /// Per gang size within a node: nodes before this one have too little.
    first: Vec<usize>,
    /// Whole nodes that are free.
    whole_nodes: usize,
    /// All free devices.
    pub free_total: u32,
    taken: Vec<usize>,
}

impl<'a> Filling<'a> {
    pub(super) fn new(shape: &'a Shape) -> Self {
        let mut filling = Self {
            shape,
            free: vec![shape.node_devices; shape.nodes.len()],
            first: vec![0; shape.node_devices as usize + 1],
            whole_nodes: 0,
            free_total: 0,
            taken: Vec::new(),
        };
        filling.clear();
        filling
    }

    /// Empties the cluster.
    pub(super) fn clear(&mut self) {
        self.free.fill(self.shape.node_devices);
        self.first.fill(0);
        self.whole_nodes = self.free.len();
        self.free_total = self.shape.devices();
    }

    /// Whether a gang might fit now; "no" is certain, and lasting.
    pub(super) fn may_fit(&mut self, devices: u32) -> bool {
        if devices > self.shape.node_devices {
            return devices / self.shape.node_devices <= self.whole_nodes as u32
                && devices <= self.free_total;
        }
        self.first_node(devices) < self.free.len()
    }

    /// Takes devices for a gang if they are free; the devices are appended to `placement`.
    pub(super) fn place(&mut self, devices: u32, placement: Option<&mut Vec<NodeShare>>) -> bool {
        if devices > self.shape.node_devices {
            return self.place_across(devices, placement);
        }
        let index = self.first_node(devices);
        if index == self.free.len() {
            return false;
        }
        self.take(index, devices, placement);
        true
    }

    fn first_node(&mut self, devices: u32) -> usize {
        let first = &mut self.first[devices as usize];
        while *first < self.free.len() && self.free[*first] < devices {
            *first += 1;
        }
        *first
    }

    /// Whole free nodes, and one more for the rest, all under one switch.
    fn place_across(&mut self, devices: u32, mut placement: Option<&mut Vec<NodeShare>>) -> bool {
        let whole = self.shape.node_devices;
        let (full_nodes, rest) = ((devices / whole) as usize, devices % whole);
        if full_nodes > self.whole_nodes {
            return false;
        }
        let mut start = 0;
        for &end in &self.shape.switch_ends {
            self.taken.clear();
            self.taken.extend((start..end).filter(|&index| self.free[index] == whole).take(full_nodes));
            let found = self.taken.len() == full_nodes;
            let last = || (start..end).find(|index| self.free[*index] >= rest && !self.taken.contains(index));
            let last = if rest > 0 && found { last() } else { None };
            if found && (rest == 0 || last.is_some()) {
                let taken = std::mem::take(&mut self.taken);
                for &index in &taken {
                    self.take(index, whole, placement.as_deref_mut());
                }
                self.taken = taken;
                if let Some(index) = last {
                    self.take(index, rest, placement);
                }
                return true;
            }
            start = end;
        }
        false
    }

    fn take(&mut self, index: usize, devices: u32, placement: Option<&mut Vec<NodeShare>>) {
        let used = self.shape.node_devices - self.free[index];
        if used == 0 {
            self.whole_nodes -= 1;
        }
        self.free[index] -= devices;
        self.free_total -= devices;
        if let Some(placement) = placement {
            let devices = DeviceSet::first(used + devices).difference(DeviceSet::first(used));
            placement.push(NodeShare::new(self.shape.nodes[index], devices));
        }
    }
}

/// Who was placed where in one filling.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub jobs: Vec<u32>,
    shares: Vec<NodeShare>,
    ends: Vec<usize>,
}

impl Selection {
    pub(super) fn clear(&mut self) {
        self.jobs.clear();
        self.shares.clear();
        self.ends.clear();
    }

    /// Places a job if it fits.
    pub(super) fn place(&mut self, filling: &mut Filling<'_>, devices: u32, job: u32) -> bool {
        let placed = filling.place(devices, Some(&mut self.shares));
        if placed {
            self.jobs.push(job);
            self.ends.push(self.shares.len());
        }
        placed
    }

    /// The placement of the job that was placed after `index` others.
    pub(super) fn placement(&self, index: usize) -> &[NodeShare] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.shares[start..self.ends[index]]
    }

    /// The jobs with their placements, in the order in which they were placed.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[NodeShare])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends).map(|(start, &end)| &self.shares[start..end]);
        self.jobs.iter().copied().zip(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_takes_first_node_that_fits_and_whole_nodes_for_large_gangs() {
        let shape = Shape::new(&ClusterSpec::uniform("v100", 4, 8)).expect("equal nodes");
        let mut filling = Filling::new(&shape);
        let mut place = |devices| {
            let mut placement = Vec::new();
            let placed = filling.place(devices, Some(&mut placement));
            placed.then(|| placement.iter().map(|share| (share.node.0, share.devices.0)).collect::<Vec<_>>())
        };
        assert_eq!(place(6), Some(vec![(0, 0b0011_1111)]));
        assert_eq!(place(4), Some(vec![(1, 0b1111)]));
        assert_eq!(place(2), Some(vec![(0, 0b1100_0000)]));
        assert_eq!(place(20), Some(vec![(2, 0xff), (3, 0xff), (1, 0xf0)]));
        assert_eq!(place(1), None);
        assert!(shape.can_hold(32) && !shape.can_hold(33));
    }
}
