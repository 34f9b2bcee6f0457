//! What a run of this mechanism can be asked for.

use std::path::PathBuf;

use wharf_policy::BadSetting;

use super::numbers::Numbers;
use crate::Request;

/// Whose speeds a policy checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// None, or those of one type only.
    Blind,
    /// Each type's own.
    Perf,
    /// Each type's own, alone and beside another job.
    Packed,
}

/// What a policy makes best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Nothing: jobs go in the order of their arrival.
    Fifo,
    /// Nothing: each job has an equal part of everything.
    Isolated,
    /// The smallest normalised speed.
    MaxMin,
    /// The smallest normalised speed, then the next, and so on.
    WaterFilling,
    /// The largest ratio of the time until the end to that with an equal part.
    FinishTime,
    /// The time until everything is done.
    Makespan,
    /// The sum of speeds.
    Throughput,
    /// The sum of speeds for their price.
    Cost,
    /// The sum of speeds for their price, with deadlines met.
    CostWithDeadlines,
    /// The mean completion time (AlloX, EuroSys'20).
    AlloX,
    /// Nothing: jobs are paired at random, and kept where that pays (Gandiva, OSDI'18).
    Gandiva,
}

/// A policy of Gavel's simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The name on the command line and in reports.
    pub name: &'static str,
    /// What it makes best.
    pub goal: Goal,
    /// What it knows.
    pub sight: Sight,
}

const fn policy(name: &'static str, goal: Goal, sight: Sight) -> Policy {
    Policy { name, goal, sight }
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 22] = [
        policy("fifo", Goal::Fifo, Sight::Blind),
        policy("fifo-perf", Goal::Fifo, Sight::Perf),
        policy("fifo-packed", Goal::Fifo, Sight::Packed),
        policy("isolated", Goal::Isolated, Sight::Blind),
        policy("max-min-fairness", Goal::MaxMin, Sight::Blind),
        policy("max-min-fairness-perf", Goal::MaxMin, Sight::Perf),
        policy("max-min-fairness-packed", Goal::MaxMin, Sight::Packed),
        policy("max-min-fairness-water-filling", Goal::WaterFilling, Sight::Blind),
        policy("max-min-fairness-water-filling-perf", Goal::WaterFilling, Sight::Perf),
        policy("max-min-fairness-water-filling-packed", Goal::WaterFilling, Sight::Packed),
        policy("finish-time-fairness", Goal::FinishTime, Sight::Blind),
        policy("finish-time-fairness-perf", Goal::FinishTime, Sight::Perf),
        policy("finish-time-fairness-packed", Goal::FinishTime, Sight::Packed),
        policy("min-total-duration", Goal::Makespan, Sight::Blind),
        policy("min-total-duration-perf", Goal::Makespan, Sight::Perf),
        policy("min-total-duration-packed", Goal::Makespan, Sight::Packed),
        policy("max-sum-throughput-perf", Goal::Throughput, Sight::Perf),
        policy("max-sum-throughput-normalized-by-cost-perf", Goal::Cost, Sight::Perf),
        policy("max-sum-throughput-normalized-by-cost-perf-slos", Goal::CostWithDeadlines, Sight::Perf),
        policy("max-sum-throughput-normalized-by-cost-packed-slos", Goal::CostWithDeadlines, Sight::Packed),
        policy("allox", Goal::AlloX, Sight::Perf),
        policy("gandiva", Goal::Gandiva, Sight::Packed),
    ];

    /// What it does, in one line.
    pub fn summary(self) -> &'static str {
        match (self.goal, self.sight) {
            (Goal::Fifo, Sight::Blind) => {
                "order of arrival, on any type; gives types more jobs than they have devices"
            }
            (Goal::Fifo, Sight::Perf) => "order of arrival, each job on the fastest type that is free",
            (Goal::Fifo, Sight::Packed) => "as fifo-perf, and co-located with a running job if both gain",
            (Goal::Isolated, _) => "an equal part of every type for each job",
            (Goal::MaxMin, Sight::Blind) => "the smallest share of time, weighted, as large as possible",
            (Goal::MaxMin, Sight::Perf) => "the smallest speed relative to a fair part as large as possible",
            (Goal::MaxMin, Sight::Packed) => {
                "as max-min-fairness-perf, two jobs to a device where that helps"
            }
            (Goal::WaterFilling, Sight::Blind) => "as max-min-fairness, then the next smallest, and so on",
            (Goal::WaterFilling, Sight::Perf) => {
                "as max-min-fairness-perf, then the next smallest, and so on"
            }
            (Goal::WaterFilling, Sight::Packed) => {
                "as max-min-fairness-packed, then the next smallest, and so on"
            }
            (Goal::FinishTime, Sight::Blind) => {
                "times to the end, relative to an equal part; knows the speed on one type"
            }
            (Goal::FinishTime, Sight::Perf) => {
                "times to the end, relative to an equal part, as even as possible"
            }
            (Goal::FinishTime, Sight::Packed) => {
                "as finish-time-fairness-perf, two jobs to a device where that helps"
            }
            (Goal::Makespan, Sight::Blind) => "minimum makespan; uses the speed on one type",
            (Goal::Makespan, Sight::Perf) => "minimum makespan, within 5 %",
            (Goal::Makespan, Sight::Packed) => {
                "as min-total-duration-perf, two jobs to a device where that helps"
            }
            (Goal::Throughput, _) => "the sum of all speeds as large as possible",
            (Goal::Cost, _) => "the sum of all speeds, each for its price, as large as possible",
            (Goal::CostWithDeadlines, Sight::Packed) => {
                "as ...-perf-slos, two jobs to a device where that helps"
            }
            (Goal::CostWithDeadlines, _) => "as ...-normalized-by-cost-perf, with deadlines met",
            (Goal::AlloX, _) => "the least sum of completion times; devices are never taken away",
            (Goal::Gandiva, _) => "random pairs of jobs share devices, and stay together if that pays",
        }
    }

    /// Whether jobs may run two to a device.
    pub(super) fn is_packed(self) -> bool {
        self.sight == Sight::Packed
    }

    /// Whether the order of types is drawn each round.
    pub(super) fn is_shuffled(self) -> bool {
        self.sight == Sight::Blind
    }

    /// Whether devices stay idle rather than run a job without a share.
    pub(super) fn is_strict(self) -> bool {
        self.goal == Goal::Fifo
    }
}

