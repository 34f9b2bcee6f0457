//! Room for a job at the cost of others: halving one, or moving one to another type, several times over.

use super::super::query::INFEASIBLE;
use super::super::site::{Kind, Shape};
use super::super::table::{Owner, Table};
use super::super::world::World;
use super::Searcher;
use super::judge::{Wish, can_run, worth};
use super::seek::Found;
use super::survey::{Held, shape_of};

/// A plan that can be carried out.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) table: Table,
    pub(super) gain: f64,
    /// Rounds of rearranging that are left.
    pub(super) budget: u32,
}

/// A step that was made: a job, and how it lies after it.
type Step = (u32, Kind, Shape);

/// A plan that is not finished.
#[derive(Debug)]
struct Draft {
    table: Table,
    /// The job that needs room, which is not in the table.
    wish: Wish,
    gain: f64,
    budget: u32,
    steps: Vec<Step>,
    /// Jobs were lost from the table.
    is_torn: bool,
}

/// What a step made of a draft.
struct Outcome {
    draft: Draft,
    /// The table with the job in it, if there is a place.
    table: Table,
    found: Found,
}

/// One search.
pub(super) struct Downgrade<'a> {
    world: &'a World,
    searcher: &'a mut Searcher,
    job: u32,
    best: &'a mut Option<Choice>,
}

impl<'a> Downgrade<'a> {
    /// Searches for plans that are better than `best`, with at most so many steps.
    pub(super) fn search(
        world: &'a World,
        searcher: &'a mut Searcher,
        table: &Table,
        job: u32,
        budget: u32,
        depth: u32,
        best: &'a mut Option<Choice>,
    ) {
        let wish = Wish::of(world, job);
        let root = Draft { table: table.clone(), wish, gain: 0.0, budget, steps: Vec::new(), is_torn: false };
        let mut search = Self { world, searcher, job, best };
        let mut level = vec![root];
        for left in (0..depth).rev() {
            let mut next = Vec::new();
            for draft in level.iter().rev() {
                search.expand(draft, (left > 0).then_some(&mut next));
            }
            level = next;
        }
    }

    /// Makes one more step in every way. What is not finished yet goes to `next`.
    fn expand(&mut self, draft: &Draft, mut next: Option<&mut Vec<Draft>>) {
        self.searcher.survey.read(&draft.table, &self.world.jobs);
        if self.searcher.flags.can_scale {
            for index in 0..self.searcher.order.len() {
                let kind = self.searcher.order[index];
                if let Some(outcome) = self.shrink(draft, kind) {
                    self.record(outcome, next.as_deref_mut());
                }
            }
        }
        if self.searcher.flags.can_change_type
            && let Some(outcome) = self.change_type(draft)
        {
            self.record(outcome, next);
        }
    }

    fn record(&mut self, outcome: Outcome, next: Option<&mut Vec<Draft>>) {
        let Outcome { draft, table, found } = outcome;
        if found.is_feasible() && self.is_bearable(&draft.steps) {
            let gain = draft.gain + found.throughput;
            let floor = self.best.as_ref().map_or(INFEASIBLE, |best| best.gain);
            if gain > floor && (!draft.is_torn || self.is_whole(&table)) {
                *self.best = Some(Choice { table, gain, budget: found.budget });
            }
        }
        if let Some(next) = next
            && (!found.is_feasible() || found.is_relaxed)
        {
            next.push(draft);
        }
    }

    /// Whether no job is left where it cannot run. A job that cannot run after two steps counts as one that can, as published.
    fn is_bearable(&self, steps: &[Step]) -> bool {
        let mut unable: Vec<u32> = Vec::new();
        for &(job, kind, shape) in steps {
            let is_able = can_run(self.world, Wish::of(self.world, job), kind, shape);
            match unable.iter().position(|other| *other == job) {
                Some(_) if !is_able && self.world.options.fixes.feasibility => {}
                Some(index) => {
                    unable.remove(index);
                }
                None if is_able => {}
                None => unable.push(job),
            }
        }
        unable.is_empty()
    }

