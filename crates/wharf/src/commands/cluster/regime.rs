//! The policy of a head: checked, shown, and replaced while the head runs.

use wharf_external::Program;
use wharf_foresight::regime;
use wharf_head::PolicyChoice;
use wharf_proto::{PolicyChange, SetPolicyRequest};

use super::connect::with;
use crate::args::{OutputFormat, PolicySetArgs, PolicyShowArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Returns the error of a head that is started with this policy.
pub(in crate::commands) fn check_policy(policy: Option<&str>, set: &[String]) -> Result<(), CliError> {
    regime::make(&regime::choice(policy, &input::settings(set)?))?;
    Ok(())
}

/// Lets another policy decide in a running head.
pub(in crate::commands) fn policy_set(args: &PolicySetArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let choice = regime::choice(Some(&args.policy), &input::settings(&args.set)?);
    // Told here, a mistake comes with its hints; a program is the head's business.
    if !Program::is_named(&choice.name) {
        regime::make(&choice)?;
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
