//! `wharf policies`, `wharf policy explain`: what the registry knows.

use serde::Serialize;
use wharf_policy::{KnobInfo, PolicyInfo};
use wharf_reproduce::{Policies, System, find, policies};
use wharf_sim::Preset;
use wharf_sim::preset::PresetMechanism;

use super::cluster;
use crate::args::{ExplainArgs, OutputFormat, PoliciesArgs, PolicyCommand};
use crate::error::{CliError, translate};
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// The version of the JSON documents.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    policies: Vec<PolicyDocument<'a>>,
}

#[derive(Serialize)]
struct PolicyDocument<'a> {
    name: &'a str,
    summary: &'a str,
    paper: &'a str,
    explanation: &'a str,
    must_know: &'a str,
    advice: &'a str,
    knobs: Vec<KnobDocument<'a>>,
}

#[derive(Serialize)]
struct KnobDocument<'a> {
    name: &'a str,
    values: &'a str,
    default: &'a str,
    help: &'a str,
}

fn document(policies: &[&'static PolicyInfo]) -> Document<'static> {
    Document { schema: SCHEMA, policies: policies.iter().map(|policy| policy_document(policy)).collect() }
}

fn policy_document(policy: &'static PolicyInfo) -> PolicyDocument<'static> {
    let knob = |knob: &'static KnobInfo| KnobDocument {
        name: knob.name,
        values: knob.values,
        default: knob.default,
        help: knob.help,
    };
    PolicyDocument {
        name: policy.name,
        summary: policy.summary,
        paper: policy.paper,
        explanation: policy.explanation,
        must_know: policy.must_know,
        advice: policy.advice,
        knobs: policy.knobs.iter().map(knob).collect(),
    }
}

/// The names of all policies that run under a preset.
pub(super) fn names(preset: &Preset) -> Vec<String> {
    let all = policies().map(|policy| policy.name);
    let names: Vec<&str> = match &preset.mechanism {
        PresetMechanism::Wharf(_) => all.collect(),
        PresetMechanism::Published(mechanism) => match mechanism.policies() {
            Policies::Registered(names) => all.filter(|name| names.contains(name)).collect(),
            Policies::Own { policies, .. } => policies.into_iter().map(|(name, _)| name).collect(),
        },
    };
    names.into_iter().map(str::to_owned).collect()
}

/// Lists all policies, or those of a preset.
///
/// # Errors
/// Where there is no such preset, or standard output does not take it.
pub(super) fn list(args: &PoliciesArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if let Some(system) = args.from {
        return list_published(system, terminal);
    }
    let mut all: Vec<&'static PolicyInfo> = policies().collect();
    if let Some(name) = &args.preset {
        match input::preset(name)?.mechanism {
            PresetMechanism::Wharf(_) => {}
            PresetMechanism::Published(mechanism) => match mechanism.policies() {
                Policies::Registered(names) => all.retain(|policy| names.contains(&policy.name)),
                Policies::Own { paper, policies } => {
                    return list_own(&policies, paper, mechanism.setting_names(), terminal);
                }
            },
        }
    }
    if terminal.format == OutputFormat::Json {
        terminal.json(&document(&all))?;
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new(["policy", "summary", "paper", "settings"]);
    for policy in all {
        let knobs: Vec<&str> = policy.knobs.iter().map(|knob| knob.name).collect();
        grid.push([policy.name, policy.summary, policy.paper, &knobs.join(", ")]);
    }
    terminal.grid(&grid)?;
    if terminal.format == OutputFormat::Table {
        terminal.note("see `wharf policy explain NAME` for a policy and its settings");
    }
    Ok(Exit::Ok)
}

/// Lists the policy names of a published system with the policies that they are here.
fn list_published(system: System, terminal: &Terminal) -> Result<Exit, CliError> {
    if terminal.format == OutputFormat::Json {
        let policies: Vec<_> = system
            .policies()
            .iter()
            .map(|published| {
                serde_json::json!({
                    "name": published.name,
                    "policy": published.policy,
                    "settings": published.settings,
                    "note": published.note,
                })
            })
            .collect();
        let document = serde_json::json!({ "schema": SCHEMA, "from": system.name(), "policies": policies });
        terminal.json(&document)?;
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new([system.name(), "wharf", "note"]);
    for published in system.policies() {
        grid.push([published.name, &published.options(), published.note]);
    }
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}

/// Lists a mechanism's own policies, by name and summary.
fn list_own(
    policies: &[(&'static str, &'static str)],
    paper: &'static str,
    settings: &[&str],
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    if terminal.format == OutputFormat::Json {
        let policy = |&(name, summary)| PolicyDocument {
            name,
            summary,
            paper,
            explanation: summary,
            must_know: "",
            advice: "",
            knobs: Vec::new(),
        };
        let policies = policies.iter().map(policy).collect();
        terminal.json(&Document { schema: SCHEMA, policies })?;
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new(["policy", "summary", "paper", "settings"]);
    let settings = settings.join(", ");
    for (name, summary) in policies {
        grid.push([name, summary, paper, &settings]);
    }
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}

/// `wharf policy`
///
/// # Errors
/// Where there is no such policy.
pub(super) fn execute(command: &PolicyCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    let policy = match command {
        PolicyCommand::Explain(ExplainArgs { policy }) => policy,
        PolicyCommand::Set(args) => return cluster::policy_set(args, terminal),
        PolicyCommand::Show(args) => return cluster::policy_show(args, terminal),
    };
    let policy = find(policy).map_err(|error| translate::policy(&error))?;
    match terminal.format {
        OutputFormat::Json => terminal.json(&document(&[policy]))?,
        OutputFormat::Plain | OutputFormat::Csv => terminal.fields(&policy_document(policy))?,
        OutputFormat::Table => terminal.data(&explain(policy))?,
    }
    Ok(Exit::Ok)
}

fn explain(policy: &PolicyInfo) -> String {
    let mut text = format!("{}: {}\n", policy.name, policy.summary);
    text += &format!("paper: {}\n\n{}\n", policy.paper, policy.explanation.trim_end());
    text += &format!("\nmust know: {}\n\n{}\n", policy.must_know, policy.advice);
    if !policy.knobs.is_empty() {
        text += "\nsettings (`--set KEY=VALUE`):\n";
    }
    for knob in policy.knobs {
        text += &format!("  {}={} (default {}): {}\n", knob.name, knob.values, knob.default, knob.help);
    }
    text
}