    /// Whether all jobs that ran still have devices, evenly. The published code stops where they do not.
    fn is_whole(&self, table: &Table) -> bool {
        self.world.running.iter().all(|&job| {
            let (mut shares, owner) = (Vec::new(), Owner::job(job));
            table.shares_of(owner, &mut shares);
            shares.first().is_some_and(|first| shares.iter().all(|share| share.1 == first.1))
        })
    }

    /// Halves the job of a type that loses least by it. The job that needs room may be that one; then it asks for less.
    fn shrink(&mut self, draft: &Draft, kind: Kind) -> Option<Outcome> {
        let world = self.world;
        let itself = Held::as_asked(world, self.job, draft.wish.kind, draft.wish.devices);
        let others = self.searcher.survey.held.iter();
        let candidates = || others.clone().chain([&itself]).filter(|held| held.kind == kind);
        let most = candidates().map(|held| held.devices).max()?;
        let mut best = INFEASIBLE - 1.0;
        let mut chosen = None;
        for held in candidates().filter(|held| held.devices > 1 && held.devices >= most / 2) {
            let shape = halved(held);
            let wish = Wish::of(world, held.job);
            let gain = worth(world, wish, (kind, shape), Some((kind, held.shape())));
            if gain > best {
                best = gain;
                chosen = Some((*held, shape));
            }
        }
        let (held, shape) = chosen?;
        let mut table = draft.table.clone();
        let mut wish = draft.wish;
        if held.job == self.job {
            wish.devices = held.devices / 2;
        } else {
            halve(&mut table, held);
        }
        let mut steps = draft.steps.clone();
        let (tried, found, shape) = if kind == draft.wish.kind {
            let mut tried = table.clone();
            let found = self.searcher.seeker.seek(world, &mut tried, wish, draft.budget, None);
            let shape = self.shape_after(&tried, held.job, wish);
            (tried, found, shape)
        } else {
            // That only makes room for a job that is moved to this type in a later step.
            (table.clone(), Found::nothing(draft.budget), shape)
        };
        steps.push((held.job, kind, shape));
        let gain = draft.gain + if self.is_counted_later(held.job) { 0.0 } else { best };
        let draft = Draft { table, wish, gain, budget: draft.budget, steps, is_torn: draft.is_torn };
        Some(Outcome { draft, table: tried, found })
    }

    /// How a job lies, or would lie if it is the one that needs room and has found none.
    fn shape_after(&self, table: &Table, job: u32, wish: Wish) -> Shape {
        let kind = if job == self.job { wish.kind } else { self.kind_after(table, job) };
        shape_of(table, job, kind)
            .unwrap_or_else(|| Held::as_asked(self.world, job, wish.kind, wish.devices).shape())
    }

    fn kind_after(&self, table: &Table, job: u32) -> Kind {
        let device = table.devices_of(Owner::job(job)).next();
        device.map_or(self.world.job(job).quota.kind, |device| {
            table.site().kind_of(table.site().node_of(device))
        })
    }

    /// Moves a job from the type that is needed to another. The job that needs room is preferred to all others, and then asks
    /// for as many devices as it did at first.
    fn change_type(&mut self, draft: &Draft) -> Option<Outcome> {
        let kind = draft.wish.kind;
        self.searcher.outlooks.clear();
        let first = Wish::of(self.world, self.job);
        let itself = Held::as_asked(self.world, self.job, first.kind, first.devices);
        if itself.kind == kind
            && let Some((gain, wish)) = self.best_change(draft, itself)
        {
            return Some(self.move_itself(draft, wish, gain));
        }
        let mut chosen: Option<(f64, Held, Wish)> = None;
        for index in 0..self.searcher.survey.held.len() {
            let held = self.searcher.survey.held[index];
            if held.kind == kind
                && let Some((gain, wish)) = self.best_change(draft, held)
                && gain > chosen.map_or(INFEASIBLE, |chosen| chosen.0)
            {
                chosen = Some((gain, held, wish));
            }
        }
        let (gain, held, wish) = chosen?;
        Some(self.move_other(draft, held, wish, gain))
    }

