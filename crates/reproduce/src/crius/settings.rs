//! What a run of this mechanism can be asked for.

use super::decisions::{Fixes, Options, Tuning, Variant};
use serde::Deserialize;
use wharf_policy::{BadSetting, Settings as Overrides};

/// The `[crius]` table of a preset.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// Seconds of a round.
    pub round_s: f64,
    /// What the iterations of a trace are divided by.
    pub iterations_divisor: f64,
    /// How many times as far as in the trace a deadline is.
    pub deadline_factor: f64,
    /// Seconds until the deadline, where there is all the time in the world.
    pub loose_deadline_s: f64,
    /// Most devices of a job.
    pub devices_max: u32,
    /// Tuning with a pruned search space.
    pub pruned: TuningNumbers,
    /// Tuning of all other policies.
    pub unpruned: TuningNumbers,
    /// Tuning of all, with pruning switched off.
    pub disabled: TuningNumbers,
    /// The search.
    pub search: SearchNumbers,
    /// Profiling before a job may run, on one device.
    pub profiling: Profiling,
    /// The same on all the devices that are to be profiled.
    pub profiling_everywhere: Profiling,
}

/// What tuning costs.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningNumbers {
    /// Seconds per device.
    pub per_device_s: f64,
    /// Most seconds.
    pub most_s: f64,
}

impl From<TuningNumbers> for Tuning {
    fn from(numbers: TuningNumbers) -> Self {
        Self { per_device_s: numbers.per_device_s, most_s: numbers.most_s }
    }
}

/// Limits of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchNumbers {
    /// Rounds of rearranging in one search.
    pub local_eta: u32,
    /// Rounds of rearranging in one pass.
    pub global_eta: u32,
    /// Times that waiting jobs are gone through in one pass.
    pub restarts_max: u32,
    /// Upgrades in one pass.
    pub upgrades_max: u32,
}

/// What profiling a new job takes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profiling {
    /// Seconds.
    pub seconds: f64,
    /// Devices of each type.
    pub devices: u32,
}

/// A policy and what is set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The policy.
    pub policy: &'static Variant,
    /// Rounds after which the run ends; by the length of the trace where `None`.
    pub rounds: Option<u64>,
    /// Decides by what jobs are billed by.
    pub sched_with_opt: bool,
    /// What iterations are multiplied by.
    pub density: f64,
    /// Whether throughput is billed by the best plan, whatever the policy goes by.
    pub enable_alpa: bool,
    /// Whether the search space of tuning is pruned.
    pub ap_prune: bool,
    /// Whether jobs are profiled before they may run.
    pub prepend_profile_overhead: bool,
    /// Whether profiling takes all the devices that are to be profiled.
    pub disable_single_device_profiler: bool,
    /// Levels of the search; by the number of running jobs where `None`.
    pub depth: Option<u32>,
    /// Rounds of rearranging in one search.
    pub local_eta: u32,
    /// Rounds of rearranging in one pass.
    pub global_eta: u32,
    /// What is not done as published.
    pub fixes: Fixes,
}

impl Settings {
    /// What can be set by name.
    pub const NAMES: [&str; 14] = [
        "sched_with_opt",
        "density",
        "enable_alpa",
        "ap_prune",
        "prepend_profile_overhead",
        "disable_single_device_profiler",
        "depth",
        "local_eta",
        "global_eta",
        "fix_progress",
        "fix_overhead",
        "fix_gains",
        "fix_feasibility",
        "fix_retry",
    ];

