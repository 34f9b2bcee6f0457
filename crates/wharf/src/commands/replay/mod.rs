//! `wharf replay`: a trace on a real cluster, beside the simulator's prediction.

mod acts;
mod jobs;
mod live;
mod plan;
mod tell;

use std::collections::BTreeMap;
use std::path::Path;

use wharf_client::Client;
use wharf_core::{ClusterSpec, NodeSpec};
use wharf_proto::node_summary::Health;
use wharf_worker::check_network_interface;

use crate::args::{HomeArgs, OutputFormat, ReplayArgs};
use crate::commands::cluster::{self, Interruptions};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::input;
use crate::interrupt;
use crate::output::{Terminal, counted};
use wharf_study::OutDir;

pub(super) use jobs::{arrivals, paced};
use live::{Lived, embedded};
use plan::Plan;
use tell::Comparison;

/// What a start is taken to cost where nothing is measured.
const NOMINAL_START_COST_S: f64 = 0.05;

/// Replays, compares and tells.
///
/// # Errors
/// Whatever is wrong with the inputs, the cluster or the outputs; and where jobs failed.
pub(super) fn execute(args: &ReplayArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let out = args.out.as_deref().map(OutDir::new).transpose()?;
    let folder = tempfile::Builder::new().prefix("wharf-replay-").tempdir();
    let folder = folder.map_err(|error| CliError::write(&std::env::temp_dir(), error))?;
    let done = cluster::runtime()?.block_on(run(args, folder.path(), terminal))?;
    let Some((plan, start_cost_s, lived)) = done else {
        return Ok(interrupt::handled().unwrap_or(Exit::Ok));
    };
    let prediction = plan.predict(start_cost_s)?;
    let comparison = Comparison::new(&plan, start_cost_s, &prediction, &lived);
    comparison.tell(terminal)?;
    if let Some(out) = out {
        comparison.write(out)?;
    }
    if let Some(out) = &args.out {
        terminal.note(&format!("the report is in `{}`", out.display()));
    }
    if !comparison.has_launches() {
        let message = format!("the replay launched none of the {} jobs", plan.trace.jobs.len());
        return Err(CliError::new(ErrorKind::Internal, message)
            .hint("the simulator launches some of them; a smaller `--time-scale` or more `--rounds` give the cluster more time"));
    }
    let is_whole = plan.cutoff_s.is_none();
    let failed = lived.record.jobs.iter().filter(|job| !job.is_finished && is_whole).count();
    match failed {
        0 => Ok(Exit::Ok),
        _ => Err(CliError::new(ErrorKind::Internal, format!("{failed} jobs did not finish"))),
    }
}

/// Everything that was replayed; none where it was interrupted, or only planned.
async fn run(
    args: &ReplayArgs,
    folder: &Path,
    terminal: &Terminal,
) -> Result<Option<(Plan, f64, Lived)>, CliError> {
    if let Some(name) = &args.network_interface {
        check_network_interface(name).map_err(|error| {
            let failed = CliError::from_error(ErrorKind::Input, &error);
            failed.hint("name an interface of this machine, or leave `--network-interface` out")
        })?;
    }
    let served = match &args.home {
        Some(home) => Some(Served::find(home, terminal).await?),
        None => None,
    };
    let (name, spec) = match (&served, &args.cluster) {
        (Some(served), _) => ("served".to_owned(), served.cluster.clone()),
        (None, Some(text)) => input::cluster(text)?,
        (None, None) => return Err(CliError::usage("`--cluster` or `--home` is needed")),
    };
    let mut plan = Plan::resolve(args, name, spec, terminal)?;
    if let Some(served) = &served {
        served.check_policy(plan.policy.name)?;
    }
    if args.dry_run {
        if let Some(served) = &served {
            served.compare(&plan, args.start_cost, terminal);
        }
        tell_plan(&plan, args, terminal)?;
        return Ok(None);
    }
    own_users(&mut plan, terminal);
    let interruptions = Interruptions::watch();
    let start_cost_s = match (args.start_cost, &served) {
        (Some(cost_s), _) => Some(cost_s),
        (None, Some(served)) => Some(live::start_cost_s(&served.client, folder).await?),
        (None, None) => measure(folder, &interruptions, terminal).await?,
    };
    let Some(start_cost_s) = start_cost_s else { return Ok(None) };
    announce(&plan, start_cost_s, terminal)?;
    let lived = match &served {
        Some(served) => {
            served.compare(&plan, Some(start_cost_s), terminal);
            live::replay(&served.client, &plan, folder, &interruptions, terminal).await?
        }
        None => {
            let home = live::cluster_plan(&plan, start_cost_s, folder);
            let work =
                async |client: &Client| live::replay(client, &plan, folder, &interruptions, terminal).await;
            embedded(&home, &interruptions, terminal, work).await?.flatten()
        }
    };
    Ok(lived.map(|lived| (plan, start_cost_s, lived)))
}

