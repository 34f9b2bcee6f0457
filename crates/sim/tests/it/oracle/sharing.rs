//! Policies that put two jobs on a device, and Gavel's first-in-first-out family: their rules, restated for each decision.

use super::mixed::{self, Case, Moment, Present, Shape, Shares, follow, hold};

const SHAPE: Shape =
    Shape { jobs_max: 8, devices_max: 3, is_elastic: false, size_max: 4, nodes_max: 2, gap_s: 800.0 };

/// How much two jobs get done beside each other, each in relation to itself alone. It is the same on all types.
fn gain(case: &Case, a: usize, b: usize) -> f64 {
    case.kept(a, b) + case.kept(b, a)
}

fn speed(case: &Case, job: usize, kind: usize) -> f64 {
    case.speed(job, kind, case.jobs[job].devices)
}

fn capacities(case: &Case) -> Vec<usize> {
    case.pools.iter().map(|pool| pool.devices()).collect()
}

/// Checks every computed allocation.
fn check(
    case: &Case,
    policy: &str,
    one: impl Fn(&Moment, &Shares, Option<&Shares>) -> Result<(), String>,
) -> Result<u64, String> {
    let tracker = follow(case, policy, &[]);
    if let Some(error) = tracker.errors.first() {
        return Err(error.clone());
    }
    if tracker.unfinished > 0 {
        return Err("a job never ended".into());
    }
    let (mut count, mut last) = (0, None);
    for moment in tracker.moments.iter().filter(|moment| !moment.jobs.is_empty()) {
        let Some(shares) = &moment.shares else { continue };
        one(moment, shares, last)
            .map_err(|text| format!("at {} s: {text}\nshares {shares:?}", moment.time_s))?;
        last = Some(shares);
        count += 1;
    }
    Ok(count)
}

/// Gandiva as Gavel restates it: jobs are alone, or in pairs of equal gangs that get more done together than one after the other,
/// where devices are short; pairs stay; all have equal parts.
fn check_gandiva(case: &Case, moment: &Moment, shares: &Shares, last: Option<&Shares>) -> Result<(), String> {
    let mut named: Vec<usize> = shares.iter().flat_map(|(jobs, _)| jobs.clone()).collect();
    named.sort_unstable();
    if named != moment.jobs.iter().map(|present| present.job).collect::<Vec<_>>() {
        return Err(format!("shares for {named:?}, which are not all jobs once"));
    }
    let devices = |job: usize| case.jobs[job].devices as i64;
    let short = |combos: &mut dyn Iterator<Item = &Vec<usize>>| -> i64 {
        combos.map(|jobs| devices(jobs[0])).sum::<i64>() - capacities(case).iter().sum::<usize>() as i64
    };
    let alone_short =
        named.iter().map(|&job| devices(job)).sum::<i64>() - capacities(case).iter().sum::<usize>() as i64;
    let pairs: Vec<&Vec<usize>> = shares.iter().map(|(jobs, _)| jobs).filter(|jobs| jobs.len() > 1).collect();
    let is_old = |pair: &Vec<usize>| last.is_some_and(|last| last.iter().any(|(jobs, _)| jobs == pair));
    for pair in &pairs {
        let can_run = |kind: usize| pair.iter().all(|&job| speed(case, job, kind) > 0.0);
        let fits = devices(pair[0]) == devices(pair[1]) && (0..case.pools.len()).any(can_run);
        if pair.len() != 2 || !fits || gain(case, pair[0], pair[1]) < 1.0 || alone_short <= 0 {
            return Err(format!("pair {pair:?}, {alone_short} devices short"));
        }
    }
    // New pairs are made only as long as devices are short.
    let left = short(&mut shares.iter().map(|(jobs, _)| jobs));
    let new: Vec<_> = pairs.iter().filter(|pair| !is_old(pair)).collect();
    if !new.is_empty() && new.iter().all(|pair| left + devices(pair[0]) <= 0) {
        return Err(format!("more pairs than needed: {} devices to spare", -left));
    }
    let is_here = |job: &usize| named.contains(job);
    for (jobs, _) in last.into_iter().flatten().filter(|(jobs, _)| jobs.len() > 1 && jobs.iter().all(is_here))
    {
        if alone_short > 0 && !pairs.contains(&jobs) {
            return Err(format!("pair {jobs:?} was parted"));
        }
    }
    for (jobs, parts) in shares {
        let can_run = |kind: usize| jobs.iter().all(|&job| speed(case, job, kind) > 0.0);
        let equal = |kind: usize| {
            let devices = if can_run(kind) { case.pools[kind].devices() } else { 0 };
            devices as f64 / shares.len() as f64 / case.jobs[jobs[0]].devices as f64
        };
        let all: f64 = (0..parts.len()).map(equal).sum();
        for (kind, part) in parts.iter().enumerate() {
            if (part - equal(kind) / all.max(1.0)).abs() > 1e-9 {
                return Err(format!(
                    "{jobs:?} has {part} of type {kind}, not {}",
                    equal(kind) / all.max(1.0)
                ));
            }
        }
    }
    Ok(())
}

#[test]
fn gandiva_on_random_cases_pairs_jobs_where_devices_are_short_and_shares_equally() {
    hold(
        "gandiva",
        |seed| mixed::case(SHAPE, seed),
        |case| check(case, "gandiva", |moment, shares, last| check_gandiva(case, moment, shares, last)),
    );
}

