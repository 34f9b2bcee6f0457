//! Fair-share policies.

use std::collections::BTreeMap;

use wharf_perf::Sharing;

use super::priority::{
    AGE, MIN_RUN, PREEMPT_RATIO, age_s, is_not_negative, is_positive, min_run_s, preempt_ratio,
};
use super::{KnobInfo, PolicyInfo};
use crate::fair::{Fair, FairOptions, Preempt, Shares};
use crate::settings::{BadSetting, Settings};
use crate::themis::Themis;

pub(super) const FAIR: PolicyInfo = PolicyInfo {
    name: "fair",
    summary: "fair shares by user and group: the next devices go to the user with the least usage for their weight",
    paper: "folklore; decayed usage: Kay and Lauder, A Fair Share Scheduler, CACM 1988",
    explanation: "Usage, in device-seconds, is charged to the job's user and to the user's group, and decays: after \
        half_life_s it counts half. Running jobs are included, and charged for ahead_s in advance. Free devices go to the \
        group with the least usage per weight, and within it to the user with the least; a user without a group counts as \
        a group of one. A user's own jobs go by priority, then by submission; with age_s waiting makes up for priority. \
        Usage by jobs that ended before the policy took over is dated to their ends.\n\n\
        A gang that does not fit is passed over, until it has waited for reserve_after_s: then the nodes with the most free devices are \
        kept for it, and for further ones on up to a quarter of the nodes. With preempt=on a job that does not fit takes the devices of users who have used \
        preempt_ratio times more of their share, if it fits then, and if they are not the worse off afterwards.",
    must_know: "no job lengths",
    advice: "Several users or groups that share a cluster over days.",
    knobs: &[
        KnobInfo {
            name: "weights",
            values: "user=weight, separated by `,`",
            default: "",
            help: "weights of users; 1 for others",
        },
        KnobInfo {
            name: "groups",
            values: "user=group, separated by `,`",
            default: "",
            help: "groups of users; other users count as groups of one",
        },
        KnobInfo {
            name: "group_weights",
            values: "group=weight, separated by `,`",
            default: "",
            help: "weights of groups; 1 for others",
        },
        KnobInfo {
            name: "half_life_s",
            values: "seconds",
            default: "604800",
            help: "half-life of usage; 0: no decay",
        },
        KnobInfo {
            name: "ahead_s",
            values: "seconds",
            default: "3600",
            help: "time for which running devices are charged in advance; larger values balance current use, smaller ones past use",
        },
        AGE,
        KnobInfo {
            name: "reserve_after_s",
            values: "seconds",
            default: "600",
            help: "waiting time after which nodes are reserved for a job that does not fit",
        },
        KnobInfo {
            name: "preempt",
            values: "on|off",
            default: "off",
            help: "whether jobs of users far above their share are preempted",
        },
        PREEMPT_RATIO,
        MIN_RUN,
    ],
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| {
        let settings = args.settings;
        let seconds = |key, default| settings.parsed(key, default, "seconds, 0 or more", is_not_negative);
        let (ratio, min_run_s) = (preempt_ratio(settings)?, min_run_s(settings)?);
        let options = FairOptions {
            shares: Shares {
                users: weights(settings, "weights")?,
                groups: weights(settings, "group_weights")?,
                group_of: pairs(settings, "groups", "user=group", |group| Some(group.to_owned()))?,
            },
            half_life_s: seconds("half_life_s", 604_800.0)?,
            ahead_s: seconds("ahead_s", 3600.0)?,
            age_s: age_s(settings)?,
            reserve_after_s: seconds("reserve_after_s", 600.0)?,
            preempt: settings.switch("preempt", false)?.then_some(Preempt { ratio, min_run_s }),
        };
        Ok(Box::new(Fair::new(options, args.placer())))
    },
};

pub(super) fn weights(settings: &Settings, key: &str) -> Result<BTreeMap<String, f64>, BadSetting> {
    pairs(settings, key, "name=weight, weights above 0", |weight| weight.parse().ok().filter(is_positive))
}

/// A setting such as `alice=2,bob=1`.
fn pairs<T>(
    settings: &Settings,
    key: &str,
    expected: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<BTreeMap<String, T>, BadSetting> {
    let text = settings.get(key).unwrap_or_default();
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let pair = |entry: &str| {
        let (name, value) = entry.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        (!name.is_empty() && !value.is_empty()).then(|| Some((name.to_owned(), parse(value)?)))?
    };
    entries.map(pair).collect::<Option<_>>().ok_or_else(|| BadSetting {
        key: key.to_owned(),
        value: text.to_owned(),
        expected: format!("{expected}, separated by `,`"),
    })
}

pub(super) const THEMIS: PolicyInfo = PolicyInfo {
    name: "themis",
    summary: "finish-time fairness: devices are leased, the worst-off jobs are offered them first",
    paper: "Mahajan et al., Themis, NSDI'20",
    explanation: "A job's finish-time fairness is the time it will have taken if it runs from now on, divided by the time it \
        would have taken with its fair share of the cluster (devices / jobs) from the beginning. Devices are leased; leases \
        end at common boundaries. Then the worst-off jobs, a fraction of 1 - fairness_knob of those who wait or whose lease \
        is over, are offered free devices and the devices of those who are not among them. Who is not outbid keeps its \
        devices without a restart. What is left goes to waiting jobs, the worst-off first, at boundaries and in between.\n\n\
        The paper holds an auction in which applications bid with fairness values for many sizes of allocations, and \
        hides some of the gain to make bids truthful. Here jobs are rigid gangs and durations are known, so that a \
        bid is all or nothing, and the auction comes down to serving the invited jobs in order of need.",
    must_know: "remaining work",
    advice: "Long jobs of many users, each of whom should fare no worse than with a private part of the cluster.",
    knobs: &[
        KnobInfo {
            name: "lease_s",
            values: "seconds",
            default: "1200",
            help: "lease of devices: time between two boundaries",
        },
        KnobInfo {
            name: "fairness_knob",
            values: "0..1",
            default: "0.8",
            help: "share of jobs without an offer; larger is fairer, smaller gives more choice",
        },
        MIN_RUN,
    ],
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| {
        let lease_s = args.settings.parsed("lease_s", 1200.0, "seconds above 0", is_positive)?;
        let is_share = |share: &f64| (0.0..=1.0).contains(share);
        let knob = args.settings.parsed("fairness_knob", 0.8, "a number from 0 to 1", is_share)?;
        Ok(Box::new(Themis::new(lease_s, knob, min_run_s(args.settings)?, args.placer())))
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_pairs() {
        let parse = |text: &str| {
            let mut settings = Settings::default();
            settings.set("weights", text);
            weights(&settings, "weights")
        };
        let expected = BTreeMap::from([("alice".to_owned(), 2.0), ("bob".to_owned(), 0.5)]);
        assert_eq!(parse("alice=2, bob=0.5,"), Ok(expected));
        assert_eq!(parse(""), Ok(BTreeMap::new()));
        for bad in ["alice", "alice=", "=1", "alice=0", "alice=-1", "alice=inf", "alice=1;bob=2"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
