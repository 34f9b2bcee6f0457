//! `wharf sacct`: jobs that have ended, too.

use crate::grammar::getopt::{self, Opt, Order, Parsed, Takes};
use crate::grammar::layout::Column;
use crate::grammar::limit::Full;
use crate::grammar::outcome::State;
use crate::grammar::squeue::Job;
use jiff::Zoned;
use wharf_client::Client;
use wharf_proto::{JobFilter, JobSummary, ListJobsRequest};

use super::{CommandError, Context, step_rows, view};
use crate::grammar::moment::moment;

use Takes::{Nothing, Value};

const OPTIONS: &[Opt] = &[
    Opt::new("accounts", 'A', Value),
    Opt::new("allocations", 'X', Nothing),
    Opt::new("allusers", 'a', Nothing),
    Opt::new("brief", 'b', Nothing),
    Opt::new("delimiter", ' ', Value),
    Opt::new("duplicates", 'D', Nothing),
    Opt::new("endtime", 'E', Value),
    Opt::new("format", 'o', Value),
    Opt::new("helpformat", 'e', Nothing),
    Opt::new("jobs", 'j', Value),
    Opt::new("long", 'l', Nothing),
    Opt::new("name", ' ', Value),
    Opt::new("noheader", 'n', Nothing),
    Opt::new("parsable", 'p', Nothing),
    Opt::new("parsable2", 'P', Nothing),
    Opt::new("partition", 'r', Value),
    Opt::new("starttime", 'S', Value),
    Opt::new("state", 's', Value),
    Opt::new("units", ' ', Value),
    Opt::new("user", 'u', Value),
    Opt::new("version", 'V', Nothing),
];

/// Default and available columns.
const DEFAULT: &str = "jobid,jobname,partition,account,alloccpus,state,exitcode";
const BRIEF: &str = "jobid,state,exitcode";
const KNOWN: &[&str] = &[
    "account",
    "alloccpus",
    "allocnodes",
    "cputime",
    "derivedexitcode",
    "elapsed",
    "elapsedraw",
    "end",
    "exitcode",
    "jobid",
    "jobidraw",
    "jobname",
    "ncpus",
    "nnodes",
    "nodelist",
    "partition",
    "priority",
    "reason",
    "start",
    "state",
    "submit",
    "timelimit",
    "user",
];

