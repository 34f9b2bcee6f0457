//! The best places for all jobs of a small cluster at once.
//!
//! Moves of one job and of those in its way do not lead everywhere: three jobs may have to change places, or one has to move twice as
//! far. Where few jobs may move, all their places are tried, job by job, and what cannot beat the best so far is left out.

use wharf_core::{JobId, NodeId, View};

use super::Crius;
use super::board::Seat;
use super::clearing::Exit;

/// Jobs that may move, and nodes, for which all places are tried.
const JOBS_MAX: usize = 8;
const NODES_MAX: usize = 8;

/// The part of the budget of a decision for this is one in so many.
const BUDGET_PARTS: u64 = 5;

/// Gains below this part of the whole are rounding errors.
const GAIN_MIN: f64 = 1e-9;

/// A job, and what it can have.
struct Mover {
    job: JobId,
    /// Its place on the board.
    old: Option<Seat>,
    /// It runs, and loses a restart where it is left without a place; that is what it then counts for.
    idle: f64,
    is_running: bool,
    may_wait: bool,
    /// What its best cell is worth.
    most: f64,
}

struct Search<'a> {
    view: &'a View<'a>,
    movers: Vec<Mover>,
    /// What the movers from each on can be worth at most.
    rest: Vec<f64>,
    placed: Vec<Exit>,
    best: Option<Vec<Exit>>,
    best_worth: f64,
    steps_left: u64,
}

impl Crius {
    /// Gives all jobs that may move their best places, if they are few. Running jobs are left without a place only where a job starts.
    pub(super) fn optimise(&mut self, view: &View<'_>) {
        let Some(movers) = self.movers(view) else { return };
        let now: f64 = movers.iter().map(|mover| self.value(view, mover, mover.old.as_ref())).sum();
        let mut rest = vec![0.0; movers.len() + 1];
        for (at, mover) in movers.iter().enumerate().rev() {
            rest[at] = rest[at + 1] + mover.most;
        }
        for mover in &movers {
            self.board.lift(mover.job);
        }
        let steps_left = (self.rules.budget / BUDGET_PARTS).min(self.rules.budget.saturating_sub(self.steps));
        let (placed, best_worth) = (Vec::new(), now + GAIN_MIN * rest[0]);
        let mut search = Search { view, movers, rest, placed, best: None, best_worth, steps_left };
        self.assign(&mut search, 0.0);
        self.steps += steps_left - search.steps_left;
        self.clearings.clear();
        for mover in &search.movers {
            if let Some(seat) = &mover.old {
                self.board.put(mover.job, seat.clone());
            }
        }
        let changed: Vec<Exit> = search.best.unwrap_or_default();
        let changed: Vec<Exit> =
            changed.into_iter().filter(|(job, seat)| self.board.seat(*job) != seat.as_ref()).collect();
        for (job, _) in &changed {
            self.board.lift(*job);
        }
        for (job, seat) in changed {
            self.touched.insert(job);
            match seat {
                Some(seat) => {
                    self.unqueue(job);
                    self.board.put(job, seat);
                }
                None => self.enqueue(view, job),
            }
        }
    }

    /// All jobs that may move or start, those that can be worth most first; none where they are too many, or several wait, whose order
    /// is not a matter of what they are worth.
    fn movers(&self, view: &View<'_>) -> Option<Vec<Mover>> {
        let is_new = |job: &JobId| view.schedule().placement(*job).is_none();
        let waiting: Vec<JobId> = self.queue.iter().map(|&(_, job)| job).take(JOBS_MAX + 1).collect();
        let seated = self.board.seated().filter(|&job| !self.is_pinned(view, job));
        let jobs: Vec<JobId> = waiting.iter().copied().chain(seated).take(JOBS_MAX + 1).collect();
        let is_small = jobs.len() <= JOBS_MAX && self.board.node_count() <= NODES_MAX;
        let is_plain = |job: &JobId| view.spec(*job).gang.needs.is_none();
        let is_ordered = jobs.iter().filter(|job| is_new(job)).count() > 1 || !self.rules.may_lend;
        if !is_small || is_ordered || self.holder.is_some() || !jobs.iter().all(is_plain) {
            return None;
        }
        let mut movers: Vec<Mover> = jobs.into_iter().map(|job| self.mover(view, job)).collect();
        movers.sort_by(|one, other| other.most.total_cmp(&one.most).then(one.job.cmp(&other.job)));
        Some(movers)
    }

