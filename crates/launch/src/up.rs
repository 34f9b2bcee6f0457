//! Bringing a cluster up: the head first, then all workers at once, each for itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{NodeConfig, Role, Runtime};
use crate::container;
use crate::down::{self, Extent};
use crate::files::Files;
use crate::hash::{self, FilesError, Hasher};
use crate::launcher::{KnownError, Launcher, Told};
use crate::phase::{Due, Lost, LostContainer, Phase, Restart, Wanted, due, is_container_new};
use crate::pool::pooled;
use crate::provide::{Provided, provide};
use crate::provider::ProviderError;
use crate::runner::RunError;
use crate::start;
use crate::state::Record;
use crate::steps;
use crate::visit::{Found, NodeError, Visit};

/// How a cluster is brought up.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What is done about what runs already.
    pub restart: Restart,
    /// How many nodes are worked on at once.
    pub parallel: usize,
}

/// The head that workers belong to.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// Where it listens, if it is Wharf's own.
    pub(crate) address: Option<String>,
    /// The word on its node.
    pub(crate) stamp: String,
}

impl Head {
    fn is_of(&self, record: &Record) -> bool {
        record.head_address == self.address && record.head_stamp.as_ref() == Some(&self.stamp)
    }
}

/// The outcome of a node.
#[derive(Debug)]
pub struct Outcome {
    /// Which.
    pub node: String,
    /// The phases that were done, or why it failed.
    pub result: Result<Vec<Phase>, NodeError>,
}

/// The outcome of all.
#[derive(Debug, Default)]
pub struct Report {
    /// Nodes in the order of the file; where the head failed, the head alone.
    pub nodes: Vec<Outcome>,
    /// Nodes that are not in the file any more and were stopped.
    pub gone: Vec<down::Outcome>,
}

/// Why nothing could be begun.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// What is known of the cluster cannot be used.
    #[error(transparent)]
    Known(#[from] KnownError),
    /// Files cannot be copied.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// What steps need cannot be made.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The provider fails as a whole.
    #[error("machines are not available")]
    Machines(#[from] ProviderError),
    /// What workers get from the head is not to be had.
    #[error("cannot fetch `cluster_synced_files` from the head: {}", .0.told())]
    Synced(NodeError),
}

/// What would be done on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Which.
    pub node: String,
    /// What would become of its machine, where the provider makes machines.
    pub machine: Option<PlannedMachine>,
    /// Every phase, due or not.
    pub phases: Vec<Due>,
}

/// What would become of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedMachine {
    /// None is known: it is made, unless the provider has one of this name.
    Made,
    /// Its specification has changed: a new one is made in its place.
    Replaced,
    /// It is used as it is.
    Kept,
}

impl PlannedMachine {
    fn of(node: &NodeConfig, record: Option<&Record>) -> Self {
        match record.and_then(|record| record.node.machine.as_ref()) {
            None => Self::Made,
            Some(machine) if machine.launch != node.launch => Self::Replaced,
            Some(_) => Self::Kept,
        }
    }
}

/// States what [`up`] would do, from what is known: no node is asked.
///
/// # Errors
/// [`UpError`]
pub fn plan(launcher: &Launcher, restart: Restart) -> Result<Vec<Planned>, UpError> {
    let records = launcher.records()?;
    let (of_head, of_worker) = (Files::of_head(launcher)?, Files::of_worker(launcher)?);
    let planned = launcher.cluster.nodes.iter().map(|node| {
        let files = if node.role == Role::Head { &of_head } else { &of_worker };
        let record = records.get(&node.name);
        let wanted = wanted(&Visit::new(launcher, node), record, files);
        let machine = launcher.provider.makes_machines().then(|| PlannedMachine::of(node, record));
        // Of another machine than the one that is known nothing is known.
        let record = record.filter(|_| machine != Some(PlannedMachine::Replaced));
        let phases = due(record, &wanted, Lost::default(), restart);
        Planned { node: node.name.clone(), machine, phases }
    });
    Ok(planned.collect())
}

