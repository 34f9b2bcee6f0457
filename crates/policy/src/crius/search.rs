//! The search for a job's cell and for the moves of running jobs that make room for it.

use std::collections::BTreeMap;

use wharf_core::{JobId, NodeId, View};

use super::Crius;
use super::board::{Seat, Spots};
use super::clearing::Exit;

/// Nodes, the cheapest first, for which different places are sought for jobs that would all take the same one, before a search gives up.
const CLASHES_MAX: usize = 4;

/// Jobs that may be the first to choose their places then.
const ORDERS_MAX: usize = 3;

/// A way to start a job.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seat: Seat,
    pub(super) exits: Vec<Exit>,
    /// What it brings, less what the others lose.
    pub(super) gain: f64,
}

/// What a search is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quest<'a> {
    pub(super) job: JobId,
    /// What a device of each type would be worth to other waiting jobs.
    pub(super) prices: &'a [f64],
    /// Types that are kept for others.
    pub(super) blocked: &'a [bool],
    /// The least gain that will do.
    pub(super) floor: f64,
    /// Whether running jobs may be disturbed.
    pub(super) may_disturb: bool,
}

/// A cell that a job would like to have, and what it would bring if it cost others nothing.
#[derive(Clone, Copy, Debug)]
struct Wish {
    job: JobId,
    kind: usize,
    count: u32,
    net: f64,
}

impl Crius {
    /// The best way to start a job that is above the floor.
    pub(super) fn find(&mut self, view: &View<'_>, quest: &Quest<'_>) -> Option<Plan> {
        let class = self.class(quest.job);
        let mut best: Option<Plan> = None;
        for &index in &class.by_speed {
            let cell = class.cells[index];
            if quest.blocked[cell.kind] || !self.may(view, quest.job, cell) {
                continue;
            }
            let value =
                self.weight(view, quest.job) * cell.speed * self.toll(view, quest.job, cell.kind, cell.count);
            let net = value - quest.prices[cell.kind] * f64::from(cell.count);
            let least = best.as_ref().map_or(quest.floor, |plan| plan.gain);
            if net <= least && self.rules.is_pruned {
                continue;
            }
            let mut plan = self.board.fit(cell.kind, cell.count, None).map(|seat| Plan {
                seat,
                exits: Vec::new(),
                gain: net,
            });
            if plan.is_none() && quest.may_disturb && self.steps < self.rules.budget {
                let wish = Wish { job: quest.job, kind: cell.kind, count: cell.count, net };
                plan = self.make_room(view, wish, least);
            }
            let plan = plan.filter(|plan| self.may_sit(view, quest.job, &plan.seat));
            if let Some(plan) = plan.filter(|plan| plan.gain > least) {
                best = Some(plan);
            }
        }
        best
    }

    /// The best way to give a job a cell on devices that others leave, if it brings more than `least`.
    fn make_room(&mut self, view: &View<'_>, wish: Wish, least: f64) -> Option<Plan> {
        let Wish { kind, count, net, .. } = wish;
        if count > self.board.size(kind) {
            return self.room_on_many(view, wish, least);
        }
        let mut nodes: Vec<(f64, NodeId, usize)> = Vec::new();
        for node in self.board.freest_first(kind).collect::<Vec<_>>() {
            let (size, free) = self.board.room(node);
            if size < count {
                continue;
            }
            if self.steps >= self.rules.budget {
                break;
            }
            self.steps += 1;
            let deficit = (count - free.min(count)) as usize;
            let loss = self.clearings(view, node)[deficit].as_ref().map(|clearing| clearing.loss);
            nodes.extend(loss.map(|loss| (loss, node, deficit)));
        }
        nodes.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut best: Option<Plan> = None;
        let mut clashes = 0;
        for (loss, node, deficit) in nodes {
            let known = best.as_ref().map_or(least, |best| best.gain);
            // Losses are those of jobs that do not get into each other's way: at best, this is what the node costs.
            if net - loss <= known {
                break;
            }
            let Some(clearing) = self.clearings(view, node)[deficit].as_ref() else { continue };
            let exits = clearing.exits.clone();
            let plan = Plan { seat: Seat::new(kind, vec![(node, count)]), exits, gain: net - loss };
            if self.holds(&plan) {
                return Some(plan);
            }
            best = self.repaired(view, wish.job, plan).filter(|plan| plan.gain > known).or(best);
            clashes += 1;
            if clashes == CLASHES_MAX {
                break;
            }
        }
        best
    }

