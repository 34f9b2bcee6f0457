//! Dependencies, holds and what people change.

use wharf_core::{ClusterSpec, Command, JobEnd, JobId, Phase, Regime};
use wharf_proto::change_jobs_request::Change;
use wharf_proto::dependency::Kind;
use wharf_proto::{ChangeJobsRequest, Dependency, Gang, JobSpec};

use super::virtual_cluster::{VirtualCluster, regime};

fn rules() -> Regime {
    regime("fifo", 0)
}

fn world(folder: &tempfile::TempDir, nodes: u32) -> VirtualCluster {
    let cluster = ClusterSpec::uniform("v100", nodes, 4);
    VirtualCluster::new(&folder.path().join("journal.sqlite"), &cluster, rules())
}

fn job(name: &str, dependencies: &[(Kind, u32)]) -> JobSpec {
    let dependency =
        |&(kind, job_id): &(Kind, u32)| Dependency { kind: kind.into(), job_id, ..Dependency::default() };
    JobSpec {
        name: name.to_owned(),
        command: vec!["true".to_owned()],
        dependencies: dependencies.iter().map(dependency).collect(),
        ..JobSpec::default()
    }
}

fn array(name: &str, indexes: &[u32], dependencies: &[(Kind, u32)]) -> JobSpec {
    JobSpec { array: indexes.to_vec(), ..job(name, dependencies) }
}

const ENDED: Phase = Phase::Ended(JobEnd::Finished);
const CANCELLED: Phase = Phase::Ended(JobEnd::Cancelled);

#[test]
fn jobs_wait_for_what_they_depend_on() {
    // The kind, how the first job ends, and the state of the second: while it runs, and then.
    for (kind, code, meanwhile, then) in [
        (Kind::After, 0, Phase::Running, Phase::Running),
        (Kind::AfterOk, 0, Phase::Held, Phase::Running),
        (Kind::AfterOk, 3, Phase::Held, CANCELLED),
        (Kind::AfterNotOk, 3, Phase::Held, Phase::Running),
        (Kind::AfterNotOk, 0, Phase::Held, CANCELLED),
        (Kind::AfterAny, 3, Phase::Held, Phase::Running),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut world = world(&folder, 1);
        world.submit(vec![job("first", &[])]);
        world.submit(vec![job("second", &[(kind, 0)])]);
        assert_eq!(world.phase(1), meanwhile, "{kind:?} while the first runs");
        let ends = world.exit(JobId(0), code);
        world.step(ends);
        assert_eq!(world.phase(1), then, "{kind:?} after exit code {code}");
    }
}

#[test]
fn interrupted_jobs_continue_from_their_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, 2);
    let gang = Some(Gang { devices: 8, ..Gang::default() });
    world.submit(vec![JobSpec { gang, ..job("trainer", &[]) }]);
    // Oftener than a job may be struck or lost.
    for round in 1..=20_u32 {
        let ends = world.interrupt(JobId(0), f64::from(round));
        world.step(ends);
        assert_eq!(world.phase(0), Phase::Running, "round {round}");
        assert_eq!(world.dispatcher.log.state.checkpoints.get(&0), Some(&f64::from(round)));
    }
    let ends = world.exit(JobId(0), 0);
    world.step(ends);
    assert_eq!(world.phase(0), ENDED);
}

#[test]
fn arrays_are_waited_for_as_a_whole_or_element_by_element() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, 2);
    assert_eq!(world.submit(vec![array("left", &[3, 5], &[])]), [0, 1]);
    world.submit(vec![array("right", &[3, 5], &[(Kind::AfterCorr, 0)])]);
    world.submit(vec![job("all", &[(Kind::AfterOk, 0)])]);
    let one =
        Dependency { kind: Kind::AfterOk.into(), job_id: 0, array_index: Some(5), ..Dependency::default() };
    world.submit(vec![JobSpec { dependencies: vec![one], ..job("one", &[]) }]);
    let ends = world.exit(JobId(1), 0);
    world.step(ends);
    let phases: Vec<Phase> = (2..6).map(|job| world.phase(job)).collect();
    assert_eq!(phases, [Phase::Held, Phase::Running, Phase::Held, Phase::Running]);
    let ends = world.exit(JobId(0), 0);
    world.step(ends);
    let phases: Vec<Phase> = (2..6).map(|job| world.phase(job)).collect();
    assert_eq!(phases, [Phase::Running; 4]);
}

#[test]
fn singletons_run_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, 1);
    for _ in 0..3 {
        world.submit(vec![job("nightly", &[(Kind::Singleton, 0)])]);
    }
    world.submit(vec![job("other", &[(Kind::Singleton, 0)])]);
    let phases = |world: &VirtualCluster| (0..4).map(|job| world.phase(job)).collect::<Vec<_>>();
    assert_eq!(phases(&world), [Phase::Running, Phase::Held, Phase::Held, Phase::Running]);
    let ends = world.exit(JobId(0), 1);
    world.step(ends);
    assert_eq!(phases(&world)[1..3], [Phase::Running, Phase::Held]);
}

