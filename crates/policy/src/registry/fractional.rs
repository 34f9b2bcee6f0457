//! Policies that work out shares of time and hand them out in rounds.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use wharf_perf::Sharing;

use super::fairness::weights;
use super::priority::{MIN_RUN, is_not_negative, is_positive, min_run_s};
use super::{BuildArgs, KnobInfo, PolicyInfo};
use crate::fractional::allocate::{
    AlloX, Fairness, Fifo, FifoChoice, Gandiva, History, Isolated, Measure, Optimal, Sight,
};
use crate::fractional::{Allocator, Fractional, RoundOptions};
use crate::settings::BadSetting;

const GAVEL: &str = "Narayanan et al., Gavel, OSDI'20";

const ROUND: KnobInfo = KnobInfo {
    name: "lease_s",
    values: "seconds",
    default: "360",
    help: "lease of devices: time between two rounds",
};

const STICKY: KnobInfo = KnobInfo {
    name: "sticky_s",
    values: "seconds",
    default: "60",
    help: "difference of deficits above which a running job is preempted",
};

const ROUNDS: &[KnobInfo] = &[ROUND, STICKY, MIN_RUN];

/// Whether a policy belongs to the family.
pub(super) fn is_member(name: &str) -> bool {
    let is_named = |policy: &&PolicyInfo| {
        policy.name == name && policy.knobs.iter().any(|knob| knob.name == STICKY.name)
    };
    super::POLICIES.iter().any(|policy| is_named(&policy))
}

fn build(
    args: &BuildArgs<'_>,
    allocator: Box<dyn Allocator>,
) -> Result<Box<dyn wharf_core::Policy>, BadSetting> {
    let settings = args.settings;
    let options = RoundOptions {
        round_s: settings.parsed("lease_s", 360.0, "seconds above 0", is_positive)?,
        min_run_s: min_run_s(settings)?,
        sticky_s: settings.parsed("sticky_s", 60.0, "seconds, 0 or more", is_not_negative)?,
    };
    Ok(Box::new(Fractional::new(allocator, options, args.placer())))
}

fn rng(args: &BuildArgs<'_>) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(args.seed)
}

pub(super) const GAVEL_FIFO: PolicyInfo = PolicyInfo {
    name: "gavel/fifo",
    summary: "strict order of submission on any device type that has room, by lot",
    paper: GAVEL,
    explanation: "Jobs are taken in the order of their submission. Each gets a device type that has enough free devices, by \
        lot, and keeps it until it is done. The first that fits nowhere holds up all that come after it. What devices \
        of different types are worth to a job is ignored: this is the baseline of the policies that use it.",
    must_know: "no job data",
    advice: "To measure the effect of knowing device types: compare it with fifo-perf.",
    knobs: ROUNDS,
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| build(args, Box::new(Fifo(FifoChoice::Any(Box::new(rng(args)))))),
};

pub(super) const FIFO_PERF: PolicyInfo = PolicyInfo {
    name: "fifo-perf",
    summary: "strict order of submission, each job on the free device type that is fastest for it",
    paper: GAVEL,
    explanation: "Jobs are taken in the order of their submission. Each gets the type with enough free devices on which it is \
        fastest; the first that fits nowhere holds up all that come after it. At every round that follows a change, types are \
        assigned again in the same order, and running jobs move to faster types, each at the cost of a restart.",
    must_know: "speeds of jobs by device type",
    advice: "Mixed devices, jobs that checkpoint, and users who expect jobs in order.",
    knobs: ROUNDS,
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| build(args, Box::new(Fifo(FifoChoice::Fastest))),
};

pub(super) const FIFO_PACKED: PolicyInfo = PolicyInfo {
    name: "fifo-packed",
    summary: "as fifo-perf; if no device is free, a job shares the devices of a compatible one",
    paper: GAVEL,
    explanation: "As fifo-perf. A job for which no type has room shares the devices of a running job with as many devices, if \
        both together get at least half as much more done as one after the other: with the one that it gains most with.",
    must_know: "speeds of jobs by device type, alone and co-located",
    advice: "As fifo-perf, if small jobs leave devices half idle.",
    knobs: ROUNDS,
    slots: 2,
    is_elastic: false,
    sharing: Sharing::Interference,
    build: |args| build(args, Box::new(Fifo(FifoChoice::Packed))),
};

