//! The priority family: jobs in an order, each alone on its devices.

use wharf_core::Policy;
use wharf_perf::Sharing;

use super::{BuildArgs, KnobInfo, PolicyInfo};
use crate::attained::{Las, Tiresias};
use crate::fifo::Fifo;
use crate::gittins::Gittins;
use crate::priority::{Backfill, Priority, Rank, VictimRules};
use crate::settings::{BadSetting, Settings};
use crate::shortest::{ShortestRemaining, Sjf};

const BACKFILL: KnobInfo = KnobInfo {
    name: "backfill",
    values: "off|greedy|easy",
    default: "off",
    help: "jobs that may start while the first one does not fit: none, any, or those that do not delay it",
};

const BACKFILL_DEPTH: KnobInfo = KnobInfo {
    name: "backfill_depth",
    values: "a count",
    default: "100",
    help: "number of jobs behind the first one that `backfill=easy` considers",
};

pub(super) const PREEMPT_RATIO: KnobInfo = KnobInfo {
    name: "preempt_ratio",
    values: "a ratio of at least 1",
    default: "2",
    help: "minimum ratio of the ranks of a running and a waiting job for preemption",
};

pub(super) const AGE: KnobInfo = KnobInfo {
    name: "age_s",
    values: "seconds",
    default: "0",
    help: "waiting time for one level of priority; 0: waiting has no effect",
};

pub(super) const MIN_RUN: KnobInfo = KnobInfo {
    name: "min_run_s",
    values: "seconds",
    default: "0",
    help: "minimum run time before a job can be preempted",
};

const VICTIMS: KnobInfo = KnobInfo {
    name: "victims",
    values: "order|cheap",
    default: "order",
    help: "jobs to preempt: the last in order, or those of low priority with little unsaved work",
};

pub(super) const FIFO: PolicyInfo = PolicyInfo {
    name: "fifo",
    summary: "first in, first out; strict, or with backfill",
    paper: "folklore; EASY backfill: Lifka, JSSPP 1995",
    explanation: "Jobs start in the order of their submission, those of higher priority first, and run to their end. \
        By default the order is strict: while the first job does not fit, no job behind it starts. Pools are queues of their \
        own: a job of a pool that does not fit holds up the nodes of that pool only, and later jobs may start on others. With \
        backfill=greedy any job that fits may start. With \
        backfill=easy a later job may start if it ends before the first one could start anyway, or uses devices \
        that the first one will not need. The length of a job is, in a simulation, the true length from the trace, \
        even where it also has a time limit; on a head, the declared iterations at the declared or known speed, or else the time \
        limit, or else an hour. With age_s a job gains one level of priority for every age_s that it waits, so \
        that urgent jobs pass it for a while only.",
    must_know: "no job lengths; with backfill=easy the lengths of jobs",
    advice: "Predictable for users; with backfill=easy it is hard to beat if jobs are of one size and may not be preempted. One long job at the front delays all others.",
    knobs: &[BACKFILL, BACKFILL_DEPTH, AGE],
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| {
        let depth =
            args.settings.parsed("backfill_depth", 100, "a count of at least 1", |&depth| depth > 0)?;
        let choices =
            [("off", Backfill::Off), ("greedy", Backfill::Greedy), ("easy", Backfill::Easy { depth })];
        let backfill = args.settings.choice("backfill", &choices, Backfill::Off)?;
        Ok(Box::new(Priority::new(Fifo { age_s: age_s(args.settings)? }, args.placer(), backfill)))
    },
};

pub(super) const SJF: PolicyInfo = PolicyInfo {
    name: "sjf",
    summary: "shortest declared job first, without preemption",
    paper: "folklore",
    explanation: "Waiting jobs are ordered by the length their owners declare. A job that does not fit is passed over; \
        running jobs are never disturbed.",
    must_know: "lengths of jobs",
    advice: "Batches of jobs with correct declared lengths that cannot be stopped. Long jobs wait as long as shorter ones arrive.",
    knobs: &[],
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| greedy(Sjf, args),
};

pub(super) const SRTF: PolicyInfo = PolicyInfo {
    name: "srtf",
    summary: "shortest remaining time first, preemptive",
    paper: "folklore; baseline of Tiresias (NSDI'19) and Muri (SIGCOMM'22)",
    explanation: "Jobs are ordered by the time until they would be done if they ran from now on, including the restart of those that wait. A waiting job that does not fit takes the devices of \
        running jobs that need longer: the last ones in the order, as few as possible, on one node for a gang that fits \
        into one, else on whole nodes of one switch and one more node for the remaining devices.",
    must_know: "remaining work",
    advice: "The least mean completion time where jobs checkpoint and lengths are known. Large gangs fare worse than under srsf.",
    knobs: &[PREEMPT_RATIO, MIN_RUN, VICTIMS],
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| shortest_remaining(args, false),
};

pub(super) const SRSF: PolicyInfo = PolicyInfo {
    name: "srsf",
    summary: "shortest remaining service (time x devices) first, preemptive",
    paper: "baseline of Tiresias (NSDI'19) and Muri (SIGCOMM'22)",
    explanation: "As srtf, with the remaining time multiplied by the number of devices: a small gang goes before a large \
        one of equal length.",
    must_know: "remaining work",
    advice: "As srtf, where gangs differ in size: the mean completion time of clusters with gangs. Restarts must be cheap.",
    knobs: &[PREEMPT_RATIO, MIN_RUN, VICTIMS],
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| shortest_remaining(args, true),
};

