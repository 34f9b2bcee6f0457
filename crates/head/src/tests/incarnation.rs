//! A head that continues from an older copy of its state gives no id twice.

use std::fs;
use std::path::{Path, PathBuf};

use wharf_core::ClusterSpec;
use wharf_proto::{Gang, HeadMark, JobSpec, Register, TaskId, TaskState};

use super::virtual_cluster::{EPOCH_UNIX_S, VirtualCluster, regime};
use crate::dispatcher::Input;
use crate::journal::Journal;

fn cluster() -> ClusterSpec {
    ClusterSpec::uniform("v100", 1, 4)
}

fn job() -> JobSpec {
    JobSpec {
        name: "job".to_owned(),
        command: vec!["true".to_owned()],
        gang: Some(Gang { devices: 1, ..Gang::default() }),
        ..JobSpec::default()
    }
}

fn start(journal: &Path) -> VirtualCluster {
    VirtualCluster::new(journal, &cluster(), regime("fifo", 0))
}

/// A running task of these jobs.
fn running(jobs: &[u32]) -> Vec<TaskState> {
    let task = |&job_id: &u32| Some(TaskId { job_id, generation: 1 });
    jobs.iter().map(|job| TaskState { task: task(job), ..TaskState::default() }).collect()
}

fn restart(journal: &Path, jobs: &[u32], mark: Option<HeadMark>) -> VirtualCluster {
    VirtualCluster::after_restore(journal, &cluster(), regime("fifo", 0), |_| running(jobs), mark)
}

/// The contents of a journal, put back in place: nothing about the files tells that they are older.
struct Copy(Vec<(PathBuf, Vec<u8>)>);

impl Copy {
    fn of(journal: &Path) -> Self {
        let read = |path: PathBuf| fs::read(&path).ok().map(|bytes| (path, bytes));
        let files = [journal.to_owned(), journal.with_extension("mark")];
        Self(files.into_iter().filter_map(read).collect())
    }

    fn restore(&self) {
        self.0.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    }
}

#[test]
fn state_restored_twice_from_an_older_copy_skips_ids_that_workers_know() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let mut world = start(&journal);
    assert_eq!(world.submit(vec![job()]), [0]);
    drop(world);
    let copy = Copy::of(&journal);
    let mut world = restart(&journal, &[0], None);
    assert_eq!(world.submit(vec![job(), job()]), [1, 2], "a restart skips nothing");
    let mut mark = world.mark.clone();
    drop(world);
    for expected in [2000, 4000] {
        copy.restore();
        let mut world = restart(&journal, &[0, 1, 2], mark);
        assert!(world.has_warned("restored from an older copy"), "{:?}", world.warnings);
        assert!(world.has_warned("of jobs 1 (generation 1), 2 (generation 1): they are stopped"));
        let ended: Vec<u32> = world.stops.iter().map(|task| task.job_id).collect();
        assert_eq!(ended, [1, 2], "what the copy contains continues");
        assert_eq!(world.submit(vec![job()]), [expected]);
        assert!(world.runs(wharf_core::JobId(expected)));
        let state = world.dispatcher.engine.state();
        assert!(!state.has_job(wharf_core::JobId(1)) && state.jobs().count() == 2);
        mark = world.mark.clone();
    }
}

#[test]
fn state_restored_and_killed_before_it_was_durable_is_noticed_again() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let mut world = start(&journal);
    world.submit(vec![job()]);
    drop(world);
    let elsewhere = folder.path().join("copy");
    fs::create_dir(&elsewhere).unwrap();
    let copied = elsewhere.join("journal.sqlite");
    for name in ["sqlite", "mark"] {
        fs::copy(journal.with_extension(name), copied.with_extension(name)).unwrap();
    }
    for _ in 0..2 {
        let (_, replayed) = Journal::open(&copied, EPOCH_UNIX_S, f64::MAX).unwrap();
        assert!(replayed.discontinuity.unwrap().contains("copied"));
    }
    // Without a word of any worker.
    let mut world = start(&copied);
    assert_eq!(world.submit(vec![job()]), [2000]);
    drop(world);
    let (_, replayed) = Journal::open(&copied, EPOCH_UNIX_S, f64::MAX).unwrap();
    assert_eq!(replayed.discontinuity, None, "it is noticed once");
    assert_eq!(replayed.head_state.incarnations.len(), 2);
}

#[test]
fn journal_without_its_end_skips_acknowledged_ids() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let mut world = start(&journal);
    world.submit(vec![job(); 1500]);
    drop(world);
    let connection = rusqlite::Connection::open(&journal).unwrap();
    connection.execute("DELETE FROM events WHERE sequence > 4", []).unwrap();
    drop(connection);
    let mut world = start(&journal);
    assert_eq!(world.submit(vec![job()]), [3000]);
    assert!(world.has_warned("are lost"), "{:?}", world.warnings);
}

#[test]
fn snapshot_keeps_skipped_ids_and_incarnations() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    drop(start(&journal));
    let mark = HeadMark { incarnation: "elsewhere".into(), ids_below: 1000, sequence: 5 };
    let mut world = restart(&journal, &[], Some(mark));
    let dispatcher = &mut world.dispatcher;
    let now = dispatcher.now();
    dispatcher.log.journal.snapshot(dispatcher.engine.state(), &dispatcher.log.state, now).unwrap();
    let (state, kept) = (dispatcher.engine.state().clone(), dispatcher.log.state.clone());
    drop(world);
    let (_, replayed) = Journal::open(&journal, EPOCH_UNIX_S, f64::MAX).unwrap();
    assert_eq!((replayed.state.skipped_ids(), &replayed.head_state.incarnations), (2000, &kept.incarnations));
    assert_eq!(replayed.state.counts(), state.counts());
}

#[test]
fn worker_that_lies_about_ids_cannot_use_them_up() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let mut world = start(&journal);
    let lie = |ids_below: u32| Register {
        node: "liar".into(),
        devices: 1,
        device_type: "v100".into(),
        mark: Some(HeadMark { ids_below, ..HeadMark::default() }),
        ..Register::default()
    };
    for ids_below in [u32::MAX, 3_000_000_000, 200_000] {
        world.attach(lie(ids_below));
        assert!(crate::query::views::node_named(&world.dispatcher, "liar").is_none(), "{ids_below}");
    }
    assert!(world.has_warned("node liar is refused"));
    assert_eq!(world.submit(vec![job()]), [0]);
    for step in 1..500 {
        world.attach(lie(step * 1000));
    }
    assert!(world.dispatcher.engine.state().skipped_ids() <= 100_000);
}

#[test]
fn submission_after_a_start_waits_for_the_reports_of_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = start(&folder.path().join("journal.sqlite"));
    world.step([Input::Detach { session: 0 }]);
    world.dispatcher.await_reports(3.0);
    let (reply, mut answer) = tokio::sync::oneshot::channel();
    world.step([Input::Submit { specs: vec![job()], key: None, reply }]);
    assert!(answer.try_recv().is_err(), "it waits");
    let node = world.dispatcher.engine.state().topology().nodes()[0].spec.name.to_string();
    let mark = Some(HeadMark { incarnation: "later".into(), ids_below: 5000, sequence: 9 });
    let device_type = "v100".to_owned();
    world.attach(Register { node, device_type, devices: 4, mark, ..Register::default() });
    assert!(world.dispatcher.next_deadline().is_some_and(|due| due <= world.now()), "at once");
    world.step([]);
    assert_eq!(answer.try_recv().unwrap(), Ok(vec![6000]));
}
