//! `wharf sim`

use std::num::NonZeroU64;

use wharf_sim::sweep::parallel::thread_count;

use crate::args::SimArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;
use crate::runner::{Batch, OutDir, distinct};

/// Stands for every policy.
const ALL: &str = "all";

/// Simulates, prints the summaries, and writes files where asked to.
///
/// # Errors
/// Whatever is wrong with the inputs, or with the outputs.
pub(super) fn execute(args: &SimArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let batch = resolve(args, terminal)?;
    batch.check()?;
    // Before the work, so that a directory that cannot be written is known in a moment.
    let out = args.out.as_deref().map(OutDir::new).transpose()?;
    let report = batch.run(out, &command_line(), terminal)?;
    terminal.report(&report)?;
    if let Some(out) = &args.out {
        terminal.note(&format!("results are in `{}`", out.display()));
    }
    Ok(Exit::Ok)
}

/// What the arguments mean. Names come before files: a typing error is told without reading a large trace.
fn resolve(args: &SimArgs, terminal: &Terminal) -> Result<Batch, CliError> {
    let mut policies = distinct(&args.policy)?;
    let mut settings = input::settings(&args.set)?;
    if let Some(failures) = &args.failures {
        input::add_failures(failures, &mut settings)?;
    }
    let format = args.format.as_deref().map(input::format).transpose()?;
    let preset = input::preset(&args.preset)?;
    if policies == [ALL] {
        policies = super::policies::names(&preset);
    }
    let (cluster_name, cluster) = input::cluster(&args.cluster)?;
    let trace = input::trace(&args.trace, format, terminal)?;
    let profile = args.profile.as_deref().map(input::profile).transpose()?;
    let limits = args.limits.as_deref().map(input::limits).transpose()?.map(|(_, limits)| limits);
    let threads = thread_count(args.threads);
    Ok(Batch {
        trace,
        cluster_name,
        cluster,
        preset,
        settings,
        limits,
        seed: args.seed,
        profile,
        rounds: args.rounds.map(NonZeroU64::get),
        policies,
        threads,
    })
}

/// The command line as typed, for the report.
pub(super) fn command_line() -> String {
    let words = std::env::args().skip(1).map(|word| {
        let plain = |letter: char| letter.is_alphanumeric() || "-_./:,=+".contains(letter);
        if word.chars().all(plain) && !word.is_empty() {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    std::iter::once("wharf".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
