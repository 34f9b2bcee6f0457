//! What a node goes through, and which of it is due.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::state::Record;

/// A part of what is done to a node, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It answers.
    Reach,
    /// It has the files.
    Sync,
    /// `initialization_commands` have run.
    Initialise,
    /// Its container runs; what follows happens there.
    Container,
    /// `setup_commands` have run.
    Setup,
    /// What is to run there runs.
    Start,
}

impl Phase {
    /// Those that change something.
    pub const CHANGING: [Self; 5] = [Self::Sync, Self::Initialise, Self::Container, Self::Setup, Self::Start];
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reach => "reach",
            Self::Sync => "sync",
            Self::Initialise => "initialise",
            Self::Container => "container",
            Self::Setup => "setup",
            Self::Start => "start",
        })
    }
}

/// What is done about what runs already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// It is started again where how it is started has changed.
    #[default]
    IfChanged,
    /// It continues as it is.
    Never,
    /// It is started again in any case, and nothing is set up.
    Only,
}

/// What a node's phases would be done with: equal hashes, equal outcome.
pub type Wanted = BTreeMap<Phase, String>;

/// What was done on a node and is not there any more, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Its container.
    pub container: Option<LostContainer>,
    /// What was started, and why it counts as lost.
    pub processes: Option<&'static str>,
}

/// The outcome of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostContainer {
    /// It has stopped, with everything that was set up in it: it can be started again.
    Stopped,
    /// It has to be made again, for this reason.
    Gone(&'static str),
}

impl LostContainer {
    const fn reason(self) -> &'static str {
        match self {
            Self::Stopped => "its container has stopped",
            Self::Gone(reason) => reason,
        }
    }
}

/// A phase that is due, and why; or that is not, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Which.
    pub phase: Phase,
    /// Whether it is done.
    pub is_due: bool,
    /// Why, or why not.
    pub reason: &'static str,
}

/// Which phases are due. A phase is where it was never done, was begun and has not ended well, or would be done with something
/// else than last time. Set-up reads files, so that its hash has theirs in it; what runs is started again only where the way it
/// is started has changed, because that disturbs what it does. In a new container everything is to be done.
#[must_use]
pub fn due(record: Option<&Record>, wanted: &Wanted, lost: Lost, restart: Restart) -> Vec<Due> {
    let is_new = is_container_new(record, wanted, lost);
    let all = Phase::CHANGING.iter().map(|&phase| match wanted.get(&phase) {
        Some(_) if is_new && phase > Phase::Container => {
            Due { phase, is_due: true, reason: "its container is a new one" }
        }
        Some(hash) => of(phase, hash, record, lost, restart),
        None => Due { phase, is_due: false, reason: "there is nothing to do" },
    });
    all.collect()
}

/// Whether what follows is done in another container than before, or in none any more.
#[must_use]
pub fn is_container_new(record: Option<&Record>, wanted: &Wanted, lost: Lost) -> bool {
    wanted.get(&Phase::Container).is_some_and(|hash| {
        let is_kept = matches!(lost.container, None | Some(LostContainer::Stopped));
        !(is_kept && is_as_wanted(Phase::Container, hash, record))
    })
}

/// Whether it was done with the same, and nothing has gone wrong since.
fn is_as_wanted(phase: Phase, hash: &str, record: Option<&Record>) -> bool {
    record.is_some_and(|record| {
        record.dirty != Some(phase) && record.done.get(&phase).is_some_and(|done| done == hash)
    })
}

fn of(phase: Phase, hash: &str, record: Option<&Record>, lost: Lost, restart: Restart) -> Due {
    let due = |reason| Due { phase, is_due: true, reason };
    let not = |reason| Due { phase, is_due: false, reason };
    let done = record.and_then(|record| record.done.get(&phase));
    let is_dirty = record.is_some_and(|record| record.dirty == Some(phase));
    let has_started = record.is_some_and(|record| record.done.contains_key(&Phase::Start));
    let is_same = done.is_some_and(|done| done == hash);
    match (phase, restart) {
        (Phase::Setup, Restart::Only) if !is_same => return not("left out by --restart-only"),
        (Phase::Start, Restart::Only) => return due("asked for by --restart-only"),
        (Phase::Start, Restart::Never) if has_started && !is_dirty && !is_same => {
            return not("changed, but left out by --no-restart");
        }
        _ => {}
    }
    let lost = match phase {
        Phase::Container => lost.container.map(LostContainer::reason),
        Phase::Start => lost.processes,
        _ => None,
    };
    match (done, lost) {
        _ if is_dirty => due("the last attempt did not end well"),
        (None, _) => due("never done"),
        _ if !is_same => due("changed"),
        (_, Some(reason)) => due(reason),
        _ => not("unchanged"),
    }
}
