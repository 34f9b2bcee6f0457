//! `min-total-duration`: shares with which everything is done soon, as the published search finds them.

use wharf_solver::sharing::Program;

use super::interior::{self, Columns};

/// The makespans that are checked first, in seconds.
const WINDOW_S: (f64, f64) = (100.0, 1e6);
/// The search ends when its bounds are closer than this ratio.
const RATIO: f64 = 1.05;
/// How often the search moves on to makespans ten times as long.
const WINDOWS_MAX: u32 = 12;

/// The makespan at which the search ends that halves a range, given the shortest that there is: up to 5 % longer.
pub(super) fn searched(shortest_s: f64) -> Option<f64> {
    let (mut low_s, mut high_s) = WINDOW_S;
    for _ in 0..WINDOWS_MAX {
        let end_s = high_s;
        let mut found = None;
        while RATIO * low_s < high_s {
            let middle_s = (low_s + high_s) / 2.0;
            if middle_s >= shortest_s {
                high_s = middle_s;
                found = Some(middle_s);
            } else {
                low_s = middle_s;
            }
        }
        if found.is_some() {
            return found;
        }
        (low_s, high_s) = (end_s, end_s * 10.0);
    }
    None
}

/// Jobs that are alike: as fast as each other everywhere, with the same need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub gang: f64,
    /// The speed that each must have.
    pub speed: f64,
    /// How many they are.
    pub count: f64,
}

/// A job of a group, or a pair of jobs of two, that may run.
#[derive(Debug)]
pub(super) struct Combination {
    pub groups: [usize; 2],
    pub is_pair: bool,
    /// Speeds of both, by type; only the first counts for a job alone.
    pub speeds: Vec<[f64; 2]>,
}

impl Combination {
    /// How often it is there, and how many partners of the second group one job of the first has, and the reverse.
    fn counts(&self, groups: &[Group]) -> (f64, [f64; 2]) {
        let [first, second] = self.groups.map(|group| groups[group].count);
        match (self.is_pair, self.groups[0] == self.groups[1]) {
            (false, _) => (first, [1.0, 0.0]),
            (true, false) => (first * second, [second, first]),
            (true, true) => (first * (first - 1.0) / 2.0, [first - 1.0, 0.0]),
        }
    }
}

/// The share of one of each combination, combinations × types, with which each job has its speed at least: from inside of
/// all such.
pub(super) fn shares(combinations: &[Combination], groups: &[Group], capacities: &[f64]) -> Option<Vec<f64>> {
    // Each group has two rows, a job's time and its speed; the types' rows are the last.
    let mut columns = Columns::default();
    for combination in combinations {
        let (count, partners) = combination.counts(groups);
        for (device_type, speeds) in combination.speeds.iter().enumerate() {
            let gang = groups[combination.groups[0]].gang;
            let capacity = (2 * groups.len() + device_type, gang, count);
            let members = combination.groups.into_iter().zip(*speeds).zip(partners);
            let members = members.filter(|(_, partners)| *partners > 0.0);
            let rows = members.flat_map(|((group, speed), partners)| {
                [(2 * group, 1.0, partners), (2 * group + 1, -speed, partners)]
            });
            columns.push(count, rows.chain([capacity]));
        }
    }
    let needs = groups.iter().flat_map(|group| [(1.0, group.count), (-group.speed, group.count)]);
    let bounds: Vec<(f64, f64)> = needs.chain(capacities.iter().map(|&capacity| (capacity, 1.0))).collect();
    interior::point(columns, &bounds)
}