pub(super) const ISOLATED: PolicyInfo = PolicyInfo {
    name: "isolated",
    summary: "every job gets an equal part of every device type, whatever its speed there",
    paper: GAVEL,
    explanation: "With n jobs each gets 1/n of the devices of each type, divided by its gang, as a share of time. It is what \
        finish-time fairness compares with. Rounds hand out devices in proportion; the rest goes to jobs that can use it.",
    must_know: "no job data",
    advice: "A yardstick for fairness. It wastes fast devices on jobs that do not need them.",
    knobs: ROUNDS,
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| build(args, Box::new(Isolated)),
};

pub(super) const GANDIVA: PolicyInfo = PolicyInfo {
    name: "gandiva",
    summary: "random pairs of jobs share devices if there are too few, and stay together if both gain",
    paper: "Xiao et al., Gandiva, OSDI'18; restated in Gavel, OSDI'20",
    explanation: "As long as there are devices for all, every job gets an equal part of every type. Where there are not, jobs \
        with equal gangs are paired by lot, until the devices do; a pair is kept as long as both together get more done than one \
        after the other. Singles and pairs get equal parts. Gandiva itself also packs by utilisation, migrates and grows jobs; \
        this is the part that Gavel compares with.",
    must_know: "slowdown of co-located jobs",
    advice: "More small jobs than devices, without data about them: pairs are tried and kept if they gain.",
    knobs: ROUNDS,
    slots: 2,
    is_elastic: false,
    sharing: Sharing::Interference,
    build: |args| build(args, Box::new(Gandiva::new(rng(args)))),
};

pub(super) const ALLOX: PolicyInfo = PolicyInfo {
    name: "allox",
    summary: "the least mean completion time on mixed devices: jobs are matched with places in the devices' queues",
    paper: "Le et al., AlloX, EuroSys'20",
    explanation: "A job that is k-th from the end of a device's queue delays k ends, so it costs k times its own duration there. \
        Waiting jobs are matched with places in the queues of the free devices at the least sum of costs; the first of each queue \
        starts and keeps its devices until it is done, the others are matched again after changes. A job may be better \
        off waiting for a fast device than with a slow one that is free. The paper's jobs have one device; gangs are \
        matched here as if all were as large as the mean one.",
    must_know: "remaining work, speeds of jobs by device type",
    advice: "The least mean completion time on mixed devices without preemption, where lengths are known.",
    knobs: ROUNDS,
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| build(args, Box::new(AlloX::default())),
};

const FAIRNESS: KnobInfo = KnobInfo {
    name: "fairness",
    values: "jobs|users",
    default: "jobs",
    help: "unit of fairness: jobs by their weights, or users, whose jobs share the user's part",
};

const USER_WEIGHTS: KnobInfo = KnobInfo {
    name: "user_weights",
    values: "user=weight, separated by `,`",
    default: "",
    help: "with fairness=users: weights of users; 1 for others",
};

const FAIR_ROUNDS: &[KnobInfo] = &[FAIRNESS, USER_WEIGHTS, ROUND, STICKY, MIN_RUN];

fn optimal(
    args: &BuildArgs<'_>,
    measure: Measure,
    sight: Sight,
) -> Result<Box<dyn wharf_core::Policy>, BadSetting> {
    let fairness = Fairness {
        by_user: args.settings.choice("fairness", &[("jobs", false), ("users", true)], false)?,
        weights: weights(args.settings, "user_weights")?,
    };
    build(args, Box::new(Optimal { measure, sight, fairness }))
}

/// A policy of the family that solves a program.
macro_rules! optimal {
    ($name:ident, $text:literal, $measure:expr, $sight:ident, $knobs:expr, $must_know:expr, $summary:literal, $explanation:literal, $advice:literal) => {
        pub(super) const $name: PolicyInfo = PolicyInfo {
            name: $text,
            summary: $summary,
            paper: GAVEL,
            explanation: $explanation,
            must_know: $must_know,
            advice: $advice,
            knobs: $knobs,
            slots: if matches!(Sight::$sight, Sight::Pairs) { 2 } else { 1 },
            is_elastic: false,
            sharing: if matches!(Sight::$sight, Sight::Pairs) {
                Sharing::Interference
            } else {
                Sharing::None
            },
            build: |args| optimal(args, $measure(args)?, Sight::$sight),
        };
    };
}

