//! `wharf step`: how far a trainer has come, and whether it is to continue.

use wharf_worker::{StepAnswer, StepReport, tell_step};

use crate::args::StepArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;

/// Tells the worker that the calling process belongs to, if there is one.
///
/// # Errors
/// Where a number is none.
pub(super) fn execute(args: &StepArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let counts = [
        ("the iterations", args.iterations),
        ("`--checkpointed`", args.checkpointed),
        ("`--total`", args.total),
    ];
    for (what, count) in counts {
        if count.is_some_and(|count| !count.is_finite() || count < 0.0) {
            return Err(CliError::usage(format!("{what} must be a number, and not negative")));
        }
    }
    let metrics = args.metrics.iter().map(|text| metric(text)).collect::<Result<_, _>>()?;
    let &StepArgs { iterations, checkpointed, total, .. } = args;
    let report = StepReport { iterations, checkpointed, total, metrics };
    Ok(match tell_step(&report) {
        StepAnswer::Outside => {
            terminal.note("not run by Wharf: nothing reported, continue");
            Exit::Ok
        }
        StepAnswer::Unheard => {
            terminal.note("the worker does not answer: continue");
            Exit::Ok
        }
        StepAnswer::GoOn => Exit::Ok,
        StepAnswer::Stop => Exit::LeaseOver,
    })
}

fn metric(text: &str) -> Result<(String, f64), CliError> {
    let wrong = || {
        CliError::usage(format!("`--metric {text}` is not of the form NAME=NUMBER"))
            .hint("for example `--metric loss=0.25`")
    };
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let value: f64 = value.parse().map_err(|_| wrong())?;
    wharf_curve::check_name(name).map_err(|error| {
        CliError::usage(format!("`--metric`: {error}")).hint("for example `--metric loss=0.25`")
    })?;
    Ok((name.to_owned(), value))
}
