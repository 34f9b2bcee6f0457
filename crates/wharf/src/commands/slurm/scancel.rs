//! `wharf scancel`

use wharf_client::Client;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsRequest, JobSummary, ListJobsRequest};
use wharf_slurm::getopt::{self, Opt, Order, Parsed, Takes};
use wharf_slurm::outcome::State;
use wharf_slurm::{array, signal};

use super::{Fail, say, view, with};
use crate::args::HomeArgs;

use Takes::{Nothing, Value};

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

pub(super) fn execute(home: &HomeArgs, words: &[String]) -> Result<u8, Fail> {
    let parsed = getopt::parse(OPTIONS, words, Order::Anywhere)?;
    let ids = parsed.rest.iter().map(|text| target(text)).collect::<Result<Vec<Target>, Fail>>()?;
    let filters = ["account", "jobname", "me", "nodelist", "partition", "state", "user"];
    let is_filtered = parsed.given.iter().any(|given| filters.contains(&given.name));
    if ids.is_empty() && !is_filtered {
        return Err(Fail::failed("No job identification provided"));
    }
    with(home, async |client| cancel(client, &parsed, &ids).await)
}

/// A job, or elements of an array.
struct Target {
    job: u32,
    indexes: Option<Vec<u32>>,
}

/// `12`, `12_3`, `12_[4-6]`.
fn target(text: &str) -> Result<Target, Fail> {
    let invalid = || Fail::failed(format!("Invalid job id {text}"));
    if text.contains('.') {
        // Taking it for the whole job would end more than was meant.
        return Err(Fail::failed(format!(
            "{text} is a step, which cannot be cancelled alone in Wharf; `scancel -s INT JOBID` reaches all steps of a job"
        )));
    }
    let (job, indexes) = match text.split_once('_') {
        Some((job, indexes)) => (job, Some(indexes)),
        None => (text, None),
    };
    let job = job.parse().map_err(|_| invalid())?;
    let indexes =
        indexes.map(|indexes| array::Array::parse(indexes, u32::MAX).map_err(|_| invalid())).transpose()?;
    Ok(Target { job, indexes: indexes.map(|array| array.indexes) })
}

async fn cancel(client: &Client, parsed: &Parsed, ids: &[Target]) -> Result<u8, Fail> {
    let has = |name: &str| parsed.given.iter().any(|given| given.name == name);
    let jobs = client.list_jobs(ListJobsRequest { live_only: true, ..ListJobsRequest::default() }).await?;
    let me = if has("me") { Some(client.info().await?.user) } else { None };
    let is_named = |job: &JobSummary| {
        ids.is_empty()
            || ids.iter().any(|target| match &target.indexes {
                None => job.job_id == target.job || job.array_job == target.job,
                Some(indexes) => {
                    job.array_job == target.job
                        && job.array_index.is_some_and(|index| indexes.contains(&index))
                }
            })
    };
    let mut chosen = Vec::new();
    for job in jobs.iter().filter(|job| is_named(job)) {
        if is_taken(parsed, job)? && me.as_ref().is_none_or(|me| *me == job.user) {
            chosen.push(job.job_id);
        }
    }
    let mut code = 0;
    if has("verbose") {
        chosen.iter().for_each(|id| say(&format!("scancel: Terminating job {id}")));
    }
    if chosen.is_empty() {
        return Ok(code);
    }
    let request = ChangeJobsRequest { job_ids: chosen, elements_only: true, ..change(parsed)? };
    for refusal in client.change_jobs(request).await? {
        if !has("quiet") {
            say(&format!("scancel: error: Kill job error on job id {}: {}", refusal.job_id, refusal.reason));
        }
        code = 1;
    }
    Ok(code)
}

fn is_taken(parsed: &Parsed, job: &JobSummary) -> Result<bool, Fail> {
    for given in &parsed.given {
        let value = given.value.as_deref().unwrap_or_default();
        let is_it = match given.name {
            "account" => job.account == value,
            "jobname" => job.name == value,
            "user" => job.user == value,
            "partition" => view::partition(&job.pool) == value,
            "nodelist" => {
                let nodes =
                    wharf_slurm::hostlist::expand(value).map_err(|error| Fail::failed(error.to_string()))?;
                job.placement.iter().any(|share| nodes.contains(&share.node))
            }
            "state" => {
                let state = State::of_name(value)
                    .ok_or_else(|| Fail::failed(format!("Invalid job state string: {value}")))?;
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
fn change(parsed: &Parsed) -> Result<ChangeJobsRequest, Fail> {
    let has = |name: &str| parsed.given.iter().any(|given| given.name == name);
    let named = parsed
        .given
        .iter()
        .rev()
        .find(|given| given.name == "signal")
        .and_then(|given| given.value.as_deref());
    let Some(text) = named else {
        return Ok(ChangeJobsRequest { change: Change::Cancel.into(), ..ChangeJobsRequest::default() });
    };
    let number = signal::number(text).ok_or_else(|| Fail::failed(format!("Unknown job signal: {text}")))?;
    let (script, beside) = (has("batch") || has("full"), !has("batch"));
    if signal::name(number) == "KILL" && !has("batch") {
        return Ok(ChangeJobsRequest { change: Change::Cancel.into(), ..ChangeJobsRequest::default() });
    }
    Ok(ChangeJobsRequest {
        change: Change::Signal.into(),
        signal: number,
        signal_script: script,
        signal_beside: beside,
        ..ChangeJobsRequest::default()
    })
}
