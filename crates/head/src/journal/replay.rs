//! From what is on disk to the state of everything.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, Row};
use wharf_core::{ClusterSpec, JobId, Phase, State, Time};
use wharf_proto::JobSpec as WireSpec;
use wharf_proto::prost::Message as _;

use super::image::{HeadState, JobImageRecord, NodeImageRecord};
use super::quarantine::{Quarantine, follows, stand_in};
use super::{ACCEPTED, Damage, INCARNATIONS, JournalError, LIMITS, POLICY, is_damage, schema};
use crate::dispatcher::incident;
use crate::journal::record::Record;

/// So many records cannot be replayed that the journal is beyond repair.
const POISONED_MAX: usize = 1000;

/// What a journal says happened so far.
pub(crate) struct Replayed {
    pub(crate) state: State,
    /// What live jobs run, by the first job of their array or their own.
    pub(crate) specs: BTreeMap<u32, Arc<WireSpec>>,
    /// What the head knows beside the state.
    pub(crate) head_state: HeadState,
    /// The time of the last event.
    pub(crate) last: Time,
    /// Seconds since the Unix epoch at which the engine's time began.
    pub(crate) epoch_unix_s: f64,
    /// What was found damaged.
    pub(crate) damage: Option<Damage>,
    /// Why the journal may lack acknowledged requests; `None`: it continues where it ended.
    pub(crate) discontinuity: Option<String>,
    /// The records that could not be replayed, for people.
    pub(crate) quarantined: Vec<String>,
    /// Jobs that changed since the last snapshot, and events since then.
    pub(super) changed: Vec<Range<u32>>,
    pub(super) since_snapshot: u64,
}

/// Where in the journal an event is: its number, and a sum over it and all before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) sequence: i64,
    pub(super) sum: u64,
}

impl Position {
    /// The position of the next event. The sum is FNV-1a's: it has to notice accidents, not attacks.
    pub(super) fn next(self, time_s: f64, record: &str, spec: Option<&[u8]>) -> Self {
        const PRIME: u64 = 0x0100_0000_01b3;
        let time = time_s.to_bits().to_le_bytes();
        let bytes = time.iter().chain(record.as_bytes()).chain(spec.unwrap_or_default());
        let sum = bytes
            .fold(self.sum ^ 0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(PRIME));
        Self { sequence: self.sequence + 1, sum }
    }
}

/// Why a journal cannot be replayed.
pub(super) enum Failure {
    /// Something in it is not what was written.
    Damaged,
    /// One record is what was written, but cannot be replayed: its number, text and why.
    Poisoned(i64, String, String),
    Error(JournalError),
}

impl Failure {
    /// The error of a journal that has been repaired already.
    pub(super) fn finally(self, path: &Path) -> JournalError {
        match self {
            Self::Damaged => JournalError::Ruined { path: path.to_owned(), what: "its repair did not help" },
            Self::Poisoned(..) => {
                JournalError::Ruined { path: path.to_owned(), what: "too many records cannot be replayed" }
            }
            Self::Error(error) => error,
        }
    }
}

/// One event as it is on disk.
pub(super) struct Entry {
    pub(super) position: Position,
    pub(super) time_s: f64,
    pub(super) text: String,
    /// The job that it is about.
    pub(super) job: Option<u32>,
    /// `None`: what was written cannot be understood.
    pub(super) record: Option<Record>,
    pub(super) spec: Option<Vec<u8>>,
}

/// Reads events in order, each checked against the one before it.
pub(super) struct Entries<'a> {
    rows: rusqlite::Rows<'a>,
    position: Position,
}

impl<'a> Entries<'a> {
    /// The columns that [`Entries`] reads.
    pub(super) const QUERY: &'static str =
        "SELECT sequence, time, record, spec, sum, job FROM events ORDER BY sequence";

    pub(super) fn new(rows: rusqlite::Rows<'a>, base: Position) -> Self {
        Self { rows, position: base }
    }

    /// The next event, nothing at the end, or a reason to distrust the rest: the outer error is SQLite's, the inner
    /// one a record that is not what it was.
    pub(super) fn next(&mut self) -> rusqlite::Result<Result<Option<Entry>, ()>> {
        let Some(row) = self.rows.next()? else { return Ok(Ok(None)) };
        let Ok(entry) = read(row, self.position) else { return Ok(Err(())) };
        let Some(entry) = entry else { return Ok(Err(())) };
        self.position = entry.position;
        Ok(Ok(Some(entry)))
    }
}

