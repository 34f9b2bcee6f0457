//! The loop: a round ends, jobs arrive, shares are computed where that is due, and the next round is given out.

use super::error::GavelError;
use super::keys::{Keys, Members, NO_JOB, PAIRS_MAX, singles};
use super::numbers::Numbers;
use super::place::Placement;
use super::random::Random;
use super::rules::{Rule, Shares, Snapshot};
use super::select::{Offer, Selection};
use super::settings::Settings;
use super::tracker::Tracker;
use super::workload::Workload;

/// Rounds without progress after which nothing will come of it any more.
const IDLE_ROUNDS_MAX: u32 = 1000;

/// The order of types is drawn from the seed plus this.
const SHUFFLER: u64 = 5;

/// What runs in a round.
#[derive(Clone, Copy, Debug)]
struct MicroTask {
    key: u32,
    members: Members,
    /// Place in the placement.
    assignment: usize,
    steps: [f64; 2],
    end: f64,
}

/// The time, the jobs that are left, and those that have arrived.
type Progress = (f64, usize, usize);

/// A run.
pub(super) struct Simulation<'a> {
    workload: &'a Workload<'a>,
    settings: &'a Settings,
    failures_max: u32,
    rule: Box<dyn Rule + 'a>,
    tracker: Tracker<'a>,
    keys: Keys,
    selection: Selection,
    placement: Placement,
    shuffler: Random,
    half_round_s: f64,
    now: f64,
    round_start: f64,
    round_end: Option<f64>,
    last_reset: f64,
    is_stale: bool,
    worker_time: Vec<f64>,
    /// Jobs in the system, by number.
    live: Vec<u32>,
    next_arrival: usize,
    done: Vec<f64>,
    failures: Vec<u32>,
    left: usize,
    running: Vec<MicroTask>,
    chosen: Vec<Vec<u32>>,
    rounds: u64,
    idle_rounds: u32,
    shares: Shares,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(
        workload: &'a Workload<'a>,
        settings: &'a Settings,
        numbers: &Numbers,
        rule: Box<dyn Rule + 'a>,
        tracker: Tracker<'a>,
    ) -> Self {
        let (width, jobs) = (workload.width(), workload.jobs.len());
        Self {
            workload,
            settings,
            failures_max: numbers.failures_max,
            rule,
            tracker,
            keys: Keys::new(width, jobs),
            selection: Selection::new(width, jobs),
            placement: Placement::new(workload.workers.len()),
            shuffler: Random::new(settings.seed.wrapping_add(SHUFFLER)),
            half_round_s: settings.round_s / 2.0,
            now: workload.jobs.first().map_or(0.0, |job| job.submit),
            round_start: 0.0,
            round_end: None,
            last_reset: 0.0,
            is_stale: true,
            worker_time: vec![0.0; width],
            live: Vec::new(),
            next_arrival: 0,
            done: vec![0.0; jobs],
            failures: vec![0; jobs],
            left: jobs,
            running: Vec::new(),
            chosen: vec![Vec::new(); width],
            rounds: 0,
            idle_rounds: 0,
            shares: Shares::default(),
        }
    }

    /// Runs to the end, and hands the tracker back.
    pub(super) fn run(mut self) -> Result<Tracker<'a>, GavelError> {
        while self.left > 0 {
            let before = self.progress();
            self.end_round();
            if self.left == 0 || self.settings.rounds.is_some_and(|rounds| self.rounds >= rounds) {
                break;
            }
            self.admit()?;
            self.update_shares()?;
            self.begin_round();
            self.check_progress(&before)?;
        }
        self.tracker.close(self.now);
        self.tracker.tally.solver_fallbacks = self.rule.fallbacks();
        Ok(self.tracker)
    }

    /// Moves the time to the end of the round, and books what was done in it.
    fn end_round(&mut self) {
        let arrival = self.workload.jobs.get(self.next_arrival).map(|job| job.submit);
        if arrival.is_none() && self.running.is_empty() {
            self.last_reset = 0.0;
        }
        // The published code takes micro-tasks from a heap: the latest first, equals by number.
        self.running.sort_by(|a, b| b.end.total_cmp(&a.end).then(a.members[0].cmp(&b.members[0])));
        match self.running.first().map(|task| task.end).filter(|end| *end > 0.0) {
            Some(end) => {
                // It does not move over a time in which nothing ran.
                self.round_start = self.round_end.unwrap_or(self.round_start);
                self.round_end = Some(end);
                self.now = end;
            }
            None => self.now = arrival.unwrap_or(self.now),
        }
        let running = std::mem::take(&mut self.running);
        for task in &running {
            self.complete(task);
        }
        self.running = running;
        self.running.clear();
    }

    fn complete(&mut self, task: &MicroTask) {
        let gang = self.keys.gang[task.key as usize];
        let exec_s = task.end - self.round_start;
        let members = singles(&task.members);
        // Each device has an equal number of whole steps, the last one the rest: a device without any is a failure.
        let is_failure = |steps: f64| exec_s <= 0.0 || steps <= 0.0 || (gang > 1 && steps < f64::from(gang));
        let device_type = self.placement.current[task.assignment].device_type;
        if members.iter().zip(task.steps).any(|(_, steps)| is_failure(steps)) {
            self.is_stale = true;
            self.tracker.failed(task.end, members);
            if let [job] = *members {
                self.failures[job as usize] += 1;
                if self.failures[job as usize] >= self.failures_max {
                    self.remove(job, None);
                }
            }
            return;
        }
        // A pair's success does not forgive its members' failures.
        if let [job] = *members {
            self.failures[job as usize] = 0;
        }
        self.keys.time[task.key as usize * self.worker_time.len() + device_type] += exec_s;
        self.worker_time[device_type] += exec_s;
        self.tracker.ran(task.end, exec_s, members, device_type, gang);
        for (&job, steps) in members.iter().zip(task.steps) {
            self.done[job as usize] += steps;
            if self.remaining(job) <= 0.0 {
                self.remove(job, Some(task.end));
            }
        }
    }

    fn remaining(&self, job: u32) -> f64 {
        self.workload.jobs[job as usize].steps - self.done[job as usize]
    }

    /// A job leaves: done at that time, or dropped.
    fn remove(&mut self, job: u32, end: Option<f64>) {
        self.left -= 1;
        self.live.retain(|&other| other != job);
        self.keys.remove(job, self.settings.policy.is_packed());
        self.is_stale = true;
        self.tracker.left(self.now, job, end);
    }

    /// Admits all jobs that have arrived.
    fn admit(&mut self) -> Result<(), GavelError> {
        while let Some(job) = self.workload.jobs.get(self.next_arrival).filter(|job| job.submit <= self.now) {
            let index = self.next_arrival as u32;
            self.keys.add(index, self.half_round_s, self.workload);
            if self.settings.policy.is_packed() {
                for &other in &self.live {
                    if self.workload.jobs[other as usize].gang == job.gang {
                        self.keys.add_pair(other, index, self.workload);
                    }
                }
                if self.keys.len() > PAIRS_MAX {
                    return Err(GavelError::TooManyPairs { jobs: self.live.len() + 1, most: PAIRS_MAX });
                }
            }
            self.tracker.submitted(self.now, index);
            self.live.push(index);
            self.next_arrival += 1;
            self.is_stale = true;
            self.selection.forget_others();
        }
        Ok(())
    }

    /// Computes shares where something has changed and the last time is long enough ago.
    fn update_shares(&mut self) -> Result<(), GavelError> {
        let elapsed_s = self.now - self.last_reset;
        if !self.is_stale || (elapsed_s < self.settings.reset_s && self.last_reset != 0.0) {
            return Ok(());
        }
        let seconds = self.keys.reset(elapsed_s, self.half_round_s);
        self.worker_time.fill(seconds);
        self.last_reset = self.now;
        if let Some(moved) = self.keys.compact() {
            self.placement.renumber(&moved);
        }
        let snapshot =
            Snapshot { now: self.now, jobs: &self.live, done: &self.done, workload: self.workload };
        self.shares.clear(self.live.len() * self.workload.width());
        self.rule.allocate(&snapshot, &mut self.shares)?;
        self.apply();
        self.tracker.allocated(self.now, &self.live, &self.shares);
        self.is_stale = false;
        self.selection.renew(&self.keys);
        Ok(())
    }

    /// Takes over what was computed: every job in the system has a share now, of zero at least.
    fn apply(&mut self) {
        let width = self.workload.width();
        self.keys.share.fill(0.0);
        self.keys.is_shared.clone_from(&self.keys.is_alive);
        for (&job, row) in self.live.iter().zip(self.shares.singles.chunks_exact(width)) {
            let place = self.keys.single[job as usize] as usize * width;
            self.keys.share[place..place + width].copy_from_slice(row);
        }
        if self.shares.pairs.is_empty() {
            return;
        }
        for (key, members) in self.keys.members.iter().enumerate().filter(|(_, members)| members[1] != NO_JOB)
        {
            if let Some(row) = self.shares.pairs.get(members).filter(|_| self.keys.is_alive[key]) {
                self.keys.share[key * width..(key + 1) * width].copy_from_slice(row);
            }
        }
    }

    /// Chooses, places and starts the next round.
    fn begin_round(&mut self) {
        let mut order = self.workload.type_order.clone();
        if self.settings.policy.is_shuffled() {
            self.shuffler.shuffle(&mut order);
        }
        let offer = Offer {
            keys: &self.keys,
            capacities: &self.workload.capacities,
            worker_time: &self.worker_time,
            job_count: self.live.len(),
            is_strict: self.settings.policy.is_strict(),
        };
        self.selection.choose(&offer, &order, &mut self.chosen);
        let is_live = |job: &u32| self.keys.single[*job as usize] != NO_JOB;
        let chances = self.placement.current.iter().filter(|held| singles(&held.members).iter().any(is_live));
        self.tracker.tally.lease_chances += chances.count() as u64;
        let stopped = self.placement.assign(self.workload, &self.keys, &order, &mut self.chosen);
        for (assignment, held) in self.placement.current.iter().enumerate() {
            let speeds = self.keys.speeds(held.key, held.device_type);
            let mut task = MicroTask {
                key: held.key,
                members: held.members,
                assignment,
                steps: [0.0; 2],
                end: self.now,
            };
            for (index, &job) in singles(&held.members).iter().enumerate() {
                let steps = (speeds[index] * self.settings.round_s).trunc().min(self.remaining(job));
                task.steps[index] = steps;
                task.end = task.end.max(self.now + steps / speeds[index]);
            }
            self.running.push(task);
        }
        self.rounds += u64::from(!self.running.is_empty());
        let remaining = |job: u32| self.workload.jobs[job as usize].steps - self.done[job as usize];
        self.tracker.round(self.now, &self.placement.current, &stopped, &self.live, &remaining);
    }

    /// Gives up where time stands still and nothing else happens either.
    fn check_progress(&mut self, before: &Progress) -> Result<(), GavelError> {
        self.idle_rounds = if *before == self.progress() { self.idle_rounds + 1 } else { 0 };
        match self.live.first() {
            Some(&job) if self.idle_rounds > IDLE_ROUNDS_MAX => Err(GavelError::Stalled {
                job: self.workload.specs[job as usize].name.to_string(),
                policy: self.settings.policy.name,
            }),
            _ => Ok(()),
        }
    }

    fn progress(&self) -> Progress {
        (self.now, self.left, self.next_arrival)
    }
}
