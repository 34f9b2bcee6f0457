//! Taking a cluster down: everything that was started is ended, on every node, and everything that was put there removed.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Runtime;
use crate::container;
use crate::launcher::{KnownError, Launcher, Told};
use crate::pool::pooled;
use crate::provider::Machine;
use crate::runner::Use;
use crate::script::{CLEAN, END, QUIET};
use crate::start::UNLED;
use crate::state::Record;
use crate::steps;
use crate::visit::{NodeError, Visit};

/// Nodes exist or not: a node that is to be stopped is not awaited.
const PATIENCE: Duration = Duration::ZERO;

/// The outcome of a node.
#[derive(Debug)]
pub struct Outcome {
    /// Which.
    pub node: String,
    /// Why it could not be stopped.
    pub result: Result<(), NodeError>,
}

/// What is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The whole cluster.
    Cluster,
    /// Some nodes; the others continue.
    Nodes,
}

/// Takes a cluster down: its jobs are cancelled, then the workers are stopped, then the head. The caller holds its lock. With
/// `forget`, nodes that cannot be reached are forgotten.
///
/// # Errors
/// The cluster's folder cannot be used; what fails on nodes is in the outcomes.
pub async fn down(
    launcher: Arc<Launcher>,
    parallel: usize,
    forget: bool,
) -> Result<Vec<Outcome>, KnownError> {
    let mut records = launcher.records()?;
    if launcher.provider.makes_machines() {
        let machines = launcher.provider.list().await?;
        // Those that are gone need not be stopped; unknown ones are removed as well.
        let is_there =
            |record: &Record| machines.iter().any(|machine| machine.id == Machine::of(&record.node).id);
        for record in records.values().filter(|record| !is_there(record)) {
            launcher.folder.forget(&record.node.name)?;
        }
        records.retain(|_, record| is_there(record));
        for machine in machines {
            if !records.contains_key(&machine.name) {
                let record = unknown(&launcher, &machine);
                records.insert(record.node.name.clone(), record);
            }
        }
    }
    let head = records.get(&launcher.head().name).cloned();
    let workers: Vec<Record> = records.into_values().filter(|record| head.as_ref() != Some(record)).collect();
    if let (Some(head), Runtime::Wharf(wharf)) = (&head, &launcher.cluster.runtime) {
        let program = launcher.program_word(wharf, &head.node);
        let visit = Visit::new(&launcher, &head.node).inside();
        // Where the head is gone there are no jobs to be cancelled; whatever they left is found by its mark.
        let script = format!("{UNLED}PROGRAM={program}\n{QUIET}");
        let _ =
            visit.own(crate::provider::Shell::Plain, &script, &[], Use { input: None, is_asked: true }).await;
    }
    let mut outcomes = stop_all(&launcher, workers, parallel, Extent::Cluster).await;
    outcomes.extend(stop_all(&launcher, head.into_iter().collect(), 1, Extent::Cluster).await);
    if forget {
        for outcome in &outcomes {
            launcher.folder.forget(&outcome.node)?;
        }
    }
    if forget || outcomes.iter().all(|outcome| outcome.result.is_ok()) {
        launcher.folder.remove()?;
    }
    Ok(outcomes)
}

/// A record of a machine that is known to its provider only.
fn unknown(launcher: &Launcher, machine: &Machine) -> Record {
    let of_file = launcher.cluster.nodes.iter().find(|node| node.name == machine.name);
    let mut node = of_file.unwrap_or_else(|| launcher.head()).clone();
    node.name = if machine.name.is_empty() { machine.id.clone() } else { machine.name.clone() };
    Machine { name: node.name.clone(), ..machine.clone() }.become_node(&mut node);
    Record::new(launcher.cluster.provider, &node, String::new())
}

/// Stops nodes, each for itself.
pub(crate) async fn stop_all(
    launcher: &Arc<Launcher>,
    records: Vec<Record>,
    parallel: usize,
    extent: Extent,
) -> Vec<Outcome> {
    let machines = records.iter().map(|record| Machine::of(&record.node)).collect();
    let stops = records.into_iter().map(|record| {
        let launcher = launcher.clone();
        async move {
            let result = stop(&launcher, &record, extent).await;
            Outcome { node: record.node.name, result }
        }
    });
    let mut outcomes = pooled(stops, parallel).await;
    outcomes.sort_by(|one, other| one.node.cmp(&other.node));
    give_back(launcher, machines, &mut outcomes).await;
    outcomes
}

/// Ends what runs on a node and removes what is ours there; its machine stays.
pub(crate) async fn stop(launcher: &Launcher, record: &Record, extent: Extent) -> Result<(), NodeError> {
    let visit = Visit::new(launcher, &record.node);
    visit.tell(Told::Stops);
    let found = visit.reach(&record.stamp, None, PATIENCE).await?;
    let variables = [("STAMP", found.stamp.as_str())];
    let dropped = match &record.node.container {
        Some(_) => {
            format!(
                "{}\ndrop || exit 1\n",
                container::removal(&launcher.place(&record.node), &found.stamp, true)
            )
        }
        None => String::new(),
    };
    // Steps in a container are gone with it, and nodes that continue still need what is in a home that all have.
    let is_needed = extent == Extent::Nodes && launcher.provider.shares_homes();
    let undone = if record.node.container.is_some() || is_needed {
        String::new()
    } else {
        format!("{} || exit 1\n", steps::undo(&launcher.cluster, &record.node))
    };
    visit.ask("stopping it", &format!("{dropped}{END}{undone}{CLEAN}"), &variables, None).await?;
    visit.hang_up().await;
    Ok(())
}

/// Gives machines back, and forgets their nodes. What could not be stopped on a machine that was made ends with it.
async fn give_back(launcher: &Launcher, machines: Vec<Machine>, outcomes: &mut [Outcome]) {
    let is_made = launcher.provider.makes_machines();
    let is_over = |machine: &&Machine| {
        is_made || outcomes.iter().any(|outcome| outcome.node == machine.name && outcome.result.is_ok())
    };
    let over: Vec<Machine> = machines.iter().filter(is_over).cloned().collect();
    let given = launcher.provider.terminate(&over).await;
    for outcome in
        outcomes.iter_mut().filter(|outcome| over.iter().any(|machine| machine.name == outcome.node))
    {
        outcome.result = match &given {
            Ok(()) => launcher.folder.forget(&outcome.node).map_err(NodeError::from),
            Err(error) => Err(error.clone().into()),
        };
    }
}
