//! `wharf profile capture`.

use serde_json::{Value, json};

use super::{python, save};
use crate::args::ProfileCaptureArgs;
use crate::error::{CliError, ErrorKind};
use crate::input::is_standard;
use crate::interrupt;
use crate::output::Terminal;

/// Writes the description of a user's model.
pub(super) fn capture(args: &ProfileCaptureArgs, terminal: &Terminal) -> Result<(), CliError> {
    let target = &args.to;
    if !is_standard(target) {
        // `wharf plan` goes by the ending.
        if target.extension().is_none_or(|ending| ending != "json") {
            return Err(CliError::usage(format!("`{}` does not end with .json", target.display())));
        }
        if target.exists() && !args.force {
            let message = format!("`{}` already exists", target.display());
            return Err(CliError::new(ErrorKind::Output, message).hint("`--force` writes over it"));
        }
    }
    let mut profiler = python::start(&args.python)?;
    profiler.send(&json!({ "do": "capture", "model": args.model, "name": args.name }));
    let answer = profiler.next_answer()?;
    let Some(description) = answer.as_ref().and_then(|answer| answer.get("description")) else {
        return match interrupt::handled() {
            Some(_) => Err(CliError::new(ErrorKind::Output, "interrupted: nothing is written")),
            None => Err(CliError::new(ErrorKind::Internal, "the profiler gave no description")),
        };
    };
    if is_standard(target) {
        return terminal.json(description);
    }
    save(target, description)?;
    terminal.note(&told(description));
    Ok(())
}

/// What was found, in a sentence.
fn told(description: &Value) -> String {
    let layers = description["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sum = |name: &str| {
        let of =
            |layer: &Value| layer[name].as_f64().unwrap_or(0.0) * layer["repeat"].as_f64().unwrap_or(1.0);
        layers.iter().map(of).sum::<f64>()
    };
    let count: u64 = layers.iter().map(|layer| layer["repeat"].as_u64().unwrap_or(1)).sum();
    format!(
        "{}: {count} layers, {:.3} million parameters, {:.3} GFLOP forward for each sample, layers can be shared by {}",
        description["name"].as_str().unwrap_or_default(),
        sum("parameters") / 1e6,
        sum("flop") / 1e9,
        description["splits"],
    )
}
