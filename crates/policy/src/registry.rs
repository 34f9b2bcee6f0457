//! Every policy by name: what it is, whose it is, which knobs it has, and how it is made.

use wharf_core::Policy;
use wharf_perf::Sharing;

use crate::attained::{Las, Tiresias};
use crate::fifo::Fifo;
use crate::gittins::Gittins;
use crate::placement::{Placer, Strategy};
use crate::priority::{Backfill, Priority, Rank};
use crate::settings::{BadSetting, Settings};
use crate::shortest::{ShortestRemaining, Sjf};

/// What people are told about a policy, and how it is made.
pub struct PolicyInfo {
    /// The name in files, on the command line and in reports: as its paper names it.
    pub name: &'static str,
    /// One line: what it does.
    pub summary: &'static str,
    /// Where it was published.
    pub paper: &'static str,
    /// How it decides, in a paragraph or two.
    pub explanation: &'static str,
    /// What can be set with `--set`.
    pub knobs: &'static [KnobInfo],
    /// Most jobs that it puts on one device.
    pub slots: usize,
    /// What sharing a device means under it.
    pub sharing: Sharing,
    /// Makes it.
    pub build: fn(&BuildArgs<'_>) -> Result<Box<dyn Policy>, BadSetting>,
}

/// One setting of a policy.
#[derive(Debug)]
pub struct KnobInfo {
    /// The key in `--set key=value`.
    pub name: &'static str,
    /// What it takes, for people: `on|off`, `1..4`, `seconds`.
    pub values: &'static str,
    /// What holds where it is not set.
    pub default: &'static str,
    /// One line: what it changes.
    pub help: &'static str,
}

/// What a policy is made from.
pub struct BuildArgs<'a> {
    /// Overrides of its knobs.
    pub settings: &'a Settings,
    /// Where gangs go.
    pub placement: Strategy,
    /// For everything drawn at random.
    pub seed: u64,
}

impl BuildArgs<'_> {
    /// A placer of the chosen strategy.
    pub fn placer(&self) -> Box<dyn Placer> {
        self.placement.placer(self.seed)
    }
}

/// There is no policy of that name.
#[derive(Debug, thiserror::Error)]
#[error("no policy is named `{name}`")]
pub struct UnknownPolicy {
    /// The name that was asked for.
    pub name: String,
    /// The closest name that exists, where one is close.
    pub nearest: Option<&'static str>,
}

/// All policies, in the order in which they are listed.
pub fn policies() -> &'static [PolicyInfo] {
    POLICIES
}

/// The policy of that name.
///
/// # Errors
/// [`UnknownPolicy`] with the nearest name where there is none.
pub fn find(name: &str) -> Result<&'static PolicyInfo, UnknownPolicy> {
    POLICIES.iter().find(|policy| policy.name == name).ok_or_else(|| UnknownPolicy {
        name: name.to_owned(),
        nearest: nearest(name, POLICIES.iter().map(|policy| policy.name)),
    })
}

/// The candidate with the fewest edits to `name`, where that is few enough to be a slip of the hand.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.len() / 3).max(1);
    candidates
        .map(|candidate| (edits(name, candidate), candidate))
        .filter(|&(cost, _)| cost <= limit)
        .min()
        .map(|(_, name)| name)
}

