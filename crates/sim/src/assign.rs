//! Settings for several policies: each gets those that it has.

use std::collections::BTreeMap;

use wharf_external::Program;
use wharf_policy::Settings;
use wharf_policy::settings::split_policy;
use wharf_reproduce::find;

use crate::preset::{Preset, PresetMechanism, Rules};
use crate::run::RunError;

/// Settings by policy, and the settings that some policies do not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assigned {
    /// The settings of each policy.
    pub settings: BTreeMap<String, Settings>,
    /// The settings that were left out for some policies.
    pub partial: Vec<PartialSetting>,
}

/// A setting that only some of the policies have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialSetting {
    /// The setting.
    pub key: String,
    /// The policies that have it.
    pub with: Vec<String>,
    /// Those that do not.
    pub without: Vec<String>,
}

/// Gives each policy its settings: `KEY=VALUE` goes to all that have it, `POLICY.KEY=VALUE` to that policy.
///
/// # Errors
/// A policy that does not exist or is not among `policies`, and a setting that none of them has.
pub fn assign_settings(
    settings: &Settings,
    policies: &[String],
    preset: &Preset,
) -> Result<Assigned, RunError> {
    let known: Vec<Option<Vec<&str>>> =
        policies.iter().map(|policy| known_settings(policy, preset)).collect::<Result<_, _>>()?;
    let has = |place: usize, key: &str| known[place].as_ref().is_none_or(|known| known.contains(&key));
    let mut assigned = Assigned {
        settings: policies.iter().map(|policy| (policy.clone(), settings.of_policy(policy))).collect(),
        partial: Vec::new(),
    };
    for (key, _) in settings.iter() {
        if let Some((policy, own)) = split_policy(key) {
            let place = policies.iter().position(|known| known == policy);
            let place = place.ok_or_else(|| RunError::UnknownOwner {
                key: key.to_owned(),
                policy: policy.to_owned(),
                policies: policies.join(", "),
            })?;
            if !has(place, own) {
                return Err(unknown(own, policy, preset, known[place].as_deref()));
            }
            continue;
        }
        let (with, without): (Vec<usize>, Vec<usize>) =
            (0..policies.len()).partition(|&place| has(place, key));
        if with.is_empty() {
            let all: std::collections::BTreeSet<&str> = known.iter().flatten().flatten().copied().collect();
            let all: Vec<&str> = all.into_iter().collect();
            return Err(unknown(key, &policies.join(", "), preset, Some(&all)));
        }
        if without.is_empty() {
            continue;
        }
        let names =
            |places: &[usize]| places.iter().map(|&place| policies[place].clone()).collect::<Vec<_>>();
        let (with, without) = (names(&with), names(&without));
        for policy in &without {
            if let Some(settings) = assigned.settings.get_mut(policy) {
                settings.remove(key);
            }
        }
        assigned.partial.push(PartialSetting { key: key.to_owned(), with, without });
    }
    Ok(assigned)
}

fn unknown(key: &str, policy: &str, preset: &Preset, known: Option<&[&str]>) -> RunError {
    RunError::UnknownSetting {
        key: key.to_owned(),
        policy: policy.to_owned(),
        preset: preset.name.clone(),
        known: known.unwrap_or_default().iter().map(ToString::to_string).collect(),
    }
}

/// The settings of a policy under a preset; `None` for a program, which says itself which it has.
fn known_settings(policy: &str, preset: &Preset) -> Result<Option<Vec<&'static str>>, RunError> {
    Ok(Some(match &preset.mechanism {
        PresetMechanism::Wharf(_) if Program::is_named(policy) => return Ok(None),
        PresetMechanism::Wharf(_) => {
            let knobs = find(policy)?.knobs.iter().map(|knob| knob.name);
            knobs.chain(Rules::SETTINGS.iter().map(|&(key, _)| key)).collect()
        }
        PresetMechanism::Published(mechanism) => mechanism.setting_names().to_vec(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assign(set: &[&str], policies: &[&str]) -> Result<Vec<String>, String> {
        let settings = Settings::parse(set.iter().copied()).expect("settings");
        let policies: Vec<String> = policies.iter().map(ToString::to_string).collect();
        let preset = Preset::load("wharf").expect("a preset");
        let assigned = assign_settings(&settings, &policies, &preset).map_err(|error| error.to_string())?;
        let of = |(policy, settings): (&String, &Settings)| {
            let settings: Vec<String> =
                settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("{policy}: {}", settings.join(" "))
        };
        let partial = assigned.partial.iter().map(|one| format!("{} only {}", one.key, one.with.join(" ")));
        Ok(assigned.settings.iter().map(of).chain(partial).collect())
    }

    #[test]
    fn assign_settings_gives_each_policy_those_that_it_has() {
        for (set, expected) in [
            (&["restart_s=5"][..], &["fifo: restart_s=5", "tiresias: restart_s=5"][..]),
            (
                &["queue_limits_s=300:900"],
                &["fifo: ", "tiresias: queue_limits_s=300:900", "queue_limits_s only tiresias"],
            ),
            (&["tiresias.queue_limits_s=300:900"], &["fifo: ", "tiresias: queue_limits_s=300:900"]),
            (&["restart_s=5", "fifo.restart_s=7"], &["fifo: restart_s=7", "tiresias: restart_s=5"]),
            (&[], &["fifo: ", "tiresias: "]),
        ] {
            assert_eq!(assign(set, &["fifo", "tiresias"]).unwrap(), expected, "{set:?}");
        }
    }

    #[test]
    fn assign_settings_rejects_what_no_policy_has() {
        for (set, expected) in [
            (
                "las.restart_s=1",
                "`las.restart_s` is for policy `las`, which is not simulated; those that are: fifo, tiresias",
            ),
            (
                "nope.x=1",
                "`nope.x` is for policy `nope`, which is not simulated; those that are: fifo, tiresias",
            ),
            (
                "fifo.queue_limits_s=1",
                "`queue_limits_s` is not a setting of policy `fifo` under preset `wharf`",
            ),
            (
                "queue_limit_s=1",
                "`queue_limit_s` is not a setting of policy `fifo, tiresias` under preset `wharf`",
            ),
        ] {
            assert_eq!(assign(&[set], &["fifo", "tiresias"]).unwrap_err(), expected, "{set}");
        }
        assert_eq!(
            assign(&["x.y=1"], &["./mine.py"]).unwrap_err(),
            "`x.y` is for policy `x`, which is not simulated; those that are: ./mine.py"
        );
        assert_eq!(assign(&["./mine.py.y=1"], &["./mine.py"]).unwrap(), ["./mine.py: y=1"]);
    }
}