    /// The type that serves a job best instead of the one it has, and what it gains by that.
    fn best_change(&mut self, draft: &Draft, held: Held) -> Option<(f64, Wish)> {
        let world = self.world;
        let mut best = None;
        let mut asked = Wish::of(world, held.job);
        let old = (held.kind, held.shape());
        let before = worth(world, asked.with(held.kind, held.devices), old, None);
        for index in 0..self.searcher.order.len() {
            let kind = self.searcher.order[index];
            if kind == held.kind || draft.table.idle_of(kind) < held.devices {
                continue;
            }
            let wish = asked.with(kind, held.devices);
            let mut gain = worth(world, asked, (kind, wish.best(world)), Some(old));
            // From the second type on, a deadline goes by what the job has in this branch.
            asked = wish;
            let Searcher { seeker, outlooks, .. } = &mut *self.searcher;
            let found = seeker.tell(world, &draft.table, outlooks, wish, draft.budget);
            if held.job != self.job {
                let placed = found.throughput - before;
                // What another job gains counts twice, as published.
                gain = if world.options.fixes.gains { placed } else { gain + placed };
            }
            if found.is_feasible() && gain > best.map_or(INFEASIBLE, |(best, _)| best) {
                best = Some((gain, wish));
            }
        }
        best
    }

    fn move_itself(&mut self, draft: &Draft, wish: Wish, gain: f64) -> Outcome {
        let mut tried = draft.table.clone();
        let found = self.searcher.seeker.seek(self.world, &mut tried, wish, draft.budget, None);
        let mut steps = draft.steps.clone();
        steps.push((wish.job, wish.kind, self.shape_after(&tried, wish.job, wish)));
        let draft = Draft {
            table: draft.table.clone(),
            wish,
            gain: draft.gain + if self.is_counted_later(wish.job) { 0.0 } else { gain },
            budget: draft.budget,
            steps,
            is_torn: draft.is_torn,
        };
        Outcome { draft, table: tried, found }
    }

    /// Whether what a job gains is counted when it is seated, and only then: the job that needs room, if gains count once.
    fn is_counted_later(&self, job: u32) -> bool {
        self.world.options.fixes.gains && job == self.job
    }

    /// Where a pair of nodes could not be rearranged for the other job, the unfinished plan continues from a table without the
    /// jobs of that pair, as published.
    fn move_other(&mut self, draft: &Draft, held: Held, wish: Wish, gain: f64) -> Outcome {
        let mut table = draft.table.clone();
        table.release_of(Owner::job(held.job), held.kind);
        let mut torn = None;
        let moved = self.searcher.seeker.seek(self.world, &mut table, wish, draft.budget, Some(&mut torn));
        let mut tried = table.clone();
        let found = self.searcher.seeker.seek(self.world, &mut tried, draft.wish, moved.budget, None);
        let mut steps = draft.steps.clone();
        steps.push((held.job, wish.kind, self.shape_after(&tried, held.job, wish)));
        let draft = Draft {
            is_torn: draft.is_torn || torn.is_some(),
            table: torn.unwrap_or(table),
            wish: draft.wish,
            gain: draft.gain + gain,
            budget: moved.budget,
            steps,
        };
        Outcome { draft, table: tried, found }
    }
}

/// How a job lies with half of its devices: on half of its nodes, or on one.
fn halved(held: &Held) -> Shape {
    if held.hosts > 2 {
        Shape { hosts: held.hosts / 2, ..held.shape() }
    } else {
        Shape::single(held.devices / 2)
    }
}

/// Takes half of its devices from a job: the last of its node, or those on the half of its nodes that are the fullest.
fn halve(table: &mut Table, held: Held) {
    let owner = Owner::job(held.job);
    let mut shares = Vec::new();
    table.shares_in(owner, held.kind, &mut shares);
    if let [(node, devices)] = shares[..] {
        let last = table.site().devices(node).filter(|device| table.owner(*device) == owner);
        for device in last.skip(devices as usize / 2).collect::<Vec<_>>() {
            table.set(device, false, Owner::FREE);
        }
        return;
    }
    shares.sort_by_key(|share| table.idle(share.0));
    for &(node, _) in &shares[..shares.len() / 2] {
        for device in table.site().devices(node) {
            if table.owner(device) == owner {
                table.set(device, false, Owner::FREE);
            }
        }
    }
}
