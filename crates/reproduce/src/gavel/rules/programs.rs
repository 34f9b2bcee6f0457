//! Policies that solve a program over jobs and types.

use wharf_solver::sharing::{self, Finish, Program};

use super::super::error::GavelError;
use super::super::settings::{Goal, Settings, Sight};
use super::makespan as search;
use super::split::equal_part;
use super::{Rule, Shares, Snapshot};

/// A policy with a program of its own.
pub(super) struct Programs {
    goal: Goal,
    sight: Sight,
    past: Past,
    fallbacks: u64,
}

impl Programs {
    pub(super) fn new(settings: &Settings) -> Self {
        let policy = settings.policy;
        Self { goal: policy.goal, sight: policy.sight, past: Past::default(), fallbacks: 0 }
    }

    /// Speeds as the policy sees them, jobs × types.
    fn speeds(&self, snapshot: &Snapshot<'_>) -> Vec<f64> {
        let workload = snapshot.workload;
        let is_fairness = matches!(self.goal, Goal::MaxMin | Goal::WaterFilling);
        let row = |&job: &u32| {
            let own = workload.speeds(job);
            (0..own.len()).map(move |device_type| match self.sight {
                Sight::Blind if is_fairness => 1.0,
                Sight::Blind => own[workload.reference_type],
                Sight::Perf | Sight::Packed => own[device_type],
            })
        };
        snapshot.jobs.iter().flat_map(row).collect()
    }

    fn solve(&mut self, snapshot: &Snapshot<'_>, program: &Program<'_>) -> sharing::Shares {
        let remaining = || -> Vec<f64> { snapshot.jobs.iter().map(|&job| snapshot.remaining(job)).collect() };
        match self.goal {
            Goal::MaxMin => sharing::max_min(program, &fairness_factors(snapshot, program.speeds)),
            Goal::WaterFilling => {
                sharing::water_filling(program, &fairness_factors(snapshot, program.speeds))
            }
            Goal::FinishTime => {
                let isolated = isolated_speeds(snapshot, program.speeds);
                let claims = self.past.claims(snapshot, isolated);
                sharing::finish_time(program, &claims)
            }
            Goal::Makespan => makespan(program, &remaining()),
            Goal::Cost | Goal::CostWithDeadlines => {
                let demands = (self.goal == Goal::CostWithDeadlines).then(|| deadline_demands(snapshot));
                sharing::max_sum(program, &speeds_for_price(snapshot, program.speeds), demands.as_deref())
            }
            // The rest is built elsewhere.
            Goal::Throughput | Goal::Fifo | Goal::Isolated | Goal::AlloX | Goal::Gandiva => {
                sharing::max_sum(program, program.speeds, None)
            }
        }
    }
}

impl Rule for Programs {
    fn allocate(&mut self, snapshot: &Snapshot<'_>, shares: &mut Shares) -> Result<(), GavelError> {
        if snapshot.jobs.is_empty() {
            self.past.forget();
            return Ok(());
        }
        let capacities: Vec<f64> =
            snapshot.workload.capacities.iter().map(|&count| f64::from(count)).collect();
        let devices: Vec<f64> = snapshot.jobs.iter().map(|&job| f64::from(snapshot.gang(job))).collect();
        let speeds = self.speeds(snapshot);
        let program = Program { capacities: &capacities, devices: &devices, speeds: &speeds };
        let solved = self.solve(snapshot, &program);
        self.fallbacks += u64::from(solved.fallback.is_some());
        for (share, value) in shares.singles.iter_mut().zip(&solved.values) {
            *share = value.clamp(0.0, 1.0);
        }
        Ok(())
    }

    fn fallbacks(&self) -> u64 {
        self.fallbacks
    }
}

