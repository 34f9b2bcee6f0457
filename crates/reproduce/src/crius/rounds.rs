//! The rounds: credit, decide, charge.

use wharf_outcome::{Outcome, Tally, Throughput};

use super::RoundState;
use super::decisions::numbers::{rounded, whole_times};
use super::decisions::{Question, Rules, Table, Tuning, World};
use super::profiling::Profilers;
use super::settings::{Numbers, Settings};
use super::tracker::Tracker;
use super::workload::Workload;

/// A run.
pub(super) struct Rounds<'a> {
    world: World,
    rules: Box<dyn Rules>,
    workload: &'a Workload,
    settings: &'a Settings,
    numbers: &'a Numbers,
    tracker: Tracker<'a>,
    tuning: Tuning,
    /// Where new jobs are profiled first.
    profilers: Option<Profilers>,
    /// Seconds that each job was profiled, or waited for it.
    profiled_s: Vec<f64>,
    /// Whether jobs came in this round.
    is_visited: bool,
    /// The jobs' places in the trace.
    jobs: Vec<u32>,
    /// Seconds that each job waited.
    queue_s: Vec<f64>,
    /// The next job to come.
    next: usize,
    /// The table before the decisions of a round.
    before: Table,
    /// Jobs that got devices in this round, and whether a job is one of them.
    moved: Vec<u32>,
    is_moved: Vec<bool>,
    /// Whether throughput may be another than in the last round.
    is_stale: bool,
    /// Of the last round.
    throughput: f64,
    throughput_sum: f64,
    throughput_peak: f64,
    tally: Tally,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(
        world: World,
        workload: &'a Workload,
        settings: &'a Settings,
        numbers: &'a Numbers,
        tracker: Tracker<'a>,
    ) -> Self {
        Self {
            rules: (settings.policy.build)(&world.options),
            before: world.table.clone(),
            world,
            workload,
            settings,
            numbers,
            tracker,
            tuning: settings.tuning(numbers),
            profilers: settings
                .profiling(numbers)
                .map(|profiling| Profilers::new(profiling, numbers.round_s)),
            profiled_s: Vec::new(),
            is_visited: false,
            jobs: Vec::new(),
            queue_s: Vec::new(),
            next: 0,
            moved: Vec::new(),
            is_moved: Vec::new(),
            is_stale: true,
            throughput: 0.0,
            throughput_sum: 0.0,
            throughput_peak: 0.0,
            tally: Tally::default(),
        }
    }

    /// Continues until the rounds are over.
    pub(super) fn run(mut self, watch: &mut dyn FnMut(&RoundState<'_>)) -> Outcome {
        let rounds = self.settings.rounds.unwrap_or_else(|| self.workload.default_rounds());
        for index in 0..rounds {
            self.world.timer = self.workload.start_s + self.numbers.round_s * index as f64;
            self.take_in(index);
            self.credit();
            self.decide(index);
            self.charge();
            let Self { throughput, world, jobs, .. } = &self;
            watch(&RoundState { index, throughput: *throughput, world, jobs });
            self.tally.rounds += 1;
            if self.tracker.is_satisfied() {
                break;
            }
        }
        self.into_outcome()
    }

    /// Jobs that come in this round are submitted when it begins.
    fn take_in(&mut self, index: u64) {
        self.is_visited = false;
        while let Some(arrival) = self.workload.arrivals.get(self.next).filter(|next| next.round == index) {
            self.next += 1;
            self.is_visited = true;
            let job = self.world.jobs.len() as u32;
            self.world.jobs.push(arrival.submit(self.world.timer, self.settings, self.numbers));
            match self.profilers {
                Some(_) => Profilers::take_in(&mut self.world, job),
                None => self.world.submitted.push(job),
            }
            self.profiled_s.push(0.0);
            self.jobs.push(arrival.spec);
            self.queue_s.push(0.0);
            self.is_moved.push(false);
            self.tracker.submitted(self.world.timer, arrival.spec);
        }
    }

    /// Progress is what the whole past would have made at the present speed.
    fn credit(&mut self) {
        let now = self.world.timer;
        let world = &mut self.world;
        let is_kept = world.options.fixes.progress;
        let mut running = std::mem::take(&mut world.running);
        running.retain(|&job| {
            let Some(progress_s) = useful_s(world, job, self.numbers.round_s) else { return true };
            let quota = world.job(job).quota;
            let iteration_s = world.iteration_s(Question::BILLED, job, quota.kind, quota.shape);
            let state = world.job_mut(job);
            state.executed_s += progress_s;
            state.remaining = if is_kept {
                state.remaining - progress_s / iteration_s
            } else {
                state.iterations - whole_times(state.executed_s, iteration_s)
            };
            if state.remaining == state.iterations {
                state.deadline_s = 0.0;
            }
            if state.remaining > 0.0 {
                return true;
            }
            self.tally.deadlines_met += u64::from(now <= state.deadline_s);
            world.ended.push(job);
            self.queue_s[job as usize] += self.profiled_s[job as usize];
            self.tracker.finished(now, self.jobs[job as usize]);
            false
        });
        world.running = running;
        if let Some(profilers) = &mut self.profilers {
            profilers.advance(world);
        }
    }

    fn decide(&mut self, index: u64) {
        let Self { world, rules, before, .. } = self;
        let now = world.timer;
        let is_visited = self.is_visited || !world.submitted.is_empty();
        let is_retried = world.options.fixes.retry && !world.pending.is_empty();
        let is_news = is_visited || is_retried || !world.ended.is_empty() || !world.profiling.is_empty();
        if is_news {
            before.clone_from(&world.table);
        }
        rules.before(world);
        if is_retried || !world.ended.is_empty() {
            rules.on_ends(world);
            world.ended.clear();
        }
        if is_visited {
            rules.on_arrivals(world);
            world.submitted.clear();
        }
        if let Some(profilers) = &mut self.profilers {
            profilers.begin(world);
        }
        self.moved.clear();
        if is_news {
            self.is_stale = true;
            world.table.newly_owned(before, &mut self.moved);
            for &job in &self.moved {
                self.is_moved[job as usize] = true;
                world.job_mut(job).reschedules += 1;
            }
            self.tally.reschedules += self.moved.len() as u64;
            self.tracker.changed(now, world, before, &self.jobs);
        }
        self.tracker.round(index, now, self.numbers.round_s, world, &self.jobs);
        world.timer += self.numbers.round_s;
        for &job in &world.pending {
            self.queue_s[job as usize] += self.numbers.round_s;
        }
        for &job in &world.profiling {
            self.profiled_s[job as usize] += self.numbers.round_s;
        }
        rules.after(world);
    }

    /// The cluster's throughput in this round; who got devices pays for them.
    fn charge(&mut self) {
        if self.is_stale {
            let mut sum = 0.0;
            self.is_stale = false;
            for index in 0..self.world.running.len() {
                sum += self.charge_job(self.world.running[index]);
            }
            self.throughput = rounded(sum);
            for &job in &self.moved {
                self.is_moved[job as usize] = false;
            }
        }
        self.throughput_sum += self.throughput;
        self.throughput_peak = self.throughput_peak.max(self.throughput);
    }

    /// The throughput of a job in this round.
    fn charge_job(&mut self, job: u32) -> f64 {
        let (world, round_s) = (&mut self.world, self.numbers.round_s);
        let quota = world.job(job).quota;
        let mut throughput = match self.settings.enable_alpa {
            true => world.ask(Question::BILLED, job, quota.kind, quota.shape),
            false => world.throughput(job, quota.kind, quota.shape),
        }
        .max(0.0);
        if world.options.has_deadlines {
            // A job that will be late counts for nothing, by the clock at the beginning of the round.
            world.timer -= round_s;
            if !world.meets_deadline(job, quota.kind, quota.shape) {
                throughput = 0.0;
            }
            world.timer += round_s;
            self.is_stale = true;
        }
        let is_moved = self.is_moved[job as usize];
        let state = world.job_mut(job);
        if is_moved {
            let tuning_s = self.tuning.cost_s(quota.devices);
            state.lost_s = tuning_s;
            if tuning_s <= round_s {
                throughput *= (round_s - tuning_s) / round_s;
                state.debt_s = 0.0;
            } else {
                state.debt_s = tuning_s;
            }
            self.is_stale = true;
        }
        if state.debt_s > 0.0 {
            self.is_stale = true;
            if state.debt_s <= round_s {
                throughput *= (round_s - state.debt_s) / round_s;
                state.debt_s = 0.0;
            } else {
                throughput = 0.0;
                state.debt_s -= round_s;
            }
        }
        throughput
    }

    fn into_outcome(mut self) -> Outcome {
        for (&job, &queue_s) in self.jobs.iter().zip(&self.queue_s) {
            self.tracker.set_queue(job, queue_s);
        }
        let rounds = self.tally.rounds;
        let throughput = (rounds > 0)
            .then(|| Throughput { average: self.throughput_sum / rounds as f64, peak: self.throughput_peak });
        self.tracker.into_outcome(self.world.timer, rounds, Tally { throughput, ..self.tally })
    }
}

/// Seconds of a round in which a job gets on; `None` where it owes tuning. As published only tuning that is longer than a round
/// costs anything, and then one round.
fn useful_s(world: &mut World, job: u32, round_s: f64) -> Option<f64> {
    let is_charged = world.options.fixes.overhead;
    let state = world.job_mut(job);
    if !is_charged {
        return (state.debt_s == 0.0).then_some(round_s);
    }
    let lost_s = state.lost_s.min(round_s);
    state.lost_s -= lost_s;
    Some(round_s - lost_s)
}
