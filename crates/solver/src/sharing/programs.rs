//! The programs, each as one model or a short sequence of models.

use super::general;
use super::interior::{self, Path};
use super::model::{Model, clean};
use super::{Finish, Program, Shares};
use crate::lp::Limits;

/// Demands are met if this part of them is.
pub(super) const MET: f64 = 1.0 - 1e-9;
/// Relative distance from the best that an answer must be proved to have.
pub(super) const CERTIFIED: f64 = 1e-7;
/// The general solver is tried on small programs only.
const GENERAL: Limits = Limits { nodes: 1, entries: 20_000 };
/// Part of the possible that demands may take for their shares to have a centre.
const ROOM: f64 = 1.0 - 1e-7;
/// Tangents of the demands over the level after which [`finish_time`] takes what it has.
const TANGENTS_MAX: usize = 40;
/// Relative distance of bounds on the level that ends the search.
const LEVEL_TOLERANCE: f64 = 1e-10;
/// The reference's search for a makespan: first window in seconds, and the ratio of its ends that is good enough.
const BISECT_LOW_S: f64 = 100.0;
const BISECT_HIGH_S: f64 = 1e6;
const BISECT_RATIO: f64 = 1.05;
/// Windows are widened tenfold at most this often.
const BISECT_WINDOWS: usize = 12;

/// Makes the smallest `factor × rate` largest.
///
/// Jobs whose factor is not positive do not count in the minimum.
pub fn max_min(program: &Program<'_>, factors: &[f64]) -> Shares {
    let mut model = Model::new(program);
    let targets = model.targets(factors, |factor, fastest| factor * fastest);
    let (shares, fallback) = level(&mut model, &targets);
    let rates = model.rates(&shares);
    let objective = smallest(rates.iter().zip(&targets).map(|(rate, target)| rate * target), &targets);
    Shares { values: model.spread(program, &shares), objective, fallback }
}

/// Shares with which every job has at least its demanded rate, or `None` if there are none.
///
/// They are the centre of all such shares. The objective is by how much all demands could grow. A demand of a job that cannot run is met only if it is zero.
pub fn feasible(program: &Program<'_>, demands: &[f64]) -> Option<Shares> {
    let mut model = Model::new(program);
    let mut runs = vec![false; program.devices.len()];
    model.job_of.iter().for_each(|&job| runs[job] = true);
    if demands.iter().zip(&runs).any(|(&demand, runs)| demand > 0.0 && !runs) {
        return None;
    }
    let targets = model.targets(demands, |demand, fastest| fastest / demand);
    let (shares, fallback) = level(&mut model, &targets);
    let rates = model.rates(&shares);
    let objective = smallest(rates.iter().zip(&targets).map(|(rate, target)| rate * target), &targets);
    let counts = targets.iter().any(|&target| target > 0.0);
    if counts && objective < MET {
        return None;
    }
    let has_room = counts && aim_at_floors(&mut model, &targets, 1.0 / objective);
    let shares = has_room.then(|| centre(&model)).flatten().unwrap_or(shares);
    Some(Shares { values: model.spread(program, &shares), objective, fallback })
}

/// Makes the time in which all jobs have done their remaining iterations shortest; the objective is that time.
///
/// Jobs without remaining iterations do not count.
pub fn makespan(program: &Program<'_>, remaining: &[f64]) -> Shares {
    let factors: Vec<f64> = remaining.iter().map(|&left| if left > 0.0 { 1.0 / left } else { 0.0 }).collect();
    let shares = max_min(program, &factors);
    let objective = if shares.objective > 0.0 { 1.0 / shares.objective } else { 0.0 };
    Shares { objective, ..shares }
}

/// The makespan that Gavel's search ends at, and shares for it.
///
/// It halves the window from 100 s to 10⁶ s until its ends are within 5 %, and continues with the next ten times larger
/// window if no makespan in it is feasible. The answer is the last feasible one, so up to 5 % longer than the shortest.
/// The shares are those that an interior-point solver like Gavel's ends at: it asks for any that are fast enough.
pub fn makespan_bisect(program: &Program<'_>, remaining: &[f64]) -> Shares {
    let exact = makespan(program, remaining);
    let Some(time_s) = bisect(exact.objective * MET) else { return exact };
    let demands: Vec<f64> = remaining.iter().map(|left| left / time_s).collect();
    let mut model = Model::new(program);
    let targets = model.targets(&demands, |demand, fastest| fastest / demand);
    let has_room = aim_at_floors(&mut model, &targets, exact.objective / time_s);
    let Some(shares) = has_room.then(|| interior::end(&mut model)).flatten() else {
        return Shares { objective: time_s, ..exact };
    };
    Shares { values: model.spread(program, &shares), objective: time_s, fallback: exact.fallback }
}

