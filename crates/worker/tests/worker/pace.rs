//! Paced tasks: the worker's own trainer, at the pace that the head tells.

use std::path::Path;
use std::process::Command;

use crate::support::{Head, Session, Worker, id, read, shell, supervisor_pid};
use wharf_proto::{LaunchTask, TaskEnded, TaskId, TaskProgress, from_worker};

/// Too slow to get anywhere.
const SLOW_S: f64 = 1e6;

fn paced(task: TaskId, folder: &Path, iterations: f64) -> LaunchTask {
    LaunchTask {
        command: vec![],
        paced_iterations: Some(iterations),
        workdir: folder.to_string_lossy().into_owned(),
        grace_s: 60.0,
        ..shell(task, "")
    }
}

/// The first progress of a task that is `enough`.
async fn progress(
    session: &mut Session,
    task: TaskId,
    enough: impl Fn(&TaskProgress) -> bool,
) -> TaskProgress {
    loop {
        match session.next().await {
            from_worker::Message::Progress(told) if told.task == Some(task) && enough(&told) => return told,
            from_worker::Message::Ended(ended) if ended.task == Some(task) => panic!("it ended: {ended:?}"),
            _ => (),
        }
    }
}

async fn end(session: &mut Session, task: TaskId) -> (TaskEnded, TaskProgress) {
    let mut last = TaskProgress::default();
    loop {
        match session.next().await {
            from_worker::Message::Progress(told) if told.task == Some(task) => last = told,
            from_worker::Message::Ended(ended) if ended.task == Some(task) => return (ended, last),
            _ => (),
        }
    }
}

#[tokio::test]
async fn paced_task_follows_its_pace_saves_and_continues() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    // A file that another cluster has left there.
    let checkpoint = dir.path().join("paced-1.checkpoint");
    std::fs::write(&checkpoint, "700\n").unwrap();
    session.launch(paced(id(1, 1), dir.path(), 1000.0)).await;
    let told = progress(&mut session, id(1, 1), |_| true).await;
    assert_eq!((told.iterations, told.checkpointed), (0.0, 0.0), "nothing is done before the pace is known");
    session.set_pace(id(1, 1), 0.01).await;
    progress(&mut session, id(1, 1), |told| told.iterations > 1.0).await;
    session.stop(id(1, 1)).await;
    let (ended, last) = end(&mut session, id(1, 1)).await;
    let said = read(&dir.path().join("tasks/1-1.out"));
    assert_eq!((ended.exit_code, ended.interrupted), (0, true), "{said}");
    assert!(last.iterations > 1.0 && last.iterations == last.checkpointed, "{last:?}");

    session.launch(paced(id(1, 2), dir.path(), 1000.0)).await;
    let told = progress(&mut session, id(1, 2), |_| true).await;
    assert_eq!(told.iterations, last.iterations, "it continues from its checkpoint");
    session.set_pace(id(1, 2), SLOW_S).await;
    session.set_pace(id(1, 2), 1e-6).await;
    let (ended, last) = end(&mut session, id(1, 2)).await;
    assert_eq!((ended.exit_code, ended.interrupted, last.iterations), (0, false, 1000.0));
    assert!(!checkpoint.exists(), "it is not needed any more");
    worker.shut_down().await;
}

#[tokio::test]
async fn pace_reaches_a_task_through_a_new_supervisor() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    session.launch(paced(id(1, 1), dir.path(), 1000.0)).await;
    session.set_pace(id(1, 1), SLOW_S).await;
    progress(&mut session, id(1, 1), |told| told.iterations > 0.0).await;
    let supervisor = supervisor_pid(dir.path()).unwrap();
    assert!(Command::new("kill").arg("-9").arg(supervisor.to_string()).status().unwrap().success());
    session.set_pace(id(1, 1), 1e-6).await;
    // Its exit code died with the supervisor, but that it did all its work was told before.
    let (_, last) = end(&mut session, id(1, 1)).await;
    assert_eq!(last.iterations, 1000.0, "{}", read(&dir.path().join("tasks/1-1.out")));
    worker.shut_down().await;
}
