//! Leases and progress of trainers, with the Python SDK and without.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::support::{
    Head, Session, Victim, Worker, id, probe, read, shell, supervisor_pid, until, wait_for,
};
use wharf_proto::{LaunchTask, Lease, TaskEnded, TaskId, TaskProgress, from_worker};

/// A loop that states where it is, waits for the file `go` in its 20th iteration, and saves when it is requested to.
const TRAINER: &str = r#"
import os, pathlib, time, wharf
folder = pathlib.Path(os.environ["FOLDER"])
for step in wharf.steps(1_000_000, checkpoint_every=1000):
    if step == 19:
        (folder / "waits").touch()
        while folder.exists() and not (folder / "go").exists():
            time.sleep(0.01)
    time.sleep(0.001)
    wharf.report(loss=1 / (step + 1))
    if wharf.should_checkpoint():
        (folder / "saved").write_text(str(step + 1))
        wharf.checkpointed()
(folder / "complete").touch()
"#;

/// A loop that does nothing else.
const LOOP: &str = "for step in wharf.steps(1000): pass";

fn trainer(task: TaskId, folder: &Path, lease: Option<Lease>) -> LaunchTask {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let variable = |path: &Path| path.to_string_lossy().into_owned();
    LaunchTask {
        command: vec!["python3".into(), "-c".into(), TRAINER.into()],
        env: [("PYTHONPATH".to_owned(), variable(&sdk)), ("FOLDER".to_owned(), variable(folder))].into(),
        lease,
        ..shell(task, "")
    }
}

fn until_iteration(iteration: f64) -> Lease {
    Lease { until_iteration: Some(iteration), until_s: None }
}

fn seconds_from_now(seconds: f64) -> Lease {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Lease { until_iteration: None, until_s: Some(now.as_secs_f64() + seconds) }
}

/// Whether Python is there; without it a test has nothing to run, which must not go unnoticed.
fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok();
    if !found {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "NOT TESTED: there is no python3 for the trainer");
    }
    found
}

/// The end of a task and the last that it said of itself before.
async fn end(session: &mut Session, task: TaskId) -> (TaskEnded, TaskProgress) {
    let mut last = TaskProgress::default();
    loop {
        match session.next().await {
            from_worker::Message::Progress(progress) if progress.task == Some(task) => last = progress,
            from_worker::Message::Ended(ended) if ended.task == Some(task) => return (ended, last),
            _ => (),
        }
    }
}

#[tokio::test]
async fn iteration_lease_over_trainer_saves_and_exits() {
    if !has_python() {
        return;
    }
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    session.launch(trainer(id(1, 1), dir.path(), Some(until_iteration(50.0)))).await;
    std::fs::write(dir.path().join("go"), "").unwrap();
    let (ended, last) = end(&mut session, id(1, 1)).await;
    assert_eq!(
        (ended.exit_code, ended.interrupted),
        (0, true),
        "{}",
        read(&dir.path().join("tasks/1-1.out"))
    );
    assert_eq!((last.iterations, last.checkpointed), (50.0, 50.0));
    assert_eq!(last.metrics, [("loss".to_owned(), 0.02)].into());
    assert_eq!(read(&dir.path().join("saved")), "50");
    assert!(!dir.path().join("complete").exists(), "what follows the loop was run");
    worker.shut_down().await;
}

#[tokio::test]
async fn lease_renewed_over_a_new_worker_is_obeyed() {
    if !has_python() {
        return;
    }
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Victim::start(head.address, dir.path());
    let session = head.session().await;
    session.launch(trainer(id(1, 1), dir.path(), Some(until_iteration(20.0)))).await;
    until("iteration 20", || dir.path().join("waits").exists()).await;
    worker.kill();
    drop(session);
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    session.renew(id(1, 1), until_iteration(80.0)).await;
    until("the renewal's record", || read(&dir.path().join("keeper.journal")).contains("80.0")).await;
    std::fs::write(dir.path().join("go"), "").unwrap();
    let (ended, last) = end(&mut session, id(1, 1)).await;
    assert_eq!((ended.exit_code, ended.interrupted, last.iterations), (0, true, 80.0));
    worker.shut_down().await;
}

#[tokio::test]
async fn lease_shortened_ends_a_trainer_early() {
    if !has_python() {
        return;
    }
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    session.launch(trainer(id(1, 1), dir.path(), None)).await;
    until("iteration 20", || dir.path().join("waits").exists()).await;
    session.renew(id(1, 1), until_iteration(10.0)).await;
    std::fs::write(dir.path().join("go"), "").unwrap();
    let (ended, last) = end(&mut session, id(1, 1)).await;
    assert_eq!((ended.exit_code, ended.interrupted), (0, true));
    assert!(last.iterations >= 20.0 && last.checkpointed == last.iterations, "{last:?}");
    worker.shut_down().await;
}

#[tokio::test]
async fn stop_lets_a_trainer_save() {
    if !has_python() {
        return;
    }
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    session.launch(LaunchTask { stop_signal: 10, ..trainer(id(1, 1), dir.path(), None) }).await;
    until("iteration 20", || dir.path().join("waits").exists()).await;
    session.stop(id(1, 1)).await;
    std::fs::write(dir.path().join("go"), "").unwrap();
    let (ended, last) = end(&mut session, id(1, 1)).await;
    assert_eq!((ended.exit_code, ended.interrupted), (0, true));
    assert_eq!(read(&dir.path().join("saved")), last.checkpointed.to_string());
    worker.shut_down().await;
}

