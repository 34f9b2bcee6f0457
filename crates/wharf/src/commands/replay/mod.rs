//! `wharf replay`: a trace on a real cluster, beside the simulator's prediction.

use std::collections::BTreeMap;
use std::path::Path;

use wharf_client::Client;
use wharf_core::{ClusterSpec, NodeSpec};
use wharf_proto::node_summary::Health;
use wharf_replay::{Comparison, NoLaunch, ReplayError, ReplayPlan, ReplayRequest, Replayed};
use wharf_study::OutDir;
use wharf_worker::check_network_interface;

use crate::args::{HomeArgs, OutputFormat, ReplayArgs};
use crate::commands::cluster::{self, Embedded, Hurry, Interruptions, WorkerPlan};
use crate::commands::sim::command_line;
use crate::error::{CliError, ErrorKind, translate};
use crate::exit::Exit;
use crate::input;
use crate::interrupt;
use crate::output::{Terminal, counted};

/// Start cost where none is measured.
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
    let Some((plan, start_cost_s, replayed)) = done else {
        return Ok(interrupt::handled().unwrap_or(Exit::Ok));
    };
    let prediction = plan.predict(start_cost_s)?;
    let mut record = cluster::record_of(replayed.nodes.clone(), replayed.jobs.iter().cloned());
    record.now_s = replayed.ended_s;
    let comparison = Comparison::new(&plan, start_cost_s, &prediction, &replayed, &record);
    print(&comparison, terminal)?;
    if let Some(out) = out {
        comparison.write(out, command_line())?;
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
    let failed = record.jobs.iter().filter(|job| !job.is_finished && is_whole).count();
    match failed {
        0 => Ok(Exit::Ok),
        _ => Err(CliError::new(ErrorKind::Internal, format!("{failed} jobs did not finish"))),
    }
}

/// Prints it in the chosen output format.
fn print(comparison: &Comparison<'_>, terminal: &Terminal) -> Result<(), CliError> {
    let (metrics, jobs) = (comparison.metrics(), comparison.jobs());
    match terminal.format {
        OutputFormat::Json => terminal.json(&comparison.document()),
        OutputFormat::Plain | OutputFormat::Csv => {
            terminal.rows(&format!("{}\n{}", metrics.to_plain(), jobs.to_plain()))
        }
        OutputFormat::Table => {
            let verdict = comparison.verdict();
            terminal.data(&format!("{}\n{}\n{verdict}\n", metrics.to_text(), jobs.to_text()))
        }
    }
}

impl From<ReplayError> for CliError {
    fn from(error: ReplayError) -> Self {
        let kind = match &error {
            ReplayError::Setting(_) | ReplayError::MachineProperty { .. } => ErrorKind::Usage,
            ReplayError::NoLaunch(NoLaunch::BeforeFirst { .. } | NoLaunch::WithinRounds { .. }) => {
                ErrorKind::Usage
            }
            ReplayError::NoLaunch(NoLaunch::Never { .. }) => ErrorKind::Input,
            ReplayError::Preset(_) | ReplayError::ForeignPreset | ReplayError::StartCost { .. } => {
                ErrorKind::Internal
            }
            ReplayError::Client(_) | ReplayError::Request { .. } | ReplayError::MixedCluster => {
                ErrorKind::Input
            }
            ReplayError::Run(error) => return translate::run(error),
            ReplayError::Policy(error) => return translate::policy(error),
        };
        let failed = Self::from_error(kind, &error);
        match error {
            ReplayError::Client(error) => error.into(),
            ReplayError::MachineProperty { key: "restart_s" } => failed.hint("see `--start-cost`"),
            ReplayError::NoLaunch(NoLaunch::BeforeFirst { .. }) => {
                failed.hint("omit `--keep-offset` to start at the first submission, or increase `--rounds`")
            }
            ReplayError::NoLaunch(NoLaunch::WithinRounds { .. }) => failed.hint("raise `--rounds`"),
            ReplayError::NoLaunch(NoLaunch::Never { .. }) => {
                failed.hint("`wharf sim --explain JOB` with the same options shows why a job waits")
            }
            ReplayError::StartCost { phase, output } => failed
                .hint(format!("the trial is {phase}; its output: {output}"))
                .hint("give it with `--start-cost SECONDS`"),
            _ => failed,
        }
    }
}

