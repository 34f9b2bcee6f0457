//! A choice with few changes: one newcomer is admitted, and at most so many other jobs change their configuration.
//!
//! With few changes the best ones are found by trying them. Jobs that would change from equal devices to equal devices differ
//! only in what they gain, so of each such class only the best few matter. Prices of the device types bound what further changes can
//! gain: a change is charged for the devices that it takes and paid for those that it frees, and since no type is overdrawn in the end,
//! no set of changes gains more than its sum at these prices and the price of the devices that are free.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use wharf_solver::choice::Configuration;

/// Sums are compared in these units: smaller differences are rounding.
const SAME: f64 = 1e-6;
/// Steps in which prices are found.
const PRICE_STEPS: usize = 16;

/// A job that has a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    /// The configurations to choose from.
    pub configurations: &'a [Configuration],
    /// The present one.
    pub current: usize,
}

/// The best way to admit a newcomer.
#[derive(Clone, Debug, PartialEq)]
pub struct Adjustment {
    /// The newcomer's configuration.
    pub pick: usize,
    /// Others that change: the job and its new configuration, by job.
    pub changes: Vec<(usize, usize)>,
    /// The newcomer's value, and what the others gain.
    pub gain: f64,
}

/// One change that might be made.
#[derive(Clone, Copy, Debug)]
struct Change {
    job: usize,
    to: usize,
    gain: f64,
    frees: (usize, i64),
    takes: (usize, i64),
    /// The gain at the prices of the devices that it takes and frees.
    priced: f64,
}

