//! What a task can ask for: steps, launchers, activation, limits, a user, memory, processors.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use wharf_proto::{LaunchTask, Launcher, ResourceLimit, SendOutput, Step, TaskId, from_worker};

use crate::support::{Head, Session, Victim, Worker, id, read, runs, shell, supervisor_pid, until, wait_for};

fn step(name: &str, script: &str) -> Step {
    let command = vec!["/bin/sh".into(), "-c".into(), script.into()];
    Step { name: name.into(), command, ..Step::default() }
}

/// Runs a task to its end: code, error and output.
async fn run(session: &mut Session, dir: &Path, launch: LaunchTask) -> (i32, String, String) {
    let task = launch.task.unwrap();
    session.launch(launch).await;
    let (code, error) = session.ended(task).await;
    (code, error, output(dir, task))
}

fn output(dir: &Path, task: TaskId) -> String {
    read(&dir.join(format!("tasks/{}-{}.out", task.job_id, task.generation)))
}

#[tokio::test]
async fn steps_run_in_order_until_one_fails() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let steps = vec![
        Step { env: [("WORD".into(), "one".into())].into(), ..step("fetch", "echo $WORD") },
        step("", "echo two"),
        step("train", "exit 7"),
        step("never", "echo never"),
    ];
    let launch = LaunchTask { steps, ..shell(id(1, 1), "echo not this") };
    let (code, error, output) = run(&mut session, dir.path(), launch).await;
    assert_eq!((code, error.as_str()), (7, ""));
    let expected =
        "--- step 1/4: fetch ---\none\n--- step 2/4: /bin/sh -c echo two ---\ntwo\n--- step 3/4: train ---\n";
    assert_eq!(output, expected);
    // One that cannot be started ends the task like one that fails.
    let steps = vec![step("a", "true"), Step { command: vec!["/no/such".into()], ..Step::default() }];
    let (code, error, _) = run(&mut session, dir.path(), LaunchTask { steps, ..shell(id(2, 1), "") }).await;
    assert_eq!((code, error.contains("/no/such")), (127, true), "{error}");
    worker.shut_down().await;
}

#[tokio::test]
async fn steps_stopped_run_no_more() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let polite = "trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done";
    let steps = vec![step("a", polite), step("b", "echo more")];
    session.launch(LaunchTask { steps, ..shell(id(1, 1), "") }).await;
    until("the first step", || output(dir.path(), id(1, 1)).contains("up")).await;
    session.stop(id(1, 1)).await;
    assert_eq!(session.ended(id(1, 1)).await.0, 0);
    assert!(!output(dir.path(), id(1, 1)).contains("more"));
    worker.shut_down().await;
}

#[tokio::test]
async fn steps_continue_without_worker_and_end_without_supervisor() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Victim::start(head.address, dir.path());
    let session = head.session().await;
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let first = format!("echo up; {}", wait_for(&one));
    let second = format!("echo second; {}; echo over", wait_for(&two));
    let steps = vec![step("a", &first), step("b", &second), step("c", "echo third")];
    session.launch(LaunchTask { steps, ..shell(id(1, 1), "") }).await;
    until("the first step", || output(dir.path(), id(1, 1)).contains("up")).await;
    worker.kill();
    std::fs::write(&one, "").unwrap();
    until("the second step", || output(dir.path(), id(1, 1)).contains("second")).await;
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    // What the steps to come were, the next supervisor does not know: the task ends with the step that runs.
    let supervisor = supervisor_pid(dir.path()).expect("a supervisor").to_string();
    assert!(std::process::Command::new("kill").args(["-9", &supervisor]).status().unwrap().success());
    session.started(id(1, 1)).await;
    std::fs::write(&two, "").unwrap();
    let (code, error) = session.ended(id(1, 1)).await;
    assert_eq!((code, error.contains("supervisor died")), (-1, true), "{error}");
    let output = output(dir.path(), id(1, 1));
    assert!(output.ends_with("over\n"), "{output}");
    worker.shut_down().await;
}

