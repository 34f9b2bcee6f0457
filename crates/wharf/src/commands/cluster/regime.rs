//! The policy that decides in a head: made from its name, shown, replaced while the head runs.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use wharf_core::Regime;
use wharf_external::Program;
use wharf_head::{MakeRegime, PolicyChoice, UnusablePolicy};
use wharf_perf::Profile;
use wharf_policy::Settings;
use wharf_proto::{PolicyChange, SetPolicyRequest};
use wharf_sim::Preset;
use wharf_sim::preset::Rules;

use super::connect::with;
use crate::args::{OutputFormat, PolicySetArgs, PolicyShowArgs};
use crate::error::{CliError, ErrorKind, translate};
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Settings for what happens by itself on real machines.
const SIMULATED: &[&str] = &["checkpoint_interval_s", "node_mtbf_h", "node_repair_h", "failures"];

/// Default policy.
const DEFAULT: &str = "fifo";

/// What a command line says of the policy.
pub(super) fn choice(policy: Option<&str>, set: &[String]) -> Result<PolicyChoice, CliError> {
    let settings = input::settings(set)?;
    Ok(PolicyChoice {
        name: policy.unwrap_or(DEFAULT).to_owned(),
        settings: settings.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
    })
}

/// What a head's command line says of the policy. A program is remembered by its full path: a head that is started again
/// may be somewhere else.
pub(super) fn head_choice(policy: Option<&str>, set: &[String]) -> Result<PolicyChoice, CliError> {
    let mut choice = choice(policy, set)?;
    if Program::is_named(&choice.name) {
        let path = Path::new(&choice.name);
        let full = fs::canonicalize(path).map_err(|error| CliError::read(path, error))?;
        choice.name = full.to_string_lossy().into_owned();
    }
    Ok(choice)
}

/// Makes policies for a head, which draw from this seed, and know speeds from this profile. The only program that it runs as a policy
/// is the one on its own command line: permission to change the policy does not allow running programs on the head's machine.
pub(super) fn maker(own: &PolicyChoice, seed: u64, profile: Option<Profile>) -> MakeRegime {
    let own = own.name.clone();
    Arc::new(move |choice| {
        if Program::is_named(&choice.name) && choice.name != own {
            let reason = format!(
                "a head runs no policy program but the one it was started with: `wharf head --policy {}`",
                choice.name
            );
            return Err(UnusablePolicy { reason });
        }
        seeded(choice, seed, profile.as_ref()).map_err(|error| UnusablePolicy { reason: error.one_line() })
    })
}

/// A policy that decides as it does in a head.
pub(super) fn make(choice: &PolicyChoice) -> Result<Regime, CliError> {
    seeded(choice, 0, None)
}

fn seeded(choice: &PolicyChoice, seed: u64, profile: Option<&Profile>) -> Result<Regime, CliError> {
    let (regime, _) = wharf_sim::profiled_regime(&rules()?, &choice.name, &settings(choice)?, seed, profile)
        .map_err(|error| translate::run(&error))?;
    Ok(regime)
}

/// States what a head would refuse.
pub(in crate::commands) fn check_policy(policy: Option<&str>, set: &[String]) -> Result<(), CliError> {
    make(&choice(policy, set)?).map(|_| ())
}

/// The numbers of Wharf's own rules.
pub(super) fn rules() -> Result<Rules, CliError> {
    let internal = |error: &dyn std::error::Error| CliError::from_error(ErrorKind::Internal, error);
    let preset = Preset::load("wharf").map_err(|error| internal(&error))?;
    let foreign = || CliError::new(ErrorKind::Internal, "the default preset is not Wharf's own");
    preset.rules().copied().ok_or_else(foreign)
}

/// All settings of a choice, with a head's own defaults.
pub(super) fn settings(choice: &PolicyChoice) -> Result<Settings, CliError> {
    let mut settings = Settings::default();
    choice.settings.iter().for_each(|(key, value)| settings.set(key, value));
    if let Some((key, _)) = settings.iter().find(|(key, _)| SIMULATED.contains(key)) {
        let wrong = format!("`{key}` is for simulations: on real machines it happens by itself");
        return Err(CliError::usage(wrong));
    }
    if choice.name == "fifo" && settings.get("backfill").is_none() {
        settings.set("backfill", "greedy");
    }
    if settings.get("restart_s").is_none() {
        // How long a start takes is not known here: a job's progress counts from its first moment.
        settings.set("restart_s", "0");
    }
    Ok(settings)
}

/// Lets another policy decide in a running head.
pub(in crate::commands) fn policy_set(args: &PolicySetArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let choice = choice(Some(&args.policy), &args.set)?;
    // Told here, a mistake comes with its hints; a program is the head's business.
    if !Program::is_named(&choice.name) {
        make(&choice)?;
    }
    let PolicyChoice { name, settings } = choice;
    let request = SetPolicyRequest { policy: name, settings: settings.into_iter().collect() };
    let changes = with(&args.home, async |client| Ok(client.set_policy(request).await?))?;
    if terminal.format == OutputFormat::Json {
        show(&changes[changes.len().saturating_sub(1)..], terminal)?;
    } else if let Some(now) = changes.last() {
        terminal.note(&format!("{} is active; running jobs continue", described(now)));
    }
    Ok(Exit::Ok)
}

/// Tells who decides, and who decided before.
pub(in crate::commands) fn policy_show(args: &PolicyShowArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let changes = with(&args.home, async |client| Ok(client.policies().await?))?;
    show(&changes, terminal)?;
    Ok(Exit::Ok)
}

fn described(change: &PolicyChange) -> String {
    let settings = sorted(change);
    match settings.is_empty() {
        true => change.policy.clone(),
        false => format!("{} ({})", change.policy, settings.join(", ")),
    }
}

fn sorted(change: &PolicyChange) -> Vec<String> {
    let mut settings: Vec<String> =
        change.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    settings.sort();
    settings
}

fn show(changes: &[PolicyChange], terminal: &Terminal) -> Result<(), CliError> {
    if terminal.format == OutputFormat::Json {
        let change = |change: &PolicyChange| {
            serde_json::json!({
                "time_s": change.time_s,
                "by": change.by,
                "policy": change.policy,
                "settings": change.settings.iter().collect::<std::collections::BTreeMap<_, _>>(),
            })
        };
        let changes: Vec<_> = changes.iter().map(change).collect();
        return terminal.json(&serde_json::json!({ "schema": 1, "changes": changes }));
    }
    let mut grid = Grid::new(["since", "policy", "settings", "by"]);
    for change in changes {
        let since = crate::moment::local(change.time_s);
        grid.push([since.as_str(), &change.policy, &sorted(change).join(" "), &change.by]);
    }
    terminal.grid(&grid)
}
