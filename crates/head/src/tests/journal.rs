//! What is on disk survives restarts, snapshots, older versions and damage.

use std::fs::{self, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use wharf_core::{ClusterSpec, JobSpec, NodeSpec, State, Time};
use wharf_core::{Command, Engine, JobId, Regime};
use wharf_proto::JobSpec as WireSpec;

use super::virtual_cluster::regime;
use crate::journal::record::Record;
use crate::journal::{Journal, JournalError, Replayed};

const EPOCH_UNIX_S: f64 = 1.7e9;

struct Never;

impl wharf_core::Policy for Never {
    fn knowledge(&self) -> wharf_core::Knowledge {
        wharf_core::Knowledge::Attained
    }

    fn observe(&mut self, _: &wharf_core::View<'_>, _: wharf_core::Change) {}

    fn schedule(&mut self, _: &mut wharf_core::Decision<'_>) {}

    fn explain(&self, _: &wharf_core::View<'_>, _: JobId) -> wharf_core::Reason {
        wharf_core::Reason::NotWaiting
    }
}

fn open(path: &Path) -> (Journal, Replayed) {
    Journal::open(path, EPOCH_UNIX_S, 0.0).unwrap()
}

/// A journal with a node, a job and an array, and the state that it tells of.
fn written(path: &Path, jobs: u32) -> State {
    let (mut journal, replayed) = open(path);
    let regime = Regime { policy: Box::new(Never), ..regime("fifo", 0) };
    let mut engine = Engine::resume(Time::ZERO, replayed.state, regime);
    let node = ClusterSpec::uniform("v100", 1, 4).nodes.remove(0);
    let spec = |name: &str| JobSpec::new(name, Time::from_seconds(1.0), 1, 10.0, 100.0);
    let mut commands = vec![Command::AddNode(NodeSpec { pool: "main".into(), ..node })];
    commands.extend((0..jobs).map(|index| Command::SubmitJob(spec(&format!("job-{index}")))));
    commands.push(Command::SubmitArray(spec("sweep"), [1, 2, 3, 7].into()));
    commands.push(Command::CancelJob(JobId(0)));
    for command in commands {
        let name = match &command {
            Command::SubmitJob(spec) | Command::SubmitArray(spec, _) => Some(spec.name.to_string()),
            _ => None,
        };
        engine.handle(Time::from_seconds(2.0), command, &mut journal).unwrap();
        if let Some(name) = name {
            journal.keep_spec(&WireSpec { name, ..WireSpec::default() });
        }
        journal.commit().unwrap();
    }
    journal.note(Time::from_seconds(3.0), Record::HoldWanted { job: 1 });
    journal.commit().unwrap();
    engine.state().clone()
}

#[test]
fn a_snapshot_and_the_events_after_it_give_the_same_as_all_events() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let state = written(&path, 3);
    let (mut journal, replayed) = open(&path);
    assert_eq!(replayed.state, state);
    assert_eq!(replayed.head_state.holds.iter().copied().collect::<Vec<_>>(), [1]);
    assert_eq!(replayed.head_state.arrays.iter().next(), Some((&3, &4)));
    let names = |replayed: &Replayed| {
        replayed.specs.iter().map(|(job, spec)| (*job, spec.name.clone())).collect::<Vec<_>>()
    };
    let expected = [(1, "job-1".to_owned()), (2, "job-2".to_owned()), (3, "sweep".to_owned())];
    assert_eq!(names(&replayed), expected, "what is over needs no spec");

    // Everything is old: the snapshot lets all events go.
    journal.snapshot(&replayed.state, &replayed.head_state, Time::from_seconds(100.0)).unwrap();
    assert_eq!(journal.history(1, 1).unwrap(), []);
    assert_eq!(journal.spec(0).unwrap().unwrap().name, "job-0", "but not the specs");
    journal.note(Time::from_seconds(101.0), Record::HoldLifted { job: 1 });
    journal.commit().unwrap();
    drop(journal);
    let (_, again) = open(&path);
    assert!(again.damage.is_none());
    for (job, _, _) in state.jobs() {
        assert_eq!(again.state.job_image(job), state.job_image(job));
    }
    assert_eq!(again.state.node_image(wharf_core::NodeId(0)), state.node_image(wharf_core::NodeId(0)));
    assert!(again.head_state.holds.is_empty());
    assert_eq!(names(&again), expected);
}

#[test]
fn two_heads_cannot_have_one_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let _first = open(&path);
    let second = Journal::open(&path, EPOCH_UNIX_S, 0.0).map(drop);
    assert!(matches!(second, Err(JournalError::InUse { .. })), "{second:?}");
}

#[test]
fn a_newer_version_is_refused_and_an_older_one_is_brought_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let spec = WireSpec { name: "old".to_owned(), ..WireSpec::default() };
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(
        r#"CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
           CREATE TABLE events (sequence INTEGER PRIMARY KEY, time REAL NOT NULL, record TEXT NOT NULL);
           CREATE TABLE specs (job INTEGER PRIMARY KEY, spec BLOB NOT NULL);
           INSERT INTO meta VALUES ('version', 1), ('epoch_unix_s', 5.0);
           INSERT INTO events (time, record) VALUES
             (1.0, '{"node_joined":{"node":0,"spec":{"name":"n0","device_type":"v100","devices":4,"cpus":0,"memory_gib":0,"switch":0}}}'),
             (2.0, '{"job_submitted":{"job":0,"spec":{"name":"old","submit_s":2.0,"devices":1,"devices_min":1,"devices_max":1,"iterations":1.0,"iteration_ms":1.0,"priority":0}}}');"#,
    )
    .unwrap();
    let bytes = wharf_proto::prost::Message::encode_to_vec(&spec);
    old.execute("INSERT INTO specs VALUES (0, ?1)", [bytes]).unwrap();
    drop(old);
    let (_, replayed) = open(&path);
    assert_eq!(replayed.epoch_unix_s, 5.0);
    assert_eq!(replayed.specs[&0].name, "old");
    assert_eq!(replayed.state.counts().waiting, 1);

    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.execute("UPDATE meta SET value = 99 WHERE key = 'version'", []).unwrap();
    drop(newer);
    let error = Journal::open(&path, EPOCH_UNIX_S, 0.0).map(drop).unwrap_err();
    assert!(error.to_string().contains("version 99"), "{error}");
}