fn per_device(task: TaskId, script: &str) -> LaunchTask {
    LaunchTask {
        launcher: Launcher::PerDevice.into(),
        devices: vec![1, 3],
        rank: 1,
        ranks: 2,
        devices_by_rank: vec![4, 2],
        addresses: vec!["10.0.0.1".into(), "10.0.0.9".into()],
        ..shell(task, script)
    }
}

#[tokio::test]
async fn per_device_has_a_process_for_each() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let script = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK $CUDA_VISIBLE_DEVICES $WHARF_DEVICES";
    let (code, _, output) = run(&mut session, dir.path(), per_device(id(1, 1), script)).await;
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (0, vec!["4/6 0/2 1 1 1,3", "5/6 1/2 1 3 1,3"]));
    worker.shut_down().await;
}

#[tokio::test]
async fn per_device_first_failure_stops_the_others() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let up = dir.path().join("up");
    let script = format!(
        "if [ $LOCAL_RANK = 1 ]; then {}; exit 5; fi
        trap 'echo saved; exit 0' TERM; touch {}; while :; do sleep 0.02; done",
        wait_for(&up),
        up.display()
    );
    let (code, error, output) = run(&mut session, dir.path(), per_device(id(1, 1), &script)).await;
    assert_eq!((code, error.as_str(), output.ends_with("saved\n")), (5, "", true), "{output}");
    // Who does not end in time is killed, and does not change the code.
    let script = "[ $LOCAL_RANK = 1 ] && exit 6; trap '' TERM; sleep 60; sleep 60";
    let launch = LaunchTask { grace_s: 0.2, ..per_device(id(2, 1), script) };
    assert_eq!(run(&mut session, dir.path(), launch).await.0, 6);
    worker.shut_down().await;
}

/// A program with this name that prints its arguments.
fn fake_program(dir: &Path, name: &str) -> String {
    let bin = dir.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join(name), "#!/bin/sh\nprintf '%s ' \"$@\"; echo; cat $WHARF_HOSTFILE\n").unwrap();
    std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

#[tokio::test]
async fn launchers_get_the_gang_and_the_hostfile() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let gang = |job, launcher: Launcher, path: String| LaunchTask {
        launcher: launcher.into(),
        rank: 0,
        command: vec!["python".into(), "train.py".into()],
        env: [("PATH".into(), path)].into(),
        master_port: 31_777,
        devices_by_rank: vec![2, 4],
        ..per_device(id(job, 1), "")
    };
    let path = fake_program(dir.path(), "torchrun");
    let (code, error, output) = run(&mut session, dir.path(), gang(1, Launcher::Torchrun, path)).await;
    assert_eq!((code, error.as_str()), (0, ""));
    let expected = "--nproc_per_node=2 --nnodes=2 --node_rank=0 --master_addr=10.0.0.1 --master_port=31777 train.py \n\
                    10.0.0.1 slots=2\n10.0.0.9 slots=4\n";
    assert_eq!(output, expected);
    let path = fake_program(dir.path(), "mpirun");
    let (code, _, output) = run(&mut session, dir.path(), gang(2, Launcher::Mpirun, path)).await;
    assert!(
        code == 0 && output.starts_with("-np 6 --hostfile ") && output.contains("-x MASTER_PORT "),
        "{output}"
    );
    worker.shut_down().await;
}

#[tokio::test]
async fn activation_comes_before_the_command() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let script = dir.path().join("activate");
    std::fs::write(&script, "export FLAVOUR=vanilla; echo \"$# arguments\"\n").unwrap();
    let activate = vec![format!("source {}", script.display()), "FLAVOUR=\"$FLAVOUR ice\"".into()];
    let command = ["sh", "-c", "echo \"$FLAVOUR: $1\"", "sh", "$HOME `id`"].map(String::from).to_vec();
    let launch = LaunchTask { activate, command, ..shell(id(1, 1), "") };
    let (code, _, output) = run(&mut session, dir.path(), launch).await;
    assert_eq!((code, output.as_str()), (0, "0 arguments\nvanilla ice: $HOME `id`\n"));
    let activate = vec!["source /no/such/activate".to_owned()];
    let (code, _, output) =
        run(&mut session, dir.path(), LaunchTask { activate, ..shell(id(2, 1), "echo never") }).await;
    assert!(code == 1 && output.contains("cannot be activated") && !output.contains("never"), "{output}");
    worker.shut_down().await;
}

