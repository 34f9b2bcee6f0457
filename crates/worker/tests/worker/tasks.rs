//! Tasks of a worker that stays alive: start, end, stop, output, progress.

use std::os::unix::fs::PermissionsExt;

use crate::support::{
    Head, PATIENCE, Worker, config, id, read, runs, shell, supervisor_pid, until, wait_for,
};
use wharf_proto::{LaunchTask, SendOutput, from_worker};
use wharf_worker::{WorkerError, run};

#[tokio::test]
async fn launch_ends_with_codes_and_signals() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    assert_eq!((session.register.node.as_str(), session.register.devices), ("n0", 4));
    assert!(session.register.tasks.is_empty());
    let rows =
        [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("kill -40 $$", -1)];
    for (job, (script, code)) in rows.into_iter().enumerate() {
        let task = id(u32::try_from(job).unwrap(), 1);
        session.launch(shell(task, script)).await;
        session.started(task).await;
        assert_eq!(session.ended(task).await.0, code, "{script}");
        session.forget(task).await;
    }
    worker.shut_down().await;
    until("the supervisor's end", || supervisor_pid(dir.path()).is_none()).await;
}

#[tokio::test]
async fn launch_impossible_ends_with_reason() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let mut launch = shell(id(1, 1), "true");
    launch.command = vec!["/no/such/program".into()];
    session.launch(launch).await;
    let (code, error) = session.ended(id(1, 1)).await;
    assert_eq!((code, error.contains("/no/such/program")), (127, true), "{error}");
    let mut launch = shell(id(2, 1), "true");
    launch.workdir = "/no/such/folder".into();
    session.launch(launch).await;
    assert!(session.ended(id(2, 1)).await.1.contains("working directory"));
    session.launch(LaunchTask { command: Vec::new(), ..shell(id(3, 1), "") }).await;
    assert!(session.ended(id(3, 1)).await.1.contains("empty"));
    session.stop(id(4, 1)).await;
    assert!(session.ended(id(4, 1)).await.1.contains("unknown to the worker"));
    worker.shut_down().await;
}

#[tokio::test]
async fn launch_has_environment_and_no_token() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let mut launch = shell(id(5, 2), "pwd; env");
    launch.workdir = "/".into();
    launch.env = [("GREETING".to_owned(), "hello world".to_owned())].into();
    launch.output = dir.path().join("logs/5.txt").to_string_lossy().into_owned();
    session.launch(launch).await;
    assert_eq!(session.ended(id(5, 2)).await.0, 0);
    let file = dir.path().join("logs/5.txt");
    let text = read(&file);
    for line in
        ["/", "GREETING=hello world", "CUDA_VISIBLE_DEVICES=2", "WHARF_JOB_ID=5", "WHARF_GENERATION=2"]
    {
        assert!(text.lines().any(|had| had == line), "{line} in {text}");
    }
    assert!(!text.contains(crate::support::TOKEN));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // It is found also when the task is forgotten.
    session.forget(id(5, 2)).await;
    let wanted = SendOutput { request: 1, task: Some(id(5, 2)), ..SendOutput::default() };
    session.send_output(wanted).await;
    assert_eq!(session.output(1, |_| false).await, (text.into_bytes(), true));
    worker.shut_down().await;
}

#[tokio::test]
async fn launch_twice_or_older_starts_once() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let traces = dir.path().join("traces");
    let script = |name: &str| format!("echo {name} >> {}", traces.display());
    session.launch(shell(id(1, 3), &script("third"))).await;
    session.launch(shell(id(1, 3), &script("again"))).await;
    session.ended(id(1, 3)).await;
    session.launch(shell(id(1, 2), &script("second"))).await;
    session.forget(id(1, 3)).await;
    session.launch(shell(id(1, 3), &script("once more"))).await;
    session.launch(shell(id(1, 4), &script("fourth"))).await;
    session.ended(id(1, 4)).await;
    assert_eq!(read(&traces), "third\nfourth\n");
    worker.shut_down().await;
}

#[tokio::test]
async fn launch_newer_generation_waits_for_older() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let pid = dir.path().join("pid");
    let older = format!("trap '' TERM; echo $$ > {}.new; mv {0}.new {0}; sleep 60", pid.display());
    session.launch(LaunchTask { grace_s: 0.2, ..shell(id(1, 1), &older) }).await;
    until("the older one", || !read(&pid).is_empty()).await;
    session.launch(shell(id(1, 2), &format!("! kill -0 $(cat {})", pid.display()))).await;
    assert_eq!(session.ended(id(1, 1)).await.0, 137);
    assert_eq!(session.ended(id(1, 2)).await.0, 0);
    worker.shut_down().await;
}

