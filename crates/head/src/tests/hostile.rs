//! Requests that try to crash the head, to stall it, or to use what is not theirs.

use std::sync::Arc;

use wharf_core::{ClusterSpec, JobEnd, JobId, Phase};
use wharf_proto::change_jobs_request::Change;
use wharf_proto::dependency::Kind;
use wharf_proto::{ChangeJobsRequest, Dependency, Gang, JobSpec};

use super::virtual_cluster::{VirtualCluster, regime};
use crate::Caps;
use crate::dispatcher::Input;
use crate::query::views;

fn world(folder: &tempfile::TempDir, cluster: &ClusterSpec) -> VirtualCluster {
    let mut world = VirtualCluster::new(&folder.path().join("journal.sqlite"), cluster, regime("fifo", 0));
    world.dispatcher.policy.make = Arc::new(|_| Ok(regime("fifo", 0)));
    world
}

fn job(user: &str) -> JobSpec {
    JobSpec { user: user.into(), command: vec!["true".into()], ..JobSpec::default() }
}

fn after(kind: Kind, job_id: u32, array_index: Option<u32>) -> Dependency {
    Dependency { kind: kind.into(), job_id, array_index, ..Dependency::default() }
}

fn change(change: Change, job_ids: &[u32]) -> ChangeJobsRequest {
    ChangeJobsRequest { change: change.into(), job_ids: job_ids.to_vec(), ..ChangeJobsRequest::default() }
}

#[test]
fn submit_with_unknown_dependency_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, &ClusterSpec::uniform("v100", 1, 1));
    world.submit(vec![JobSpec { array: vec![0, 2], ..job("ann") }]);
    let rows = [
        (vec![after(Kind::AfterOk, 7, None)], vec![], "job 7, which does not exist"),
        (vec![after(Kind::AfterOk, u32::MAX, None)], vec![], "which does not exist"),
        (vec![after(Kind::AfterOk, 0, Some(99))], vec![], "element 0_99, which does not exist"),
        (vec![after(Kind::AfterCorr, 0, None)], vec![0, 1], "element 0_1, which does not exist"),
        // In a gate that is met by any of its dependencies, too.
        (vec![after(Kind::AfterAny, 0, None), after(Kind::AfterOk, 0, Some(1))], vec![], "element 0_1"),
        // A job cannot wait for itself, nor for one that follows.
        (vec![after(Kind::AfterAny, 3, None)], vec![], "job 3, which does not exist"),
    ];
    for (dependencies, array, expected) in rows {
        for any_dependency in [false, true] {
            let spec = JobSpec {
                dependencies: dependencies.clone(),
                array: array.clone(),
                any_dependency,
                ..job("ann")
            };
            let error = world.try_submit(vec![job("ann"), spec]).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert_eq!(world.dispatcher.engine.state().jobs().count(), 2, "all or none");
        }
    }
    // Jobs of one request may depend on earlier ones of it.
    let second = JobSpec { dependencies: vec![after(Kind::AfterAny, 2, None)], ..job("ann") };
    assert_eq!(world.submit(vec![job("ann"), second]), [2, 3]);
    // One that is no array counts as the counterpart of every element, and an array as a whole for one job.
    let each =
        JobSpec { dependencies: vec![after(Kind::AfterCorr, 3, None)], array: vec![5, 6], ..job("ann") };
    let whole = JobSpec { dependencies: vec![after(Kind::AfterCorr, 0, None)], ..job("ann") };
    assert_eq!(world.submit(vec![each, whole]), [4, 5, 6]);
    (0..7).for_each(|job| drop(views::explain(&world.dispatcher, JobId(job))));
}

#[test]
fn release_of_a_job_whose_dependency_failed_does_not_start_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, &ClusterSpec::uniform("v100", 1, 1));
    world.submit(vec![job("ann")]);
    let ends = world.exit(JobId(0), 1);
    world.step(ends);
    let dependencies = vec![after(Kind::AfterOk, 0, None)];
    world.submit(vec![JobSpec { dependencies, stays_if_impossible: true, ..job("ann") }]);
    for round in 0..2 {
        assert_eq!(world.phase(1), Phase::Held, "round {round}");
        assert_eq!(world.change(change(Change::Hold, &[1])), []);
        assert_eq!(world.change(change(Change::Release, &[1])), []);
    }
    assert_eq!(world.phase(1), Phase::Held);
    let reason = views::explain(&world.dispatcher, JobId(1));
    assert!(reason.contains("its dependency can never be satisfied"), "{reason}");
    assert_eq!(world.change(change(Change::Cancel, &[1])), []);
    assert_eq!(world.phase(1), Phase::Ended(JobEnd::Cancelled));
}

