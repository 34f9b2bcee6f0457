//! Questions before something that cannot be undone.

use std::io::{BufRead as _, IsTerminal as _};

use super::Terminal;
use crate::error::CliError;

/// Asks a question that `--yes` answers; true where the answer is yes.
///
/// # Errors
/// Where standard input is not a terminal, or cannot be read.
pub(crate) fn confirm(question: &str, yes: bool, terminal: &Terminal) -> Result<bool, CliError> {
    if yes {
        return Ok(true);
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        let unanswered = format!("{question} Standard input is not a terminal");
        return Err(CliError::usage(unanswered).hint("pass `--yes` to confirm"));
    }
    terminal.ask(&format!("{question} [y/N]"));
    let mut answer = String::new();
    let read = stdin.lock().read_line(&mut answer);
    read.map_err(|error| CliError::input("cannot read standard input").caused_by(error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
