//! Tasks outlast the worker, the head and, but for their exit codes, the supervisor.

use std::process::Command;

use crate::support::{
    Head, Session, Victim, Worker, config, id, read, shell, supervisor_pid, until, wait_for,
};
use wharf_proto::{TaskState, from_worker};
use wharf_worker::{WorkerError, run};

fn state(session: &Session, job: u32) -> Option<TaskState> {
    session.register.tasks.iter().find(|state| state.task == Some(id(job, 1))).cloned()
}

#[tokio::test]
async fn worker_killed_tasks_are_adopted() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let path = |name: &str| dir.path().join(name).display().to_string();
    let worker = Victim::start(head.address, dir.path());
    let mut session = head.session().await;
    let wait_for = |name: &str| wait_for(&dir.path().join(name));
    let begun = |job: u32| format!("echo {job} >> {}", path("begun"));
    session.launch(shell(id(1, 1), &format!("{}; {}; exit 3", begun(1), wait_for("one")))).await;
    session
        .launch(shell(
            id(2, 1),
            &format!("{}; {}; touch {}; exit 4", begun(2), wait_for("two"), path("two-over")),
        ))
        .await;
    session.started(id(1, 1)).await;
    session.started(id(2, 1)).await;
    until("both", || read(&dir.path().join("begun")).lines().count() == 2).await;
    worker.kill();
    drop(session);
    // Ends while there is no worker.
    std::fs::write(path("two"), "").unwrap();
    until("the end of the second", || dir.path().join("two-over").exists()).await;
    until("its record", || read(&dir.path().join("keeper.journal")).contains("\"code\":4")).await;

    let worker = Victim::start(head.address, dir.path());
    let mut session = head.session().await;
    let first = state(&session, 1).expect("the first is known");
    assert_eq!((first.ended, session.register.tasks.len()), (false, 2));
    let second = state(&session, 2).expect("the second is known");
    assert_eq!((second.ended, second.exit_code), (true, 4));
    assert_eq!(session.ended(id(2, 1)).await, (4, String::new()));
    session.forget(id(2, 1)).await;
    // A head that is not sure says it again: nothing is started.
    session.launch(shell(id(1, 1), &begun(1))).await;
    session.started(id(1, 1)).await;
    std::fs::write(path("one"), "").unwrap();
    assert_eq!(session.ended(id(1, 1)).await, (3, String::new()));
    assert_eq!(read(&dir.path().join("begun")).lines().count(), 2);
    worker.kill();

    // Not acknowledged, so told again.
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    assert_eq!(session.register.tasks.len(), 1);
    assert_eq!(session.ended(id(1, 1)).await.0, 3);
    session.forget(id(1, 1)).await;
    session.launch(shell(id(5, 1), "exit 0")).await;
    session.ended(id(5, 1)).await;
    worker.shut_down().await;
    until("the supervisor's end", || supervisor_pid(dir.path()).is_none()).await;

    // The supervisor has ended with an end in its journal.
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    assert_eq!(session.ended(id(5, 1)).await.0, 0);
    worker.shut_down().await;
}

#[tokio::test]
async fn worker_shut_down_leaves_tasks_running() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let go = dir.path().join("go");
    session.launch(shell(id(1, 1), &format!("{}; exit 5", wait_for(&go)))).await;
    session.started(id(1, 1)).await;
    worker.shut_down().await;
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    assert!(state(&session, 1).is_some_and(|state| !state.ended));
    std::fs::write(&go, "").unwrap();
    assert_eq!(session.ended(id(1, 1)).await.0, 5);
    worker.shut_down().await;
}

#[tokio::test]
async fn head_away_tasks_continue_and_ends_are_reported_later() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let address = head.address;
    let worker = Worker::start(address, dir.path());
    let mut session = head.session().await;
    let go = dir.path().join("go");
    let script = format!("{}; rm {}; exit 6", wait_for(&go), go.display());
    session.launch(shell(id(1, 1), &script)).await;
    session.started(id(1, 1)).await;
    drop(session);
    head.stop().await;
    std::fs::write(&go, "").unwrap();
    until("the end", || !go.exists()).await;
    let mut head = Head::start_at(address).await;
    let mut session = head.session().await;
    assert!(state(&session, 1).is_some());
    assert_eq!(session.ended(id(1, 1)).await.0, 6);
    session.forget(id(1, 1)).await;
    worker.shut_down().await;
}

#[tokio::test]
async fn supervisor_killed_tasks_continue_without_code() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let go = dir.path().join("go");
    session.launch(shell(id(1, 1), &wait_for(&go))).await;
    session.launch(shell(id(2, 1), "exit 9")).await;
    session.started(id(1, 1)).await;
    assert_eq!(session.ended(id(2, 1)).await.0, 9);
    let supervisor = supervisor_pid(dir.path()).expect("a supervisor");
    assert!(Command::new("kill").arg("-9").arg(supervisor.to_string()).status().unwrap().success());
    // The next supervisor tells all that it found.
    session.started(id(1, 1)).await;
    assert_eq!(session.ended(id(2, 1)).await, (9, String::new()));
    std::fs::write(&go, "").unwrap();
    let (code, error) = session.ended(id(1, 1)).await;
    assert_eq!((code, error.contains("supervisor died")), (-1, true), "{error}");
    session.launch(shell(id(3, 1), "exit 2")).await;
    assert_eq!(session.ended(id(3, 1)).await.0, 2);
    worker.shut_down().await;
}

#[tokio::test]
async fn second_worker_is_refused() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let refused = run(config(head.address, dir.path()), std::future::pending()).await;
    let pid = std::process::id().to_string();
    assert!(matches!(&refused, Err(WorkerError::InUse { holder, .. }) if *holder == pid), "{refused:?}");
    session.launch(shell(id(1, 1), "exit 0")).await;
    while !matches!(session.next().await, from_worker::Message::Ended(_)) {}
    worker.shut_down().await;
}
