//! A worker that is cut off from its head stops its tasks, and one whose head is just not there does not.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Head, Session, Victim, Worker, id, read, runs, shell, until, wait_for};
use wharf_proto::{TaskState, Welcome};

const FENCE: Duration = Duration::from_secs(2);

async fn fencing_head(address: std::net::SocketAddr) -> Head {
    let (fence_after_s, fence_grace_s) = (FENCE.as_secs_f64(), 0.5);
    Head::start_with(address, Welcome { heartbeat_s: 0.5, fence_after_s, fence_grace_s }).await
}

fn anywhere() -> std::net::SocketAddr {
    std::net::SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Launches a task that states when it is requested to stop, and does not, and waits until it says its process.
async fn launch_stubborn(session: &mut Session, dir: &Path) -> String {
    let file = |name: &str| dir.join(name).display().to_string();
    let (told, pid, go) = (file("told"), file("pid"), wait_for(&dir.join("go")));
    let script = format!("trap 'touch {told}' TERM; echo $$ > {pid}; {go}; exit 5");
    session.launch(shell(id(1, 1), &script)).await;
    session.started(id(1, 1)).await;
    until("the task's process", || read(&dir.join("pid")).ends_with('\n')).await;
    read(&dir.join("pid"))
}

fn state(session: &Session) -> TaskState {
    let found = session.register.tasks.iter().find(|state| state.task == Some(id(1, 1)));
    found.cloned().expect("the task is known")
}

fn assert_fenced(session: &Session) {
    let state = state(session);
    assert!(state.ended && state.is_blameless && state.error.contains("cut off"), "{state:?}");
}

#[tokio::test]
async fn head_silent_tasks_are_stopped() {
    let (mut head, dir) = (fencing_head(anywhere()).await, tempfile::tempdir().unwrap());
    let address = head.address;
    let worker = Worker::start(address, dir.path());
    let mut session = head.session().await;
    let pid = launch_stubborn(&mut session, dir.path()).await;
    let begun = Instant::now();
    head.stop().await;
    drop(session);
    // Connections are accepted, but there is never an answer.
    let silent = loop {
        // The earlier socket may live on for a moment in a child that another test is starting.
        match tokio::net::TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    until("the task's end", || !runs(&pid)).await;
    assert!(begun.elapsed() >= FENCE, "too early");
    assert!(dir.path().join("told").exists(), "it had no time to save");
    drop(silent);
    let mut head = fencing_head(address).await;
    let mut session = head.session().await;
    assert_fenced(&session);
    // And it is of use again.
    session.launch(shell(id(2, 1), "exit 4")).await;
    assert_eq!(session.ended(id(2, 1)).await.0, 4);
    worker.shut_down().await;
}

#[tokio::test]
async fn head_gone_tasks_go_on() {
    let (mut head, dir) = (fencing_head(anywhere()).await, tempfile::tempdir().unwrap());
    let address = head.address;
    let worker = Worker::start(address, dir.path());
    let mut session = head.session().await;
    let pid = launch_stubborn(&mut session, dir.path()).await;
    head.stop().await;
    drop(session);
    // Held without a listener, so that connections are refused, and no server of another test gets the port.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.set_reuseaddr(true).unwrap();
    held.bind(address).unwrap();
    // Only time shows that nothing comes of it.
    tokio::time::sleep(3 * FENCE).await;
    assert!(runs(&pid) && !dir.path().join("told").exists());
    drop(held);
    let mut head = fencing_head(address).await;
    let mut session = head.session().await;
    assert!(!state(&session).ended);
    std::fs::write(dir.path().join("go"), "").unwrap();
    assert_eq!(session.ended(id(1, 1)).await, (5, String::new()));
    worker.shut_down().await;
}

#[tokio::test]
async fn worker_killed_tasks_are_stopped() {
    let (mut head, dir) = (fencing_head(anywhere()).await, tempfile::tempdir().unwrap());
    let worker = Victim::start(head.address, dir.path());
    let mut session = head.session().await;
    let pid = launch_stubborn(&mut session, dir.path()).await;
    let begun = Instant::now();
    worker.kill();
    drop(session);
    until("the task's end", || !runs(&pid)).await;
    assert!(begun.elapsed() >= FENCE, "too early");
    assert!(dir.path().join("told").exists(), "it had no time to save");
    until("its record", || read(&dir.path().join("keeper.journal")).contains("cut off")).await;
    let worker = Worker::start(head.address, dir.path());
    assert_fenced(&head.session().await);
    worker.shut_down().await;
}

#[tokio::test]
async fn worker_back_in_time_tasks_go_on() {
    let (mut head, dir) = (fencing_head(anywhere()).await, tempfile::tempdir().unwrap());
    let worker = Victim::start(head.address, dir.path());
    let mut session = head.session().await;
    let pid = launch_stubborn(&mut session, dir.path()).await;
    worker.kill();
    drop(session);
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    // Until after the tasks would have been stopped: only time shows that they were not.
    tokio::time::sleep(FENCE + FENCE / 2).await;
    assert!(runs(&pid) && !dir.path().join("told").exists());
    std::fs::write(dir.path().join("go"), "").unwrap();
    assert_eq!(session.ended(id(1, 1)).await, (5, String::new()));
    worker.shut_down().await;
}