/// Levenshtein distance.
fn edits(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

const BACKFILL: KnobInfo = KnobInfo {
    name: "backfill",
    values: "off|greedy|easy",
    default: "off",
    help: "what may start while the first job does not fit: nothing, anything, or what does not delay it",
};

const BACKFILL_DEPTH: KnobInfo = KnobInfo {
    name: "backfill_depth",
    values: "a count",
    default: "100",
    help: "how many waiting jobs `backfill=easy` looks at",
};

const PREEMPT_RATIO: KnobInfo = KnobInfo {
    name: "preempt_ratio",
    values: "a ratio of at least 1",
    default: "2",
    help: "how many times worse a running job must rank than a waiting one to be preempted for it",
};

const POLICIES: &[PolicyInfo] = &[
    PolicyInfo {
        name: "fifo",
        summary: "first in, first out; strict, or with backfill",
        paper: "folklore; EASY backfill: Lifka, JSSPP 1995",
        explanation: "Jobs start in the order of their submission and run to their end. By default the order is strict: \
            while the first job does not fit, nothing behind it starts. With backfill=greedy whatever fits may start. With \
            backfill=easy a later job may start if it ends before the first one could start anyway, or uses devices \
            that the first one will not need.",
        knobs: &[BACKFILL, BACKFILL_DEPTH],
        slots: 1,
        sharing: Sharing::None,
        build: |args| {
            let depth =
                args.settings.parsed("backfill_depth", 100, "a count of at least 1", |&depth| depth > 0)?;
            let choices =
                [("off", Backfill::Off), ("greedy", Backfill::Greedy), ("easy", Backfill::Easy { depth })];
            let backfill = args.settings.choice("backfill", &choices, Backfill::Off)?;
            Ok(Box::new(Priority::new(Fifo, args.placer(), backfill)))
        },
    },
    PolicyInfo {
        name: "sjf",
        summary: "shortest declared job first, without preemption",
        paper: "folklore",
        explanation: "Waiting jobs are ordered by the length their owners declare. A job that does not fit is passed over; \
            what runs is never disturbed.",
        knobs: &[],
        slots: 1,
        sharing: Sharing::None,
        build: |args| Ok(greedy(Sjf, args)),
    },
    PolicyInfo {
        name: "srtf",
        summary: "shortest remaining time first, preemptive",
        paper: "folklore; baseline of Tiresias (NSDI'19) and Muri (SIGCOMM'22)",
        explanation: "Jobs are ordered by the time they still need. A waiting job that does not fit takes the devices of \
            running jobs that need longer: the last ones in the order, as few as possible, on one node for a gang that fits \
            into one.",
        knobs: &[PREEMPT_RATIO],
        slots: 1,
        sharing: Sharing::None,
        build: |args| shortest_remaining(args, false),
    },
    PolicyInfo {
        name: "srsf",
        summary: "shortest remaining service (time x devices) first, preemptive",
        paper: "baseline of Tiresias (NSDI'19) and Muri (SIGCOMM'22)",
        explanation: "As srtf, with the remaining time multiplied by the number of devices: a small gang goes before a large \
            one of equal length.",
        knobs: &[PREEMPT_RATIO],
        slots: 1,
        sharing: Sharing::None,
        build: |args| shortest_remaining(args, true),
    },
    PolicyInfo {
        name: "las",
        summary: "least attained service first, preemptive, knows no durations",
        paper: "Nuyens and Wierman, Performance Evaluation 2008",
        explanation: "Jobs are ordered by the device-seconds they have had so far. A running job makes room once it is a \
            quantum ahead of a waiting one; running and waiting jobs are compared once per quantum.",
        knobs: &[KnobInfo {
            name: "quantum_s",
            values: "seconds",
            default: "3600",
            help: "how far ahead (in device-seconds) a running job must be, and how often (in seconds) to look",
        }],
        slots: 1,
        sharing: Sharing::None,
        build: |args| {
            let quantum_s = args.settings.parsed("quantum_s", 3600.0, "seconds above 0", is_positive)?;
            Ok(greedy(Las { quantum_s }, args))
        },
    },
    PolicyInfo {
        name: "tiresias",
        summary: "discretised two-dimensional LAS: queues by attained device-seconds",
        paper: "Gu et al., Tiresias, NSDI'19",
        explanation: "A job starts in the first queue and sinks into the next one when its device-seconds reach the queue's \
            limit. Queues are served in order, first come first served in each; a job is preempted only by one of a higher \
            queue, so there are few preemptions and no durations need to be known.",
        knobs: &[
            KnobInfo {
                name: "queue_limits_s",
                values: "device-seconds, ascending, separated by `:`",
                default: "3250:7200",
                help: "service at which a job leaves each queue but the last",
            },
            KnobInfo {
                name: "gputime",
                values: "on|off",
                default: "on",
                help: "whether service counts devices x seconds, or seconds alone",
            },
        ],
        slots: 1,
        sharing: Sharing::None,
        build: |args| {
            let limits_s = queue_limits(args.settings)?;
            let by_devices = args.settings.switch("gputime", true)?;
            Ok(greedy(Tiresias { limits_s, by_devices }, args))
        },
    },
    PolicyInfo {
        name: "gittins",
        summary: "Gittins index from the service that finished jobs needed, preemptive",
        paper: "Gu et al., Tiresias, NSDI'19; Gittins 1979",
        explanation: "A job's index is the best ratio, over all further amounts of service, of its chance to finish within that \
            amount to the service expected to be spent on it. Chances are learned from the jobs that have finished (first after \
            16, then at every doubling); until then less attained service goes first. Service is discretised into levels that \
            double from 60 device-seconds on.",
        knobs: &[PREEMPT_RATIO],
        slots: 1,
        sharing: Sharing::None,
        build: |args| Ok(greedy(Gittins::new(preempt_ratio(args)?), args)),
    },
];

fn greedy<R: Rank + 'static>(rank: R, args: &BuildArgs<'_>) -> Box<dyn Policy> {
    Box::new(Priority::new(rank, args.placer(), Backfill::Greedy))
}

fn shortest_remaining(args: &BuildArgs<'_>, by_service: bool) -> Result<Box<dyn Policy>, BadSetting> {
    Ok(greedy(ShortestRemaining { by_service, preempt_ratio: preempt_ratio(args)? }, args))
}

fn preempt_ratio(args: &BuildArgs<'_>) -> Result<f64, BadSetting> {
    args.settings.parsed("preempt_ratio", 2.0, "a ratio of at least 1", |&ratio| ratio >= 1.0)
}

fn is_positive(value: &f64) -> bool {
    value.is_finite() && *value > 0.0
}

fn queue_limits(settings: &Settings) -> Result<Vec<f64>, BadSetting> {
    let text = settings.get("queue_limits_s").unwrap_or("3250:7200");
    let limits: Option<Vec<f64>> =
        text.split(':').map(|limit| limit.trim().parse().ok().filter(is_positive)).collect();
    limits.filter(|limits| limits.is_sorted()).ok_or_else(|| BadSetting {
        key: "queue_limits_s".to_owned(),
        value: text.to_owned(),
        expected: "ascending device-seconds separated by `:`, such as 3250:7200".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_name_suggests_the_nearest() {
        for (name, nearest) in [("srtff", Some("srtf")), ("tiresia", Some("tiresias")), ("xyz", None)] {
            assert_eq!(find(name).err().and_then(|error| error.nearest), nearest, "{name}");
        }
    }

    #[test]
    fn every_policy_builds_with_its_defaults() {
        let settings = Settings::default();
        for policy in policies() {
            let args = BuildArgs { settings: &settings, placement: Strategy::default(), seed: 0 };
            assert!((policy.build)(&args).is_ok(), "{}", policy.name);
        }
    }
}
