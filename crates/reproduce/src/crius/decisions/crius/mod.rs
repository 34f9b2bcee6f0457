//! The scheduler published with Crius: `crius` and its ablations.
//!
//! A job that comes, or waits, is seated where there is room, after rearranging others if need be (`seek`, `shuffle`), or else at the
//! cost of others: up to three jobs are halved or moved to another type (`downgrade`). It may then run before an earlier one that
//! waits, and goes back to waiting when that one can have its devices (`restart`). Whenever jobs come or end, those that run are given
//! what is idle (`upgrade`), or are brought together (`introspect`). What was swapped for nothing is swapped back (`swaps`).
//!
//! All of this is as published, so that results can be compared. What a careful design would not do is kept:
//!
//! | defect | where | effect |
//! |---|---|---|
//! | a waiting job is tried again only when one ends | here | free devices stay idle |
//! | a waiting job is passed over when one of the same model and batch size has failed, whatever both ask for | `restart` | a small job waits for a large one of its kind |
//! | after a restart the queue is gone through from the same place, though jobs before it may have left | `restart` | some jobs are passed over |
//! | a suspended job asks for what it had last, not for what it asked for at first | `restart` | a job that was shrunk stays small |
//! | what is left of a suspended job becomes its whole, but what it ran still counts | `restart` | the same work is subtracted twice |
//! | a job moved to another type is credited with what it gains twice | `downgrade` | such a plan looks better than it is |
//! | a job that shrinks itself, or changes its own type, is credited with the change and with all of its throughput | `downgrade` | the same |
//! | the job that needs room is moved itself rather than any other, if it can be | `downgrade` | others keep what serves them less |
//! | and is judged by what it asked for at first, which it then asks for again | `downgrade` | a step that halved it is undone |
//! | a job that could not run after two steps counts as one that can | `downgrade` | a plan can leave a job where it cannot run |
//! | what could not run before is worth 10^9 more wherever it can | `judge` | such steps win over all others |
//! | a pair of nodes that cannot be rearranged is put back in a copy | `downgrade` | an unfinished plan may continue from a table without their jobs |
//! | a stand-in that is moved to where it is loses what it had | `shuffle` | devices seem idle that are not |
//! | an idle node is taken rather than a partly used one, even for one device | `shuffle` | idle nodes become rare |
//! | on more nodes than needed, only as many partly used nodes are checked as would do with all their devices | `shuffle` | a job waits beside room for it |
//! | a deadline goes by what the job asks for in the search, or by what it has, as it comes | `judge` | tuning is charged by the wrong number |
//! | one option is never read | `crius-nm` | it is `crius` |
//! | there is no table but that of the best plans | [`Lookup`](super::Lookup) | estimates and measurements decide alike |
//!
//! Where the published code would stop with a failed assertion (a plan that lost a job, a swap with an idle node), this one continues:
//! such a plan is not taken, and the node is idle afterwards. And what only costs time is not kept: unfinished plans are gone on with
//! once, where the published search starts again from all earlier ones on every level; and rearranging ends when a state comes again.

mod downgrade;
mod introspect;
mod judge;
mod restart;
mod seek;
mod shuffle;
mod survey;
mod swaps;
#[cfg(test)]
mod tests;
mod upgrade;

use super::Rules;
use super::query::INFEASIBLE;
use super::site::Kind;
use super::table::Table;
use super::world::World;
use downgrade::{Choice, Downgrade};
use judge::Wish;
use seek::{Outlooks, Seeker};
use survey::Survey;

/// The order in which the published searches go through device types. Types that it does not know come after these.
const ORDER: [&str; 9] = ["a100", "v100", "3090", "p100", "a40", "a10", "1080ti", "a40-r", "a10-r"];
/// With so many jobs running the downgrade search is cut short.
const MANY_RUNNING: usize = 150;

/// What an ablation may not do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flags {
    /// Jobs may be given more or fewer devices than they asked for.
    pub(super) can_scale: bool,
    /// Jobs may be given another type than they asked for.
    pub(super) can_change_type: bool,
    /// Jobs may run although an earlier one waits.
    pub(super) has_opportunism: bool,
}

impl Flags {
    /// Everything is allowed.
    pub(super) const ALL: Self = Self { can_scale: true, can_change_type: true, has_opportunism: true };
}

/// What all searches share.
#[derive(Debug)]
struct Searcher {
    flags: Flags,
    order: Vec<Kind>,
    seeker: Seeker,
    survey: Survey,
    outlooks: Outlooks,
}