const NOTHING: &str = "no job lengths";
const SPEEDS: &str = "speeds of jobs by device type";
const PAIRS: &str = "speeds of jobs by device type, alone and co-located";
const LENGTHS: &str = "how much work is left";
const LENGTHS_SPEEDS: &str = "remaining work, speeds of jobs by device type";
const LENGTHS_PAIRS: &str = "remaining work, speeds of jobs by device type, alone and co-located";

type Made = Result<Measure, BadSetting>;

fn max_min(_: &BuildArgs<'_>) -> Made {
    Ok(Measure::MaxMin)
}

fn water_filling(_: &BuildArgs<'_>) -> Made {
    Ok(Measure::WaterFilling)
}

fn finish_time(_: &BuildArgs<'_>) -> Made {
    Ok(Measure::FinishTime(History::default()))
}

fn makespan(_: &BuildArgs<'_>) -> Made {
    Ok(Measure::Makespan)
}

fn sum(_: &BuildArgs<'_>) -> Made {
    Ok(Measure::Sum { by_price: false, with_deadlines: false })
}

fn sum_by_price(_: &BuildArgs<'_>) -> Made {
    Ok(Measure::Sum { by_price: true, with_deadlines: false })
}

fn sum_in_time(_: &BuildArgs<'_>) -> Made {
    Ok(Measure::Sum { by_price: true, with_deadlines: true })
}

