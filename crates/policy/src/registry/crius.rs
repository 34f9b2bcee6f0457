//! Crius and its variants.

use wharf_core::Policy;
use wharf_perf::Sharing;

use super::priority::{MIN_RUN, is_positive, min_run_s};
use super::{BuildArgs, KnobInfo, PolicyInfo};
use crate::crius::{Crius, Rules, Value};
use crate::settings::BadSetting;

const DP_KNOBS: [KnobInfo; 9] = [
    KnobInfo {
        name: "value",
        values: "finish|samples|relative",
        default: "finish",
        help: "unit of gains: saved time, samples per second (as published), or speed relative to the request",
    },
    KnobInfo {
        name: "tail",
        values: "a number of at least 0",
        default: "30",
        help: "with value=finish, additional weight of long jobs, in proportion to their lengths; 0: short jobs first",
    },
    KnobInfo {
        name: "depth",
        values: "0..64",
        default: "3",
        help: "maximum number of running jobs changed to start one",
    },
    KnobInfo {
        name: "budget",
        values: "a whole number above 0",
        default: "100000",
        help: "maximum number of search steps per decision",
    },
    KnobInfo {
        name: "pruning",
        values: "on|off",
        default: "on",
        help: "whether the search omits choices that cannot be better",
    },
    KnobInfo {
        name: "restart_horizon_s",
        values: "seconds above 0",
        default: "3600",
        help: "maximum time over which the gain of a move is counted; the gain must exceed the cost of the restart",
    },
    KnobInfo {
        name: "patience_s",
        values: "seconds above 0",
        default: "604800",
        help: "waiting time after which a job goes before all others and takes the devices of any job that waited less",
    },
    KnobInfo {
        name: "round_s",
        values: "seconds above 0",
        default: "300",
        help: "time between two searches without arrivals or ends",
    },
    MIN_RUN,
];

/// The same, and an option of the published code that is always in force here.
const KNOBS: [KnobInfo; 10] = {
    let [value, tail, depth, budget, pruning, horizon, patience, round, min_run] = DP_KNOBS;
    [value, tail, depth, budget, pruning, horizon, patience, round, min_run, BEST_PLAN]
};

const BEST_PLAN: KnobInfo = KnobInfo {
    name: "sched_with_opt",
    values: "on",
    default: "on",
    help: "decide by the speed of the best plan, as with Crius's option of this name; `crius-dp` decides by data parallelism",
};

/// All that Crius may do; its variants take something away.
const ALL: Rules = Rules {
    may_resize: true,
    may_retype: true,
    may_lend: true,
    may_migrate: true,
    is_data_parallel: false,
    has_deadlines: false,
    value: Value::Finish,
    tail: 30.0,
    depth: 3,
    budget: 100_000,
    is_pruned: true,
    horizon_s: 3600.0,
    round_s: 300.0,
    min_run_s: 0.0,
    patience_s: 604_800.0,
};

pub(super) const CRIUS: PolicyInfo = PolicyInfo {
    name: "crius",
    summary: "the type, number and plan of each job's devices, changed as it runs: shrink, grow, move, lend",
    paper: "Xue et al., Crius, arXiv 2403.16125; Arena, EuroSys'26",
    explanation: "A job that comes starts at once in its best cell (device type x number x pipeline stages; the performance model \
        knows the best stages). Where nothing is free, running jobs are considered that could shrink, change their type, move \
        to other nodes or wait: up to `depth` of them for one, within `budget` steps. What brings the largest gain is done, if \
        the job that comes gains more than all others lose, their restarts included. Waiting jobs are tried again, in order, when \
        devices become free; a later one may use what an earlier one cannot use yet, and gives it back when that \
        brings more. Devices without waiting jobs make running jobs faster, the one with the largest gain first, where \
        that pays for the restart within `restart_horizon_s` or what is left of the job. Every `round_s`, all \
        choices of places are compared where at most eight jobs may move, on at most eight nodes.\n\n\
        Gains are counted once, in the same unit for all: parts of the remaining work per second, so that what is soon \
        done goes first (samples per second with value=samples, as published). A device costs what the first \
        waiting jobs would make of it, so that no job spreads out while others wait.\n\n\
        Starvation: a job that has waited for `patience_s` goes before all others, the longest waiting first. It may take \
        all devices but those of jobs that are starting, have not had `min_run_s`, or had waited as long themselves \
        (these keep their turn for `patience_s`); until it has started no other job starts or grows on the types that it can use.",
    must_know: "speeds of jobs by device type and number of devices, remaining iterations",
    advice: "Mixed clusters with jobs that can run on several types and numbers of devices, where restarts are cheap against the length of jobs.",
    knobs: &KNOBS,
    slots: 1,
    is_elastic: true,
    sharing: Sharing::None,
    build: |args| build(args, ALL),
};

