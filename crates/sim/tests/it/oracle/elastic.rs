//! Policies that choose the type and the number of devices of each job: the objective of every round against that of all choices.

use super::mixed::{self, Case, Holding, Moment, Present, RESTART_S, Shape, follow, hold};

/// Types have one node each, so that whatever fits by count can be placed.
pub(super) const SHAPE: Shape =
    Shape { jobs_max: 5, devices_max: 4, is_elastic: true, size_max: 6, nodes_max: 1, gap_s: 400.0 };

/// Devices of a type, and the speed there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Offer {
    pub(super) kind: usize,
    pub(super) count: usize,
    pub(super) speed: f64,
}

/// A job that the round may give something else.
pub(super) struct Candidate {
    job: usize,
    pub(super) offers: Vec<Offer>,
    pub(super) current: Option<usize>,
    elapsed_s: f64,
    pub(super) remaining: f64,
    restarts: f64,
    /// What the product gave it.
    pick: Option<usize>,
}

/// A round.
pub(super) struct Scene {
    now_s: f64,
    capacity: Vec<usize>,
    pub(super) jobs: Vec<Candidate>,
    /// Those that it leaves alone.
    pub(super) young: Vec<Candidate>,
}

/// Powers of two within a node, the whole node, what the job asks for and the least that it takes.
fn offers(case: &Case, job: usize) -> Vec<Offer> {
    let asked = &case.jobs[job];
    let mut offers = Vec::new();
    for (kind, pool) in case.pools.iter().enumerate() {
        for count in 1..=pool.size {
            let is_usual =
                count.is_power_of_two() || [pool.size, asked.devices, asked.devices_min].contains(&count);
            let is_taken = (asked.devices_min..=asked.devices_max).contains(&count);
            let speed = case.speed(job, kind, count);
            if is_usual && is_taken && speed > 0.0 {
                offers.push(Offer { kind, count, speed });
            }
        }
    }
    offers
}

impl Scene {
    /// Jobs that have not had their devices for as long as a restart are left alone.
    fn new(case: &Case, moment: &Moment) -> Self {
        let mut capacity: Vec<usize> = case.pools.iter().map(|pool| pool.devices()).collect();
        let (mut jobs, mut young) = (Vec::new(), Vec::new());
        for present in &moment.jobs {
            let is_young = |held: &&Holding| moment.time_s < held.since_s + RESTART_S;
            match present.before.as_ref().filter(is_young) {
                Some(held) => {
                    capacity[held.kind] -= held.devices.len();
                    young.push(Candidate::new(case, present));
                }
                None => jobs.push(Candidate::new(case, present)),
            }
        }
        Self { now_s: moment.time_s, capacity, jobs, young }
    }

    /// The least sum of costs within the capacity, over every choice of an offer or none for each job.
    pub(super) fn least(&self, cost: &dyn Fn(usize, Option<usize>) -> f64) -> f64 {
        self.least_from(0, &mut self.capacity.clone(), cost)
    }

    fn least_from(&self, job: usize, free: &mut [usize], cost: &dyn Fn(usize, Option<usize>) -> f64) -> f64 {
        let Some(candidate) = self.jobs.get(job) else { return 0.0 };
        let mut least = cost(job, None) + self.least_from(job + 1, free, cost);
        for (pick, offer) in candidate.offers.iter().enumerate() {
            if offer.count <= free[offer.kind] {
                free[offer.kind] -= offer.count;
                least = least.min(cost(job, Some(pick)) + self.least_from(job + 1, free, cost));
                free[offer.kind] += offer.count;
            }
        }
        least
    }

    pub(super) fn own(&self, cost: &dyn Fn(usize, Option<usize>) -> f64) -> f64 {
        self.jobs.iter().enumerate().map(|(job, candidate)| cost(job, candidate.pick)).sum()
    }

