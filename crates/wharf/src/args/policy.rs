//! `wharf policies`, `wharf policy`

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use wharf_reproduce::System;

use super::cluster::HomeArgs;

/// `wharf policies`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf policies
  wharf policies --preset gavel
  wharf policies --from muri                  Policy names of Muri and their equivalents
  wharf policies --output json")]
pub struct PoliciesArgs {
    /// Only policies available under this preset, with its settings
    #[arg(long, value_name = "NAME|FILE")]
    pub preset: Option<String>,

    /// Published system whose policy names to translate
    #[arg(long, value_name = "SYSTEM", value_parser = published_system(), conflicts_with = "preset")]
    pub from: Option<System>,
}

/// Accepts the names of published systems, and lists them in help and errors.
fn published_system() -> impl TypedValueParser<Value = System> {
    let names = System::ALL.map(System::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<System>().map_err(|()| "unknown system"))
}

/// `wharf policy`
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  wharf policy explain tiresias
  wharf policy set srtf --set preempt_ratio=1.5
  wharf policy show")]
pub enum PolicyCommand {
    /// Explain how a policy decides; show its paper and settings
    Explain(ExplainArgs),
    /// Change the policy of a running head or its settings; running jobs continue
    Set(PolicySetArgs),
    /// Show the policy of a running head and the history of changes
    Show(PolicyShowArgs),
}

/// `wharf policy set`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf policy set srtf
  wharf policy set tiresias --set queue_limits_s=300:900
  wharf policy set fifo --set backfill=easy")]
pub struct PolicySetArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Policy name
    pub policy: String,
    /// Setting of the policy, as key=value; may be given several times. Other settings are reset to their defaults
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// `wharf policy show`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf policy show
  wharf policy show --output json")]
pub struct PolicyShowArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
}

/// `wharf policy explain`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf policy explain tiresias
  wharf policy explain muri-l --output json")]
pub struct ExplainArgs {
    /// Policy name
    pub policy: String,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use wharf_document::shell;
    use wharf_sim::Settings;

    use crate::args::Cli;
    use crate::input;

    /// Lines of the examples in the help of a command and its subcommands.
    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let own = help.lines().map(str::trim).filter(|line| line.starts_with("wharf ")).map(str::to_owned);
        own.chain(command.get_subcommands().flat_map(examples)).collect()
    }

    #[test]
    fn settings_in_help_examples_are_valid() {
        let preset = input::preset("wharf").unwrap();
        let rules = preset.rules().expect("native rules");
        let mut checked = 0;
        for line in examples(&Cli::command()).iter().filter(|line| line.starts_with("wharf policy set")) {
            let words = shell::split(line).unwrap();
            let mut settings = Settings::default();
            for pair in words.windows(2).filter(|pair| pair[0] == "--set") {
                let (key, value) = pair[1].split_once('=').unwrap();
                settings.set(key, value);
                checked += 1;
            }
            if let Err(error) = wharf_sim::regime(rules, &words[3], &settings, 0) {
                panic!("{line}: {error}");
            }
        }
        assert!(checked >= 3, "{checked} settings in the examples of `wharf policy set`");
    }
}
