//! Themis: shares of the cluster by finish-time fairness decide who goes first.
//!
//! At every event the shares are computed again. Jobs with the most share per second that they have already run go
//! first; a job that never ran goes before all others. Since many shares are optimal, the schedule depends on the
//! solver, and this policy alone is close to the published results rather than equal. In particular, jobs of
//! one model that have not run yet differ in their exact shares by less than a general solver's error, so that the
//! published code takes them in no particular order; exact shares would instead take the longest together and last,
//! which doubles completion times where many jobs arrive at once. [`solver_error`] is a pseudo-random tie rule in place of that error.

use wharf_outcome::Outcome;

use super::clock::{Clock, Event, Tie};
use super::cluster::{Filling, Selection, Shape};
use super::fairness::{Claim, FinishTimeFairness};
use super::tracker::Tracker;
use super::workload::Workload;

/// Weight of a share where the job has not run yet.
const NEVER_RAN: f64 = 1e9;

/// Relative error of the published solver's shares: the median over recorded problems with hundreds of jobs.
const SOLVER_ERROR: f64 = 1e-5;

/// Present jobs above which shares outlive events, and how many. One job more or less among so many changes the other
/// shares by less than general solvers differ on problems of that size, while solving costs nearly all of the time.
const MANY: usize = 1000;
const REUSES: u32 = 7;

/// A factor close to one, without order but the same for the same claim at the same time.
fn solver_error(job: u32, claim: &Claim) -> f64 {
    // SplitMix64 over what tells one solution from the next.
    let mut bits =
        claim.elapsed_s.to_bits() ^ claim.remaining.to_bits().rotate_left(21) ^ u64::from(job) << 40;
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    let unit = (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
    1.0 + SOLVER_ERROR * unit
}

/// What Themis remembers of a job.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Time alone on its share of the cluster, for the iterations done so far.
    isolated_done: f64,
    /// Iterations left at the last event.
    remaining_before: f64,
    /// Seconds that its shares entitled it to.
    entitled_s: f64,
    /// Its share as last solved for.
    share: f64,
    chosen: bool,
}

/// What a job is ordered by: larger first.
#[derive(Clone, Copy, Debug)]
struct Rank {
    job: u32,
    urgency: f64,
    deficit_s: f64,
    share: f64,
}

struct Themis<'a> {
    workload: &'a Workload,
    devices: f64,
    accounts: Vec<Account>,
    /// Present jobs in the published list's order.
    present: Vec<u32>,
    /// Devices per job at the last event, by which shares of the cluster are judged.
    fair_devices: f64,
    last_event: f64,
    /// Events since shares were solved for.
    reuses: u32,
    /// Per gang size: the last share that was solved for of a job that had not run yet.
    newcomer_share: Vec<Option<f64>>,
    solver: FinishTimeFairness,
    claims: Vec<Claim>,
    ranks: Vec<Rank>,
    by_size: Vec<Vec<u32>>,
    selection: Selection,
}

pub(super) fn run(workload: &Workload, shape: &Shape, mut tracker: Tracker<'_>) -> Outcome {
    let mut themis = Themis {
        workload,
        devices: f64::from(shape.devices()),
        accounts: vec![Account::default(); workload.jobs.len()],
        present: Vec::new(),
        fair_devices: 0.0,
        last_event: 0.0,
        reuses: 0,
        newcomer_share: vec![None; workload.sizes.len()],
        solver: FinishTimeFairness::new(),
        claims: Vec::new(),
        ranks: Vec::new(),
        by_size: vec![Vec::new(); workload.sizes.len()],
        selection: Selection::default(),
    };
    let mut filling = Filling::new(shape);
    let mut clock = Clock::new(workload, Tie::Exact);
    let mut event = Event::default();
    let mut running: Vec<u32> = Vec::new();
    while clock.advance(f64::INFINITY, &mut event) {
        let time = event.time;
        for &job in &event.ended {
            tracker.finish(time, job);
        }
        if !event.ended.is_empty() {
            themis.present.retain(|job| !event.ended.contains(job));
            running.retain(|job| !event.ended.contains(job));
        }
        for &job in &workload.order[event.arrived.clone()] {
            tracker.submit(time, job);
            themis.accounts[job as usize].remaining_before = workload.jobs[job as usize].iterations;
            themis.present.push(job);
        }
        for &job in &running {
            tracker.catch_up(time, job);
            themis.charge(job, &tracker);
        }
        themis.share(time, &workload.order[event.arrived.clone()], &tracker);
        themis.rank(time, &tracker);
        themis.choose(&mut filling);
        themis.place(&mut filling);
        for &job in &running {
            if !themis.accounts[job as usize].chosen {
                tracker.preempt(time, job);
            }
        }
        for (job, placement) in themis.selection.iter() {
            tracker.run(time, job, placement, &[job]);
        }
        running.clone_from(&themis.selection.jobs);
        tracker.settle(time, running.len(), shape.devices() - filling.free_total);
        clock.plan(running.iter().map(|&job| tracker.end_of(time, job)));
    }
    tracker.into_outcome()
}

