//! Tasks in real containers of apptainer: from a folder, a SIF and an archive, and in an instance that stays.

use std::path::{Path, PathBuf};
use std::process::Command;

use wharf_proto::Container;
use wharf_proto::container::{Network, Runtime};
use wharf_worker::{ContainerSettings, WorkerConfig};

use crate::containers::{archive, behaves, finished, mount, outlasts, within};
use crate::support::{Head, Worker, config, id, read, until};
use wharf_testing::{component, engines, needs};

fn apptainer(image: &Path) -> Container {
    Container {
        runtime: Runtime::Apptainer.into(),
        image: image.display().to_string(),
        ..Container::default()
    }
}

/// The program, and the folder of an image.
fn lab(dir: &Path) -> (String, PathBuf) {
    (component::apptainer().unwrap().display().to_string(), engines::image(dir))
}

/// The folder as a file.
fn sif(program: &str, dir: &Path, image: &Path) -> PathBuf {
    let path = dir.join("image.sif");
    let built = Command::new(program).args(["build", "--force"]).arg(&path).arg(image).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    path
}

fn settings(program: &str) -> ContainerSettings {
    ContainerSettings { command: vec![program.to_owned()], ..ContainerSettings::default() }
}

#[tokio::test]
async fn apptainer_runs_tasks() {
    needs!(APPTAINER, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let (program, folder) = lab(dir.path());
    let file = sif(&program, dir.path(), &folder);
    let state = dir.path().join("state");
    let worker =
        Worker::start_with(WorkerConfig { containers: settings(&program), ..config(head.address, &state) });
    let mut session = head.session().await;
    let archive = archive(dir.path(), &folder);
    for (first, image) in [(1, &folder), (11, &file), (21, &archive)] {
        behaves(&mut session, dir.path(), &apptainer(image), first).await;
    }

    let script = "echo $WHARF_CONTAINER; kill -9 $$";
    let (code, _, output) = finished(&mut session, within(id(30, 1), apptainer(&file), script)).await;
    assert_eq!((code, output.as_str()), (137, "apptainer\n"));
    // The root is as it was made, unless the job asks for another; what is then written is gone with the task.
    let writes = "touch /here 2> /dev/null && echo written; ls /here 2> /dev/null; true";
    for (job, writable_root, expected) in [(31, false, ""), (32, true, "written\n/here\n"), (33, false, "")] {
        let container = Container { writable_root, ..apptainer(&file) };
        let (code, _, output) = finished(&mut session, within(id(job, 1), container, writes)).await;
        assert_eq!((code, output.as_str()), (0, expected), "writable: {writable_root}");
    }
    // A mount that cannot be written, a network of its own, an entry before the command.
    let data = dir.path().join("data-1");
    let container = Container {
        mounts: vec![wharf_proto::Mount { read_only: true, ..mount(&data, "/mnt/0") }],
        network: Network::None.into(),
        entrypoint: vec!["/bin/env".into(), "ENTRY=yes".into()],
        ..apptainer(&file)
    };
    let script = "cat /mnt/0/in; touch /mnt/0/x 2> /dev/null || echo refused; ls /sys/class/net; echo $ENTRY";
    let (code, _, output) = finished(&mut session, within(id(34, 1), container, script)).await;
    assert_eq!((code, output.as_str()), (0, "from the node\nrefused\nlo\nyes\n"));
    // What it cannot do is said, or is an error.
    let privileged = Container { privileged: true, ..apptainer(&file) };
    let (code, _, output) = finished(&mut session, within(id(35, 1), privileged.clone(), "true")).await;
    assert_eq!(
        (code, output.as_str()),
        (0, "wharf: container: apptainer has no `privileged`: it is ignored\n")
    );
    let strict = Container { strict: true, ..privileged };
    let (code, error, _) = finished(&mut session, within(id(36, 1), strict, "true")).await;
    assert!(code == 126 && error.contains("`strict` makes that an error"), "{code} {error}");
    worker.shut_down().await;
}

#[tokio::test]
async fn apptainer_tasks_outlast_worker_and_head() {
    needs!(APPTAINER, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let (program, folder) = lab(dir.path());
    let file = sif(&program, dir.path(), &folder);
    let env = [("PROBE_CONTAINER_COMMAND", program.as_str())];
    outlasts(&mut head, dir.path(), &apptainer(&file), &env).await;
}

#[tokio::test]
async fn an_instance_stays_and_tasks_are_executed_in_it() {
    needs!(APPTAINER, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let (program, folder) = lab(dir.path());
    let state = dir.path().join("state");
    let worker =
        Worker::start_with(WorkerConfig { containers: settings(&program), ..config(head.address, &state) });
    let mut session = head.session().await;
    let data = dir.path().join("shared");
    std::fs::create_dir(&data).unwrap();
    // Instances belong to the machine, not to a folder.
    let name = format!("wharf-test-{}", std::process::id());
    let container = Container {
        name: name.clone(),
        per_node: true,
        mounts: vec![mount(&data, "/data")],
        workdir: "/data".into(),
        ..apptainer(&folder)
    };
    let listed = || {
        let listed = Command::new(&program).args(["instance", "list", &name]).output().unwrap();
        String::from_utf8_lossy(&listed.stdout).lines().filter(|line| line.starts_with(&name)).count()
    };
    for job in [1, 2] {
        let script = "readlink /proc/self/ns/mnt >> passes; echo $WITHIN $WHARF_JOB_ID; exit 4";
        let own = [("WITHIN".to_owned(), "yes".to_owned())].into();
        let container = Container { env: own, ..container.clone() };
        let (code, error, output) = finished(&mut session, within(id(job, 1), container, script)).await;
        assert_eq!((code, error.as_str(), output), (4, "", format!("yes {job}\n")));
        assert_eq!(listed(), 1, "it stays");
    }
    let passes = read(&data.join("passes"));
    let passes: Vec<&str> = passes.lines().collect();
    assert!(passes.len() == 2 && passes[0] == passes[1], "both were in the same: {passes:?}");
    worker.shut_down().await;
    until("the instance's end", || listed() == 0).await;
}
