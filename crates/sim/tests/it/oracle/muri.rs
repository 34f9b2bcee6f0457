//! Muri (SIGCOMM'22): the groups of the first decision against every matching of each round.

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

/// What one round of matching can make of teams: of a matching with the largest sum of efficiencies, the most efficient pairs are joined,
/// as many as devices are missing. Of equals any may be taken.
fn joined(case: &Case, teams: &[Vec<usize>], missing: usize) -> Vec<Vec<Vec<usize>>> {
    let both = |pair: &Vec<usize>| -> Vec<usize> {
        let mut members: Vec<usize> = pair.iter().flat_map(|&team| teams[team].clone()).collect();
        members.sort_unstable();
        members
    };
    let mut weights: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
    for a in 0..teams.len() {
        for b in 0..a {
            let members = both(&vec![a, b]);
            let weight = if members.len() > 4 { None } else { efficiency(case, &members, true) };
            weights.insert(vec![b, a], weight.unwrap_or(0.0));
        }
    }
    let all: Vec<usize> = (0..teams.len()).collect();
    let matchings: Vec<Vec<Vec<usize>>> = divisions(&all, 2)
        .into_iter()
        .map(|groups| {
            let pairs = groups.into_iter().filter(|group| group.len() == 2).map(|group| {
                let (first, second) = (group[0].min(group[1]), group[0].max(group[1]));
                vec![first, second]
            });
            pairs.filter(|pair| weights[pair] > 0.0).collect()
        })
        .collect();
    let sum = |pairs: &Vec<Vec<usize>>| pairs.iter().map(|pair| weights[pair]).sum::<f64>();
    let best = matchings.iter().map(sum).fold(0.0, f64::max);
    let mut results = BTreeSet::new();
    for matching in matchings.iter().filter(|matching| sum(matching) >= best - 1e-9) {
        for chosen in subsets(matching, missing.min(matching.len())) {
            let lightest = chosen.iter().map(|pair| weights[pair]).fold(f64::INFINITY, f64::min);
            let is_left = |pair: &&Vec<usize>| !chosen.contains(pair);
            if matching.iter().filter(is_left).any(|pair| weights[pair] > lightest + 1e-9) {
                continue;
            }
            let is_single = |team: &&usize| !chosen.iter().any(|pair| pair.contains(team));
            let mut result: Vec<Vec<usize>> =
                all.iter().filter(is_single).map(|&team| teams[team].clone()).collect();
            result.extend(chosen.iter().map(both));
            result.sort();
            results.insert(result);
        }
    }
    results.into_iter().collect()
}

/// All choices of so many of some pairs.
fn subsets(pairs: &[Vec<usize>], count: usize) -> Vec<Vec<Vec<usize>>> {
    match (pairs.split_first(), count) {
        (_, 0) => vec![Vec::new()],
        (None, _) => Vec::new(),
        (Some((first, rest)), _) => {
            let with =
                subsets(rest, count - 1).into_iter().map(|chosen| [vec![first.clone()], chosen].concat());
            with.chain(subsets(rest, count)).collect()
        }
    }
}

/// Groups of up to four come from rounds of matching: singles, then pairs, as long as devices are missing.
fn check_fours(case: &Case, policy: &str) -> Result<u64, String> {
    let Some(mut groups) = first_groups(case, policy, &["packing_num=4"], 4)? else { return Ok(0) };
    groups.sort();
    let devices = case.pools[0].devices();
    let singles: Vec<Vec<usize>> = chosen(case, policy == "muri-s", 4).iter().map(|&job| vec![job]).collect();
    let mut possible = BTreeSet::from([singles]);
    for _ in 0..4 {
        let next = |teams: &Vec<Vec<usize>>| match teams.len().saturating_sub(devices) {
            0 => vec![teams.clone()],
            missing => joined(case, teams, missing),
        };
        possible = possible.iter().flat_map(next).collect();
    }
    if possible.contains(&groups) {
        return Ok(1);
    }
    Err(format!("{policy}: groups {groups:?}, the rule has one of {possible:?}"))
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
fn muri_groups_on_random_cases_come_from_rounds_of_maximum_weight_matching() {
    for policy in ["muri-s", "muri-l"] {
        let shape = Shape { jobs_max: 8, ..SHAPE };
        hold(policy, |seed| told_case(shape, seed), |case| check_fours(case, policy));
    }
}
