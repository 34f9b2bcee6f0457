//! What the head must know after it died, and what it must not believe.

use tokio::sync::oneshot;
use wharf_core::{ClusterSpec, JobEnd, JobId, Phase};
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsRequest, Gang, JobSpec, TaskEnded, TaskId, TaskState, from_worker};

use super::virtual_cluster::{VirtualCluster, input, regime};
use crate::dispatcher::Input;
use crate::jobs::accepted_requests::RequestKey;

const TASK: TaskId = TaskId { job_id: 0, generation: 1 };

fn cluster() -> ClusterSpec {
    ClusterSpec::uniform("v100", 2, 4)
}

fn journal(folder: &tempfile::TempDir) -> std::path::PathBuf {
    folder.path().join("journal.sqlite")
}

/// A job with one task on each of so many nodes.
fn gang(nodes: u32) -> JobSpec {
    JobSpec {
        name: "gang".to_owned(),
        command: vec!["true".to_owned()],
        gang: Some(Gang { devices: 4 * nodes, nodes, ..Gang::default() }),
        ..JobSpec::default()
    }
}

fn ended(session: u64, exit_code: i32) -> Input {
    let ended = TaskEnded { task: Some(TASK), exit_code, by_itself: true, ..TaskEnded::default() };
    input((session, from_worker::Message::Ended(ended)))
}

#[test]
fn repeated_request_submits_nothing_also_after_restart_and_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let key = |user: &str| RequestKey::new(user, "8c1f".to_owned()).unwrap();
    let submit = |world: &mut VirtualCluster, user: &str| {
        let (reply, mut receiver) = oneshot::channel();
        world.step([Input::Submit { specs: vec![gang(1), gang(1)], key: key(user), reply }]);
        receiver.try_recv().unwrap()
    };
    let mut world = VirtualCluster::new(&journal(&folder), &cluster(), regime("fifo", 0));
    assert_eq!(submit(&mut world, "ann"), Ok(vec![0, 1]));
    assert_eq!(submit(&mut world, "ann"), Ok(vec![0, 1]), "at once");
    assert_eq!(submit(&mut world, "bob"), Ok(vec![2, 3]), "the key of another user");
    for is_from_snapshot in [false, true] {
        if is_from_snapshot {
            let dispatcher = &mut world.dispatcher;
            let now = dispatcher.now();
            dispatcher.log.journal.snapshot(dispatcher.engine.state(), &dispatcher.log.state, now).unwrap();
        }
        drop(world);
        world =
            VirtualCluster::after_restart(&journal(&folder), &cluster(), regime("fifo", 0), |_| Vec::new());
        assert_eq!(
            submit(&mut world, "ann"),
            Ok(vec![0, 1]),
            "after a restart, snapshot: {is_from_snapshot}"
        );
        assert_eq!(world.dispatcher.engine.state().next_job(), JobId(4));
    }
}

#[test]
fn end_of_one_task_of_a_gang_is_reported_again_after_a_restart() {
    for (code, expected) in [(0, JobEnd::Finished), (3, JobEnd::Failed { code: 3 })] {
        let folder = tempfile::tempdir().unwrap();
        let mut world = VirtualCluster::new(&journal(&folder), &cluster(), regime("fifo", 0));
        world.submit(vec![gang(2)]);
        world.dispatcher.step([ended(0, code)].into_iter()).unwrap();
        assert_eq!(world.forgotten, [], "the journal does not have it");
        drop(world);

        let has = |session: u64| {
            let exit_code = if session == 0 { code } else { 0 };
            let ended = session == 0;
            vec![TaskState { task: Some(TASK), ended, exit_code, by_itself: ended, ..TaskState::default() }]
        };
        let rules = regime("fifo", 0);
        let mut world = VirtualCluster::after_restart(&journal(&folder), &cluster(), rules, has);
        // A failure has stopped the other already.
        if code == 0 {
            assert_eq!(world.phase(0), Phase::Running);
            world.step([ended(1, 0)]);
        }
        assert_eq!(world.phase(0), Phase::Ended(expected));
        assert_eq!(world.forgotten, [(0, TASK), (1, TASK)]);
    }
}

#[test]
fn failure_before_the_whole_gang_has_started_ends_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = VirtualCluster::new(&journal(&folder), &cluster(), regime("fifo", 0));
    world.is_silent = true;
    world.submit(vec![gang(2)]);
    assert_eq!(world.phase(0), Phase::Placed);
    world.step([ended(0, 3)]);
    assert_eq!(world.phase(0), Phase::Ended(JobEnd::Failed { code: 3 }));
}

#[test]
fn job_that_was_faster_than_the_order_to_stop_is_over() {
    for (code, expected) in [(0, JobEnd::Finished), (3, JobEnd::Failed { code: 3 })] {
        let folder = tempfile::tempdir().unwrap();
        let mut world = VirtualCluster::new(&journal(&folder), &cluster(), regime("fifo", 0));
        world.submit(vec![gang(1)]);
        let (reply, _answer) = tokio::sync::oneshot::channel();
        let request =
            ChangeJobsRequest { job_ids: vec![0], change: Change::Requeue.into(), ..Default::default() };
        world.step([Input::Change { request, is_user: false, by: String::new(), reply }, ended(0, code)]);
        assert_eq!(world.phase(0), Phase::Ended(expected));
        let life = world.dispatcher.engine.state().job(JobId(0));
        assert_eq!(life.preemptions, 0, "a request to begin again is no preemption");
    }
}

#[test]
fn a_time_limit_does_not_begin_again_with_the_head() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = VirtualCluster::new(&journal(&folder), &cluster(), regime("fifo", 0));
    world.submit(vec![JobSpec { time_limit_s: 100.0, ..gang(1) }]);
    // So that the journal's last event is from then.
    world.set_time(wharf_core::Time::from_seconds(60.0));
    world.submit(vec![gang(1)]);
    drop(world);

    let running = |session: u64| match session {
        0 => vec![TaskState { task: Some(TASK), ..TaskState::default() }],
        _ => vec![TaskState { task: Some(TaskId { job_id: 1, generation: 1 }), ..TaskState::default() }],
    };
    let mut world = VirtualCluster::after_restart(&journal(&folder), &cluster(), regime("fifo", 0), running);
    world.set_time(wharf_core::Time::from_seconds(99.0));
    world.step([]);
    assert_eq!(world.phase(0), Phase::Running);
    world.set_time(wharf_core::Time::from_seconds(101.0));
    world.step([]);
    assert_eq!(world.phase(0), Phase::Ended(JobEnd::TimedOut));
}
