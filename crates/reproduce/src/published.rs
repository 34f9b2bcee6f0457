//! Policy names of published systems, and the policies that implement them here.

use std::fmt;
use std::str::FromStr;

/// A published system whose policies have names of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Crius (Arena): simulator and runtime.
    Crius,
    /// Muri, and the cluster scheduler derived from it.
    Muri,
    /// Gavel.
    Gavel,
}

/// A policy as a published system names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedPolicy {
    /// The system.
    pub system: System,
    /// Its name there.
    pub name: &'static str,
    /// The policy here.
    pub policy: &'static str,
    /// Settings that make the policy here behave like the published one, as `KEY=VALUE`.
    pub settings: &'static [&'static str],
    /// A difference to the published policy, or another policy here that is close to it; may be empty.
    pub note: &'static str,
}

impl System {
    /// All systems.
    pub const ALL: [Self; 3] = [Self::Crius, Self::Muri, Self::Gavel];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crius => "crius",
            Self::Muri => "muri",
            Self::Gavel => "gavel",
        }
    }

    /// The name in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Crius => "Crius",
            Self::Muri => "Muri",
            Self::Gavel => "Gavel",
        }
    }

    /// Its policies, in the order in which they are listed.
    pub const fn policies(self) -> &'static [PublishedPolicy] {
        match self {
            Self::Crius => CRIUS,
            Self::Muri => MURI,
            Self::Gavel => GAVEL,
        }
    }

    /// The policy that has this name there.
    pub fn find(self, name: &str) -> Option<&'static PublishedPolicy> {
        self.policies().iter().find(|policy| policy.name == name)
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

impl FromStr for System {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|system| system.name() == name).ok_or(())
    }
}

impl PublishedPolicy {
    /// The options that select it here: `--policy muri-l --set blossom=off`.
    pub fn options(&self) -> String {
        let set = self.settings.iter().map(|setting| format!(" --set {setting}"));
        format!("--policy {}{}", self.policy, set.collect::<String>())
    }
}

/// The policies that have this name in published systems.
pub fn published(name: &str) -> impl Iterator<Item = &'static PublishedPolicy> {
    System::ALL.into_iter().filter_map(move |system| system.find(name))
}

const fn of(system: System, name: &'static str, policy: &'static str) -> PublishedPolicy {
    PublishedPolicy { system, name, policy, settings: &[], note: "" }
}

const fn crius(name: &'static str, policy: &'static str, note: &'static str) -> PublishedPolicy {
    PublishedPolicy { note, ..of(System::Crius, name, policy) }
}

const fn muri(name: &'static str, policy: &'static str) -> PublishedPolicy {
    of(System::Muri, name, policy)
}

/// A policy of the derived scheduler that shares devices without preemption.
const fn no_preempt(name: &'static str, policy: &'static str) -> PublishedPolicy {
    PublishedPolicy { settings: &["preempt=off"], ..muri(name, policy) }
}

/// A policy of the derived scheduler that shares devices, two jobs to each.
const fn shared(name: &'static str, policy: &'static str) -> PublishedPolicy {
    PublishedPolicy { note: "with `-m` there: workers use MPS where it works", ..muri(name, policy) }
}

const fn gavel(name: &'static str, policy: &'static str) -> PublishedPolicy {
    of(System::Gavel, name, policy)
}

const CRIUS: &[PublishedPolicy] = &[
    crius("crius", "crius", "`crius/crius` decides as published, defects included"),
    crius("crius-dp", "crius-dp", ""),
    crius("crius-ns", "crius-ns", ""),
    crius("crius-nh", "crius-nh", ""),
    crius("crius-no", "crius-no", ""),
    crius("crius-nm", "crius-nm", ""),
    crius("crius-ddl", "crius-ddl", ""),
    crius("fcfs", "crius/fcfs", "`fifo` starts jobs at once, not in rounds"),
    crius("fcfs-r", "crius/fcfs-r", ""),
    crius("gandiva", "crius/gandiva", "`gandiva` is Gandiva as Gavel has it"),
    crius("elasticflow", "crius/elasticflow", "`elasticflow` is ElasticFlow as its paper has it"),
    crius("elasticflow-l", "crius/elasticflow-l", "`elasticflow-l` is ElasticFlow as its paper has it"),
    crius("gavel", "crius/gavel", "`max-sum-throughput-perf` is Gavel's own policy of that objective"),
    crius("sia", "crius/sia", "`sia` is Sia as its paper has it"),
];

