//! `wharf submit --trace`: every row of a trace becomes a job, at its time or at once.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use wharf_client::unix_s;
use wharf_core::JobSpec as Row;
use wharf_job::{Context, Planned, Words, plan, shown};
use wharf_proto::JobSpec;
use wharf_replay::{arrivals, check_request, paced};
use wharf_sim::scale_trace;

use super::connect::with;
use super::submit::{context, wait};
use crate::args::{OutputFormat, SubmitArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::input;
use crate::interrupt;
use crate::output::Terminal;

/// Submits the rows and tells the jobs' ids as they are taken.
pub(super) fn submit(args: &SubmitArgs, path: &Path, terminal: &Terminal) -> Result<Exit, CliError> {
    if !args.time_scale.is_finite() || args.time_scale <= 0.0 {
        return Err(CliError::usage("`--time-scale` takes a number above 0"));
    }
    let mut trace = input::trace(path, None, terminal)?;
    if !args.keep_offset {
        input::start_at_first(&mut trace)?;
    }
    let trace = scale_trace(&trace, args.time_scale);
    let context = context(None, &args.job)?;
    let began_s = unix_s();
    // All of them before the first is submitted: none is refused half-way.
    let specs: Vec<JobSpec> =
        trace.jobs.iter().map(|row| spec(row, args, &context, began_s)).collect::<Result<_, _>>()?;
    if args.dry_run {
        let jobs: Vec<_> = specs.iter().map(shown::spec).collect();
        let document = serde_json::json!({ "schema": 1, "jobs": jobs });
        match terminal.format {
            OutputFormat::Json => terminal.json(&document)?,
            OutputFormat::Table | OutputFormat::Plain | OutputFormat::Csv => terminal.fields(&document)?,
        }
        return Ok(Exit::Ok);
    }
    interrupt::say_when_interrupted("jobs that were submitted stay; `wharf cancel` ends them".to_owned());
    with(&args.home, async |client| {
        let mut specs = specs;
        if args.to_job().pool.is_none()
            && !client.list_nodes().await?.iter().any(|node| !node.pool.is_empty())
        {
            // As in a simulation: a cluster without pools is one pool for all.
            specs.iter_mut().for_each(|spec| spec.pool.clear());
        }
        let began = Instant::now();
        let mut specs = specs.into_iter();
        let mut ids = Vec::new();
        for (at, together) in arrivals(&trace.jobs) {
            if !args.now {
                sleep_until(began + Duration::from_secs_f64(at.seconds())).await;
            }
            let taken = client.submit(specs.by_ref().take(together.len()).collect()).await?;
            if terminal.format != OutputFormat::Json {
                let lines: String = taken.iter().map(|id| format!("{id}\n")).collect();
                terminal.data(&lines)?;
            }
            ids.extend(taken);
        }
        if terminal.format == OutputFormat::Json {
            terminal.json(&serde_json::json!({ "schema": 1, "job_ids": ids, "arrays": [] }))?;
        }
        if args.wait { wait(client, terminal, &ids).await } else { Ok(Exit::Ok) }
    })
}

/// A row with the flags over it: the workers' paced trainer, or the command with the row's values filled in.
fn spec(row: &Row, args: &SubmitArgs, context: &Context, began_s: f64) -> Result<JobSpec, CliError> {
    check_request(row)?;
    let is_paced = args.command.is_empty();
    let mut flags = args.to_job();
    // What is checked needs a command; a paced job gets its own from the worker.
    let command = if is_paced { vec!["wharf".to_owned()] } else { filled(&args.command, row) };
    flags.command = Some(Words(command));
    let Some(Planned { spec: given, .. }) = plan(None, &flags, context)?.into_iter().next() else {
        return Err(CliError::usage("a row of a trace is one job"));
    };
    let own = paced(row, began_s);
    let or = |given: String, own: String| if given.is_empty() { own } else { given };
    Ok(JobSpec {
        command: if is_paced { vec![] } else { given.command },
        paced: is_paced,
        name: own.name,
        gang: if flags.gang.is_some() { given.gang } else { own.gang },
        pool: or(given.pool, own.pool),
        model: or(given.model, own.model),
        cpus: flags.cpus.unwrap_or(own.cpus),
        memory_mib: if flags.memory.is_some() { given.memory_mib } else { own.memory_mib },
        priority: flags.priority.unwrap_or(own.priority),
        batch_size: flags.batch_size.unwrap_or(own.batch_size),
        iterations: flags.iterations.unwrap_or(own.iterations),
        iteration_ms: flags.iteration_ms.unwrap_or(own.iteration_ms),
        weight: flags.weight.unwrap_or(own.weight),
        deadline_s: if flags.deadline.is_some() { given.deadline_s } else { own.deadline_s },
        duration_s: own.duration_s,
        stages: own.stages,
        ..given
    })
}

/// The words of a command with what the row says in place of placeholders such as `{job}`. A word never becomes several.
fn filled(command: &[String], row: &Row) -> Vec<String> {
    let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
    let values = [
        ("job", row.name.to_string()),
        ("user", text(&row.user)),
        ("devices", row.gang.devices.to_string()),
        // A speed-up leaves parts of iterations, of which programs know nothing.
        ("iterations", row.iterations.ceil().to_string()),
        ("iteration_ms", row.iteration_ms.to_string()),
        ("duration_s", row.declared_s().to_string()),
        ("model", text(&row.model)),
        ("batch_size", row.batch_size.unwrap_or(0).to_string()),
        ("submit_s", row.submit.seconds().to_string()),
    ];
    command.iter().map(|word| fill(word, &values)).collect()
}

/// Other braces stay as they are, and what was filled in is not checked again.
fn fill(word: &str, values: &[(&str, String)]) -> String {
    let mut filled = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        filled += before;
        let known = values
            .iter()
            .find(|(name, _)| from[1..].strip_prefix(name).is_some_and(|after| after.starts_with('}')));
        match known {
            Some((name, value)) => {
                filled += value;
                rest = &from[name.len() + 2..];
            }
            None => {
                filled.push('{');
                rest = &from[1..];
            }
        }
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use wharf_core::Time;

    use super::*;

    #[test]
    fn words_are_filled_in_and_stay_words() {
        let row = Row {
            model: Some("a {devices} b".into()),
            ..Row::new("j 1", Time::from_seconds(2.5), 4, 100.0, 50.0)
        };
        let words = [
            "train.py",
            "--name={job}",
            "{iterations}",
            "{model}",
            "{\"x\": {unknown}}",
            "{devices}{devices}{",
        ];
        let words: Vec<String> = words.map(str::to_owned).to_vec();
        let expected = ["train.py", "--name=j 1", "100", "a {devices} b", "{\"x\": {unknown}}", "44{"];
        assert_eq!(filled(&words, &row), expected);
    }
}
