//! The journal: one SQLite file in WAL mode, every batch of events one durable transaction.
//!
//! Each event carries a sum over itself and all before it, and a small file beside the journal states how far it went: a
//! damaged or missing end is found when the journal is opened, said, and cut off after the last whole event.

mod image;
mod mark;
mod quarantine;
mod reader;
pub(crate) mod record;
mod repair;
mod replay;
mod schema;
mod snapshot;
pub(crate) mod spec_record;
pub(crate) mod victim_record;
pub(crate) mod wire;

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params};
use wharf_core::{Event, Log, State, Time};
use wharf_proto::JobSpec as WireSpec;
use wharf_proto::prost::Message as _;

pub(crate) use image::{HeadState, JobImageRecord, NodeImageRecord};
pub(crate) use mark::ID_BLOCK;
pub(crate) use reader::Reader;
pub(crate) use replay::Replayed;

use crate::journal::record::Record;
use crate::policy::active_policy::PolicyChoice;
use mark::Mark;
use replay::Position;

/// Events after which a snapshot spares the next start their replay.
const SNAPSHOT_EVERY: u64 = 200_000;

/// Where a snapshot keeps who decides.
const POLICY: &str = "policy";

/// Where a snapshot keeps who may have how much.
const LIMITS: &str = "limits";

/// Where a snapshot keeps the accepted requests that may be repeated.
const ACCEPTED: &str = "accepted_requests";

/// Where a snapshot keeps the incarnations.
const INCARNATIONS: &str = "incarnations";

/// Where the journal keeps whose it is: the fingerprint of the cluster's authority.
const CLUSTER: &str = "cluster";

/// Where the journal keeps which file it is in: a copy of it is another file.
const FILE_IDENTITY: &str = "file_identity";

/// Events on disk, and what is about to join them.
pub(crate) struct Journal {
    connection: Connection,
    path: PathBuf,
    mark: Mark,
    /// Where the next event goes.
    position: Position,
    pending: Vec<Pending>,
    /// Jobs that changed since the last snapshot, and events since then.
    changed: Vec<Range<u32>>,
    since_snapshot: u64,
    /// How long events that a snapshot covers are kept, in seconds.
    pub(crate) history_s: f64,
    /// The file's identity, where the journal does not have it yet. It is written with the record of the incarnation that it belongs
    /// to: a head that is killed before finds the difference again.
    new_identity: Option<String>,
    /// Why the journal may lack acknowledged requests, until that is recorded.
    discontinuity: Option<String>,
    /// Why it can only be read.
    read_only: Option<rusqlite::Error>,
    is_read_only: bool,
    epoch_unix_s: f64,
    /// Events since the last snapshot at which the next one is due.
    snapshot_at: u64,
}

struct Pending {
    time: Time,
    record: Record,
    spec: Option<Vec<u8>>,
}

/// A journal that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be opened, read or written.
    #[error("journal `{path}` cannot be used")]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// Another head has it open.
    #[error("journal `{path}` is in use by another head")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A newer version wrote it.
    #[error("journal `{path}` has version {found}, this wharf reads up to version {}", schema::VERSION)]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// So much of it is damaged that nothing can be rebuilt.
    #[error("journal `{path}` is corrupt: {what}; move it away to start with an empty journal")]
    Ruined {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// It belongs to another cluster.
    #[error(
        "journal `{path}` belongs to the cluster {found}, not to {expected}; hint: a state directory is moved or restored as a whole"
    )]
    OtherCluster {
        /// The file.
        path: PathBuf,
        /// The fingerprint of its cluster's authority.
        found: String,
        /// That of the state directory.
        expected: String,
    },
    /// Nothing can be decided on its state.
    #[error("the state in journal `{path}` does not suit the policy: {problem}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A file beside it cannot be used.
    #[error("`{path}` cannot be used")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// What was found damaged when a journal was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The last event that is whole; everything after it is lost.
    pub last_whole: u64,
    /// Events that are known to be lost.
    pub lost: u64,
    /// Where the damaged file was kept; `None` where its end was simply missing.
    pub kept_as: Option<PathBuf>,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the journal was damaged and is whole again up to event {}", self.last_whole)?;
        if self.lost > 0 {
            write!(f, "; {} events after it are lost", self.lost)?;
        }
        match &self.kept_as {
            Some(path) => write!(f, "; the damaged file is kept as `{}`", path.display()),
            None => Ok(()),
        }
    }
}