#[test]
fn request_beyond_a_cap_is_rejected_and_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, &ClusterSpec::uniform("v100", 1, 1));
    world.dispatcher.jobs.caps = Caps { request_jobs: 100, user_jobs: 250, ..Caps::default() };
    let array = |count: u32| JobSpec { array: (0..count).collect(), ..job("ann") };
    let error = world.try_submit(vec![array(101)]).unwrap_err();
    assert!(error.contains("101 jobs and array elements") && error.contains("max_request_jobs"), "{error}");
    let error = world.try_submit(vec![array(60), array(60)]).unwrap_err();
    assert!(error.contains("120 jobs and array elements"), "{error}");
    world.submit(vec![array(100)]);
    // Each dependency on an array is one on each of its elements.
    let twice = vec![after(Kind::AfterAny, 0, None); 2];
    let error = world.try_submit(vec![JobSpec { dependencies: twice, ..job("ann") }]).unwrap_err();
    assert!(error.contains("more than 100 dependencies") && error.contains("max_request_jobs"), "{error}");
    // Element by element, what all share counts for each.
    let both = vec![after(Kind::AfterCorr, 0, None), after(Kind::AfterAny, 0, None)];
    let error = world.try_submit(vec![JobSpec { dependencies: both, ..array(2) }]).unwrap_err();
    assert!(error.contains("more than 100 dependencies"), "{error}");
    // Dependencies that wait count for their user until they are decided.
    let on_all = || JobSpec { dependencies: vec![after(Kind::AfterAny, 0, None)], ..job("ann") };
    world.submit(vec![on_all()]);
    world.submit(vec![on_all()]);
    let error = world.try_submit(vec![on_all()]).unwrap_err();
    assert!(error.contains("300 dependencies") && error.contains("max_user_jobs"), "{error}");
    world.submit(vec![JobSpec { user: "bob".into(), ..on_all() }]);
    world.submit(vec![array(100)]);
    let error = world.try_submit(vec![array(100)]).unwrap_err();
    assert!(error.contains("would have 302 live jobs") && error.contains("max_user_jobs"), "{error}");
    // Changes, by repetition as well.
    let refused = world.change(change(Change::Hold, &[0, 103]));
    assert!(
        refused.iter().all(|refusal| refusal.reason.contains("200 jobs and array elements")),
        "{refused:?}"
    );
    assert_eq!(world.change(change(Change::Hold, &[103; 1000])), []);
}

#[test]
fn user_may_lower_a_priority_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, &ClusterSpec::uniform("v100", 1, 1));
    world.submit(vec![JobSpec { priority: 5, ..job("ann") }]);
    for (priority, is_user, expected) in [(6, true, 5), (3, true, 3), (4, true, 3), (9, false, 9)] {
        let (reply, mut receiver) = tokio::sync::oneshot::channel();
        let request = ChangeJobsRequest { priority, ..change(Change::Priority, &[0]) };
        world.step([Input::Change { request, is_user, by: "ann".into(), reply }]);
        let refused = receiver.try_recv().unwrap();
        assert_eq!(world.dispatcher.engine.state().spec(JobId(0)).priority, expected);
        assert_eq!(refused.is_empty(), priority == expected, "{refused:?}");
    }
}

/// Limits with a pool for cyd alone, and a default pool.
fn limits(world: &mut VirtualCluster, text: &str) {
    let (reply, mut receiver) = tokio::sync::oneshot::channel();
    world.step([Input::SetLimits { text: text.into(), by: "admin".into(), reply }]);
    receiver.try_recv().unwrap().unwrap();
}

