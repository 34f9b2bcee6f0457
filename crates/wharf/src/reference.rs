//! The reference of the command line, generated from the arguments: `docs/cli.md` and the help topics.

use std::fmt::Write as _;

use crate::args::env;
use crate::config::keys;
use crate::exit::Exit;

/// The exit codes, for people.
pub fn exit_codes() -> String {
    let rows = Exit::DOCUMENTED.iter().map(|(code, help)| format!("{code:>7}  {help}\n"));
    std::iter::once("Exit codes:\n".to_owned()).chain(rows).collect()
}

/// The environment variables, for people.
pub fn environment() -> String {
    let rows = variables().into_iter().map(|(name, help)| format!("  {name:36} {help}\n"));
    std::iter::once("Environment variables (command-line options override them):\n".to_owned())
        .chain(rows)
        .collect()
}

/// Every variable: those with a meaning of their own, then those that stand for options of daemons.
fn variables() -> Vec<(String, String)> {
    let own = env::ALL.iter().map(|variable| (variable.name.to_owned(), variable.help.to_owned()));
    own.chain(keys::variables()).collect()
}

/// `docs/cli.md`: every command with its help, then exit codes and environment variables.
pub fn markdown() -> String {
    let mut text = "# Command-line reference\n\n\
         Generated from the arguments by `cargo xtask docs`; do not edit. Every command also has the options of\n\
         `wharf` itself, which are listed once.\n"
        .to_owned();
    let mut root = keys::command().term_width(100);
    root.build();
    push_markdown(&root, "wharf", &mut text);
    for sub in root.get_subcommands() {
        command_markdown(sub, &format!("wharf {}", sub.get_name()), &mut text);
    }
    text += "\n## Exit codes\n\n| code | meaning |\n|---|---|\n";
    for (code, help) in Exit::DOCUMENTED {
        let _ = writeln!(text, "| {code} | {} |", help.replace('|', "\\|"));
    }
    text += "\n## Environment variables\n\n| variable | meaning |\n|---|---|\n";
    for (name, help) in variables() {
        let _ = writeln!(text, "| `{name}` | {} |", help.replace('|', "\\|"));
    }
    text
}

/// What a comparison of all policies shows.
const SIDE_BY_SIDE: &str = include_str!("side_by_side.md");

/// How policies are checked.
const ORACLES: &str = include_str!("oracles.md");

/// What the numbers of a run mean.
const METRICS: &str = include_str!("metrics.md");

/// `docs/metrics.md`: every number of a run, how it is computed and what counts.
pub fn metrics_markdown() -> String {
    METRICS.to_owned()
}

/// `docs/policies.md`: every policy, how it decides and what can be set.
pub fn policies_markdown() -> String {
    let mut text = format!(
        "# Policies\n\nGenerated from the registry by `cargo xtask docs`; do not edit.\n\n{}\n\n{}\n",
        SIDE_BY_SIDE.trim_end(),
        ORACLES.trim_end()
    );
    for policy in wharf_reproduce::policies() {
        let _ = write!(text, "\n## {}\n\n{}.\n\n", policy.name, capitalised(policy.summary));
        let _ = write!(text, "Paper: {}\n\n{}\n", policy.paper, policy.explanation.trim_end());
        let _ = write!(text, "\n- **Must know**: {}.\n", policy.must_know);
        let _ = writeln!(text, "- **When to use it**: {}", policy.advice);
        if !policy.knobs.is_empty() {
            text += "\n| setting | values | default | effect |\n|---|---|---|---|\n";
        }
        for knob in policy.knobs {
            let cells =
                [knob.name, knob.values, knob.default, knob.help].map(|cell| cell.replace('|', "\\|"));
            let _ = writeln!(text, "| `{}` | {} | {} | {} |", cells[0], cells[1], cells[2], cells[3]);
        }
    }
    text
}

/// A text that begins a sentence.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// A command and those below it, without the options that every command has.
fn command_markdown(command: &clap::Command, path: &str, text: &mut String) {
    let is_common =
        |arg: &clap::Arg| arg.is_global_set() || ["help", "version"].contains(&arg.get_id().as_str());
    let own = command.clone().mut_args(|arg| if is_common(&arg) { arg.hide(true) } else { arg });
    push_markdown(&own, path, text);
    for sub in command.get_subcommands() {
        command_markdown(sub, &format!("{path} {}", sub.get_name()), text);
    }
}

fn push_markdown(command: &clap::Command, path: &str, text: &mut String) {
    let help = command.clone().term_width(100).render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(text, "\n## `{path}`\n\n```text\n{}\n```\n", help.join("\n").trim_end());
}