    fn shown(&self) -> String {
        let job = |candidate: &Candidate| {
            let of = |pick: Option<usize>| pick.map(|pick| candidate.offers[pick]);
            let Candidate { job, elapsed_s, restarts, .. } = candidate;
            format!(
                "  job {job}: {elapsed_s} s old, {restarts} restarts, had {:?}, has {:?}",
                of(candidate.current),
                of(candidate.pick)
            )
        };
        let jobs: Vec<String> = self.jobs.iter().map(job).collect();
        format!("at {} s, devices {:?}\n{}", self.now_s, self.capacity, jobs.join("\n"))
    }
}

impl Candidate {
    fn new(case: &Case, present: &Present) -> Self {
        let offers = offers(case, present.job);
        let position = |held: &Option<Holding>| {
            let held = held.as_ref()?;
            offers.iter().position(|offer| (offer.kind, offer.count) == (held.kind, held.devices.len()))
        };
        Self {
            job: present.job,
            current: position(&present.before),
            pick: position(&present.after),
            elapsed_s: present.elapsed_s,
            remaining: present.remaining,
            restarts: f64::from(present.starts.saturating_sub(1)),
            offers,
        }
    }

    /// (age - restarts × restart) / (age + restart), for a job that has devices and is older than a restart.
    fn restart_factor(&self) -> f64 {
        if self.current.is_none() || self.elapsed_s < RESTART_S {
            return 1.0;
        }
        (self.elapsed_s - self.restarts * RESTART_S).max(0.0) / (self.elapsed_s + RESTART_S)
    }

    fn factor(&self, pick: usize) -> f64 {
        if self.current == Some(pick) { 1.0 } else { self.restart_factor() }
    }

    /// Mean speed over the types on so many devices.
    fn mean_speed(&self, count: usize) -> f64 {
        let speeds: Vec<f64> =
            self.offers.iter().filter(|offer| offer.count == count).map(|offer| offer.speed).collect();
        speeds.iter().sum::<f64>() / speeds.len() as f64
    }
}

/// What Sia's program makes as small as possible for one job: (speed in units of the slowest offer)^p in hundredths, or lambda.
fn sia_cost(candidate: &Candidate, pick: Option<usize>, p: f64, lambda: f64) -> f64 {
    let Some(pick) = pick else { return lambda };
    let slowest = candidate.offers.iter().map(|offer| offer.speed).fold(f64::INFINITY, f64::min);
    let smallest = candidate.offers.iter().map(|offer| offer.count).min().unwrap_or(1);
    let speed = candidate.offers[pick].speed / slowest * smallest as f64 * candidate.factor(pick);
    let hundredths = (speed.clamp(1e-4, 3000.0).powf(p) * 100.0).round_ties_even() / 100.0;
    if p < 0.0 { hundredths } else { -hundredths }
}

/// What Pollux' power mean adds up for one job: (speedup over an equal part of the cluster)^p, 0.001 without devices.
fn pollux_cost(scene: &Scene, candidate: &Candidate, pick: Option<usize>, is_aware: bool) -> f64 {
    const IDLE: f64 = 1e-3;
    let Some(pick) = pick else { return 1.0 / IDLE };
    let part = scene.capacity.iter().sum::<usize>() / scene.jobs.len();
    let counts = || candidate.offers.iter().map(|offer| offer.count);
    let fair = counts().filter(|&count| count <= part).max().or(counts().min()).expect("an offer");
    let offer = candidate.offers[pick];
    let speed = if is_aware { offer.speed } else { candidate.mean_speed(offer.count) };
    1.0 / (speed / candidate.mean_speed(fair) * candidate.factor(pick) + IDLE)
}

/// Checks the decisions of a run that are meant.
pub(super) fn check(
    case: &Case,
    (policy, settings): (&str, &[&str]),
    is_meant: impl Fn(&Moment) -> bool,
    round: impl Fn(&Scene) -> Result<(), String>,
) -> Result<u64, String> {
    let tracker = follow(case, policy, settings);
    if let Some(error) = tracker.errors.first() {
        return Err(error.clone());
    }
    let mut count = 0;
    for moment in tracker.moments.iter().filter(|moment| is_meant(moment)) {
        let scene = Scene::new(case, moment);
        if !scene.jobs.is_empty() {
            round(&scene).map_err(|text| format!("{text}\n{}", scene.shown()))?;
            // One job alone gets whatever is best for it.
            count += u64::from(scene.jobs.len() > 1);
        }
    }
    Ok(count)
}

