//! `wharf size`: how many nodes of which kind serve a trace well enough.

use std::num::NonZeroU32;

use wharf_external::Program;
use wharf_job::Seconds;
use wharf_report::human;
use wharf_study::sizing::{NodeKind, SizeAnswer, Sizing, Target, builtin_profile};

use crate::args::{OutputFormat, SizeArgs};
use crate::error::{CliError, translate};
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Finds the least number of nodes of each kind and compares them.
///
/// # Errors
/// The inputs are wrong, or no number of nodes reaches the targets.
pub(super) fn execute(args: &SizeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    // Names come before files: a typing error is reported without reading a large trace.
    if !Program::is_named(&args.policy) {
        wharf_reproduce::find(&args.policy).map_err(|error| translate::policy(&error))?;
    }
    let kinds = args.node.iter().map(|text| kind(text)).collect::<Result<Vec<_>, _>>()?;
    let targets = args.target.iter().map(|text| target(text)).collect::<Result<_, _>>()?;
    let given = args.profile.as_deref().map(input::profile).transpose()?;
    let trace = input::trace(&args.trace, None, terminal)?;
    let sizing = Sizing {
        targets,
        is_builtin: given.is_none(),
        profile: given.or_else(|| builtin_profile(&kinds, &trace)),
        prices: args.price.iter().map(|text| price(text)).collect::<Result<_, _>>()?,
        settings: input::settings(&args.set)?,
        preset: input::preset("wharf")?,
        trace,
        policy: &args.policy,
        nodes_max: args.nodes_max,
    };
    let tried = |kind: &NodeKind, nodes: u32, is_enough: bool| {
        let verdict = if is_enough { "enough" } else { "too few" };
        terminal.detail(&format!("{nodes} nodes of {}:{}: {verdict}", kind.device_type, kind.devices));
    };
    let mut answers = sizing.answers(&kinds, tried).map_err(|error| translate::run(&error))?;
    // As they were typed.
    answers.iter_mut().zip(&args.node).for_each(|(answer, text)| answer.node.clone_from(text));
    show(&sizing, &answers, terminal)?;
    if answers.iter().all(|answer| answer.nodes.is_none()) {
        return Err(CliError::input("no tested number of nodes reaches the target")
            .hint("more nodes do not help jobs that run longer than the target"));
    }
    Ok(Exit::Ok)
}

fn kind(text: &str) -> Result<NodeKind, CliError> {
    let (device_type, devices) = input::devices(text)?;
    // The parser accepts no 0.
    let devices = NonZeroU32::new(devices).unwrap_or(NonZeroU32::MIN);
    Ok(NodeKind { device_type, devices })
}

fn target(text: &str) -> Result<Target, CliError> {
    let names = Target::metrics;
    let wrong = |what: String| CliError::usage(what).hint("for example `--target p95_wait=1h`");
    let Some((name, most)) = text.split_once('=') else {
        return Err(wrong(format!("`--target {text}` is not of the form METRIC=DURATION")));
    };
    let parsed: Result<Seconds, _> = most.parse();
    let most_s = parsed.as_ref().map_or(0.0, |seconds| seconds.0);
    let Some(target) = Target::new(name, most_s) else {
        return Err(wrong(format!("`{name}` cannot be a target"))
            .hint_nearest(name, names())
            .hint(format!("there are {}", names().collect::<Vec<_>>().join(", "))));
    };
    match parsed {
        Ok(_) => Ok(target),
        Err(error) => Err(wrong(format!("`--target {text}`: {error}"))),
    }
}

fn price(text: &str) -> Result<(String, f64), CliError> {
    let parsed = text.split_once('=').and_then(|(kind, price)| Some((kind, price.parse::<f64>().ok()?)));
    match parsed.filter(|(_, price)| price.is_finite() && *price >= 0.0) {
        Some((kind, price)) => Ok((kind.to_owned(), price)),
        None => Err(CliError::usage(format!("`--price {text}` is not of the form TYPE=PRICE"))
            .hint("for example `--price a100=2.5`, for an hour of one device")),
    }
}

fn show(sizing: &Sizing<'_>, answers: &[SizeAnswer], terminal: &Terminal) -> Result<(), CliError> {
    if terminal.format == OutputFormat::Json {
        return terminal
            .json(&serde_json::json!({ "schema": 1, "policy": sizing.policy, "answers": answers }));
    }
    let mut grid =
        Grid::new(["node", "speed", "nodes", "devices", "reached", "utilization", "per hour", "in all"]);
    for answer in answers {
        let none = || "-".to_owned();
        let number = |value: Option<u32>| value.map_or_else(none, |value| value.to_string());
        let money = |value: Option<f64>| value.map_or_else(none, |value| format!("{value:.2}"));
        let reached = |(name, &reached_s): (&String, &f64)| format!("{name} {}", human::duration(reached_s));
        let reached: Vec<String> = answer.reached_s.iter().map(reached).collect();
        grid.push([
            &answer.node,
            &answer.relative_speed.map_or_else(none, |speed| format!("{speed:.2}")),
            &number(answer.nodes),
            &number(answer.devices),
            &reached.join(", "),
            &answer.utilization.map_or_else(none, human::percent),
            &money(answer.price_per_hour),
            &money(answer.price),
        ]);
    }
    terminal.grid(&grid)?;
    if let Some(profile) = &sizing.profile {
        let reference = profile.told_reference().map_or("the profile's reference type", |name| &**name);
        let whose = if sizing.is_builtin { "the built-in profile" } else { "the profile" };
        terminal.note(&format!(
            "speeds are relative to the type of a job's own times (the first requested one, or {reference}), by {whose}"
        ));
    } else if answers.len() > 1 {
        terminal.note("no profile for these types: jobs are assumed to run equally fast on all of them");
    }
    for answer in answers.iter().filter(|answer| answer.nodes.is_none()) {
        terminal.note(&format!("up to {} nodes of {} are not enough", sizing.nodes_max, answer.node));
    }
    Ok(())
}
