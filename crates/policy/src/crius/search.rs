//! The search for a job's cell and for the moves of running jobs that make room for it.

use std::collections::BTreeMap;

use wharf_core::{JobId, NodeId, View};

use super::Crius;
use super::board::{Seat, Spots};
use super::clearing::Exit;

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
                plan = self.make_room(view, cell.kind, cell.count, net, least);
            }
            let plan = plan.filter(|plan| self.may_sit(view, quest.job, &plan.seat));
            if let Some(plan) = plan.filter(|plan| plan.gain > least) {
                best = Some(plan);
            }
        }
        best
    }

    fn make_room(&mut self, view: &View<'_>, kind: usize, count: u32, net: f64, least: f64) -> Option<Plan> {
        if count > self.board.size(kind) {
            return self.room_on_many(view, kind, count, net, least);
        }
        let mut best: Option<(f64, NodeId, usize)> = None;
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
            if let Some(loss) = loss.filter(|&loss| best.is_none_or(|(known, ..)| loss < known)) {
                best = Some((loss, node, deficit));
            }
        }
        let (loss, node, deficit) = best.filter(|(loss, ..)| net - loss > least)?;
        let exits = self.clearings(view, node)[deficit].as_ref()?.exits.clone();
        Some(Plan { seat: Seat::new(kind, vec![(node, count)]), exits, gain: net - loss })
    }

    /// Whole nodes of one switch: idle ones, and those that cost the least to clear.
    fn room_on_many(
        &mut self,
        view: &View<'_>,
        kind: usize,
        count: u32,
        net: f64,
        least: f64,
    ) -> Option<Plan> {
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
            if plan.gain > best.as_ref().map_or(least, |best| best.gain) {
                best = Some(plan);
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

    /// Carries a plan out on the board; `false`, and nothing, where it does not hold any more, or brings no more than the floor.
    pub(super) fn apply(&mut self, view: &View<'_>, job: JobId, mut plan: Plan, floor: f64) -> bool {
        let before: Vec<(JobId, Option<Seat>)> =
            plan.exits.iter().map(|exit| (exit.0, self.board.seat(exit.0).cloned())).collect();
        for &(other, _) in &plan.exits {
            self.board.lift(other);
        }
        let is_free = self.board.is_free(&plan.seat);
        if is_free {
            self.board.put(job, plan.seat.clone());
        }
        if !is_free || !self.settle(view, &mut plan, &before) || plan.gain <= floor {
            self.board.lift(job);
            for (other, _) in &before {
                self.board.lift(*other);
            }
            for (other, seat) in before {
                if let Some(seat) = seat {
                    self.board.put(other, seat);
                }
            }
            return false;
        }
        let gone: Vec<Seat> = before.into_iter().filter_map(|(_, seat)| seat).collect();
        let come = plan.exits.iter().filter_map(|(_, seat)| seat.clone());
        for seat in gone.into_iter().chain(come).chain([plan.seat]) {
            self.forget(&seat);
        }
        self.touched.insert(job);
        self.unqueue(job);
        for (other, seat) in plan.exits {
            self.touched.insert(other);
            if seat.is_none() {
                self.enqueue(view, other);
            }
        }
        true
    }

    /// Gives those who make room their new places. Two may have been meant for the same one: the second looks for another, or
    /// waits.
    fn settle(&mut self, view: &View<'_>, plan: &mut Plan, before: &[(JobId, Option<Seat>)]) -> bool {
        // Those who only shrink stay where nobody else may go.
        let is_shrinking = |exit: &Exit| {
            let seat_before = before.iter().find(|one| one.0 == exit.0).and_then(|one| one.1.as_ref());
            seat_before.zip(exit.1.as_ref()).is_some_and(|(old, new)| {
                new.kind == old.kind && new.spots.iter().all(|&(node, count)| old.on(node) >= count)
            })
        };
        plan.exits.sort_by_key(|exit| !is_shrinking(exit));
        for index in 0..plan.exits.len() {
            let (other, Some(seat)) = plan.exits[index].clone() else { continue };
            if self.board.is_free(&seat) {
                self.board.put(other, seat);
                continue;
            }
            let meant = self.worth(view, other, &seat);
            let old = before.iter().find(|one| one.0 == other).and_then(|one| one.1.clone());
            let found = old.and_then(|old| self.elsewhere(view, other, &old, None));
            if found.is_none() && !self.may_suspend(view, other) {
                return false;
            }
            plan.gain -= meant - found.as_ref().map_or(0.0, |seat| self.worth(view, other, seat));
            if let Some(seat) = &found {
                self.board.put(other, seat.clone());
            }
            plan.exits[index].1 = found;
        }
        true
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
