//! Muri (SIGCOMM'22): the groups of the first decision against every matching, or every division into groups.

use std::collections::{BTreeMap, BTreeSet};

use wharf_perf::{Interleaving, Order, Stages};

use super::mixed::{Case, Moment, Shape, follow, hold, told_case};

/// How much longer than its stages tell a group of two, three or four takes, under the default preset.
const FACTORS: [f64; 3] = [1.31, 1.48, 1.35];

const SHAPE: Shape =
    Shape { jobs_max: 6, devices_max: 1, is_elastic: false, size_max: 3, nodes_max: 1, gap_s: 0.0 };

/// The share of all four resources' time that a group uses; `None` where it is slower than its members one after the other.
fn efficiency(case: &Case, group: &[usize], autopack: bool) -> Option<f64> {
    let stages = |&job: &usize| {
        let [data_s, compute_s, network_s] = case.jobs[job].stages_ms.expect("stages").map(|ms| ms / 1000.0);
        Stages { data_s, compute_s, network_s }
    };
    let members: Vec<Stages> = group.iter().map(stages).collect();
    let interleaving = Interleaving { resources: 4, factors: FACTORS };
    let cycle_s = interleaving.iteration_s(&members, case.solo_s(group[0]), Order::Best);
    let time_s = group.iter().map(|&job| case.solo_s(job)).fold(cycle_s, f64::max);
    let one_by_one_s: f64 = group.iter().map(|&job| case.solo_s(job)).sum();
    let is_slow = group.len() > 1 && autopack && time_s > one_by_one_s;
    (!is_slow).then(|| one_by_one_s / (time_s * 4.0))
}

/// All divisions of jobs into groups of at most `packing`.
fn divisions(jobs: &[usize], packing: usize) -> Vec<Vec<Vec<usize>>> {
    let Some((&first, rest)) = jobs.split_first() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for groups in divisions(rest, packing) {
        for index in 0..groups.len() {
            if groups[index].len() < packing {
                let mut joined = groups.clone();
                joined[index].push(first);
                all.push(joined);
            }
        }
        all.push([groups, vec![vec![first]]].concat());
    }
    all
}

/// The groups that run after a decision.
fn groups(moment: &Moment) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<BTreeSet<(usize, usize)>, Vec<usize>> = BTreeMap::new();
    for present in &moment.jobs {
        if let Some(held) = &present.after {
            groups.entry(held.devices.clone()).or_default().push(present.job);
        }
    }
    groups.into_values().collect()
}

/// The first jobs in order that the devices could hold in full groups.
fn chosen(case: &Case, is_by_length: bool, packing: usize) -> Vec<usize> {
    let mut jobs: Vec<usize> = (0..case.jobs.len()).collect();
    if is_by_length {
        let left = |job: usize| case.jobs[job].iterations * case.solo_s(job);
        jobs.sort_by(|&a, &b| left(a).total_cmp(&left(b)).then(a.cmp(&b)));
    }
    jobs.truncate(case.pools[0].devices() * packing);
    jobs.sort_unstable();
    jobs
}

/// The groups of the first decision, where all jobs run that were chosen and devices are short.
fn first_groups(
    case: &Case,
    policy: &str,
    settings: &[&str],
    packing: usize,
) -> Result<Option<Vec<Vec<usize>>>, String> {
    let tracker = follow(case, policy, settings);
    if tracker.unfinished > 0 {
        return Err("a job never ended".into());
    }
    let groups = groups(&tracker.moments[0]);
    let mut running: Vec<usize> = groups.concat();
    running.sort_unstable();
    let chosen = chosen(case, policy == "muri-s", packing);
    if running.iter().any(|job| !chosen.contains(job)) {
        return Err(format!("jobs {running:?} run, chosen are {chosen:?}"));
    }
    let is_short = chosen.len() > case.pools[0].devices();
    if !is_short && groups.iter().any(|group| group.len() > 1) {
        return Err(format!("groups {groups:?} although there are devices for all"));
    }
    Ok((is_short && running == chosen).then_some(groups))
}

/// Partners are those of a matching with the largest sum of efficiencies, the most efficient pairs first, and no more than are needed.
fn check_pairs(case: &Case, policy: &str, autopack: bool) -> Result<u64, String> {
    let setting = if autopack { "autopack=on" } else { "autopack=off" };
    let Some(groups) = first_groups(case, policy, &["packing_num=2", setting], 2)? else { return Ok(0) };
    let pairs: Vec<&Vec<usize>> = groups.iter().filter(|group| group.len() == 2).collect();
    let weight = |pair: &Vec<usize>| efficiency(case, pair, autopack).unwrap_or(0.0);
    let matchings: Vec<Vec<Vec<usize>>> = divisions(&chosen(case, policy == "muri-s", 2), 2)
        .into_iter()
        .map(|groups| {
            let sorted = |mut group: Vec<usize>| {
                group.sort_unstable();
                group
            };
            groups.into_iter().map(sorted).filter(|group| group.len() == 2 && weight(group) > 0.0).collect()
        })
        .collect();
    let sum = |pairs: &Vec<Vec<usize>>| pairs.iter().map(weight).sum::<f64>();
    let best = matchings.iter().map(sum).fold(0.0, f64::max);
    let agrees = |matching: &&Vec<Vec<usize>>| {
        let lightest = pairs.iter().map(|pair| weight(pair)).fold(f64::INFINITY, f64::min);
        let others = matching.iter().filter(|pair| !pairs.contains(pair));
        sum(matching) >= best - 1e-9
            && pairs.iter().all(|pair| matching.contains(pair))
            && others.into_iter().all(|pair| weight(pair) <= lightest + 1e-9)
    };
    if matchings.iter().any(|matching| agrees(&matching)) {
        return Ok(1);
    }
    let of_best: Vec<_> = matchings.iter().filter(|matching| sum(matching) >= best - 1e-9).collect();
    Err(format!("{policy}: pairs {pairs:?}, the best matchings are {of_best:?} with {best}"))
}

/// Groups of four come from matching pairs: their efficiencies add up to nearly as much as those of the best division.
fn check_fours(case: &Case, policy: &str) -> Result<u64, String> {
    let Some(groups) = first_groups(case, policy, &["packing_num=4"], 4)? else { return Ok(0) };
    let sum = |groups: &Vec<Vec<usize>>| -> Option<f64> {
        groups.iter().map(|group| efficiency(case, group, true)).sum()
    };
    let own = sum(&groups).ok_or("a group is slower than its members one after the other")?;
    let all = divisions(&chosen(case, policy == "muri-s", 4), 4);
    let best =
        all.iter().filter(|other| other.len() == groups.len()).filter_map(|other| Some((sum(other)?, other)));
    let (best, division) = best.max_by(|a, b| a.0.total_cmp(&b.0)).ok_or("no division")?;
    if own * 1.10 >= best {
        return Ok(1);
    }
    Err(format!("{policy}: groups {groups:?} with {own}, {division:?} has {best}"))
}

#[test]
fn muri_pairs_on_random_cases_are_a_maximum_weight_matching() {
    for policy in ["muri-s", "muri-l"] {
        for autopack in [true, false] {
            hold(policy, |seed| told_case(SHAPE, seed), |case| check_pairs(case, policy, autopack));
        }
    }
}

#[test]
fn muri_groups_on_random_cases_are_within_a_tenth_of_the_best_division() {
    for policy in ["muri-s", "muri-l"] {
        let shape = Shape { jobs_max: 8, ..SHAPE };
        hold(policy, |seed| told_case(shape, seed), |case| check_fours(case, policy));
    }
}
