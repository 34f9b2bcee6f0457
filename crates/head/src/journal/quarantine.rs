//! Records that cannot be replayed: left out, kept beside the journal's events, and named at every start.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};
use wharf_core::{Detail, Event, JobId, NodeId, NodeSpec, Phase, State, Time};

use crate::journal::record::Record;

/// Ids that a record which is left out may have given to jobs, at most.
const IDS_MAX: u32 = 100_000;
/// Bytes of a record that are shown.
const SHOWN_BYTES: usize = 200;

/// The records that are left out, by number, and why.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    reasons: BTreeMap<i64, String>,
    shown: BTreeMap<i64, String>,
}

impl Quarantine {
    /// What earlier starts have left out.
    pub(super) fn load(connection: &Connection) -> Self {
        let mut quarantine = Self::default();
        // Without the table nothing is left out.
        let Ok(mut query) = connection.prepare("SELECT sequence, record, reason FROM quarantine") else {
            return quarantine;
        };
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?)));
        for (sequence, record, reason) in rows.into_iter().flatten().flatten() {
            quarantine.add(sequence, &record, reason);
        }
        quarantine
    }

    fn add(&mut self, sequence: i64, record: &str, reason: String) {
        let cut = record.get(..record.floor_char_boundary(SHOWN_BYTES)).unwrap_or(record);
        self.shown.insert(sequence, format!("record {sequence} ({reason}): {cut}"));
        self.reasons.insert(sequence, reason);
    }

    /// Leaves a record out from now on. Where the journal cannot be written it is found again by the next start.
    pub(super) fn put(&mut self, connection: &Connection, sequence: i64, record: &str, reason: String) {
        const TABLE: &str = "CREATE TABLE IF NOT EXISTS quarantine
            (sequence INTEGER PRIMARY KEY, record TEXT NOT NULL, reason TEXT NOT NULL)";
        let insert = "INSERT OR REPLACE INTO quarantine VALUES (?1, ?2, ?3)";
        let _ = connection
            .execute_batch(TABLE)
            .and_then(|()| connection.execute(insert, params![sequence, record, reason]));
        self.add(sequence, record, reason);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    pub(super) fn contains(&self, sequence: i64) -> bool {
        self.reasons.contains_key(&sequence)
    }

    /// All of them, for people.
    pub(super) fn to_texts(&self) -> Vec<String> {
        self.shown.values().cloned().collect()
    }
}

/// Gives a state what later records rely on where one was left out: ids stay the same.
pub(super) fn stand_in(record: Option<&Record>, now: Time, state: &mut State) {
    match record {
        Some(
            record
            @ (Record::JobSubmitted { .. } | Record::ArraySubmitted { .. } | Record::IdsSkipped { .. }),
        ) => {
            fill_ids(record.jobs().end.min(record.jobs().start.saturating_add(IDS_MAX)), now, state);
        }
        Some(Record::NodeJoined { node, .. }) => fill_nodes(node.saturating_add(1), now, state),
        _ => {}
    }
}

/// Leaves out ids up to one.
fn fill_ids(next: u32, now: Time, state: &mut State) {
    let first = state.next_job();
    if let Some(count) = next.checked_sub(first.0).filter(|count| (1..=IDS_MAX).contains(count)) {
        state.apply(now, &Event::IdsSkipped { first, count }, Detail::None);
    }
}

/// Adds lost nodes instead of those that are unknown.
fn fill_nodes(next: u32, now: Time, state: &mut State) {
    while (state.topology().nodes().len() as u32) < next.min(IDS_MAX) {
        let node = NodeId::from_index(state.topology().nodes().len());
        let spec = NodeSpec {
            name: format!("quarantined-{}", node.0).into(),
            device_type: "unknown".into(),
            devices: 1,
            cpus: 0,
            memory_gib: 0,
            switch: 0,
            pool: "".into(),
            details: None,
        };
        state.apply(now, &Event::NodeJoined { node }, Detail::Node(spec));
        state.apply(now, &Event::NodeLost { node }, Detail::None);
    }
}

/// Whether a record can follow, in a journal of which one was left out. In a whole journal every record does.
pub(super) fn follows(record: &Record, now: Time, state: &mut State) -> bool {
    match *record {
        Record::JobSubmitted { job, .. }
        | Record::ArraySubmitted { job, .. }
        | Record::IdsSkipped { job, .. } => {
            fill_ids(job, now, state);
            state.next_job().0 == job
        }
        Record::NodeJoined { node, .. } => {
            fill_nodes(node, now, state);
            let mut jobs = Vec::new();
            if has_node(state, node) {
                // Declared again.
                state.schedule().jobs_on(state.topology(), NodeId(node), &mut jobs);
            }
            jobs.is_empty()
        }
        Record::NodeLost { node }
        | Record::NodeReturned { node }
        | Record::NodeCordoned { node }
        | Record::NodeOpened { node }
        | Record::NodeClosed { node }
        | Record::NodeReopened { node }
        | Record::NodeNoted { node, .. }
        | Record::NodeLeft { node, .. }
        | Record::NodeCame { node } => has_node(state, node),
        Record::DeviceLost { node, device } | Record::DeviceReturned { node, device } => {
            has_device(state, node, device)
        }
        Record::JobPlaced { job, ref shares, .. } => {
            let fits = |(node, devices): &(u32, Vec<u32>)| {
                devices.iter().all(|&device| has_device(state, *node, device))
            };
            is_in(state, job, |phase| matches!(phase, Phase::Waiting | Phase::Stopping))
                && state.schedule().placement(JobId(job)).is_none()
                && shares.iter().all(fits)
        }
        Record::JobLaunched { job, .. } => is_in(state, job, |phase| phase == Phase::Placed),
        Record::JobRated { job, .. } => is_in(state, job, |phase| phase == Phase::Running),
        Record::JobStopping { job, .. } => {
            is_in(state, job, |phase| matches!(phase, Phase::Placed | Phase::Running | Phase::Stopping))
        }
        Record::JobStopped { job, .. } => is_in(state, job, |phase| phase == Phase::Stopping),
        Record::JobHeld { job } => is_in(state, job, |phase| phase == Phase::Waiting),
        Record::JobReleased { job } => is_in(state, job, |phase| phase == Phase::Held),
        Record::JobReplaced { job, by } => state.has_job(JobId(job)) && state.has_job(JobId(by)),
        Record::PolicySet { .. } | Record::LimitsSet { .. } | Record::IncarnationBegan { .. } => true,
        _ => record.jobs().all(|job| state.has_job(JobId(job))),
    }
}

fn has_node(state: &State, node: u32) -> bool {
    (node as usize) < state.topology().nodes().len()
}

fn has_device(state: &State, node: u32, device: u32) -> bool {
    has_node(state, node) && device < state.topology().node(NodeId(node)).spec.devices
}

fn is_in(state: &State, job: u32, is_right: impl Fn(Phase) -> bool) -> bool {
    state.has_job(JobId(job)) && is_right(state.job(JobId(job)).phase)
}
