//! Job ids stay unique where a head continues from an older copy of its state.
//!
//! Every state directory has an *incarnation*, a random word. A head begins another one where its journal may lack acknowledged
//! requests: its end was lost, its file is a copy, or a worker has been sent more than it contains. Ids that may have been
//! acknowledged are skipped then. *Invariant: an id is reserved on disk before it is acknowledged* (`journal/mark.rs`).

use wharf_core::{Command, JobId};
use wharf_proto::{HeadMark, Register};
use wharf_tls::random_hex;

use crate::dispatcher::Dispatcher;
use crate::dispatcher::clock::unix_s;
use crate::journal::ID_BLOCK;
use crate::journal::record::Record;

/// Ids that are skipped because of workers' reports, at most, in the life of a state directory: each takes memory, and a worker may
/// lie.
const REPORTED_SKIP_MAX: u32 = 100_000;

/// Tasks of one node that an alert names.
const NAMED_MAX: usize = 10;

/// A worker's report would skip too many ids.
#[derive(Debug, thiserror::Error)]
#[error(
    "node {node} is refused: it reports job ids up to {reported}, far beyond {next}, where those of this head end; hint: empty the \
     worker's state directory, if it belonged to another cluster"
)]
pub(crate) struct IdsOutOfRange {
    node: String,
    reported: u32,
    next: u32,
}

impl Dispatcher {
    /// Begins an incarnation after a start, where the journal has none or may lack something.
    pub(crate) fn identify(&mut self) {
        match self.log.journal.discontinuity() {
            Some(reason) => self.begin_incarnation(&reason, None, 0),
            None if self.log.state.incarnations.is_empty() => {
                self.note_incarnation("first start".to_owned(), None);
            }
            None => {}
        }
    }

    fn note_incarnation(&mut self, reason: String, lost: Option<String>) {
        // Without the system's random numbers the time has to do: it has to differ from earlier ones, not to be secret.
        let incarnation = random_hex(8).unwrap_or_else(|_| format!("{:016x}", unix_s().to_bits()));
        self.note(Record::IncarnationBegan { incarnation, lost, reason });
    }

    /// Job ids from here on were never acknowledged, as far as this state contains.
    fn ids_below(&self) -> u32 {
        self.log.journal.reserved_ids().max(self.engine.state().next_job().0)
    }

    /// Begins another incarnation and skips the ids that may have been acknowledged.
    fn begin_incarnation(&mut self, reason: &str, lost: Option<String>, reported: u32) {
        let next = self.first_free_id(reported);
        self.note_incarnation(reason.to_owned(), lost);
        self.engine_command(Command::SkipIds(JobId(next)));
        self.alert(&format!("{reason}: requests may be lost; job ids continue at {next}"));
    }

    /// The end of the block after all ids that are known or reported.
    fn first_free_id(&self, reported: u32) -> u32 {
        let known = self.ids_below().max(reported);
        known.checked_add(1).and_then(|id| id.checked_next_multiple_of(ID_BLOCK)).unwrap_or(u32::MAX)
    }

    /// Compares what a worker was sent by a head with this head's state.
    ///
    /// # Errors
    /// [`IdsOutOfRange`] where the report would skip too many ids.
    pub(crate) fn check_mark(&mut self, register: &Register) -> Result<(), IdsOutOfRange> {
        let mark = register.mark.clone().unwrap_or_default();
        let tasks = register.tasks.iter().filter_map(|state| state.task);
        let tasks_below = tasks.map(|task| task.job_id.saturating_add(1)).max().unwrap_or(0);
        let is_present = self.log.state.incarnations.last() == Some(&mark.incarnation);
        let is_known = mark.incarnation.is_empty() || self.log.state.incarnations.contains(&mark.incarnation);
        let is_ahead = mark.ids_below > self.ids_below()
            || tasks_below > self.engine.state().next_job().0
            || is_present && mark.sequence > self.log.journal.sequence().cast_unsigned();
        if is_known && !is_ahead {
            return Ok(());
        }
        let reported = mark.ids_below.max(tasks_below);
        let (next, node) = (self.engine.state().next_job().0, &register.node);
        let skipped = self.engine.state().skipped_ids().saturating_add(self.first_free_id(reported) - next);
        if skipped > REPORTED_SKIP_MAX {
            return Err(IdsOutOfRange { node: node.clone(), reported, next });
        }
        let reason = format!(
            "node {node} has been sent more than this head's state contains: the state was restored from an older copy, or the \
             node belonged to another cluster"
        );
        let lost = Some(mark.incarnation).filter(|_| !is_known);
        self.begin_incarnation(&reason, lost, reported);
        Ok(())
    }

    /// Names the tasks of a worker that this state does not contain; they are stopped.
    pub(crate) fn report_orphans(&mut self, register: &Register) {
        let state = self.engine.state();
        let is_orphan = |job: u32, generation: u32| {
            !state.has_job(JobId(job)) || state.job(JobId(job)).generation < generation
        };
        let tasks = register.tasks.iter().filter_map(|told| Some((told.task?, told.ended)));
        let orphans = tasks.filter(|(task, _)| is_orphan(task.job_id, task.generation));
        let names: Vec<String> = orphans
            .map(|(task, ended)| {
                let how = if ended { ", ended" } else { "" };
                format!("{} (generation {}{how})", task.job_id, task.generation)
            })
            .collect();
        if names.is_empty() {
            return;
        }
        let more = match names.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let names = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
        let node = &register.node;
        self.alert(&format!(
            "node {node} has tasks that this head's state does not contain, of jobs {names}{more}: they are stopped"
        ));
    }

    /// How far the durable state goes.
    pub(crate) fn mark(&self) -> HeadMark {
        HeadMark {
            incarnation: self.log.state.incarnations.last().cloned().unwrap_or_default(),
            ids_below: self.ids_below(),
            sequence: self.log.journal.sequence().cast_unsigned(),
        }
    }

    /// After a start: the nodes that are expected to report, and for how long.
    pub(crate) fn await_reports(&mut self, grace_s: f64) {
        let until = self.now().plus(grace_s);
        self.nodes.await_reports(until);
    }
}
