//! `wharf sacct`: jobs that have ended, too.

use std::collections::BTreeMap;

use crate::grammar::accounting::{self, Level, Resources, Row};
use crate::grammar::getopt::{self, Opt, Order, Parsed, Takes};
use crate::grammar::moment::{Side, moment};
use crate::grammar::outcome::State;
use crate::grammar::shape::CPU;
use crate::grammar::squeue::Job;
use crate::grammar::{hostlist, table};
use crate::launch::CLUSTER;
use jiff::Zoned;
use tokio_stream::StreamExt as _;
use wharf_client::Client;
use wharf_proto::{JobDetail, JobFilter, JobSpec, JobSummary};

use super::{CommandError, Context, accounting_json, step_rows, view};

use Takes::{Maybe, Nothing, Value};

pub(super) const OPTIONS: &[Opt] = &[
    Opt::new("accounts", 'A', Value),
    Opt::new("allclusters", 'L', Nothing),
    Opt::new("allocations", 'X', Nothing),
    Opt::new("allusers", 'a', Nothing),
    Opt::new("brief", 'b', Nothing),
    Opt::new("clusters", 'M', Value),
    Opt::new("delimiter", ' ', Value),
    Opt::new("duplicates", 'D', Nothing),
    Opt::new("endtime", 'E', Value),
    Opt::new("federation", ' ', Nothing),
    Opt::new("format", 'o', Value),
    Opt::new("help", 'h', Nothing),
    Opt::new("helpformat", 'e', Nothing),
    Opt::new("jobs", 'j', Value),
    Opt::new("json", ' ', Nothing),
    Opt::new("local", ' ', Nothing),
    Opt::new("long", 'l', Nothing),
    Opt::new("name", ' ', Value),
    Opt::new("noconvert", ' ', Nothing),
    Opt::new("nodelist", 'N', Value),
    Opt::new("noheader", 'n', Nothing),
    Opt::new("parsable", 'p', Nothing),
    Opt::new("parsable2", 'P', Nothing),
    Opt::new("partition", 'r', Value),
    Opt::new("qos", 'q', Value),
    Opt::new("starttime", 'S', Value),
    Opt::new("state", 's', Value),
    Opt::new("truncate", 'T', Nothing),
    Opt { long: "uid", short: ' ', takes: Value, name: "user" },
    Opt::new("units", ' ', Value),
    Opt::new("user", 'u', Value),
    Opt::new("verbose", 'v', Nothing),
    Opt::new("version", 'V', Nothing),
    Opt::new("whole-hetjob", ' ', Maybe),
];

/// Columns of `--helpformat`.
const HELP_COLUMNS: usize = 4;
const HELP_WIDTH: usize = 19;

pub(super) async fn execute(context: &Context, words: &[String]) -> Result<u8, CommandError> {
    let parsed = getopt::parse(OPTIONS, words, Order::Anywhere)?;
    if parsed.has("helpformat") {
        let titles: Vec<&str> = accounting::FIELDS.iter().map(|(title, _)| *title).collect();
        let line = |titles: &[&str]| {
            titles.iter().map(|title| format!("{title:<HELP_WIDTH$}")).collect::<Vec<_>>().join(" ")
        };
        context.print(&titles.chunks(HELP_COLUMNS).map(line).collect::<Vec<_>>())?;
        return Ok(0);
    }
    let usual = match (parsed.has("brief"), parsed.has("long")) {
        (true, _) => accounting::BRIEF,
        (_, true) => accounting::LONG,
        _ => accounting::DEFAULT,
    };
    let variable = std::env::var("SACCT_FORMAT").ok();
    let format = parsed.value("format").or(variable.as_deref()).unwrap_or(usual);
    let columns = accounting::columns(format)
        .map_err(|unknown| CommandError::failed(format!("Invalid field requested: \"{unknown}\"")))?;
    let wanted = Wanted::of(&parsed, &Zoned::now())?;
    let rows = rows(&context.connect().await?, &wanted, parsed.has("allocations")).await?;
    if parsed.has("json") {
        context.print(&[accounting_json::document(&rows).to_string()])?;
    } else {
        context.print(&table::lines(&columns, &rows, &parsed, |row, field| row.value(field, CLUSTER)))?;
    }
    Ok(0)
}

/// Which jobs.
struct Wanted {
    ids: Vec<String>,
    filter: JobFilter,
    users: Vec<String>,
    accounts: Vec<String>,
    partitions: Vec<String>,
    names: Vec<String>,
    nodes: Vec<String>,
    qos: Vec<String>,
    states: Option<Vec<State>>,
}

