//! `wharf squeue`

use crate::grammar::getopt::{self, Opt, Order, Parsed, Takes};
use crate::grammar::layout::Layout;
use crate::grammar::limit::TimeLimit;
use crate::grammar::outcome::State;
use crate::grammar::{hostlist, squeue};
use jiff::Zoned;
use wharf_client::Client;
use wharf_proto::{JobSummary, ListJobsRequest};

use super::{CommandError, Context, step_rows, view};

use Takes::{Maybe, Nothing, Value};

const OPTIONS: &[Opt] = &[
    Opt::new("Format", 'O', Value),
    Opt::new("account", 'A', Value),
    Opt::new("all", 'a', Nothing),
    Opt::new("array", 'r', Nothing),
    Opt::new("format", 'o', Value),
    Opt::new("help", ' ', Nothing),
    Opt::new("iterate", 'i', Value),
    Opt::new("jobs", 'j', Maybe),
    Opt::new("json", ' ', Nothing),
    Opt::new("long", 'l', Nothing),
    Opt::new("me", ' ', Nothing),
    Opt::new("name", 'n', Value),
    Opt::new("noheader", 'h', Nothing),
    Opt::new("nodelist", 'w', Value),
    Opt::new("partition", 'p', Value),
    Opt::new("sort", 'S', Value),
    Opt::new("start", ' ', Nothing),
    Opt::new("states", 't', Value),
    Opt::new("steps", 's', Maybe),
    Opt::new("user", 'u', Value),
    Opt::new("verbose", 'v', Nothing),
    Opt::new("version", 'V', Nothing),
];

pub(super) async fn execute(context: &Context, words: &[String]) -> Result<u8, CommandError> {
    // `-j 12` is usual, although its value is optional: then it is glued.
    let words = glued(words);
    let parsed = getopt::parse(OPTIONS, &words, Order::Anywhere)?;
    let wanted = Wanted::of(&parsed)?;
    let client = &context.connect().await?;
    match parsed.has("steps") {
        true => list_steps(context, client, &parsed, &wanted).await,
        false => list(context, client, &parsed, &wanted).await,
    }
}

fn glued(words: &[String]) -> Vec<String> {
    let mut result: Vec<String> = Vec::new();
    for word in words {
        match result.last_mut() {
            Some(last) if (last == "-j" || last == "-s") && !word.starts_with('-') => *last += word,
            _ => result.push(word.clone()),
        }
    }
    result
}

/// Which jobs.
struct Wanted {
    ids: Vec<String>,
    users: Vec<String>,
    accounts: Vec<String>,
    partitions: Vec<String>,
    names: Vec<String>,
    nodes: Vec<String>,
    /// None: those that are not over.
    states: Option<Vec<State>>,
}

