//! AntMan and the pairing policies (first-fit and best sharing): what must hold after every decision.

use std::collections::BTreeMap;

use super::mixed::{Case, Moment, Present, Shape, follow, hold, told_case};

const SHAPE: Shape =
    Shape { jobs_max: 9, devices_max: 4, is_elastic: false, size_max: 3, nodes_max: 2, gap_s: 300.0 };

type Device = (usize, usize);

/// The jobs on each device after a decision.
fn occupants(case: &Case, moment: &Moment) -> BTreeMap<Device, Vec<usize>> {
    let pool = case.pools[0];
    let devices = (0..pool.nodes).flat_map(|node| (0..pool.size).map(move |device| (node, device)));
    let on = |device: &Device| -> Vec<usize> {
        let has =
            |present: &&Present| present.after.as_ref().is_some_and(|held| held.devices.contains(device));
        moment.jobs.iter().filter(has).map(|present| present.job).collect()
    };
    devices.map(|device| (device, on(&device))).collect()
}

fn waiting(moment: &Moment) -> impl Iterator<Item = &Present> {
    moment.jobs.iter().filter(|present| present.after.is_none())
}

/// Jobs that waited and were given devices.
fn started(moment: &Moment) -> impl Iterator<Item = &Present> {
    moment.jobs.iter().filter(|present| present.before.is_none() && present.after.is_some())
}

/// Checks every moment of a run.
fn check(
    case: &Case,
    policy: &str,
    settings: &[&str],
    may_stop: bool,
    one: impl Fn(&Moment) -> Result<(), String>,
) -> Result<u64, String> {
    let tracker = follow(case, policy, settings);
    if tracker.unfinished > 0 {
        return Err("a job never ended".into());
    }
    if let Some(error) = tracker.errors.first().filter(|_| policy != "antman") {
        return Err(error.clone());
    }
    if !may_stop && tracker.preemptions > 0 {
        return Err("a job was stopped".into());
    }
    for moment in &tracker.moments {
        let told = |text: String| {
            let of = |present: &Present| {
                format!(
                    "  job {}: {} left, had {:?}, has {:?}",
                    present.job, present.remaining, present.before, present.after
                )
            };
            let jobs: Vec<String> = moment.jobs.iter().map(of).collect();
            format!("at {} s: {text}\n{}", moment.time_s, jobs.join("\n"))
        };
        one(moment).map_err(told)?;
    }
    // Without waiting jobs there was nothing to decide.
    Ok(tracker.moments.iter().filter(|moment| waiting(moment).next().is_some()).count() as u64)
}

/// A device has at most one job of each kind. The first guaranteed job that waits fits nowhere beside other guaranteed ones, and no
/// opportunistic one fits beside other opportunistic ones. Jobs of one kind and size start in order.
fn check_antman(case: &Case, moment: &Moment) -> Result<(), String> {
    let is_guaranteed = |job: usize| case.jobs[job].priority >= 0;
    let on = occupants(case, moment);
    for jobs in on.values() {
        let guaranteed = jobs.iter().filter(|&&job| is_guaranteed(job)).count();
        if guaranteed > 1 || jobs.len() - guaranteed > 1 {
            return Err(format!("jobs {jobs:?} on one device"));
        }
    }
    // Devices of each node without a job of this kind.
    let open = |wants: bool| -> Vec<usize> {
        let is_open = |jobs: &Vec<usize>| jobs.iter().all(|&job| is_guaranteed(job) != wants);
        (0..case.pools[0].nodes)
            .map(|node| on.iter().filter(|((of, _), jobs)| *of == node && is_open(jobs)).count())
            .collect()
    };
    let size = case.pools[0].size;
    if let Some(first) = waiting(moment).find(|present| is_guaranteed(present.job)) {
        let devices = case.jobs[first.job].devices;
        let whole = open(true).iter().filter(|&&count| count == size).count() * size;
        let fits =
            if devices <= size { open(true).iter().any(|&count| count >= devices) } else { whole >= devices };
        if fits {
            return Err(format!("guaranteed job {} waits although it fits", first.job));
        }
    }
    for present in waiting(moment).filter(|present| !is_guaranteed(present.job)) {
        if open(false).iter().sum::<usize>() >= case.jobs[present.job].devices {
            return Err(format!("opportunistic job {} waits although it fits", present.job));
        }
    }
    for late in started(moment) {
        let is_alike = |present: &&Present| {
            let (own, other) = (&case.jobs[late.job], &case.jobs[present.job]);
            own.devices == other.devices && is_guaranteed(late.job) == is_guaranteed(present.job)
        };
        if let Some(early) = waiting(moment).filter(is_alike).find(|early| early.job < late.job) {
            return Err(format!("job {} starts before job {}", late.job, early.job));
        }
    }
    Ok(())
}

