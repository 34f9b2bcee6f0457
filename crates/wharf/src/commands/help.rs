//! `wharf help`: commands, and topics that belong to none.

use crate::config::keys;
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::output::Terminal;
use crate::{pages, reference};

/// What there is help for beside commands.
const TOPICS: [&str; 5] =
    ["exit-codes", "environment", "command-reference", "policy-reference", "run-metrics"];

/// Shows the help of a command or a topic.
///
/// # Errors
/// Where there is neither.
pub(super) fn execute(topic: &[String], terminal: &Terminal) -> Result<Exit, CliError> {
    let words: Vec<&str> = topic.iter().map(String::as_str).collect();
    let text = match words.as_slice() {
        ["exit-codes"] => reference::exit_codes(),
        ["environment"] => reference::environment(),
        ["command-reference"] => reference::markdown(),
        ["policy-reference"] => reference::policies_markdown(),
        ["run-metrics"] => reference::metrics_markdown(),
        words => command_help(words)?,
    };
    terminal.data(&text)?;
    Ok(Exit::Ok)
}

/// Prints the manual page of a command.
///
/// # Errors
/// Where there is no such command.
pub(super) fn man(words: &[String], terminal: &Terminal) -> Result<Exit, CliError> {
    let internal = |error| CliError::new(ErrorKind::Internal, "cannot make the page").caused_by(error);
    let Some(page) = pages::page(words).map_err(internal)? else {
        let root = keys::command();
        let names: Vec<&str> = root.get_subcommands().map(clap::Command::get_name).collect();
        let wrong = CliError::usage(format!("there is no command `{}`", words.join(" ")));
        return Err(wrong.hint_nearest(words.first().map_or("", String::as_str), names));
    };
    terminal.data(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Ok)
}

fn command_help(words: &[&str]) -> Result<String, CliError> {
    let mut root = keys::command();
    root.build();
    let mut command = &mut root;
    for word in words {
        let known: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        command = command.find_subcommand_mut(word).ok_or_else(|| {
            let names = known.iter().map(String::as_str).chain(TOPICS);
            CliError::usage(format!("there is no command or topic `{}`", words.join(" ")))
                .hint_nearest(word, names)
        })?;
    }
    Ok(command.render_long_help().to_string())
}
