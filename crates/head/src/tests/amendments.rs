//! What is changed of jobs after they were submitted: time limits, names, steps; allocations without a holder.

use wharf_core::{ClusterSpec, JobEnd, JobId, Phase};
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{Batch, ChangeJobsRequest, JobSpec, Launcher, StepSummary};

use super::virtual_cluster::{VirtualCluster, regime};
use crate::query::views::detail;

fn change(change: Change) -> ChangeJobsRequest {
    ChangeJobsRequest { change: change.into(), job_ids: vec![0], ..ChangeJobsRequest::default() }
}

/// Lets time pass, and the head do what is due.
fn pass(world: &mut VirtualCluster, seconds: f64) {
    world.set_time(world.now().plus(seconds));
    world.step([]);
}

#[test]
fn limits_names_and_steps_change_and_outlast_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let cluster = ClusterSpec::uniform("v100", 1, 4);
    let mut world = VirtualCluster::new(&journal, &cluster, regime("fifo", 0));
    let job = |name: &str| JobSpec {
        name: name.into(),
        command: vec!["true".into()],
        time_limit_s: 100.0,
        ..JobSpec::default()
    };
    world.submit(vec![job("before")]);
    assert_eq!(world.phase(0), Phase::Running);
    let limit = |time_limit_s| ChangeJobsRequest { time_limit_s, ..change(Change::TimeLimit) };
    assert_eq!(world.change(limit(300.0)), []);
    assert_eq!(world.change(ChangeJobsRequest { name: "after".into(), ..change(Change::Rename) }), []);
    let step =
        StepSummary { id: 2, name: "train".into(), exit_code: 3, end_s: 1.0, ..StepSummary::default() };
    assert_eq!(world.change(ChangeJobsRequest { step: Some(step.clone()), ..change(Change::Step) }), []);
    pass(&mut world, 200.0);
    assert_eq!(world.phase(0), Phase::Running, "it was to end after 100 s before");

    let told = |world: &VirtualCluster| {
        let found = detail(&world.dispatcher, JobId(0)).unwrap();
        let spec = found.spec.unwrap();
        (found.summary.unwrap().name, spec.name, spec.time_limit_s, found.steps)
    };
    let mut expected = ("after".to_owned(), "after".to_owned(), 300.0, vec![step]);
    assert_eq!(told(&world), expected);
    // Less than it has run.
    assert_eq!(world.change(limit(50.0)), []);
    pass(&mut world, 1.0);
    assert_eq!(world.phase(0), Phase::Ended(JobEnd::TimedOut));
    assert_eq!(world.change(limit(500.0)).len(), 1, "it is over");
    drop(world);
    let again = VirtualCluster::new(&journal, &ClusterSpec::default(), regime("fifo", 0));
    expected.2 = 50.0;
    assert_eq!(told(&again), expected);
}

#[test]
fn allocations_without_renewal_are_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let cluster = ClusterSpec::uniform("cpu", 1, 4);
    let mut world = VirtualCluster::new(&journal, &cluster, regime("fifo", 0));
    let batch = Batch { is_allocation: true, lease_s: 30.0, ..Batch::default() };
    world.submit(vec![JobSpec {
        launcher: Launcher::Batch.into(),
        batch: Some(batch),
        ..JobSpec::default()
    }]);
    for _ in 0..4 {
        pass(&mut world, 20.0);
        assert_eq!(world.change(change(Change::Keep)), []);
    }
    assert_eq!(world.phase(0), Phase::Running, "its lease is renewed");
    pass(&mut world, 29.0);
    assert_eq!(world.phase(0), Phase::Running);
    pass(&mut world, 2.0);
    assert_eq!(world.phase(0), Phase::Ended(JobEnd::Cancelled));
    assert_eq!(world.change(change(Change::Keep)).len(), 1, "it is over");
}
