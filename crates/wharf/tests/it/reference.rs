//! The generated reference and the help.

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use crate::sandbox::Sandbox;

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

#[test]
fn reference_is_up_to_date() {
    let same = document("cli.md") == wharf_cli::reference::markdown();
    assert!(same, "docs/cli.md is not up to date: run `cargo xtask docs`");
    let same = document("metrics.md") == wharf_cli::reference::metrics_markdown();
    assert!(same, "docs/metrics.md is not up to date: run `cargo xtask docs`");
    let same = document("policies.md") == wharf_cli::reference::policies_markdown();
    assert!(same, "docs/policies.md is not up to date: run `cargo xtask docs`");
}

#[test]
fn help_comes_in_every_way_and_goes_to_standard_output() {
    let sandbox = Sandbox::new();
    let help = sandbox.wharf("trace convert --help").ok();
    assert_eq!(sandbox.wharf("help trace convert").ok(), help);
    assert!(help.contains("Examples:\n  wharf trace convert trace1.csv jobs.jsonl"), "{help}");
    assert!(sandbox.wharf("help exit-codes").ok().contains("130  interrupted by Ctrl-C"));
    assert!(sandbox.wharf("help environment").ok().contains("WHARF_OUTPUT"));
    let overview = sandbox.wharf("help").ok();
    assert!(
        overview.contains("Common commands:\n  run ") && overview.contains("Slurm commands:\n"),
        "{overview}"
    );
    assert!(sandbox.wharf("--version").ok().starts_with("wharf "));
    assert!(sandbox.wharf("completions bash").ok().contains("_wharf()"));
    sandbox.wharf("").fails(2);
}

/// All documents that show command lines.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["docs", "examples", "python", ""].map(|folder| root.join(folder));
    let entries =
        folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let deeper =
        fs::read_dir(root.join("examples")).unwrap().map(|entry| entry.unwrap().path().join("README.md"));
    let is_document =
        |path: &PathBuf| path.is_file() && path.extension().is_some_and(|extension| extension == "md");
    // What was is told in the changes; the generated reference cannot be wrong.
    let is_told_elsewhere = |path: &PathBuf| path.ends_with("CHANGELOG.md") || path.ends_with("docs/cli.md");
    entries.chain(deeper).filter(|path| is_document(path) && !is_told_elsewhere(path)).collect()
}

/// The lines of blocks and the pieces between backticks, with the numbers of their lines.
fn shown(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut is_block) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if is_block {
            found.push((index + 1, line.trim_end_matches('\\').to_owned()));
        } else {
            found.extend(line.split('`').skip(1).step_by(2).map(|piece| (index + 1, piece.to_owned())));
        }
    }
    found
}

/// The words of each command in a line that is ours; what stands in brackets can be left out, and is there. Slurm's commands have
/// a grammar of their own.
fn ours(line: &str) -> Vec<Vec<String>> {
    const SLURM: [&str; 12] = [
        "sbatch", "squeue", "scancel", "sinfo", "scontrol", "sacct", "salloc", "srun", "sacctmgr", "sshare",
        "sprio", "sdiag",
    ];
    let line = line.trim_start_matches(['$', ' ']).replace(['[', ']'], "");
    let line = line.split("  #").next().unwrap_or_default().split(" # ").next().unwrap_or_default();
    let commands = line.split(['|', ';', '&', '(']).map(str::trim);
    let is_ours = |words: &Vec<String>| {
        words.first().is_some_and(|word| word == "wharf")
            && words.get(1).is_some_and(|word| !SLURM.contains(&word.as_str()))
    };
    commands.map(words).filter(is_ours).collect()
}

/// Words as a shell has them, as far as documents use it: quotes keep spaces.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut quote, mut is_word) = (Vec::new(), None, false);
    for letter in command.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            None if letter.is_whitespace() => is_word = false,
            _ => {
                if !is_word {
                    words.push(String::new());
                    is_word = true;
                }
                words.last_mut().unwrap().push(letter);
            }
        }
    }
    words
}

#[test]
fn every_command_line_in_the_documents_is_one() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for (line, shown) in shown(&text) {
            for words in ours(&shown) {
                count += 1;
                let parsed = wharf_cli::args::Cli::command().try_get_matches_from(&words);
                // Placeholders stand for values, and not every command is shown whole.
                let is_wrong =
                    |kind| matches!(kind, ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand);
                if parsed.is_err_and(|error| is_wrong(error.kind())) {
                    wrong.push(format!("{}:{line}: {}", path.display(), words.join(" ")));
                }
            }
        }
    }
    assert!(count > 200, "only {count} command lines were found");
    assert!(wrong.is_empty(), "these are no command lines:\n{}", wrong.join("\n"));
}
