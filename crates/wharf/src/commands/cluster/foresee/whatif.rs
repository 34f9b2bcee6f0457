//! `wharf whatif`: what is, or was, under other policies and on other machines.

use wharf_foresight::{Foresight, ForesightError, PAST_MAX, Window, regime, whatif};
use wharf_head::PolicyChoice;
use wharf_report::{Report, Summary};

use super::super::connect::with;
use crate::args::WhatIfArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;

/// Simulates under each policy and compares.
pub(in crate::commands) fn whatif(args: &WhatIfArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let past_max = if args.since.is_some() { u32::MAX } else { PAST_MAX };
    let mut foresight = with(&args.home, async |client| Ok(Foresight::fetch(client, past_max).await?))?;
    let choices = choices(args, &foresight)?;
    args.drain.iter().try_for_each(|name| foresight.drain(name))?;
    for text in &args.add_nodes {
        foresight.add_nodes(input::cluster(text)?.1);
    }
    let runs = match args.since {
        Some(since) => {
            let window = Window::new(&foresight, Some(since.0));
            let runs = each(&choices, terminal, |choice| whatif::over_again(&window, choice))?;
            std::iter::once(whatif::as_it_was(&window)).chain(runs).collect()
        }
        None => each(&choices, terminal, |choice| whatif::from_now(&foresight, choice))?,
    };
    terminal.report(&Report::new(runs))?;
    terminal.note(match args.since {
        Some(_) => "`as it was` is the actual run; the others are simulated from an empty cluster",
        None => "current jobs, with lengths estimated from similar ones; no new jobs arrive",
    });
    Ok(Exit::Ok)
}

fn choices(args: &WhatIfArgs, foresight: &Foresight) -> Result<Vec<PolicyChoice>, CliError> {
    let settings = input::settings(&args.set)?;
    let now = foresight.policy();
    if args.policy.is_empty() {
        let set = regime::choice(Some(&now.name), &settings);
        return Ok(vec![if args.set.is_empty() { now } else { set }]);
    }
    let choice = |name: &String| match *name == now.name && args.set.is_empty() {
        // As it decides now, with all its settings.
        true => now.clone(),
        false => regime::choice(Some(name), &settings),
    };
    let choices: Vec<PolicyChoice> = args.policy.iter().map(choice).collect();
    choices.iter().try_for_each(|choice| regime::make(choice).map(drop))?;
    Ok(choices)
}

/// One policy after the other, with a progress bar.
fn each(
    choices: &[PolicyChoice],
    terminal: &Terminal,
    simulate: impl Fn(&PolicyChoice) -> Result<Summary, ForesightError>,
) -> Result<Vec<Summary>, CliError> {
    let progress = terminal.progress(choices.len() as u64, "policies");
    let mut runs = Vec::with_capacity(choices.len());
    for choice in choices {
        runs.push(simulate(choice)?);
        progress.add(1);
    }
    progress.finish();
    Ok(runs)
}
