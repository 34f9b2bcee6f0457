//! Sia: for every job the type and number of devices, by an integer program over all jobs.

use wharf_solver::choice::{Configuration, Limits, Method, Problem, choose};

use crate::elastic::{Candidate, Plan, Planner, Scene};

/// Steps in which the solver may prove a choice best: some milliseconds.
const PROOF_STEPS: u64 = 500_000;
/// Speeds beyond this many times the slowest count as this.
const SPEED_MAX: f64 = 3000.0;

/// The numbers of Sia's program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SiaOptions {
    /// The power that speeds are raised to: below 0 those who have little count most, above 0 those who are fast.
    pub p: f64,
    /// What leaving a job without devices costs.
    pub lambda_n: f64,
    /// Steps of the solver after which a simpler rule has to do.
    pub steps: u64,
}

/// Goodput-optimised sharing of mixed clusters (SOSP'23).
#[derive(Clone, Copy, Debug)]
pub struct Sia {
    options: SiaOptions,
}

impl Sia {
    /// A planner with these numbers.
    pub const fn new(options: SiaOptions) -> Self {
        Self { options }
    }

    /// What each offer of a job is worth above none. Speeds are in units of the job's slowest offer and of the devices of its
    /// smallest, so that large rigid jobs are worth as much for each device as small ones; a change of what it has counts
    /// as much less as it would cost.
    fn values<'a>(&'a self, candidate: &'a Candidate<'_>) -> impl Iterator<Item = Configuration> + 'a {
        let SiaOptions { p, lambda_n, .. } = self.options;
        let slowest = candidate.offers.iter().map(|offer| offer.speed).fold(f64::INFINITY, f64::min);
        let smallest = candidate.offers.iter().map(|offer| offer.count).min().unwrap_or(1);
        let factor = candidate.restart_factor();
        candidate.offers.iter().enumerate().map(move |(index, offer)| {
            let is_current = candidate.current == Some(index);
            let speed = offer.speed / slowest * f64::from(smallest) * if is_current { 1.0 } else { factor };
            let utility = speed.clamp(1e-4, SPEED_MAX).powf(p);
            // In hundredths, as published.
            let utility = (utility * 100.0).round_ties_even() / 100.0;
            let value = if p < 0.0 { lambda_n - utility } else { lambda_n + utility };
            Configuration { kind: offer.kind, count: offer.count, value }
        })
    }
}

impl Planner for Sia {
    fn plan(&self, scene: &Scene<'_>) -> Plan {
        let mut configurations = Vec::new();
        let mut starts = vec![0];
        for candidate in &scene.jobs {
            configurations.extend(self.values(candidate));
            starts.push(configurations.len());
        }
        let current: Vec<Option<usize>> = scene.jobs.iter().map(|candidate| candidate.current).collect();
        let problem = Problem {
            capacity: &scene.capacity,
            configurations: &configurations,
            starts: &starts,
            current: &current,
        };
        let limits = Limits { steps: self.options.steps, proof_steps: PROOF_STEPS, resolution: 0.005 };
        let choice = choose(&problem, &limits);
        Plan { picks: choice.picks, is_exact: choice.method == Method::Exact }
    }
}

#[cfg(test)]
mod tests {
    use wharf_core::{JobId, Time};

    use super::*;
    use crate::elastic::Offer;

    const OPTIONS: SiaOptions = SiaOptions { p: -0.5, lambda_n: 1.1, steps: 10_000_000 };

    fn offer(kind: usize, count: u32, speed: f64) -> Offer {
        Offer { kind, count, speed }
    }

    fn candidate(job: u32, offers: &[Offer]) -> Candidate<'_> {
        Candidate {
            job: JobId(job),
            offers,
            current: None,
            age_s: 600.0,
            restarts: 0,
            restart_s: 30.0,
            asked: None,
            remaining: None,
            deadline: None,
        }
    }

    fn plan(capacity: &[u32], jobs: Vec<Candidate<'_>>) -> Vec<Option<usize>> {
        let scene = Scene { now: Time::ZERO, capacity: capacity.to_vec(), jobs };
        Sia::new(OPTIONS).plan(&scene).picks
    }

    #[test]
    fn devices_go_where_they_speed_up_most() {
        let scales = [offer(0, 1, 1.0), offer(0, 2, 2.0), offer(0, 4, 4.0)];
        let flat = [offer(0, 1, 1.0), offer(0, 2, 1.1), offer(0, 4, 1.2)];
        assert_eq!(plan(&[4], vec![candidate(0, &scales)]), [Some(2)]);
        assert_eq!(plan(&[4], vec![candidate(0, &scales), candidate(1, &scales)]), [Some(1), Some(1)]);
        assert_eq!(plan(&[5], vec![candidate(0, &flat), candidate(1, &scales)]), [Some(0), Some(2)]);
    }

    #[test]
    fn types_go_to_those_who_gain_by_them() {
        let gains = [offer(0, 1, 1.0), offer(1, 1, 4.0)];
        let does_not = [offer(0, 1, 1.0), offer(1, 1, 1.0)];
        assert_eq!(plan(&[1, 1], vec![candidate(0, &does_not), candidate(1, &gains)]), [Some(0), Some(1)]);
    }

    #[test]
    fn a_restart_is_weighed_against_the_gain() {
        let offers = [offer(0, 1, 1.0), offer(0, 2, 1.3), offer(0, 4, 2.5)];
        // By age, restarts so far and what there is: what a job on one device is given.
        for (age_s, restarts, capacity, expected) in [
            (6000.0, 0, 2, 1), // little to lose
            (120.0, 3, 2, 0),  // it has done little but restart
            (120.0, 1, 4, 2),  // the gain is worth it
            (90.0, 3, 4, 0),   // nothing would be left
        ] {
            let job = Candidate { current: Some(0), age_s, restarts, ..candidate(0, &offers) };
            assert_eq!(plan(&[capacity], vec![job]), [Some(expected)], "{age_s} {restarts} {capacity}");
        }
    }

    #[test]
    fn equals_stay_and_the_first_type_is_taken() {
        let offers = [offer(0, 1, 1.0), offer(1, 1, 1.0)];
        assert_eq!(plan(&[2, 2], vec![candidate(0, &offers)]), [Some(0)]);
        let job = Candidate { current: Some(1), ..candidate(0, &offers) };
        assert_eq!(plan(&[2, 2], vec![job]), [Some(1)]);
    }
}
