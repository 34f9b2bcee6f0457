//! The policy of a head, from its name and settings.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use wharf_core::Regime;
use wharf_external::Program;
use wharf_head::{MakeRegime, PolicyChoice, UnusablePolicy};
use wharf_perf::Profile;
use wharf_policy::Settings;
use wharf_sim::Preset;
use wharf_sim::preset::Rules;

use crate::ForesightError;

/// Settings of events that happen by themselves on real machines.
const SIMULATED: &[&str] = &["checkpoint_interval_s", "node_mtbf_h", "node_repair_h", "failures"];

/// Default policy.
const DEFAULT: &str = "fifo";

/// Returns an error as one line with hints, as a head reports it to its clients.
pub type Describe = fn(ForesightError) -> String;

/// A policy, or the default one, with settings.
pub fn choice(policy: Option<&str>, settings: &Settings) -> PolicyChoice {
    PolicyChoice {
        name: policy.unwrap_or(DEFAULT).to_owned(),
        settings: settings.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
    }
}

/// The policy that a head is started with. A program is stored by its full path, because a head that is started again may have another
/// working directory.
///
/// # Errors
/// [`ForesightError::Program`] where the program is missing.
pub fn head_choice(policy: Option<&str>, settings: &Settings) -> Result<PolicyChoice, ForesightError> {
    let mut choice = choice(policy, settings);
    if Program::is_named(&choice.name) {
        let path = Path::new(&choice.name);
        let full = fs::canonicalize(path)
            .map_err(|source| ForesightError::Program { path: path.to_owned(), source })?;
        choice.name = full.to_string_lossy().into_owned();
    }
    Ok(choice)
}

/// Builds the policies of a head, with its seed and its profile. The only program that it runs as a policy is the one on its own command
/// line: permission to change the policy does not allow running programs on the head's machine.
pub fn maker(own: &PolicyChoice, seed: u64, profile: Option<Profile>, describe: Describe) -> MakeRegime {
    let own = own.name.clone();
    Arc::new(move |choice| {
        if Program::is_named(&choice.name) && choice.name != own {
            let reason = format!(
                "a head runs no policy program but the one it was started with: `wharf head --policy {}`",
                choice.name
            );
            return Err(UnusablePolicy { reason });
        }
        seeded(choice, seed, profile.as_ref()).map_err(|error| UnusablePolicy { reason: describe(error) })
    })
}

/// A policy that decides as it does in a head.
///
/// # Errors
/// The errors of a head that is given this policy.
pub fn make(choice: &PolicyChoice) -> Result<Regime, ForesightError> {
    seeded(choice, 0, None)
}

pub(crate) fn seeded(
    choice: &PolicyChoice,
    seed: u64,
    profile: Option<&Profile>,
) -> Result<Regime, ForesightError> {
    let (regime, _) = wharf_sim::profiled_regime(&rules()?, &choice.name, &settings(choice)?, seed, profile)?;
    Ok(regime)
}

/// The numbers of Wharf's own rules.
pub(crate) fn rules() -> Result<Rules, ForesightError> {
    Preset::load("wharf")?.rules().copied().ok_or(ForesightError::ForeignPreset)
}

/// All settings of a policy, with a head's own defaults.
pub(crate) fn settings(choice: &PolicyChoice) -> Result<Settings, ForesightError> {
    let mut settings = Settings::default();
    choice.settings.iter().for_each(|(key, value)| settings.set(key, value));
    if let Some((key, _)) = settings.iter().find(|(key, _)| SIMULATED.contains(key)) {
        return Err(ForesightError::SimulatedSetting { key: key.to_owned() });
    }
    if choice.name == "fifo" && settings.get("backfill").is_none() {
        settings.set("backfill", "greedy");
    }
    if settings.get("restart_s").is_none() {
        // The duration of a start is unknown here: a job's progress counts from its first moment.
        settings.set("restart_s", "0");
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(error: ForesightError) -> String {
        error.to_string()
    }

    fn with(name: &str, set: &[(&str, &str)]) -> PolicyChoice {
        let mut settings = Settings::default();
        set.iter().for_each(|(key, value)| settings.set(key, value));
        choice(Some(name), &settings)
    }

    #[test]
    fn settings_of_a_head_have_its_defaults_and_none_of_simulations() {
        let of = |choice: &PolicyChoice| {
            settings(choice).map(|settings| settings.get("backfill").map(str::to_owned))
        };
        assert_eq!(of(&choice(None, &Settings::default())).unwrap().as_deref(), Some("greedy"));
        assert_eq!(of(&with("fifo", &[("backfill", "none")])).unwrap().as_deref(), Some("none"));
        assert_eq!(of(&with("srtf", &[])).unwrap(), None);
        let refused = of(&with("srtf", &[("node_mtbf_h", "5")])).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`node_mtbf_h` is for simulations: on real machines it happens by itself"
        );
    }

    #[test]
    fn maker_refuses_programs_other_than_the_head_s_own() {
        let make = maker(&with("srtf", &[]), 0, None, describe);
        assert!(make(&with("las", &[])).is_ok());
        let refused = make(&with("/bin/true", &[])).err().unwrap();
        assert!(refused.reason.contains("a head runs no policy program"), "{}", refused.reason);
        let unknown = make(&with("strf", &[])).err().unwrap();
        assert!(unknown.reason.contains("strf"), "{}", unknown.reason);
    }
}