/// Who has devices of which type: jobs, and the type.
type Seats = Vec<(Vec<usize>, usize)>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fifo {
    Any,
    Fastest,
    Packed,
}

/// What runs before a decision: jobs by themselves and pairs.
fn running(moment: &Moment) -> Seats {
    let mut seats: Seats = Vec::new();
    for present in &moment.jobs {
        let Some(held) = &present.before else { continue };
        let is_beside = |other: &&Present| {
            other.job != present.job
                && other.before.as_ref().is_some_and(|other| other.devices == held.devices)
        };
        let others: Vec<usize> = moment.jobs.iter().filter(is_beside).map(|other| other.job).collect();
        let mut jobs = [vec![present.job], others].concat();
        jobs.sort_unstable();
        if jobs[0] == present.job {
            seats.push((jobs, held.kind));
        }
    }
    seats
}

/// Jobs in order on the fastest type with enough free devices, or (`Packed`) beside the job with which they gain most; the first that
/// fits nowhere holds up all others. `given` are the types by lot.
fn fifo(case: &Case, moment: &Moment, rule: Fifo, mut seats: Seats, given: &Shares) -> Result<Seats, String> {
    let mut free: Vec<usize> = capacities(case);
    for (jobs, kind) in &seats {
        free[*kind] -= case.jobs[jobs[0]].devices;
    }
    let seated: Vec<usize> = seats.iter().flat_map(|(jobs, _)| jobs.clone()).collect();
    for present in moment.jobs.iter().filter(|present| !seated.contains(&present.job)) {
        let (job, devices) = (present.job, case.jobs[present.job].devices);
        let present_kind = present.before.as_ref().map(|held| held.kind);
        let fits: Vec<usize> =
            (0..free.len()).filter(|&kind| speed(case, job, kind) > 0.0 && free[kind] >= devices).collect();
        let fastest = fits.iter().map(|&kind| speed(case, job, kind)).fold(0.0, f64::max);
        let fast: Vec<usize> =
            fits.iter().copied().filter(|&kind| speed(case, job, kind) == fastest).collect();
        let drawn = given
            .iter()
            .find(|(jobs, _)| *jobs == [job])
            .and_then(|(_, parts)| parts.iter().position(|part| *part > 0.0));
        let kind = match rule {
            Fifo::Any if fits.is_empty() => None,
            Fifo::Any => Some(
                drawn
                    .filter(|kind| fits.contains(kind))
                    .ok_or(format!("job {job} is not on one of {fits:?}"))?,
            ),
            _ => present_kind.filter(|kind| fast.contains(kind)).or(fast.first().copied()),
        };
        if let Some(kind) = kind {
            free[kind] -= devices;
            seats.push((vec![job], kind));
            continue;
        }
        let can_pair = |(jobs, kind): &&(Vec<usize>, usize)| {
            let is_alike = jobs.len() == 1 && case.jobs[jobs[0]].devices == devices;
            is_alike && speed(case, job, *kind) > 0.0 && gain(case, job, jobs[0]) > 1.5
        };
        let most =
            seats.iter().filter(can_pair).map(|(jobs, _)| gain(case, job, jobs[0])).fold(0.0, f64::max);
        if rule != Fifo::Packed || most == 0.0 {
            break;
        }
        // Of equally good partners the product may take any.
        let taken = |other: usize| given.iter().any(|(jobs, _)| *jobs == [job.min(other), job.max(other)]);
        let partner = seats.iter().position(|seat| {
            can_pair(&seat) && taken(seat.0[0]) && gain(case, job, seat.0[0]) >= most - 1e-12
        });
        let partner = partner.ok_or(format!("job {job} does not share devices with a best partner"))?;
        seats[partner].0.push(job);
        seats[partner].0.sort_unstable();
    }
    seats.sort();
    Ok(seats)
}

fn check_fifo(case: &Case, moment: &Moment, shares: &Shares, rule: Fifo) -> Result<(), String> {
    let whole = |(jobs, parts): &(Vec<usize>, Vec<f64>)| {
        let kind = parts.iter().position(|&part| part == 1.0);
        kind.map(|kind| (jobs.clone(), kind)).ok_or(format!("{jobs:?} has parts {parts:?}"))
    };
    let mut own: Seats = shares.iter().map(whole).collect::<Result<_, _>>()?;
    own.sort();
    let kept = fifo(case, moment, rule, running(moment), shares);
    // At rounds all types are assigned again; with random placement no job moves.
    let moved = if rule == Fifo::Any { kept.clone() } else { fifo(case, moment, rule, Vec::new(), shares) };
    if kept.as_ref() == Ok(&own) || moved.as_ref() == Ok(&own) {
        return Ok(());
    }
    Err(format!("product {own:?}\noracle {kept:?}, or in a round {moved:?}"))
}

#[test]
fn fifo_on_mixed_devices_on_random_cases_follows_its_order() {
    for (policy, rule) in
        [("gavel/fifo", Fifo::Any), ("fifo-perf", Fifo::Fastest), ("fifo-packed", Fifo::Packed)]
    {
        hold(
            policy,
            |seed| mixed::case(SHAPE, seed),
            |case| check(case, policy, |moment, shares, _| check_fifo(case, moment, shares, rule)),
        );
    }
}
