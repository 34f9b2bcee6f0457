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
    /// `setup_commands` have run.
    Setup,
    /// What is to run there runs.
    Start,
}

impl Phase {
    /// Those that change something.
    pub const CHANGING: [Self; 4] = [Self::Sync, Self::Initialise, Self::Setup, Self::Start];
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reach => "reach",
            Self::Sync => "sync",
            Self::Initialise => "initialise",
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
    /// It goes on as it is.
    Never,
    /// It is started again in any case, and nothing is set up.
    Only,
}

/// What a node's phases would be done with: equal hashes, equal outcome.
pub type Wanted = BTreeMap<Phase, String>;

/// What is known of a node's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// They run, as far as is known.
    Yes,
    /// They do not, for this reason.
    No(&'static str),
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
/// is started has changed, because that disturbs what it does.
#[must_use]
pub fn due(record: Option<&Record>, wanted: &Wanted, running: Running, restart: Restart) -> Vec<Due> {
    Phase::CHANGING.iter().map(|&phase| of(phase, record, wanted, running, restart)).collect()
}

fn of(phase: Phase, record: Option<&Record>, wanted: &Wanted, running: Running, restart: Restart) -> Due {
    let due = |reason| Due { phase, is_due: true, reason };
    let not = |reason| Due { phase, is_due: false, reason };
    let Some(hash) = wanted.get(&phase) else { return not("there is nothing to do") };
    let done = record.and_then(|record| record.done.get(&phase));
    let is_dirty = record.is_some_and(|record| record.dirty == Some(phase));
    let has_started = record.is_some_and(|record| record.done.contains_key(&Phase::Start));
    match (phase, restart) {
        (Phase::Setup, Restart::Only) if done != Some(hash) => return not("left out by --restart-only"),
        (Phase::Start, Restart::Only) => return due("asked for by --restart-only"),
        (Phase::Start, Restart::Never) if has_started && !is_dirty && done != Some(hash) => {
            return not("changed, but left out by --no-restart");
        }
        _ => {}
    }
    match done {
        _ if is_dirty => due("the last attempt did not end well"),
        None => due("never done"),
        Some(done) if done != hash => due("changed"),
        Some(_) => match running {
            Running::No(reason) if phase == Phase::Start => due(reason),
            _ => not("unchanged"),
        },
    }
}