pub(super) const LAS: PolicyInfo = PolicyInfo {
    name: "las",
    summary: "least attained service first, preemptive, without durations",
    paper: "Nuyens and Wierman, Performance Evaluation 2008",
    explanation: "Jobs are ordered by the device-seconds they have had so far. A running job can be \
        preempted once it has had its devices for a quantum and is a quantum ahead of a waiting one.",
    must_know: "no job lengths",
    advice: "Unknown lengths and many short trials: those finish soon, long jobs are preempted repeatedly.",
    knobs: &[
        KnobInfo {
            name: "quantum_s",
            values: "seconds",
            default: "3600",
            help: "minimum run time, and minimum lead over a waiting job (in device-seconds) for preemption",
        },
        MIN_RUN,
        VICTIMS,
    ],
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| {
        let quantum_s = args.settings.parsed("quantum_s", 3600.0, "seconds above 0", is_positive)?;
        let rules = victim_rules(args.settings)?;
        let rules = VictimRules { min_run_s: rules.min_run_s.max(quantum_s), ..rules };
        Ok(Box::new(Priority::new(Las { quantum_s }, args.placer(), Backfill::Greedy).with_victims(rules)))
    },
};

pub(super) const TIRESIAS: PolicyInfo = PolicyInfo {
    name: "tiresias",
    summary: "discretised two-dimensional LAS: queues by attained device-seconds",
    paper: "Gu et al., Tiresias, NSDI'19",
    explanation: "A job starts in the first queue and sinks into the next one when its device-seconds reach the queue's \
        limit. Queues are served in order, first come first served in each; a job is preempted only by one of a higher \
        queue, so there are few preemptions and no durations need to be known.",
    must_know: "no job lengths",
    advice: "As las with fewer restarts: the default choice if lengths are unknown.",
    knobs: &[
        KnobInfo {
            name: "queue_limits_s",
            values: "device-seconds, ascending, separated by `:`",
            default: "3250:7200",
            help: "service at which a job leaves each queue except the last",
        },
        KnobInfo {
            name: "gputime",
            values: "on|off",
            default: "on",
            help: "unit of service: device-seconds (`on`) or seconds",
        },
        MIN_RUN,
        VICTIMS,
    ],
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| {
        let limits_s = queue_limits(args.settings)?;
        let by_devices = args.settings.switch("gputime", true)?;
        greedy(Tiresias { limits_s, by_devices }, args)
    },
};

pub(super) const GITTINS: PolicyInfo = PolicyInfo {
    name: "gittins",
    summary: "Gittins index from the service that finished jobs needed, preemptive",
    paper: "Gu et al., Tiresias, NSDI'19; Gittins 1979",
    explanation: "A job's index is the best ratio, over all further amounts of service, of its chance to finish within that \
        amount to the service expected to be spent on it. Chances are learned from the jobs that have finished (first after \
        16, then at every doubling); until then less attained service goes first. Service is discretised into levels that \
        double from 60 device-seconds on.",
    must_know: "lengths of finished jobs",
    advice: "As tiresias, if the cluster's history predicts the lengths of jobs.",
    knobs: &[PREEMPT_RATIO, MIN_RUN, VICTIMS],
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| greedy(Gittins::new(preempt_ratio(args.settings)?), args),
};

fn greedy<R: Rank + 'static>(rank: R, args: &BuildArgs<'_>) -> Result<Box<dyn Policy>, BadSetting> {
    let rules = victim_rules(args.settings)?;
    Ok(Box::new(Priority::new(rank, args.placer(), Backfill::Greedy).with_victims(rules)))
}

fn victim_rules(settings: &Settings) -> Result<VictimRules, BadSetting> {
    let is_cheap = settings.choice("victims", &[("order", false), ("cheap", true)], false)?;
    Ok(VictimRules { min_run_s: min_run_s(settings)?, is_cheap })
}

fn shortest_remaining(args: &BuildArgs<'_>, by_service: bool) -> Result<Box<dyn Policy>, BadSetting> {
    let preempt_ratio = preempt_ratio(args.settings)?;
    greedy(ShortestRemaining { by_service, preempt_ratio }, args)
}

pub(super) fn preempt_ratio(settings: &Settings) -> Result<f64, BadSetting> {
    settings.parsed("preempt_ratio", 2.0, "a ratio of at least 1", |&ratio: &f64| {
        ratio.is_finite() && ratio >= 1.0
    })
}

/// Seconds of waiting for one level of priority; `None` where no waiting makes up for it.
pub(super) fn age_s(settings: &Settings) -> Result<Option<f64>, BadSetting> {
    let age_s = settings.parsed("age_s", 0.0, "seconds, 0 or more", is_not_negative)?;
    Ok((age_s > 0.0).then_some(age_s))
}

pub(super) fn min_run_s(settings: &Settings) -> Result<f64, BadSetting> {
    settings.parsed("min_run_s", 0.0, "seconds, 0 or more", is_not_negative)
}

pub(super) fn is_not_negative(value: &f64) -> bool {
    value.is_finite() && *value >= 0.0
}

pub(super) fn is_positive(value: &f64) -> bool {
    value.is_finite() && *value > 0.0
}

pub(super) fn queue_limits(settings: &Settings) -> Result<Vec<f64>, BadSetting> {
    let text = settings.get("queue_limits_s").unwrap_or("3250:7200");
    let limits: Option<Vec<f64>> =
        text.split(':').map(|limit| limit.trim().parse().ok().filter(is_positive)).collect();
    limits.filter(|limits| limits.is_sorted()).ok_or_else(|| BadSetting {
        key: "queue_limits_s".to_owned(),
        value: text.to_owned(),
        expected: "ascending device-seconds separated by `:`, such as 3250:7200".to_owned(),
    })
}