    /// Whole nodes of one switch: idle ones, and those that cost the least to clear.
    fn room_on_many(&mut self, view: &View<'_>, wish: Wish, least: f64) -> Option<Plan> {
        let Wish { job, kind, count, net } = wish;
        let size = self.board.size(kind);
        let across = self.board.is_across(kind, count);
        let mut blocks: BTreeMap<u32, Vec<(f64, Spots, Vec<Exit>)>> = BTreeMap::new();
        for node in self.board.freest_first(kind).collect::<Vec<_>>() {
            if self.board.room(node).0 < size || self.steps >= self.rules.budget {
                continue;
            }
            self.steps += 1;
            if let Some((loss, exits)) = self.whole(view, node).filter(|(loss, _)| net - loss > least) {
                let switch = if across { 0 } else { self.board.switch(node) };
                blocks.entry(switch).or_default().push((loss, vec![(node, size)], exits));
            }
        }
        let mut best: Option<Plan> = None;
        for mut blocks in blocks.into_values() {
            blocks.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
            let Some(plan) = self.joined(kind, count, net, blocks) else { continue };
            let known = best.as_ref().map_or(least, |best| best.gain);
            if plan.gain > known {
                let plan = if self.holds(&plan) { Some(plan) } else { self.repaired(view, job, plan) };
                best = plan.filter(|plan| plan.gain > known).or(best);
            }
        }
        best
    }

    /// What clearing a whole node costs.
    fn whole(&mut self, view: &View<'_>, node: NodeId) -> Option<(f64, Vec<Exit>)> {
        let (size, free) = self.board.room(node);
        if size == free {
            return Some((0.0, Vec::new()));
        }
        let clearing = self.clearings(view, node)[(size - free) as usize].as_ref()?;
        Some((clearing.loss, clearing.exits.clone()))
    }

    /// The cheapest nodes together. A job that is on several of them makes its move once.
    fn joined(
        &self,
        kind: usize,
        count: u32,
        net: f64,
        blocks: Vec<(f64, Spots, Vec<Exit>)>,
    ) -> Option<Plan> {
        let mut missing = count;
        let (mut spots, mut exits, mut loss): (Spots, Vec<Exit>, f64) = (Vec::new(), Vec::new(), 0.0);
        for (cost, nodes, moved) in blocks {
            if missing == 0 {
                break;
            }
            let is_new = |exit: &Exit| exits.iter().all(|known| known.0 != exit.0);
            let fresh: Vec<Exit> = moved.iter().filter(|exit| is_new(exit)).cloned().collect();
            // One that has given up this node already, for another, may still be on it.
            let stays = |exit: &Exit| exit.1.as_ref().is_some_and(|seat| seat.on(nodes[0].0) > 0);
            if exits.iter().any(|exit| stays(exit) && moved.iter().any(|other| other.0 == exit.0)) {
                continue;
            }
            if fresh.len() == moved.len() {
                loss += cost;
            } else if !fresh.is_empty() {
                continue;
            }
            for (node, size) in nodes {
                let taken = size.min(missing);
                missing -= taken;
                spots.push((node, taken));
            }
            exits.extend(fresh);
        }
        let is_small = exits.len() <= self.depth as usize;
        (missing == 0 && is_small).then(|| Plan { seat: Seat::new(kind, spots), exits, gain: net - loss })
    }

    /// Whether there is room for all places of a plan at once.
    fn holds(&self, plan: &Plan) -> bool {
        let taken = || plan.exits.iter().filter_map(|exit| exit.1.as_ref()).chain([&plan.seat]);
        taken().flat_map(|seat| &seat.spots).all(|&(node, _)| {
            let left = plan.exits.iter().filter_map(|exit| self.board.seat(exit.0)).map(|seat| seat.on(node));
            let wanted: u32 = taken().map(|seat| seat.on(node)).sum();
            wanted <= self.board.room(node).1 + left.sum::<u32>()
        })
    }