pub(super) async fn execute(context: &Context, words: &[String]) -> Result<u8, CommandError> {
    let parsed = getopt::parse(OPTIONS, words, Order::Anywhere)?;
    if parsed.has("helpformat") {
        context.print(&KNOWN.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        return Ok(0);
    }
    let usual = if parsed.has("brief") { BRIEF } else { DEFAULT };
    let columns: Vec<Column> =
        parsed.value("format").unwrap_or(usual).split(',').map(Column::parse).collect();
    if let Some(unknown) = columns.iter().find(|column| !KNOWN.contains(&column.name.as_str())) {
        return Err(CommandError::failed(format!("Invalid field requested: \"{}\"", unknown.name)));
    }
    let rows = rows(&context.connect().await?, &parsed).await?;
    context.print(&lines(&columns, &rows, &parsed))?;
    Ok(0)
}

/// A job, or a step of one.
struct Row {
    job: Job,
    /// The worst that any of its steps ended with; empty for a step.
    derived: String,
}

async fn rows(client: &Client, parsed: &Parsed) -> Result<Vec<Row>, CommandError> {
    let is_whole = parsed.has("allocations");
    let at = |name: &str| -> Result<Option<f64>, CommandError> {
        let Some(text) = parsed.value(name) else { return Ok(None) };
        let invalid = || CommandError::failed(format!("Invalid time specification (pos=0): {text}"));
        moment(text, &Zoned::now()).map(Some).ok_or_else(invalid)
    };
    let (since_s, until_s) = (at("starttime")?, at("endtime")?);
    let filter = (since_s.is_some() || until_s.is_some()).then(|| JobFilter {
        since_s,
        until_s,
        ..JobFilter::default()
    });
    let jobs: Vec<JobSummary> =
        client.list_jobs(ListJobsRequest { filter, ..ListJobsRequest::default() }).await?;
    let mut rows = view::rows(&jobs, &client.list_nodes().await?, false);
    let states = match parsed.value("state") {
        None => None,
        Some(names) => {
            let state = |name: &str| {
                State::of_name(name).ok_or_else(|| CommandError::failed(format!("Invalid state: {name}")))
            };
            Some(names.split(',').map(state).collect::<Result<Vec<_>, CommandError>>()?)
        }
    };
    let one_of =
        |name: &str, text: &str| parsed.value(name).is_none_or(|list| list.split(',').any(|one| one == text));
    rows.retain(|row| {
        parsed.value("jobs").is_none_or(|ids| ids.split(',').any(|id| row.is_named(id)))
            && one_of("user", &row.user)
            && one_of("accounts", &row.account)
            && one_of("partition", &row.partition)
            && one_of("name", &row.name)
            && states.as_ref().is_none_or(|states| states.contains(&row.state))
    });
    rows.sort_by_key(|row| (row.array, row.job));
    let mut all = Vec::new();
    for row in rows {
        // A row of several elements that wait has no steps.
        let is_one = !row.id.contains('[');
        let detail = if is_one { Some(client.get_job(row.job).await?) } else { None };
        let derived =
            detail.as_ref().map_or_else(|| "0:0".to_owned(), |detail| step_rows::derived(&detail.steps));
        let below =
            detail.filter(|_| !is_whole).map(|detail| step_rows::rows(&row, &detail)).unwrap_or_default();
        all.push(Row { job: row, derived });
        all.extend(below.into_iter().map(|job| Row { job, derived: String::new() }));
    }
    Ok(all)
}

fn field(row: &Row, name: &str) -> String {
    let job = &row.job;
    let is_step = row.derived.is_empty();
    let or = |text: &str| if text.is_empty() { "Unknown".to_owned() } else { text.to_owned() };
    match name {
        "account" => job.account.clone(),
        "alloccpus" | "ncpus" => if job.state == State::Pending { 0 } else { job.cpus }.to_string(),
        "allocnodes" | "nnodes" => job.nodes.to_string(),
        "cputime" => Full(job.used_s * u64::from(job.cpus)).to_string(),
        "elapsed" => Full(job.used_s).to_string(),
        "elapsedraw" => job.used_s.to_string(),
        "submit" => or(&job.times[0]),
        "start" => or(&job.times[1]),
        "end" => or(&job.times[2]),
        "exitcode" => job.exit.clone(),
        "derivedexitcode" => row.derived.clone(),
        "priority" | "reason" | "timelimit" if is_step => String::new(),
        "jobid" => job.id.clone(),
        // Of a step with its number, as in `12.0`.
        "jobidraw" if is_step => {
            let suffix = job.id.rsplit('.').next().unwrap_or_default();
            format!("{}.{suffix}", job.job)
        }
        "jobidraw" => job.job.to_string(),
        "jobname" => job.name.clone(),
        "nodelist" if job.nodelist.is_empty() => "None assigned".to_owned(),
        "nodelist" => job.nodelist.clone(),
        "partition" => job.partition.clone(),
        "priority" => job.priority.to_string(),
        "reason" => job.reason.clone(),
        "state" => job.state.names().1.to_owned(),
        "timelimit" => job.limit.to_string(),
        "user" => job.user.clone(),
        _ => String::new(),
    }
}

fn title(name: &str) -> String {
    let known = [
        ("jobid", "JobID"),
        ("jobidraw", "JobIDRaw"),
        ("jobname", "JobName"),
        ("alloccpus", "AllocCPUS"),
        ("allocnodes", "AllocNodes"),
        ("exitcode", "ExitCode"),
        ("derivedexitcode", "DerivedExitCode"),
        ("ncpus", "NCPUS"),
        ("nnodes", "NNodes"),
        ("nodelist", "NodeList"),
        ("cputime", "CPUTime"),
        ("elapsedraw", "ElapsedRaw"),
        ("timelimit", "Timelimit"),
    ];
    let capital = || name[..1].to_ascii_uppercase() + &name[1..];
    known.iter().find(|(key, _)| *key == name).map_or_else(capital, |(_, title)| (*title).to_owned())
}

fn lines(columns: &[Column], rows: &[Row], parsed: &Parsed) -> Vec<String> {
    let is_bare = parsed.has("noheader");
    if parsed.has("parsable") || parsed.has("parsable2") {
        let delimiter = parsed.value("delimiter").unwrap_or("|");
        let after = if parsed.has("parsable") { delimiter } else { "" };
        let joined = |values: Vec<String>| values.join(delimiter) + after;
        let header = (!is_bare).then(|| joined(columns.iter().map(|column| title(&column.name)).collect()));
        let rows =
            rows.iter().map(|row| joined(columns.iter().map(|column| field(row, &column.name)).collect()));
        return header.into_iter().chain(rows).collect();
    }
    // A blank after each column, also the last one.
    let line =
        |of: &dyn Fn(&Column) -> String| columns.iter().map(|column| of(column) + " ").collect::<String>();
    let mut lines = Vec::new();
    if !is_bare {
        lines.push(line(&|column| column.fitted(&title(&column.name))));
        lines.push(line(&|column| "-".repeat(column.width)));
    }
    lines.extend(rows.iter().map(|row| line(&|column| column.fitted(&field(row, &column.name)))));
    lines
}