impl Themis<'_> {
    /// The part of the cluster that a job would have alone: the published code takes this for a speed.
    fn isolated_share(&self, job: u32) -> f64 {
        (self.fair_devices / f64::from(self.workload.jobs[job as usize].devices)).min(1.0)
    }

    /// Adds what a running job has done since the last event, at the share that held then.
    fn charge(&mut self, job: u32, tracker: &Tracker<'_>) {
        let share = self.isolated_share(job);
        let account = &mut self.accounts[job as usize];
        let remaining = tracker.jobs[job as usize].remaining;
        account.isolated_done += (account.remaining_before - remaining) / share;
        account.remaining_before = remaining;
    }

    /// Computes shares, or keeps those of the event before.
    fn share(&mut self, time: f64, arrived: &[u32], tracker: &Tracker<'_>) {
        if self.present.is_empty() {
            return;
        }
        self.fair_devices = (self.devices / self.present.len() as f64).ceil();
        self.claims.clear();
        for &job in &self.present {
            let facts = &self.workload.jobs[job as usize];
            let remaining = tracker.jobs[job as usize].remaining;
            let isolated = self.accounts[job as usize].isolated_done + remaining / self.isolated_share(job);
            self.claims.push(Claim {
                elapsed_s: time - facts.submit,
                remaining,
                throughput: 1.0 / facts.iteration_s,
                isolated,
                devices: f64::from(facts.devices),
            });
        }
        if self.present.len() > MANY && self.reuses < REUSES && self.welcome(arrived) {
            self.reuses += 1;
            return;
        }
        self.reuses = 0;
        for (&job, &share) in self.present.iter().zip(self.solver.solve(&self.claims, self.devices)) {
            self.accounts[job as usize].share = share;
            if tracker.jobs[job as usize].executed_s == 0.0 {
                self.newcomer_share[self.workload.jobs[job as usize].size] = Some(share);
            }
        }
    }

    /// Gives arrivals the share of jobs like them; false where one has none like it.
    fn welcome(&mut self, arrived: &[u32]) -> bool {
        arrived.iter().all(|&job| {
            let share = self.newcomer_share[self.workload.jobs[job as usize].size];
            self.accounts[job as usize].share = share.unwrap_or(0.0);
            share.is_some()
        })
    }

    /// Orders all present jobs by their shares.
    fn rank(&mut self, time: f64, tracker: &Tracker<'_>) {
        self.ranks.clear();
        for (&job, claim) in self.present.iter().zip(&self.claims) {
            let share = self.accounts[job as usize].share * solver_error(job, claim);
            let executed_s = tracker.jobs[job as usize].executed_s;
            let account = &mut self.accounts[job as usize];
            let urgency = if executed_s == 0.0 { share * NEVER_RAN } else { share / executed_s };
            self.ranks.push(Rank { job, urgency, deficit_s: account.entitled_s - executed_s, share });
            account.entitled_s += share * (time - self.last_event);
        }
        self.last_event = time;
        self.ranks.sort_by(|a, b| {
            let key = |rank: &Rank| [rank.urgency, rank.deficit_s, rank.share];
            let pairs = key(b).into_iter().zip(key(a));
            pairs
                .map(|(b, a)| b.total_cmp(&a))
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
    }

    /// Chooses in that order what fits, and then orders by gang size for good.
    fn choose(&mut self, filling: &mut Filling<'_>) {
        filling.clear();
        self.by_size.iter_mut().for_each(Vec::clear);
        let mut alive = vec![true; self.workload.sizes.len()];
        for rank in &self.ranks {
            let size = self.workload.jobs[rank.job as usize].size;
            alive[size] = alive[size] && filling.place(self.workload.sizes[size], None);
            self.accounts[rank.job as usize].chosen = alive[size];
            self.by_size[size].push(rank.job);
        }
        self.ranks.clear();
        self.present.clear();
        for jobs in &self.by_size {
            self.present.extend_from_slice(jobs);
        }
    }

    /// Places the chosen jobs, large gangs first.
    fn place(&mut self, filling: &mut Filling<'_>) {
        filling.clear();
        self.selection.clear();
        for &job in &self.present {
            let devices = self.workload.jobs[job as usize].devices;
            let account = &mut self.accounts[job as usize];
            account.chosen = account.chosen && self.selection.place(filling, devices, job);
        }
    }
}