/// Creates or updates a cluster. The caller holds its lock. Dropping this aborts it: started phases are recorded as unfinished.
///
/// # Errors
/// [`UpError`]; what fails on nodes is in the report.
pub async fn up(launcher: Arc<Launcher>, options: Options) -> Result<Report, UpError> {
    let Provided { launcher, mut failed } = provide(&launcher, options.parallel).await?;
    let files = Files::of_head(&launcher)?;
    let mut records = launcher.records()?;
    let mut report = Report::default();
    let is_gone = |name: &String| !launcher.cluster.nodes.iter().any(|node| node.name == *name);
    let gone: Vec<Record> = records.values().filter(|record| is_gone(&record.node.name)).cloned().collect();
    let (head, workers) = launcher.cluster.nodes.split_at(1);
    for node in head {
        let record = records.remove(&node.name);
        let result = match failed.remove(&node.name) {
            Some(error) => Err(error.into()),
            None => update(&launcher, node, record, &files, None, options.restart).await,
        };
        let has_failed = result.is_err();
        report.nodes.push(Outcome { node: node.name.clone(), result });
        if has_failed {
            return Ok(report);
        }
    }
    let head = launcher.records()?.remove(&launcher.head().name);
    let head = head.map(|record| Head { address: record.head_address, stamp: record.stamp });
    let files = Arc::new(Files::fetch(&launcher).await?);
    let (without, workers): (Vec<_>, Vec<_>) =
        workers.iter().cloned().partition(|node| failed.contains_key(&node.name));
    report.nodes.extend(update_workers(&launcher, &workers, records, files, head, options).await);
    for node in without {
        let result = failed.remove(&node.name).map_or(Ok(vec![]), |error| Err(error.into()));
        report.nodes.push(Outcome { node: node.name, result });
    }
    report.gone = down::stop_all(&launcher, gone, options.parallel, Extent::Nodes).await;
    Ok(report)
}

async fn update_workers(
    launcher: &Arc<Launcher>,
    workers: &[NodeConfig],
    mut records: BTreeMap<String, Record>,
    files: Arc<Files>,
    head: Option<Head>,
    options: Options,
) -> Vec<Outcome> {
    let updates = workers.iter().cloned().map(|node| {
        let launcher = launcher.clone();
        let (files, head, record) = (files.clone(), head.clone(), records.remove(&node.name));
        async move {
            let result = update(&launcher, &node, record, &files, head.as_ref(), options.restart).await;
            Outcome { node: node.name, result }
        }
    });
    pooled(updates, options.parallel).await
}

/// Brings one node to where it should be.
async fn update(
    launcher: &Launcher,
    node: &NodeConfig,
    record: Option<Record>,
    files: &Files,
    head: Option<&Head>,
    restart: Restart,
) -> Result<Vec<Phase>, NodeError> {
    let visit = Visit::new(launcher, node);
    // Of another machine than the one that is known nothing is known.
    let id = |node: &NodeConfig| node.machine.as_ref().map(|machine| machine.id.clone());
    let record = record.filter(|record| id(&record.node) == id(node));
    let mut record = record.unwrap_or_else(|| Record::new(launcher.cluster.provider, node, hash::unique()));
    record.node = node.clone();
    let result = phases(&visit, &mut record, files, head, restart).await;
    record.failure = result.as_ref().err().map(NodeError::told);
    launcher.folder.save(&record)?;
    result
}

async fn phases(
    visit: &Visit<'_>,
    record: &mut Record,
    files: &Files,
    head: Option<&Head>,
    restart: Restart,
) -> Result<Vec<Phase>, NodeError> {
    visit.tell(Told::Begins(Phase::Reach, ""));
    // A node that has no word yet gets a new one, so that one that was set up again is distinguished from the one before.
    let found = visit.reach(&hash::unique(), record.dirty, visit.launcher.cluster.start_timeout).await?;
    if found.stamp != record.stamp {
        // Another machine at this address, or one that was set up again: nothing is known of it. Where only its files were lost,
        // processes there have no owner any more.
        if record.dirty.is_some() || !record.done.is_empty() {
            let env = [("OLD", record.stamp.as_str())];
            visit.ask("ending earlier processes", "end \"WHARF_LAUNCHED=$OLD\"", &env, None).await?;
            if record.done.contains_key(&Phase::Container) || record.dirty == Some(Phase::Container) {
                container::abandon(visit, &record.stamp).await?;
            }
        }
        *record =
            Record { stamp: found.stamp.clone(), ..Record::new(record.provider, visit.node, String::new()) };
    }
    let wanted = wanted(visit, Some(record), files);
    let lost = lost(visit, record, &found, head);
    let is_new = is_container_new(Some(record), &wanted, lost);
    let mut done = vec![Phase::Reach];
    for Due { phase, is_due, reason } in due(Some(record), &wanted, lost, restart) {
        if !is_due {
            continue;
        }
        visit.tell(Told::Begins(phase, reason));
        record.done.remove(&phase);
        if phase == Phase::Container && is_new {
            // What was set up and started in the one before.
            record.done.retain(|&phase, _| phase < Phase::Container);
        }
        record.dirty = Some(phase);
        visit.launcher.folder.save(record)?;
        let work = Work { files, head, is_new };
        carry_out(visit, record, phase, work).await?;
        record.dirty = None;
        record.done.extend(wanted.get(&phase).filter(|hash| *hash != NONE).map(|hash| (phase, hash.clone())));
        visit.launcher.folder.save(record)?;
        done.push(phase);
    }
    Ok(done)
}

