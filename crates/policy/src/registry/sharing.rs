//! Policies that put several jobs on one device.

use wharf_core::Policy;
use wharf_perf::Sharing;

use super::priority::{MIN_RUN, PREEMPT_RATIO, is_positive, min_run_s, preempt_ratio, queue_limits};
use super::{BuildArgs, KnobInfo, PolicyInfo};
use crate::antman::AntMan;
use crate::muri::{Muri, MuriOptions, Service};
use crate::pairing::{Memory, Pairing, PairingOptions};
use crate::rebuild::Rebuild;
use crate::settings::BadSetting;

pub(super) const ANTMAN: PolicyInfo = PolicyInfo {
    name: "antman",
    summary: "guaranteed jobs first in, first out; opportunistic jobs in the gaps they leave",
    paper: "Xiao et al., AntMan, OSDI'20",
    explanation: "Jobs with a negative priority are opportunistic, all others guaranteed. A device holds at most one job of \
        each kind; a guaranteed job runs as if it were alone. Guaranteed jobs are served in the order of submission. The first \
        one that does not fit reserves the nodes on which most devices are without a guaranteed job; later ones may start \
        elsewhere, so it is passed but never delayed. Opportunistic jobs start, in their order, wherever there is no \
        other opportunistic job: on idle devices if they can, else beside guaranteed jobs. Nothing is preempted.",
    must_know: "no job lengths",
    advice: "Guaranteed jobs that must not be disturbed, and others that may use the remaining devices.",
    knobs: &[],
    slots: 2,
    is_elastic: false,
    sharing: Sharing::Opportunistic,
    build: |args| Ok(Box::new(AntMan::new(args.placer()))),
};

const ORDERING: KnobInfo = KnobInfo {
    name: "ordering",
    values: "best|worst",
    default: "best",
    help: "order in which the members of a group take turns",
};

const BLOSSOM: KnobInfo = KnobInfo {
    name: "blossom",
    values: "on|off",
    default: "on",
    help: "whether partners come from maximum-weight matching, or are neighbours in the order",
};

const AUTOPACK: KnobInfo = KnobInfo {
    name: "autopack",
    values: "on|off",
    default: "on",
    help: "whether a group must be faster than its members one after the other",
};

const PACKING_NUM: KnobInfo =
    KnobInfo { name: "packing_num", values: "1..4", default: "4", help: "most jobs in a group" };

const ROUND_S: KnobInfo = KnobInfo {
    name: "round_s",
    values: "seconds",
    default: "360",
    help: "time between two rounds; only at rounds are running jobs regrouped or stopped",
};

const QUEUES: KnobInfo = KnobInfo {
    name: "queues",
    values: "service|tiresias",
    default: "service",
    help: "whether jobs are ordered by attained service itself, or by Tiresias' queues of it",
};

const QUEUE_LIMITS: KnobInfo = KnobInfo {
    name: "queue_limits_s",
    values: "device-seconds, ascending, separated by `:`",
    default: "3250:7200",
    help: "service at which a job leaves each queue except the last, with `queues=tiresias`",
};

pub(super) const MURI_S: PolicyInfo = PolicyInfo {
    name: "muri-s",
    summary: "interleaves jobs with complementary stages on shared devices; shortest remaining service first",
    paper: "Zhao et al., Muri, SIGCOMM'22",
    explanation: "At every round, the first jobs in the order of remaining service (time x devices) that the cluster could hold \
        in full groups are chosen. While they need more devices than there are, jobs of equal gangs are joined: a \
        maximum-weight matching picks the partners that leave storage, CPU, device and network idle least, first in pairs, \
        then pairs of pairs. Members of a group take turns on the resources and advance in lockstep. A group \
        whose members are all chosen again stays as it is; other changes cost each member a restart. A running job \
        counts as preempt_ratio times shorter than it is. Running groups are split when devices are to spare and \
        a round is long enough to make up for the restart. Between rounds free devices go to waiting jobs in order. \
        Jobs without stage times are never grouped.",
    must_know: "remaining work, stages of an iteration",
    advice: "Short of devices, with jobs that use different resources: groups of them interleave. Lengths must be known.",
    knobs: &[ORDERING, BLOSSOM, AUTOPACK, PACKING_NUM, ROUND_S, PREEMPT_RATIO, MIN_RUN],
    slots: 4,
    is_elastic: false,
    sharing: Sharing::Lockstep,
    build: |args| muri(args, Service::Remaining),
};

pub(super) const MURI_L: PolicyInfo = PolicyInfo {
    name: "muri-l",
    summary: "as muri-s, with the least attained service first, without durations",
    paper: "Zhao et al., Muri, SIGCOMM'22",
    explanation: "As muri-s, but jobs are ordered by the service (time x devices) they have had. With queues=tiresias they are \
        ordered by queues of that service instead, first come first served in each.",
    must_know: "the stages of an iteration",
    advice: "As muri-s where lengths are not known.",
    knobs: &[ORDERING, BLOSSOM, AUTOPACK, PACKING_NUM, ROUND_S, PREEMPT_RATIO, MIN_RUN, QUEUES, QUEUE_LIMITS],
    slots: 4,
    is_elastic: false,
    sharing: Sharing::Lockstep,
    build: |args| {
        let is_queued = args.settings.choice("queues", &[("service", false), ("tiresias", true)], false)?;
        let limits_s = queue_limits(args.settings)?;
        muri(args, if is_queued { Service::Queues { limits_s } } else { Service::Attained })
    },
};

