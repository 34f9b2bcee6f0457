//! `wharf profile query`.

use serde_json::json;
use wharf_core::{JobSpec, Plan, Time};
use wharf_perf::{Locality, Model, Order, Place, Sharing, Source, Speed, Workload, plan_name};
use wharf_profile::records::locality_name;
use wharf_profile::{Facts, Key, Records};

use super::{number, read_unfolded};
use crate::args::{OutputFormat, ProfileQueryArgs};
use crate::error::{CliError, ErrorKind};
use crate::input;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// What is known of one type.
struct Answer {
    device_type: String,
    speed: Speed,
    /// Who states this, where an entry does.
    source: String,
    /// The parallel plan that it holds for, where that is known.
    plan: Option<String>,
}

/// States how fast a model runs.
pub(super) fn query(args: &ProfileQueryArgs, terminal: &Terminal) -> Result<(), CliError> {
    if args.iteration_ms.is_some_and(|told| !told.is_finite() || told <= 0.0) {
        return Err(CliError::usage("`--iteration-ms` takes milliseconds above 0"));
    }
    let records = read_unfolded(&args.profile, terminal)?;
    let types = types(args, &records)?;
    if let (Some(hosts), Some(per_host)) = (args.hosts, args.per_host) {
        return super::cells::query(args, &records, &types, [hosts, per_host], terminal);
    }
    let answers: Vec<Answer> = match &args.plan {
        Some(plan) => planned(args, plan, &records, &types)?,
        None if args.data_parallel => data_parallel(args, &records, &types)?,
        None => unplanned(args, &records, &types)?,
    };
    show(args, &answers, terminal)
}

fn types(args: &ProfileQueryArgs, records: &Records) -> Result<Vec<String>, CliError> {
    if !args.device_type.is_empty() {
        return Ok(args.device_type.clone());
    }
    let mut types: Vec<String> =
        records.entries().map(|(key, _)| key.place.device_type.to_string()).collect();
    types.sort();
    types.dedup();
    if types.is_empty() {
        return Err(CliError::input("the profile has no device types").hint("set one with `--type`"));
    }
    Ok(types)
}

fn locality(args: &ProfileQueryArgs) -> Locality {
    if args.spread { Locality::Spread } else { Locality::Packed }
}

fn key(args: &ProfileQueryArgs, device_type: &str, plan: &str) -> Key {
    let mut beside: Vec<Workload> = args.beside.iter().map(|label| Workload::from_label(label)).collect();
    beside.sort();
    Key {
        workload: Workload { model: args.model.as_str().into(), batch_size: args.batch_size },
        place: Place { device_type: device_type.into(), devices: args.devices, locality: locality(args) },
        plan: plan.to_owned(),
        beside,
    }
}

/// Speeds under a plan: only what entries say.
fn planned(
    args: &ProfileQueryArgs,
    plan: &str,
    records: &Records,
    types: &[String],
) -> Result<Vec<Answer>, CliError> {
    let known = |device_type: &String| {
        let facts = records.get(&key(args, device_type, plan))?;
        let source = if facts.is_estimate { Source::Estimated } else { Source::Measured };
        let speed = Speed { iterations_per_s: facts.iterations_per_s, source };
        let source = facts.source.clone();
        Some(Answer { device_type: device_type.clone(), speed, source, plan: Some(plan.to_owned()) })
    };
    let answers: Vec<Answer> = types.iter().filter_map(known).collect();
    if !answers.is_empty() {
        return Ok(answers);
    }
    let plans =
        records.entries().filter(|(key, _)| *key.workload.model == *args.model && !key.plan.is_empty());
    let mut plans: Vec<&str> = plans.map(|(key, _)| key.plan.as_str()).collect();
    plans.sort_unstable();
    plans.dedup();
    let failed = CliError::input(format!("no data for `{}` under the plan `{plan}`", args.model))
        .hint_nearest(plan, plans.iter().copied());
    Err(if plans.is_empty() { failed } else { failed.hint(format!("its plans are {}", plans.join(", "))) })
}

/// Speeds where gangs are divided by samples only.
fn data_parallel(
    args: &ProfileQueryArgs,
    records: &Records,
    types: &[String],
) -> Result<Vec<Answer>, CliError> {
    let profile = records.profile();
    let known = |device_type: &String| {
        let workload = profile.workload(&args.model, args.batch_size)?;
        let here = profile.device_type(device_type)?;
        let entry = profile.data_parallel(workload, here, args.devices, locality(args))?;
        let source = if entry.is_estimate { Source::Estimated } else { Source::Measured };
        Some(Answer {
            device_type: device_type.clone(),
            speed: Speed { iterations_per_s: entry.iterations_per_s, source },
            source: "entries by plan, and memory".to_owned(),
            plan: Some(plan_name(Plan { stages: 1, data: args.devices, tensor: 1 })),
        })
    };
    let answers: Vec<Answer> = types.iter().filter_map(known).collect();
    if answers.is_empty() {
        let message = format!("no data for data parallelism of `{}`, only for its best plan", args.model);
        return Err(CliError::input(message).hint("omit `--data-parallel` for the best plan"));
    }
    Ok(answers)
}

