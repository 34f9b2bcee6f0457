//! The journal: one SQLite file in WAL mode, every batch of events one durable transaction.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};
use wharf_core::{ClusterSpec, Event, Log, State, Time};
use wharf_proto::JobSpec as WireSpec;
use wharf_proto::prost::Message as _;

use crate::record::{BadRecord, Record};

/// Bumped when old journals can no longer be read.
const VERSION: i64 = 1;

/// Events on disk, and what is about to join them.
pub(crate) struct Journal {
    connection: Connection,
    path: PathBuf,
    pending: Vec<(Time, Record)>,
    pending_specs: Vec<(u32, Vec<u8>)>,
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
    /// Another version wrote it.
    #[error("journal `{path}` has version {found}, this wharf reads version {VERSION}")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// An event cannot be read.
    #[error("event {sequence} of journal `{path}` cannot be read")]
    Event {
        /// The file.
        path: PathBuf,
        /// The event's number.
        sequence: i64,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What a journal says happened so far.
pub(crate) struct Replayed {
    pub(crate) state: State,
    /// What each job runs, by job id.
    pub(crate) specs: Vec<WireSpec>,
    /// The time of the last event.
    pub(crate) last: Time,
    /// Seconds since the Unix epoch at which the engine's time began.
    pub(crate) epoch_unix_s: f64,
}

impl Journal {
    /// Opens a journal, or makes one whose time begins at `now_unix_s`, and replays it.
    pub(crate) fn open(path: &Path, slots: usize, now_unix_s: f64) -> Result<(Self, Replayed), JournalError> {
        let database = |source| JournalError::Database { path: path.to_owned(), source };
        let connection = Connection::open(path).map_err(database)?;
        Self::prepare(&connection, now_unix_s).map_err(database)?;
        let found: i64 = connection
            .query_row("SELECT value FROM meta WHERE key = 'version'", [], |row| row.get(0))
            .map_err(database)?;
        if found != VERSION {
            return Err(JournalError::Version { path: path.to_owned(), found });
        }
        let journal =
            Self { connection, path: path.to_owned(), pending: Vec::new(), pending_specs: Vec::new() };
        let replayed = journal.replay(slots)?;
        Ok((journal, replayed))
    }

    fn prepare(connection: &Connection, now_unix_s: f64) -> rusqlite::Result<()> {
        connection.pragma_update(None, "journal_mode", "wal")?;
        // Durable, not only consistent: a reply means that the disk has it.
        connection.pragma_update(None, "synchronous", "full")?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS events (sequence INTEGER PRIMARY KEY, time REAL NOT NULL, record TEXT NOT NULL);
             CREATE TABLE IF NOT EXISTS specs (job INTEGER PRIMARY KEY, spec BLOB NOT NULL);",
        )?;
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('version', ?1)", params![VERSION])?;
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('epoch_unix_s', ?1)", params![now_unix_s])?;
        Ok(())
    }

    fn replay(&self, slots: usize) -> Result<Replayed, JournalError> {
        let database = |source| JournalError::Database { path: self.path.clone(), source };
        let mut state = State::new(&ClusterSpec::default(), slots);
        let mut last = Time::ZERO;
        let mut events = self
            .connection
            .prepare("SELECT sequence, time, record FROM events ORDER BY sequence")
            .map_err(database)?;
        let mut rows = events.query([]).map_err(database)?;
        while let Some(row) = rows.next().map_err(database)? {
            let (sequence, time, text): (i64, f64, String) =
                (row.get(0).map_err(database)?, row.get(1).map_err(database)?, row.get(2).map_err(database)?);
            let bad = |source: Box<dyn std::error::Error + Send + Sync>| JournalError::Event {
                path: self.path.clone(),
                sequence,
                source,
            };
            let record: Record = serde_json::from_str(&text).map_err(|error| bad(error.into()))?;
            last = Time::try_new(time).ok_or_else(|| bad(BadRecord.into()))?;
            record.replay(last, &mut state).map_err(|error| bad(error.into()))?;
        }
        let epoch_unix_s = self
            .connection
            .query_row("SELECT value FROM meta WHERE key = 'epoch_unix_s'", [], |row| row.get(0))
            .map_err(database)?;
        Ok(Replayed { state, specs: self.specs()?, last, epoch_unix_s })
    }

    fn specs(&self) -> Result<Vec<WireSpec>, JournalError> {
        let database = |source| JournalError::Database { path: self.path.clone(), source };
        let mut query = self.connection.prepare("SELECT spec FROM specs ORDER BY job").map_err(database)?;
        let rows = query.query_map([], |row| row.get::<_, Vec<u8>>(0)).map_err(database)?;
        rows.enumerate()
            .map(|(index, row)| {
                let bytes = row.map_err(database)?;
                WireSpec::decode(bytes.as_slice()).map_err(|error| JournalError::Event {
                    path: self.path.clone(),
                    sequence: index as i64,
                    source: error.into(),
                })
            })
            .collect()
    }

    /// Keeps what a job runs, with the next commit.
    pub(crate) fn keep_spec(&mut self, job: u32, spec: &WireSpec) {
        self.pending_specs.push((job, spec.encode_to_vec()));
    }

    /// Makes everything recorded so far durable.
    pub(crate) fn commit(&mut self) -> Result<(), JournalError> {
        if self.pending.is_empty() && self.pending_specs.is_empty() {
            return Ok(());
        }
        let result = write(&mut self.connection, &self.pending, &self.pending_specs);
        self.pending.clear();
        self.pending_specs.clear();
        result.map_err(|source| JournalError::Database { path: self.path.clone(), source })
    }

    /// A job's events, as `(time, text)`.
    pub(crate) fn history(&self, job: u32) -> Result<Vec<(f64, String)>, JournalError> {
        let database = |source| JournalError::Database { path: self.path.clone(), source };
        let mut query = self
            .connection
            .prepare("SELECT time, record FROM events WHERE record LIKE ?1 ORDER BY sequence")
            .map_err(database)?;
        let pattern = format!("{{\"job_%\":{{\"job\":{job}%");
        let rows = query
            .query_map(params![pattern], |row| Ok((row.get::<_, f64>(0)?, row.get::<_, String>(1)?)))
            .map_err(database)?;
        let all: Result<Vec<_>, _> = rows.collect();
        // The pattern also matches ids that begin with this one.
        let is_own = |text: &str| {
            let rest = text.split_once("\"job\":").map_or("", |(_, rest)| rest);
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits == job.to_string()
        };
        Ok(all.map_err(database)?.into_iter().filter(|(_, text)| is_own(text)).collect())
    }
}

fn write(
    connection: &mut Connection,
    events: &[(Time, Record)],
    specs: &[(u32, Vec<u8>)],
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction.prepare_cached("INSERT INTO events (time, record) VALUES (?1, ?2)")?;
        for (time, record) in events {
            let text = serde_json::to_string(record)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            insert.execute(params![time.seconds(), text])?;
        }
        let mut insert = transaction.prepare_cached("INSERT OR REPLACE INTO specs VALUES (?1, ?2)")?;
        for (job, spec) in specs {
            insert.execute(params![job, spec])?;
        }
    }
    transaction.commit()
}

impl Log for Journal {
    fn event(&mut self, time: Time, event: &Event, state: &State) {
        self.pending.push((time, Record::of(event, state)));
    }
}