    /// A policy with the preset's numbers and overrides.
    ///
    /// # Errors
    /// [`BadSetting`] names the first override that is out of its range.
    pub fn new(
        policy: &'static Variant,
        numbers: &Numbers,
        overrides: &Overrides,
        rounds: Option<u64>,
    ) -> Result<Self, BadSetting> {
        let switches = [("on", true), ("true", true), ("off", false), ("false", false)];
        let switch = |key: &str, default: bool| overrides.choice(key, &switches, default);
        let count = |key: &str, default: u32| overrides.parsed(key, default, "a whole number", |_| true);
        let density = overrides
            .parsed("density", 1.0, "a number above 0", |value: &f64| value.is_finite() && *value > 0.0)?;
        let depth = overrides.get("depth").map(|_| {
            overrides.parsed("depth", 0, "a number of levels from 1 to 16", |value| (1..=16).contains(value))
        });
        if !policy.is_crius {
            let own = ["ap_prune", "prepend_profile_overhead", "disable_single_device_profiler"];
            if let Some((key, value)) = overrides.iter().find(|(key, _)| own.contains(key)) {
                let expected = "no effect: only Crius's own policies prune and profile".to_owned();
                return Err(BadSetting { key: key.to_owned(), value: value.to_owned(), expected });
            }
        }
        Ok(Self {
            policy,
            rounds,
            sched_with_opt: switch("sched_with_opt", false)?,
            density,
            enable_alpa: switch("enable_alpa", true)?,
            ap_prune: switch("ap_prune", true)?,
            prepend_profile_overhead: switch("prepend_profile_overhead", false)?,
            disable_single_device_profiler: switch("disable_single_device_profiler", false)?,
            depth: depth.transpose()?,
            local_eta: count("local_eta", numbers.search.local_eta)?,
            global_eta: count("global_eta", numbers.search.global_eta)?,
            fixes: Fixes {
                progress: switch("fix_progress", false)?,
                overhead: switch("fix_overhead", false)?,
                gains: switch("fix_gains", false)?,
                feasibility: switch("fix_feasibility", false)?,
                retry: switch("fix_retry", false)?,
            },
        })
    }

    /// What the decisions are told.
    pub(super) fn options(&self, numbers: &Numbers) -> Options {
        self.policy.options(Options {
            sched_with_opt: self.sched_with_opt,
            round_s: numbers.round_s,
            devices_max: numbers.devices_max,
            pruned: numbers.pruned.into(),
            unpruned: numbers.unpruned.into(),
            fixes: self.fixes,
            depth: self.depth,
            local_budget: self.local_eta,
            global_budget: self.global_eta,
            restarts_max: numbers.search.restarts_max,
            upgrades_max: numbers.search.upgrades_max,
            ..Options::default()
        })
    }

    /// What profiling a new job takes, where that is to be paid for.
    pub(super) fn profiling(&self, numbers: &Numbers) -> Option<Profiling> {
        let numbers = match self.disable_single_device_profiler {
            true => numbers.profiling_everywhere,
            false => numbers.profiling,
        };
        self.prepend_profile_overhead.then_some(numbers)
    }

    /// What new devices cost a job.
    pub(super) fn tuning(&self, numbers: &Numbers) -> Tuning {
        match (self.ap_prune, self.policy.is_crius) {
            (false, _) => numbers.disabled.into(),
            (true, true) => numbers.pruned.into(),
            (true, false) => numbers.unpruned.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Numbers {
        let preset: toml::Table = toml::from_str(include_str!("../../../../presets/crius.toml")).unwrap();
        preset["crius"].clone().try_into().unwrap()
    }

    #[test]
    fn settings_are_checked() {
        let numbers = numbers();
        let policy = Variant::find("crius/fcfs").unwrap();
        let set = |text: &str| Settings::new(policy, &numbers, &Overrides::parse([text]).unwrap(), None);
        assert_eq!(set("density=0.05").unwrap().density, 0.05);
        assert_eq!(set("depth=4").unwrap().depth, Some(4));
        assert_eq!(set("local_eta=7").unwrap().options(&numbers).local_budget, 7);
        for bad in [
            "ap_prune=off",
            "prepend_profile_overhead=on",
            "density=0",
            "density=nan",
            "depth=0",
            "sched_with_opt=maybe",
            "local_eta=-1",
        ] {
            assert!(set(bad).is_err(), "{bad}");
        }
        assert_eq!(set("density=1").unwrap().tuning(&numbers).cost_s(8), 600.0);
    }
}