#[tokio::test]
async fn iteration_lease_over_is_reported_to_shell_trainers() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let script = format!("i=0; while {} step $i loss $i; do i=$((i+1)); done; exit 0", probe().display());
    session.launch(LaunchTask { lease: Some(until_iteration(7.0)), ..shell(id(1, 1), &script) }).await;
    let (ended, last) = end(&mut session, id(1, 1)).await;
    assert_eq!((ended.exit_code, ended.interrupted, last.iterations), (0, true, 7.0));
    assert_eq!(last.metrics, [("loss".to_owned(), 7.0)].into());
    worker.shut_down().await;
}

#[tokio::test]
async fn time_lease_overstayed_is_stopped_with_its_signal() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let saved = dir.path().join("saved");
    let script =
        format!("trap 'echo saved > {}; exit 7' USR1; while :; do sleep 0.02; done", saved.display());
    let lease = seconds_from_now(0.5);
    let launch = LaunchTask { stop_signal: 10, grace_s: 0.5, lease: Some(lease), ..shell(id(1, 1), &script) };
    session.launch(launch).await;
    let (ended, _) = end(&mut session, id(1, 1)).await;
    assert_eq!((ended.exit_code, ended.interrupted), (7, true));
    assert!(lease.until_s.unwrap() + 0.5 <= seconds_from_now(0.0).until_s.unwrap(), "stopped too early");
    assert_eq!(read(&saved), "saved\n");
    worker.shut_down().await;
}

#[tokio::test]
async fn time_lease_renewed_without_end_is_not_stopped() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let go = dir.path().join("go");
    let lease = seconds_from_now(2.0);
    let script = format!("{}; exit 3", wait_for(&go));
    session.launch(LaunchTask { grace_s: 0.3, lease: Some(lease), ..shell(id(1, 1), &script) }).await;
    session.started(id(1, 1)).await;
    session.renew(id(1, 1), Lease::default()).await;
    // Until after the first lease would have been enforced: only time shows that it was not.
    tokio::time::sleep(Duration::from_secs(3)).await;
    std::fs::write(&go, "").unwrap();
    let (ended, _) = end(&mut session, id(1, 1)).await;
    assert_eq!((ended.exit_code, ended.interrupted), (3, false));
    worker.shut_down().await;
}

#[tokio::test]
async fn time_lease_outlives_the_supervisor() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let launch = LaunchTask { grace_s: 0.2, ..shell(id(1, 1), "exec sleep 60") };
    session.launch(launch).await;
    session.started(id(1, 1)).await;
    session.renew(id(1, 1), seconds_from_now(3.0)).await;
    until("the renewal's record", || read(&dir.path().join("keeper.journal")).contains("Renew")).await;
    let supervisor = supervisor_pid(dir.path()).expect("a supervisor");
    assert!(Command::new("kill").arg("-9").arg(supervisor.to_string()).status().unwrap().success());
    let (ended, _) = end(&mut session, id(1, 1)).await;
    assert!(ended.interrupted && ended.error.contains("supervisor died"), "{ended:?}");
    worker.shut_down().await;
}

#[tokio::test]
async fn progress_of_another_user_is_received() {
    use std::os::unix::fs::PermissionsExt;
    if !has_python() {
        return;
    }
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    if std::os::unix::fs::chown(dir.path(), Some(1), None).is_err() {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "NOT TESTED: tasks of other users, because this is not root");
        return;
    }
    std::os::unix::fs::chown(dir.path(), Some(0), None).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    let state_dir = dir.path().join("state");
    let worker = Worker::start(head.address, &state_dir);
    let mut session = head.session().await;
    let mut launch = trainer(id(1, 1), dir.path(), Some(until_iteration(5.0)));
    let script = format!("import os, wharf; os.setgid(65534); os.setuid(65534)\n{}", LOOP);
    launch.command = vec!["python3".into(), "-c".into(), script];
    session.launch(launch).await;
    let (ended, last) = end(&mut session, id(1, 1)).await;
    assert_eq!((ended.exit_code, ended.interrupted), (0, true), "{}", read(&state_dir.join("tasks/1-1.out")));
    assert_eq!(last.iterations, 5.0);
    worker.shut_down().await;
}

#[tokio::test]
async fn progress_with_a_wrong_word_is_ignored() {
    if !has_python() {
        return;
    }
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let script = "import json,os,socket\n\
        e=os.environ\n\
        s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)\n\
        for token,done in ((e['WHARF_PROGRESS_TOKEN'],5),('guessed',99),('',98)):\n \
        t={'job':1,'generation':1,'iterations':done,'token':token}\n \
        s.sendto(json.dumps(t).encode(),e['WHARF_PROGRESS_SOCKET'])\n";
    let command = vec!["python3".into(), "-c".into(), script.into()];
    session.launch(LaunchTask { command, ..shell(id(1, 1), "") }).await;
    let (ended, last) = end(&mut session, id(1, 1)).await;
    assert_eq!((ended.exit_code, ended.interrupted, last.iterations), (0, false, 5.0));
    worker.shut_down().await;
}
