//! Tasks in real containers: charliecloud's, and podman's through its program and its socket.

use std::path::Path;
use std::time::Instant;

use wharf_proto::container::{Network, Runtime};
use wharf_proto::{Container, LaunchTask, Mount, SendOutput, TaskId, from_worker};
use wharf_worker::ContainerSettings;

use crate::support::{Head, Session, Victim, Worker, config, id, read, runs, supervisor_pid, until};
use wharf_testing::engines::{self, Podman};
use wharf_testing::needs;

pub(crate) fn mount(src: &Path, dst: &str) -> Mount {
    Mount { src: src.display().to_string(), dst: dst.into(), read_only: false }
}

/// A shell script within a container.
pub(crate) fn within(task: TaskId, container: Container, script: &str) -> LaunchTask {
    LaunchTask {
        task: Some(task),
        command: ["/bin/sh", "-c", script].map(String::from).to_vec(),
        env: [("GREETING".to_owned(), "it's $HOME, \"quoted\"".to_owned()), ("LINES".into(), "a\nb".into())]
            .into(),
        ranks: 1,
        devices: vec![0],
        grace_s: 20.0,
        container: Some(container),
        ..LaunchTask::default()
    }
}

pub(crate) async fn finished(session: &mut Session, launch: LaunchTask) -> (i32, String, String) {
    let task = launch.task.unwrap();
    session.launch(launch).await;
    let (code, error) = session.ended(task).await;
    let wanted = SendOutput { request: u64::from(task.job_id), task: Some(task), ..SendOutput::default() };
    session.send_output(wanted).await;
    let (output, _) = session.output(u64::from(task.job_id), |_| false).await;
    session.forget(task).await;
    (code, error, String::from_utf8_lossy(&output).into_owned())
}

pub(crate) fn charlie(image: &Path) -> Container {
    Container {
        runtime: Runtime::Charliecloud.into(),
        image: image.display().to_string(),
        ..Container::default()
    }
}

/// What every runtime has to do, whatever it is.
pub(crate) async fn behaves(session: &mut Session, dir: &Path, container: &Container, first: u32) {
    let data = dir.join(format!("data-{first}"));
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("in"), "from the node\n").unwrap();
    let container = Container {
        mounts: vec![mount(&data, "/data")],
        env: [("WITHIN".to_owned(), "yes".to_owned())].into(),
        workdir: "/data".into(),
        ..container.clone()
    };
    let script = "cat /etc/image; pwd; cat in; echo \"$GREETING\"; echo \"$LINES\"; echo $WITHIN; echo job $WHARF_JOB_ID; \
                  [ -S $WHARF_PROGRESS_SOCKET ] && echo socket; cut -d ' ' -f 2 $WHARF_HOSTFILE; env | grep -c CARGO; echo out > out; exit 9";
    let (code, error, output) = finished(session, within(id(first, 1), container.clone(), script)).await;
    let expected = format!(
        "inside\n/data\nfrom the node\nit's $HOME, \"quoted\"\na\nb\nyes\njob {first}\nsocket\nslots=1\n0\n"
    );
    let (unpacks, output) = match output.split_once('\n') {
        Some((first, rest)) if first.starts_with("wharf: container: unpacks") => (1, rest),
        _ => (0, output.as_str()),
    };
    assert_eq!((code, error.as_str(), output), (9, "", expected.as_str()));
    let is_packed = [".sqfs", ".tar.gz"].iter().any(|ending| container.image.ends_with(ending));
    assert!(unpacks == 0 || is_packed, "{}", container.image);
    assert_eq!(read(&data.join("out")), "out\n", "what is written within is seen on the node");

    let cancelled = id(first + 1, 1);
    let script = "trap 'echo saved; exit 3' TERM; touch /data/up; while :; do sleep 0.05; done";
    session.launch(within(cancelled, container.clone(), script)).await;
    until("the container", || data.join("up").exists()).await;
    session.stop(cancelled).await;
    assert_eq!(
        session.ended(cancelled).await,
        (3, String::new()),
        "it was requested to stop and ended by itself"
    );
    let missing = Container { mounts: vec![mount(&dir.join("no-such"), "/data")], ..container };
    let (code, error, _) = finished(session, within(id(first + 2, 1), missing, "true")).await;
    assert!(code == 126 && error.contains("no-such cannot be mounted at /data"), "{code} {error}");
}