impl Journal {
    /// Opens a journal, or makes one whose time begins at `now_unix_s`, and replays it.
    pub(crate) fn open(
        path: &Path,
        now_unix_s: f64,
        history_s: f64,
    ) -> Result<(Self, Replayed), JournalError> {
        let mark = Mark::open(&path.with_extension("mark"))?;
        let mut kept_as = None;
        let (opened, mut replayed, position) = match read(path, now_unix_s) {
            Err(replay::Failure::Damaged) => {
                kept_as = Some(repair::repair(path, now_unix_s)?);
                read(path, now_unix_s)
            }
            read => read,
        }
        .map_err(|failure| failure.finally(path))?;
        let last_whole = position.sequence.cast_unsigned();
        let lost = mark.sequence().saturating_sub(last_whole);
        if lost > 0 || kept_as.is_some() {
            replayed.damage = Some(Damage { last_whole, lost, kept_as });
        }
        let identity = identity(path)?;
        let schema::Opened { connection, read_only } = opened;
        let recorded = schema::meta::<String>(&connection, FILE_IDENTITY)
            .map_err(|source| JournalError::Database { path: path.to_owned(), source })?;
        replayed.discontinuity = match (&replayed.damage, &recorded) {
            (Some(damage), _) => Some(damage.to_string()),
            (None, Some(recorded)) if *recorded != identity => {
                Some("the state directory was copied or restored from a backup".to_owned())
            }
            (None, _) => None,
        };
        let journal = Self {
            new_identity: (recorded.as_ref() != Some(&identity)).then_some(identity),
            discontinuity: replayed.discontinuity.clone(),
            read_only,
            is_read_only: false,
            epoch_unix_s: replayed.epoch_unix_s,
            snapshot_at: SNAPSHOT_EVERY,
            connection,
            path: path.to_owned(),
            mark,
            changed: std::mem::take(&mut replayed.changed),
            since_snapshot: replayed.since_snapshot,
            position,
            pending: Vec::new(),
            history_s,
        };
        Ok((journal, replayed))
    }

