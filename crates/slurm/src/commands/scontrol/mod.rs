//! `wharf scontrol`

mod show;

use crate::grammar::hostlist;
use crate::grammar::limit::TimeLimit;
use jiff::Zoned;
use wharf_client::Client;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsRequest, ChangeNodeRequest, JobSummary, ListJobsRequest, change_node_request};

use super::{CommandError, Context, view};
use crate::grammar::moment::{Side, moment};

/// What can be changed of a job.
const CHANGEABLE: &str = "TimeLimit, JobName, Priority, Nice and StartTime";

pub(super) async fn execute(context: &Context, words: &[String]) -> Result<u8, CommandError> {
    let is_line = words.iter().any(|word| word == "-o" || word == "--oneliner");
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let (Some(&verb), rest) = (words.first(), words.get(1..).unwrap_or_default()) else {
        return Err(CommandError::failed("no command given: show, hold, release, requeue or update"));
    };
    match verb {
        "show" => show::show(context, rest, is_line).await,
        "hold" | "uhold" => change(context, rest, Change::Hold).await,
        "release" => change(context, rest, Change::Release).await,
        "requeue" => requeue(context, rest, false).await,
        "requeuehold" => requeue(context, rest, true).await,
        "update" => update(context, rest).await,
        "ping" => {
            let client = &context.connect().await?;
            let info = client.info().await?;
            context.print(&[format!("Slurmctld(primary) at wharf {} is UP", info.version)])?;
            Ok(0)
        }
        "suspend" | "resume" => Err(CommandError::failed(
            "Wharf does not suspend jobs: a stopped process would keep its devices. `scontrol requeuehold ID` stops a job and \
             gives its devices back until `scontrol release ID`; `scancel -f -s STOP ID` and `-s CONT` stop processes in their places",
        )),
        other => Err(CommandError::failed(format!("invalid keyword: {other}"))),
    }
}

/// The jobs that an id, or a list of them, means.
async fn find(client: &Client, text: &str) -> Result<Vec<JobSummary>, CommandError> {
    let invalid = || CommandError::failed("slurm_load_jobs error: Invalid job id specified");
    let mut found = Vec::new();
    let all = client.list_jobs(ListJobsRequest::default()).await?;
    for id in text.split(',') {
        let before = found.len();
        let (job, index) = match id.split_once('_') {
            Some((job, index)) => (job, Some(index.parse::<u32>().map_err(|_| invalid())?)),
            None => (id, None),
        };
        let job: u32 = job.parse().map_err(|_| invalid())?;
        let is_it = |one: &&JobSummary| match index {
            Some(index) => one.array_job == job && one.array_index == Some(index),
            None => one.job_id == job || one.array_index.is_some() && one.array_job == job,
        };
        found.extend(all.iter().filter(is_it).cloned());
        if found.len() == before {
            return Err(invalid());
        }
    }
    Ok(found)
}

async fn change(context: &Context, ids: &[&str], change: Change) -> Result<u8, CommandError> {
    let client = &context.connect().await?;
    let jobs = named(client, ids).await?;
    let request = ChangeJobsRequest { change: change.into(), ..ChangeJobsRequest::default() };
    apply(context, client, &jobs, request).await
}

async fn named(client: &Client, ids: &[&str]) -> Result<Vec<JobSummary>, CommandError> {
    if ids.is_empty() {
        return Err(CommandError::failed("too few arguments: which job?"));
    }
    let mut jobs = Vec::new();
    for id in ids {
        jobs.extend(find(client, id.trim_start_matches("jobid=").trim_start_matches("job=")).await?);
    }
    Ok(jobs)
}

async fn apply(
    context: &Context,
    client: &Client,
    jobs: &[JobSummary],
    request: ChangeJobsRequest,
) -> Result<u8, CommandError> {
    // Of an array, elements that have ended stay as they are.
    let is_array = jobs.len() > 1;
    let live = jobs.iter().filter(|job| !is_array || view::outcome(job).is_none());
    let request =
        ChangeJobsRequest { job_ids: live.map(|job| job.job_id).collect(), elements_only: true, ..request };
    let refused = client.change_jobs(request).await?;
    for refusal in &refused {
        context.note(&format!("{} for job {}", refusal.reason, refusal.job_id));
    }
    Ok(u8::from(!refused.is_empty()))
}

async fn requeue(context: &Context, ids: &[&str], is_held: bool) -> Result<u8, CommandError> {
    let client = &context.connect().await?;
    let jobs = named(client, ids).await?;
    for job in &jobs {
        let spec = client.get_job(job.job_id).await?.spec.unwrap_or_default();
        if spec.batch.is_some_and(|batch| batch.no_requeue) {
            context.note(&format!("Requested operation is presently disabled for job {}", job.job_id));
            return Ok(1);
        }
    }
    let request = ChangeJobsRequest { change: Change::Requeue.into(), ..ChangeJobsRequest::default() };
    let code = apply(context, client, &jobs, request).await?;
    if is_held && code == 0 {
        let request = ChangeJobsRequest { change: Change::Hold.into(), ..ChangeJobsRequest::default() };
        return apply(context, client, &jobs, request).await;
    }
    Ok(code)
}