impl Wanted {
    fn of(parsed: &Parsed, now: &Zoned) -> Result<Self, CommandError> {
        let list = |name: &str| parsed.list(name);
        check_clusters(&list("clusters"))?;
        let ids = list("jobs");
        let number = |id: &String| id.split(['_', '.']).next().unwrap_or_default().parse::<u32>().is_ok();
        if let Some(bad) = ids.iter().find(|id| !number(id)) {
            return Err(CommandError::failed(format!("fatal: Bad job/step specified: {bad}")));
        }
        let at = |name: &str| -> Result<Option<f64>, CommandError> {
            let Some(text) = parsed.value(name) else { return Ok(None) };
            let invalid =
                |at: usize| CommandError::failed(format!("Invalid time specification (pos={at}): {text}"));
            moment(text, now, Side::Past).map(Some).map_err(|malformed| invalid(malformed.0))
        };
        let today = || moment("today", now, Side::Past).ok().filter(|_| ids.is_empty());
        let state = |name: &String| {
            let invalid = || CommandError::failed(format!("fatal: unrecognized job state value '{name}'"));
            State::of_name(name).ok_or_else(invalid)
        };
        let (states, names) = (list("state"), list("name"));
        let mut filter = JobFilter {
            since_s: at("starttime")?.or_else(today),
            until_s: at("endtime")?,
            ..JobFilter::default()
        };
        // The head finds names by a part of them.
        if let [name] = names.as_slice()
            && !name.contains(['*', '?'])
        {
            filter.name.clone_from(name);
        }
        Ok(Self {
            ids,
            filter,
            users: list("user"),
            accounts: list("accounts"),
            partitions: list("partition"),
            names,
            nodes: hostlist::expand(parsed.value("nodelist").unwrap_or_default())?,
            qos: list("qos"),
            states: if states.is_empty() {
                None
            } else {
                Some(states.iter().map(state).collect::<Result<_, CommandError>>()?)
            },
        })
    }

    /// Jobs and arrays that are named.
    fn job_ids(&self) -> Vec<u32> {
        let number = |id: &String| id.split(['_', '.']).next().unwrap_or_default().parse().ok();
        self.ids.iter().filter_map(number).collect()
    }

    fn takes(&self, job: &Job) -> bool {
        let one_of = |list: &[String], text: &str| list.is_empty() || list.iter().any(|one| one == text);
        let is_named = |id: &String| job.is_named(id.split('.').next().unwrap_or_default());
        let is_on = |node: &String| hostlist::expand(&job.nodelist).is_ok_and(|names| names.contains(node));
        (self.ids.is_empty() || self.ids.iter().any(is_named))
            && one_of(&self.users, &job.user)
            && one_of(&self.accounts, &job.account)
            && one_of(&self.partitions, &job.partition)
            && one_of(&self.names, &job.name)
            && (self.nodes.is_empty() || self.nodes.iter().any(is_on))
            && self.states.as_ref().is_none_or(|states| states.contains(&job.state))
    }

    /// Whether a step is meant, where steps are named.
    fn takes_row(&self, row: &Row) -> bool {
        let named: Vec<&String> = self.ids.iter().filter(|id| id.contains('.')).collect();
        let is_it = |id: &&&String| row.job.id == ***id || row.value("JobIDRaw", CLUSTER) == ***id;
        named.is_empty() || row.level != Level::Allocation && named.iter().any(|id| is_it(&id))
    }
}

/// Fails where none of some clusters is this one.
pub(super) fn check_clusters(names: &[String]) -> Result<(), CommandError> {
    let is_this = |name: &String| name == CLUSTER || name.eq_ignore_ascii_case("all") || name == "-1";
    if names.is_empty() || names.iter().any(is_this) {
        return Ok(());
    }
    Err(CommandError::failed(format!(
        "'{}' can't be reached now, or it is an invalid entry for --cluster: the cluster's name is `{CLUSTER}`",
        names.join(",")
    )))
}

