//! `wharf submit`: a job file and flags become jobs of a cluster.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use wharf_client::{Client, unix_s};
use wharf_job::{Array, Context, Format, JobNumber, Planned, Source, clashes, placeholders, plan, shown};
use wharf_pilot::ray::RayJob;
use wharf_proto::{Checkpoint, Dependency, JobSpec};

use super::connect::with;
use super::direct;
use super::follow::show;
use super::jobs::id_of;
use super::logs::show_tail;
use super::rows;
use crate::args::{JobFlags, OutputFormat, SubmitArgs};
use crate::commands::ray;
use crate::error::CliError;
use crate::exit::Exit;
use crate::input::is_standard;
use crate::output::Terminal;

/// Largest number of unplaceable jobs of a file that are reported.
const OBSTACLES_MAX: usize = 16;

/// Jobs that failed whose last lines are shown to those who waited for them.
const TAILS_MAX: usize = 3;

/// Hands jobs in, and waits for them where asked to.
pub(in crate::commands) fn submit(args: &SubmitArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if let Some(form) = args.example {
        terminal.data(form.example())?;
        return Ok(Exit::Ok);
    }
    if let Some(trace) = &args.trace {
        return rows::submit(args, trace, terminal);
    }
    let mut planned = planned(args)?;
    planned.iter_mut().for_each(|job| job.spec.allow_root = args.allow_root);
    planned.iter().for_each(|job| warn_about(&job.spec, terminal));
    if planned.iter().any(|job| job.job.executor.as_ref().is_some_and(|executor| executor.slurm.is_some())) {
        return direct::submit(&planned, args, terminal);
    }
    let ray = planned.iter().map(RayJob::of).collect::<Result<Vec<_>, _>>()?;
    if args.dry_run {
        let mut document = shown::document(&planned);
        for (shown, job) in document["jobs"].as_array_mut().into_iter().flatten().zip(&ray) {
            if let Some(job) = job {
                shown["executor"] = serde_json::json!({ "ray": job.address, "job": job });
            }
        }
        match terminal.format {
            OutputFormat::Json => terminal.json(&document)?,
            OutputFormat::Table | OutputFormat::Plain | OutputFormat::Csv => terminal.fields(&document)?,
        }
        return Ok(Exit::Ok);
    }
    if ray.iter().any(Option::is_some) {
        return ray::submit(args, ray, terminal);
    }
    let is_one = planned.len() == 1 && planned.iter().all(|job| job.spec.array.len() <= 1);
    if args.follow && !is_one {
        return Err(CliError::usage("`--follow` requires a single job")
            .hint("use `--wait`, and `wharf logs --follow JOB` for one of them"));
    }
    with(&args.home, async |client| {
        if let Some(number) = args.resume_from {
            resume_from(client, number, &mut planned).await?;
        }
        let taken = hand_in(client, planned).await?;
        tell(&taken, args, terminal)?;
        for job in taken.iter().take(OBSTACLES_MAX) {
            if let Some(reason) = client.obstacle(job.job_id).await? {
                terminal.warn(&format!("job {} waits: {reason}", job.job_id));
            }
        }
        let ids: Vec<u32> = taken.iter().flat_map(Taken::ids).collect();
        if args.follow {
            show(client, terminal, ids.first().copied().unwrap_or_default(), 0).await?;
        }
        let tails = if args.follow { 0 } else { TAILS_MAX };
        if args.wait || args.follow {
            wait_showing(client, terminal, &ids, tails).await
        } else {
            Ok(Exit::Ok)
        }
    })
}

/// Warns of elements that would write the same file, and of placeholders that no parameter fills in.
pub(super) fn warn_about(spec: &JobSpec, terminal: &Terminal) {
    clashes(spec).iter().for_each(|clash| terminal.warn(clash));
    let found = placeholders(spec);
    // Only sweeps have parameters; elsewhere braces in a line of shell are no mistake.
    let doubtful = found.doubtful.iter().filter(|_| spec.parameters.is_some());
    for name in found.unknown.iter().chain(doubtful) {
        terminal.warn(&format!("`{{{name}}}` is not a parameter and is not replaced"));
    }
}

