//! Rearranging the jobs on partly used nodes of a type, so that what is idle comes together.
//!
//! Partly used nodes are paired, the emptiest with the least empty one of those that are checked. Of a pair, either everything
//! is moved to one of the two, or both are filled again, one after the other. What was published repeats that up to 256 times,
//! whether or not anything changes; here a state that was seen before ends it with the same result.

use super::super::site::{Kind, Shape};
use super::super::table::{Owner, Share, Table};

/// The nodes of a type that have room, as a search checks them.
#[derive(Clone, Debug, Default)]
pub(super) struct Rooms {
    /// Nodes that are idle as a whole, in order.
    pub(super) idle: Vec<u32>,
    /// Partly used nodes with their idle devices: the emptiest first, and no more than it takes.
    pub(super) partial: Vec<Share>,
}

impl Rooms {
    /// Searches for so many devices.
    pub(super) fn look(&mut self, table: &Table, kind: Kind, devices: u32) {
        self.idle.clear();
        self.partial.clear();
        if table.idle_of(kind) == 0 {
            return;
        }
        let cap = table.site().per_node(kind);
        for node in table.site().nodes(kind) {
            let idle = table.idle(node);
            if idle == cap {
                self.idle.push(node);
            } else if idle > 0 {
                self.partial.push((node, idle));
            }
        }
        self.partial.sort_by_key(|share| std::cmp::Reverse(share.1));
        let mut sum = 0;
        let enough = self.partial.iter().position(|share| {
            sum += share.1;
            sum >= devices
        });
        if let Some(last) = enough {
            self.partial.truncate(last + 1);
        }
    }

    /// Nodes that hold so many devices together as well as can be: idle ones rather than a partly used one.
    pub(super) fn seats(&self, cap: u32, devices: u32, nodes: &mut Vec<u32>) -> bool {
        nodes.clear();
        let needed = Shape::best(devices, cap).hosts as usize;
        if self.idle.len() >= needed {
            nodes.extend(&self.idle[..needed]);
            return true;
        }
        match self.partial.first() {
            Some(&(node, idle)) if idle >= devices => {
                nodes.push(node);
                true
            }
            _ => false,
        }
    }

    /// Nodes with at least so many idle devices, as many as asked for.
    pub(super) fn spread(&self, per_host: u32, hosts: u32, nodes: &mut Vec<u32>) -> bool {
        nodes.clear();
        let partial = self.partial.iter().filter(|share| share.1 >= per_host).map(|share| share.0);
        nodes.extend(self.idle.iter().copied().chain(partial).take(hosts as usize));
        nodes.len() == hosts as usize
    }
}

/// A job on a pair of nodes: devices on both, and on which of the two it is.
#[derive(Clone, Copy, Debug)]
struct Lifted {
    owner: Owner,
    devices: u32,
    is_on: [bool; 2],
}

/// Contents of devices.
type Kept = Vec<(bool, Owner)>;

/// Rearranges, with memory that is used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Shuffle {
    pub(super) rooms: Rooms,
    nodes: Vec<u32>,
    lifted: Vec<Lifted>,
    kept: Kept,
    seen: Kept,
}

impl Shuffle {
    /// Rearranges until so many devices fit together, at most `rounds_max` times; states how often it had to. Where they never
    /// fit, the table is as the last round left it. `rooms` then tells of the table as it is.
    ///
    /// A pair that cannot be rearranged is put back. In `torn` comes the table as it was before the first such pair was put
    /// back, where the caller asks for them.
    pub(super) fn arrange(
        &mut self,
        table: &mut Table,
        kind: Kind,
        devices: u32,
        rounds_max: u32,
        mut torn: Option<&mut Option<Table>>,
    ) -> Option<u32> {
        let cap = table.site().per_node(kind);
        if self.fits(table, kind, cap, devices) {
            return Some(0);
        }
        let (mut round, mut last) = (0, rounds_max);
        // The distance to the state in `seen`, and when that is replaced by a later one.
        let (mut distance, mut power) = (0, 1);
        if self.rooms.partial.len() < 2 {
            return None;
        }
        self.remember(table, kind);
        while round < last {
            self.pass(table, cap, torn.as_deref_mut());
            round += 1;
            if self.fits(table, kind, cap, devices) {
                return Some(round);
            }
            distance += 1;
            if distance > 0 && last == rounds_max && self.is_seen(table, kind) {
                // From here on the same states come again and again.
                last = round + (rounds_max - round) % distance;
                power = u32::MAX;
            }
            if distance == power {
                self.remember(table, kind);
                (distance, power) = (0, power * 2);
            }
        }
        None
    }