    /// Claims the journal for a cluster; fails where it belongs to another one.
    pub(crate) fn claim(&self, cluster: &str) -> Result<(), JournalError> {
        let database = |source| JournalError::Database { path: self.path.clone(), source };
        match schema::meta::<String>(&self.connection, CLUSTER).map_err(database)? {
            Some(found) if found != cluster => {
                let (path, expected) = (self.path.clone(), cluster.to_owned());
                Err(JournalError::OtherCluster { path, found, expected })
            }
            None if self.read_only.is_none() => {
                // On a full disk it is claimed by a later start.
                let _ = schema::set_meta(&self.connection, CLUSTER, cluster);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The error of a journal whose state cannot be worked with.
    pub(crate) fn unusable(&self, problem: String) -> JournalError {
        JournalError::Unusable { path: self.path.clone(), problem }
    }

    /// Rebuilds the durable state.
    pub(crate) fn replay(&mut self) -> Result<Replayed, JournalError> {
        let replayed = replay::replay(&self.connection, &self.path);
        let (mut replayed, position) = replayed.map_err(|failure| failure.finally(&self.path))?;
        self.position = position;
        self.changed = std::mem::take(&mut replayed.changed);
        self.since_snapshot = replayed.since_snapshot;
        Ok(replayed)
    }

    /// Why the journal may lack acknowledged requests, as long as that is not recorded.
    pub(crate) fn discontinuity(&self) -> Option<String> {
        self.discontinuity.clone()
    }

    /// Why the journal can only be read, where it was opened so.
    pub(crate) fn take_read_only(&mut self) -> Option<JournalError> {
        let source = self.read_only.take()?;
        self.is_read_only = true;
        Some(JournalError::Database { path: self.path.clone(), source })
    }

    /// Tries to write to a journal that could not be written.
    pub(crate) fn probe(&mut self) -> Result<(), JournalError> {
        let path = self.path.clone();
        let database = |source| JournalError::Database { path, source };
        if self.is_read_only {
            self.reopen()?;
        }
        // More than a batch of events needs, so that there is room for some.
        const PROBE: &str = "INSERT OR REPLACE INTO meta VALUES ('probe', zeroblob(65536));
            DELETE FROM meta WHERE key = 'probe'";
        self.connection.execute_batch(PROBE).map_err(database)
    }

    /// Opens a journal again that could only be read.
    fn reopen(&mut self) -> Result<(), JournalError> {
        let database = |source| JournalError::Database { path: self.path.clone(), source };
        // The present connection locks out every other one.
        self.connection = Connection::open_in_memory().map_err(database)?;
        let opened = schema::open(&self.path, self.epoch_unix_s)?;
        self.connection = opened.connection;
        match opened.read_only {
            Some(source) => Err(JournalError::Database { path: self.path.clone(), source }),
            None => {
                self.is_read_only = false;
                Ok(())
            }
        }
    }

    /// Lets the next batch be followed by a snapshot.
    #[cfg(test)]
    pub(crate) fn make_snapshot_due(&mut self) {
        self.snapshot_at = 0;
    }

    /// Lets the file grow no more, or again: as on a full disk.
    #[cfg(test)]
    pub(crate) fn set_full(&self, is_full: bool) {
        let pages: i64 = self.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let most = if is_full { pages } else { 1_000_000 };
        let set: i64 = self
            .connection
            .query_row(&format!("PRAGMA max_page_count = {most}"), [], |row| row.get(0))
            .unwrap();
        assert_eq!(set, most);
    }

    /// Drops what is not durable yet, but for the first so many events.
    pub(crate) fn truncate_pending(&mut self, count: usize) {
        self.pending.truncate(count);
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps what a job or an array runs, with the event of its submission, which was the last.
    pub(crate) fn keep_spec(&mut self, spec: &WireSpec) {
        if let Some(last) = self.pending.last_mut() {
            last.spec = Some(spec.encode_to_vec());
        }
    }

    /// Keeps something that the engine does not know.
    pub(crate) fn note(&mut self, time: Time, record: Record) {
        self.pending.push(Pending { time, record, spec: None });
    }

    /// Events that are not durable yet.
    pub(crate) fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// The last event that is durable.
    pub(crate) fn sequence(&self) -> i64 {
        self.position.sequence
    }

    /// Job ids from here on were never acknowledged.
    pub(crate) fn reserved_ids(&self) -> u32 {
        self.mark.reserved()
    }

    /// Makes everything recorded so far durable.
    pub(crate) fn commit(&mut self) -> Result<(), JournalError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let submitted = self.pending.iter().filter_map(|pending| match &pending.record {
            record @ (Record::JobSubmitted { .. }
            | Record::ArraySubmitted { .. }
            | Record::IdsSkipped { .. }) => Some(record.jobs().end),
            _ => None,
        });
        if let Some(next) = submitted.max() {
            self.mark.reserve(next)?;
        }
        let path = self.path.clone();
        let database = |source| JournalError::Database { path, source };
        self.write().map_err(database)?;
        self.mark.set(self.position.sequence.cast_unsigned())
    }

    fn write(&mut self) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        let mut position = self.position;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO events (sequence, time, job, record, spec, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            for Pending { time, record, spec } in &self.pending {
                let text = serde_json::to_string(record)
                    .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
                position = position.next(time.seconds(), &text, spec.as_deref());
                let job = record.jobs().next();
                let sum = position.sum.cast_signed();
                insert.execute(params![position.sequence, time.seconds(), job, text, spec, sum])?;
            }
        }
        let is_begun = |pending: &Pending| matches!(pending.record, Record::IncarnationBegan { .. });
        let new_identity = self.new_identity.as_ref().filter(|_| self.pending.iter().any(is_begun));
        if let Some(identity) = new_identity {
            schema::set_meta(&transaction, FILE_IDENTITY, identity)?;
        }
        let is_identified = new_identity.is_some();
        let is_recorded = self.pending.iter().any(is_begun);
        transaction.commit()?;
        self.new_identity.take_if(|_| is_identified);
        self.discontinuity.take_if(|_| is_recorded);
        self.position = position;
        self.since_snapshot += self.pending.len() as u64;
        self.changed.extend(self.pending.drain(..).map(|pending| pending.record.jobs()));
        Ok(())
    }

    /// Whether enough has happened since the last snapshot for another.
    pub(crate) fn is_snapshot_due(&self) -> bool {
        self.since_snapshot >= self.snapshot_at
    }

    /// Lets the next snapshot wait for more events, because this one failed.
    pub(crate) fn defer_snapshot(&mut self) {
        self.snapshot_at = self.since_snapshot + SNAPSHOT_EVERY / 10;
    }

    /// Events since the last snapshot.
    #[cfg(test)]
    pub(crate) fn since_snapshot(&self) -> u64 {
        self.since_snapshot
    }

    /// Keeps an image of what changed since the last snapshot, and drops events that are covered and old. Everything
    /// must have been committed.
    pub(crate) fn snapshot(
        &mut self,
        state: &State,
        head_state: &HeadState,
        now: Time,
    ) -> Result<(), JournalError> {
        if self.since_snapshot == 0 {
            return Ok(());
        }
        let path = self.path.clone();
        let database = |source| JournalError::Database { path, source };
        let jobs: BTreeSet<u32> = self.changed.iter().cloned().flatten().collect();
        crate::dispatcher::fault_points::point("snapshot");
        let before_s = now.seconds() - self.history_s;
        let sequence = self.position.sequence;
        let written = self.connection.transaction().and_then(|transaction| {
            snapshot::write_images(&transaction, state, head_state, &jobs)?;
            snapshot::write_facts(&transaction, head_state)?;
            schema::set_meta(&transaction, "snapshot_sequence", sequence)?;
            snapshot::prune(&transaction, sequence, before_s)?;
            transaction.commit()
        });
        written.map_err(database)?;
        self.changed.clear();
        (self.since_snapshot, self.snapshot_at) = (0, SNAPSHOT_EVERY);
        Ok(())
    }

    /// A job's events, as `(time, text)`; `array_job` is the first element of its array, or itself.
    pub(crate) fn history(&self, job: u32, array_job: u32) -> Result<Vec<(f64, String)>, JournalError> {
        let database = |source| JournalError::Database { path: self.path.clone(), source };
        let mut query = self
            .connection
            .prepare_cached(
                "SELECT time, record FROM events WHERE job = ?1
                 OR (job = ?2 AND (record LIKE '{\"array_submitted\"%' OR record LIKE '{\"array_changed\"%'))
                 ORDER BY sequence",
            )
            .map_err(database)?;
        let rows = query
            .query_map(params![job, array_job], |row| Ok((row.get::<_, f64>(0)?, row.get::<_, String>(1)?)))
            .map_err(database)?;
        rows.collect::<Result<_, _>>().map_err(database)
    }

    /// Who was chosen to decide: when, by whom, and what.
    pub(crate) fn policies(&self) -> Result<Vec<(f64, String, PolicyChoice)>, JournalError> {
        let database = |source| JournalError::Database { path: self.path.clone(), source };
        let mut query = self
            .connection
            .prepare_cached(
                "SELECT time, record FROM events WHERE job IS NULL AND record LIKE '{\"policy_set\"%'
                 ORDER BY sequence",
            )
            .map_err(database)?;
        let rows = query
            .query_map([], |row| Ok((row.get::<_, f64>(0)?, row.get::<_, String>(1)?)))
            .map_err(database)?;
        let all = rows.collect::<Result<Vec<_>, _>>().map_err(database)?;
        // What cannot be read was refused when the journal was opened.
        let choice = |(time_s, text): (f64, String)| match serde_json::from_str(&text) {
            Ok(Record::PolicySet { choice, by }) => Some((time_s, by, choice)),
            _ => None,
        };
        Ok(all.into_iter().filter_map(choice).collect())
    }

    /// What a job or an array runs: `job` is the first element.
    pub(crate) fn spec(&self, job: u32) -> Result<Option<Arc<WireSpec>>, JournalError> {
        let database = |source| JournalError::Database { path: self.path.clone(), source };
        let bytes: Option<Vec<u8>> = self
            .connection
            .query_row(
                "SELECT spec FROM events WHERE job = ?1 AND spec IS NOT NULL
                 UNION ALL SELECT spec FROM snapshot_jobs WHERE job = ?1 AND spec IS NOT NULL",
                params![job],
                |row| row.get(0),
            )
            .optional()
            .map_err(database)?;
        let decode = |bytes: Vec<u8>| {
            WireSpec::decode(bytes.as_slice()).map(Arc::new).map_err(|error| {
                let (index, kind) = (0, rusqlite::types::Type::Blob);
                database(rusqlite::Error::FromSqlConversionFailure(index, kind, error.into()))
            })
        };
        bytes.map(decode).transpose()
    }
}

/// Opens and replays a journal.
fn read(path: &Path, now_unix_s: f64) -> Result<(schema::Opened, Replayed, Position), replay::Failure> {
    let opened = schema::open(path, now_unix_s).map_err(|error| match error {
        JournalError::Database { source, .. } if is_damage(&source) => replay::Failure::Damaged,
        error => replay::Failure::Error(error),
    })?;
    let (replayed, position) = replay::replay(&opened.connection, path)?;
    Ok((opened, replayed, position))
}

/// What tells a file from a copy of it, also where the copy is given the number of one that was removed.
fn identity(path: &Path) -> Result<String, JournalError> {
    let failed = |source| JournalError::File { path: path.to_owned(), source };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    // Not every file system knows when a file was made.
    let made = metadata.created().ok().and_then(|made| made.duration_since(std::time::UNIX_EPOCH).ok());
    Ok(format!("{}-{}", metadata.ino(), made.map_or(0, |made| made.as_nanos())))
}

impl Log for Journal {
    fn event(&mut self, time: Time, event: &Event, state: &State) {
        self.note(time, Record::of(event, state));
    }
}

/// Whether SQLite states that the file's contents are not what they were.
fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SystemIoFailure)
    )
}
