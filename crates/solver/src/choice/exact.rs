//! A search among what prices leave open. Every choice falls short of the dual's bound by the sum of what its jobs give up at
//! those prices, and of what unused devices would cost. What falls short by more than the best known choice is left out;
//! mostly few jobs have more than one configuration left then, and a dynamic program over them checks the rest.

use super::{Configuration, Problem};

/// Most states that are kept at once.
const STATES_MAX: usize = 40_000;
/// Most device types; with more there is no proof.
const KINDS_MAX: usize = 8;

/// A job that prices do not decide.
struct Open {
    job: usize,
    /// What is given up, and the configuration.
    options: Vec<(f64, Option<usize>)>,
}

pub(super) struct Search<'a> {
    problem: &'a Problem<'a>,
    prices: &'a [f64],
    /// A choice that falls short by no more than this is wanted.
    budget: f64,
    open: Vec<Open>,
    /// What jobs that are decided take.
    decided: Vec<Option<usize>>,
    left: Vec<i64>,
}

/// What the search found.
pub(super) struct Found {
    /// A better choice than the known one.
    pub(super) picks: Option<Vec<Option<usize>>>,
    /// Whether everything was checked.
    pub(super) is_complete: bool,
    pub(super) steps: u64,
}

/// Devices taken so far, and what was given up.
#[derive(Clone, Copy)]
struct State {
    used: [u32; KINDS_MAX],
    short: f64,
    /// The last decision in the list of all.
    last: u32,
}

/// The end of a chain of decisions.
const NONE: u32 = u32::MAX;

impl<'a> Search<'a> {
    pub(super) fn new(problem: &'a Problem<'a>, prices: &'a [f64], budget: f64) -> Self {
        let mut search = Self {
            problem,
            prices,
            budget,
            open: Vec::new(),
            decided: vec![None; problem.jobs()],
            left: problem.capacity.iter().map(|&capacity| i64::from(capacity)).collect(),
        };
        for job in 0..problem.jobs() {
            let options = search.options(job);
            match options.as_slice() {
                [(_, pick)] => {
                    search.decided[job] = *pick;
                    if let Some(taken) = pick.map(|pick| problem.of(job)[pick]) {
                        search.left[taken.kind] -= i64::from(taken.count);
                    }
                }
                _ => search.open.push(Open { job, options }),
            }
        }
        // Large ones first: the small ones can fill what is left.
        let largest = |open: &Open| {
            let count =
                |&(_, pick): &(f64, Option<usize>)| pick.map_or(0, |pick| problem.of(open.job)[pick].count);
            open.options.iter().map(count).max().unwrap_or(0)
        };
        search.open.sort_by_key(|open| (std::cmp::Reverse(largest(open)), open.job));
        search
    }

    /// What a job can take without giving up more than the budget.
    fn options(&self, job: usize) -> Vec<(f64, Option<usize>)> {
        let net = |it: &Configuration| it.value - self.prices[it.kind] * f64::from(it.count);
        let possible = || {
            let all = self.problem.of(job).iter().enumerate();
            all.filter(|(_, it)| self.problem.is_possible(it))
        };
        let best = possible().map(|(_, it)| net(it)).fold(0.0, f64::max);
        let mut options: Vec<(f64, Option<usize>)> = possible()
            .map(|(pick, it)| (best - net(it), Some(pick)))
            .filter(|it| it.0 <= self.budget)
            .collect();
        if best <= self.budget {
            options.push((best, None));
        }
        options
    }

    /// Searches for the choice that falls short least, in at most so many steps.
    pub(super) fn run(mut self, steps_max: u64) -> Found {
        let mut steps = 0;
        let stop = |steps, is_complete| Found { picks: None, is_complete, steps };
        // Without an option nothing is better; a job that falls short by more than the budget in any case decides that too.
        if self.left.iter().any(|&left| left < 0) || self.open.iter().any(|open| open.options.is_empty()) {
            return stop(steps, true);
        }
        let kinds = self.left.len();
        if kinds > KINDS_MAX {
            return stop(steps, false);
        }
        let reach = self.reach();
        let mut decisions: Vec<(u32, u32, Option<usize>)> = Vec::new();
        let mut states = vec![State { used: [0; KINDS_MAX], short: 0.0, last: NONE }];
        for (index, open) in self.open.iter().enumerate() {
            let rest = &reach[(index + 1) * kinds..(index + 2) * kinds];
            let mut next: Vec<State> = Vec::new();
            for state in &states {
                for &(short, pick) in &open.options {
                    steps += 1;
                    let mut used = state.used;
                    if let Some(taken) = pick.map(|pick| self.problem.of(open.job)[pick]) {
                        used[taken.kind] += taken.count;
                    }
                    let short = state.short + short;
                    if self.is_hopeful(&used[..kinds], short, rest) {
                        next.push(State { used, short, last: decisions.len() as u32 });
                        decisions.push((state.last, index as u32, pick));
                    }
                }
                if steps > steps_max || next.len() > STATES_MAX || decisions.len() >= NONE as usize {
                    return stop(steps, false);
                }
            }
            next.sort_by(|one, other| one.used.cmp(&other.used).then(one.short.total_cmp(&other.short)));
            next.dedup_by(|one, other| one.used == other.used);
            states = next;
        }
        let total = |state: &State| self.short_of(&state.used[..kinds], state.short);
        // Where prices decide every job, the devices that are left idle have not been considered yet.
        let better = states.iter().filter(|state| total(state) <= self.budget);
        let best = better.min_by(|one, other| total(one).total_cmp(&total(other)));
        let picks = best.map(|state| {
            let mut last = state.last;
            while last != NONE {
                let (before, index, pick) = decisions[last as usize];
                self.decided[self.open[index as usize].job] = pick;
                last = before;
            }
            std::mem::take(&mut self.decided)
        });
        Found { picks, is_complete: true, steps }
    }

    /// For each open job, and after the last, the most that those from it on could take of each type.
    fn reach(&self) -> Vec<u64> {
        let kinds = self.left.len();
        let mut reach = vec![0; kinds * (self.open.len() + 1)];
        for (index, open) in self.open.iter().enumerate().rev() {
            for kind in 0..kinds {
                let count = |&(_, pick): &(f64, Option<usize>)| {
                    let taken = pick.map(|pick| self.problem.of(open.job)[pick]);
                    taken.filter(|it| it.kind == kind).map_or(0, |it| u64::from(it.count))
                };
                let most = open.options.iter().map(count).max().unwrap_or(0);
                reach[index * kinds + kind] = reach[(index + 1) * kinds + kind] + most;
            }
        }
        reach
    }

    fn is_hopeful(&self, used: &[u32], short: f64, rest: &[u64]) -> bool {
        let mut short = short;
        for (kind, &used) in used.iter().enumerate() {
            let left = self.left[kind] - i64::from(used);
            if left < 0 {
                return false;
            }
            let idle = (left as u64).saturating_sub(rest[kind]);
            short += self.prices[kind] * idle as f64;
        }
        short <= self.budget
    }

    fn short_of(&self, used: &[u32], short: f64) -> f64 {
        let idle =
            |(kind, &used): (usize, &u32)| (self.left[kind] - i64::from(used)) as f64 * self.prices[kind];
        short + used.iter().enumerate().map(idle).sum::<f64>()
    }
}
