//! Command groups of `wharf --help`: the most used commands first, then all others by topic.

use clap::Command;

/// Heading and commands of each group, in the order of the help.
const GROUPS: [(&str, &[&str]); 8] = [
    (
        "Common commands",
        &["run", "local", "submit", "jobs", "job", "logs", "cancel", "top", "sim", "policies"],
    ),
    (
        "Jobs",
        &[
            "explain",
            "metrics",
            "exec",
            "cp",
            "hold",
            "release",
            "requeue",
            "priority",
            "tune",
            "ray",
            "step",
            "python-sdk",
        ],
    ),
    (
        "Simulation and planning",
        &[
            "demo", "sweep", "trace", "policy", "presets", "compare", "report", "replay", "whatif", "size",
            "history", "profile", "plan",
        ],
    ),
    ("Cluster", &["head", "worker", "nodes", "node", "usage", "limits", "token", "audit", "pilot", "image"]),
    (
        "Launched clusters",
        &["up", "down", "cluster", "attach", "rsync-up", "rsync-down", "get-head-ip", "get-worker-ips"],
    ),
    (
        "Slurm commands",
        &[
            "sbatch",
            "squeue",
            "scancel",
            "sinfo",
            "scontrol",
            "sacct",
            "salloc",
            "srun",
            "sacctmgr",
            "sshare",
            "sprio",
            "sdiag",
            "slurm-shims",
        ],
    ),
    ("Installation", &["install", "uninstall", "config"]),
    ("Help", &["help", "man", "completions"]),
];

/// Column at which summaries begin.
const SUMMARY_COLUMN: usize = 18;

/// Replaces the list of commands in the help of `root` by the groups.
pub(crate) fn with_groups(root: Command) -> Command {
    let header = *root.get_styles().get_header();
    let literal = *root.get_styles().get_literal();
    let mut template = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        template += &format!("\n{header}{heading}:{header:#}\n");
        for name in names {
            let summary = root.find_subcommand(name).and_then(Command::get_about);
            let summary = summary.map(ToString::to_string).unwrap_or_default();
            let padding = " ".repeat(SUMMARY_COLUMN.saturating_sub(name.len() + 2));
            template += &format!("  {literal}{name}{literal:#}{padding}{summary}\n");
        }
    }
    template += &format!("\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    root.help_template(template)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_visible_command_is_in_exactly_one_group() {
        let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
        for name in GROUPS.iter().flat_map(|(_, names)| *names) {
            *groups.entry(name).or_default() += 1;
        }
        let root = Cli::command();
        let visible = root.get_subcommands().filter(|command| !command.is_hide_set());
        let expected: BTreeMap<&str, usize> = visible.map(|command| (command.get_name(), 1)).collect();
        assert_eq!(groups, expected);
    }

    #[test]
    fn common_commands_are_ten() {
        assert_eq!(GROUPS[0].1.len(), 10);
    }

    #[test]
    fn command_list_fits_a_terminal_of_80_columns() {
        let help = with_groups(Cli::command()).render_help().to_string();
        let commands = help.split("\nOptions:").next().unwrap_or_default();
        let wide: Vec<&str> = commands.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(wide, Vec::<&str>::new());
    }
}
