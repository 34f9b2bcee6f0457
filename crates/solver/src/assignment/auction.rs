//! Places by auction: jobs bid for seats, and a group's price rises until no job wants to move.
//!
//! Every bid is higher than necessary by a fixed step, so the sum of the costs ends within that step per job of the
//! least (Bertsekas and Castañon, 1989: auctions with similar objects). The step is 1.5 % of a lower bound of the costs.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::{Queues, grouped::Seats};

/// How far the sum may be from the least, relative.
const GAP: f64 = 0.015;

/// Maximum number of group inspections of the auction: a few seconds.
const STEPS: usize = 2_000_000_000;

#[derive(Clone, Copy, PartialEq)]
struct Bid {
    price: f64,
    job: usize,
}

impl Eq for Bid {}

impl Ord for Bid {
    fn cmp(&self, other: &Self) -> Ordering {
        self.price.total_cmp(&other.price).then(self.job.cmp(&other.job))
    }
}

impl PartialOrd for Bid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

struct Group {
    device_type: usize,
    position: usize,
    /// Of those who sit in it, the lowest first.
    bids: BinaryHeap<Reverse<Bid>>,
    /// The lowest bid, or zero while a seat is free.
    price: f64,
}

impl Group {
    const fn new(device_type: usize, position: usize) -> Self {
        Self { device_type, position, bids: BinaryHeap::new(), price: 0.0 }
    }
}

/// None if that takes too many steps, or nothing takes any time.
pub(super) fn seats(queues: &Queues<'_>) -> Option<Seats> {
    let types = 0..queues.machines.len();
    let mut groups: Vec<Group> =
        types.filter(|&kind| queues.machines[kind] > 0).map(|kind| Group::new(kind, 0)).collect();
    let step = GAP * least_cost(queues) / queues.jobs().max(1) as f64;
    if step <= 0.0 {
        return None;
    }
    let durations_s = queues.durations_s();
    let mut waiting: Vec<usize> = (0..queues.jobs()).rev().collect();
    let mut steps = 0;
    while let Some(job) = waiting.pop() {
        steps += groups.len();
        if steps > STEPS {
            return None;
        }
        let (best, raise) = choose(&durations_s[job * queues.machines.len()..], &groups);
        let group = &mut groups[best];
        let seats = queues.machines[group.device_type];
        if group.bids.len() == seats {
            waiting.extend(group.bids.pop().map(|Reverse(bid)| bid.job));
        }
        group.bids.push(Reverse(Bid { price: group.price + raise + step, job }));
        let was_free = group.price == 0.0;
        if group.bids.len() == seats {
            group.price = group.bids.peek().map_or(0.0, |Reverse(bid)| bid.price);
            let next = Group::new(group.device_type, group.position + 1);
            // Bids are above zero, so a group has a price as soon as it is full.
            if was_free {
                groups.push(next);
            }
        }
    }
    let mut seats = vec![None; queues.jobs()];
    for group in &groups {
        for Reverse(bid) in &group.bids {
            seats[bid.job] = Some((group.device_type, group.position));
        }
    }
    Some(seats)
}

/// The best group for a job, and by how much it beats the second.
fn choose(durations_s: &[f64], groups: &[Group]) -> (usize, f64) {
    let (mut best, mut lowest, mut second) = (0, f64::INFINITY, f64::INFINITY);
    for (index, group) in groups.iter().enumerate() {
        let cost = (group.position + 1) as f64 * durations_s[group.device_type] + group.price;
        if cost < lowest {
            (best, second, lowest) = (index, lowest, cost);
        } else {
            second = second.min(cost);
        }
    }
    (best, if second.is_finite() { second - lowest } else { 0.0 })
}

/// A lower bound: every job as fast as on its best type, and all machines alike.
fn least_cost(queues: &Queues<'_>) -> f64 {
    let machines: usize = queues.machines.iter().sum();
    let mut durations_s: Vec<f64> = (0..queues.jobs()).map(|job| queues.shortest_s(job)).collect();
    durations_s.sort_by(|a, b| b.total_cmp(a));
    durations_s.iter().enumerate().map(|(index, duration_s)| (index / machines + 1) as f64 * duration_s).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignment::grouped;

    #[test]
    fn auction_is_within_its_gap_of_the_least_cost() {
        for (jobs, machines) in [(256, [5, 5, 5]), (256, [1, 2, 30]), (256, [90, 90, 90]), (40, [1, 0, 0])] {
            // Durations over two decades, types up to three times as fast for some jobs.
            let remaining: Vec<f64> =
                (0..jobs).map(|job| 10.0_f64.powf((job * 37 % 100) as f64 / 50.0)).collect();
            let speeds: Vec<f64> = (0..jobs * 3).map(|index| 1.0 + (index * 31 % 21) as f64 / 10.0).collect();
            let waits = vec![0.0; jobs];
            let queues =
                Queues { remaining: &remaining, waits: &waits, speeds: &speeds, machines: &machines };
            let cost = |seats: &Seats| queues.cost(&grouped::name_machines(&queues, seats));
            let least = queues.cost(&queues.exact());
            let ratio = cost(&seats(&queues).expect("ends")) / least;
            assert!((1.0 - 1e-9..1.0 + GAP).contains(&ratio), "{ratio} on {machines:?}");
            let ratio = cost(&grouped::greedy(&queues)) / least;
            assert!((1.0 - 1e-9..1.5).contains(&ratio), "greedy: {ratio} on {machines:?}");
        }
    }
}
