//! `wharf scancel`

use crate::grammar::getopt::{self, Opt, Order, Parsed, Takes};
use crate::grammar::outcome::State;
use crate::grammar::{array, hostlist, signal};
use wharf_client::Client;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsRequest, JobSummary, ListJobsRequest};

use super::{CommandError, Context, view};

use Takes::{Nothing, Value};

const SIGKILL: i32 = 9;

const OPTIONS: &[Opt] = &[
    Opt::new("account", 'A', Value),
    Opt::new("batch", 'b', Nothing),
    Opt::new("ctld", ' ', Nothing),
    Opt::new("full", 'f', Nothing),
    Opt::new("hurry", 'H', Nothing),
    Opt::new("interactive", 'i', Nothing),
    Opt::new("jobname", 'n', Value),
    Opt { long: "name", short: ' ', takes: Value, name: "jobname" },
    Opt::new("me", ' ', Nothing),
    Opt::new("nodelist", 'w', Value),
    Opt::new("partition", 'p', Value),
    Opt::new("quiet", 'Q', Nothing),
    Opt::new("signal", 's', Value),
    Opt::new("state", 't', Value),
    Opt::new("user", 'u', Value),
    Opt::new("verbose", 'v', Nothing),
];

pub(super) async fn execute(context: &Context, words: &[String]) -> Result<u8, CommandError> {
    let parsed = getopt::parse(OPTIONS, words, Order::Anywhere)?;
    let ids = parsed.rest.iter().map(|text| target(text)).collect::<Result<Vec<Target>, CommandError>>()?;
    let filters = ["account", "jobname", "me", "nodelist", "partition", "state", "user"];
    let is_filtered = parsed.given.iter().any(|given| filters.contains(&given.name));
    if ids.is_empty() && !is_filtered {
        return Err(CommandError::failed("No job identification provided"));
    }
    cancel(context, &parsed, &ids).await
}

/// A job, elements of an array, or one step of either.
struct Target {
    job: u32,
    indexes: Option<Vec<u32>>,
    step: Option<u32>,
}

impl Target {
    fn is(&self, job: &JobSummary) -> bool {
        match &self.indexes {
            None => job.job_id == self.job || job.array_job == self.job,
            Some(_) => self.is_own(job),
        }
    }

    /// Whether it is that very job, or one of those elements: the first of an array does not stand for all.
    fn is_own(&self, job: &JobSummary) -> bool {
        match &self.indexes {
            None => job.job_id == self.job,
            Some(indexes) => {
                job.array_job == self.job && job.array_index.is_some_and(|index| indexes.contains(&index))
            }
        }
    }
}

/// `12`, `12_3`, `12_[4-6]`, `12.0`, `12_3.0`.
fn target(text: &str) -> Result<Target, CommandError> {
    let invalid = || CommandError::failed(format!("Invalid job id {text}"));
    let (of, step) = match text.split_once('.') {
        Some((of, step)) => (of, Some(step.parse().map_err(|_| invalid())?)),
        None => (text, None),
    };
    let (job, indexes) = match of.split_once('_') {
        Some((job, indexes)) => (job, Some(indexes)),
        None => (of, None),
    };
    let job = job.parse().map_err(|_| invalid())?;
    let indexes =
        indexes.map(|indexes| array::Array::parse(indexes, u32::MAX).map_err(|_| invalid())).transpose()?;
    Ok(Target { job, indexes: indexes.map(|array| array.indexes), step })
}

