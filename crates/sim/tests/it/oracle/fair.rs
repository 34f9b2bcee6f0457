//! Fair shares: usage is added up again for every decision, second by second of every run.

use super::place::{Strategy, place};
use super::world::{Rule, World};

/// Devices that a user had for some time.
struct Use {
    user: usize,
    job: usize,
    devices: f64,
    from_s: f64,
    /// `None` while it lasts.
    until_s: Option<f64>,
}

pub(super) struct Fair {
    /// Seconds after which usage counts half; 0: it never fades.
    pub(super) half_life_s: f64,
    pub(super) ahead_s: f64,
    /// By user.
    pub(super) weights: [f64; 3],
    pub(super) strategy: Strategy,
    uses: Vec<Use>,
}

impl Fair {
    pub(super) fn new(half_life_s: f64, ahead_s: f64, weights: [f64; 3], strategy: Strategy) -> Self {
        Self { half_life_s, ahead_s, weights, strategy, uses: Vec::new() }
    }

    /// Device-seconds for the weight, faded, with those of running jobs in advance.
    fn level(&self, user: usize, now: f64) -> f64 {
        let counted = |one: &Use| {
            let (from, until) = (now - one.from_s, now - one.until_s.unwrap_or(now));
            let faded = |age_s: f64| (-age_s / self.half_life_s).exp2();
            let seconds = if self.half_life_s > 0.0 {
                self.half_life_s / std::f64::consts::LN_2 * (faded(until) - faded(from))
            } else {
                from - until
            };
            one.devices * (seconds + if one.until_s.is_none() { self.ahead_s } else { 0.0 })
        };
        let used = self.uses.iter().filter(|one| one.user == user).fold(0.0, |sum, one| sum + counted(one));
        used / self.weights[user]
    }
}

impl Rule for Fair {
    fn decide(&mut self, world: &mut World<'_>) {
        let now = world.now;
        let running = world.running();
        for one in self.uses.iter_mut().filter(|one| one.until_s.is_none()) {
            let is_same = running.contains(&one.job) && world.since_s(one.job) == one.from_s;
            one.until_s = (!is_same).then_some(now);
        }
        // Users in the order in which they came; gangs that did not fit.
        let mut users: Vec<usize> = Vec::new();
        for job in world.jobs {
            if !users.contains(&job.user) {
                users.push(job.user);
            }
        }
        let mut full: Vec<(usize, Vec<&str>)> = Vec::new();
        loop {
            let gang = |job: usize| (world.jobs[job].devices, world.jobs[job].types.clone());
            let mut open: Vec<usize> =
                world.waiting().into_iter().filter(|&job| !full.contains(&gang(job))).collect();
            let turn = |job: usize| {
                let user = world.jobs[job].user;
                (self.level(user, now), users.iter().position(|other| *other == user))
            };
            open.sort_by(|&a, &b| {
                let ((one, first), (other, second)) = (turn(a), turn(b));
                let order = |job: usize| (std::cmp::Reverse(world.jobs[job].priority), job);
                one.total_cmp(&other).then(first.cmp(&second)).then(order(a).cmp(&order(b)))
            });
            let Some(&job) = open.first() else { return };
            let (user, devices) = (world.jobs[job].user, world.jobs[job].devices as f64);
            match place(self.strategy, world.nodes, &world.free(), &world.jobs[job]) {
                Some(placement) => {
                    world.start(job, placement);
                    self.uses.push(Use { user, job, devices, from_s: now, until_s: None });
                }
                None => full.push(gang(job)),
            }
        }
    }
}
