//! `min-total-duration`: shares with which everything is done soon, as the published search finds them.

use wharf_solver::sharing::Program;

use super::interior::{self, Columns};

/// The makespans that are looked at first, in seconds.
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

/// One job or pair that may run: its members, and their speeds by type.
pub(super) struct Combination {
    /// Indexes of the members; twice the same for a job alone.
    pub members: [usize; 2],
    /// Speeds of both members, by type; only the first counts for a job alone.
    pub speeds: Vec<[f64; 2]>,
}

/// Shares of combinations, combinations × types, with which each job has done what remains in a time.
pub(super) fn shares(
    combinations: &[Combination],
    gangs: &[f64],
    remaining: &[f64],
    capacities: &[f64],
    makespan_s: f64,
) -> Option<Vec<f64>> {
    // Each job has two rows, its time and its speed; the types' rows are the last.
    let jobs = gangs.len();
    let mut columns = Columns::default();
    for Combination { members: [first, second], speeds } in combinations {
        for (device_type, [speed, beside]) in speeds.iter().enumerate() {
            let capacity = (2 * jobs + device_type, gangs[*first]);
            let own = [(2 * first, 1.0), (2 * first + 1, -speed)];
            let others = [(2 * second, 1.0), (2 * second + 1, -beside)];
            let others = others.into_iter().filter(|_| first != second);
            columns.push(own.into_iter().chain(others).chain([capacity]));
        }
    }
    let needs = remaining.iter().flat_map(|remaining| [1.0, -remaining / makespan_s]);
    let bounds: Vec<f64> = needs.chain(capacities.iter().copied()).collect();
    interior::point(columns, &bounds)
}

/// The same without pairs.
pub(super) fn shares_alone(program: &Program<'_>, remaining: &[f64], makespan_s: f64) -> Option<Vec<f64>> {
    let width = program.capacities.len();
    let rows = program.speeds.chunks_exact(width).enumerate();
    let combinations: Vec<Combination> = rows
        .map(|(job, row)| Combination {
            members: [job, job],
            speeds: row.iter().map(|&speed| [speed, 0.0]).collect(),
        })
        .collect();
    shares(&combinations, program.devices, remaining, program.capacities, makespan_s)
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
}
