//! Nodes with full disks.

use wharf_core::{ClusterSpec, JobId, Phase};
use wharf_proto::{Disk, Gang, Heartbeat, JobSpec, NodeFault, TaskEnded, from_worker, node_summary::Health};

use super::virtual_cluster::{VirtualCluster, input, regime};
use crate::dispatcher::Input;

fn job() -> JobSpec {
    JobSpec {
        name: "job".to_owned(),
        command: vec!["true".to_owned()],
        gang: Some(Gang { devices: 1, ..Gang::default() }),
        ..JobSpec::default()
    }
}

fn disk(session: u64, available_bytes: u64) -> Input {
    let disk = Disk { path: "/var/lib/wharf".into(), total_bytes: 1000, available_bytes, reserve_bytes: 100 };
    input((session, from_worker::Message::Heartbeat(Heartbeat { disk: Some(disk) })))
}

#[test]
fn node_with_a_full_disk_is_cordoned_and_its_jobs_run_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let mut world = VirtualCluster::new(&path, &ClusterSpec::uniform("v100", 2, 1), regime("fifo", 0));
    world.submit(vec![job()]);
    let node = world.dispatcher.tasks.execution(JobId(0)).unwrap().tasks[0].share.node;
    let full = TaskEnded {
        exit_code: 1,
        error: "no space left on device".into(),
        node_fault: NodeFault::DiskFull.into(),
        ..TaskEnded::default()
    };
    let ends = world.end(JobId(0), &full);
    world.step(ends);
    assert!(world.has_warned("is cordoned: disk full"), "{:?}", world.warnings);
    assert_eq!(world.phase(0), Phase::Running);
    assert_ne!(
        world.dispatcher.tasks.execution(JobId(0)).unwrap().tasks[0].share.node,
        node,
        "another node is tried"
    );
    assert_eq!(world.dispatcher.log.state.failures[&0].last, "node");
    let health = |world: &VirtualCluster| crate::query::views::healths(&world.dispatcher)[node.index()].1;
    assert_eq!(health(&world), Health::Cordoned);
    world.step([disk(u64::from(node.0), 150)]);
    assert_eq!(health(&world), Health::Cordoned, "not enough for long");
    world.step([disk(u64::from(node.0), 300)]);
    assert_eq!(health(&world), Health::Up);
    assert!(world.has_warned("has space on its disk again"));
    let shown = crate::query::views::nodes(&world.dispatcher, false);
    assert_eq!(shown[node.index()].disk.as_ref().map(|disk| disk.available_bytes), Some(300));
    world.step([disk(u64::from(node.0), 50)]);
    assert_eq!(health(&world), Health::Cordoned, "before a job has failed there");
}

#[test]
fn job_that_a_node_fails_again_and_again_waits_between_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let mut world = VirtualCluster::new(&path, &ClusterSpec::uniform("v100", 1, 1), regime("fifo", 0));
    world.submit(vec![job()]);
    let lost = TaskEnded { exit_code: 1, is_blameless: true, ..TaskEnded::default() };
    let ends = world.end(JobId(0), &lost);
    world.step(ends);
    assert_eq!(world.phase(0), Phase::Running, "one failure is no pattern");
    for wait_s in [1.0, 2.0, 4.0] {
        let ends = world.end(JobId(0), &lost);
        world.step(ends);
        assert_eq!(world.phase(0), Phase::Held, "it waits {wait_s} s");
        world.set_time(world.now().plus(wait_s));
        world.step([]);
        assert_eq!(world.phase(0), Phase::Running, "after {wait_s} s");
    }
}