/// Shares for the makespan that the published search ends at, from inside of all that reach it.
fn makespan(program: &Program<'_>, remaining: &[f64]) -> sharing::Shares {
    let shortest = sharing::makespan(program, remaining);
    let makespan_s = search::searched(shortest.objective);
    let inside = makespan_s.and_then(|makespan_s| search::shares_alone(program, remaining, makespan_s));
    match inside {
        Some(values) => sharing::Shares { values, ..shortest },
        None => sharing::Shares { fallback: Some("no point inside was found"), ..shortest },
    }
}

/// What each job's speed is multiplied with before the smallest is made largest: a gang counts for its devices, and a
/// weight for so many jobs, relative to the speed with a proportional part of every type.
pub(super) fn fairness_factors(snapshot: &Snapshot<'_>, speeds: &[f64]) -> Vec<f64> {
    let workload = snapshot.workload;
    let all = workload.workers.len() as f64;
    let rows = snapshot.jobs.iter().zip(speeds.chunks_exact(workload.width()));
    rows.map(|(&job, row)| {
        let part = |(speed, &capacity): (&f64, &u32)| speed * (f64::from(capacity) / all);
        let proportional: f64 = row.iter().zip(&workload.capacities).map(part).sum();
        f64::from(snapshot.gang(job)) / (workload.jobs[job as usize].weight * proportional)
    })
    .collect()
}

/// Each job's speed with an equal part of every type.
pub(super) fn isolated_speeds(snapshot: &Snapshot<'_>, speeds: &[f64]) -> Vec<f64> {
    let workload = snapshot.workload;
    let mut part = vec![0.0; workload.width()];
    let rows = snapshot.jobs.iter().zip(speeds.chunks_exact(workload.width()));
    rows.map(|(&job, row)| {
        equal_part(workload, snapshot.jobs.len(), snapshot.gang(job), &mut part);
        row.iter().zip(&part).map(|(speed, share)| speed * share).sum()
    })
    .collect()
}

/// Speeds for a dollar an hour.
fn speeds_for_price(snapshot: &Snapshot<'_>, speeds: &[f64]) -> Vec<f64> {
    let prices = snapshot.workload.prices.iter().map(|price| price.unwrap_or(1.0)).cycle();
    speeds.iter().zip(prices).map(|(speed, price)| speed / price).collect()
}

/// The speed with which each job is done by its deadline; none where it has no deadline, or has missed it.
pub(super) fn deadline_demands(snapshot: &Snapshot<'_>) -> Vec<f64> {
    let demand = |&job: &u32| match snapshot.workload.jobs[job as usize].deadline {
        Some(deadline) if deadline > snapshot.now => snapshot.remaining(job) / (deadline - snapshot.now),
        _ => 0.0,
    };
    snapshot.jobs.iter().map(demand).collect()
}

/// What finish-time fairness remembers: how long each job would have taken so far with an equal part.
#[derive(Debug, Default)]
pub(super) struct Past {
    isolated_s: Vec<f64>,
    /// At the last call: steps left, and speed with an equal part.
    last: Vec<Option<(f64, f64)>>,
}

impl Past {
    /// There were no jobs: none is known from the call before.
    pub(super) fn forget(&mut self) {
        self.last.fill(None);
    }

    /// What each job may compare itself with.
    pub(super) fn claims(&mut self, snapshot: &Snapshot<'_>, isolated: Vec<f64>) -> Vec<Finish> {
        let count = snapshot.workload.jobs.len();
        self.isolated_s.resize(count, 0.0);
        let last = std::mem::replace(&mut self.last, vec![None; count]);
        let claim = |(&job, speed): (&u32, f64)| {
            let remaining = snapshot.remaining(job);
            if let Some(Some((before, speed))) = last.get(job as usize) {
                self.isolated_s[job as usize] += (before - remaining) / speed;
            }
            self.last[job as usize] = Some((remaining, speed));
            let allowance_s = self.isolated_s[job as usize] + remaining / speed;
            Finish { elapsed_s: snapshot.waited_s(job), remaining, allowance_s }
        };
        snapshot.jobs.iter().zip(isolated).map(claim).collect()
    }
}