#[tokio::test]
async fn limits_are_set_or_refused() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let limit = |name: &str, value| ResourceLimit { name: name.into(), value };
    let limits = vec![limit("nofile", Some(123)), limit("core", Some(0)), limit("fsize", Some(1 << 20))];
    let launch = LaunchTask { limits, ..shell(id(1, 1), "ulimit -n; ulimit -c; ulimit -H -f") };
    let (code, error, output) = run(&mut session, dir.path(), launch).await;
    assert_eq!((code, error.as_str(), output.as_str()), (0, "", "123\n0\n2048\n"));
    // No system has so many files, and no root may go beyond the system's own limit.
    let limits = vec![limit("nofile", Some(u64::MAX - 1))];
    let (code, error, output) =
        run(&mut session, dir.path(), LaunchTask { limits, ..shell(id(2, 1), "echo never") }).await;
    let told = "the limit nofile cannot be 18446744073709551614: this node allows at most ";
    assert!(code == 126 && error.starts_with(told), "{code} {error}");
    assert!(output.contains(told) && !output.contains("never"), "{output}");
    let limits = vec![limit("files", None)];
    let (_, error, _) = run(&mut session, dir.path(), LaunchTask { limits, ..shell(id(3, 1), "") }).await;
    assert!(error.contains("unknown limit 'files'"), "{error}");
    worker.shut_down().await;
}

#[tokio::test]
async fn error_output_is_a_file_of_its_own() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let file = dir.path().join("logs/errors.txt");
    let error_output = file.display().to_string();
    let checkpoints = dir.path().join("deep/checkpoints");
    let launch = LaunchTask {
        error_output,
        checkpoint_dir: checkpoints.display().to_string(),
        ..shell(id(1, 1), "echo out; echo err >&2; [ -d $WHARF_CHECKPOINT_DIR ]")
    };
    let (code, _, output) = run(&mut session, dir.path(), launch).await;
    assert_eq!((code, output.as_str(), read(&file).as_str()), (0, "out\n", "err\n"));
    assert!(checkpoints.is_dir());
    worker.shut_down().await;
}

#[tokio::test]
async fn master_port_taken_ends_the_task_with_reason() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let launch = |job| LaunchTask { master_port: port.into(), ..shell(id(job, 1), "echo $MASTER_PORT") };
    let (code, error, _) = run(&mut session, dir.path(), launch(1)).await;
    assert_eq!(
        (code, error.contains(&format!("port {port}, the task's MASTER_PORT"))),
        (-1, true),
        "{error}"
    );
    drop(taken);
    // The task itself may listen there at once, also where it was prepared by a stage.
    let listen =
        "import os,socket; s=socket.socket(); s.bind(('',int(os.environ['MASTER_PORT']))); s.listen()";
    let command: Vec<String> = ["python3", "-c", listen].map(String::from).into();
    let limits = vec![ResourceLimit { name: "core".into(), value: Some(0) }];
    let plain = LaunchTask { command: command.clone(), ..launch(2) };
    let (code, error, output) = run(&mut session, dir.path(), plain).await;
    assert_eq!((code, error.as_str()), (0, ""), "{output}");
    let staged = LaunchTask { command, limits, ..launch(3) };
    assert_eq!(run(&mut session, dir.path(), staged).await.0, 0);
    worker.shut_down().await;
}

#[tokio::test]
async fn processes_that_left_the_group_end_with_the_task() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let pid = dir.path().join("pid");
    let daemon = format!(
        "setsid sh -c 'setsid sh -c \"echo \\$\\$ > {0}.new; mv {0}.new {0}; exec sleep 60\" & exec sleep 60' & {1}",
        pid.display(),
        wait_for(&pid)
    );
    for (job, memory_mib) in [(1, 0), (2, 512)] {
        let launch = LaunchTask { memory_mib, ..shell(id(job, 1), &daemon) };
        assert_eq!(run(&mut session, dir.path(), launch).await.0, 0);
        assert!(!read(&pid).is_empty() && !runs(&read(&pid)), "{memory_mib}");
        std::fs::remove_file(&pid).unwrap();
    }
    worker.shut_down().await;
}