    fn mover(&self, view: &View<'_>, job: JobId) -> Mover {
        let old = self.board.seat(job).cloned();
        let placement = view.schedule().placement(job);
        let seat = placement.and_then(|placement| Seat::of(view, placement));
        let toll = |seat: &Seat| 1.0 - self.toll(view, job, seat.kind, seat.count);
        let idle = seat.as_ref().map_or(0.0, |seat| -self.worth(view, job, seat) * toll(seat));
        let most = self.weight(view, job) * self.class(job).fastest();
        let may_wait = old.is_none() || self.may_suspend(view, job);
        Mover { job, old, idle, is_running: placement.is_some(), may_wait, most }
    }

    fn value(&self, view: &View<'_>, mover: &Mover, seat: Option<&Seat>) -> f64 {
        seat.map_or(mover.idle, |seat| self.worth(view, mover.job, seat))
    }

    /// Tries all places of the next job, and all of the others with each.
    fn assign(&mut self, search: &mut Search<'_>, worth: f64) {
        let at = search.placed.len();
        if search.steps_left == 0 || worth + search.rest[at] <= search.best_worth {
            return;
        }
        search.steps_left -= 1;
        let Some(mover) = search.movers.get(at) else {
            if is_fair(search) {
                (search.best, search.best_worth) = (Some(search.placed.clone()), worth);
            }
            return;
        };
        let (job, may_wait, idle) = (mover.job, mover.may_wait, mover.idle);
        for seat in self.places(search.view, mover) {
            let more = self.worth(search.view, job, &seat);
            self.board.put(job, seat.clone());
            search.placed.push((job, Some(seat)));
            self.assign(search, worth + more);
            search.placed.pop();
            self.board.lift(job);
        }
        if may_wait {
            search.placed.push((job, None));
            self.assign(search, worth + idle);
            search.placed.pop();
        }
    }

    /// The free places that a job may have, the one it has first, then the fastest.
    fn places(&self, view: &View<'_>, mover: &Mover) -> Vec<Seat> {
        let own = view.schedule().placement(mover.job).and_then(|placement| Seat::of(view, placement));
        let mut places: Vec<Seat> =
            own.iter().chain(&mover.old).filter(|seat| self.board.is_free(seat)).cloned().collect();
        let class = self.class(mover.job);
        for cell in class.by_speed.iter().map(|&index| class.cells[index]) {
            if self.blocked[cell.kind] || !self.may(view, mover.job, cell) {
                continue;
            }
            if cell.count > self.board.size(cell.kind) {
                places.extend(self.board.fit(cell.kind, cell.count, None));
            } else {
                let has_room = |node: &NodeId| self.board.room(*node).1 >= cell.count;
                let nodes = self.board.freest_first(cell.kind).filter(has_room);
                places.extend(nodes.map(|node| Seat::new(cell.kind, vec![(node, cell.count)])));
            }
        }
        places.retain(|seat| self.may_sit(view, mover.job, seat));
        places
    }
}

/// Whether running jobs have kept places, or one has started that had none.
fn is_fair(search: &Search<'_>) -> bool {
    let mut placed = search.movers.iter().zip(&search.placed);
    let is_left = placed.clone().any(|(mover, (_, seat))| mover.is_running && seat.is_none());
    !is_left || placed.any(|(mover, (_, seat))| !mover.is_running && seat.is_some())
}