fn read(row: &Row<'_>, before: Position) -> rusqlite::Result<Option<Entry>> {
    let (sequence, time_s, text, sum): (i64, f64, String, i64) =
        (row.get(0)?, row.get(1)?, row.get(2)?, row.get(4)?);
    let spec: Option<Vec<u8>> = row.get(3)?;
    let position = before.next(time_s, &text, spec.as_deref());
    let is_whole = position == Position { sequence, sum: sum.cast_unsigned() };
    let (record, job) = (serde_json::from_str(&text).ok(), row.get(5)?);
    Ok(is_whole.then_some(Entry { position, time_s, text, job, record, spec }))
}

/// Where the events that are still there begin.
pub(super) fn base(connection: &Connection) -> rusqlite::Result<Position> {
    let sequence = schema::meta(connection, "base_sequence")?.unwrap_or(0);
    let sum: i64 = schema::meta(connection, "base_sum")?.unwrap_or(0);
    Ok(Position { sequence, sum: sum.cast_unsigned() })
}

/// Rebuilds everything. A record that cannot be replayed is left out, and everything else begins again without it.
pub(super) fn replay(connection: &Connection, path: &Path) -> Result<(Replayed, Position), Failure> {
    let mut quarantine = Quarantine::load(connection);
    for _ in 0..POISONED_MAX {
        match replay_without(connection, path, &mut quarantine) {
            Err(Failure::Poisoned(sequence, record, reason)) => {
                quarantine.put(connection, sequence, &record, reason);
            }
            Ok((mut replayed, position)) => {
                replayed.quarantined = quarantine.to_texts();
                return Ok((replayed, position));
            }
            Err(failure) => return Err(failure),
        }
    }
    Err(Failure::Poisoned(0, String::new(), String::new()))
}

/// Rebuilds everything but what is left out: the last snapshot, then the events after it.
fn replay_without(
    connection: &Connection,
    path: &Path,
    quarantine: &mut Quarantine,
) -> Result<(Replayed, Position), Failure> {
    let failed = |source: rusqlite::Error| {
        if is_damage(&source) {
            Failure::Damaged
        } else {
            Failure::Error(JournalError::Database { path: path.to_owned(), source })
        }
    };
    let snapshot: i64 = schema::meta(connection, "snapshot_sequence").map_err(failed)?.unwrap_or(0);
    let epoch_unix_s = schema::meta(connection, "epoch_unix_s").map_err(failed)?.ok_or(Failure::Damaged)?;
    let mut replayed = Replayed {
        state: State::new(&ClusterSpec::default(), 1),
        specs: BTreeMap::new(),
        head_state: HeadState::default(),
        last: Time::ZERO,
        epoch_unix_s,
        damage: None,
        discontinuity: None,
        quarantined: Vec::new(),
        changed: Vec::new(),
        since_snapshot: 0,
    };
    if snapshot > 0 {
        replayed.load(connection).map_err(failed)?.ok_or(Failure::Damaged)?;
    }
    let mut query = connection.prepare(Entries::QUERY).map_err(failed)?;
    let mut entries = Entries::new(query.query([]).map_err(failed)?, base(connection).map_err(failed)?);
    while let Some(entry) = entries.next().map_err(failed)?.map_err(|()| Failure::Damaged)? {
        replayed.last = Time::try_new(entry.time_s).ok_or(Failure::Damaged)?;
        let sequence = entry.position.sequence;
        if sequence <= snapshot {
            continue;
        }
        if quarantine.contains(sequence) {
            stand_in(entry.record.as_ref(), replayed.last, &mut replayed.state);
        } else if let Some(reason) = replayed.objection(&entry, quarantine) {
            quarantine.put(connection, sequence, &entry.text, reason);
        } else {
            replayed.try_fold(entry)?;
        }
    }
    let position = entries.position;
    if position.sequence < snapshot {
        return Err(Failure::Damaged);
    }
    replayed.specs.retain(|&first, _| {
        let count = replayed.head_state.arrays.get(&first).copied().unwrap_or(1);
        (first..first.saturating_add(count))
            .map(JobId)
            .any(|job| replayed.state.has_job(job) && !replayed.state.job(job).is_ended())
    });
    Ok((replayed, position))
}

