//! Programs that a provider asks: what they answer, and what they state when they fail.

use std::ffi::OsString;

use serde::de::DeserializeOwned;

use super::ProviderError;
use crate::runner::{Log, Use};

/// How much of what a program said is told.
const SAID_MAX: usize = 2000;

/// Runs a program, which must succeed, and returns what it answers. What it is given is not logged.
pub(super) async fn ask(log: &Log, argv: &[OsString], input: Option<&str>) -> Result<String, ProviderError> {
    log.title(&shown(argv))?;
    let ended = log.run(argv, Use { input, is_asked: true }).await?;
    if ended.code == 0 {
        return Ok(ended.answer);
    }
    let said = if ended.said.trim().is_empty() { &ended.answer } else { &ended.said };
    let said: String = said.trim().chars().take(SAID_MAX).collect();
    let said = if said.is_empty() { format!("exit code {}", ended.code) } else { said };
    Err(ProviderError::Failed { program: name(argv), said })
}

/// The same where the answer is JSON.
pub(super) async fn ask_json<T: DeserializeOwned>(
    log: &Log,
    argv: &[OsString],
    input: Option<&str>,
) -> Result<T, ProviderError> {
    let answer = ask(log, argv, input).await?;
    let wrong =
        |error: serde_json::Error| ProviderError::Answer { program: name(argv), why: error.to_string() };
    serde_json::from_str(&answer).map_err(wrong)
}

/// The program, with the words that state what it is to do.
fn name(argv: &[OsString]) -> String {
    let words = argv.iter().map(|word| word.to_string_lossy());
    // Where a program is run with variables, they are not what failed.
    let words = words.skip_while(|word| word == "env" || word.contains('='));
    words.take_while(|word| !word.starts_with('-')).take(3).collect::<Vec<_>>().join(" ")
}

fn shown(argv: &[OsString]) -> String {
    argv.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
