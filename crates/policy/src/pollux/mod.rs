//! Pollux: the number of devices for each job, by a search for the largest power mean of speedups.

mod search;

use crate::elastic::{Candidate, ElasticPlan, Planner, Scene};
use search::{Effort, Table, search};

/// What a job without devices counts as, in speedups.
const IDLE: f64 = 1e-3;

/// The numbers of Pollux's search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolluxOptions {
    /// The power of the mean; below 0.
    pub p: f64,
    /// Allocations that are bred.
    pub population: usize,
    /// Rounds of breeding.
    pub generations: u64,
    /// Maximum number of evaluations of a job's part of an allocation.
    pub evaluations: u64,
    /// Whether it knows that device types differ.
    pub is_aware: bool,
    /// What it draws from.
    pub seed: u64,
}

/// Co-adaptive sharing by goodput (OSDI'21), with speeds for goodput.
#[derive(Clone, Copy, Debug)]
pub struct Pollux {
    options: PolluxOptions,
}

impl Pollux {
    /// A planner with these numbers.
    pub const fn new(options: PolluxOptions) -> Self {
        Self { options }
    }

    /// A job's speed on an offer, as far as this policy knows: where it is blind, the mean over the types.
    fn speed(&self, candidate: &Candidate<'_>, count: u32, own: f64) -> f64 {
        if self.options.is_aware {
            return own;
        }
        mean_speed(candidate, count)
    }

    /// What each offer of each job costs in the sum that is to be small.
    fn table(&self, scene: &Scene<'_>) -> Table {
        let p = self.options.p;
        let jobs = scene.jobs.len().max(1) as u64;
        let fair = scene.capacity.iter().map(|&count| u64::from(count)).sum::<u64>() / jobs;
        let mut table = Table::new(&scene.capacity, IDLE.powf(p));
        for candidate in &scene.jobs {
            let counts = || candidate.offers.iter().map(|offer| offer.count);
            let part = counts().filter(|&count| u64::from(count) <= fair).max().or_else(|| counts().min());
            let fair_speed = mean_speed(candidate, part.unwrap_or(1)).max(f64::MIN_POSITIVE);
            let factor = candidate.restart_factor();
            let costs = candidate.offers.iter().enumerate().map(|(index, offer)| {
                let speedup = self.speed(candidate, offer.count, offer.speed) / fair_speed;
                let factor = if candidate.current == Some(index) { 1.0 } else { factor };
                (offer.kind, offer.count, (speedup * factor + IDLE).powf(p))
            });
            table.add(costs, candidate.current);
        }
        table
    }
}

/// A job's mean speed over the types on so many devices.
fn mean_speed(candidate: &Candidate<'_>, count: u32) -> f64 {
    let alike = candidate.offers.iter().filter(|offer| offer.count == count);
    let (sum, number) = alike.fold((0.0, 0), |(sum, number), offer| (sum + offer.speed, number + 1));
    sum / f64::from(number.max(1))
}

impl Planner for Pollux {
    fn plan(&self, scene: &Scene<'_>) -> ElasticPlan {
        let effort = Effort {
            population: self.options.population,
            generations: self.options.generations,
            evaluations: self.options.evaluations,
            // No memory is needed: the time tells rounds apart, also after a restart of the head.
            seed: self.options.seed ^ scene.now.seconds().to_bits(),
        };
        ElasticPlan { picks: search(&self.table(scene), &effort), is_exact: false }
    }
}

#[cfg(test)]
mod tests {
    use wharf_core::{JobId, Time};
    use wharf_solver::choice::{Configuration, Limits, Problem, choose};

    use super::*;
    use crate::elastic::Offer;

    const OPTIONS: PolluxOptions = PolluxOptions {
        p: -1.0,
        population: 100,
        generations: 100,
        evaluations: 20_000_000,
        is_aware: true,
        seed: 1,
    };

