//! Devices that are found, watched and shared, through the programs that tell of them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use wharf_proto::{Device, LaunchTask};

use crate::support::{Head, Session, Victim, Worker, config, id, read, shell, until, wait_for};

const THREE: &str = "\
0, GPU-test-0, Quadro P400, 2048, 10, 0, 30, [N/A]
1, GPU-test-1, NVIDIA A40, 46068, 100, 20, 41, 0
2, GPU-test-2, NVIDIA A40, 46068, 100, 0, 39, 0
";

/// A folder with programs that stand for NVIDIA's, first in the search path.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        machine.tell(THREE);
        machine.program("nvidia-smi", &format!("cat {}", machine.path("smi.csv").display()));
        machine.program("dcgmi", "echo 'GPU 1     0.750'");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Changes what `nvidia-smi` says, all at once.
    fn tell(&self, devices: &str) {
        fs::write(self.path("new.csv"), devices).unwrap();
        fs::rename(self.path("new.csv"), self.path("smi.csv")).unwrap();
    }

    async fn worker(&self, head: &mut Head, state_dir: &Path) -> Option<(Victim, Session)> {
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap());
        let env = [("PATH", path.as_str()), ("PROBE_DISCOVER", "1")];
        let worker = Victim::start_with(head.address, state_dir, &env);
        let session = head.session().await;
        if session.register.device.first().is_some_and(|device| device.uuid.starts_with("GPU-test")) {
            return Some((worker, session));
        }
        let found = session.register.device.clone();
        end(worker, head, state_dir).await;
        let _ = writeln!(std::io::stderr(), "NOT TESTED: this machine has devices of its own: {found:?}");
        None
    }
}

/// Ends a worker that only dies hard, and its supervisor in good order.
async fn end(worker: Victim, head: &mut Head, state_dir: &Path) {
    worker.kill();
    let worker = Worker::start(head.address, state_dir);
    head.session().await;
    worker.shut_down().await;
}

fn problems(devices: &[Device]) -> Vec<&str> {
    devices.iter().map(|device| device.problem.as_str()).collect()
}

#[tokio::test]
async fn discovered_devices_are_reported_and_watched() {
    let (mut head, dir, machine) = (Head::start().await, tempfile::tempdir().unwrap(), Machine::new());
    let Some((worker, mut session)) = machine.worker(&mut head, dir.path()).await else { return };
    let register = &session.register;
    assert_eq!((register.device_type.as_str(), register.devices), ("a40", 2), "the most frequent type");
    let facts: Vec<_> = register.device.iter().map(|device| (device.index, device.uuid.as_str())).collect();
    assert_eq!(facts, [(0, "GPU-test-1"), (1, "GPU-test-2")]);
    assert_eq!(register.device[0].memory_mib, 46068);
    // The finer figure is in place of the driver's.
    let told = session.devices(|devices| devices[0].utilisation == Some(0.75)).await;
    assert_eq!((told[0].temperature_c, told[0].memory_used_mib), (Some(41.0), Some(100)));

    // A task sees the numbers that CUDA has for its devices.
    let task = LaunchTask { devices: vec![1], ..shell(id(1, 1), "echo $CUDA_VISIBLE_DEVICES > out; sync") };
    session.launch(LaunchTask { workdir: dir.path().display().to_string(), ..task }).await;
    assert_eq!(session.ended(id(1, 1)).await.0, 0);
    assert_eq!(read(&dir.path().join("out")), "2\n");
    session.forget(id(1, 1)).await;

    machine.tell(&THREE.replace("41, 0", "41, 7").lines().take(2).collect::<Vec<_>>().join("\n"));
    let told = session.devices(|devices| !devices[1].problem.is_empty()).await;
    let expected =
        ["7 uncorrectable memory errors since the driver was loaded", "the driver no longer lists it"];
    assert_eq!(problems(&told), expected);
    machine.tell(THREE);
    session.devices(|devices| problems(devices) == ["", ""]).await;
    machine.program("nvidia-smi", "echo the driver is not loaded; exit 9");
    let told = session.devices(|devices| !devices[0].problem.is_empty()).await;
    assert_eq!(problems(&told), ["nvidia-smi fails: the driver is not loaded"; 2]);
    end(worker, &mut head, dir.path()).await;
}

#[tokio::test]
async fn shared_tasks_have_a_service_while_one_of_them_runs() {
    let (mut head, dir, machine) = (Head::start().await, tempfile::tempdir().unwrap(), Machine::new());
    let calls = machine.path("calls");
    let script = "echo \"$* $(test -t 0 || cat)\" $CUDA_MPS_PIPE_DIRECTORY";
    machine.program("nvidia-cuda-mps-control", &format!("{script} >> {}", calls.display()));
    let Some((worker, mut session)) = machine.worker(&mut head, dir.path()).await else { return };
    let go = |job: u32| machine.path(&format!("go-{job}"));
    let shared = |job: u32| {
        let script = format!("echo $CUDA_MPS_LOG_DIRECTORY >> out; {}", wait_for(&go(job)));
        let workdir = dir.path().display().to_string();
        LaunchTask { is_shared: true, workdir, ..shell(id(job, 1), &script) }
    };
    let own = |text: &str| format!("{text} {}/mps/pipe\n", dir.path().display());
    session.launch(shared(1)).await;
    session.started(id(1, 1)).await;
    assert_eq!(read(&calls), own("-d "), "before the task");
    session.launch(shared(2)).await;
    session.started(id(2, 1)).await;
    fs::write(go(1), "").unwrap();
    session.ended(id(1, 1)).await;
    until("both", || read(&dir.path().join("out")).lines().count() == 2).await;
    assert!(read(&dir.path().join("out")).lines().all(|line| line.ends_with("/mps/log")));
    assert_eq!(read(&calls), own("-d "), "once for both");

    // Known to the next worker as well.
    worker.kill();
    drop(session);
    let Some((worker, mut session)) = machine.worker(&mut head, dir.path()).await else { return };
    assert_eq!(read(&calls), own("-d "));
    fs::write(go(2), "").unwrap();
    session.ended(id(2, 1)).await;
    until("the end of the service", || read(&calls) == own("-d ") + &own(" quit")).await;
    for job in [1, 2] {
        session.forget(id(job, 1)).await;
    }
    end(worker, &mut head, dir.path()).await;
}

#[tokio::test]
async fn health_check_marks_devices_or_the_node() {
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let answer = dir.path().join("answer");
    let tell = |script: &str| {
        fs::write(dir.path().join("new"), script).unwrap();
        fs::rename(dir.path().join("new"), &answer).unwrap();
    };
    tell("exit 0");
    let mut config = config(head.address, &dir.path().join("state"));
    config.watch.command = vec!["/bin/sh".into(), answer.display().to_string()];
    config.watch.interval = Duration::from_millis(20);
    config.watch.command_limit = Duration::from_secs(2);
    let worker = Worker::start_with(config);
    let mut session = head.session().await;
    let answers = [
        ("echo 'device 2: fans stand still'; exit 1", ["", "", "fans stand still", ""]),
        ("echo no network; exit 1", ["the health check ended with exit code 1: no network"; 4]),
        ("exit 0", [""; 4]),
        ("sleep 600", ["the health check took longer than 2 s"; 4]),
        ("exit 0", [""; 4]),
    ];
    for (script, expected) in answers {
        tell(script);
        let told = session.devices(|devices| problems(devices) == expected).await;
        assert_eq!(told.len(), 4);
    }
    worker.shut_down().await;
}