/// Measures the start cost on a cluster of its own: policies remember, and what they remember is not the trace's.
async fn measure(
    folder: &Path,
    interruptions: &Interruptions,
    terminal: &Terminal,
) -> Result<Option<f64>, CliError> {
    let plan = cluster::Plan {
        home: folder.join("start-cost"),
        workers: vec![cluster::WorkerPlan::new("n0", "cpu:1")],
        policy: None,
        set: vec![],
        seed: 0,
        profile: None,
        http: None,
    };
    embedded(&plan, interruptions, terminal, async |client: &Client| live::start_cost_s(client, folder).await)
        .await
}

fn announce(plan: &Plan, start_cost_s: f64, terminal: &Terminal) -> Result<(), CliError> {
    let prediction = plan.predict(start_cost_s)?;
    let wall_s = wall_s(plan, &prediction);
    terminal.note(&format!(
        "{} on {}, policy {}, {} times faster: about {}; a start costs {:.0} ms",
        counted(plan.trace.jobs.len(), "job"),
        counted(plan.cluster.device_count() as usize, "device"),
        plan.policy.name,
        plan.time_scale,
        wharf_report::human::duration(wall_s),
        start_cost_s * 1000.0
    ));
    Ok(())
}

/// How long a replay is expected to take.
fn wall_s(plan: &Plan, prediction: &plan::Prediction) -> f64 {
    let jobs = &prediction.outcome.jobs;
    let last = jobs.iter().filter_map(|job| job.end).max();
    let is_cut = jobs.iter().any(|job| job.end.is_none());
    plan.cutoff_s.filter(|_| is_cut).or(last.map(wharf_core::Time::seconds)).unwrap_or(0.0)
}

/// `--dry-run`
fn tell_plan(plan: &Plan, args: &ReplayArgs, terminal: &Terminal) -> Result<(), CliError> {
    let start_cost_s = args.start_cost.unwrap_or(NOMINAL_START_COST_S);
    let prediction = plan.predict(start_cost_s)?;
    let settings = plan.settings(start_cost_s);
    let settings: Vec<String> = settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let gap_s = acts::shortest_gap_s(&prediction.acts);
    let jobs: Vec<_> = plan
        .trace
        .jobs
        .iter()
        .map(|job| {
            serde_json::json!({
                "name": &*job.name,
                "submit_s": job.submit.seconds(),
                "devices": job.gang.devices,
                "solo_s": job.solo_s(),
            })
        })
        .collect();
    let acts: Vec<String> = prediction.acts.iter().map(|(at_s, act)| format!("{at_s:.3} {act}")).collect();
    let document = serde_json::json!({
        "schema": 1,
        "policy": plan.policy.name,
        "settings": settings,
        "time_scale": plan.time_scale,
        "start_cost_s": start_cost_s,
        "wall_s": wall_s(plan, &prediction),
        "shortest_gap_s": gap_s,
        "prediction": prediction.summary,
        "acts": acts,
        "jobs": jobs,
    });
    match terminal.format {
        OutputFormat::Json => return terminal.json(&document),
        OutputFormat::Plain | OutputFormat::Csv => return terminal.fields(&document),
        OutputFormat::Table => {}
    }
    announce(plan, start_cost_s, terminal)?;
    terminal.note(&format!("settings, scaled: {}", settings.join(" ")));
    if args.start_cost.is_none() {
        terminal.note("the start cost is an assumption; it is measured before a replay");
    }
    for job in &plan.trace.jobs {
        terminal.data(&format!(
            "{:>10.2} s  {}: {}, {:.2} s alone\n",
            job.submit.seconds(),
            job.name,
            counted(job.gang.devices as usize, "device"),
            job.solo_s()
        ))?;
    }
    terminal.data(&format!("\n{}", wharf_report::Report::new(vec![prediction.summary]).to_text()))
}