pub(super) const CRIUS_DP: PolicyInfo = PolicyInfo {
    name: "crius-dp",
    summary: "crius with data parallelism only: every device holds a whole copy of the model",
    explanation: "As crius, but only those cells count in which a whole copy of the model fits each device, as the profile's table of \
        memory has it. A job that fits none is left waiting. Profiles without such a table know no difference.",
    advice: "To measure the effect of plans other than data parallelism.",
    knobs: &DP_KNOBS,
    build: |args| build(args, Rules { is_data_parallel: true, ..ALL }),
    ..CRIUS
};

pub(super) const CRIUS_NS: PolicyInfo = PolicyInfo {
    name: "crius-ns",
    summary: "crius without shrinking and growing: jobs have the number of devices that they ask for",
    explanation: "As crius, but every job has one number of devices for life: the one that it asks for, or the nearest on which it can run.",
    advice: "To measure the effect of resizing, or if jobs cannot be resized.",
    build: |args| build(args, Rules { may_resize: false, ..ALL }),
    ..CRIUS
};

pub(super) const CRIUS_NH: PolicyInfo = PolicyInfo {
    name: "crius-nh",
    summary: "crius without changes of type: jobs stay on the device type that they ask for",
    explanation: "As crius, but every job has one device type for life: the first that it names and can run on, or the one that it starts on.",
    advice: "To measure the effect of type changes, or if results must come from one type.",
    build: |args| build(args, Rules { may_retype: false, ..ALL }),
    ..CRIUS
};

pub(super) const CRIUS_NO: PolicyInfo = PolicyInfo {
    name: "crius-no",
    summary: "crius without opportunism: later jobs do not use the device types that an earlier one waits for",
    explanation: "As crius, but a job that cannot start keeps the device type that it asks for (all types, where it names none) \
        from those that come after it in order, and no job is preempted for another.",
    advice: "To measure the effect of opportunism.",
    build: |args| build(args, Rules { may_lend: false, ..ALL }),
    ..CRIUS
};

pub(super) const CRIUS_NM: PolicyInfo = PolicyInfo {
    name: "crius-nm",
    summary: "crius without migration: running jobs are not moved to other nodes of their type",
    explanation: "As crius, but a running job leaves its nodes only for another type; it shrinks and grows where it is. (In the \
        published code this variant does not differ from crius.)",
    advice: "To measure the effect of migration.",
    build: |args| build(args, Rules { may_migrate: false, ..ALL }),
    ..CRIUS
};

pub(super) const CRIUS_DDL: PolicyInfo = PolicyInfo {
    name: "crius-ddl",
    summary: "crius with deadlines: a cell counts only if the job would meet its deadline there",
    explanation: "As crius, but jobs with a deadline are started only in cells in which they would meet it. One that cannot meet it \
        in any is left waiting; one that runs is not sent away, and is moved or shrunk only where it still meets it. Jobs without a deadline run as under crius.",
    must_know: "speeds of jobs by device type and number of devices, remaining iterations, deadlines",
    advice: "Jobs whose results are useless after their deadlines.",
    build: |args| build(args, Rules { has_deadlines: true, ..ALL }),
    ..CRIUS
};

fn build(args: &BuildArgs<'_>, all: Rules) -> Result<Box<dyn Policy>, BadSetting> {
    let settings = args.settings;
    if !settings.switch(BEST_PLAN.name, true)? {
        return Err(BadSetting {
            key: BEST_PLAN.name.to_owned(),
            value: settings.get(BEST_PLAN.name).unwrap_or_default().to_owned(),
            expected:
                "`on`: this policy decides by the best plan of each job, `crius-dp` by data parallelism"
                    .to_owned(),
        });
    }
    let values = [("finish", Value::Finish), ("samples", Value::Samples), ("relative", Value::Relative)];
    let seconds = |key, default| settings.parsed(key, default, "seconds above 0", is_positive);
    let rules = Rules {
        value: settings.choice("value", &values, all.value)?,
        tail: settings.parsed("tail", all.tail, "a number of at least 0", |&tail: &f64| {
            tail.is_finite() && tail >= 0.0
        })?,
        depth: settings.parsed("depth", all.depth, "0..64", |&depth: &u32| depth <= 64)?,
        budget: settings.parsed("budget", all.budget, "a whole number above 0", |&steps: &u64| steps > 0)?,
        is_pruned: settings.switch("pruning", all.is_pruned)?,
        horizon_s: seconds("restart_horizon_s", all.horizon_s)?,
        patience_s: seconds("patience_s", all.patience_s)?,
        round_s: seconds("round_s", all.round_s)?,
        min_run_s: min_run_s(settings)?,
        ..all
    };
    Ok(Box::new(Crius::new(rules, args.placer())))
}