/// What phases are carried out with.
#[derive(Clone, Copy)]
struct Work<'a> {
    files: &'a Files,
    head: Option<&'a Head>,
    /// Whether the container is made, and not only started again.
    is_new: bool,
}

async fn carry_out(
    visit: &Visit<'_>,
    record: &mut Record,
    phase: Phase,
    work: Work<'_>,
) -> Result<(), NodeError> {
    let head_ip = visit.launcher.head().inner_address.clone();
    let stamp = record.stamp.clone();
    let env = [("WHARF_LAUNCH_STEP", stamp.as_str()), ("RAY_HEAD_IP", head_ip.as_str())];
    tracing::info!(node = visit.node.name, %phase, "phase begins");
    match phase {
        Phase::Reach => {}
        Phase::Sync => work.files.copy(visit).await?,
        Phase::Initialise => {
            for line in &visit.node.initialization {
                visit.line(phase, line, &env).await?;
            }
            if visit.node.container.is_some() {
                // They may have let the user use docker: a connection from before does not know.
                visit.hang_up().await;
            }
        }
        Phase::Container => match &visit.node.container {
            None => container::remove(visit, &stamp).await?,
            Some(container) if work.is_new => {
                container::make(visit, container, &stamp, &work.files.mounts).await?
            }
            Some(_) => container::revive(visit, &stamp).await?,
        },
        Phase::Setup => {
            for line in &steps::setup_lines(&visit.launcher.cluster, visit.node) {
                visit.inside().line(phase, line, &env).await?;
            }
        }
        Phase::Start => start::start(visit, record, work.head).await?,
    }
    Ok(())
}

/// What was done on a node and is not there any more; a head that others do not belong to counts as lost.
fn lost(visit: &Visit<'_>, record: &Record, found: &Found, head: Option<&Head>) -> Lost {
    let container = match found.container.as_str() {
        _ if visit.node.container.is_none() => None,
        "current" => None,
        "outdated" => Some(LostContainer::Gone("its image has changed")),
        "stopped" => Some(LostContainer::Stopped),
        _ => Some(LostContainer::Gone("its container is not there")),
    };
    let runs = |name: &str| found.running.iter().any(|running| running == name);
    let processes = match &visit.launcher.cluster.runtime {
        _ if container.is_some() => Some("its container has stopped"),
        Runtime::Wharf(_) if visit.node.role == Role::Head && !runs("head") => Some("its head does not run"),
        Runtime::Wharf(_) if !runs("worker") => Some("its worker does not run"),
        Runtime::Wharf(_) if head.is_some_and(|head| !head.is_of(record)) => {
            Some("the head is another one now")
        }
        Runtime::Commands { .. } if record.has_processes && !runs("marked") => {
            Some("none of its processes is running")
        }
        _ => None,
    };
    Lost { container, processes }
}

/// The hash of the container of a node that is to have none any more.
const NONE: &str = "";

/// What each phase of a node would be done with; phases with nothing to do are not there.
fn wanted(visit: &Visit<'_>, record: Option<&Record>, files: &Files) -> Wanted {
    let lines = |lines: &[String]| {
        let mut hasher = Hasher::new();
        lines.iter().for_each(|line| {
            hasher.add(line);
        });
        hasher
    };
    let mut wanted = Wanted::new();
    wanted.extend(files.hash.clone().map(|hash| (Phase::Sync, hash)));
    if !visit.node.initialization.is_empty() {
        wanted.insert(Phase::Initialise, lines(&visit.node.initialization).finish());
    }
    let setup = steps::setup_lines(&visit.launcher.cluster, visit.node);
    let had_container = record.is_some_and(|record| {
        record.done.contains_key(&Phase::Container) || record.dirty == Some(Phase::Container)
    });
    match &visit.node.container {
        Some(container) => {
            wanted.insert(Phase::Container, container::hash(container, &files.mounts));
        }
        None if had_container => {
            wanted.insert(Phase::Container, NONE.to_owned());
        }
        None => {}
    }
    if !setup.is_empty() {
        // Set-up may read what was copied, and use what was initialised.
        let mut hasher = lines(&setup);
        for phase in [Phase::Sync, Phase::Initialise] {
            hasher.add(wanted.get(&phase).map_or("", String::as_str));
        }
        wanted.insert(Phase::Setup, hasher.finish());
    }
    wanted.insert(Phase::Start, start::hash(visit));
    wanted
}