/// A worker of root runs jobs as their users, which those of a trace mostly are not on this machine.
fn own_users(plan: &mut Plan, terminal: &Terminal) {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let is_known = |user: &str| nix::unistd::User::from_name(user).ok().flatten().is_some();
    let mut is_changed = false;
    for job in &mut plan.trace.jobs {
        if job.user.as_deref().is_some_and(|user| !is_known(user)) {
            job.user = None;
            is_changed = true;
        }
    }
    if is_changed {
        terminal.warn(
            "users of the trace are unknown on this machine: their jobs run as the current user, also in the prediction",
        );
    }
}

/// A cluster that runs already.
struct Served {
    client: Client,
    cluster: ClusterSpec,
    /// The policy that decides there.
    policy: String,
    /// Those that its policy decides by.
    settings: BTreeMap<String, String>,
}

impl Served {
    async fn find(home: &Path, terminal: &Terminal) -> Result<Self, CliError> {
        let client = cluster::connect(&HomeArgs { home: Some(home.to_owned()) }).await?;
        let info = client.info().await?;
        if info.jobs_live > 0 {
            terminal.warn(&format!(
                "{} other jobs are in the cluster, which the prediction ignores",
                info.jobs_live
            ));
        }
        let nodes = client.list_nodes().await?;
        let node = |node: &wharf_proto::NodeSummary| NodeSpec {
            name: node.name.as_str().into(),
            device_type: node.device_type.as_str().into(),
            devices: node.devices,
            cpus: node.cpus,
            memory_gib: node.memory_gib,
            switch: node.switch,
            pool: node.pool.as_str().into(),
        };
        let up = nodes.iter().filter(|node| node.health() == Health::Up);
        let cluster = ClusterSpec { nodes: up.map(node).collect() };
        let settings = client.policies().await?.pop().map(|now| now.settings).unwrap_or_default();
        Ok(Self { client, cluster, policy: info.policy, settings: settings.into_iter().collect() })
    }

    /// Refuses a replay under another policy than that of the head.
    fn check_policy(&self, policy: &str) -> Result<(), CliError> {
        if self.policy == policy {
            return Ok(());
        }
        Err(CliError::usage(format!("the head uses policy `{}`, not `{policy}`", self.policy)).hint(format!(
            "replay under the head's policy, `--policy {}`, or change it: `wharf policy set {policy}`",
            self.policy
        )))
    }

    /// Warns where the head decides by other settings than the prediction, whose times are scaled.
    fn compare(&self, plan: &Plan, start_cost_s: Option<f64>, terminal: &Terminal) {
        let wanted = plan.settings(start_cost_s.unwrap_or(NOMINAL_START_COST_S));
        let default =
            |key: &str| plan.policy.knobs.iter().find(|knob| knob.name == key).map(|knob| knob.default);
        let of_head = |key: &str| self.settings.get(key).map(String::as_str).or_else(|| default(key));
        let is_same = |one: &str, other: &str| match (one.parse::<f64>(), other.parse::<f64>()) {
            (Ok(one), Ok(other)) => one == other,
            _ => one == other,
        };
        let differs = |(key, value): &(&str, &str)| {
            // A start cost that is only assumed is no difference.
            (start_cost_s.is_some() || *key != "restart_s")
                && !of_head(key).is_some_and(|own| is_same(own, value))
        };
        let different: Vec<(&str, &str)> = wanted.iter().filter(differs).collect();
        if different.is_empty() {
            return;
        }
        let list: Vec<String> = different
            .iter()
            .map(|(key, value)| format!("{key} is {}, not {value}", of_head(key).unwrap_or("not set")))
            .collect();
        let scaled = if plan.time_scale == 1.0 {
            String::new()
        } else {
            format!(", and `--time-scale {}` does not scale those of a head", plan.time_scale)
        };
        let set: Vec<String> = wanted.iter().map(|(key, value)| format!("--set {key}={value}")).collect();
        terminal.warn(&format!(
            "the settings of the head differ from the prediction{scaled}: {}; align them with `wharf policy set {} {}`",
            list.join(", "),
            plan.policy.name,
            set.join(" ")
        ));
    }
}