impl Replayed {
    /// Takes the snapshot in; `None` where it cannot be understood.
    fn load(&mut self, connection: &Connection) -> rusqlite::Result<Option<()>> {
        if let Some(text) = schema::meta::<String>(connection, POLICY)? {
            let Ok(choice) = serde_json::from_str(&text) else { return Ok(None) };
            self.head_state.policy = Some(choice);
        }
        if let Some(text) = schema::meta::<String>(connection, LIMITS)? {
            let Ok(limits) = serde_json::from_str(&text) else { return Ok(None) };
            self.head_state.limits = Some(limits);
        }
        if let Some(text) = schema::meta::<String>(connection, ACCEPTED)? {
            let Ok(accepted) = serde_json::from_str(&text) else { return Ok(None) };
            self.head_state.accepted = accepted;
        }
        if let Some(text) = schema::meta::<String>(connection, INCARNATIONS)? {
            let Ok(incarnations) = serde_json::from_str(&text) else { return Ok(None) };
            self.head_state.incarnations = incarnations;
        }
        let mut nodes = Vec::new();
        let mut query = connection.prepare("SELECT image FROM snapshot_nodes ORDER BY node")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let Ok(record) = serde_json::from_str::<NodeImageRecord>(row.get_ref(0)?.as_str()?) else {
                return Ok(None);
            };
            let node = nodes.len() as u32;
            record.apply_to(node, &mut self.head_state);
            nodes.push(record.to_core());
        }
        let mut jobs = Vec::new();
        let mut query = connection.prepare("SELECT job, image, spec FROM snapshot_jobs ORDER BY job")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let job: u32 = row.get(0)?;
            let record = serde_json::from_str::<JobImageRecord>(row.get_ref(1)?.as_str()?).ok();
            let image = record.and_then(|record| record.to_core(job, &mut self.head_state));
            let Some(image) = image.filter(|_| job as usize == jobs.len()) else { return Ok(None) };
            let is_live =
                !matches!(image.phase, Phase::Ended(_)) || self.head_state.arrays.contains_key(&job);
            if let Some(bytes) = row.get::<_, Option<Vec<u8>>>(2)?.filter(|_| is_live) {
                let Ok(spec) = WireSpec::decode(bytes.as_slice()) else { return Ok(None) };
                self.specs.insert(job, Arc::new(spec));
            }
            jobs.push(image);
        }
        self.state = State::from_images(1, nodes, jobs);
        Ok(Some(()))
    }

    /// Why a record cannot follow those before it, where one of them was left out.
    fn objection(&mut self, entry: &Entry, quarantine: &Quarantine) -> Option<String> {
        let record = entry.record.as_ref().filter(|_| !quarantine.is_empty())?;
        let does_follow = follows(record, self.last, &mut self.state);
        (!does_follow).then(|| "it depends on another that is left out".to_owned())
    }

    /// Folds one event in. A panic may leave the state half changed: everything has to begin again.
    fn try_fold(&mut self, entry: Entry) -> Result<(), Failure> {
        let (sequence, text) = (entry.position.sequence, entry.text.clone());
        let folded = catch_unwind(AssertUnwindSafe(|| self.fold(entry)));
        let poisoned = |reason: String| Failure::Poisoned(sequence, text, reason);
        match folded {
            Ok(Some(())) => Ok(()),
            Ok(None) => Err(poisoned("it cannot be understood".to_owned())),
            Err(payload) => Err(poisoned(format!("it panics: {}", incident::text(&*payload)))),
        }
    }

    /// Folds one event in; `None` where it makes no sense.
    fn fold(&mut self, entry: Entry) -> Option<()> {
        let record = entry.record?;
        let jobs = record.jobs();
        record.replay(self.last, &mut self.state).ok()?;
        self.head_state.apply(&record);
        if let Record::JobEnded { job, .. } = record
            && !self.head_state.is_element(job)
        {
            self.specs.remove(&job);
        }
        if let Some(bytes) = entry.spec {
            let spec = WireSpec::decode(bytes.as_slice()).ok()?;
            self.head_state.book(jobs.start, &spec.account);
            self.specs.insert(jobs.start, Arc::new(spec));
        }
        self.changed.push(jobs);
        self.since_snapshot += 1;
        Some(())
    }
}
