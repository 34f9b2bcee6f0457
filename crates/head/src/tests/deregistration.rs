//! Nodes that come for a time, and what would use more of them.

use wharf_core::{ClusterSpec, Command, JobId, NodeId, Phase};
use wharf_proto::node_summary::Health;
use wharf_proto::{Demand, Gang, JobSpec, Leave, TaskId, TaskState, from_worker};

use super::virtual_cluster::{EPOCH_UNIX_S, VirtualCluster, input, regime};
use crate::dispatcher::Input;
use crate::journal::Journal;
use crate::nodes::deregistration::{NodeChangeError, demands};
use crate::query::views;

fn job(devices: u32) -> JobSpec {
    JobSpec {
        name: "job".to_owned(),
        user: "ann".to_owned(),
        command: vec!["true".to_owned()],
        gang: Some(Gang { devices, ..Gang::default() }),
        ..JobSpec::default()
    }
}

fn leave(node: NodeId, is_over: bool) -> Input {
    let leave = Leave { reason: "time is over".to_owned(), is_over };
    input((u64::from(node.0), from_worker::Message::Leave(leave)))
}

fn place(world: &VirtualCluster) -> NodeId {
    world.dispatcher.engine.state().schedule().placement(JobId(0)).unwrap()[0].node
}

fn healths(world: &VirtualCluster) -> Vec<Health> {
    views::nodes(&world.dispatcher, true).iter().map(|node| node.health()).collect()
}

#[test]
fn jobs_of_a_node_that_leaves_move_on_and_it_is_gone_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let cluster = ClusterSpec::uniform("v100", 2, 4);
    let mut world = VirtualCluster::new(&journal, &cluster, regime("fifo", 0));
    world.submit(vec![job(4)]);
    let first = place(&world);
    world.step([leave(first, false)]);
    let second = place(&world);
    assert_ne!(second, first, "it has moved");
    assert_eq!(world.phase(0), Phase::Running);
    world.step([leave(first, true)]);
    assert_eq!(healths(&world)[first.index()], Health::Gone);
    assert_eq!(views::nodes(&world.dispatcher, false).len(), 1, "it is hidden");
    let info = views::info(&world.dispatcher);
    assert_eq!((info.nodes, info.devices), (1, 4));
    assert_eq!(world.dispatcher.nodes.connections.missing().count(), 0, "it is not awaited");
    drop(world);

    let (opened, replayed) = Journal::open(&journal, EPOCH_UNIX_S, f64::MAX).unwrap();
    assert_eq!(replayed.head_state.left.get(&first.0), Some(&true), "it is known after a restart");
    drop(opened);
    let has = |session: u64| {
        let task = Some(TaskId { job_id: 0, generation: 2 });
        let is_here = session == u64::from(second.0);
        is_here.then(|| TaskState { task, ..TaskState::default() }).into_iter().collect()
    };
    // Both nodes come back, the one that had left as well.
    let mut world = VirtualCluster::after_restart(&journal, &cluster, regime("fifo", 0), has);
    assert_eq!(healths(&world), [Health::Up; 2]);
    world.submit(vec![job(4)]);
    assert_eq!(world.phase(1), Phase::Running, "it takes jobs again");
}

#[test]
fn only_a_node_that_is_away_can_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let mut world = VirtualCluster::new(&journal, &ClusterSpec::uniform("v100", 2, 4), regime("fifo", 0));
    world.submit(vec![job(4)]);
    let first = place(&world);
    let mut remove = || world.dispatcher.change_node(Command::LoseNode(first), first, "off".to_owned());
    assert_eq!(remove(), Err(NodeChangeError::Connected));
    world.step([Input::Detach { session: u64::from(first.0) }]);
    let away: Vec<bool> = views::nodes(&world.dispatcher, false).iter().map(|node| node.is_away).collect();
    assert!(away[first.index()]);
    assert_eq!(place(&world), first, "it may come back");
    world.dispatcher.change_node(Command::LoseNode(first), first, "off".to_owned()).unwrap();
    world.step([]);
    assert_ne!(place(&world), first, "it is run elsewhere at once");
    assert_eq!(healths(&world)[first.index()], Health::Gone);
}

#[test]
fn demand_is_what_waits_for_devices() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let mut world = VirtualCluster::new(&journal, &ClusterSpec::uniform("v100", 1, 4), regime("fifo", 0));
    let typed = JobSpec {
        gang: Some(Gang { devices: 2, nodes: 2, device_types: vec!["a40".into()], ..Gang::default() }),
        pool: "big".to_owned(),
        ..job(2)
    };
    let held = JobSpec { held: true, ..job(1) };
    world.submit(vec![job(4), job(4), job(4), typed, held]);
    let found = demands(&world.dispatcher);
    let whole = Demand { user: "ann".into(), devices: 4, jobs: 2, ..Demand::default() };
    let others = Demand {
        pool: "big".into(),
        device_types: vec!["a40".into()],
        devices: 2,
        nodes: 2,
        jobs: 1,
        ..whole.clone()
    };
    assert_eq!(found, [whole, others]);
}

/// A machine that comes back with other devices is used as it is now; what ran on it runs elsewhere.
#[test]
fn node_that_returns_with_other_devices_is_declared_again() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let cluster = ClusterSpec::uniform("v100", 2, 4);
    let mut world = VirtualCluster::new(&journal, &cluster, regime("fifo", 0));
    world.submit(vec![job(4)]);
    let first = place(&world);
    let register = |devices: u32, device_type: &str| wharf_proto::Register {
        node: cluster.nodes[first.index()].name.to_string(),
        device_type: device_type.to_owned(),
        devices,
        cpus: 16,
        memory_gib: 64,
        ..wharf_proto::Register::default()
    };
    world.step([Input::Detach { session: u64::from(first.0) }]);
    world.attach(register(8, "a100"));
    assert_ne!(place(&world), first, "its devices are gone");
    assert!(world.has_warned("its devices have changed from 4 x v100 to 8 x a100"));
    let shown = views::nodes(&world.dispatcher, false);
    let node = &shown[first.index()];
    assert_eq!((node.devices, node.device_type.as_str(), node.free, node.cpus), (8, "a100", 8, 16));
    assert_eq!(views::info(&world.dispatcher).devices, 12);
    world.submit(vec![job(8)]);
    assert_eq!(world.phase(1), Phase::Running, "all eight can be used");
    // Fewer devices, of the same type: the job that used all of them waits.
    world.attach(register(2, "a100"));
    assert_eq!(world.phase(1), Phase::Waiting);
    let node = views::nodes(&world.dispatcher, false).swap_remove(first.index());
    assert_eq!((node.devices, node.free), (2, 2));
    drop(world);

    let (_, replayed) = Journal::open(&journal, EPOCH_UNIX_S, f64::MAX).unwrap();
    let state = &replayed.state;
    assert_eq!(state.topology().nodes().len(), 2, "it is the same node");
    assert_eq!(state.topology().node(first).spec.devices, 2);
    assert_eq!(state.job(JobId(0)).phase, Phase::Running, "the other node was not touched");
}