/// A policy and its variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The policy.
    pub policy: Policy,
    /// Where everything random begins.
    pub seed: u64,
    /// Rounds after which the run ends.
    pub rounds: Option<u64>,
    /// Recorded allocations to follow instead of the policy's own.
    pub allocations: Option<PathBuf>,
    /// The part of the waiting jobs, oldest first, that AlloX checks.
    pub alpha: f64,
    /// Whether policies with packing take shares from inside of all that are best, as the published code's solver does, or
    /// those at a corner.
    pub is_inside: bool,
    /// The preset's, or what overrides it.
    pub round_s: f64,
    /// The preset's, or what overrides it.
    pub reset_s: f64,
    /// The preset's, or what overrides it.
    pub packing_threshold: f64,
}

impl Settings {
    /// What can be set by name.
    pub const NAMES: [&str; 6] =
        ["allocations", "alpha", "shares", "round_s", "reset_s", "packing_threshold"];

    /// A policy with the preset's numbers and overrides.
    ///
    /// # Errors
    /// [`BadSetting`] names the first override that is out of its range.
    pub fn new(policy: Policy, numbers: &Numbers, request: &Request<'_>) -> Result<Self, BadSetting> {
        let overrides = request.settings;
        let number = |key: &str, default: f64, expected: &str, is_good: fn(f64) -> bool| {
            overrides.parsed(key, default, expected, |number: &f64| number.is_finite() && is_good(*number))
        };
        Ok(Self {
            policy,
            seed: request.seed,
            rounds: request.rounds,
            allocations: overrides.get("allocations").map(PathBuf::from),
            alpha: number("alpha", 1.0, "a part of more than 0, up to 1", |n| n > 0.0 && n <= 1.0)?,
            packing_threshold: number(
                "packing_threshold",
                numbers.packing_threshold,
                "a number of at least 0",
                |n| n >= 0.0,
            )?,
            reset_s: number("reset_s", numbers.reset_s, "seconds of at least 0", |n| n >= 0.0)?,
            round_s: number("round_s", numbers.round_s, "seconds above 0", |n| n > 0.0)?,
            is_inside: overrides.choice("shares", &[("inside", true), ("corner", false)], true)?,
        })
    }
}