/// Puts the demands behind targets into the model, with nothing to make best. False if `part`, which they take of what
/// is possible, leaves no room: then the best shares are all there is.
fn aim_at_floors(model: &mut Model, targets: &[f64], part: f64) -> bool {
    model.gain = 0.0;
    for (i, &target) in targets.iter().enumerate() {
        model.floors[i] = if target > 0.0 { 1.0 / target } else { 0.0 };
        model.slopes[i] = 0.0;
    }
    part <= ROOM && model.jobs() > 0
}

/// The centre of all shares that keep the model's floors.
fn centre(model: &Model) -> Option<Vec<f64>> {
    Some(interior::solve(model).filter(|solved| solved.gap <= CERTIFIED)?.shares)
}

/// Where the search ends if all times from `shortest_s` on are feasible.
fn bisect(shortest_s: f64) -> Option<f64> {
    let (mut low_s, mut high_s) = (BISECT_LOW_S, BISECT_HIGH_S);
    let mut window_s = high_s;
    for _ in 0..BISECT_WINDOWS {
        let mut found = None;
        while BISECT_RATIO * low_s < high_s {
            let time_s = f64::midpoint(low_s, high_s);
            if time_s >= shortest_s {
                (high_s, found) = (time_s, Some(time_s));
            } else {
                low_s = time_s;
            }
        }
        if found.is_some() {
            return found;
        }
        (low_s, high_s) = (window_s, window_s * 10.0);
        window_s = high_s;
    }
    None
}

/// Makes the largest ratio of a job's whole time, `elapsed + remaining / rate`, to its allowance smallest.
///
/// Jobs without remaining iterations or without allowance do not count.
pub fn finish_time(program: &Program<'_>, claims: &[Finish]) -> Shares {
    let mut model = Model::new(program);
    // In units of the fastest speed: a job's demand at level 1 / ratio is work × level / (allowance − elapsed × level),
    // which is convex in the level, so that its tangents ask for too little and the level they allow is a bound.
    let claims: Vec<Option<Finish>> = (0..model.jobs()).map(|i| claim(&model, claims, i)).collect();
    let alone = |i: usize| claims[i].map(|claim| level_of(&claim, model.rate_alone(i)));
    let bound = (0..model.jobs()).filter_map(alone).fold(f64::INFINITY, f64::min);
    if !(bound.is_finite() && bound > 0.0) {
        let (shares, fallback) = solve(&model);
        return Shares { values: model.spread(program, &shares), objective: 0.0, fallback };
    }
    let mut at = bound;
    let mut fallback = None;
    let mut best = (0.0, Vec::new());
    for _ in 0..TANGENTS_MAX {
        tangents(&mut model, &claims, at);
        let mut path = Path::new(&model);
        let solved = path.follow().filter(|solved| solved.gap <= CERTIFIED);
        let centred = path.centre().filter(|centred| centred.gap <= CERTIFIED);
        let shares = match centred.or(solved) {
            Some(solved) => solved.shares,
            None => {
                let (shares, name) = instead(&model);
                fallback = name;
                shares
            }
        };
        let rates = model.rates(&shares);
        let (reached, next) = (reached(&claims, &rates), (model.level(&rates) * at).min(bound));
        if best.1.is_empty() || reached > best.0 {
            best = (reached, shares);
        }
        if next - best.0 <= LEVEL_TOLERANCE * next || next >= at && at < bound {
            break;
        }
        at = next;
    }
    let objective = if best.0 > 0.0 { 1.0 / best.0 } else { f64::INFINITY };
    Shares { values: model.spread(program, &best.1), objective, fallback }
}

/// A job's claim with its work in units of its fastest speed, if it counts.
fn claim(model: &Model, claims: &[Finish], job: usize) -> Option<Finish> {
    let claim = claims.get(model.job_of[job])?;
    let work = clean(claim.remaining) / model.fastest[job];
    let counts = clean(claim.allowance_s) > 0.0 && work > 0.0 && work.is_finite();
    counts.then(|| Finish {
        elapsed_s: clean(claim.elapsed_s),
        remaining: work,
        allowance_s: claim.allowance_s,
    })
}

/// The level (one over the ratio) that a rate gives.
fn level_of(claim: &Finish, rate: f64) -> f64 {
    if rate > 0.0 { claim.allowance_s / (claim.elapsed_s + claim.remaining / rate) } else { 0.0 }
}

fn reached(claims: &[Option<Finish>], rates: &[f64]) -> f64 {
    let levels = claims
        .iter()
        .zip(rates)
        .filter_map(|(claim, &rate)| claim.as_ref().map(|claim| level_of(claim, rate)));
    levels.fold(f64::INFINITY, f64::min)
}