/// The folders that the supervisors of a state directory have in any hierarchy of cgroups.
fn cgroups_of(pid: &str) -> BTreeMap<String, String> {
    let text = read(Path::new(&format!("/proc/{}/cgroup", pid.trim())));
    let fields = text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    fields.map(|(controller, path)| (controller.to_owned(), path.to_owned())).collect()
}

fn not_tested(why: &str) {
    use std::io::Write;
    let mut stderr = std::io::stderr();
    writeln!(stderr, "NOT TESTED: {why}").unwrap();
}

fn can_make_cgroups() -> bool {
    let mounts = read(Path::new("/proc/self/mounts"));
    let can = is_root() && mounts.contains("cgroup");
    if !can {
        not_tested("cgroups need root and a hierarchy");
    }
    can
}

fn is_root() -> bool {
    Path::new("/proc/self").metadata().unwrap().uid() == 0
}

#[tokio::test]
async fn cgroup_limits_memory_and_processors_and_is_gone_after() {
    if !can_make_cgroups() {
        return;
    }
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let (pid, go) = (dir.path().join("pid"), dir.path().join("go"));
    let script = format!("echo $$ > {0}.new; mv {0}.new {0}; {1}", pid.display(), wait_for(&go));
    session.launch(LaunchTask { memory_mib: 64, cpus: 2, ..shell(id(1, 1), &script) }).await;
    until("the task", || !read(&pid).is_empty()).await;
    let found = cgroups_of(&read(&pid));
    let own: Vec<&String> = found.values().filter(|path| path.ends_with("/1-1")).collect();
    assert!(!own.is_empty(), "{found:?}");
    std::fs::write(&go, "").unwrap();
    assert_eq!(session.ended(id(1, 1)).await, (0, String::new()));
    let hog = "x = bytearray(300 << 20); print(len(x))";
    let command: Vec<String> = ["python3", "-c", hog].map(String::from).into();
    let launch = LaunchTask { command: command.clone(), memory_mib: 64, ..shell(id(2, 1), "") };
    let (code, error, output) = run(&mut session, dir.path(), launch).await;
    assert_eq!(code, 137, "{output}");
    assert!(error.contains("out of memory") && output.contains("out of memory"), "{error} {output}");
    // A kill of its own is no lack of memory, whatever happened to another task.
    let killed = LaunchTask { memory_mib: 64, ..shell(id(4, 1), "kill -KILL $$") };
    let (code, error, output) = run(&mut session, dir.path(), killed).await;
    assert!(
        code == 137 && !error.contains("memory") && !output.contains("memory"),
        "{code} {error} {output}"
    );
    let launch = LaunchTask { command, memory_mib: 1024, ..shell(id(3, 1), "") };
    assert_eq!(run(&mut session, dir.path(), launch).await.0, 0);
    worker.shut_down().await;
    until("the supervisor's end", || supervisor_pid(dir.path()).is_none()).await;
    let left = |path: &&String| {
        let parent = Path::new(path).parent().unwrap().strip_prefix("/").unwrap();
        let mounts = read(Path::new("/proc/self/mounts"));
        let mut places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        places.any(|place| place.contains("cgroup") && Path::new(place).join(parent).exists())
    };
    assert!(!own.iter().any(left), "{own:?}");
}

