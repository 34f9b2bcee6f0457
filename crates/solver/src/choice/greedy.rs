//! Choices from prices: who would lose most chooses first; then gains, the largest for each device first.

use super::Problem;

/// Passes over all jobs before improving stops.
const PASSES_MAX: usize = 20;

/// Gives jobs their best configurations at these prices while there are devices, those first who would lose most without.
pub(super) fn pick(problem: &Problem<'_>, prices: &[f64]) -> Vec<Option<usize>> {
    let mut order: Vec<(f64, usize)> =
        (0..problem.jobs()).map(|job| (loss(problem, prices, job), job)).collect();
    order.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let mut left = problem.capacity.to_vec();
    let mut picks = vec![None; problem.jobs()];
    for (_, job) in order {
        picks[job] = best(problem, prices, job, &left);
        if let Some(pick) = picks[job] {
            let taken = &problem.of(job)[pick];
            left[taken.kind] -= taken.count;
        }
    }
    picks
}

/// What a job loses where it does not get its best configuration.
fn loss(problem: &Problem<'_>, prices: &[f64], job: usize) -> f64 {
    let (mut first, mut second) = (0.0, 0.0);
    for configuration in problem.of(job).iter().filter(|it| problem.is_possible(it)) {
        let net = configuration.value - prices[configuration.kind] * f64::from(configuration.count);
        if net > first {
            (first, second) = (net, first);
        } else if net > second {
            second = net;
        }
    }
    first - second
}

fn best(problem: &Problem<'_>, prices: &[f64], job: usize, left: &[u32]) -> Option<usize> {
    let mut best: Option<(f64, usize)> = None;
    for (pick, configuration) in problem.of(job).iter().enumerate() {
        if configuration.value <= 0.0 || configuration.count > left[configuration.kind] {
            continue;
        }
        let net = configuration.value - prices[configuration.kind] * f64::from(configuration.count);
        let is_better = best.is_none_or(|(least, other)| {
            net > least || net == least && problem.preference(job, pick) < problem.preference(job, other)
        });
        if net >= 0.0 && is_better {
            best = Some((net, pick));
        }
    }
    best.map(|(_, pick)| pick)
}

/// Changes single jobs for the better while devices do.
pub(super) fn improve(problem: &Problem<'_>, picks: &mut [Option<usize>], resolution: f64) {
    let mut left = unused(problem, picks);
    for _ in 0..PASSES_MAX {
        let mut gains: Vec<(f64, usize, usize)> = Vec::new();
        for job in 0..problem.jobs() {
            gains.extend(
                best_gain(problem, picks, job, &left, resolution).map(|(gain, pick)| (gain, job, pick)),
            );
        }
        if gains.is_empty() {
            return;
        }
        gains.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        for (_, job, pick) in gains {
            if fits(problem, picks[job], job, pick, &left) {
                change(problem, picks, job, Some(pick), &mut left);
            }
        }
    }
}

/// The change of a job that gains most for each further device.
fn best_gain(
    problem: &Problem<'_>,
    picks: &[Option<usize>],
    job: usize,
    left: &[u32],
    resolution: f64,
) -> Option<(f64, usize)> {
    let configurations = problem.of(job);
    let now = picks[job].map_or(0.0, |pick| configurations[pick].value);
    let held = picks[job].map_or(0, |pick| configurations[pick].count);
    let mut best: Option<(f64, usize)> = None;
    for (pick, configuration) in configurations.iter().enumerate() {
        let gain = configuration.value - now;
        if gain < resolution || !fits(problem, picks[job], job, pick, left) {
            continue;
        }
        let rate = gain / f64::from(configuration.count.saturating_sub(held).max(1));
        if best.is_none_or(|(highest, _)| rate > highest) {
            best = Some((rate, pick));
        }
    }
    best
}

/// Among configurations of equal value each job takes the one that it should prefer, in order.
pub(super) fn tidy(problem: &Problem<'_>, picks: &mut [Option<usize>], resolution: f64) {
    let mut left = unused(problem, picks);
    for job in 0..problem.jobs() {
        let Some(now) = picks[job] else { continue };
        let configurations = problem.of(job);
        let is_equal = |&pick: &usize| {
            (configurations[pick].value - configurations[now].value).abs() < resolution * 1e-3
                && fits(problem, picks[job], job, pick, &left)
        };
        let equals = (0..configurations.len()).filter(is_equal);
        let preferred = equals.min_by_key(|&pick| problem.preference(job, pick));
        change(problem, picks, job, preferred.or(Some(now)), &mut left);
    }
}

fn fits(problem: &Problem<'_>, held: Option<usize>, job: usize, pick: usize, left: &[u32]) -> bool {
    let configurations = problem.of(job);
    let wanted = &configurations[pick];
    let returned = held.map(|held| &configurations[held]).filter(|held| held.kind == wanted.kind);
    wanted.count <= left[wanted.kind] + returned.map_or(0, |held| held.count)
}

fn change(
    problem: &Problem<'_>,
    picks: &mut [Option<usize>],
    job: usize,
    pick: Option<usize>,
    left: &mut [u32],
) {
    let configurations = problem.of(job);
    if let Some(held) = picks[job] {
        left[configurations[held].kind] += configurations[held].count;
    }
    if let Some(pick) = pick {
        left[configurations[pick].kind] -= configurations[pick].count;
    }
    picks[job] = pick;
}

fn unused(problem: &Problem<'_>, picks: &[Option<usize>]) -> Vec<u32> {
    let mut left = problem.capacity.to_vec();
    for (job, pick) in picks.iter().enumerate() {
        if let Some(pick) = *pick {
            let taken = &problem.of(job)[pick];
            left[taken.kind] -= taken.count;
        }
    }
    left
}