    /// Carries a plan that holds out on the board.
    pub(super) fn apply(&mut self, view: &View<'_>, job: JobId, plan: Plan) {
        for (other, _) in &plan.exits {
            if let Some(left) = self.board.lift(*other) {
                self.forget(&left);
            }
        }
        for (mover, seat) in plan.exits.into_iter().chain([(job, Some(plan.seat))]) {
            self.touched.insert(mover);
            match seat {
                Some(seat) => {
                    self.forget(&seat);
                    self.unqueue(mover);
                    self.board.put(mover, seat);
                }
                None => self.enqueue(view, mover),
            }
        }
    }

    /// The same plan where several of the jobs that make room were meant for the same place: each chooses after those before it, in
    /// the best of some orders. `None` where one has no place in any, and must not wait.
    fn repaired(&mut self, view: &View<'_>, job: JobId, plan: Plan) -> Option<Plan> {
        let before: Vec<(JobId, Seat)> =
            plan.exits.iter().filter_map(|exit| Some((exit.0, self.board.lift(exit.0)?))).collect();
        let mut best: Option<Plan> = None;
        if self.board.is_free(&plan.seat) {
            self.board.put(job, plan.seat.clone());
            for order in orders(&plan.exits, &before) {
                let settled = self.settled(view, Plan { exits: order, ..plan.clone() }, &before);
                let is_better = |plan: &Plan| best.as_ref().is_none_or(|best| plan.gain > best.gain);
                best = settled.filter(is_better).or(best);
            }
            self.board.lift(job);
        }
        for (other, seat) in before {
            self.board.put(other, seat);
        }
        best
    }

    /// Places for those who make room, one after another. The board is left as it was.
    fn settled(&mut self, view: &View<'_>, mut plan: Plan, before: &[(JobId, Seat)]) -> Option<Plan> {
        let mut is_settled = true;
        for (other, seat) in &mut plan.exits {
            let Some(meant) = seat.take() else { continue };
            let Some((_, old)) = before.iter().find(|one| one.0 == *other) else { continue };
            self.steps += 1;
            let found = if self.board.is_free(&meant) {
                Some(meant)
            } else {
                let found = self.elsewhere(view, *other, old, None);
                plan.gain -= self.worth(view, *other, &meant);
                plan.gain += match &found {
                    Some(found) => self.worth(view, *other, found),
                    None => self.worth(view, *other, old) - self.suspension_loss(view, *other, old),
                };
                found
            };
            is_settled &= found.is_some() || self.may_suspend(view, *other);
            if let Some(found) = &found {
                self.board.put(*other, found.clone());
            }
            *seat = found;
        }
        for (other, _) in &plan.exits {
            self.board.lift(*other);
        }
        is_settled.then_some(plan)
    }

    /// What was known of the nodes of a place is no longer true.
    pub(super) fn forget(&mut self, seat: &Seat) {
        for (node, _) in &seat.spots {
            if let Some(known) = self.clearings.get_mut(node.index()) {
                *known = None;
            }
        }
    }
}

/// Orders in which jobs that make room choose: all for up to three that go elsewhere. Those that wait or only shrink come first, because
/// they take no other job's place.
fn orders(exits: &[Exit], before: &[(JobId, Seat)]) -> Vec<Vec<Exit>> {
    let is_first = |exit: &&Exit| {
        let old = before.iter().find(|one| one.0 == exit.0).map(|one| &one.1);
        old.zip(exit.1.as_ref()).is_none_or(|(old, new)| {
            new.kind == old.kind && new.spots.iter().all(|&(node, count)| old.on(node) >= count)
        })
    };
    let (first, mut movers): (Vec<&Exit>, Vec<&Exit>) = exits.iter().partition(is_first);
    let mut orders = Vec::new();
    for _ in 0..movers.len().min(ORDERS_MAX) {
        let order = |movers: &[&Exit]| first.iter().chain(movers).map(|&exit| exit.clone()).collect();
        orders.push(order(&movers));
        if movers.len() > 2 {
            movers[1..].reverse();
            orders.push(order(&movers));
            movers[1..].reverse();
        }
        movers.rotate_left(1);
    }
    orders
}