/// The plan of the arguments on a cluster.
fn plan(
    args: &ReplayArgs,
    cluster_name: String,
    cluster: ClusterSpec,
    terminal: &Terminal,
) -> Result<ReplayPlan, CliError> {
    let mut settings = input::settings(&args.set)?;
    check_numbers(args)?;
    wharf_replay::check_settings(&settings)?;
    let format = args.format.as_deref().map(input::format).transpose()?;
    let (mut trace, format) = input::formatted_trace(&args.trace, format, terminal)?;
    if !args.keep_offset {
        input::start_at_first(&mut trace)?;
    }
    let (policy, note) = wharf_replay::find_policy(&args.policy, format, &mut settings)?;
    if let Some(note) = note {
        terminal.note(&note.to_string());
    }
    let profile = args.profile.as_deref().map(input::profile).transpose()?;
    let (rounds, seed, time_scale) = (args.rounds, args.seed, args.time_scale);
    Ok(ReplayPlan::new(ReplayRequest {
        trace,
        cluster_name,
        cluster,
        policy,
        settings,
        profile,
        rounds,
        seed,
        time_scale,
    })?)
}

fn check_numbers(args: &ReplayArgs) -> Result<(), CliError> {
    if !args.time_scale.is_finite() || args.time_scale <= 0.0 {
        return Err(CliError::usage("`--time-scale` takes a number above 0"));
    }
    if args.rounds == Some(0) {
        return Err(CliError::usage("`--rounds` takes a number from 1 on"));
    }
    match args.start_cost {
        Some(cost_s) if !cost_s.is_finite() || cost_s < 0.0 => {
            Err(CliError::usage("`--start-cost` takes seconds of at least 0"))
        }
        _ => Ok(()),
    }
}

/// Starts a cluster for a plan and stops it, whatever happens in between.
async fn embedded<T>(
    plan: &cluster::EmbeddedPlan,
    interruptions: &Interruptions,
    terminal: &Terminal,
    within: impl AsyncFnOnce(&Client) -> Result<T, CliError>,
) -> Result<Option<T>, CliError> {
    let cluster = Embedded::start(plan, &terminal.quieter()).await?;
    let work = async { within(&Client::connect(&plan.home).await?).await.map(Some) };
    let done = tokio::select! {
        done = work => done,
        () = interruptions.clone().reach(1) => Ok(None),
    };
    // What still runs is thrown away with its folder: it needs no grace.
    cluster.stop(Hurry::AtOnce).await?;
    done
}

/// The cluster of a plan, in a folder.
fn cluster_plan(
    args: &ReplayArgs,
    plan: &ReplayPlan,
    start_cost_s: f64,
    folder: &Path,
) -> cluster::EmbeddedPlan {
    let worker = |(node, name): (&NodeSpec, String)| WorkerPlan {
        node: name,
        devices: Some(format!("{}:{}", node.device_type, node.devices)),
        switch: node.switch,
        pool: node.pool.to_string(),
        network_interface: args.network_interface.clone(),
    };
    let names = wharf_replay::node_names(&plan.cluster);
    cluster::EmbeddedPlan {
        home: folder.join("home"),
        workers: plan.cluster.nodes.iter().zip(names).map(worker).collect(),
        policy: Some(plan.policy.name.to_owned()),
        set: plan.settings(start_cost_s).iter().map(|(key, value)| format!("{key}={value}")).collect(),
        seed: plan.seed,
        profile: args.profile.clone(),
        http: None,
    }
}

