//! `wharf submit`: a job file and flags become jobs of a cluster.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use wharf_client::Client;
use wharf_proto::Dependency;

use super::connect::with;
use super::follow::show;
use crate::args::{OutputFormat, SubmitArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::input::is_standard;
use crate::jobfile::{Context, Format, Planned, Source, plan, shown};
use crate::output::Terminal;

/// Hands jobs in, and waits for them where asked to.
pub(in crate::commands) fn submit(args: &SubmitArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if let Some(form) = args.example {
        terminal.data(form.example())?;
        return Ok(Exit::Ok);
    }
    let planned = planned(args)?;
    if args.dry_run {
        let document = shown::document(&planned);
        match terminal.format {
            OutputFormat::Json => terminal.json(&document)?,
            OutputFormat::Table | OutputFormat::Plain => terminal.fields(&document)?,
        }
        return Ok(Exit::Ok);
    }
    let is_one = planned.len() == 1 && planned.iter().all(|job| job.spec.array.len() <= 1);
    if args.follow && !is_one {
        return Err(CliError::usage("`--follow` shows the output of one job, and these are several")
            .hint("use `--wait`, and `wharf logs --follow JOB` for one of them"));
    }
    with(&args.home, async |client| {
        let ids = hand_in(client, planned).await?;
        tell(&ids, args, terminal)?;
        if args.follow {
            show(client, terminal, ids.first().copied().unwrap_or_default()).await?;
        }
        if args.wait || args.follow { wait(client, &ids).await } else { Ok(Exit::Ok) }
    })
}

/// The jobs that the file and the flags describe.
fn planned(args: &SubmitArgs) -> Result<Vec<Planned>, CliError> {
    let context = context(args.file.as_deref(), args.job.user.as_deref())?;
    let flags = args.to_job();
    let Some(path) = &args.file else {
        if args.command.is_empty() {
            return Err(CliError::usage("there is nothing to submit")
                .hint("name a job file, or give a command after `--`: wharf submit -- python train.py"));
        }
        return plan(None, &flags, &context);
    };
    let (name, text) = read(path)?;
    let format = args.format.or_else(|| Format::of(path)).ok_or_else(|| {
        CliError::usage(format!("cannot tell the form of `{name}`"))
            .hint("say `--format yaml`, `toml` or `json`; a command goes after `--`")
    })?;
    plan(Some(Source { name: &name, text: &text, format }), &flags, &context)
}

/// The file's name for messages, and its text.
fn read(path: &Path) -> Result<(String, String), CliError> {
    let name = if is_standard(path) { "stdin".to_owned() } else { path.display().to_string() };
    let mut text = String::new();
    let read = if is_standard(path) {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(path).map(|read| text = read)
    };
    let refused = |error| {
        let error = CliError::read(Path::new(&name), error);
        if Format::of(path).is_some() { error } else { error.hint("a command goes after `--`") }
    };
    read.map_err(refused)?;
    Ok((name, text))
}

fn context(file: Option<&Path>, user: Option<&str>) -> Result<Context, CliError> {
    let workdir = std::env::current_dir()
        .map_err(|error| CliError::input("there is no working directory").caused_by(error))?;
    let parent = file.filter(|path| !is_standard(path)).and_then(Path::parent);
    let folder = parent.map_or_else(PathBuf::new, Path::to_owned);
    // Variables that are not UTF-8 cannot be told to a head.
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Context {
        folder: workdir.join(folder),
        workdir,
        user: user.unwrap_or_default().to_owned(),
        now_s: now.as_secs_f64(),
        shell: std::env::vars_os().filter_map(text).collect(),
    })
}

/// Submits jobs that wait for one another one by one, and others all at once.
async fn hand_in(client: &Client, planned: Vec<Planned>) -> Result<Vec<u32>, CliError> {
    if planned.iter().all(|job| job.waits.is_empty()) {
        return Ok(client.submit(planned.into_iter().map(|job| job.spec).collect()).await?);
    }
    let mut ids: Vec<u32> = Vec::new();
    // Of each job the ids to wait for: an array's first stands for all of its elements.
    let mut firsts: Vec<Vec<u32>> = Vec::new();
    for Planned { mut spec, waits } in planned {
        for (kind, index) in waits {
            let firsts = firsts.get(index).map(Vec::as_slice).unwrap_or_default();
            let wait = |&job_id: &u32| Dependency { kind: kind.into(), job_id, array_index: None };
            spec.dependencies.extend(firsts.iter().map(wait));
        }
        let (name, elements) = (spec.name.clone(), spec.array.len().max(1));
        let submitted = client.submit(vec![spec]).await.map_err(|error| {
            let error = CliError::from(error);
            if firsts.is_empty() {
                return error;
            }
            let taken: Vec<String> = firsts.iter().flatten().map(u32::to_string).collect();
            let taken = taken.join(" ");
            error.hint(format!(
                "`{name}` was refused after others were taken; `wharf cancel {taken}` undoes that"
            ))
        })?;
        firsts.push(submitted.iter().copied().step_by(elements).collect());
        ids.extend(submitted);
    }
    Ok(ids)
}

/// Says what the jobs are called from now on. The output of a job that is followed is all that is to be on standard output.
fn tell(ids: &[u32], args: &SubmitArgs, terminal: &Terminal) -> Result<(), CliError> {
    let text: Vec<String> = ids.iter().map(u32::to_string).collect();
    if args.follow {
        terminal.note(&format!("job {}", text.join(" ")));
        return Ok(());
    }
    match terminal.format {
        OutputFormat::Json => terminal.json(&serde_json::json!({ "schema": 1, "job_ids": ids })),
        OutputFormat::Table | OutputFormat::Plain => terminal.data(&(text.join("\n") + "\n")),
    }
}

/// Waits for all; the exit code is the first that is not 0.
async fn wait(client: &Client, ids: &[u32]) -> Result<Exit, CliError> {
    let mut worst = 0;
    for &job_id in ids {
        let code = client.wait(job_id).await?.exit_code;
        if worst == 0 {
            worst = code;
        }
    }
    Ok(Exit::Passed(u8::try_from(worst & 0xff).unwrap_or(1)))
}