    fn scene<'a>(capacity: &[u32], rows: &'a [Vec<Offer>]) -> Scene<'a> {
        let candidate = |(index, offers): (usize, &'a Vec<Offer>)| Candidate {
            job: JobId::from_index(index),
            offers,
            current: None,
            age_s: 600.0,
            restarts: 0,
            restart_s: 30.0,
            asked: None,
            remaining: None,
            deadline: None,
        };
        let jobs = rows.iter().enumerate().map(candidate).collect();
        Scene { now: Time::from_seconds(60.0), capacity: capacity.to_vec(), jobs }
    }

    /// Jobs with less than linear returns on a few types.
    fn rows(count: usize, kinds: usize) -> Vec<Vec<Offer>> {
        let mut noise = 11_u64;
        let mut next = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (noise >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut row = |_| {
            let exponent = 0.5 + 0.5 * next();
            let speeds: Vec<f64> = (0..kinds).map(|_| 1.0 + 3.0 * next()).collect();
            let offers = speeds.iter().enumerate().flat_map(|(kind, speed)| {
                [1, 2, 4, 8, 16].map(|count| Offer {
                    kind,
                    count,
                    speed: speed * f64::from(count).powf(exponent),
                })
            });
            offers.collect()
        };
        (0..count).map(&mut row).collect()
    }

    #[test]
    fn the_search_comes_near_to_the_best_that_can_be() {
        let (capacity, rows) = ([200, 160, 120, 96, 80, 64], rows(256, 6));
        let scene = scene(&capacity, &rows);
        let pollux = Pollux::new(OPTIONS);
        let table = pollux.table(&scene);
        let picks = Pollux::new(OPTIONS).plan(&scene).picks;
        let cost: f64 = (0..rows.len()).map(|job| table.cost(job, picks[job])).sum();
        // The sum has a term for each job, so that Sia's program gives a bound. Every job gets devices here.
        let most = 50.0;
        let mut starts = vec![0];
        let mut configurations = Vec::new();
        for (job, row) in rows.iter().enumerate() {
            configurations.extend(row.iter().enumerate().map(|(pick, offer)| Configuration {
                kind: offer.kind,
                count: offer.count,
                value: most - table.cost(job, Some(pick)),
            }));
            starts.push(configurations.len());
        }
        let problem =
            Problem { capacity: &capacity, configurations: &configurations, starts: &starts, current: &[] };
        let bound = choose(&problem, &Limits { steps: 50_000_000, proof_steps: 0, resolution: 1e-3 }).bound;
        let least = most * rows.len() as f64 - bound;
        // Fitness is the inverse of the mean cost.
        assert!(least / cost >= 0.98, "{cost} is not near {least}");
    }

    /// The cost of an offer by the definition: the power of the speedup over the mean speed on an equal part of the cluster, times the
    /// restart factor where the offer is not the current one, plus 0.001.
    fn defined_cost(
        scene: &Scene<'_>,
        job: usize,
        pick: Option<usize>,
        power: fn(f64) -> f64,
        is_aware: bool,
    ) -> f64 {
        let own = &scene.jobs[job];
        let mean = |count: u32| {
            let speeds: Vec<f64> =
                own.offers.iter().filter(|offer| offer.count == count).map(|offer| offer.speed).collect();
            speeds.iter().sum::<f64>() / speeds.len() as f64
        };
        let part = scene.capacity.iter().sum::<u32>() / scene.jobs.len() as u32;
        let mut counts: Vec<u32> = own.offers.iter().map(|offer| offer.count).collect();
        counts.sort_unstable();
        let fair = counts.iter().rev().find(|&&count| count <= part).unwrap_or(&counts[0]);
        let Some(pick) = pick else { return power(0.001) };
        let speed = if is_aware { own.offers[pick].speed } else { mean(own.offers[pick].count) };
        let is_moved = own.current.is_some_and(|current| current != pick) && own.age_s >= own.restart_s;
        let useful_s = (own.age_s - f64::from(own.restarts) * own.restart_s).max(0.0);
        let factor = if is_moved { useful_s / (own.age_s + own.restart_s) } else { 1.0 };
        power(speed / mean(*fair) * factor + 0.001)
    }

    #[test]
    fn cost_of_every_offer_is_the_power_of_its_speedup() {
        type Power = (f64, fn(f64) -> f64);
        let powers: [Power; 3] = [(-1.0, |x| 1.0 / x), (-2.0, |x| 1.0 / (x * x)), (-0.5, |x| 1.0 / x.sqrt())];
        let rows = rows(24, 3);
        for capacity in [[8, 4, 2], [40, 16, 70]] {
            let mut scene = scene(&capacity, &rows);
            for (index, job) in scene.jobs.iter_mut().enumerate() {
                job.current = (index % 3 > 0).then_some(index % job.offers.len());
                (job.age_s, job.restarts) = ([10.0, 30.0, 400.0, 5000.0][index % 4], index as u32 % 5);
            }
            for (p, power) in powers {
                for is_aware in [false, true] {
                    let table = Pollux::new(PolluxOptions { p, is_aware, ..OPTIONS }).table(&scene);
                    for (job, row) in rows.iter().enumerate() {
                        for pick in (0..row.len()).map(Some).chain([None]) {
                            let (cost, expected) =
                                (table.cost(job, pick), defined_cost(&scene, job, pick, power, is_aware));
                            let distance = (cost - expected).abs() / expected;
                            assert!(
                                distance <= 1e-9,
                                "p={p}, job {job}, offer {pick:?}: {cost}, not {expected}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn equal_scenes_equal_plans_within_the_cluster() {
        let (capacity, rows) = ([16, 8], rows(40, 2));
        let plan = |seed| Pollux::new(PolluxOptions { seed, ..OPTIONS }).plan(&scene(&capacity, &rows)).picks;
        let picks = plan(3);
        assert_eq!(picks, plan(3));
        let mut left = capacity;
        for (row, pick) in rows.iter().zip(&picks) {
            if let Some(pick) = *pick {
                left[row[pick].kind] -= row[pick].count;
            }
        }
        assert_eq!(left, [0, 0], "nothing is left over if all jobs can use more");
    }

    #[test]
    fn blind_it_takes_types_for_alike() {
        let offers = vec![
            Offer { kind: 0, count: 1, speed: 1.0 },
            Offer { kind: 0, count: 2, speed: 2.0 },
            Offer { kind: 1, count: 1, speed: 9.0 },
            Offer { kind: 1, count: 2, speed: 18.0 },
        ];
        let rows = [offers];
        let aware = Pollux::new(OPTIONS).plan(&scene(&[2, 2], &rows)).picks;
        assert_eq!(aware, [Some(3)]);
        let blind = Pollux::new(PolluxOptions { is_aware: false, ..OPTIONS });
        let table = blind.table(&scene(&[2, 2], &rows));
        assert_eq!(table.cost(0, Some(1)), table.cost(0, Some(3)));
    }
}
