//! Metrics that are NaN or infinite: shown, journaled, and acted upon as the job's owner wants it.

use wharf_core::{ClusterSpec, JobEnd, JobId, Phase};
use wharf_proto::{JobSpec, OnNan, RefusedMetrics, TaskId, TaskProgress, from_worker};

use super::virtual_cluster::{VirtualCluster, input, regime};
use crate::query::views;

fn cluster() -> ClusterSpec {
    ClusterSpec::uniform("v100", 1, 4)
}

fn job(on_nan: OnNan) -> JobSpec {
    JobSpec { command: vec!["train".to_owned()], on_nan: on_nan.into(), ..JobSpec::default() }
}

fn progress(iterations: f64, loss: f64) -> TaskProgress {
    let task = Some(TaskId { job_id: 0, generation: 1 });
    TaskProgress { task, iterations, metrics: [("loss".to_owned(), loss)].into(), ..TaskProgress::default() }
}

#[test]
fn metric_that_is_nan_ends_the_job_as_its_owner_wants() {
    let failed = Phase::Ended(JobEnd::Failed { code: 1 });
    let cases = [
        (OnNan::NanIgnore, Phase::Running, ""),
        (OnNan::NanFail, failed, "metric loss is nan at iteration 7: the job fails (on_nan)"),
        (
            OnNan::NanStop,
            Phase::Ended(JobEnd::Cancelled),
            "metric loss is nan at iteration 7: the job is stopped (on_nan)",
        ),
    ];
    for (on_nan, phase, reason) in cases {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal.sqlite");
        let mut world = VirtualCluster::new(&journal, &cluster(), regime("fifo", 0));
        world.submit(vec![JobSpec { retries: 3, ..job(on_nan) }]);
        world.step([input((0, from_worker::Message::Progress(progress(3.0, 0.5))))]);
        assert_eq!(world.phase(0), Phase::Running, "{on_nan:?}");
        world.step([input((0, from_worker::Message::Progress(progress(7.0, f64::NAN))))]);
        assert_eq!(world.phase(0), phase, "{on_nan:?}");
        let summary = views::summary(&world.dispatcher, JobId(0));
        assert_eq!(summary.reason, reason);
        assert_eq!(summary.remarks, ["metric loss is nan at iteration 7"]);
        assert!(summary.metrics["loss"].is_nan());
    }
}

#[test]
fn last_metrics_and_remarks_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let mut world = VirtualCluster::new(&journal, &cluster(), regime("fifo", 0));
    world.submit(vec![job(OnNan::NanIgnore)]);
    let refused = Some(RefusedMetrics { points: 5, example: "a\u{1b}b".into() });
    let told = TaskProgress { refused, ..progress(9.0, f64::INFINITY) };
    world.step([input((0, from_worker::Message::Progress(told)))]);
    let ends = world.exit(JobId(0), 0);
    world.step(ends);
    let before = views::summary(&world.dispatcher, JobId(0));
    assert_eq!(before.metrics["loss"], f64::INFINITY);
    assert!(
        before.remarks[1].starts_with("metric a\\u{1b}b and perhaps others are not stored"),
        "{:?}",
        before.remarks
    );
    drop(world);
    let world = VirtualCluster::new(&journal, &cluster(), regime("fifo", 0));
    let after = views::summary(&world.dispatcher, JobId(0));
    assert_eq!((after.metrics, after.remarks), (before.metrics, before.remarks));
}
