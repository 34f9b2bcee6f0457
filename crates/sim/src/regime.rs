//! Who decides under Wharf's own rules: a policy by name, or a user's program, with the model of speeds that goes with it.

use std::collections::BTreeMap;
use std::time::Duration;

use wharf_core::{Access, Policy, Regime};
use wharf_external::{External, Program};
use wharf_perf::{Model, Order, Profile, Sharing};
use wharf_policy::{Aside, BuildArgs, PolicyInfo, Settings};

use crate::preset::Rules;
use crate::run::RunError;

/// How long a policy's program may take for an answer for real jobs, and for simulated ones.
const LIVE_LIMIT: Duration = Duration::from_secs(5);
const SIMULATED_LIMIT: Duration = Duration::from_secs(60);

/// A policy by name under Wharf's own rules, ready to decide, and the rules with the settings in force.
///
/// # Errors
/// What is wrong with the policy's name or its settings.
pub fn regime(
    rules: &Rules,
    policy: &str,
    settings: &Settings,
    seed: u64,
) -> Result<(Regime, Rules), RunError> {
    profiled_regime(rules, policy, settings, seed, None)
}

/// As [`regime`], for devices of which a profile states how fast they are.
///
/// # Errors
/// As [`regime`].
pub fn profiled_regime(
    rules: &Rules,
    policy: &str,
    settings: &Settings,
    seed: u64,
    profile: Option<&Profile>,
) -> Result<(Regime, Rules), RunError> {
    let (made, rules) = make(rules, policy, settings, seed, LIVE_LIMIT)?;
    let model = made.model(&rules, settings, profile)?;
    Ok((made.regime(model, &rules), rules))
}

/// As [`profiled_regime`], for jobs that are only simulated: they save their work at the rules' interval, without reports.
pub(crate) fn simulated_regime(
    rules: &Rules,
    policy: &str,
    settings: &Settings,
    seed: u64,
    profile: Option<&Profile>,
) -> Result<(Regime, Rules), RunError> {
    let (made, rules) = make(rules, policy, settings, seed, SIMULATED_LIMIT)?;
    let model = made.model(&rules, settings, profile)?.with_checkpoints(rules.checkpoint_interval_s);
    Ok((made.regime(model, &rules), rules))
}

/// A policy, and what goes with it.
struct Made {
    policy: Box<dyn Policy>,
    slots: usize,
    sharing: Sharing,
}

impl Made {
    fn model(
        &self,
        rules: &Rules,
        settings: &Settings,
        profile: Option<&Profile>,
    ) -> Result<Model, RunError> {
        let order =
            settings.choice("ordering", &[("best", Order::Best), ("worst", Order::Worst)], Order::Best)?;
        let model = Model::new(rules.costs, self.sharing, order);
        Ok(match profile {
            Some(profile) => model.with_profile(profile.clone()),
            None => model.with_builtin(),
        })
    }

    fn regime(self, model: Model, rules: &Rules) -> Regime {
        Regime {
            policy: self.policy,
            perf: Box::new(model),
            cadence: rules.cadence(),
            slots: self.slots,
            access: Access::default(),
        }
    }
}

fn make(
    rules: &Rules,
    policy: &str,
    settings: &Settings,
    seed: u64,
    limit: Duration,
) -> Result<(Made, Rules), RunError> {
    if Program::is_named(policy) {
        return program(rules, policy, settings, seed, limit);
    }
    let info = wharf_reproduce::find(policy)?;
    check_keys(settings, info)?;
    let rules = rules.with(settings)?;
    let args = BuildArgs { settings, placement: rules.placement, seed };
    let made = Made { policy: info.make(&args)?, slots: info.slots, sharing: info.sharing };
    Ok((made, rules))
}

/// A user's program. Settings that are not the rules' are for the program, which rejects unknown ones.
fn program(
    rules: &Rules,
    path: &str,
    settings: &Settings,
    seed: u64,
    limit: Duration,
) -> Result<(Made, Rules), RunError> {
    let rules = rules.with(settings)?;
    let is_rule = |key: &str| Rules::SETTINGS.iter().any(|&(rule, _)| rule == key);
    let own: BTreeMap<String, String> = settings
        .iter()
        .filter(|(key, _)| !is_rule(key))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let placer = rules.placement.placer(seed);
    let policy = External::start(Program::find(path)?, own, seed, placer, limit)?;
    let policy = Box::new(Aside::new(Box::new(policy), rules.placement.placer(seed)));
    Ok((Made { policy, slots: 1, sharing: Sharing::None }, rules))
}

/// Every setting must be one of the policy's knobs or of the preset's numbers.
fn check_keys(settings: &Settings, info: &PolicyInfo) -> Result<(), RunError> {
    let numbers = Rules::SETTINGS.iter().map(|&(key, _)| key);
    let known: Vec<&str> = info.knobs.iter().map(|knob| knob.name).chain(numbers).collect();
    match settings.iter().find(|(key, _)| !known.contains(key)) {
        None => Ok(()),
        Some((key, _)) => Err(RunError::UnknownSetting {
            key: key.to_owned(),
            policy: info.name.to_owned(),
            preset: "wharf".to_owned(),
            known: known.into_iter().map(str::to_owned).collect(),
        }),
    }
}