/// Puts the tangents of the demands at a level into the model. Levels are counted in units of that level.
fn tangents(model: &mut Model, claims: &[Option<Finish>], at: f64) {
    model.gain = 1.0;
    for (i, claim) in claims.iter().enumerate() {
        let Some(claim) = claim else { continue };
        let left = claim.allowance_s - claim.elapsed_s * at;
        let demand = claim.remaining * at / left;
        model.slopes[i] = demand * claim.allowance_s / left;
        model.floors[i] = demand - model.slopes[i];
    }
}

/// Makes the sum of `value × share` largest (`values` is row-major, jobs × types), with demanded rates if given.
///
/// Values count only where the job can run. Demands that a job could not have even alone are dropped; if the others
/// cannot be met together, all are cut by the same part. [`Shares::fallback`] names either.
pub fn max_sum(program: &Program<'_>, values: &[f64], demands: Option<&[f64]>) -> Shares {
    let mut model = Model::new(program);
    let fallback = demands.and_then(|demands| floors(&mut model, demands));
    let all_types = program.capacities.len();
    for i in 0..model.jobs() {
        for j in 0..model.types {
            let cell = i * model.types + j;
            let value = values.get(model.job_of[i] * all_types + model.type_of[j]).copied();
            let counts = model.speeds[cell] > 0.0;
            model.values[cell] = value.filter(|value| counts && value.is_finite()).unwrap_or(0.0);
        }
    }
    let largest = model.values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    if largest > 0.0 {
        model.values.iter_mut().for_each(|value| *value /= largest);
    }
    let (shares, solved) = solve(&model);
    let sum: f64 = shares.iter().zip(&model.values).map(|(share, value)| share * value).sum();
    Shares { values: model.spread(program, &shares), objective: sum * largest, fallback: solved.or(fallback) }
}

/// Puts demanded rates into the model, and states what was taken from them.
fn floors(model: &mut Model, demands: &[f64]) -> Option<&'static str> {
    let mut targets = model.targets(demands, |demand, fastest| fastest / demand);
    let mut taken = None;
    for (i, target) in targets.iter_mut().enumerate() {
        if *target > 0.0 && model.rate_alone(i) * *target < MET {
            (*target, taken) = (0.0, Some("dropped demands that no share could meet"));
        }
    }
    let (shares, _) = level(model, &targets);
    let rates = model.rates(&shares);
    let met = smallest(rates.iter().zip(&targets).map(|(rate, target)| rate * target), &targets);
    let part = if met < MET { met } else { 1.0 };
    if part < 1.0 && targets.iter().any(|&target| target > 0.0) {
        taken = Some("cut demands that cannot be met together");
    }
    for (i, &target) in targets.iter().enumerate() {
        model.floors[i] = if target > 0.0 { part * MET / target } else { 0.0 };
        model.slopes[i] = 0.0;
    }
    model.gain = 0.0;
    taken
}

/// Solves for the largest common level of `target × rate` over jobs that count.
pub(super) fn level(model: &mut Model, targets: &[f64]) -> (Vec<f64>, Option<&'static str>) {
    aim_at_level(model, targets);
    solve(model)
}

/// Puts the largest common level of `target × rate` over jobs that count into the model, and returns the level's unit.
pub(super) fn aim_at_level(model: &mut Model, targets: &[f64]) -> f64 {
    let alone = (0..model.jobs()).filter(|&i| targets[i] > 0.0).map(|i| model.rate_alone(i) * targets[i]);
    // No level is above what each job could have alone, so that levels are counted in units of the smallest of those.
    let unit = alone.fold(f64::INFINITY, f64::min);
    model.gain = if unit.is_finite() { 1.0 } else { 0.0 };
    for (i, &target) in targets.iter().enumerate() {
        model.floors[i] = 0.0;
        model.slopes[i] = if target > 0.0 { unit / target } else { 0.0 };
    }
    unit
}

pub(super) fn smallest(levels: impl Iterator<Item = f64>, targets: &[f64]) -> f64 {
    let counted = levels.zip(targets).filter(|&(_, &target)| target > 0.0);
    let smallest = counted.map(|(level, _)| level).fold(f64::INFINITY, f64::min);
    if smallest.is_finite() { smallest } else { 0.0 }
}

/// Best shares of a model, and what was done if those could not be had.
pub(super) fn solve(model: &Model) -> (Vec<f64>, Option<&'static str>) {
    if model.jobs() == 0 {
        return (Vec::new(), None);
    }
    match interior::solve(model).filter(|solved| solved.gap <= CERTIFIED) {
        Some(solved) => (solved.shares, None),
        None => instead(model),
    }
}

/// What is done if the structured method cannot prove its answer.
pub(super) fn instead(model: &Model) -> (Vec<f64>, Option<&'static str>) {
    match general::solve(model, GENERAL) {
        Some(shares) => (shares, Some("general linear program")),
        None => (model.even(), Some("even shares")),
    }
}