pub(super) fn is_round(moment: &Moment) -> bool {
    moment.is_round
}

/// Settings of Sia, its power and what a job without devices costs.
type SiaNumbers = (&'static [&'static str], f64, f64);

/// Compares the rounds of Sia with all choices. What the program leaves free then goes to jobs that wait, as little as each can run on,
/// even where a restart makes that worth less than nothing to the program.
fn check_sia(case: &Case, (settings, p, lambda): SiaNumbers) -> Result<u64, String> {
    check(case, ("sia", settings), is_round, |scene| {
        let offer_cost = |job: usize, pick| sia_cost(&scene.jobs[job], pick, p, lambda);
        // No optimal choice has an offer that costs more than none.
        let cost = |job: usize, pick| offer_cost(job, pick).min(lambda);
        let (own, least) = (scene.own(&cost), scene.least(&cost));
        if own > least + 1e-9 {
            return Err(format!("product costs {own}, oracle {least}"));
        }
        let mut free = scene.capacity.clone();
        for (job, candidate) in scene.jobs.iter().enumerate() {
            let Some(pick) = candidate.pick else { continue };
            let Offer { kind, count, .. } = candidate.offers[pick];
            free[kind] -= count;
            let is_smallest = candidate.offers.iter().all(|offer| offer.kind != kind || offer.count >= count);
            if offer_cost(job, Some(pick)) > lambda && !is_smallest {
                return Err(format!("job {} has more than the least that it can run on", candidate.job));
            }
        }
        let fits = |candidate: &&Candidate| {
            candidate.pick.is_none() && candidate.offers.iter().any(|offer| offer.count <= free[offer.kind])
        };
        match scene.jobs.iter().find(fits) {
            Some(candidate) => Err(format!("job {} waits beside free devices", candidate.job)),
            None => Ok(()),
        }
    })
}

#[test]
fn sia_on_random_cases_has_the_least_cost_of_all_choices() {
    for numbers in [(&[][..], -0.5, 1.1), (&["p=-1", "lambda_n=2"], -1.0, 2.0), (&["p=0.5"], 0.5, 1.1)] {
        hold("sia", |seed| mixed::case(SHAPE, seed), |case| check_sia(case, numbers));
    }
}

#[test]
fn sia_jobs_for_which_a_restart_is_not_worthwhile_run_on_devices_that_are_left() {
    // The third job leaves its device to the second one; the only other device that it can have costs more than none.
    check_sia(&mixed::case(SHAPE, 172), (&[], -0.5, 1.1)).unwrap();
}

#[test]
fn pollux_on_random_cases_is_within_a_tenth_of_the_best_power_mean() {
    for (setting, is_aware) in [("types=blind", false), ("types=aware", true)] {
        hold(
            "pollux",
            |seed| mixed::case(SHAPE, seed),
            |case| {
                check(case, ("pollux", &[setting]), is_round, |scene| {
                    let cost = |job: usize, pick| pollux_cost(scene, &scene.jobs[job], pick, is_aware);
                    // With p = -1 the mean is the inverse of the costs' sum.
                    let (own, least) = (scene.own(&cost), scene.least(&cost));
                    if own <= 1.10 * least {
                        Ok(())
                    } else {
                        Err(format!("product costs {own}, oracle {least}"))
                    }
                })
            },
        );
    }
}