fn muri(args: &BuildArgs<'_>, service: Service) -> Result<Box<dyn Policy>, BadSetting> {
    let settings = args.settings;
    let round_s = settings.parsed("round_s", 360.0, "seconds above 0", is_positive)?;
    let packing = settings.parsed("packing_num", 4, "1, 2, 3 or 4", |packing| (1..=4).contains(packing))?;
    let muri = Muri::new(MuriOptions {
        service,
        packing,
        blossom: settings.switch("blossom", true)?,
        autopack: settings.switch("autopack", true)?,
        preempt_ratio: preempt_ratio(settings)?,
        round_s,
    });
    Ok(Box::new(Rebuild::new(muri, args.placer(), round_s, min_run_s(settings)?)))
}

const PREEMPT: KnobInfo = KnobInfo {
    name: "preempt",
    values: "on|off",
    default: "on",
    help: "whether a job without devices may stop running ones that need longer",
};

const DEVICE_MEMORY: KnobInfo = KnobInfo {
    name: "device_memory_mb",
    values: "MB",
    default: "49140",
    help: "memory of a device; two jobs share one only if both fit (unknown models take half)",
};

const PAIRING_KNOBS: &[KnobInfo] = &[PREEMPT, PREEMPT_RATIO, MIN_RUN, DEVICE_MEMORY];
const PAIRING_PAPER: &str = "Lai-JX/Scheduler (2024), derived from Muri's testbed";

pub(super) const SJF_FFS: PolicyInfo = PolicyInfo {
    name: "sjf-ffs",
    summary: "shortest remaining time first, two jobs per device wherever memory allows",
    paper: PAIRING_PAPER,
    explanation: "Jobs are served in the order of remaining time. One that finds too few idle devices takes those there are, and \
        shares devices that hold one other job if the memory of both fits, on the quietest nodes first (first-fit \
        sharing); their mutual slowdown is ignored. If that does not do either, running jobs that need \
        preempt_ratio times longer are stopped, the longest first, unless preempt=off.",
    must_know: "remaining work, slowdown of co-located jobs",
    advice: "Small jobs that leave devices half idle, and no time to search for good partners.",
    knobs: PAIRING_KNOBS,
    slots: 2,
    is_elastic: false,
    sharing: Sharing::Interference,
    build: |args| pairing(args, false, false),
};

pub(super) const SJF_FFSS: PolicyInfo = PolicyInfo {
    name: "sjf-ffss",
    summary: "as sjf-ffs, on one node if one has enough devices",
    paper: PAIRING_PAPER,
    explanation: "As sjf-ffs, but first on the node with the fewest sufficient usable devices; \
        only if there is none is the job spread over several.",
    must_know: "remaining work, slowdown of co-located jobs",
    advice: "As sjf-ffs with gangs that want to stay on one node.",
    knobs: PAIRING_KNOBS,
    slots: 2,
    is_elastic: false,
    sharing: Sharing::Interference,
    build: |args| pairing(args, false, true),
};

pub(super) const SJF_BSBF: PolicyInfo = PolicyInfo {
    name: "sjf-bsbf",
    summary: "shortest remaining time first, two jobs per device only where the pair gains by it",
    paper: PAIRING_PAPER,
    explanation: "As sjf-ffs, but a job shares devices only with running ones beside which the two end sooner, on average, than \
        one after the other, given what the performance model says about their interference; the best partners first \
        (best sharing, best fit).",
    must_know: "remaining work, slowdown of co-located jobs",
    advice: "As sjf-ffs, where a bad partner costs more than waiting.",
    knobs: PAIRING_KNOBS,
    slots: 2,
    is_elastic: false,
    sharing: Sharing::Interference,
    build: |args| pairing(args, true, false),
};

pub(super) const SJF_BSBFS: PolicyInfo = PolicyInfo {
    name: "sjf-bsbfs",
    summary: "as sjf-bsbf, on one node if one has enough devices",
    paper: PAIRING_PAPER,
    explanation: "As sjf-bsbf, but first on the node with the fewest sufficient usable devices; \
        only if there is none is the job spread over several.",
    must_know: "remaining work, slowdown of co-located jobs",
    advice: "As sjf-bsbf with gangs that want to stay on one node.",
    knobs: PAIRING_KNOBS,
    slots: 2,
    is_elastic: false,
    sharing: Sharing::Interference,
    build: |args| pairing(args, true, true),
};

fn pairing(
    args: &BuildArgs<'_>,
    only_beneficial: bool,
    consolidate: bool,
) -> Result<Box<dyn Policy>, BadSetting> {
    let ratio = preempt_ratio(args.settings)?;
    let options = PairingOptions {
        only_beneficial,
        consolidate,
        preempt_ratio: args.settings.switch("preempt", true)?.then_some(ratio),
        min_run_s: min_run_s(args.settings)?,
        memory: Memory {
            device_mb: args.settings.parsed("device_memory_mb", 49140.0, "MB above 0", is_positive)?,
        },
    };
    Ok(Box::new(Pairing::new(options, args.placer())))
}