#[test]
fn antman_on_random_cases_keeps_guaranteed_jobs_apart_and_leaves_no_gap() {
    hold(
        "antman",
        |seed| told_case(SHAPE, seed),
        |case| check(case, "antman", &[], false, |moment| check_antman(case, moment)),
    );
}

/// Seconds of work that a job has left by itself.
fn left_s(case: &Case, present: &Present) -> f64 {
    present.remaining * case.solo_s(present.job)
}

/// Whether two jobs end sooner, on average, if `a` joins `b` than if it waits for the end of `b`: both are slowed until the first is
/// done, then the other continues alone.
fn pays(case: &Case, a: &Present, b: &Present) -> bool {
    let slowed = |own: &Present, other: &Present| left_s(case, own) * case.slowdown(own.job, &[other.job]);
    let (first, second) = if slowed(a, b) < slowed(b, a) { (a, b) } else { (b, a) };
    let first_ends_s = slowed(first, second);
    let rest = 1.0 - first_ends_s / slowed(second, first);
    let second_ends_s = first_ends_s + rest * left_s(case, second);
    (first_ends_s + second_ends_s) / 2.0 < left_s(case, b) + left_s(case, a) / 2.0
}

/// At most two jobs on a device; with best sharing only those that gain by it; the shortest of equal gangs first; no job waits that
/// could share; who was stopped needed longer than a job that started.
fn check_pairing(case: &Case, moment: &Moment, is_best: bool, ratio: f64) -> Result<(), String> {
    let on = occupants(case, moment);
    let present = |job: usize| moment.jobs.iter().find(|present| present.job == job).expect("present");
    let is_new = |job: usize| started(moment).any(|present| present.job == job);
    for jobs in on.values() {
        match jobs[..] {
            [] | [_] => {}
            [a, b] => {
                let (a, b) = (present(a), present(b));
                let joins = |a: &Present, b: &Present| is_new(a.job) && pays(case, a, b);
                if is_best && (is_new(a.job) || is_new(b.job)) && !joins(a, b) && !joins(b, a) {
                    return Err(format!("jobs {} and {} share a device to their loss", a.job, b.job));
                }
            }
            _ => return Err(format!("jobs {jobs:?} on one device")),
        }
    }
    for late in waiting(moment) {
        let is_usable = |jobs: &&Vec<usize>| match jobs[..] {
            [] => true,
            [other] => !is_best || pays(case, late, present(other)),
            _ => false,
        };
        let usable = on.values().filter(is_usable).count();
        if usable >= case.jobs[late.job].devices {
            return Err(format!("job {} waits although {usable} devices would do", late.job));
        }
        // One that was stopped in this decision was longer when others were chosen.
        let is_longer = |other: &&Present| {
            let (one, two) = (&case.jobs[other.job], &case.jobs[late.job]);
            // With best sharing a job is passed by one that finds a partner.
            let is_alike = one.devices == two.devices && (!is_best || one.stages_ms == two.stages_ms);
            is_alike && late.before.is_none() && left_s(case, other) > left_s(case, late) * (1.0 + 1e-9)
        };
        if let Some(longer) = started(moment).find(is_longer) {
            return Err(format!("job {} starts before job {}, which is shorter", longer.job, late.job));
        }
    }
    for stopped in
        moment.jobs.iter().filter(|present| present.before.is_some() && present.before != present.after)
    {
        let is_shorter = |other: &Present| left_s(case, other) * ratio < left_s(case, stopped) * (1.0 + 1e-9);
        if stopped.remaining <= 100.0 || !started(moment).any(is_shorter) {
            return Err(format!("job {} was stopped", stopped.job));
        }
    }
    Ok(())
}

/// Checks a case under a pairing policy.
fn check_policy(case: &Case, policy: &str, setting: &str, may_stop: bool) -> Result<u64, String> {
    let is_best = policy.starts_with("sjf-bsbf");
    check(case, policy, &[setting], may_stop, |moment| check_pairing(case, moment, is_best, 2.0))
}

#[test]
fn pairing_on_random_cases_shares_devices_by_its_rule() {
    for policy in ["sjf-ffs", "sjf-ffss", "sjf-bsbf", "sjf-bsbfs"] {
        for (setting, may_stop) in [("preempt=off", false), ("preempt_ratio=2", true)] {
            let check = |case: &Case| check_policy(case, policy, setting, may_stop);
            hold(policy, |seed| told_case(SHAPE, seed), check);
        }
    }
}

#[test]
fn pairing_jobs_without_a_place_are_tried_again_where_others_were_stopped() {
    // Two jobs of two and of four devices leave their nodes to one of two devices: a shorter job of three can share them then.
    check_policy(&told_case(SHAPE, 934), "sjf-ffs", "preempt_ratio=2", true).unwrap();
}
