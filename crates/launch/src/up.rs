//! Bringing a cluster up: the head first, then all workers at once, each for itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::config::{NodeConfig, Role, Runtime};
use crate::down;
use crate::hash::{self, FilesError, Hasher};
use crate::launcher::{KnownError, Launcher, Told};
use crate::phase::{Due, Phase, Restart, Running, Wanted, due};
use crate::provide::{Provided, provide};
use crate::provider::{Left, ProviderError};
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

/// What became of a node.
#[derive(Debug)]
pub struct Outcome {
    /// Which.
    pub node: String,
    /// The phases that were done, or why it failed.
    pub result: Result<Vec<Phase>, NodeError>,
}

/// What became of all.
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
    #[error("machines cannot be had")]
    Machines(#[from] ProviderError),
}

/// What would be done on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Which.
    pub node: String,
    /// Every phase, due or not.
    pub phases: Vec<Due>,
}

/// Says what [`up`] would do, from what is known: no node is asked.
///
/// # Errors
/// [`UpError`]
pub fn plan(launcher: &Launcher, restart: Restart) -> Result<Vec<Planned>, UpError> {
    let records = launcher.records()?;
    let sync = sync_hash(launcher)?;
    let planned = launcher.cluster.nodes.iter().map(|node| {
        let wanted = wanted(&Visit::new(launcher, node), sync.as_deref());
        let phases = due(records.get(&node.name), &wanted, Running::Yes, restart);
        Planned { node: node.name.clone(), phases }
    });
    Ok(planned.collect())
}

/// Brings a cluster up. Whoever calls holds its lock. To give up is to drop this: what was begun is known to be unfinished.
///
/// # Errors
/// [`UpError`]; what fails on nodes is in the report.
pub async fn up(launcher: Arc<Launcher>, options: Options) -> Result<Report, UpError> {
    let Provided { launcher, mut failed } = provide(&launcher, options.parallel).await?;
    let sync = sync_hash(&launcher)?;
    let mut records = launcher.records()?;
    let mut report = Report::default();
    let is_gone = |name: &String| !launcher.cluster.nodes.iter().any(|node| node.name == *name);
    let gone: Vec<Record> = records.values().filter(|record| is_gone(&record.node.name)).cloned().collect();
    let (head, workers) = launcher.cluster.nodes.split_at(1);
    for node in head {
        let record = records.remove(&node.name);
        let result = match failed.remove(&node.name) {
            Some(error) => Err(error.into()),
            None => update(&launcher, node, record, sync.as_deref(), None, options.restart).await,
        };
        let has_failed = result.is_err();
        report.nodes.push(Outcome { node: node.name.clone(), result });
        if has_failed {
            return Ok(report);
        }
    }
    let head = launcher.records()?.remove(&launcher.head().name);
    let head = head.map(|record| Head { address: record.head_address, stamp: record.stamp });
    let (without, workers): (Vec<_>, Vec<_>) =
        workers.iter().cloned().partition(|node| failed.contains_key(&node.name));
    report.nodes.extend(update_workers(&launcher, &workers, records, sync, head, options).await);
    for node in without {
        let result = failed.remove(&node.name).map_or(Ok(vec![]), |error| Err(error.into()));
        report.nodes.push(Outcome { node: node.name, result });
    }
    report.gone = down::stop_all(&launcher, gone, options.parallel).await;
    Ok(report)
}

