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
    /// Looks for plans that are better than `best`, with at most so many steps.
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
        let gain = draft.gain + best;
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
        let (world, kind) = (self.world, draft.wish.kind);
        let first = Wish::of(world, self.job);
        let itself = Held::as_asked(world, self.job, first.kind, first.devices);
        let (mut best_other, mut best_itself) = (INFEASIBLE, INFEASIBLE);
        let mut chosen: Option<(Held, Wish)> = None;
        self.searcher.outlooks.clear();
        let count = self.searcher.survey.held.len();
        for index in 0..=count {
            let held = self.searcher.survey.held.get(index).copied().unwrap_or(itself);
            if held.kind != kind {
                continue;
            }
            let is_itself = index == count;
            let mut asked = Wish::of(world, held.job);
            let before = worth(world, asked.with(kind, held.devices), (kind, held.shape()), None);
            for place in 0..self.searcher.order.len() {
                let new = self.searcher.order[place];
                if new == kind || draft.table.idle_of(new) < held.devices {
                    continue;
                }
                let wish = asked.with(new, held.devices);
                let change = (new, wish.best(world));
                let gain = worth(world, asked, change, Some((kind, held.shape())));
                asked = wish;
                let Searcher { seeker, outlooks, .. } = &mut *self.searcher;
                let found = seeker.tell(world, &draft.table, outlooks, wish, draft.budget);
                if !found.is_feasible() {
                    continue;
                }
                // What another job gains counts twice, as published.
                let (gain, best) = if is_itself {
                    (gain, &mut best_itself)
                } else {
                    (gain + (found.throughput - before), &mut best_other)
                };
                if gain > *best {
                    *best = gain;
                    chosen = Some((held, wish));
                }
            }
        }
        let (held, wish) = chosen?;
        if held.job == self.job {
            Some(self.move_itself(draft, wish, best_itself))
        } else {
            Some(self.move_other(draft, held, wish, best_other))
        }
    }

    fn move_itself(&mut self, draft: &Draft, wish: Wish, gain: f64) -> Outcome {
        let mut tried = draft.table.clone();
        let found = self.searcher.seeker.seek(self.world, &mut tried, wish, draft.budget, None);
        let mut steps = draft.steps.clone();
        steps.push((wish.job, wish.kind, self.shape_after(&tried, wish.job, wish)));
        let draft = Draft {
            table: draft.table.clone(),
            wish,
            gain: draft.gain + gain,
            budget: draft.budget,
            steps,
            is_torn: draft.is_torn,
        };
        Outcome { draft, table: tried, found }
    }

    /// Where a pair of nodes could not be rearranged for the other job, the unfinished plan goes on from a table without the
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
            table.set(device, false, Owner::NOBODY);
        }
        return;
    }
    shares.sort_by_key(|share| table.idle(share.0));
    for &(node, _) in &shares[..shares.len() / 2] {
        for device in table.site().devices(node) {
            if table.owner(device) == owner {
                table.set(device, false, Owner::NOBODY);
            }
        }
    }
}