/// ElasticFlow's rule: those that run, then those with deadlines by these, then all others are admitted in order with the least that
/// meets their deadline on the type that they have, ask for, or that has most room; then every further step goes to the job that
/// gains most for each device.
fn elasticflow(case: &Case, scene: &Scene, has_deadlines: bool) -> Vec<Option<usize>> {
    let deadline_s = |job: usize| case.jobs[scene.jobs[job].job].deadline_s.filter(|_| has_deadlines);
    let least = |job: usize, kind: usize| -> Option<usize> {
        let candidate = &scene.jobs[job];
        let of_kind: Vec<usize> =
            (0..candidate.offers.len()).filter(|&pick| candidate.offers[pick].kind == kind).collect();
        let Some(deadline_s) = deadline_s(job) else { return of_kind.first().copied() };
        let is_in_time = |&&pick: &&usize| {
            let start_s = if candidate.current == Some(pick) { 0.0 } else { RESTART_S };
            scene.now_s + start_s + candidate.remaining / candidate.offers[pick].speed <= deadline_s
        };
        let late = of_kind.first().filter(|_| candidate.current.is_some());
        of_kind.iter().find(is_in_time).or(late).copied()
    };
    let mut order: Vec<usize> = (0..scene.jobs.len()).collect();
    order.sort_by(|&a, &b| {
        let key = |job: usize| (scene.jobs[job].current.is_none(), deadline_s(job).unwrap_or(f64::INFINITY));
        key(a).0.cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1)).then(a.cmp(&b))
    });
    let mut free = scene.capacity.clone();
    let mut picks = vec![None; scene.jobs.len()];
    for job in order {
        let candidate = &scene.jobs[job];
        let asked = case.jobs[candidate.job].types.first().copied();
        let bound = candidate.current.map(|pick| candidate.offers[pick].kind).or(asked);
        let kinds: Vec<usize> = bound.map_or((0..free.len()).collect(), |kind| vec![kind]);
        let fits =
            |&kind: &usize| least(job, kind).filter(|&pick| candidate.offers[pick].count <= free[kind]);
        let found = kinds.iter().filter_map(|kind| Some((free[*kind], *kind, fits(kind)?))).max();
        if let Some((_, kind, pick)) = found {
            free[kind] -= candidate.offers[pick].count;
            picks[job] = Some(pick);
        }
    }
    loop {
        let mut best: Option<(f64, usize)> = None;
        for (job, candidate) in scene.jobs.iter().enumerate() {
            let Some(pick) = picks[job] else { continue };
            let own = candidate.offers[pick];
            let Some(larger) = candidate.offers.get(pick + 1).filter(|offer| offer.kind == own.kind) else {
                continue;
            };
            let unit = candidate.offers.iter().find(|offer| offer.kind == own.kind).expect("itself").speed;
            let is_growth = candidate.current.is_none_or(|current| current <= pick);
            let speed = larger.speed * if is_growth { candidate.restart_factor() } else { 1.0 };
            let more = larger.count - own.count;
            let gain = (speed - own.speed) / unit / more as f64;
            if gain > 0.0 && more <= free[own.kind] && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, job));
            }
        }
        let Some((_, job)) = best else { return picks };
        let pick = picks[job].expect("a pick");
        let offers = &scene.jobs[job].offers;
        free[offers[pick].kind] -= offers[pick + 1].count - offers[pick].count;
        picks[job] = Some(pick + 1);
    }
}

#[test]
fn elasticflow_on_random_cases_follows_its_rule() {
    // What does not fit a type is kept from it, which counts as asking for the others.
    let everywhere = |seed| {
        let mut case = mixed::case(SHAPE, seed);
        let speeds = case.models.iter_mut().flat_map(|model| &mut model.speeds);
        speeds.filter(|speed| **speed == 0.0).for_each(|speed| *speed = 0.7);
        case
    };
    for (policy, has_deadlines) in [("elasticflow-l", false), ("elasticflow", true)] {
        hold(policy, everywhere, |case| {
            check(case, (policy, &[]), is_round, |scene| {
                let expected = elasticflow(case, scene, has_deadlines);
                let picks: Vec<Option<usize>> = scene.jobs.iter().map(|candidate| candidate.pick).collect();
                if picks == expected {
                    Ok(())
                } else {
                    Err(format!("product {picks:?}, oracle {expected:?}"))
                }
            })
        });
    }
}
