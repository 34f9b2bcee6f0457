//! What people want changed about jobs: `wharf cancel`, `hold`, `release`, `requeue`, `priority`.

use std::io::{BufRead as _, IsTerminal as _};

use wharf_client::Client;
use wharf_job::JobNumber;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsReply, ChangeJobsRequest, JobSummary, Refusal};

use super::connect::with;
use super::filter::filter;
use super::jobs::id_of;
use crate::args::{CancelArgs, ChangeArgs, OutputFormat, PriorityArgs, SelectArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::grid::Grid;
use crate::output::{Terminal, counted};

/// Jobs that are shown before the confirmation.
const SHOWN_MAX: usize = 20;

/// What is to be done.
#[derive(Clone, Copy)]
struct Wish {
    change: Change,
    priority: i32,
    /// What it is called.
    verb: &'static str,
}

impl Wish {
    fn new(change: Change, verb: &'static str) -> Self {
        Self { change, priority: 0, verb }
    }

    fn request(self) -> ChangeJobsRequest {
        let Self { change, priority, .. } = self;
        ChangeJobsRequest { change: change.into(), priority, ..ChangeJobsRequest::default() }
    }
}

fn change(select: &SelectArgs, wish: Wish, terminal: &Terminal) -> Result<Exit, CliError> {
    if !select.jobs.is_empty() {
        let refused = with(&select.home, async |client| change_named(client, wish, &select.jobs).await)?;
        return tell_refusals(&refused, select.jobs.len(), terminal);
    }
    let asks = !select.yes && !select.dry_run && std::io::stdin().is_terminal();
    let reply = with(&select.home, async |client| {
        let request =
            ChangeJobsRequest { filter: Some(filter(client, &select.filter).await?), ..wish.request() };
        if select.dry_run || asks {
            let found =
                client.change_matching(ChangeJobsRequest { dry_run: true, ..request.clone() }).await?;
            if select.dry_run || found.matched.is_empty() || !is_wanted(&found.matched, wish, terminal)? {
                return Ok((found, false));
            }
        }
        // What matches now is changed, all at one moment.
        Ok((client.change_matching(request).await?, true))
    })?;
    let (ChangeJobsReply { refused, matched }, is_done) = reply;
    if select.dry_run {
        show(&matched, terminal)?;
    }
    let count = matched.len();
    terminal.note(&match (is_done, count) {
        (_, 0) => "no job matches".to_owned(),
        (true, _) => format!("{}: {}", wish.verb, counted(count, "job")),
        (false, 1) => "1 job matches; nothing was changed".to_owned(),
        (false, _) => format!("{count} jobs match; nothing was changed"),
    });
    tell_refusals(&refused, count, terminal)
}

/// Shows what would be changed and asks.
fn is_wanted(jobs: &[JobSummary], wish: Wish, terminal: &Terminal) -> Result<bool, CliError> {
    for job in jobs.iter().take(SHOWN_MAX) {
        let number = JobNumber::of(job);
        terminal.note(&format!("{number} {} ({}, {})", job.name, job.user, job.phase().word()));
    }
    if jobs.len() > SHOWN_MAX {
        terminal.note(&format!("and {} more", jobs.len() - SHOWN_MAX));
    }
    terminal.ask(&format!("{} {}? [y/N]", wish.verb, counted(jobs.len(), "job")));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| CliError::input("cannot read standard input").caused_by(error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn show(jobs: &[JobSummary], terminal: &Terminal) -> Result<(), CliError> {
    if terminal.format == OutputFormat::Json {
        let jobs: Vec<_> = jobs
            .iter()
            .map(|job| {
                let phase = job.phase().word();
                serde_json::json!({ "job_id": job.job_id, "name": job.name, "user": job.user, "phase": phase })
            })
            .collect();
        return terminal.json(&serde_json::json!({ "schema": 1, "jobs": jobs }));
    }
    let mut grid = Grid::new(["job", "name", "user", "phase"]);
    for job in jobs {
        grid.push([&JobNumber::of(job).to_string(), &job.name, &job.user, job.phase().word()]);
    }
    terminal.grid(&grid)
}

/// Changes jobs, whole arrays and elements of arrays.
async fn change_named(client: &Client, wish: Wish, jobs: &[JobNumber]) -> Result<Vec<Refusal>, CliError> {
    let mut elements = Vec::new();
    for number in jobs.iter().filter(|number| number.index.is_some()) {
        elements.push(id_of(client, *number).await?);
    }
    let whole = jobs.iter().filter(|number| number.index.is_none()).map(|number| number.job).collect();
    let mut refused = change_ids(client, wish, whole, false).await?;
    refused.extend(change_ids(client, wish, elements, true).await?);
    Ok(refused)
}

async fn change_ids(
    client: &Client,
    wish: Wish,
    job_ids: Vec<u32>,
    elements_only: bool,
) -> Result<Vec<Refusal>, CliError> {
    if job_ids.is_empty() {
        return Ok(Vec::new());
    }
    Ok(client.change_jobs(ChangeJobsRequest { job_ids, elements_only, ..wish.request() }).await?)
}

fn tell_refusals(refused: &[Refusal], count: usize, terminal: &Terminal) -> Result<Exit, CliError> {
    for refusal in refused {
        terminal.warn(&format!("job {}: {}", refusal.job_id, refusal.reason));
    }
    match refused.is_empty() {
        true => Ok(Exit::Ok),
        false => Err(CliError::usage(format!("{} of {count} jobs were not changed", refused.len()))),
    }
}

/// Cancels jobs.
pub(in crate::commands) fn cancel(args: &CancelArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    change(&args.select, Wish::new(Change::Cancel, "cancel"), terminal)
}

/// Keeps waiting jobs from starting.
pub(in crate::commands) fn hold(args: &ChangeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    change(&args.select, Wish::new(Change::Hold, "hold"), terminal)
}

/// Lets held jobs start.
pub(in crate::commands) fn release(args: &ChangeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    change(&args.select, Wish::new(Change::Release, "release"), terminal)
}

/// Makes running jobs begin again.
pub(in crate::commands) fn requeue(args: &ChangeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    change(&args.select, Wish::new(Change::Requeue, "requeue"), terminal)
}

/// Makes jobs more or less urgent.
pub(in crate::commands) fn priority(args: &PriorityArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let wish = Wish { priority: args.priority, ..Wish::new(Change::Priority, "change the priority of") };
    change(&args.select, wish, terminal)
}