impl Wanted {
    fn of(parsed: &Parsed) -> Result<Self, CommandError> {
        let list = |name: &str| -> Vec<String> {
            let text = parsed.value(name).unwrap_or_default();
            text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        let states = match parsed.value("states") {
            None => None,
            Some(all) if all.eq_ignore_ascii_case("all") => Some(State::ALL.to_vec()),
            Some(names) => Some(names.split(',').map(state).collect::<Result<_, CommandError>>()?),
        };
        let ids = list("jobs");
        let is_id = |id: &String| id.split('_').all(|part| part.parse::<u32>().is_ok());
        if !ids.iter().all(is_id) {
            return Err(CommandError::failed(format!("Invalid job id: {}", ids.join(","))));
        }
        let nodes = hostlist::expand(parsed.value("nodelist").unwrap_or_default())?;
        let names = [list("name"), parsed.rest.clone()].concat();
        Ok(Self {
            ids,
            users: list("user"),
            accounts: list("account"),
            partitions: list("partition"),
            names,
            nodes,
            states,
        })
    }

    fn takes(&self, job: &squeue::Job, me: Option<&str>) -> bool {
        let one_of = |list: &[String], text: &str| list.is_empty() || list.iter().any(|one| one == text);
        let is_on = |node: &String| hostlist::expand(&job.nodelist).is_ok_and(|names| names.contains(node));
        (self.ids.is_empty() || self.ids.iter().any(|id| job.is_named(id)))
            && one_of(&self.users, &job.user)
            && me.is_none_or(|me| me == job.user)
            && one_of(&self.accounts, &job.account)
            && one_of(&self.partitions, &job.partition)
            && one_of(&self.names, &job.name)
            && (self.nodes.is_empty() || self.nodes.iter().any(is_on))
            && self.states.as_ref().is_none_or(|states| states.contains(&job.state))
    }
}

fn state(name: &str) -> Result<State, CommandError> {
    State::of_name(name).ok_or_else(|| {
        let valid: Vec<&str> = State::ALL.iter().map(|state| state.names().1).collect();
        CommandError::failed(format!(
            "Invalid job state specified: {name}\nValid job states include: {}",
            valid.join(",")
        ))
    })
}

/// The scripts and steps that run.
async fn list_steps(
    context: &Context,
    client: &Client,
    parsed: &Parsed,
    wanted: &Wanted,
) -> Result<u8, CommandError> {
    let jobs = client.list_jobs(ListJobsRequest { live_only: true, ..ListJobsRequest::default() }).await?;
    let nodes = client.list_nodes().await?;
    let me = if parsed.has("me") { Some(client.info().await?.user) } else { None };
    let (format, sort) = layout(parsed)?;
    let mut titles = Vec::new();
    for letter in format.letters() {
        let title = squeue::step_title(letter);
        titles.push(title.ok_or_else(|| {
            CommandError::failed(format!("Invalid job step format specification: {letter}"))
        })?);
    }
    let titles: Vec<String> = titles.into_iter().map(str::to_owned).collect();
    let named: Vec<&str> =
        parsed.value("steps").unwrap_or_default().split(',').filter(|id| !id.is_empty()).collect();
    let mut rows = Vec::new();
    for job in view::rows(&jobs, &nodes, true) {
        if job.state != State::Running || !wanted.takes(&job, me.as_deref()) {
            continue;
        }
        let detail = client.get_job(job.job).await?;
        let steps = step_rows::rows(&job, &detail, &detail.spec.clone().unwrap_or_default());
        rows.extend(steps.into_iter().map(|step| step.job).filter(|step| step.state == State::Running).map(
            |step| {
                let (partition, user) = (job.partition.clone(), job.user.clone());
                squeue::Job { partition, user, limit: TimeLimit::Unlimited, ..step }
            },
        ));
    }
    rows.retain(|row| named.is_empty() || named.contains(&row.id.as_str()));
    // Of one job the script is last.
    rows.sort_by_key(|row| row.name == "batch" && row.id.ends_with(".batch"));
    squeue::sort(&mut rows, parsed.value("sort").unwrap_or(sort));
    show(context, parsed, &format, titles, &rows)
}

fn show(
    context: &Context,
    parsed: &Parsed,
    format: &Layout,
    titles: Vec<String>,
    rows: &[squeue::Job],
) -> Result<u8, CommandError> {
    let lines: Vec<Vec<String>> =
        rows.iter().map(|row| format.letters().map(|letter| row.field(letter)).collect()).collect();
    let titles = (!parsed.has("noheader")).then_some(titles);
    if parsed.has("long") && titles.is_some() {
        context.print(&[Zoned::now().strftime("%a %b %d %H:%M:%S %Y").to_string()])?;
    }
    context.print(&format.lines(titles.as_deref(), &lines))?;
    Ok(0)
}

async fn list(
    context: &Context,
    client: &Client,
    parsed: &Parsed,
    wanted: &Wanted,
) -> Result<u8, CommandError> {
    let filter = ListJobsRequest { live_only: wanted.states.is_none(), ..ListJobsRequest::default() };
    let jobs = client.list_jobs(filter).await?;
    let nodes = client.list_nodes().await?;
    let me = if parsed.has("me") { Some(client.info().await?.user) } else { None };
    let mut rows = view::rows(&jobs, &nodes, parsed.has("array"));
    rows.retain(|row| wanted.takes(row, me.as_deref()));
    if !wanted.ids.is_empty() && rows.is_empty() {
        check_ids(client, wanted).await?;
    }
    let (format, sort) = layout(parsed)?;
    squeue::sort(&mut rows, parsed.value("sort").unwrap_or(sort));
    if format.letters().any(|letter| "oZE".contains(letter)) || parsed.has("json") {
        for row in &mut rows {
            if let Some(spec) = client.get_job(row.job).await?.spec {
                view::complete(row, &spec);
            }
        }
    }
    if parsed.has("json") {
        return json(context, &rows);
    }
    let titles = format.letters().map(|letter| squeue::title(letter).to_owned()).collect();
    show(context, parsed, &format, titles, &rows)
}

/// Jobs that have ended are not listed; those that never were are an error.
async fn check_ids(client: &Client, wanted: &Wanted) -> Result<(), CommandError> {
    let number = |id: &String| id.split('_').next().and_then(|id| id.parse().ok());
    let job_ids: Vec<u32> = wanted.ids.iter().filter_map(number).collect();
    let known: Vec<JobSummary> =
        client.list_jobs(ListJobsRequest { job_ids, ..ListJobsRequest::default() }).await?;
    if known.is_empty() {
        Err(CommandError::failed("slurm_load_jobs error: Invalid job id specified"))
    } else {
        Ok(())
    }
}

fn layout(parsed: &Parsed) -> Result<(Layout, &'static str), CommandError> {
    if let Some(names) = parsed.value("Format") {
        let layout = Layout::of_names(squeue::NAMES, names);
        let layout = layout.map_err(|unknown| {
            CommandError::failed(format!("Invalid job format specification: {unknown}"))
        })?;
        return Ok((layout, squeue::SORT));
    }
    let variable = std::env::var("SQUEUE_FORMAT").ok();
    let format = match parsed.value("format") {
        Some(format) => format,
        None if parsed.has("steps") => return Ok((Layout::parse(squeue::STEPS), squeue::SORT_STEPS)),
        None if parsed.has("start") => squeue::START,
        None if parsed.has("long") => squeue::LONG,
        None => variable.as_deref().unwrap_or(squeue::DEFAULT),
    };
    Ok((Layout::parse(format), squeue::SORT))
}

fn json(context: &Context, rows: &[squeue::Job]) -> Result<u8, CommandError> {
    let job = |row: &squeue::Job| {
        serde_json::json!({
            "job_id": row.job,
            "array_job_id": if row.index.is_some() { row.array } else { 0 },
            "array_task_id": row.index.as_ref().and_then(|index| index.parse::<u32>().ok()),
            "array_task_string": row.index.clone().unwrap_or_default(),
            "name": row.name,
            "user_name": row.user,
            "account": row.account,
            "partition": row.partition,
            "job_state": row.state.names().1,
            "state_reason": row.reason,
            "nodes": row.nodelist,
            "node_count": row.nodes,
            "cpus": row.cpus,
            "time_limit": row.limit.seconds().map(|seconds| seconds / 60),
            "priority": row.priority,
            "current_working_directory": row.workdir,
            "command": row.command,
            "dependency": row.dependency,
        })
    };
    let document = serde_json::json!({ "jobs": rows.iter().map(job).collect::<Vec<_>>(), "errors": [] });
    context.print(&[document.to_string()])?;
    Ok(0)
}