#[tokio::test]
async fn stop_ignored_kills_with_children() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let child = dir.path().join("child");
    let script =
        format!("trap '' TERM; sleep 60 & echo $! > {0}.new; mv {0}.new {0}; wait; wait", child.display());
    session.launch(LaunchTask { grace_s: 0.3, ..shell(id(1, 1), &script) }).await;
    until("the child", || runs(&read(&child))).await;
    session.stop(id(1, 1)).await;
    assert_eq!(session.ended(id(1, 1)).await.0, 137);
    assert!(!runs(&read(&child)));
    worker.shut_down().await;
}

#[tokio::test]
async fn stop_leader_gone_leaves_grace_to_the_rest() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let saved = dir.path().join("saved");
    let inner = format!(
        "trap 'sleep 0.3; echo saved > {}; exit 0' TERM; echo up; while :; do sleep 0.02; done",
        saved.display()
    );
    let script = format!("sh -c \"{inner}\" & wait");
    session.launch(shell(id(1, 1), &script)).await;
    let out = dir.path().join("tasks/1-1.out");
    until("the trainer", || read(&out).contains("up")).await;
    session.stop(id(1, 1)).await;
    assert_eq!(session.ended(id(1, 1)).await.0, 143);
    assert_eq!(read(&saved), "saved\n");
    worker.shut_down().await;
}

#[tokio::test]
async fn output_followed_is_whole() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let go = dir.path().join("go");
    let script = format!("echo begin; {}; head -c 300000 /dev/zero; echo err >&2", wait_for(&go));
    let wanted = SendOutput { request: 9, task: Some(id(1, 1)), offset: 2, follow: true, stop: false };
    session.launch(shell(id(1, 1), &script)).await;
    session.send_output(wanted).await;
    let (data, end) = session.output(9, |data| data.ends_with(b"gin\n")).await;
    assert_eq!((data.as_slice(), end), (b"gin\n".as_slice(), false));
    std::fs::write(&go, "").unwrap();
    let (data, end) = session.output(9, |_| false).await;
    assert_eq!((data.len(), data.ends_with(b"err\n"), end), (300_004, true, true));
    let file = dir.path().join("tasks/1-1.out");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    worker.shut_down().await;
}

#[tokio::test]
async fn progress_is_reported_before_the_end() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let trainer = "import json,os,socket\n\
        s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)\n\
        for i in range(2001):\n \
        t={'job':int(os.environ['WHARF_JOB_ID']),'generation':int(os.environ['WHARF_GENERATION']),'iterations':i,'checkpointed':i//100*100,'token':os.environ['WHARF_PROGRESS_TOKEN']}\n \
        s.sendto(json.dumps(t).encode(),os.environ['WHARF_PROGRESS_SOCKET'])\n";
    let launch =
        LaunchTask { command: vec!["python3".into(), "-c".into(), trainer.into()], ..shell(id(1, 1), "") };
    session.launch(launch).await;
    let mut told = Vec::new();
    loop {
        match session.next().await {
            from_worker::Message::Progress(progress) => {
                told.push((progress.iterations, progress.checkpointed))
            }
            from_worker::Message::Ended(ended) => break assert_eq!(ended.exit_code, 0),
            _ => (),
        }
    }
    assert_eq!(told.last(), Some(&(2000.0, 2000.0)));
    assert!(told.len() < 200, "{} messages", told.len());
    worker.shut_down().await;
}

#[tokio::test]
async fn run_wrong_token_is_refused() {
    let (head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let mut config = config(head.address, dir.path());
    config.token = "wrong".into();
    let result = tokio::time::timeout(PATIENCE, run(config, std::future::pending())).await.unwrap();
    assert!(
        matches!(&result, Err(WorkerError::Refused { reason }) if reason.contains("token")),
        "{result:?}"
    );
    until("the supervisor's end", || supervisor_pid(dir.path()).is_none()).await;
}

/// 500 tasks with at most 16 at a time; the rate is printed, not asserted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn launch_many_all_end() {
    const TASKS: u32 = 500;
    const AT_ONCE: u32 = 16;
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let begin = std::time::Instant::now();
    let launch = |job| LaunchTask {
        command: vec!["/bin/true".into()],
        output: "/dev/null".into(),
        ..shell(id(job, 1), "")
    };
    for job in 0..AT_ONCE {
        session.launch(launch(job)).await;
    }
    let (mut next, mut ended) = (AT_ONCE, 0);
    while ended < TASKS {
        if let from_worker::Message::Ended(end) = session.next().await {
            assert_eq!((end.exit_code, end.error.as_str()), (0, ""));
            session.forget(end.task.unwrap()).await;
            ended += 1;
            if next < TASKS {
                session.launch(launch(next)).await;
                next += 1;
            }
        }
    }
    let rate = f64::from(TASKS) / begin.elapsed().as_secs_f64();
    use std::io::Write;
    writeln!(std::io::stderr(), "{TASKS} x /bin/true, {AT_ONCE} at once: {rate:.0} tasks/s").unwrap();
    worker.shut_down().await;
}