/// All rows, by one request.
async fn rows(client: &Client, wanted: &Wanted, is_whole: bool) -> Result<Vec<Row>, CommandError> {
    let mut reply = client.list_in_brief(wanted.job_ids(), wanted.filter.clone()).await?;
    let (mut details, mut specs) = (BTreeMap::new(), BTreeMap::new());
    while let Some(detail) = reply.next().await {
        let mut detail: JobDetail = detail.map_err(wharf_client::ClientError::from)?;
        let Some(summary) = detail.summary.clone() else { continue };
        if let Some(spec) = detail.spec.take() {
            specs.insert(summary.array_job, spec);
        }
        details.insert(summary.job_id, detail);
    }
    let summaries: Vec<JobSummary> = details.values().filter_map(|detail| detail.summary.clone()).collect();
    let mut jobs = view::rows(&summaries, &client.list_nodes().await?, false);
    // Slurm's accounting knows no other state of a job that has nodes; programs take unknown states for ends.
    for job in jobs.iter_mut().filter(|job| job.state == State::Configuring) {
        job.state = State::Running;
    }
    jobs.retain(|job| wanted.takes(job));
    jobs.sort_by_key(|job| (job.array, job.job));
    let mut facts = Facts::default();
    let mut all = Vec::new();
    for mut job in jobs {
        // A row of several elements that wait has no steps.
        let Some(detail) = details.get(&job.job) else { continue };
        let spec = specs.get(&job.array).cloned().unwrap_or_default();
        view::complete(&mut job, &JobSpec { time_limit_s: time_limit_s(detail), ..spec.clone() });
        let is_one = !job.id.contains('[');
        let below = if is_whole || !is_one { Vec::new() } else { step_rows::rows(&job, detail, &spec) };
        let row = facts.row(&job, detail, &spec);
        let step = |step: step_rows::StepRow| Row {
            derived: String::new(),
            level: step.level,
            tasks: step.tasks,
            usage: step.usage,
            resources: [0, 1].map(|_| Resources {
                cpus: step.job.cpus,
                nodes: step.job.nodes,
                ..Resources::default()
            }),
            job: step.job,
            ..row.clone()
        };
        let below: Vec<Row> = below.into_iter().map(step).collect();
        all.push(row);
        all.extend(below);
    }
    all.retain(|row| wanted.takes_row(row) && (wanted.qos.is_empty() || wanted.qos.contains(&row.qos)));
    Ok(all)
}

fn time_limit_s(detail: &JobDetail) -> f64 {
    detail.summary.as_ref().map_or(0.0, |summary| summary.time_limit_s)
}

/// Users and groups by name, each looked up once.
#[derive(Default)]
struct Facts {
    ids: BTreeMap<String, [String; 3]>,
}

impl Facts {
    fn ids(&mut self, user: &str) -> [String; 3] {
        let look = || {
            let user = nix::unistd::User::from_name(user).ok().flatten()?;
            let group = nix::unistd::Group::from_gid(user.gid).ok().flatten();
            let group = group.map(|group| group.name).unwrap_or_default();
            Some([user.uid.to_string(), user.gid.to_string(), group])
        };
        self.ids.entry(user.to_owned()).or_insert_with(|| look().unwrap_or_default()).clone()
    }

    fn row(&mut self, job: &Job, detail: &JobDetail, spec: &JobSpec) -> Row {
        let summary = detail.summary.clone().unwrap_or_default();
        let said = |name: &str| spec.env.get(name).cloned().unwrap_or_default();
        let gpus = (!summary.device_type.is_empty() && summary.device_type != CPU)
            .then(|| (summary.device_type.clone(), summary.devices));
        let allocated = Resources {
            cpus: job.cpus,
            nodes: job.nodes,
            memory_mib: spec.memory_mib * u64::from(summary.devices),
            gpus,
        };
        let eligible_s = summary.submit_s.max(spec.begin_s);
        let started_s = if summary.start_s > 0.0 { summary.start_s } else { view::now_s() };
        Row {
            level: Level::Allocation,
            derived: step_rows::derived(&detail.steps),
            resources: [allocated.clone(), allocated],
            tasks: 1,
            usage: None,
            eligible: view::moment(eligible_s),
            reserved_s: (started_s - eligible_s).max(0.0) as u64,
            ids: self.ids(&job.user),
            comment: said("WHARF_COMMENT"),
            qos: Some(said("WHARF_QOS")).filter(|qos| !qos.is_empty()).unwrap_or_else(|| "normal".to_owned()),
            constraints: said("WHARF_CONSTRAINT"),
            reservation: spec.reservation.clone(),
            container: spec.container.as_ref().map(|container| container.image.clone()).unwrap_or_default(),
            submit_line: said("WHARF_SUBMIT_LINE"),
            job: job.clone(),
        }
    }
}