/// Codes that engines end with, too, are the program's where it ran; `refusal` is what is said where it did not.
pub(crate) async fn tells_codes_apart(
    session: &mut Session,
    container: &Container,
    first: u32,
    refusal: &str,
) {
    for (job, code) in (first..).zip([125, 126, 127]) {
        let launch = within(id(job, 1), container.clone(), &format!("echo ran; exit {code}"));
        let (ended, error, output) = finished(session, launch).await;
        assert_eq!((ended, error.as_str(), output.as_str()), (code, "", "ran\n"));
    }
    let no_command = Container { entrypoint: vec!["/no/such".into()], ..container.clone() };
    let no_device = Container { devices: vec!["/dev/no-such".into()], ..container.clone() };
    for (job, container) in (first + 3..).zip([no_command, no_device]) {
        let (code, error, _) = finished(session, within(id(job, 1), container, "true")).await;
        assert!((125..=127).contains(&code) && error.contains(refusal), "{code} {error}");
    }
}

#[tokio::test]
async fn charliecloud_runs_tasks() {
    needs!(CHARLIECLOUD, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let image = engines::image(dir.path());
    let worker = Worker::start(head.address, &dir.path().join("state"));
    let mut session = head.session().await;
    behaves(&mut session, dir.path(), &charlie(&image), 1).await;
    let script = "echo $IMGVAR $WHARF_CONTAINER; kill -9 $$";
    let (code, _, output) = finished(&mut session, within(id(10, 1), charlie(&image), script)).await;
    assert_eq!((code, output.as_str()), (137, "from_image charliecloud\n"));
    // What it cannot do is said, or is an error.
    let privileged = Container { privileged: true, ..charlie(&image) };
    let (code, _, output) = finished(&mut session, within(id(11, 1), privileged.clone(), "true")).await;
    assert_eq!(
        (code, output.as_str()),
        (0, "wharf: container: charliecloud has no `privileged`: it is ignored\n")
    );
    let strict = Container { strict: true, ..privileged };
    let (code, error, _) = finished(&mut session, within(id(12, 1), strict, "true")).await;
    assert!(code == 126 && error.contains("`strict` makes that an error"), "{code} {error}");
    worker.shut_down().await;
}

/// An archive of the image's folder.
pub(crate) fn archive(dir: &Path, image: &Path) -> std::path::PathBuf {
    let path = dir.join("image.tar.gz");
    let packed =
        std::process::Command::new("tar").arg("-C").arg(image).arg("-czf").arg(&path).arg(".").status();
    assert!(packed.unwrap().success());
    path
}

#[tokio::test]
async fn images_are_unpacked_once_and_pruned() {
    needs!(CHARLIECLOUD, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let image = engines::image(dir.path());
    let archive = archive(dir.path(), &image);
    let state = dir.path().join("state");
    let containers = ContainerSettings { image_cache_bytes: 3 << 20, ..ContainerSettings::default() };
    let worker =
        Worker::start_with(wharf_worker::WorkerConfig { containers, ..config(head.address, &state) });
    let mut session = head.session().await;
    let tasks: Vec<TaskId> = (1..=4).map(|job| id(job, 1)).collect();
    for task in &tasks {
        session.launch(within(*task, charlie(&archive), "cat /etc/image")).await;
    }
    let mut ended = 0;
    while ended < tasks.len() {
        if let from_worker::Message::Ended(end) = session.next().await {
            assert_eq!(end.exit_code, 0, "{}", end.error);
            ended += 1;
        }
    }
    let said: String =
        tasks.iter().map(|task| read(&state.join(format!("tasks/{}-1.out", task.job_id)))).collect();
    assert_eq!(said.matches("inside").count(), 4, "{said}");
    assert_eq!(said.matches("unpacks the image").count(), 1, "{said}");
    let uid = nix_uid();
    let cached = || {
        let entries = std::fs::read_dir(state.join(format!("images/{uid}"))).unwrap().flatten();
        entries.filter(|entry| entry.path().is_dir()).count()
    };
    assert_eq!(cached(), 1);
    // Another image replaces an unused one.
    let second = dir.path().join("second.tar.gz");
    std::fs::copy(&archive, &second).unwrap();
    let (code, ..) = finished(&mut session, within(id(9, 1), charlie(&second), "true")).await;
    assert_eq!((code, cached()), (0, 1), "both together are too large");
    worker.shut_down().await;
}

fn nix_uid() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").unwrap().uid()
}

#[tokio::test]
async fn charliecloud_runs_squashfs_files_and_names_of_its_store() {
    needs!(CHARLIECLOUD, BUSYBOX, SQUASHFS);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let image = engines::image(dir.path());
    let file = dir.path().join("image.sqfs");
    let run = |command: &mut std::process::Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(std::process::Command::new("mksquashfs").arg(&image).arg(&file).args(["-quiet", "-no-progress"]));
    let store = dir.path().join("store");
    // It is written in the system's Python, whatever comes first elsewhere.
    let mut import = std::process::Command::new("ch-image");
    import.env("PATH", "/usr/bin:/bin").env("CH_IMAGE_STORAGE", &store).env("USER", "root");
    run(import.arg("import").arg(archive(dir.path(), &image)).arg("lab/busy:1"));

    let (state, data) = (dir.path().join("state"), dir.path().join("data"));
    std::fs::create_dir(&data).unwrap();
    let store = store.display().to_string();
    let worker = Victim::start_with(head.address, &state, &[("CH_IMAGE_STORAGE", &store)]);
    let mut session = head.session().await;
    behaves(&mut session, dir.path(), &charlie(&file), 1).await;
    let named = charlie(Path::new("lab/busy:1"));
    behaves(&mut session, dir.path(), &named, 11).await;
    // A place to mount at that the image does not have; and what a name cannot have is said.
    let container = Container {
        mounts: vec![mount(&data, "/new/place")],
        workdir: "/new/place".into(),
        writable_root: true,
        ..named
    };
    let (code, _, output) =
        finished(&mut session, within(id(21, 1), container, "pwd; touch /x 2> /dev/null || echo fixed"))
            .await;
    let said = "wharf: container: charliecloud has no `writable_root`: it is ignored\n/new/place\nfixed\n";
    assert_eq!((code, output.as_str()), (0, said));
    worker.kill();
    drop(session);
    end_well(&mut head, &state).await;
}

#[tokio::test]
async fn charliecloud_tasks_outlast_worker_and_head() {
    needs!(CHARLIECLOUD, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let image = engines::image(dir.path());
    outlasts(&mut head, dir.path(), &charlie(&image), &[]).await;
}

/// Kills the worker while a container runs; the next one finds it, and its exit code is not lost.
pub(crate) async fn outlasts(head: &mut Head, dir: &Path, container: &Container, env: &[(&str, &str)]) {
    let (state, data) = (dir.join("state"), dir.join("shared"));
    std::fs::create_dir_all(&data).unwrap();
    let container =
        Container { mounts: vec![mount(&data, "/data")], workdir: "/data".into(), ..container.clone() };
    let worker = Victim::start_with(head.address, &state, env);
    let session = head.session().await;
    let script = "echo $$ > pid; while ! [ -e go ]; do sleep 0.05; done; echo went; exit 5";
    session.launch(within(id(1, 1), container, script)).await;
    until("the container", || !read(&data.join("pid")).is_empty()).await;
    worker.kill();
    drop(session);
    let worker = Victim::start_with(head.address, &state, env);
    let mut session = head.session().await;
    assert_eq!(session.register.tasks.len(), 1);
    assert!(!session.register.tasks[0].ended, "it continues");
    std::fs::write(data.join("go"), "").unwrap();
    assert_eq!(session.ended(id(1, 1)).await, (5, String::new()));
    assert_eq!(read(&state.join("tasks/1-1.out")), "went\n");
    session.forget(id(1, 1)).await;
    worker.kill();
    end_well(head, &state).await;
}

/// Ends the supervisor, too, by a worker that has nothing to keep.
pub(crate) async fn end_well(head: &mut Head, state: &Path) {
    let worker = Worker::start(head.address, state);
    head.session().await;
    worker.shut_down().await;
}

fn podman(image: &str) -> Container {
    Container {
        runtime: Runtime::Podman.into(),
        image: image.into(),
        network: Network::Host.into(),
        ..Container::default()
    }
}

fn settings(engine: &Podman) -> ContainerSettings {
    ContainerSettings { command: engine.words(), ..ContainerSettings::default() }
}

#[tokio::test]
async fn podman_runs_tasks() {
    needs!(PODMAN, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let (engine, image) = (Podman::new(dir.path()), engines::image(dir.path()));
    let worker = Worker::start_with(wharf_worker::WorkerConfig {
        containers: settings(&engine),
        ..config(head.address, &dir.path().join("state"))
    });
    let mut session = head.session().await;
    // A folder becomes an image of the engine once.
    let container = podman(&image.display().to_string());
    behaves(&mut session, dir.path(), &container, 1).await;
    assert_eq!(engine.run(&["images", "-q", "--filter", "reference=localhost/wharf/*"]).lines().count(), 1);

    // One that hears no signal is removed when its time is up, and nothing stays.
    let deaf = id(20, 1);
    let up = dir.path().join("data-1/deaf");
    let container = Container { mounts: vec![mount(&dir.path().join("data-1"), "/data")], ..container };
    let script = "trap '' TERM; touch /data/deaf; while :; do sleep 0.05; done";
    let launch = LaunchTask { grace_s: 0.3, ..within(deaf, container.clone(), script) };
    session.launch(launch).await;
    until("the container", || up.exists()).await;
    let labels = engine.run(&["ps", "--format", "{{.Labels}}"]);
    for label in ["wharf.job:20", "wharf.generation:1", "wharf.spec:"] {
        assert!(labels.contains(label), "{label} is not among {labels}");
    }
    session.stop(deaf).await;
    assert_eq!(session.ended(deaf).await.0, 137);
    assert_eq!(engine.run(&["ps", "-aq"]), "", "no container is left behind");

    // The engine's own failure is no failure of the program.
    tells_codes_apart(&mut session, &container, 30, "podman could not run the container").await;
    let wrong = Container { image: "localhost/No-Such".into(), ..container.clone() };
    let (code, error, _) = finished(&mut session, within(id(21, 1), wrong, "true")).await;
    assert!(code == 126 && error.contains("failed"), "{code} {error}");
    // One that stays and cannot be made: the reason is the engine's.
    let devices = vec!["/dev/no-such".into()];
    let stays = Container { name: "stays".into(), per_node: true, devices, ..container };
    let (_, error, _) = finished(&mut session, within(id(22, 1), stays, "true")).await;
    assert!(error.contains("cannot create the container") && error.contains("/dev/no-such"), "{error}");
    worker.shut_down().await;
}

#[tokio::test]
async fn a_container_of_a_node_is_replaced_when_its_image_was_built_again_and_it_is_idle() {
    needs!(PODMAN, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let (engine, image) = (Podman::new(dir.path()), engines::image(dir.path()));
    let worker = Worker::start_with(wharf_worker::WorkerConfig {
        containers: settings(&engine),
        ..config(head.address, &dir.path().join("state"))
    });
    let mut session = head.session().await;
    let build = |text: &str| {
        std::fs::write(image.join("etc/image"), text).unwrap();
        let archive = dir.path().join("image.tar");
        let tar = std::process::Command::new("tar")
            .arg("-C")
            .arg(&image)
            .arg("-cf")
            .arg(&archive)
            .arg(".")
            .status();
        assert!(tar.unwrap().success());
        engine.run(&["import", &archive.display().to_string(), "localhost/app:1"]);
    };
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let container = Container {
        name: "app".into(),
        per_node: true,
        mounts: vec![mount(&data, "/data")],
        workdir: "/data".into(),
        ..podman("localhost/app:1")
    };
    let show = |job| within(id(job, 1), container.clone(), "cat /etc/image");
    build("first\n");
    assert_eq!(finished(&mut session, show(1)).await, (0, String::new(), "first\n".into()));
    // While a task runs in it, it is not replaced, and the log of the other task states this.
    let busy = id(2, 1);
    let script = "touch up; while ! [ -e go ]; do sleep 0.05; done";
    session.launch(within(busy, container.clone(), script)).await;
    until("the task", || data.join("up").exists()).await;
    build("second\n");
    let (code, _, output) = finished(&mut session, show(3)).await;
    assert!(
        code == 0 && output.contains("but tasks run in the container app") && output.ends_with("first\n"),
        "{output}"
    );
    std::fs::write(data.join("go"), "").unwrap();
    assert_eq!(session.ended(busy).await.0, 0);
    let (code, _, output) = finished(&mut session, show(4)).await;
    let expected =
        "wharf: container: the image localhost/app:1 has changed: the container app is replaced\nsecond\n";
    assert_eq!((code, output.as_str()), (0, expected));
    assert_eq!(finished(&mut session, show(5)).await.2, "second\n", "it is replaced once");
    worker.shut_down().await;
}

#[tokio::test]
async fn images_that_were_imported_are_pruned() {
    needs!(PODMAN, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let (engine, image) = (Podman::new(dir.path()), engines::image(dir.path()));
    let containers = ContainerSettings { image_cache_bytes: 3 << 20, ..settings(&engine) };
    let state = dir.path().join("state");
    let worker =
        Worker::start_with(wharf_worker::WorkerConfig { containers, ..config(head.address, &state) });
    let mut session = head.session().await;
    let second = dir.path().join("second");
    std::fs::rename(&image, &second).unwrap();
    let first = engines::image(dir.path());
    let imported =
        || engine.run(&["images", "--format", "{{.Repository}}", "--filter", "reference=localhost/wharf/*"]);
    for (job, image, left) in [(1, &first, "image"), (2, &second, "second"), (3, &first, "image")] {
        let container = podman(&image.display().to_string());
        let (code, error, _) = finished(&mut session, within(id(job, 1), container, "true")).await;
        assert_eq!((code, error.as_str()), (0, ""));
        let names = imported();
        assert!(
            names.lines().count() == 1 && names.contains(&format!("/{left}-")),
            "both are too large: {names}"
        );
    }
    worker.shut_down().await;
}

#[tokio::test]
async fn podman_tasks_outlast_worker_and_head() {
    needs!(PODMAN, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let (engine, image) = (Podman::new(dir.path()), engines::image(dir.path()));
    let line = engine.words().join(" ");
    let container = podman(&image.display().to_string());
    outlasts(&mut head, dir.path(), &container, &[("PROBE_CONTAINER_COMMAND", line.as_str())]).await;
    assert_eq!(engine.run(&["ps", "-aq"]), "", "no container is left behind");
}

#[tokio::test]
async fn leftovers_of_dead_tasks_are_removed() {
    needs!(PODMAN, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let (engine, image) = (Podman::new(dir.path()), engines::image(dir.path()));
    let line = engine.words().join(" ");
    let env = [("PROBE_CONTAINER_COMMAND", line.as_str())];
    let state = dir.path().join("state");
    let worker = Victim::start_with(head.address, &state, &env);
    let mut session = head.session().await;
    let container = podman(&image.display().to_string());
    // One that is not known by its environment either.
    let script = "exec env -i /bin/sh -c 'while :; do /bin/sleep 0.1; done'";
    session.launch(within(id(1, 1), container, script)).await;
    session.started(id(1, 1)).await;
    until("the container", || !engine.run(&["ps", "-q"]).is_empty()).await;
    let emptied = || {
        let pid = engine.run(&["ps", "--format", "{{.Pid}}"]);
        read(Path::new(&format!("/proc/{pid}/environ"))).is_empty()
    };
    until("the container without variables", emptied).await;
    // Everything of Wharf dies at once, and the engine's program that it had started: the container continues.
    let supervisor = supervisor_pid(&state).unwrap().to_string();
    let children = |pid: &str| {
        let told = read(Path::new(&format!("/proc/{pid}/task/{pid}/children")));
        told.split_whitespace().map(String::from).collect::<Vec<_>>()
    };
    let is_engines = |pid: &String| read(Path::new(&format!("/proc/{pid}/cmdline"))).contains("conmon");
    let mut program: Vec<String> = children(&supervisor).into_iter().filter(|pid| !is_engines(pid)).collect();
    let below: Vec<String> = program.iter().flat_map(|pid| children(pid)).collect();
    program.extend(below.into_iter().filter(|pid| !is_engines(pid)));
    worker.kill();
    let kill = |signal: &str, pid: &str| {
        std::process::Command::new("kill").args([signal, pid]).status().unwrap();
    };
    // At once: a supervisor that sees the end of its task would still clean up.
    kill("-STOP", &supervisor);
    for pid in program.iter().chain([&supervisor]) {
        kill("-KILL", pid);
    }
    until("the end of Wharf", || !runs(&supervisor) && !program.iter().any(|pid| runs(pid))).await;
    drop(session);
    assert_ne!(engine.run(&["ps", "-q"]), "", "the container continues");
    let worker = Victim::start_with(head.address, &state, &env);
    let mut session = head.session().await;
    let (code, error) = session.ended(id(1, 1)).await;
    assert!(code == -1 && error.contains("its supervisor died"), "{code} {error}");
    assert_eq!(engine.run(&["ps", "-aq"]), "", "it was removed before its end was told");
    session.forget(id(1, 1)).await;
    worker.kill();
    end_well(&mut head, &state).await;
}

#[tokio::test]
async fn podman_is_spoken_to_over_its_socket() {
    needs!(PODMAN, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let (mut engine, image) = (Podman::new(dir.path()), engines::image(dir.path()));
    engine.run(&["import", &archive(dir.path(), &image).display().to_string(), "localhost/lab:1"]);
    let socket = engine.serve();
    // A node that has the socket and no program: the job requests docker, which is not in PATH.
    let containers = ContainerSettings {
        socket: Some(socket),
        command: vec!["/nowhere/docker".into()],
        ..ContainerSettings::default()
    };
    let worker = Worker::start_with(wharf_worker::WorkerConfig {
        containers,
        ..config(head.address, &dir.path().join("state"))
    });
    let mut session = head.session().await;
    let docker = Container { runtime: Runtime::Docker.into(), ..podman("localhost/lab:1") };
    behaves(&mut session, dir.path(), &docker, 1).await;
    tells_codes_apart(&mut session, &docker, 30, "the container engine failed").await;
    assert_eq!(engine.run(&["ps", "-aq"]), "", "no container is left behind");
    worker.shut_down().await;
}

#[tokio::test]
async fn podman_program_speaks_to_its_socket() {
    needs!(PODMAN, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let (mut engine, image) = (Podman::new(dir.path()), engines::image(dir.path()));
    engine.run(&["import", &archive(dir.path(), &image).display().to_string(), "localhost/lab:1"]);
    let containers = ContainerSettings {
        socket: Some(engine.serve()),
        command: vec!["podman".into()],
        ..ContainerSettings::default()
    };
    let worker = Worker::start_with(wharf_worker::WorkerConfig {
        containers,
        ..config(head.address, &dir.path().join("state"))
    });
    let mut session = head.session().await;
    behaves(&mut session, dir.path(), &podman("localhost/lab:1"), 1).await;
    tells_codes_apart(&mut session, &podman("localhost/lab:1"), 30, "podman could not run the container")
        .await;
    worker.shut_down().await;
}

/// What a container costs beyond the runtime itself: said, not judged, because machines that run tests are busy.
#[tokio::test]
async fn cost_beyond_charliecloud_is_printed() {
    const RUNS: u32 = 30;
    needs!(CHARLIECLOUD, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let image = engines::image(dir.path());
    let worker = Worker::start(head.address, &dir.path().join("state"));
    let mut session = head.session().await;
    let alone = |words: &[&str]| {
        let begun = Instant::now();
        for _ in 0..RUNS {
            let mut command = std::process::Command::new(words[0]);
            let status = command.args(&words[1..]).env("USER", "root").status();
            assert!(status.unwrap().success());
        }
        begun.elapsed().as_secs_f64() * 1e3 / f64::from(RUNS)
    };
    let image = charlie(&image);
    let bare = alone(&["/bin/true"]);
    let ch_run = alone(&["ch-run", &image.image, "--", "/bin/true"]);
    let mut as_task = [0.0; 2];
    for (first, container) in [(1000, None), (2000, Some(image))] {
        let begun = Instant::now();
        for job in first..first + RUNS {
            let mut launch = within(id(job, 1), Container::default(), "");
            (launch.command, launch.container) = (vec!["/bin/true".into()], container.clone());
            session.launch(launch).await;
            assert_eq!(session.ended(id(job, 1)).await, (0, String::new()));
            session.forget(id(job, 1)).await;
        }
        as_task[usize::from(container.is_some())] = begun.elapsed().as_secs_f64() * 1e3 / f64::from(RUNS);
    }
    let [plain, contained] = as_task;
    use std::io::Write as _;
    let _ = writeln!(
        std::io::stderr(),
        "true {bare:.1} ms, ch-run {ch_run:.1} ms; as a task {plain:.1} ms, in a container {contained:.1} ms: \
         {:.1} ms beyond ch-run itself (5 ms are asked for), {:.2} times",
        contained - plain - (ch_run - bare),
        contained / (plain + ch_run - bare)
    );
    worker.shut_down().await;
}