fn uid_of(user: &str) -> u32 {
    let output = std::process::Command::new("id").args(["-u", user]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn stopped_process_is_reported_and_another_users_forged_one_is_not() {
    if !is_root() {
        not_tested("only root can run tasks as others");
        return;
    }
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let open = tempfile::tempdir().unwrap();
    std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (pid, go) = (open.path().join("pid"), open.path().join("go"));
    let script = format!(
        "echo $WHARF_NODE > {0}.new; sleep 600 & echo $! >> {0}.new; mv {0}.new {0}; {1}; kill -KILL $!",
        pid.display(),
        wait_for(&go)
    );
    session.launch(LaunchTask { user: "nobody".into(), ..shell(id(1, 1), &script) }).await;
    until("the task", || !read(&pid).is_empty()).await;
    let text = read(&pid);
    let (node, own) = text.trim().split_once('\n').unwrap();
    // Another user stops a process of its own that poses as one of the task's.
    let mut forged = std::process::Command::new("setsid");
    forged.args(["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "sleep", "600"]);
    forged.envs([("WHARF_JOB_ID", "1"), ("WHARF_GENERATION", "1"), ("WHARF_NODE", node), ("RANK", "0")]);
    let mut forged = forged.spawn().unwrap();
    let is_in =
        |pid: &str, file: &str, text: &str| read(Path::new(&format!("/proc/{pid}/{file}"))).contains(text);
    let other = forged.id().to_string();
    until("the forged process", || is_in(&other, "comm", "sleep")).await;
    until("the task's process", || is_in(own, "comm", "sleep")).await;
    for pid in [&other, own] {
        let stopped = std::process::Command::new("kill").args(["-STOP", pid]).status().unwrap();
        assert!(stopped.success());
        until("the stop", || is_in(pid, "stat", ") T ")).await;
    }
    session.inspect(id(1, 1)).await;
    let reported = loop {
        if let from_worker::Message::Inspected(inspected) = session.next().await {
            break inspected;
        }
    };
    let pids: Vec<String> = reported.stopped.iter().map(|process| process.pid.to_string()).collect();
    assert_eq!((reported.task, pids), (Some(id(1, 1)), vec![own.to_owned()]));
    forged.kill().unwrap();
    forged.wait().unwrap();
    std::fs::write(&go, "").unwrap();
    worker.shut_down().await;
}

#[tokio::test]
async fn user_owns_process_and_files() {
    if !is_root() {
        not_tested("only root can run tasks as others");
        return;
    }
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let worker = Worker::start(head.address, dir.path());
    let mut session = head.session().await;
    let open = tempfile::tempdir().unwrap();
    std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let script =
        "id -un; id -gn; echo $USER $LOGNAME; touch $WHARF_CHECKPOINT_DIR/saved; cat $WHARF_HOSTFILE";
    let launch = |job, output: &str| LaunchTask {
        user: "nobody".into(),
        workdir: open.path().display().to_string(),
        output: output.into(),
        checkpoint_dir: "checkpoints".into(),
        ..shell(id(job, 1), script)
    };
    let nobody = uid_of("nobody");
    for (job, output, file) in
        [(1, "", dir.path().join("tasks/1-1.out")), (2, "logs/2.txt", open.path().join("logs/2.txt"))]
    {
        let (code, error, text) = run(&mut session, dir.path(), launch(job, output)).await;
        assert_eq!((code, error.as_str()), (0, ""), "{text}");
        assert!(text.starts_with("nobody\nnogroup\nnobody nobody\n10.0.0.9 slots=1\n"), "{text}");
        let metadata = file.metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.permissions().mode() & 0o777), (nobody, 0o600));
    }
    assert_eq!(open.path().join("checkpoints/saved").metadata().unwrap().uid(), nobody);
    // A user's files are reached with that user's rights only.
    let (code, error, _) = run(&mut session, dir.path(), launch(3, "/etc/wharf-test/3.txt")).await;
    assert!(code == 126 && error.contains("/etc/wharf-test/3.txt"), "{code} {error}");
    let forbidden = dir.path().join("secret");
    std::fs::write(&forbidden, "secret").unwrap();
    std::fs::set_permissions(&forbidden, std::fs::Permissions::from_mode(0o600)).unwrap();
    let log = open.path().join("logs/2.txt");
    std::fs::remove_file(&log).unwrap();
    std::os::unix::fs::symlink(&forbidden, &log).unwrap();
    session.send_output(SendOutput { request: 1, task: Some(id(2, 1)), ..SendOutput::default() }).await;
    assert_eq!(session.output(1, |_| false).await, (Vec::new(), true));
    let unknown = LaunchTask { user: "no-such-user".into(), ..shell(id(4, 1), "true") };
    let (code, error, _) = run(&mut session, dir.path(), unknown).await;
    assert_eq!((code, error.contains("no user 'no-such-user'")), (126, true), "{error}");
    worker.shut_down().await;
}