impl Searcher {
    /// The order of types, which is known once there are machines.
    fn prepare(&mut self, world: &World) {
        if self.order.is_empty() {
            let rank = |kind: &Kind| {
                let name = &*world.site().kind(*kind).name;
                ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len())
            };
            self.order = world.site().kinds().collect();
            self.order.sort_by_key(rank);
        }
    }

    /// The best way to start a job that is not in the table: as it is, or at the cost of others.
    fn fit(&mut self, world: &World, table: &Table, job: u32, budget: u32) -> Option<Choice> {
        let mut fitted = table.clone();
        let found = self.seeker.seek(world, &mut fitted, Wish::of(world, job), budget, None);
        let mut best = (found.is_feasible() && found.throughput > INFEASIBLE).then_some(Choice {
            table: fitted,
            gain: found.throughput,
            budget: found.budget,
        });
        if !found.is_feasible() || found.is_relaxed {
            let depth = if world.running.len() <= MANY_RUNNING { 3 } else { 2 };
            let depth = world.options.depth.unwrap_or(depth);
            Downgrade::search(world, self, table, job, budget, depth, &mut best);
        }
        best
    }
}

/// `crius` and its ablations.
#[derive(Debug)]
pub(super) struct Crius {
    searcher: Searcher,
    /// Jobs that wait, and jobs that run although an earlier one waits, in the order in which they came.
    queue: Vec<u32>,
}

impl Crius {
    pub(super) fn new(flags: Flags) -> Self {
        let searcher = Searcher {
            flags,
            order: Vec::new(),
            seeker: Seeker::default(),
            survey: Survey::default(),
            outlooks: Outlooks::default(),
        };
        Self { searcher, queue: Vec::new() }
    }

    /// Takes their devices from jobs that ended. A job that waited for an opportunistic one only is no longer blocked.
    fn release_ended(&mut self, world: &mut World) {
        world.release_ended();
        for index in 0..world.ended.len() {
            let job = world.ended[index];
            let Some(place) = self.queue.iter().position(|other| *other == job) else { continue };
            if world.job(job).is_opportunistic {
                self.unblock_above(world, place);
            }
            self.queue.remove(place);
        }
    }

    /// An opportunistic job gives up its place: where it was the last one, no job from the next one above on blocks any more.
    /// States whether there are others below.
    fn unblock_above(&self, world: &mut World, place: usize) -> bool {
        if self.queue[place + 1..].iter().any(|job| world.job(*job).is_opportunistic) {
            return true;
        }
        for &job in self.queue[..place].iter().rev() {
            let state = world.job_mut(job);
            if !state.is_blocker && state.is_opportunistic {
                break;
            }
            state.is_blocker = false;
        }
        false
    }

    fn start_or_queue(&mut self, world: &mut World, job: u32, budget: &mut u32) {
        self.queue.push(job);
        let choice = self.searcher.fit(world, &world.table, job, *budget);
        let kind = world.job(job).quota.kind;
        let is_blocked = !self.searcher.flags.has_opportunism
            && world.pending.iter().any(|other| world.job(*other).quota.kind == kind);
        let Some(choice) = choice.filter(|_| !is_blocked) else {
            world.pending.push(job);
            return;
        };
        world.table = choice.table;
        *budget = choice.budget;
        if self.queue.len() == 1 {
            self.queue.clear();
        } else {
            world.job_mut(job).is_opportunistic = true;
            for &earlier in &self.queue[..self.queue.len() - 1] {
                let state = world.job_mut(earlier);
                state.is_blocker |= !state.is_opportunistic;
            }
        }
        world.running.push(job);
        self.searcher.survey.refresh(world);
    }
}

impl Rules for Crius {
    fn on_ends(&mut self, world: &mut World) {
        self.searcher.prepare(world);
        let before = world.table.clone();
        self.release_ended(world);
        self.searcher.introspect(world);
        self.restart(world);
        if world.submitted.is_empty() && world.profiling.is_empty() {
            self.searcher.upgrade(world);
        }
        swaps::undo(world, &before);
        self.searcher.survey.refresh(world);
    }

    fn on_arrivals(&mut self, world: &mut World) {
        self.searcher.prepare(world);
        let before = world.table.clone();
        let mut budget = world.options.global_budget;
        for index in 0..world.submitted.len() {
            let job = world.submitted[index];
            self.start_or_queue(world, job, &mut budget);
        }
        self.searcher.upgrade(world);
        swaps::undo(world, &before);
        self.searcher.survey.refresh(world);
    }

    fn after(&mut self, world: &mut World) {
        if world.options.has_deadlines {
            world.mark_timed_out();
        }
    }
}