/// `update jobid=12 priority=5`, `update nodename=n1 state=drain reason=disk`.
async fn update(context: &Context, words: &[&str]) -> Result<u8, CommandError> {
    let mut pairs: Vec<(String, &str)> = Vec::new();
    for word in words {
        let (name, value) =
            word.split_once('=').ok_or_else(|| CommandError::failed(format!("Invalid input: {word}")))?;
        pairs.push((name.to_ascii_lowercase(), value));
    }
    let value = |names: &[&str]| {
        pairs.iter().find(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| *value)
    };
    if let Some(nodes) = value(&["nodename", "node"]) {
        return update_nodes(context, nodes, value(&["state"]), value(&["reason"])).await;
    }
    let Some(id) = value(&["jobid", "job"]) else {
        return Err(CommandError::failed("No valid entity in update command; jobid= and nodename= are"));
    };
    let (mut changes, mut sign) = (Vec::new(), None);
    for (name, value) in pairs.iter().filter(|(name, _)| name != "jobid" && name != "job") {
        let number = || {
            value.parse::<i32>().map_err(|_| CommandError::failed(format!("Invalid {name} value: {value}")))
        };
        changes.push(match name.as_str() {
            "priority" => ChangeJobsRequest {
                change: Change::Priority.into(),
                priority: number()?,
                ..ChangeJobsRequest::default()
            },
            "nice" => ChangeJobsRequest {
                change: Change::Priority.into(),
                priority: -number()?,
                ..ChangeJobsRequest::default()
            },
            "starttime" => {
                let at = moment(value, &Zoned::now(), Side::Future)
                    .map_err(|_| CommandError::failed(format!("Invalid StartTime value: {value}")))?;
                ChangeJobsRequest {
                    change: Change::Begin.into(),
                    begin_s: at,
                    ..ChangeJobsRequest::default()
                }
            }
            "jobname" | "name" => ChangeJobsRequest {
                change: Change::Rename.into(),
                name: (*value).to_owned(),
                ..ChangeJobsRequest::default()
            },
            "timelimit" => {
                // `+10`: so much more than it has.
                sign = value.chars().next().filter(|letter| ['+', '-'].contains(letter));
                let text = value.trim_start_matches(['+', '-']);
                let limit: TimeLimit = text
                    .parse()
                    .map_err(|_| CommandError::failed(format!("Invalid TimeLimit value: {value}")))?;
                ChangeJobsRequest {
                    change: Change::TimeLimit.into(),
                    time_limit_s: limit.seconds().map_or(0.0, |seconds| seconds as f64),
                    ..ChangeJobsRequest::default()
                }
            }
            "partition" | "numnodes" | "numcpus" | "numtasks" | "features" | "reqnodelist" | "gres" => {
                return Err(CommandError::failed(format!(
                    "{name} of a job cannot be changed in Wharf: `scancel` it and submit it again"
                )));
            }
            other => {
                return Err(CommandError::failed(format!(
                    "{other} of a job cannot be changed in Wharf; {CHANGEABLE} can"
                )));
            }
        });
    }
    let client = &context.connect().await?;
    let jobs = find(client, id).await?;
    let mut code = 0;
    for request in changes {
        if let Some(sign) = sign.filter(|_| request.change() == Change::TimeLimit) {
            for job in &jobs {
                let request = relative(job, &request, sign)?;
                code = apply(context, client, std::slice::from_ref(job), request).await?.max(code);
            }
        } else {
            code = apply(context, client, &jobs, request).await?.max(code);
        }
    }
    Ok(code)
}

/// `timelimit=+10`: so much more, or less, than a job has.
fn relative(
    job: &JobSummary,
    request: &ChangeJobsRequest,
    sign: char,
) -> Result<ChangeJobsRequest, CommandError> {
    if job.time_limit_s <= 0.0 {
        return Err(CommandError::failed(format!("job {} has no time limit to count from", job.job_id)));
    }
    let by = if sign == '-' { -request.time_limit_s } else { request.time_limit_s };
    let time_limit_s = job.time_limit_s + by;
    if time_limit_s <= 0.0 {
        return Err(CommandError::failed(format!("job {} would have no time left", job.job_id)));
    }
    Ok(ChangeJobsRequest { time_limit_s, ..request.clone() })
}

async fn update_nodes(
    context: &Context,
    list: &str,
    state: Option<&str>,
    reason: Option<&str>,
) -> Result<u8, CommandError> {
    let names = hostlist::expand(list)?;
    let change = match state.map(str::to_ascii_lowercase).as_deref() {
        Some("drain") => change_node_request::Change::Cordon,
        Some("down") => change_node_request::Change::Drain,
        Some("resume" | "idle" | "undrain") => change_node_request::Change::Resume,
        _ => return Err(CommandError::failed("the state of a node can be drain, down or resume")),
    };
    let client = &context.connect().await?;
    for node in names {
        let reason = reason.unwrap_or_default().to_owned();
        client.change_node(ChangeNodeRequest { node, change: change.into(), reason }).await?;
    }
    Ok(0)
}