/// The jobs that the file and the flags describe.
fn planned(args: &SubmitArgs) -> Result<Vec<Planned>, CliError> {
    let context = context(args.file.as_deref(), &args.job)?;
    let flags = args.to_job();
    let Some(path) = &args.file else {
        if args.command.is_empty() {
            return Err(CliError::usage("nothing to submit")
                .hint("give a job file, or a command after `--`: wharf submit -- python train.py"));
        }
        return Ok(plan(None, &flags, &context)?);
    };
    let (name, text) = read(path)?;
    let format = args.format.or_else(|| Format::of(path)).ok_or_else(|| {
        CliError::usage(format!("cannot detect the format of `{name}`"))
            .hint("set `--format yaml`, `toml` or `json`; a command goes after `--`")
    })?;
    Ok(plan(Some(Source { name: &name, text: &text, format }), &flags, &context)?)
}

/// Gives a job the checkpoint directory of an earlier one.
async fn resume_from(client: &Client, number: JobNumber, planned: &mut [Planned]) -> Result<(), CliError> {
    let [Planned { spec, .. }] = planned else {
        return Err(CliError::usage("`--resume-from` requires a single job"));
    };
    if !spec.array.is_empty() {
        return Err(CliError::usage("`--resume-from` does not support arrays")
            .hint("set `checkpoint.dir` with %a in it"));
    }
    let id = id_of(client, number).await?;
    let detail = client.get_job(id).await?;
    if number.index.is_none() && detail.spec.as_ref().is_some_and(|spec| !spec.array.is_empty()) {
        return Err(CliError::usage(format!("job {number} is an array; give one element, as in {number}_0")));
    }
    if detail.checkpoint_dir.is_empty() {
        return Err(CliError::input(format!("job {number} has no known checkpoint directory"))
            .hint("set the directory with `--checkpoint-dir`"));
    }
    let contract = spec.checkpoint.get_or_insert_with(Checkpoint::default);
    contract.dir = detail.checkpoint_dir.replace('%', "%%");
    Ok(())
}

