//! Lexicographic max-min: levels rise together until a job can have no more, then the others rise on.
//!
//! A job stops for one of two reasons. Its own cap: it has all time on its best types. Or a type that it needs is full.
//! There can be as many caps as jobs, but each full type is closed to all that rise on (a job that could still use it would
//! lift those that stopped), so that there are no more such levels than types. Caps are passed by a binary search.

use super::interior::Path;
use super::model::Model;
use super::programs::{MET, aim_at_level, level, smallest, solve};
use super::{Program, Shares};

/// Frozen rates may be missed by this part, which leaves room for the path.
const FROZEN: f64 = 1.0 - 5e-7;
/// Relative distance from the best that a level must be proved to have. Frozen rates leave little inside for the path,
/// so that it ends earlier than others.
const CERTIFIED: f64 = 1e-6;

/// The state between levels.
struct Filling {
    model: Model,
    targets: Vec<f64>,
    /// Rates of jobs that have stopped, in units of their fastest speed.
    frozen: Vec<Option<f64>>,
    /// Types that are full.
    closed: Vec<bool>,
    shares: Vec<f64>,
    fallback: Option<&'static str>,
}

/// Makes the smallest `factor × rate` largest, then the smallest among the jobs that can still have more, and so on.
///
/// The objective is the smallest of all, as in [`max_min`](super::max_min). Exact: no job's level is more than 2 × 10⁻⁶ below
/// the best that those before it leave, or below the optimum. What those before it miss their rates by may be worth more than that
/// to a job at its cap, which does not take it.
pub fn water_filling(program: &Program<'_>, factors: &[f64]) -> Shares {
    let mut model = Model::new(program);
    let targets = model.targets(factors, |factor, fastest| factor * fastest);
    let (shares, fallback) = level(&mut model, &targets);
    let frozen = vec![None; model.jobs()];
    let closed = vec![false; model.types];
    let mut filling = Filling { model, targets, frozen, closed, shares, fallback };
    if fallback.is_none() {
        filling.fill();
    }
    let rates = filling.model.rates(&filling.shares);
    let levels = rates.iter().zip(&filling.targets).map(|(rate, target)| rate * target);
    let objective = smallest(levels, &filling.targets);
    Shares { values: filling.model.spread(program, &filling.shares), objective, fallback: filling.fallback }
}

impl Filling {
    fn fill(&mut self) {
        // Each turn stops at least one job, most turns all jobs at a cap and a type.
        loop {
            let rising: Vec<usize> = (0..self.model.jobs())
                .filter(|&i| self.targets[i] > 0.0 && self.frozen[i].is_none())
                .collect();
            if rising.is_empty() {
                return;
            }
            let mut caps: Vec<(f64, usize, f64)> = rising
                .iter()
                .map(|&i| (i, self.model.rate_alone_on(i, &self.closed)))
                .map(|(i, cap)| (cap * self.targets[i], i, cap))
                .collect();
            caps.sort_by(|one, other| one.0.total_cmp(&other.0));
            let passed = self.passed(&caps);
            for &(_, i, cap) in &caps[..passed] {
                self.frozen[i] = Some(cap);
            }
            if passed == caps.len() || !self.rise(&rising) {
                return;
            }
        }
    }

    /// How many jobs reach their cap before a type is full.
    fn passed(&mut self, caps: &[(f64, usize, f64)]) -> usize {
        if self.reaches(f64::INFINITY, caps) {
            return caps.len();
        }
        let (mut reached, mut missed) = (0, caps.len());
        while missed - reached > 1 {
            let middle = usize::midpoint(reached, missed);
            if self.reaches(caps[middle - 1].0, caps) {
                reached = middle;
            } else {
                missed = middle;
            }
        }
        reached
    }

    /// Whether all that rise can be at a level or their cap.
    fn reaches(&mut self, at: f64, caps: &[(f64, usize, f64)]) -> bool {
        let mut targets: Vec<f64> =
            self.frozen.iter().map(|rate| rate.map_or(0.0, |rate| 1.0 / (rate * FROZEN))).collect();
        for &(highest, i, cap) in caps {
            let rate = if at < highest { at / self.targets[i] } else { cap };
            targets[i] = 1.0 / rate;
        }
        let enough = MET / aim_at_level(&mut self.model, &targets);
        let mut path = Path::new(&self.model);
        let solved = path.follow_until(|solved| {
            solved.value >= enough || solved.bound < enough || solved.gap <= 1.0 - MET
        });
        let reached = solved.is_some_and(|solved| solved.value >= enough);
        if reached && at.is_infinite() {
            // No share rises any more: these are the last shares.
            let (shares, fallback) = solve(&self.model);
            (self.shares, self.fallback) = (shares, fallback);
        }
        reached
    }

    /// Lifts all that have not stopped to the level at which a type is full, and stops those that need it. A cap that
    /// was missed by a rounding error stops its job here too, though no type is full. False if that level is not to be
    /// had, which leaves the shares of the last one, or if it stops no job.
    fn rise(&mut self, rising: &[usize]) -> bool {
        let model = &mut self.model;
        let rising: Vec<usize> = rising.iter().copied().filter(|&i| self.frozen[i].is_none()).collect();
        let unit =
            rising.iter().map(|&i| model.rate_alone(i) * self.targets[i]).fold(f64::INFINITY, f64::min);
        model.gain = 1.0;
        for i in 0..model.jobs() {
            model.floors[i] = self.frozen[i].map_or(0.0, |rate| rate * FROZEN);
            model.slopes[i] = 0.0;
        }
        for &i in &rising {
            model.slopes[i] = unit / self.targets[i];
        }
        let mut path = Path::new(model);
        let Some(solved) = path.follow().filter(|solved| solved.gap <= CERTIFIED) else {
            self.fallback = Some("water filling that stopped early");
            return false;
        };
        let solved = path.centre().filter(|centred| centred.gap <= CERTIFIED).unwrap_or(solved);
        let reached = model.level(&model.rates(&solved.shares));
        let stop = |i: &&usize| solved.tight[**i];
        for &i in rising.iter().filter(stop) {
            self.frozen[i] = Some(reached * model.slopes[i]);
        }
        self.closed.iter_mut().zip(&solved.full).for_each(|(closed, full)| *closed |= full);
        self.shares = solved.shares;
        rising.iter().any(|&i| solved.tight[i])
    }
}