#[test]
fn restricted_pool_is_closed_to_other_users_whatever_they_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = ClusterSpec::uniform("v100", 1, 2);
    let mut paid = ClusterSpec::uniform("a40", 1, 2).nodes.remove(0);
    paid.pool = "gpu2".into();
    cluster.nodes.push(paid);
    let mut world = world(&folder, &cluster);
    limits(&mut world, "[pool.gpu2]\nusers = [\"cyd\"]\n");
    let a40 = |user: &str| {
        let gang = Some(Gang { devices: 1, device_types: vec!["a40".into()], ..Gang::default() });
        JobSpec { gang, ..job(user) }
    };
    let error = world.try_submit(vec![JobSpec { pool: "gpu2".into(), ..job("bob") }]).unwrap_err();
    assert!(error.contains("pool gpu2 does not take jobs of user bob"), "{error}");
    let big = Some(Gang { devices: 3, ..Gang::default() });
    let everywhere = Some(Gang { every_node: true, ..Gang::default() });
    world.submit(vec![a40("cyd"), a40("bob"), JobSpec { gang: big, ..job("bob") }]);
    assert_eq!([0, 1, 2].map(|job| world.phase(job)), [Phase::Running, Phase::Waiting, Phase::Waiting]);
    let reason = views::explain(&world.dispatcher, JobId(1));
    assert!(reason.contains("pools that its owner may use have 0"), "{reason}");
    assert_eq!(world.submit(vec![JobSpec { gang: everywhere.clone(), ..job("bob") }]).len(), 1);
    assert_eq!(world.submit(vec![JobSpec { gang: everywhere, ..job("cyd") }]).len(), 2);
    // A change of limits holds for jobs that wait; what runs is not disturbed.
    limits(&mut world, "[pool.gpu2]\nusers = [\"bob\"]\n");
    assert_eq!([0, 1].map(|job| world.phase(job)), [Phase::Running, Phase::Running]);
    // After a restart it holds as before.
    drop(world);
    let world = VirtualCluster::new(&folder.path().join("journal.sqlite"), &cluster, regime("fifo", 0));
    assert!(!world.dispatcher.engine.state().access().permits("cyd", "gpu2"));
}

#[test]
fn nodes_without_a_pool_belong_to_the_default_pool() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, &ClusterSpec::uniform("v100", 1, 4));
    limits(&mut world, "default_pool = \"main\"\n[pool.main]\ngang_max = 3\n[pool.other]\n");
    world.submit(vec![job("ann"), JobSpec { pool: "main".into(), ..job("ann") }]);
    assert_eq!([0, 1].map(|job| world.phase(job)), [Phase::Running; 2]);
    let wide = Some(Gang { devices: 4, ..Gang::default() });
    let error = world.try_submit(vec![JobSpec { gang: wide, ..job("ann") }]).unwrap_err();
    assert!(error.contains("pool main allows, which is 3"), "{error}");
    world.submit(vec![JobSpec { pool: "other".into(), ..job("ann") }]);
    let reason = views::explain(&world.dispatcher, JobId(2));
    assert!(reason.contains("the working nodes of pool other have 0"), "{reason}");
    // A default pool without nodes blocks jobs, states this, and its removal releases them.
    limits(&mut world, "default_pool = \"other\"\n[pool.other]\n[pool.main]\n");
    assert_eq!(world.phase(2), Phase::Running, "the node belongs to the new default pool");
    limits(&mut world, "");
    world.submit(vec![job("ann")]);
    assert_eq!(world.phase(3), Phase::Running);
}

#[test]
fn large_arrays_with_limits_and_dependencies_do_not_stall_the_dispatcher() {
    // Quadratic work on this many elements takes minutes, and the test runner ends it.
    let count = 30_000;
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, &ClusterSpec::uniform("v100", 1, 1));
    let array = |dependencies: Vec<Dependency>, array_limit: u32| JobSpec {
        array: (0..count).collect(),
        dependencies,
        array_limit,
        ..job("ann")
    };
    world.submit(vec![array(vec![], count / 2)]);
    world.submit(vec![array(vec![after(Kind::AfterCorr, 0, None)], 0)]);
    world.submit(vec![array(vec![after(Kind::AfterAny, 0, None)], 0)]);
    assert_eq!(world.change(change(Change::Hold, &[0])), []);
    assert_eq!(world.change(change(Change::Cancel, &[0])), []);
    assert!((count..2 * count).all(|job| world.phase(job) == Phase::Ended(JobEnd::Cancelled)));
    let counts = world.dispatcher.engine.state().counts();
    assert_eq!((counts.running, counts.waiting), (1, count - 1), "after any end the third may run");
}