/// Replays a plan on a cluster, with a progress bar.
async fn replayed(
    client: &Client,
    plan: &ReplayPlan,
    folder: &Path,
    interruptions: &Interruptions,
    terminal: &Terminal,
) -> Result<Option<Replayed>, CliError> {
    let progress = terminal.progress(plan.trace.jobs.len() as u64, "jobs");
    let interrupted = interruptions.clone().reach(1);
    Ok(wharf_replay::replay(client, plan, folder, interrupted, |ended| progress.add(ended)).await?)
}

/// Everything that was replayed; none where it was interrupted, or only planned.
async fn run(
    args: &ReplayArgs,
    folder: &Path,
    terminal: &Terminal,
) -> Result<Option<(ReplayPlan, f64, Replayed)>, CliError> {
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
    let mut plan = plan(args, name, spec, terminal)?;
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
        (None, Some(served)) => Some(wharf_replay::start_cost_s(&served.client, folder).await?),
        (None, None) => measure(folder, &interruptions, terminal).await?,
    };
    let Some(start_cost_s) = start_cost_s else { return Ok(None) };
    announce(&plan, start_cost_s, terminal)?;
    let done = match &served {
        Some(served) => {
            served.compare(&plan, Some(start_cost_s), terminal);
            replayed(&served.client, &plan, folder, &interruptions, terminal).await?
        }
        None => {
            let home = cluster_plan(args, &plan, start_cost_s, folder);
            let work =
                async |client: &Client| replayed(client, &plan, folder, &interruptions, terminal).await;
            embedded(&home, &interruptions, terminal, work).await?.flatten()
        }
    };
    Ok(done.map(|done| (plan, start_cost_s, done)))
}

/// Measures the start cost on a cluster of its own: policies remember, and what they remember is not the trace's.
async fn measure(
    folder: &Path,
    interruptions: &Interruptions,
    terminal: &Terminal,
) -> Result<Option<f64>, CliError> {
    let plan = cluster::EmbeddedPlan {
        home: folder.join("start-cost"),
        workers: vec![cluster::WorkerPlan::new("n0", "cpu:1")],
        policy: None,
        set: vec![],
        seed: 0,
        profile: None,
        http: None,
    };
    let work = async |client: &Client| Ok(wharf_replay::start_cost_s(client, folder).await?);
    embedded(&plan, interruptions, terminal, work).await
}

fn announce(plan: &ReplayPlan, start_cost_s: f64, terminal: &Terminal) -> Result<(), CliError> {
    let prediction = plan.predict(start_cost_s)?;
    let wall_s = plan.wall_s(&prediction);
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

/// `--dry-run`
fn tell_plan(plan: &ReplayPlan, args: &ReplayArgs, terminal: &Terminal) -> Result<(), CliError> {
    let start_cost_s = args.start_cost.unwrap_or(NOMINAL_START_COST_S);
    let prediction = plan.predict(start_cost_s)?;
    let settings = plan.settings(start_cost_s);
    let settings: Vec<String> = settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let gap_s = wharf_replay::shortest_gap_s(&prediction.acts);
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
        "wall_s": plan.wall_s(&prediction),
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
fn own_users(plan: &mut ReplayPlan, terminal: &Terminal) {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    if plan.drop_users(|user| nix::unistd::User::from_name(user).ok().flatten().is_some()) {
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
            details: None,
        };
        let up = nodes.iter().filter(|node| node.health() == Health::Up);
        let cluster = ClusterSpec::of(up.map(node).collect());
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
    fn compare(&self, plan: &ReplayPlan, start_cost_s: Option<f64>, terminal: &Terminal) {
        let wanted = plan.settings(start_cost_s.unwrap_or(NOMINAL_START_COST_S));
        let different = plan.differences(&self.settings, start_cost_s);
        if different.is_empty() {
            return;
        }
        let list: Vec<String> = different
            .iter()
            .map(|one| {
                format!(
                    "{} is {}, not {}",
                    one.key,
                    one.of_head.as_deref().unwrap_or("not set"),
                    one.of_replay
                )
            })
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