const MURI: &[PublishedPolicy] = &[
    muri("shortest", "srtf"),
    muri("shortest-gpu", "srsf"),
    muri("dlas-gpu", "tiresias"),
    muri("multi-resource-blossom-same-gpu", "muri-s"),
    muri("multi-resource-blossom-same-gpu-unaware", "muri-l"),
    PublishedPolicy {
        settings: &["ordering=worst"],
        ..muri("multi-resource-blossom-same-gpu-unaware-worstordering", "muri-l")
    },
    PublishedPolicy { settings: &["blossom=off"], ..muri("multi-resource-gpu-unaware", "muri-l") },
    muri("themis", "themis"),
    muri("antman", "antman"),
    muri("fifo", "fifo"),
    PublishedPolicy { note: "`sjf` does not preempt", ..muri("sjf", "srtf") },
    PublishedPolicy { settings: &["queue_limits_s=700", "gputime=off"], ..muri("Tiresias", "tiresias") },
    shared("sjf-ffs", "sjf-ffs"),
    no_preempt("sjf-ffs-no-preempt", "sjf-ffs"),
    shared("sjf-ffss", "sjf-ffss"),
    no_preempt("sjf-ffss-no-preempt", "sjf-ffss"),
    shared("sjf-bsbf", "sjf-bsbf"),
    no_preempt("sjf-bsbf-no-preempt", "sjf-bsbf"),
    shared("sjf-bsbfs", "sjf-bsbfs"),
    no_preempt("sjf-bsbfs-no-preempt", "sjf-bsbfs"),
];

const GAVEL: &[PublishedPolicy] = &[
    PublishedPolicy { note: "`fifo` does not share time", ..gavel("fifo", "gavel/fifo") },
    gavel("fifo_perf", "fifo-perf"),
    gavel("fifo_packed", "fifo-packed"),
    gavel("isolated", "isolated"),
    gavel("max_min_fairness", "max-min-fairness"),
    gavel("max_min_fairness_perf", "max-min-fairness-perf"),
    gavel("max_min_fairness_packed", "max-min-fairness-packed"),
    gavel("max_min_fairness_water_filling", "max-min-fairness-water-filling"),
    gavel("max_min_fairness_water_filling_perf", "max-min-fairness-water-filling-perf"),
    gavel("max_min_fairness_water_filling_packed", "max-min-fairness-water-filling-packed"),
    gavel("finish_time_fairness", "finish-time-fairness"),
    gavel("finish_time_fairness_perf", "finish-time-fairness-perf"),
    gavel("finish_time_fairness_packed", "finish-time-fairness-packed"),
    gavel("min_total_duration", "min-total-duration"),
    gavel("min_total_duration_perf", "min-total-duration-perf"),
    gavel("min_total_duration_packed", "min-total-duration-packed"),
    gavel("max_sum_throughput_perf", "max-sum-throughput-perf"),
    gavel("max_sum_throughput_normalized_by_cost_perf", "max-sum-throughput-normalized-by-cost-perf"),
    gavel(
        "max_sum_throughput_normalized_by_cost_perf_SLOs",
        "max-sum-throughput-normalized-by-cost-perf-slos",
    ),
    gavel("allox", "allox"),
    gavel("gandiva", "gandiva"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::crius::decisions::VARIANTS;
    use crate::find;
    use wharf_policy::{BuildArgs, Settings, Strategy};

    #[test]
    fn every_published_name_is_unique_in_its_system_and_builds_here() {
        for system in System::ALL {
            let names: BTreeSet<&str> = system.policies().iter().map(|policy| policy.name).collect();
            assert_eq!(names.len(), system.policies().len(), "{system}");
            for policy in system.policies() {
                let info = find(policy.policy).unwrap_or_else(|error| panic!("{system}: {error}"));
                let settings = Settings::parse(policy.settings.iter().copied());
                let settings = settings.unwrap_or_else(|error| panic!("{system}: {error}"));
                for (key, _) in settings.iter() {
                    assert!(info.knobs.iter().any(|knob| knob.name == key), "{}: {key}", policy.name);
                }
                let args = BuildArgs { settings: &settings, placement: Strategy::default(), seed: 0 };
                assert!((info.build)(&args).is_ok(), "{}", policy.options());
                assert_eq!(policy.system, system);
            }
        }
    }

    #[test]
    fn crius_names_are_those_of_its_preset() {
        let names: BTreeSet<&str> = CRIUS.iter().map(|policy| policy.name).collect();
        assert_eq!(names, VARIANTS.iter().map(|variant| variant.name).collect());
    }

    #[test]
    fn name_of_several_systems_is_found_in_each() {
        let found = |name: &str| -> Vec<String> {
            published(name).map(|policy| format!("{} {}", policy.system, policy.options())).collect()
        };
        assert_eq!(found("gavel"), ["Crius --policy crius/gavel"]);
        assert_eq!(found("shortest"), ["Muri --policy srtf"]);
        assert_eq!(found("multi-resource-gpu-unaware"), ["Muri --policy muri-l --set blossom=off"]);
        assert_eq!(found("gandiva"), ["Crius --policy crius/gandiva", "Gavel --policy gandiva"]);
        assert_eq!(found("nothing"), [""; 0]);
    }
}