/// The last page of the journal's file that is part of the table of events.
fn damaged_copy(path: &Path, damage: impl Fn(&mut fs::File, u64)) -> PathBuf {
    let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    damage(&mut file, length);
    path.to_owned()
}

#[test]
fn a_damaged_or_truncated_journal_is_whole_up_to_its_last_whole_event() {
    type Harm = fn(&mut fs::File, u64);
    let cases: [(&str, Harm); 3] = [
        ("cut off", |file, length| file.set_len(length / 4096 / 2 * 4096).unwrap()),
        ("cut off within a page", |file, length| file.set_len(length - 2000).unwrap()),
        ("overwritten", |file, length| {
            file.seek(SeekFrom::Start(length - length / 3)).unwrap();
            file.write_all(&[0xa5; 3000]).unwrap();
        }),
    ];
    for (what, harm) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.sqlite");
        let state = written(&path, 400);
        damaged_copy(&path, harm);
        let (_, replayed) = open(&path);
        let damage = replayed.damage.unwrap_or_else(|| panic!("{what}: not noticed"));
        assert!(damage.lost > 0, "{what}: {damage:?}");
        assert!(damage.kept_as.as_ref().is_some_and(|path| path.exists()), "{what}");
        let count = replayed.state.jobs().count();
        assert!(count < state.jobs().count() && damage.last_whole > 0, "{what}: {count} jobs, {damage:?}");
        for (job, spec, _) in replayed.state.jobs() {
            assert_eq!(spec, state.spec(job), "{what}");
        }
        // It is whole again.
        let (_, again) = open(&path);
        assert_eq!(again.state, replayed.state, "{what}");
    }
}

#[test]
fn a_missing_end_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    written(&path, 3);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("DELETE FROM events WHERE sequence > 3", []).unwrap();
    drop(connection);
    let (_, replayed) = open(&path);
    let damage = replayed.damage.unwrap();
    assert_eq!((damage.last_whole, damage.lost, damage.kept_as.clone()), (3, 4, None));
    let told = damage.to_string();
    assert!(told.contains("up to event 3") && told.contains("4 events after it are lost"), "{told}");
}

#[test]
fn foreign_file_is_not_overwritten_by_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    fs::write(&path, "nothing like a journal".repeat(500)).unwrap();
    let error = Journal::open(&path, EPOCH_UNIX_S, 0.0).map(drop).unwrap_err();
    assert!(matches!(error, JournalError::Ruined { .. }), "{error}");
    assert!(fs::read_to_string(&path).unwrap().starts_with("nothing like"));
}

#[test]
fn journal_of_another_cluster_a_newer_version_or_another_head_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    written(&path, 3);
    let (journal, _) = open(&path);
    journal.claim("aa:bb").unwrap();
    journal.claim("aa:bb").unwrap();
    let error = journal.claim("cc:dd").unwrap_err().to_string();
    assert!(error.contains("belongs to the cluster aa:bb, not to cc:dd"), "{error}");
    let error = Journal::open(&path, EPOCH_UNIX_S, 0.0).map(drop).unwrap_err();
    assert!(matches!(error, JournalError::InUse { .. }), "{error}");
    drop(journal);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("UPDATE meta SET value = 99 WHERE key = 'version'", []).unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();
    let error = Journal::open(&path, EPOCH_UNIX_S, 0.0).map(drop).unwrap_err();
    assert!(matches!(error, JournalError::Version { found: 99, .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before, "nothing was changed");
}