#[test]
fn a_hold_outlasts_dependencies_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = world(&folder, 1);
    first.submit(vec![job("first", &[]), job("second", &[(Kind::AfterAny, 0)])]);
    let change = |change: Change, job_ids: &[u32]| ChangeJobsRequest {
        change: change.into(),
        job_ids: job_ids.to_vec(),
        ..ChangeJobsRequest::default()
    };
    assert_eq!(first.change(change(Change::Hold, &[1])), []);
    drop(first);

    let mut again =
        VirtualCluster::new(&folder.path().join("journal.sqlite"), &ClusterSpec::default(), rules());
    again.dispatcher.engine_command(Command::JobExited { job: JobId(0), generation: 1, code: 0 });
    again.step([]);
    assert_eq!(again.phase(0), ENDED);
    assert_eq!(again.phase(1), Phase::Held, "it is still held");
    assert_eq!(again.change(change(Change::Release, &[1])), []);
    assert_eq!(again.phase(1), Phase::Placed);
}

#[test]
fn reasons_call_jobs_as_people_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, 1);
    world.submit(vec![array("first", &[7], &[]), array("sweep", &(0..8).collect::<Vec<_>>(), &[])]);
    let reasons: Vec<String> =
        (1..9).map(|job| crate::query::views::explain(&world.dispatcher, JobId(job))).collect();
    let behind = reasons.iter().find(|reason| reason.contains("first")).unwrap();
    assert!(behind.contains("job 1_"), "{behind}");
}

#[test]
fn an_array_is_cancelled_by_its_first_job_and_elements_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, 1);
    world.submit(vec![array("sweep", &(0..8).collect::<Vec<_>>(), &[])]);
    let request = |job_ids: &[u32], elements_only| ChangeJobsRequest {
        change: Change::Cancel.into(),
        job_ids: job_ids.to_vec(),
        elements_only,
        ..ChangeJobsRequest::default()
    };
    assert_eq!(world.change(request(&[0], true)), []);
    assert_eq!((world.phase(0), world.phase(1)), (CANCELLED, Phase::Running));
    assert_eq!(world.change(request(&[0, 99], false)).len(), 1, "there is no job 99");
    assert!((0..8).all(|job| world.phase(job) == CANCELLED));
}

#[test]
fn jobs_run_where_they_can() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = ClusterSpec::uniform("v100", 3, 4);
    for (node, pool) in cluster.nodes.iter_mut().zip(["big", "big", "small"]) {
        node.pool = pool.into();
        node.cpus = 8;
    }
    let mut world = VirtualCluster::new(&folder.path().join("journal.sqlite"), &cluster, rules());
    let gang = |devices, nodes| Some(Gang { devices, nodes, ..Gang::default() });
    world.submit(vec![
        JobSpec { gang: gang(4, 2), ..job("two by two", &[]) },
        JobSpec { gang: gang(1, 0), pool: "small".to_owned(), cpus: 6, ..job("many cpus", &[]) },
        JobSpec { gang: gang(3, 0), ..job("the rest of a node", &[]) },
        JobSpec { gang: gang(1, 0), pool: "small".to_owned(), cpus: 3, ..job("no cpus left", &[]) },
        JobSpec { gang: gang(3, 3), ..job("no third node", &[]) },
    ]);
    let placement = |job: u32| {
        let shares = world.dispatcher.engine.state().schedule().placement(JobId(job));
        shares
            .map(|shares| shares.iter().map(|share| (share.node.0, share.devices.len())).collect::<Vec<_>>())
    };
    assert_eq!(placement(0), Some(vec![(0, 2), (1, 2)]));
    assert_eq!(placement(1), Some(vec![(2, 1)]));
    assert_eq!(placement(2), Some(vec![(2, 3)]));
    assert_eq!(placement(3), None, "of 8 processors 6 are promised");
    assert_eq!(placement(4), None, "the third node is full");
}

#[test]
fn a_job_for_every_node_is_one_job_on_each() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, 3);
    let node = world.node("v100-1");
    world.dispatcher.engine_command(Command::CordonNode(node));
    let everywhere = Some(Gang { every_node: true, ..Gang::default() });
    assert_eq!(world.submit(vec![JobSpec { gang: everywhere, ..job("prepare", &[]) }]), [0, 1]);
    let nodes: Vec<u32> = (0..2)
        .map(|job| world.dispatcher.engine.state().schedule().placement(JobId(job)).unwrap()[0].node.0)
        .collect();
    assert_eq!(nodes, [0, 2], "the cordoned one gets none");
}
