//! Tasks in real containers of docker, through its program and its socket.

use std::path::Path;

use wharf_proto::container::{Network, Runtime};
use wharf_proto::{Container, LaunchTask};
use wharf_worker::{ContainerSettings, WorkerConfig};

use crate::containers::{archive, behaves, mount, outlasts, tells_codes_apart, within};
use crate::support::{Head, Session, Worker, config, id, until};
use wharf_testing::engines::{self, Docker};
use wharf_testing::needs;

fn docker(image: &str) -> Container {
    Container {
        runtime: Runtime::Docker.into(),
        image: image.into(),
        network: Network::Host.into(),
        ..Container::default()
    }
}

/// One that hears no signal is removed when its time is up.
async fn ends_the_deaf(session: &mut Session, dir: &Path, container: &Container) {
    let deaf = id(50, 1);
    let container = Container { mounts: vec![mount(&dir.join("data-1"), "/data")], ..container.clone() };
    let script = "trap '' TERM; touch /data/deaf; while :; do sleep 0.05; done";
    session.launch(LaunchTask { grace_s: 0.3, ..within(deaf, container, script) }).await;
    until("the container", || dir.join("data-1/deaf").exists()).await;
    session.stop(deaf).await;
    assert_eq!(session.ended(deaf).await.0, 137);
    std::fs::remove_file(dir.join("data-1/deaf")).unwrap();
}

#[tokio::test]
async fn docker_runs_tasks() {
    needs!(DOCKER, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let (engine, image) = (Docker::new(dir.path()), engines::image(dir.path()));
    let containers = ContainerSettings { socket: Some(engine.socket()), ..ContainerSettings::default() };
    let state = dir.path().join("state");
    let worker = Worker::start_with(WorkerConfig { containers, ..config(head.address, &state) });
    let mut session = head.session().await;
    // A folder becomes an image of the engine once.
    let container = docker(&image.display().to_string());
    behaves(&mut session, dir.path(), &container, 1).await;
    assert_eq!(engine.run(&["images", "-q", "--filter", "reference=localhost/wharf/*"]).lines().count(), 1);
    tells_codes_apart(&mut session, &container, 30, "docker could not run the container").await;
    ends_the_deaf(&mut session, dir.path(), &container).await;
    assert_eq!(engine.run(&["ps", "-aq"]), "", "no container is left behind");
    worker.shut_down().await;
}

#[tokio::test]
async fn docker_is_spoken_to_over_its_socket() {
    needs!(DOCKER, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let (engine, image) = (Docker::new(dir.path()), engines::image(dir.path()));
    engine.run(&["import", &archive(dir.path(), &image).display().to_string(), "lab:1"]);
    // A node that has the socket and no program.
    let containers = ContainerSettings {
        socket: Some(engine.socket()),
        command: vec!["/nowhere/docker".into()],
        ..ContainerSettings::default()
    };
    let state = dir.path().join("state");
    let worker = Worker::start_with(WorkerConfig { containers, ..config(head.address, &state) });
    let mut session = head.session().await;
    behaves(&mut session, dir.path(), &docker("lab:1"), 1).await;
    tells_codes_apart(&mut session, &docker("lab:1"), 30, "the container engine failed").await;
    ends_the_deaf(&mut session, dir.path(), &docker("lab:1")).await;
    assert_eq!(engine.run(&["ps", "-aq"]), "", "no container is left behind");
    worker.shut_down().await;
}

#[tokio::test]
async fn docker_tasks_outlast_worker_and_head() {
    needs!(DOCKER, BUSYBOX);
    let (mut head, dir) = (Head::start().await, tempfile::tempdir().unwrap());
    let (engine, image) = (Docker::new(dir.path()), engines::image(dir.path()));
    let line = format!("docker --host {}", engine.socket());
    let container = docker(&image.display().to_string());
    outlasts(&mut head, dir.path(), &container, &[("PROBE_CONTAINER_COMMAND", line.as_str())]).await;
    assert_eq!(engine.run(&["ps", "-aq"]), "", "no container is left behind");
}