/// Finds the configuration of a newcomer and at most `limit` changes of others that are worth most together, within the
/// capacity of each type; `None` where it cannot be admitted.
///
/// Ties: of equally good ways the one in which the newcomer is worth most counts, then one with the fewest changes, then one in
/// which later jobs change, then the newcomer's earlier configuration.
pub fn adjust(
    capacity: &[u32],
    holders: &[Holder<'_>],
    newcomer: &[Configuration],
    limit: usize,
) -> Option<Adjustment> {
    let mut slack: Vec<i64> = capacity.iter().map(|&count| i64::from(count)).collect();
    for holder in holders {
        let held = holder.configurations[holder.current];
        slack[held.kind] -= i64::from(held.count);
    }
    let values = newcomer.iter().chain(holders.iter().flat_map(|holder| holder.configurations));
    let largest = values.map(|configuration| configuration.value.abs()).fold(0.0, f64::max);
    let mut search = Search::new(newcomer, worthwhile(holders, limit), slack, SAME + largest * 1e-12);
    // Fewer changes first: what they gain is a bound for the others.
    for limit in 0..=limit {
        if limit > 1 && search.best.is_some() {
            search.find_prices(limit);
        }
        search.run(limit);
    }
    search.best
}

/// Of all changes from equal devices to equal devices the best few, of equally good ones those of later jobs.
fn worthwhile(holders: &[Holder<'_>], limit: usize) -> Vec<Change> {
    let mut classes: BTreeMap<[(usize, i64); 2], Vec<Change>> = BTreeMap::new();
    for (job, holder) in holders.iter().enumerate() {
        let held = holder.configurations[holder.current];
        for (to, other) in holder.configurations.iter().enumerate().filter(|&(to, _)| to != holder.current) {
            let (frees, takes) = ((held.kind, i64::from(held.count)), (other.kind, i64::from(other.count)));
            let gain = other.value - held.value;
            let class = classes.entry([frees, takes]).or_default();
            let at = class.partition_point(|known| known.gain > gain);
            if at < limit {
                class.insert(at, Change { job, to, gain, frees, takes, priced: gain });
                class.truncate(limit);
            }
        }
    }
    classes.into_values().flatten().collect()
}

struct Search<'a> {
    newcomer: &'a [Configuration],
    /// The best first, at the prices.
    changes: Vec<Change>,
    /// Places in `changes`: of those that gain, and of those that free devices of each type.
    gaining: Vec<usize>,
    freeing: Vec<Vec<usize>>,
    /// The most devices of each type that a single change frees.
    most_freed: Vec<i64>,
    /// Of one device of each type.
    prices: Vec<f64>,
    slack: Vec<i64>,
    made: Vec<Change>,
    best: Option<Adjustment>,
    /// Rounding of sums.
    tolerance: f64,
}

impl<'a> Search<'a> {
    fn new(newcomer: &'a [Configuration], changes: Vec<Change>, slack: Vec<i64>, tolerance: f64) -> Self {
        let kinds = slack.len();
        let mut search = Self {
            newcomer,
            changes,
            gaining: Vec::new(),
            freeing: vec![Vec::new(); kinds],
            most_freed: vec![0; kinds],
            prices: vec![0.0; kinds],
            slack,
            made: Vec::new(),
            best: None,
            tolerance,
        };
        for change in &search.changes {
            let (kind, count) = change.frees;
            let freed = if change.takes.0 == kind { count - change.takes.1 } else { count };
            search.most_freed[kind] = search.most_freed[kind].max(freed);
        }
        search
    }

    /// Sorts the changes by their gain at the prices.
    fn sort(&mut self) {
        for change in &mut self.changes {
            change.priced = priced(change, &self.prices);
        }
        self.changes.sort_by(|one, other| other.priced.total_cmp(&one.priced).then(other.job.cmp(&one.job)));
        self.gaining.clear();
        self.freeing.iter_mut().for_each(Vec::clear);
        for (index, change) in self.changes.iter().enumerate() {
            if change.gain > 0.0 {
                self.gaining.push(index);
            }
            if change.takes.0 != change.frees.0 || change.takes.1 < change.frees.1 {
                self.freeing[change.frees.0].push(index);
            }
        }
    }

    /// Tries all configurations of the newcomer with at most so many changes.
    fn run(&mut self, limit: usize) {
        self.sort();
        for (pick, own) in self.newcomer.iter().enumerate() {
            self.slack[own.kind] -= i64::from(own.count);
            let free: f64 =
                self.prices.iter().zip(&self.slack).map(|(price, &slack)| price * slack as f64).sum();
            self.descend(pick, own.value, own.value + free, limit);
            self.slack[own.kind] += i64::from(own.count);
        }
    }

    /// Makes up to `left` further changes: `gain` is the sum of what was made so far, `priced` the same at the prices with the price
    /// of what is free. While a type is overdrawn the next change must free devices of it; while none is, the next must gain.
    fn descend(&mut self, pick: usize, gain: f64, priced: f64, left: usize) {
        let overdrawn = self.slack.iter().position(|&slack| slack < 0);
        if overdrawn.is_none() {
            self.propose(pick, gain);
        }
        if left == 0 || !self.can_free(left) {
            return;
        }
        let others = self.changes.first().map_or(0.0, |first| first.priced.max(0.0)) * (left - 1) as f64;
        let count = overdrawn.map_or(self.gaining.len(), |kind| self.freeing[kind].len());
        for place in 0..count {
            let index = overdrawn.map_or_else(|| self.gaining[place], |kind| self.freeing[kind][place]);
            let change = self.changes[index];
            // They are sorted: none behind this one brings more.
            if self.is_below_best(priced + change.priced + others) {
                return;
            }
            if self.made.iter().any(|made| made.job == change.job) {
                continue;
            }
            self.make(&change, 1);
            self.made.push(change);
            self.descend(pick, gain + change.gain, priced + change.priced, left - 1);
            self.made.pop();
            self.make(&change, -1);
        }
    }

    /// Whether so many changes can free what is overdrawn: each frees devices of one type.
    fn can_free(&self, left: usize) -> bool {
        let needed = |(&slack, &most): (&i64, &i64)| match slack {
            0.. => 0,
            _ if most == 0 => i64::MAX,
            _ => (-slack + most - 1) / most,
        };
        let needed = self.slack.iter().zip(&self.most_freed).map(needed);
        needed.fold(0_i64, i64::saturating_add) <= left as i64
    }

    /// Keeps the present changes if they are better than the best so far.
    fn propose(&mut self, pick: usize, gain: f64) {
        if self.is_below_best(gain) {
            return;
        }
        let mut changes: Vec<(usize, usize)> = self.made.iter().map(|made| (made.job, made.to)).collect();
        changes.sort_unstable();
        let found = Adjustment { pick, changes, gain };
        if self.best.as_ref().is_none_or(|best| self.rank(&found, best).is_lt()) {
            self.best = Some(found);
        }
    }

    /// Which of two ways comes first.
    fn rank(&self, one: &Adjustment, other: &Adjustment) -> Ordering {
        let units = |way: &Adjustment| (way.gain / SAME).round();
        let value = |way: &Adjustment| self.newcomer[way.pick].value;
        let jobs = |way: &Adjustment| way.changes.iter().rev().map(|&(job, _)| job).collect::<Vec<usize>>();
        units(other)
            .total_cmp(&units(one))
            .then_with(|| value(other).total_cmp(&value(one)))
            .then_with(|| one.changes.len().cmp(&other.changes.len()))
            .then_with(|| jobs(other).cmp(&jobs(one)))
            .then_with(|| one.pick.cmp(&other.pick))
            .then_with(|| one.changes.cmp(&other.changes))
    }

    /// Whether a way that is worth so much at most cannot be the best.
    fn is_below_best(&self, most: f64) -> bool {
        self.best.as_ref().is_some_and(|best| most < best.gain - self.tolerance)
    }

    fn make(&mut self, change: &Change, sign: i64) {
        self.slack[change.frees.0] += sign * change.frees.1;
        self.slack[change.takes.0] -= sign * change.takes.1;
    }

    /// Finds prices at which the bound for so many changes is low, by subgradients with the step of Polyak towards the best
    /// known way.
    fn find_prices(&mut self, limit: usize) {
        let known = self.best.as_ref().map_or(0.0, |best| best.gain);
        let mut lowest = (f64::INFINITY, self.prices.clone());
        let mut prices = self.prices.clone();
        for _ in 0..PRICE_STEPS {
            let (bound, left) = self.bound(&prices, limit);
            if bound < lowest.0 {
                lowest = (bound, prices.clone());
            }
            let length: f64 = left.iter().map(|left| left * left).sum();
            if bound - known <= self.tolerance || length == 0.0 {
                break;
            }
            let step = (bound - known) / length;
            for (price, left) in prices.iter_mut().zip(&left) {
                *price = (*price - step * left).max(0.0);
            }
        }
        self.prices = lowest.1;
    }

    /// The most that the newcomer and so many changes can be worth at these prices, and the devices of each type that such a
    /// choice leaves free (below 0: overdraws).
    fn bound(&self, prices: &[f64], limit: usize) -> (f64, Vec<f64>) {
        let mut left: Vec<f64> = self.slack.iter().map(|&slack| slack as f64).collect();
        let mut bound: f64 = left.iter().zip(prices).map(|(left, price)| left * price).sum();
        let net = |own: &Configuration| own.value - prices[own.kind] * f64::from(own.count);
        if let Some(own) = self.newcomer.iter().max_by(|one, other| net(one).total_cmp(&net(other))) {
            bound += net(own);
            left[own.kind] -= f64::from(own.count);
        }
        let mut chosen: Vec<(f64, &Change)> = Vec::with_capacity(limit + 1);
        for change in &self.changes {
            let priced = priced(change, prices);
            let at = chosen.partition_point(|known| known.0 >= priced);
            if priced > 0.0 && at < limit {
                chosen.insert(at, (priced, change));
                chosen.truncate(limit);
            }
        }
        for (priced, change) in chosen {
            bound += priced;
            left[change.frees.0] += change.frees.1 as f64;
            left[change.takes.0] -= change.takes.1 as f64;
        }
        (bound, left)
    }
}

fn priced(change: &Change, prices: &[f64]) -> f64 {
    let of = |(kind, count): (usize, i64)| prices[kind] * count as f64;
    change.gain + of(change.frees) - of(change.takes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same by trying everything.
    fn brute(
        capacity: &[u32],
        holders: &[Holder<'_>],
        newcomer: &[Configuration],
        limit: usize,
    ) -> Option<f64> {
        fn go(slack: &[i64], holders: &[Holder<'_>], left: usize) -> Option<f64> {
            let Some((holder, rest)) = holders.split_first() else {
                return slack.iter().all(|&slack| slack >= 0).then_some(0.0);
            };
            let held = holder.configurations[holder.current].value;
            let mut best: Option<f64> = None;
            for (to, own) in holder.configurations.iter().enumerate() {
                let is_change = usize::from(to != holder.current);
                if is_change > left {
                    continue;
                }
                let mut slack = slack.to_vec();
                slack[own.kind] -= i64::from(own.count);
                if let Some(gain) = go(&slack, rest, left - is_change) {
                    best = Some(best.unwrap_or(f64::NEG_INFINITY).max(gain + own.value - held));
                }
            }
            best
        }
        let mut best: Option<f64> = None;
        for own in newcomer {
            let mut slack: Vec<i64> = capacity.iter().map(|&count| i64::from(count)).collect();
            slack[own.kind] -= i64::from(own.count);
            if let Some(gain) = go(&slack, holders, limit) {
                best = Some(best.unwrap_or(f64::NEG_INFINITY).max(gain + own.value));
            }
        }
        best
    }

    fn configuration() -> impl Strategy<Value = Configuration> {
        (0..3_usize, 0..3_u32, -20..60_i32).prop_map(|(kind, power, value)| Configuration {
            kind,
            count: 1 << power,
            value: f64::from(value),
        })
    }

    /// What is shown, the devices of each type, who holds some, and who is to change to what.
    type Case<'a> = (&'a str, u32, &'a [Holder<'a>], &'a [(usize, usize)]);

    /// Jobs that are worth the same on the same number of devices, a newcomer like them, and another.
    #[test]
    fn of_equally_good_ways_the_newcomer_fares_best_and_few_late_jobs_change() {
        let on = |kind: usize, value: f64| Configuration { kind, count: 4, value };
        let twin = [on(0, 104.685), on(1, 60.474)];
        let other = [on(0, 33.049), on(1, 35.079)];
        let held = |configurations, current| Holder { configurations, current };
        let (alone, both) = ([held(&twin, 0)], [held(&twin, 0), held(&twin, 0)]);
        let mixed = [held(&other, 1), held(&twin, 0)];
        let cases: [Case<'_>; 4] = [
            ("the newcomer takes its twin's better place", 4, &alone, &[(0, 1)]),
            ("room for all", 8, &alone, &[]),
            ("the later twin goes", 8, &both, &[(1, 1)]),
            ("no change where none is needed", 8, &mixed, &[]),
        ];
        for (name, each, holders, changes) in cases {
            let found = adjust(&[each, each], holders, &twin, 3).expect(name);
            assert_eq!((found.pick, found.changes.as_slice()), (0, changes), "{name}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        /// What is found is worth as much as the best of all choices, and keeps to the limits.
        #[test]
        fn adjustment_is_the_best_there_is(
            capacity in prop::collection::vec(0..12_u32, 3),
            jobs in prop::collection::vec((prop::collection::vec(configuration(), 1..4), 0..3_usize), 0..6),
            newcomer in prop::collection::vec(configuration(), 0..4),
            limit in 0..4_usize,
        ) {
            let holders: Vec<Holder<'_>> = jobs
                .iter()
                .map(|(configurations, current)| Holder { configurations, current: current % configurations.len() })
                .collect();
            let found = adjust(&capacity, &holders, &newcomer, limit);
            let expected = brute(&capacity, &holders, &newcomer, limit);
            prop_assert_eq!(found.as_ref().map(|found| found.gain), expected);
            if let Some(found) = found {
                prop_assert!(found.changes.len() <= limit);
                let mut slack: Vec<i64> = capacity.iter().map(|&count| i64::from(count)).collect();
                let mut take = |own: Configuration| slack[own.kind] -= i64::from(own.count);
                take(newcomer[found.pick]);
                for (job, holder) in holders.iter().enumerate() {
                    let change = found.changes.iter().find(|(changed, _)| *changed == job);
                    take(holder.configurations[change.map_or(holder.current, |&(_, to)| to)]);
                }
                prop_assert!(slack.iter().all(|&slack| slack >= 0));
            }
        }
    }
}