optimal!(
    MAX_MIN,
    "max-min-fairness",
    max_min,
    Blind,
    FAIR_ROUNDS,
    NOTHING,
    "equal shares of time for their weights, all devices taken to be alike",
    "The smallest share, for its weight and devices, is maximized. What devices of different \
     types are worth is ignored: least attained service for clusters that are not mixed.",
    "One type of devices, or several that are nearly alike, and jobs of equal right."
);
optimal!(
    MAX_MIN_PERF,
    "max-min-fairness-perf",
    max_min,
    Types,
    FAIR_ROUNDS,
    SPEEDS,
    "the worst-off job makes as much progress as possible, knowing how fast each is on each device type",
    "Every job's throughput is compared with what an equal part of the time on each type would give it. The smallest of these \
     ratios, for weights and devices, is made as large as possible. Jobs drift to the types on which they are relatively best.",
    "The default choice for mixed clusters with equally important jobs: no job starves, and each runs where it is relatively best."
);
optimal!(
    MAX_MIN_PACKED,
    "max-min-fairness-packed",
    max_min,
    Pairs,
    FAIR_ROUNDS,
    PAIRS,
    "as max-min-fairness-perf, and two jobs may share devices where that gives both more",
    "As max-min-fairness-perf, with shares also for pairs of jobs with equally many devices, whose speeds beside each other come \
     from the profile, or from a model of what they compete for.",
    "As max-min-fairness-perf, where many jobs leave devices half idle."
);
optimal!(
    WATER_FILLING,
    "max-min-fairness-water-filling",
    water_filling,
    Blind,
    FAIR_ROUNDS,
    NOTHING,
    "as max-min-fairness, then the next worst-off, and so on",
    "Lexicographic max-min: when no job can gain without harm to the one that is worst off, that one's share is fixed, \
     and the rest is made as large as possible in turn.",
    "As max-min-fairness, where some jobs cannot use all they could get, so that others should have it."
);
optimal!(
    WATER_FILLING_PERF,
    "max-min-fairness-water-filling-perf",
    water_filling,
    Types,
    FAIR_ROUNDS,
    SPEEDS,
    "as max-min-fairness-perf, then the next worst-off, and so on",
    "Lexicographic max-min of throughputs, each compared with what an equal part of the time on each type would give.",
    "As max-min-fairness-perf, where some jobs run on few types only."
);
optimal!(
    WATER_FILLING_PACKED,
    "max-min-fairness-water-filling-packed",
    water_filling,
    Pairs,
    FAIR_ROUNDS,
    PAIRS,
    "as max-min-fairness-packed, then the next worst-off, and so on",
    "Lexicographic max-min of throughputs, with shares also for pairs of jobs.",
    "As max-min-fairness-packed, where some jobs run on few types only."
);
optimal!(
    FINISH_TIME,
    "finish-time-fairness",
    finish_time,
    Blind,
    ROUNDS,
    LENGTHS,
    "no job takes much longer than with an equal share of the cluster, all devices taken to be alike",
    "The time from submission to end that a job will have taken, divided by what it would have taken with 1/n of the cluster, is \
     minimized for the job that is worst off (Themis' measure). Remaining work must be known.",
    "Jobs of equal weight with known lengths, on devices of similar speed."
);
optimal!(
    FINISH_TIME_PERF,
    "finish-time-fairness-perf",
    finish_time,
    Types,
    ROUNDS,
    LENGTHS_SPEEDS,
    "no job takes much longer than with an equal share of the cluster, knowing how fast each is on each type",
    "As finish-time-fairness, with each job's speed on each device type.",
    "Jobs of equal weight with known lengths, on mixed devices: short jobs finish sooner than under max-min-fairness-perf."
);
optimal!(
    FINISH_TIME_PACKED,
    "finish-time-fairness-packed",
    finish_time,
    Pairs,
    ROUNDS,
    LENGTHS_PAIRS,
    "as finish-time-fairness-perf, and two jobs may share devices",
    "As finish-time-fairness-perf, with shares also for pairs of jobs.",
    "As finish-time-fairness-perf, where many jobs leave devices half idle."
);
optimal!(
    MAKESPAN,
    "min-total-duration",
    makespan,
    Blind,
    ROUNDS,
    LENGTHS,
    "all jobs together are done as early as possible, all devices taken to be alike",
    "Shares with which the last job, if nothing changed, would be done as early as possible. Long jobs get most of the time, so \
     that the mean completion time suffers. Remaining work must be known.",
    "A batch that must be done by a time, on devices that are nearly alike."
);
optimal!(
    MAKESPAN_PERF,
    "min-total-duration-perf",
    makespan,
    Types,
    ROUNDS,
    LENGTHS_SPEEDS,
    "all jobs together are done as early as possible, knowing how fast each is on each device type",
    "As min-total-duration, with each job's speed on each device type.",
    "A batch with a common deadline, on mixed devices. Not for users who wait for single jobs."
);
optimal!(
    MAKESPAN_PACKED,
    "min-total-duration-packed",
    makespan,
    Pairs,
    ROUNDS,
    LENGTHS_PAIRS,
    "as min-total-duration-perf, and two jobs may share devices",
    "As min-total-duration-perf, with shares also for pairs of jobs.",
    "As min-total-duration-perf, where many jobs leave devices half idle."
);
optimal!(
    SUM_PERF,
    "max-sum-throughput-perf",
    sum,
    Types,
    ROUNDS,
    SPEEDS,
    "the sum of all throughputs is as large as possible",
    "Devices go where they make the most iterations: jobs with short iterations win, others may starve for \
     as long as those are there.",
    "One owner with many similar jobs, who counts iterations and not jobs."
);
optimal!(
    SUM_BY_COST,
    "max-sum-throughput-normalized-by-cost-perf",
    sum_by_price,
    Types,
    ROUNDS,
    SPEEDS,
    "as many iterations as possible for the money",
    "As max-sum-throughput-perf, with each type's throughput divided by what its devices cost (the profile's prices; all alike where \
     they are not known). Deadlines are ignored.",
    "One owner who pays by the hour, without deadlines."
);
optimal!(
    SUM_BY_COST_SLOS,
    "max-sum-throughput-normalized-by-cost-perf-slos",
    sum_in_time,
    Types,
    ROUNDS,
    LENGTHS_SPEEDS,
    "as many iterations per cost as possible; jobs with deadlines get the devices to meet them",
    "As max-sum-throughput-normalized-by-cost-perf, with a lower bound for every job that has a deadline: its remaining work over \
     the time left. A bound that the job could not reach with all its time on its fastest type is dropped. Where the others cannot all \
     be kept, they are lowered alike. Either is reported as a fallback.",
    "One owner who pays by the hour, with deadlines."
);