/// The same for jobs without pairs, none like another, that have done what remains in a time.
pub(super) fn shares_alone(program: &Program<'_>, remaining: &[f64], makespan_s: f64) -> Option<Vec<f64>> {
    let width = program.capacities.len();
    let rows = program.speeds.chunks_exact(width).enumerate();
    let combination = |(job, row): (usize, &[f64])| Combination {
        groups: [job, job],
        is_pair: false,
        speeds: row.iter().map(|&speed| [speed, 0.0]).collect(),
    };
    let combinations: Vec<Combination> = rows.map(combination).collect();
    let group = |(&gang, &remaining): (&f64, &f64)| Group { gang, speed: remaining / makespan_s, count: 1.0 };
    let groups: Vec<Group> = program.devices.iter().zip(remaining).map(group).collect();
    shares(&combinations, &groups, program.capacities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_within_its_ratio() {
        for (shortest_s, found_s) in [(17_999.9, 18_164.599_609_375), (1.0, 100.0)] {
            let found = searched(shortest_s).unwrap();
            assert!(found >= shortest_s && found < found_s * RATIO, "{shortest_s}: {found}");
        }
        assert_eq!(searched(17_999.9), Some(18_164.599_609_375), "as recorded");
        assert!(searched(3e6).is_some_and(|found| (3e6..3.2e6).contains(&found)));
        assert_eq!(searched(f64::INFINITY), None);
    }

    #[test]
    fn shares_reach_the_makespan() {
        let program = Program {
            capacities: &[2.0, 1.0],
            devices: &[1.0, 2.0, 1.0],
            speeds: &[1.0, 3.0, 2.0, 0.0, 1.0, 1.0],
        };
        let remaining = [100.0, 60.0, 90.0];
        let shares = shares_alone(&program, &remaining, 120.0).unwrap();
        for (job, row) in shares.chunks_exact(2).enumerate() {
            let speed = row[0] * program.speeds[2 * job] + row[1] * program.speeds[2 * job + 1];
            assert!(speed * 120.0 >= remaining[job] && row.iter().sum::<f64>() <= 1.0, "job {job}: {row:?}");
            assert!(row.iter().all(|share| *share > 0.0), "inside, not at the edge: {row:?}");
        }
        assert!(shares_alone(&program, &remaining, 10.0).is_none(), "too short");
    }

    #[test]
    fn equal_jobs_may_be_reported_once() {
        // Three jobs of a kind and one of another, alone and in pairs: once as two groups, once as four.
        let (alone, beside) = ([[3.0, 2.0], [1.0, 4.0]], 0.7);
        let speeds = |kinds: [usize; 2], is_pair: bool| -> Vec<[f64; 2]> {
            let factor = if is_pair { beside } else { 1.0 };
            (0..2).map(|device_type| kinds.map(|kind| alone[kind][device_type] * factor)).collect()
        };
        let answer = |kinds: &[usize], counts: &[f64]| {
            let group = |(&kind, &count): (&usize, &f64)| Group { gang: 1.0, speed: [0.8, 0.5][kind], count };
            let groups: Vec<Group> = kinds.iter().zip(counts).map(group).collect();
            let mut combinations = Vec::new();
            for one in 0..kinds.len() {
                let alone = speeds([kinds[one]; 2], false);
                combinations.push(Combination { groups: [one, one], is_pair: false, speeds: alone });
                for other in one..kinds.len() {
                    if one != other || counts[one] > 1.0 {
                        let speeds = speeds([kinds[one], kinds[other]], true);
                        combinations.push(Combination { groups: [one, other], is_pair: true, speeds });
                    }
                }
            }
            shares(&combinations, &groups, &[1.0, 1.0]).unwrap()
        };
        let (grouped, whole) = (answer(&[0, 1], &[3.0, 1.0]), answer(&[0, 0, 0, 1], &[1.0; 4]));
        // Of the whole: job 0 alone, with 1, with 3; and job 3 alone. Of the groups: 0 alone, 0 with 0, 0 with 1; 1 alone.
        let of_whole = [0, 1, 2, 3, 6, 7, 18, 19].map(|place| whole[place]);
        for (one, other) in grouped.iter().zip(of_whole) {
            assert!((one - other).abs() < 1e-6, "{grouped:?} is not {of_whole:?}");
        }
    }
}
