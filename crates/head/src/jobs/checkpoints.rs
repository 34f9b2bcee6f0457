//! Checkpoint directories: a job that names none gets one of its own, which stays the same through retries, requeues and moves.

use std::path::Path;
use std::time::Duration;

use wharf_core::{JobId, Phase};
use wharf_job::{Chosen, PatternValues};
use wharf_proto::{JobSpec as WireSpec, ReleaseCheckpoint, to_worker};

use crate::dispatcher::Dispatcher;

/// Where jobs that name no checkpoint directory get theirs, and how long it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointSettings {
    /// The parent of all such directories; a relative one is below the working directory of each job. `%u` is the user.
    pub root: String,
    /// How long a directory is kept after its job has ended and nothing in it has changed.
    pub keep: Duration,
}

impl CheckpointSettings {
    /// The parent where a head is given none.
    pub const ROOT: &str = ".wharf/checkpoints";
    /// The retention where a head is given none, in days.
    pub const KEEP_DAYS: u64 = 30;
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        Self { root: Self::ROOT.to_owned(), keep: Duration::from_secs(Self::KEEP_DAYS * 86_400) }
    }
}

/// A job's checkpoint directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckpointDir {
    pub(crate) path: String,
    /// The head chose it.
    pub(crate) is_default: bool,
}

impl Dispatcher {
    /// The checkpoint directory of a job. Only the rank and the node of `names` differ between its tasks.
    pub(crate) fn checkpoint_dir(
        &self,
        spec: &WireSpec,
        job: JobId,
        names: &PatternValues<'_>,
    ) -> CheckpointDir {
        let explicit = spec.checkpoint.as_ref().map_or("", |contract| contract.dir.as_str());
        if !explicit.is_empty() {
            let path = Chosen::of(spec, names.array_index).fill(&names.expand(explicit));
            return CheckpointDir { path: below(&spec.workdir, &path), is_default: false };
        }
        let root = below(&spec.workdir, &names.expand(&self.jobs.checkpoints.root));
        // Ids begin again on a new head, and several heads may serve one file system: the time of submission tells them apart.
        let submitted_s = self.clock.unix_s(self.engine.state().spec(job).submit);
        let submitted_ms = (submitted_s * 1000.0).round();
        let number = match names.array_index {
            Some(index) => format!("{}_{index}", names.array_job),
            None => names.job.to_string(),
        };
        CheckpointDir { path: below(&root, &format!("{number}-{submitted_ms:.0}")), is_default: true }
    }

    /// The checkpoint directory of a job's first task.
    pub(crate) fn first_checkpoint_dir(&self, spec: &WireSpec, job: JobId) -> CheckpointDir {
        let state = self.engine.state();
        let life = state.job(job);
        let shares = state.schedule().placement(job).unwrap_or_else(|| life.left());
        let node = shares.first().map_or("", |share| &*state.topology().node(share.node).spec.name);
        self.checkpoint_dir(spec, job, &self.names_of(spec, job, 0, node))
    }

    /// What the patterns in the paths of a job stand for.
    pub(crate) fn names_of<'a>(
        &'a self,
        spec: &'a WireSpec,
        job: JobId,
        rank: usize,
        node: &'a str,
    ) -> PatternValues<'a> {
        PatternValues {
            job: job.0,
            array_job: self.log.state.first_of(job.0),
            array_index: self.engine.state().spec(job).array.as_ref().map(|element| element.index),
            rank,
            node,
            name: self.name_of(job),
            user: &spec.user,
        }
    }

    /// A job has ended: a connected node of it removes its directory in time, where the head chose that.
    pub(crate) fn release_checkpoint(&mut self, job: JobId) {
        let life = self.engine.state().job(job);
        let Some(spec) = self.spec(job).filter(|_| matches!(life.phase, Phase::Ended(_))) else { return };
        let dir = self.first_checkpoint_dir(spec, job);
        if !dir.is_default {
            return;
        }
        let nodes = life.left().iter().map(|share| share.node);
        let Some(node) = nodes.into_iter().find(|&node| self.nodes.connections.is_connected(node)) else {
            return;
        };
        let keep_s = self.jobs.checkpoints.keep.as_secs_f64();
        let release = ReleaseCheckpoint { dir: dir.path, user: spec.user.clone(), keep_s };
        self.send(node, to_worker::Message::ReleaseCheckpoint(release));
    }
}

/// A path below another unless it is absolute.
fn below(base: &str, path: &str) -> String {
    Path::new(base).join(path).to_string_lossy().into_owned()
}
