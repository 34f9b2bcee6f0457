//! Whom a job made room for, and how safe its work is: told, journaled, and known after a restart.

use wharf_core::{ClusterSpec, JobId, Phase, Time};
use wharf_proto::{Gang, JobSpec, TaskId, TaskProgress, TaskStarted, TaskState, from_worker};

use super::virtual_cluster::{VirtualCluster, input, regime};
use crate::query::views;

fn cluster() -> ClusterSpec {
    ClusterSpec::uniform("v100", 1, 4)
}

fn job(name: &str, seconds: f64) -> JobSpec {
    JobSpec {
        name: name.to_owned(),
        command: vec!["train".to_owned()],
        gang: Some(Gang { devices: 4, ..Gang::default() }),
        iterations: seconds * 10.0,
        iteration_ms: 100.0,
        ..JobSpec::default()
    }
}

/// What has been told of a job, without the events that every job has.
fn told(world: &VirtualCluster, job: u32) -> Vec<String> {
    let history = views::detail(&world.dispatcher, JobId(job)).unwrap().history;
    let texts = history.into_iter().map(|entry| entry.what);
    texts.filter(|text| text.contains("gave_way") || text.contains("saved")).collect()
}

#[test]
fn preempted_job_names_successor_and_reason_also_after_restart() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let mut world = VirtualCluster::new(&journal, &cluster(), regime("srtf", 0));
    world.submit(vec![job("long", 9000.0)]);
    world.set_time(Time::from_seconds(100.0));
    world.submit(vec![job("short", 60.0)]);
    assert_eq!((world.phase(0), world.phase(1)), (Phase::Waiting, Phase::Running));
    let expected = [r#"{"job_gave_way":{"job":0,"to":1,"chosen":"last_in_order"}}"#];
    assert_eq!(told(&world, 0), expected);
    let because = "; it made room for job 1 (last in order)";
    let reason = views::explain(&world.dispatcher, JobId(0));
    assert!(reason.ends_with(because), "{reason}");
    let state = world.dispatcher.engine.state().clone();
    drop(world);
    let task = TaskId { job_id: 1, generation: 1 };
    let runs = |_| vec![TaskState { task: Some(task), ..TaskState::default() }];
    let mut world = VirtualCluster::after_restart(&journal, &cluster(), regime("srtf", 0), runs);
    assert_eq!(world.dispatcher.engine.state().job(JobId(0)), state.job(JobId(0)));
    let reason = views::explain(&world.dispatcher, JobId(0));
    assert!(reason.ends_with(because), "{reason}");
    world.set_time(Time::from_seconds(300.0));
    let ended = wharf_proto::TaskEnded { task: Some(task), ..wharf_proto::TaskEnded::default() };
    world.step([input((0, from_worker::Message::Ended(ended)))]);
    assert_eq!(views::explain(&world.dispatcher, JobId(0)), "it runs");
}

#[test]
fn job_that_takes_long_to_start_gives_way_to_one_that_came_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let mut world = VirtualCluster::new(&journal, &cluster(), regime("srtf", 0));
    world.is_silent = true;
    world.submit(vec![job("long", 9000.0)]);
    world.set_time(Time::from_seconds(1.0));
    world.submit(vec![job("short", 60.0)]);
    assert_eq!((world.phase(0), world.phase(1)), (Phase::Placed, Phase::Waiting));
    world.is_silent = false;
    world.set_time(Time::from_seconds(2.0));
    let started = TaskStarted { task: Some(TaskId { job_id: 0, generation: 1 }) };
    world.step([input((0, from_worker::Message::Started(started)))]);
    assert_eq!((world.phase(0), world.phase(1)), (Phase::Waiting, Phase::Running));
}

#[test]
fn checkpoints_are_kept_but_not_every_one() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let mut world = VirtualCluster::new(&journal, &cluster(), regime("fifo", 0));
    world.submit(vec![job("trainer", 9000.0)]);
    // When a checkpoint is told, how much it holds, and when the work counts as saved then.
    for (time_s, checkpointed, saved_s) in
        [(100.0, 50.0, 100.0), (110.0, 60.0, 100.0), (160.0, 60.0, 100.0), (170.0, 80.0, 170.0)]
    {
        world.set_time(Time::from_seconds(time_s));
        let task = Some(TaskId { job_id: 0, generation: 1 });
        let progress =
            TaskProgress { task, iterations: checkpointed, checkpointed, ..TaskProgress::default() };
        world.step([input((0, from_worker::Message::Progress(progress)))]);
        let saved_at = world.dispatcher.engine.state().job(JobId(0)).saved_at();
        assert_eq!(saved_at, Time::from_seconds(saved_s), "at {time_s} s");
    }
    let saved = |done: &str| format!(r#"{{"job_saved":{{"job":0,"done":{done}}}}}"#);
    assert_eq!(told(&world, 0), [saved("50.0"), saved("80.0")]);
    drop(world);
    let task = Some(TaskId { job_id: 0, generation: 1 });
    let runs = |_| vec![TaskState { task, ..TaskState::default() }];
    let world = VirtualCluster::after_restart(&journal, &cluster(), regime("fifo", 0), runs);
    assert_eq!(world.dispatcher.log.state.checkpoints.get(&0), Some(&80.0));
    assert_eq!(world.dispatcher.engine.state().job(JobId(0)).saved_at(), Time::from_seconds(170.0));
}

#[test]
fn reshaped_job_names_change_and_successor_also_after_restart() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let sized = |name: &str, devices, devices_max| {
        let gang = Gang { devices, devices_min: devices, devices_max, ..Gang::default() };
        JobSpec { gang: Some(gang), ..job(name, 9000.0) }
    };
    let mut world = VirtualCluster::new(&journal, &cluster(), regime("sia", 0));
    world.submit(vec![sized("elastic", 2, 4)]);
    assert_eq!(views::explain(&world.dispatcher, JobId(0)), "it runs");
    world.set_time(Time::from_seconds(100.0));
    world.submit(vec![sized("rigid", 2, 2)]);
    let because = "it runs; it was shrunk from 4 × v100 to 2 × v100, for job 1";
    assert_eq!(views::explain(&world.dispatcher, JobId(0)), because);
    let counts = Some(wharf_proto::Reshapes { shrinks: 1, ..wharf_proto::Reshapes::default() });
    assert_eq!(views::summary(&world.dispatcher, JobId(0)).reshapes, counts);
    let history = views::detail(&world.dispatcher, JobId(0)).unwrap().history;
    assert!(history.iter().any(|entry| entry.what == r#"{"job_replaced":{"job":0,"by":1}}"#));
    let state = world.dispatcher.engine.state().clone();
    drop(world);
    let task = |job_id: u32, generation| TaskState {
        task: Some(TaskId { job_id, generation }),
        ..TaskState::default()
    };
    let runs = |_| vec![task(0, 2), task(1, 1)];
    let world = VirtualCluster::after_restart(&journal, &cluster(), regime("sia", 0), runs);
    assert_eq!(world.dispatcher.engine.state().job(JobId(0)), state.job(JobId(0)));
    assert_eq!(views::explain(&world.dispatcher, JobId(0)), because);
    assert_eq!(views::summary(&world.dispatcher, JobId(0)).reshapes, counts);
}
