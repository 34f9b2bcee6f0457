//! AlloX (EuroSys'20): the jobs that start are the first of the queues of a matching with the least sum of completion times, found by
//! trying every assignment of waiting jobs to device types.

use super::mixed::{self, Case, Moment, Shape, follow, hold};

/// Relative difference of costs that are equal.
const EQUAL: f64 = 1e-9;

/// A waiting job that could run on a free device.
struct Waiting {
    job: usize,
    /// Seconds on each type; infinite where it cannot run, or nothing is free.
    lengths_s: Vec<f64>,
}

/// The least cost of some lengths on equal machines: the longest are last, each delays itself and all before it in its queue.
fn cost(mut lengths_s: Vec<f64>, machines: usize) -> f64 {
    lengths_s.sort_by(|a, b| b.total_cmp(a));
    lengths_s.iter().enumerate().map(|(index, length_s)| (index / machines + 1) as f64 * length_s).sum()
}

/// Whether these jobs can be the first of the queues of equal machines at the least cost.
fn are_first(started_s: &[f64], mut lengths_s: Vec<f64>, machines: usize) -> bool {
    lengths_s.sort_by(f64::total_cmp);
    if started_s.len() != lengths_s.len().min(machines) {
        return false;
    }
    // So many queues have one job more than the others; the shortest jobs are the first of those.
    let longer = lengths_s.len() % machines;
    let is_among = |count: usize| {
        let limit_s = lengths_s.get(count.wrapping_sub(1)).copied().unwrap_or(0.0) * (1.0 + EQUAL);
        started_s.iter().filter(|&&length_s| length_s <= limit_s).count()
    };
    let has_shortest = lengths_s.len() <= machines || is_among(longer) >= longer;
    has_shortest && is_among((longer + machines).min(lengths_s.len())) == started_s.len()
}

/// The type that each waiting job is assigned to, for every assignment.
fn assignments(waiting: &[Waiting]) -> Vec<Vec<usize>> {
    waiting.iter().fold(vec![Vec::new()], |all, waiting| {
        let kinds: Vec<usize> =
            (0..waiting.lengths_s.len()).filter(|&kind| waiting.lengths_s[kind].is_finite()).collect();
        let longer = |one: &Vec<usize>, &kind: &usize| [one.clone(), vec![kind]].concat();
        all.iter().flat_map(|one| kinds.iter().map(|kind| longer(one, kind)).collect::<Vec<_>>()).collect()
    })
}

fn check(case: &Case, moment: &Moment) -> Result<(), String> {
    let mut free: Vec<usize> = case.pools.iter().map(|pool| pool.devices()).collect();
    for held in moment.jobs.iter().filter_map(|present| present.before.as_ref()) {
        free[held.kind] -= held.devices.len();
    }
    let queue = || moment.jobs.iter().filter(|present| present.before.is_none());
    let Some(gang) = queue().map(|present| case.jobs[present.job].devices).next() else { return Ok(()) };
    let machines: Vec<usize> = free.iter().map(|devices| devices / gang).collect();
    let length_s = |present: &mixed::Present, kind: usize| {
        let speed = case.speed(present.job, kind, gang);
        if speed > 0.0 && machines[kind] > 0 { present.remaining / speed } else { f64::INFINITY }
    };
    let kinds = machines.len();
    let waiting: Vec<Waiting> = queue()
        .map(|present| Waiting {
            job: present.job,
            lengths_s: (0..kinds).map(|kind| length_s(present, kind)).collect(),
        })
        .filter(|waiting| waiting.lengths_s.iter().any(|length_s| length_s.is_finite()))
        .collect();
    let on = |assignment: &[usize], kind: usize| -> Vec<f64> {
        let own = waiting.iter().zip(assignment).filter(|(_, of)| **of == kind);
        own.map(|(waiting, _)| waiting.lengths_s[kind]).collect()
    };
    let price = |assignment: &Vec<usize>| -> f64 {
        (0..kinds)
            .filter(|&kind| machines[kind] > 0)
            .map(|kind| cost(on(assignment, kind), machines[kind]))
            .sum()
    };
    let all = assignments(&waiting);
    let least = all.iter().map(price).fold(f64::INFINITY, f64::min);
    // For each type, the jobs that the product started there.
    let started: Vec<Vec<usize>> = (0..kinds)
        .map(|kind| {
            let is_started = |present: &&mixed::Present| {
                present.before.is_none() && present.after.as_ref().is_some_and(|held| held.kind == kind)
            };
            moment.jobs.iter().filter(is_started).map(|present| present.job).collect()
        })
        .collect();
    let agrees = |assignment: &&Vec<usize>| {
        let assigned =
            |job: usize| waiting.iter().position(|waiting| waiting.job == job).map(|index| assignment[index]);
        price(assignment) <= least * (1.0 + EQUAL)
            && (0..kinds).all(|kind| {
                let is_there = started[kind].iter().all(|&job| assigned(job) == Some(kind));
                let length_s = |&job: &usize| {
                    waiting
                        .iter()
                        .find(|waiting| waiting.job == job)
                        .map_or(0.0, |waiting| waiting.lengths_s[kind])
                };
                let started_s: Vec<f64> = started[kind].iter().map(length_s).collect();
                is_there
                    && if machines[kind] == 0 {
                        started_s.is_empty()
                    } else {
                        are_first(&started_s, on(assignment, kind), machines[kind])
                    }
            })
    };
    if all.iter().any(|assignment| agrees(&assignment)) {
        return Ok(());
    }
    let best: Vec<&Vec<usize>> =
        all.iter().filter(|assignment| price(assignment) <= least * (1.0 + EQUAL)).collect();
    let lengths: Vec<String> =
        waiting.iter().map(|waiting| format!("job {}: {:?} s", waiting.job, waiting.lengths_s)).collect();
    Err(format!(
        "at {} s: machines {machines:?}\n{}\nproduct starts {started:?} by type\noracle: least cost {least}, types {best:?}",
        moment.time_s,
        lengths.join("\n")
    ))
}

const SHAPE: Shape =
    Shape { jobs_max: 8, devices_max: 1, is_elastic: false, size_max: 3, nodes_max: 2, gap_s: 800.0 };

#[test]
fn allox_on_random_cases_starts_the_first_jobs_of_a_least_cost_matching() {
    // Gangs of one size are as many machines as fit into each type, which has one node, so that no device is out of reach.
    for gang in [1, 2] {
        let case = |seed| {
            let mut case = mixed::case(SHAPE, seed);
            if gang > 1 {
                case.pools.iter_mut().for_each(|pool| (pool.nodes, pool.size) = (1, pool.size * gang));
                case.jobs
                    .iter_mut()
                    .for_each(|job| (job.devices, job.devices_min, job.devices_max) = (gang, gang, gang));
            }
            case
        };
        hold("allox", case, |case| {
            let tracker = follow(case, "allox", &[]);
            if let Some(error) = tracker.errors.first() {
                return Err(error.clone());
            }
            if tracker.preemptions > 0 {
                return Err("a job was stopped".into());
            }
            let asked = tracker.moments.iter().filter(|moment| moment.shares.is_some());
            asked.map(|moment| check(case, moment).map(|()| 1)).sum()
        });
    }
}