async fn update_workers(
    launcher: &Arc<Launcher>,
    workers: &[NodeConfig],
    mut records: BTreeMap<String, Record>,
    sync: Option<String>,
    head: Option<Head>,
    options: Options,
) -> Vec<Outcome> {
    let pool = Arc::new(Semaphore::new(options.parallel.max(1)));
    let mut tasks = JoinSet::new();
    for (index, node) in workers.iter().cloned().enumerate() {
        let (launcher, pool) = (launcher.clone(), pool.clone());
        let (sync, head, record) = (sync.clone(), head.clone(), records.remove(&node.name));
        tasks.spawn(async move {
            // The pool is never closed.
            let _permit = pool.acquire_owned().await;
            let result =
                update(&launcher, &node, record, sync.as_deref(), head.as_ref(), options.restart).await;
            (index, Outcome { node: node.name, result })
        });
    }
    let mut outcomes = tasks.join_all().await;
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Brings one node to where it should be.
async fn update(
    launcher: &Launcher,
    node: &NodeConfig,
    record: Option<Record>,
    sync: Option<&str>,
    head: Option<&Head>,
    restart: Restart,
) -> Result<Vec<Phase>, NodeError> {
    let visit = Visit::new(launcher, node);
    // Of another machine than the one that is known nothing is known.
    let id = |node: &NodeConfig| node.machine.as_ref().map(|machine| machine.id.clone());
    let record = record.filter(|record| id(&record.node) == id(node));
    let mut record = record.unwrap_or_else(|| Record::new(launcher.cluster.provider, node, stamp()));
    record.node = node.clone();
    let result = phases(&visit, &mut record, sync, head, restart).await;
    record.failure = result.as_ref().err().map(NodeError::told);
    launcher.folder.save(&record)?;
    result
}

async fn phases(
    visit: &Visit<'_>,
    record: &mut Record,
    sync: Option<&str>,
    head: Option<&Head>,
    restart: Restart,
) -> Result<Vec<Phase>, NodeError> {
    visit.tell(Told::Begins(Phase::Reach, ""));
    // A node that has no word yet gets a new one, so that one that was set up anew is told from the one before.
    let found = visit.reach(&stamp(), record.dirty, visit.launcher.cluster.start_timeout).await?;
    if found.stamp != record.stamp {
        // Another machine at this address, or one that was set up anew: nothing is known of it. Where only its files were lost,
        // what ran there is nobody's any more.
        if record.dirty.is_some() || !record.done.is_empty() {
            let env = [("OLD", record.stamp.as_str())];
            visit.ask("ending what ran there before", "end \"WHARF_LAUNCHED=$OLD\"", &env, None).await?;
        }
        *record =
            Record { stamp: found.stamp.clone(), ..Record::new(record.provider, visit.node, String::new()) };
    }
    let wanted = wanted(visit, sync);
    let mut done = vec![Phase::Reach];
    for Due { phase, is_due, reason } in
        due(Some(record), &wanted, running(visit, record, &found, head), restart)
    {
        if !is_due {
            continue;
        }
        visit.tell(Told::Begins(phase, reason));
        record.done.remove(&phase);
        record.dirty = Some(phase);
        visit.launcher.folder.save(record)?;
        carry_out(visit, record, phase, head).await?;
        record.dirty = None;
        record.done.extend(wanted.get(&phase).map(|hash| (phase, hash.clone())));
        visit.launcher.folder.save(record)?;
        done.push(phase);
    }
    Ok(done)
}

async fn carry_out(
    visit: &Visit<'_>,
    record: &mut Record,
    phase: Phase,
    head: Option<&Head>,
) -> Result<(), NodeError> {
    let head_ip = visit.launcher.head().inner_address.clone();
    let stamp = record.stamp.clone();
    let env = [("WHARF_LAUNCH_STEP", stamp.as_str()), ("RAY_HEAD_IP", head_ip.as_str())];
    match phase {
        Phase::Reach => {}
        Phase::Sync => copy_files(visit).await?,
        Phase::Initialise => {
            for line in &visit.node.initialization {
                visit.line(phase, line, &env).await?;
            }
        }
        Phase::Setup => {
            for line in &steps::setup_lines(&visit.launcher.cluster, visit.node) {
                visit.line(phase, line, &env).await?;
            }
        }
        Phase::Start => start::start(visit, record, head).await?,
    }
    Ok(())
}

async fn copy_files(visit: &Visit<'_>) -> Result<(), NodeError> {
    let cluster = &visit.launcher.cluster;
    if let Runtime::Wharf(wharf) = &cluster.runtime
        && visit.launcher.copies_program(wharf, visit.node)
    {
        let copied = visit.launcher.copied_program(visit.node);
        visit.copy(&visit.launcher.program, &copied, &Left::default()).await?;
    }
    let left = Left { exclude: &cluster.exclude, filter: &cluster.filter };
    for mount in &cluster.mounts {
        visit.copy(&mount.local, &mount.remote, &left).await?;
    }
    Ok(())
}

/// Whether what was started on a node still runs, and is what the others belong to.
fn running(visit: &Visit<'_>, record: &Record, found: &Found, head: Option<&Head>) -> Running {
    let runs = |name: &str| found.running.iter().any(|running| running == name);
    match &visit.launcher.cluster.runtime {
        Runtime::Wharf(_) if visit.node.role == Role::Head && !runs("head") => {
            Running::No("its head does not run")
        }
        Runtime::Wharf(_) if !runs("worker") => Running::No("its worker does not run"),
        Runtime::Wharf(_) if head.is_some_and(|head| !head.is_of(record)) => {
            Running::No("the head is another one now")
        }
        Runtime::Commands { .. } if record.has_processes && !runs("marked") => {
            Running::No("nothing that was started runs any more")
        }
        _ => Running::Yes,
    }
}

/// The hash of all files that nodes get; `None` where there are none.
pub(crate) fn sync_hash(launcher: &Launcher) -> Result<Option<String>, FilesError> {
    let cluster = &launcher.cluster;
    let program = match &cluster.runtime {
        Runtime::Wharf(wharf) if launcher.copies_program(wharf, launcher.head()) => Some(&launcher.program),
        _ => None,
    };
    if cluster.mounts.is_empty() && program.is_none() {
        return Ok(None);
    }
    let mut hasher = Hasher::new();
    if let Some(path) = program {
        // Too large to be read each time: a program that was built anew has another time.
        let failed = |source| FilesError::Read { path: path.clone(), source };
        let metadata = path.metadata().map_err(failed)?;
        let modified = metadata.modified().map_err(failed)?;
        hasher.add(format!("{} {modified:?}", metadata.len()));
    }
    let left = Left { exclude: &cluster.exclude, filter: &cluster.filter };
    hasher.add(hash::mounts(&cluster.mounts, &left)?);
    Ok(Some(hasher.finish()))
}

/// What each phase of a node would be done with; phases with nothing to do are not there.
fn wanted(visit: &Visit<'_>, sync: Option<&str>) -> Wanted {
    let lines = |lines: &[String]| {
        let mut hasher = Hasher::new();
        lines.iter().for_each(|line| {
            hasher.add(line);
        });
        hasher
    };
    let mut wanted = Wanted::new();
    wanted.extend(sync.map(|hash| (Phase::Sync, hash.to_owned())));
    if !visit.node.initialization.is_empty() {
        wanted.insert(Phase::Initialise, lines(&visit.node.initialization).finish());
    }
    let setup = steps::setup_lines(&visit.launcher.cluster, visit.node);
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

/// A word that no other node has.
fn stamp() -> String {
    let mut bytes = [0; 8];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        // It has to be different from others, not secret.
        Err(_) => format!("{:?}-{}", std::time::SystemTime::now(), std::process::id()).replace(' ', ""),
    }
}