    fn fits(&mut self, table: &Table, kind: Kind, cap: u32, devices: u32) -> bool {
        self.rooms.look(table, kind, devices);
        self.rooms.seats(cap, devices, &mut self.nodes)
    }

    fn remember(&mut self, table: &Table, kind: Kind) {
        self.seen.clear();
        self.seen.extend(table.contents(kind));
    }

    fn is_seen(&self, table: &Table, kind: Kind) -> bool {
        self.seen.iter().copied().eq(table.contents(kind))
    }

    fn pass(&mut self, table: &mut Table, cap: u32, mut torn: Option<&mut Option<Table>>) {
        let count = self.rooms.partial.len();
        for index in 0..count / 2 {
            let (one, two) = (self.rooms.partial[index], self.rooms.partial[count - 1 - index]);
            self.kept.clear();
            for device in table.site().devices(one.0).chain(table.site().devices(two.0)) {
                self.kept.push((table.is_used(device), table.owner(device)));
            }
            let is_done = if one.1 + two.1 > cap {
                self.merge(table, one, two)
            } else {
                self.refill(table, one, two, cap)
            };
            if is_done {
                continue;
            }
            if let Some(torn @ None) = torn.as_deref_mut() {
                *torn = Some(table.clone());
            }
            let site = table.site().clone();
            for (device, &(is_used, owner)) in site.devices(one.0).chain(site.devices(two.0)).zip(&self.kept)
            {
                table.set(device, is_used, owner);
            }
        }
    }

    /// Takes all jobs from a node; devices that are lent out stay as they are.
    fn lift(&mut self, table: &mut Table, node: u32, place: usize) {
        for device in table.site().devices(node) {
            let owner = table.owner(device);
            if !table.is_used(device) || owner == Owner::OUT {
                continue;
            }
            let index = self.lifted.iter().position(|lifted| lifted.owner == owner).unwrap_or_else(|| {
                self.lifted.push(Lifted { owner, devices: 0, is_on: [false; 2] });
                self.lifted.len() - 1
            });
            self.lifted[index].devices += 1;
            self.lifted[index].is_on[place] = true;
            table.set(device, false, Owner::FREE);
        }
    }

    /// Moves everything from the emptier node to the other. A job that is on both would lie unevenly: then nothing is done. A
    /// stand-in that is on both loses what it had there, as published.
    fn merge(&mut self, table: &mut Table, one: Share, two: Share) -> bool {
        let (from, to) = if one.1 >= two.1 { (one.0, two.0) } else { (two.0, one.0) };
        self.lifted.clear();
        self.lift(table, from, 0);
        for &Lifted { owner, devices, .. } in &self.lifted {
            let is_on_both = table.site().devices(to).any(|device| table.owner(device) == owner);
            if (is_on_both && !owner.is_fake()) || !table.place(owner, devices, &[to]) {
                return false;
            }
        }
        true
    }

    /// Fills both nodes again, the largest jobs first: a job comes to the second node as long as the later ones can still fill
    /// the first.
    fn refill(&mut self, table: &mut Table, one: Share, two: Share, cap: u32) -> bool {
        self.lifted.clear();
        self.lift(table, one.0, 0);
        self.lift(table, two.0, 1);
        self.lifted.sort_by_key(|lifted| std::cmp::Reverse(lifted.devices));
        let Some(largest) = self.lifted.first() else { return true };
        let is_first_one = match largest.is_on {
            [true, true] => one.1 <= two.1,
            [is_on_one, _] => is_on_one,
        };
        let (first, second) = if is_first_one { (one.0, two.0) } else { (two.0, one.0) };
        let mut later: u32 = self.lifted.iter().map(|lifted| lifted.devices).sum();
        for &Lifted { owner, devices, is_on } in &self.lifted {
            later -= devices;
            let is_spread = is_on == [true, true] && !owner.is_fake() && has_more(table, owner, one.0, two.0);
            if is_spread || devices > cap {
                return false;
            }
            let (target, other) = if later >= table.idle(first) { (second, first) } else { (first, second) };
            if !table.place(owner, devices, &[target]) && !table.place(owner, devices, &[other]) {
                return false;
            }
        }
        true
    }
}

/// Whether an owner has devices on other nodes of the same type than these two.
fn has_more(table: &Table, owner: Owner, one: u32, two: u32) -> bool {
    let site = table.site();
    let devices = site.kind(site.kind_of(one)).devices.clone();
    (devices.start as usize..devices.end as usize)
        .any(|device| table.owner(device) == owner && ![one, two].contains(&site.node_of(device)))
}
