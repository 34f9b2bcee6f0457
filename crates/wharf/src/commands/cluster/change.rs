//! What people want changed about jobs: `wharf cancel`, `hold`, `release`, `requeue`.

use wharf_client::Client;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsRequest, ListJobsRequest, Refusal};

use super::connect::with;
use super::jobs::id_of;
use crate::args::{CancelArgs, ChangeArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::number::JobNumber;
use crate::output::Terminal;

fn change(args: &ChangeArgs, change: Change, terminal: &Terminal) -> Result<Exit, CliError> {
    let refused = with(&args.home, async |client| change_named(client, change, &args.jobs).await)?;
    tell_refusals(&refused, args.jobs.len(), terminal)
}

/// Changes jobs, whole arrays and elements of arrays.
async fn change_named(client: &Client, change: Change, jobs: &[JobNumber]) -> Result<Vec<Refusal>, CliError> {
    let mut elements = Vec::new();
    for number in jobs.iter().filter(|number| number.index.is_some()) {
        elements.push(id_of(client, *number).await?);
    }
    let whole = jobs.iter().filter(|number| number.index.is_none()).map(|number| number.job).collect();
    let mut refused = change_ids(client, change, whole, false).await?;
    refused.extend(change_ids(client, change, elements, true).await?);
    Ok(refused)
}

async fn change_ids(
    client: &Client,
    change: Change,
    job_ids: Vec<u32>,
    elements_only: bool,
) -> Result<Vec<Refusal>, CliError> {
    if job_ids.is_empty() {
        return Ok(Vec::new());
    }
    let request = ChangeJobsRequest { change: change.into(), job_ids, elements_only, ..Default::default() };
    Ok(client.change_jobs(request).await?)
}

fn tell_refusals(refused: &[Refusal], count: usize, terminal: &Terminal) -> Result<Exit, CliError> {
    for refusal in refused {
        terminal.warn(&format!("job {}: {}", refusal.job_id, refusal.reason));
    }
    match refused.is_empty() {
        true => Ok(Exit::Ok),
        false => Err(CliError::usage(format!("{} of {count} jobs were left as they are", refused.len()))),
    }
}

/// Cancels jobs.
pub(in crate::commands) fn cancel(args: &CancelArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let (refused, count) = with(&args.home, async |client| {
        if !args.all && args.user.is_none() {
            return Ok((change_named(client, Change::Cancel, &args.jobs).await?, args.jobs.len()));
        }
        let user = args.user.clone().unwrap_or_default();
        let filter = ListJobsRequest { live_only: true, user, ..ListJobsRequest::default() };
        let job_ids: Vec<u32> = client.list_jobs(filter).await?.iter().map(|job| job.job_id).collect();
        terminal.note(&format!("{} jobs are not over", job_ids.len()));
        let count = job_ids.len();
        // Each element is in the list itself.
        Ok((change_ids(client, Change::Cancel, job_ids, true).await?, count))
    })?;
    tell_refusals(&refused, count, terminal)
}

/// Keeps waiting jobs from starting.
pub(in crate::commands) fn hold(args: &ChangeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    change(args, Change::Hold, terminal)
}

/// Lets held jobs start.
pub(in crate::commands) fn release(args: &ChangeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    change(args, Change::Release, terminal)
}

/// Makes running jobs begin again.
pub(in crate::commands) fn requeue(args: &ChangeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    change(args, Change::Requeue, terminal)
}