/// The entry that a speed of a place comes from.
fn exact<'a>(records: &'a Records, wanted: &Key, speed: f64) -> Option<&'a Facts> {
    let is_there = |key: &Key| {
        (&key.workload, &key.place, &key.beside) == (&wanted.workload, &wanted.place, &wanted.beside)
    };
    let here = records.entries().filter(|(key, facts)| is_there(key) && facts.iterations_per_s == speed);
    here.map(|(_, facts)| facts).next()
}

/// Speeds by the rules that runs go by.
fn unplanned(args: &ProfileQueryArgs, records: &Records, types: &[String]) -> Result<Vec<Answer>, CliError> {
    let preset = input::preset("wharf")?;
    let Some(rules) = preset.rules() else {
        return Err(CliError::new(ErrorKind::Internal, "the default preset is not Wharf's own"));
    };
    let profile = records.profile();
    let model = Model::new(rules.costs, Sharing::Interference, Order::Best).with_profile(profile.clone());
    let spec = |workload: &Workload, iteration_ms| JobSpec {
        model: Some(workload.model.clone()),
        batch_size: workload.batch_size,
        ..JobSpec::new(&workload.model, Time::ZERO, args.devices, 1.0, iteration_ms)
    };
    let Key { workload, beside, .. } = key(args, "", "");
    let mut job = spec(&workload, args.iteration_ms.unwrap_or(0.0));
    if let Some(told_for) = &args.told_for {
        job.gang.device_types = [told_for.as_str().into()].into();
    }
    if job.iteration_ms == 0.0 && profile.nearest_workload(&workload.model, workload.batch_size).is_none() {
        let models: Vec<String> = records.entries().map(|(key, _)| key.workload.model.to_string()).collect();
        return Err(CliError::input(format!("the profile has no model `{}`", args.model))
            .hint_nearest(&args.model, models.iter().map(String::as_str))
            .hint("`--iteration-ms` is the time on one type; the profile converts it to other types"));
    }
    let neighbours: Vec<JobSpec> = beside.iter().map(|other| spec(other, 0.0)).collect();
    let neighbours: Vec<&JobSpec> = neighbours.iter().collect();
    let answer = |device_type: &String| {
        let speed = model.estimate(&job, device_type, args.devices, locality(args), &neighbours);
        let wanted = key(args, device_type, "");
        let source = match (exact(records, &wanted, speed.iterations_per_s), speed.source) {
            (Some(entry), _) => entry.source.clone(),
            (None, Source::Told) => "the job itself".to_owned(),
            (None, _) => "worked out of other entries".to_owned(),
        };
        let plan = || {
            let id = profile.workload(&workload.model, workload.batch_size)?;
            profile.plan(id, profile.device_type(device_type)?, args.devices, locality(args))
        };
        let plan = plan().filter(|_| beside.is_empty()).map(plan_name);
        Answer { device_type: device_type.clone(), speed, source, plan }
    };
    Ok(types.iter().map(answer).collect())
}

fn how(source: Source) -> &'static str {
    match source {
        Source::Measured => "measured",
        Source::Estimated => "estimated",
        Source::Told => "told",
    }
}

fn show(args: &ProfileQueryArgs, answers: &[Answer], terminal: &Terminal) -> Result<(), CliError> {
    let place = locality_name(locality(args));
    let per_iteration =
        |speed: Speed| (speed.iterations_per_s > 0.0).then(|| 1000.0 / speed.iterations_per_s);
    if terminal.format == OutputFormat::Json {
        let answers: Vec<_> = answers
            .iter()
            .map(|answer| {
                json!({
                    "device_type": answer.device_type,
                    "iterations_per_s": answer.speed.iterations_per_s,
                    "iteration_ms": per_iteration(answer.speed),
                    "how": how(answer.speed.source),
                    "source": answer.source,
                    "plan": answer.plan,
                })
            })
            .collect();
        return terminal.json(&json!({
            "schema": 1,
            "model": args.model,
            "batch_size": args.batch_size,
            "devices": args.devices,
            "locality": place,
            "plan": args.plan,
            "beside": args.beside,
            "answers": answers,
        }));
    }
    let mut grid =
        Grid::new(["type", "devices", "locality", "plan", "iterations/s", "ms/iteration", "how", "source"]);
    for answer in answers {
        let fits = answer.speed.iterations_per_s > 0.0;
        grid.push([
            &answer.device_type,
            &args.devices.to_string(),
            place,
            answer.plan.as_deref().unwrap_or("-"),
            &number(answer.speed.iterations_per_s),
            &per_iteration(answer.speed)
                .map_or_else(|| "does not fit".to_owned(), |time| format!("{time:.2}")),
            how(answer.speed.source),
            if fits { &answer.source } else { "-" },
        ]);
    }
    terminal.grid(&grid)
}