/// The file's name for messages, and its text.
pub(super) fn read(path: &Path) -> Result<(String, String), CliError> {
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

pub(super) fn context(file: Option<&Path>, flags: &JobFlags) -> Result<Context, CliError> {
    let workdir = std::env::current_dir()
        .map_err(|error| CliError::input("cannot determine the working directory").caused_by(error))?;
    let parent = file.filter(|path| !is_standard(path)).and_then(Path::parent);
    let folder = parent.map_or_else(PathBuf::new, Path::to_owned);
    // Variables that are not UTF-8 cannot be requested to a head.
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    Ok(Context {
        folder: workdir.join(folder),
        workdir,
        user: flags.user.clone().unwrap_or_default(),
        account: wharf_slurm::commands::own_group().unwrap_or_default(),
        now_s: unix_s(),
        shell: std::env::vars_os().filter_map(text).collect(),
        no_container: flags.no_container,
    })
}

/// A job that was taken, or an array by its first element.
struct Taken {
    job_id: u32,
    /// None of a job that is no array.
    indexes: Vec<u32>,
}

impl Taken {
    /// The indexes as people write them.
    fn text(&self) -> String {
        Array::new(self.indexes.clone()).map(|indexes| indexes.to_string()).unwrap_or_default()
    }

    fn ids(&self) -> std::ops::Range<u32> {
        self.job_id..self.job_id.saturating_add(self.indexes.len().max(1) as u32)
    }
}

/// Submits jobs that wait for one another one by one, and others all at once.
async fn hand_in(client: &Client, planned: Vec<Planned>) -> Result<Vec<Taken>, CliError> {
    // Of how many jobs one on every node becomes, only the head knows.
    let is_simple =
        |job: &Planned| job.waits.is_empty() && !job.spec.gang.as_ref().is_some_and(|gang| gang.every_node);
    if planned.iter().all(is_simple) {
        let arrays: Vec<Vec<u32>> = planned.iter().map(|job| job.spec.array.clone()).collect();
        let ids = client.submit(planned.into_iter().map(|job| job.spec).collect()).await?;
        let mut ids = ids.into_iter();
        let mut taken = Vec::new();
        for indexes in arrays {
            let count = indexes.len().max(1);
            taken.extend(ids.by_ref().take(count).min().map(|job_id| Taken { job_id, indexes }));
        }
        return Ok(taken);
    }
    // Of each job those to wait for: an array's first stands for all of its elements.
    let mut taken: Vec<Vec<Taken>> = Vec::new();
    for Planned { mut spec, waits, .. } in planned {
        for (kind, index) in waits {
            let firsts = taken.get(index).map(Vec::as_slice).unwrap_or_default();
            let wait =
                |job: &Taken| Dependency { kind: kind.into(), job_id: job.job_id, ..Dependency::default() };
            spec.dependencies.extend(firsts.iter().map(wait));
        }
        let (name, indexes) = (spec.name.clone(), spec.array.clone());
        let submitted = client.submit(vec![spec]).await.map_err(|error| {
            let error = CliError::from(error);
            if taken.is_empty() {
                return error;
            }
            let before: Vec<String> = taken.iter().flatten().map(|job| job.job_id.to_string()).collect();
            let before = before.join(" ");
            error.hint(format!(
                "`{name}` was rejected after others were submitted; cancel those with `wharf cancel {before}`"
            ))
        })?;
        let firsts = submitted.into_iter().step_by(indexes.len().max(1));
        taken.push(firsts.map(|job_id| Taken { job_id, indexes: indexes.clone() }).collect());
    }
    Ok(taken.into_iter().flatten().collect())
}

/// States what the jobs are called from now on. The output of a job that is followed is all that is to be on standard output.
fn tell(taken: &[Taken], args: &SubmitArgs, terminal: &Terminal) -> Result<(), CliError> {
    let ids: Vec<u32> = taken.iter().map(|job| job.job_id).collect();
    let text: Vec<String> = ids.iter().map(u32::to_string).collect();
    if args.follow {
        terminal.note(&format!("job {}", text.join(" ")));
        return Ok(());
    }
    let arrays = taken.iter().filter(|job| !job.indexes.is_empty());
    if terminal.format == OutputFormat::Json {
        let arrays: Vec<_> = arrays
            .map(|job| serde_json::json!({ "job_id": job.job_id, "count": job.indexes.len(), "indexes": job.text() }))
            .collect();
        return terminal.json(&serde_json::json!({ "schema": 1, "job_ids": ids, "arrays": arrays }));
    }
    terminal.data(&(text.join("\n") + "\n"))?;
    for job in arrays {
        let (id, count) = (job.job_id, job.indexes.len());
        let (first, last) = (job.indexes.first().unwrap_or(&0), job.indexes.last().unwrap_or(&0));
        terminal.note(&format!("{id} is an array of {count}: {id}_{first} to {id}_{last}"));
    }
    Ok(())
}

/// Waits for all; the exit code is the first that is not 0. The end of the output of the first that fail is shown.
pub(super) async fn wait(client: &Client, terminal: &Terminal, ids: &[u32]) -> Result<Exit, CliError> {
    wait_showing(client, terminal, ids, TAILS_MAX).await
}

async fn wait_showing(
    client: &Client,
    terminal: &Terminal,
    ids: &[u32],
    mut tails: usize,
) -> Result<Exit, CliError> {
    let mut worst = 0;
    for &job_id in ids {
        let ended = client.wait(job_id).await?;
        if !ended.reason.is_empty() {
            terminal.note(&format!("job {}: {}", JobNumber::of(&ended), ended.reason));
        }
        let code = ended.exit_code;
        if code != 0 && tails > 0 {
            tails -= 1;
            if let Err(error) = show_tail(client, terminal, &ended).await {
                // The job's own exit code matters more.
                terminal.warn(&format!("cannot show the output of job {job_id}: {error}"));
            }
        }
        if worst == 0 {
            worst = code;
        }
    }
    Ok(Exit::Passed(u8::try_from(worst & 0xff).unwrap_or(1)))
}
