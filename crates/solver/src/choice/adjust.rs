//! A choice that may leave what jobs have only a few times: one newcomer is taken in, and at most so many of the others
//! change their configuration.
//!
//! With few changes the best ones are found by trying them. Jobs that would change from equal devices to equal devices differ
//! in what they gain alone, so of each such class only the best few matter. While some type is overdrawn, the next
//! change must free devices of it; while none is, only a change that gains anything is worth trying.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::Configuration;

/// Sums that differ by less differ by rounding.
const SAME: f64 = 1e-6;

/// A job that has something.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    /// What it can be given.
    pub configurations: &'a [Configuration],
    /// What it has; it must have one.
    pub current: usize,
}

/// The best way to take a newcomer in.
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
}

/// Finds the configuration of a newcomer and at most `limit` changes of others that are worth most together, within the
/// capacity of each type; `None` where it cannot be taken in. Of equally good ways that one counts in which the newcomer is worth most, then
/// one with fewest changes, then one in which later jobs change.
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
    let changes = worthwhile(holders, limit);
    let mut freeing = vec![Vec::new(); capacity.len()];
    for change in &changes {
        freeing[change.frees.0].push(*change);
    }
    let most = changes.first().map_or(0.0, |first| first.gain.max(0.0));
    let mut search =
        Search { newcomer, changes: &changes, freeing: &freeing, most, slack, made: Vec::new(), best: None };
    for (pick, own) in newcomer.iter().enumerate() {
        search.slack[own.kind] -= i64::from(own.count);
        search.descend(pick, own.value, limit);
        search.slack[own.kind] += i64::from(own.count);
    }
    search.best
}

/// Of all changes from equal devices to equal devices the best few, the best first, of equally good ones those of later jobs.
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
                class.insert(at, Change { job, to, gain, frees, takes });
                class.truncate(limit);
            }
        }
    }
    let mut changes: Vec<Change> = classes.into_values().flatten().collect();
    changes.sort_by(|one, other| other.gain.total_cmp(&one.gain).then(other.job.cmp(&one.job)));
    changes
}

struct Search<'a> {
    newcomer: &'a [Configuration],
    /// The best first.
    changes: &'a [Change],
    /// Those that free devices of each type, the best first.
    freeing: &'a [Vec<Change>],
    /// The most that any change gains.
    most: f64,
    slack: Vec<i64>,
    made: Vec<Change>,
    best: Option<Adjustment>,
}

impl Search<'_> {
    fn descend(&mut self, pick: usize, gain: f64, left: usize) {
        let overdrawn = self.slack.iter().position(|&slack| slack < 0);
        if overdrawn.is_none() {
            self.propose(pick, gain);
        }
        if left == 0 {
            return;
        }
        let (all, freeing) = (self.changes, self.freeing);
        for change in overdrawn.map_or(all, |kind| &freeing[kind]) {
            let with = gain + change.gain;
            // They are sorted: none behind this one brings more.
            if self.is_hopeless(with + self.most * (left - 1) as f64)
                || (overdrawn.is_none() && change.gain <= 0.0)
            {
                return;
            }
            if self.made.iter().any(|made| made.job == change.job) {
                continue;
            }
            self.make(change, 1);
            if let Some(rest) = self.outlook(left - 1)
                && !self.is_hopeless(with + rest)
            {
                self.made.push(*change);
                self.descend(pick, with, left - 1);
                self.made.pop();
            }
            self.make(change, -1);
        }
    }

    /// Keeps what was made if it is better than the best so far.
    fn propose(&mut self, pick: usize, gain: f64) {
        if self.is_hopeless(gain) {
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
        if (one.gain - other.gain).abs() > SAME {
            return other.gain.total_cmp(&one.gain);
        }
        let value = |way: &Adjustment| self.newcomer[way.pick].value;
        let latest = |way: &Adjustment| way.changes.iter().rev().map(|&(job, _)| job).collect::<Vec<usize>>();
        let by_value = value(other).total_cmp(&value(one));
        let by_changes = one.changes.len().cmp(&other.changes.len()).then(latest(other).cmp(&latest(one)));
        by_value.then(by_changes).then(one.pick.cmp(&other.pick))
    }

    /// Whether a way that is worth so much at most cannot be the best.
    fn is_hopeless(&self, most: f64) -> bool {
        self.best.as_ref().is_some_and(|best| most < best.gain - SAME)
    }

    /// The most that so many further changes gain; `None` where they cannot be enough. What is overdrawn must be freed first.
    fn outlook(&self, left: usize) -> Option<f64> {
        let Some(kind) = self.slack.iter().position(|&slack| slack < 0) else {
            return Some(self.most * left as f64);
        };
        let first = self.freeing[kind].first().filter(|_| left > 0)?;
        Some(first.gain + self.most * (left - 1) as f64)
    }

    fn make(&mut self, change: &Change, sign: i64) {
        self.slack[change.frees.0] += sign * change.frees.1;
        self.slack[change.takes.0] -= sign * change.takes.1;
    }
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