async fn cancel(context: &Context, parsed: &Parsed, ids: &[Target]) -> Result<u8, CommandError> {
    let client = &context.connect().await?;
    let jobs = client.list_jobs(ListJobsRequest { live_only: true, ..ListJobsRequest::default() }).await?;
    let me = if parsed.has("me") { Some(client.info().await?.user) } else { None };
    let is_whole =
        |job: &JobSummary| ids.is_empty() || ids.iter().any(|target| target.step.is_none() && target.is(job));
    let mut chosen = Vec::new();
    for job in jobs.iter().filter(|job| is_whole(job)) {
        if is_taken(parsed, job)? && me.as_ref().is_none_or(|me| *me == job.user) {
            chosen.push(job.job_id);
        }
    }
    let mut code = 0;
    for target in ids {
        let Some(step) = target.step else { continue };
        let job = jobs.iter().find(|job| target.is_own(job)).map_or(target.job, |job| job.job_id);
        code = code.max(cancel_step(context, client, parsed, job, step).await?);
    }
    if parsed.has("verbose") {
        chosen.iter().for_each(|id| context.note(&format!("scancel: Terminating job {id}")));
    }
    if chosen.is_empty() {
        return Ok(code);
    }
    let request = ChangeJobsRequest { job_ids: chosen, elements_only: true, ..change(parsed)? };
    for refusal in client.change_jobs(request).await? {
        if !parsed.has("quiet") {
            context.note(&format!(
                "scancel: error: Kill job error on job id {}: {}",
                refusal.job_id, refusal.reason
            ));
        }
        code = 1;
    }
    Ok(code)
}

/// Kills one step, or sends it the signal that is asked for.
async fn cancel_step(
    context: &Context,
    client: &Client,
    parsed: &Parsed,
    job: u32,
    step: u32,
) -> Result<u8, CommandError> {
    let known = client
        .list_jobs(ListJobsRequest { job_ids: vec![job], live_only: true, ..ListJobsRequest::default() })
        .await?;
    let steps = if known.is_empty() { Vec::new() } else { client.get_job(job).await?.steps };
    let refused = |why: &str| {
        if !parsed.has("quiet") {
            context.note(&format!("scancel: error: Kill job error on job step id {job}.{step}: {why}"));
        }
        Ok(1)
    };
    if !steps.iter().any(|known| known.id == step && known.end_s <= 0.0) {
        return refused("Invalid job id specified");
    }
    if parsed.has("verbose") {
        context.note(&format!("scancel: Terminating step {job}.{step}"));
    }
    let request = ChangeJobsRequest {
        change: Change::Signal.into(),
        job_ids: vec![job],
        elements_only: true,
        signal: asked_signal(parsed)?.unwrap_or(SIGKILL),
        signal_beside: true,
        signal_step: Some(step),
        ..ChangeJobsRequest::default()
    };
    match client.change_jobs(request).await?.first() {
        Some(refusal) => refused(&refusal.reason),
        None => Ok(0),
    }
}

/// The number of the signal that `-s` names.
fn asked_signal(parsed: &Parsed) -> Result<Option<i32>, CommandError> {
    let Some(text) = parsed.value("signal") else { return Ok(None) };
    let number =
        signal::number(text).ok_or_else(|| CommandError::failed(format!("Unknown job signal: {text}")))?;
    Ok(Some(number))
}

fn is_taken(parsed: &Parsed, job: &JobSummary) -> Result<bool, CommandError> {
    for given in &parsed.given {
        let value = given.value.as_deref().unwrap_or_default();
        let is_it = match given.name {
            "account" => job.account == value,
            "jobname" => job.name == value,
            "user" => job.user == value,
            "partition" => view::partition(&job.pool) == value,
            "nodelist" => {
                let nodes = hostlist::expand(value)?;
                job.placement.iter().any(|share| nodes.contains(&share.node))
            }
            "state" => {
                let state = State::of_name(value)
                    .ok_or_else(|| CommandError::failed(format!("Invalid job state string: {value}")))?;
                view::state(job) == state
            }
            _ => true,
        };
        if !is_it {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What is done to the jobs: a signal only signals, unless it kills the whole job.
fn change(parsed: &Parsed) -> Result<ChangeJobsRequest, CommandError> {
    let (script, beside) = (parsed.has("batch") || parsed.has("full"), !parsed.has("batch"));
    let number = match asked_signal(parsed)? {
        Some(number) if number != SIGKILL || parsed.has("batch") => number,
        _ => return Ok(ChangeJobsRequest { change: Change::Cancel.into(), ..ChangeJobsRequest::default() }),
    };
    Ok(ChangeJobsRequest {
        change: Change::Signal.into(),
        signal: number,
        signal_script: script,
        // Children of the script are meant, too.
        signal_group: parsed.has("full"),
        signal_beside: beside,
        ..ChangeJobsRequest::default()
    })
}
