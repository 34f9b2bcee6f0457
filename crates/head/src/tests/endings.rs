//! How runs end: at time limits, early, and what their checkpoint directories are.

use wharf_core::{ClusterSpec, JobEnd, JobId, Phase, Time};
use wharf_proto::{Cause, Checkpoint, Gang, JobSpec, TaskEnded, TaskId, TaskProgress, from_worker};

use super::virtual_cluster::{VirtualCluster, input, regime};
use crate::query::views;

fn world(folder: &tempfile::TempDir) -> VirtualCluster {
    let cluster = ClusterSpec::uniform("v100", 1, 4);
    VirtualCluster::new(&folder.path().join("journal.sqlite"), &cluster, regime("fifo", 0))
}

fn job() -> JobSpec {
    let (command, workdir) = (vec!["train".to_owned()], "/data/ann".to_owned());
    let gang = Some(Gang { devices: 4, ..Gang::default() });
    JobSpec { name: "train".into(), user: "ann".into(), gang, command, workdir, ..JobSpec::default() }
}

fn report(world: &mut VirtualCluster, generation: u32, iterations: f64, checkpointed: f64, total: f64) {
    let task = Some(TaskId { job_id: 0, generation });
    let progress = TaskProgress { task, iterations, checkpointed, total, ..TaskProgress::default() };
    world.step([input((0, from_worker::Message::Progress(progress)))]);
}

/// The worker of a job that was requested to stop states how it ended.
fn stopped(world: &mut VirtualCluster, generation: u32, how: TaskEnded) {
    let task = Some(TaskId { job_id: 0, generation });
    world.late.take();
    world.step([input((0, from_worker::Message::Ended(TaskEnded { task, ..how })))]);
}

#[test]
fn trainer_that_saves_at_its_time_limit_has_timed_out() {
    // What it had done of what it declares; its end when it is stopped; and the result.
    let saved = || TaskEnded { interrupted: true, ..TaskEnded::default() };
    let exits = |exit_code| TaskEnded { exit_code, ..TaskEnded::default() };
    let finished = Phase::Ended(JobEnd::Finished);
    let timed_out = Phase::Ended(JobEnd::TimedOut);
    for (iterations, total, ended, expected) in [
        (51.0, 0.0, saved(), timed_out),
        (5000.0, 0.0, saved(), timed_out),
        (5000.0, 0.0, exits(0), timed_out),
        (51.0, 1000.0, exits(0), timed_out),
        (51.0, 1000.0, exits(143), timed_out),
        (1000.0, 1000.0, exits(0), finished),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut world = world(&folder);
        world.submit(vec![JobSpec { time_limit_s: 5.0, ..job() }]);
        report(&mut world, 1, iterations, 0.0, total);
        world.late = Some(Default::default());
        world.set_time(Time::from_seconds(6.0));
        world.step([]);
        assert_eq!(world.phase(0), Phase::Stopping);
        let what = format!("{iterations} of {total}, {ended:?}");
        stopped(&mut world, 1, ended);
        assert_eq!(world.phase(0), expected, "{what}");
        let summary = views::summary(&world.dispatcher, JobId(0));
        assert_eq!(summary.iterations_done, iterations);
        if expected == timed_out {
            assert_eq!((summary.exit_code, summary.cause()), (124, Cause::TimeLimit));
        }
    }
}

#[test]
fn job_that_asks_for_it_continues_after_its_time_limit() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder);
    world.submit(vec![JobSpec { time_limit_s: 5.0, requeue_at_limit: true, ..job() }]);
    let mut at_s = 0.0;
    let mut limit = |world: &mut VirtualCluster, generation, checkpointed| {
        report(world, generation, checkpointed, 0.0, 0.0);
        world.late = Some(Default::default());
        at_s += 6.0;
        world.set_time(Time::from_seconds(at_s));
        world.step([]);
        assert_eq!(world.phase(0), Phase::Stopping);
        report(world, generation, checkpointed, checkpointed, 0.0);
        stopped(world, generation, TaskEnded { interrupted: true, ..TaskEnded::default() });
    };
    limit(&mut world, 1, 10.0);
    assert_eq!(world.phase(0), Phase::Running);
    let summary = views::summary(&world.dispatcher, JobId(0));
    assert_eq!((summary.restarts, summary.preemptions, summary.cause()), (1, 0, Cause::NoCause));
    assert_eq!(world.launches.last().unwrap().iterations_done, 10.0);
    limit(&mut world, 2, 20.0);
    assert_eq!(world.phase(0), Phase::Running);
    // From now on it gets nowhere: once more, in case it was just slow, and then it has ended.
    limit(&mut world, 3, 20.0);
    assert_eq!(world.phase(0), Phase::Running);
    limit(&mut world, 4, 20.0);
    assert_eq!(world.phase(0), Phase::Ended(JobEnd::TimedOut));
}

#[test]
fn job_with_a_resume_code_is_delayed_where_it_saved_nothing_new() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder);
    let checkpoint = Some(Checkpoint { resume_codes: vec![85], ..Checkpoint::default() });
    world.submit(vec![JobSpec { checkpoint, ..job() }]);
    let mut at_s = 0.0;
    let mut wait_s = |world: &mut VirtualCluster, seconds: f64| {
        at_s += seconds;
        world.set_time(Time::from_seconds(at_s));
        world.step([]);
        world.phase(0)
    };
    let resume = |world: &mut VirtualCluster| {
        let ends = world.exit(JobId(0), 85);
        world.step(ends);
        world.phase(0)
    };
    // One that gets on is resumed at once.
    for generation in [1, 2, 3] {
        let saved = 10.0 * f64::from(generation);
        report(&mut world, generation, saved, saved, 0.0);
        assert_eq!(resume(&mut world), Phase::Running);
        assert_eq!(world.launches.last().unwrap().iterations_done, saved);
    }
    // One that does not waits, twice as long each time.
    for (generation, delay_s) in [(4, 1.0), (5, 2.0), (6, 4.0)] {
        report(&mut world, generation, 31.0, 30.0, 0.0);
        assert_eq!(resume(&mut world), Phase::Held, "run {generation}");
        let text = format!("continues in {delay_s:.0} s after exit code 85 on ");
        let explained = views::explain(&world.dispatcher, JobId(0));
        assert!(explained.starts_with(&text), "{explained}");
        assert_eq!(wait_s(&mut world, delay_s - 0.1), Phase::Held, "run {generation}");
        assert_eq!(wait_s(&mut world, 0.2), Phase::Running, "run {generation}");
    }
    report(&mut world, 7, 40.0, 40.0, 0.0);
    assert_eq!(resume(&mut world), Phase::Running, "it gets on again");
    report(&mut world, 8, 40.0, 40.0, 0.0);
    assert_eq!(resume(&mut world), Phase::Held);
    assert_eq!(wait_s(&mut world, 1.1), Phase::Running, "and the count began anew");
    // One that runs for long is resumed at once also where it reports no checkpoint.
    assert_eq!(resume(&mut world), Phase::Held);
    assert_eq!(wait_s(&mut world, 2.1), Phase::Running);
    assert_eq!(wait_s(&mut world, 59.0), Phase::Running);
    assert_eq!(resume(&mut world), Phase::Held, "still soon");
    assert_eq!(wait_s(&mut world, 4.1), Phase::Running);
    for _ in 0..3 {
        assert_eq!(wait_s(&mut world, 60.0), Phase::Running);
        assert_eq!(resume(&mut world), Phase::Running);
    }
    assert_eq!(resume(&mut world), Phase::Held);
    assert_eq!(wait_s(&mut world, 1.1), Phase::Running, "and the count began anew");
    let ends = world.exit(JobId(0), 0);
    world.step(ends);
    assert_eq!(world.phase(0), Phase::Ended(JobEnd::Finished));
}

#[test]
fn early_end_is_shown_as_it_was_reported() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    let mut world = world(&folder);
    world.submit(vec![job()]);
    report(&mut world, 1, 51.0, 0.0, 1000.0);
    let ends = world.exit(JobId(0), 0);
    world.step(ends);
    let check = |world: &VirtualCluster| {
        let summary = views::summary(&world.dispatcher, JobId(0));
        assert_eq!((summary.iterations_done, summary.iterations), (51.0, 1000.0));
        assert_eq!(summary.reason, "ended after 51 of 1000 iterations");
        let explained = views::explain(&world.dispatcher, JobId(0));
        assert_eq!(explained, "it is finished: ended after 51 of 1000 iterations");
    };
    check(&world);
    drop(world);
    let cluster = ClusterSpec::uniform("v100", 1, 4);
    check(&VirtualCluster::new(&journal, &cluster, regime("fifo", 0)));
}

#[test]
fn checkpoint_directories_are_the_jobs_own_and_stay_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder);
    let gang = Some(Gang { devices: 1, ..Gang::default() });
    let one = JobSpec { gang: gang.clone(), ..job() };
    world.submit(vec![one.clone()]);
    world.submit(vec![one.clone()]);
    world.submit(vec![JobSpec { array: vec![3, 5], ..one.clone() }]);
    let dirs = |world: &VirtualCluster| -> Vec<(String, bool)> {
        let launches = world.launches.iter();
        launches.map(|launch| (launch.checkpoint_dir.clone(), launch.is_default_checkpoint)).collect()
    };
    let name = |number: &str| (format!("/data/ann/.wharf/checkpoints/{number}-1700000000000"), true);
    assert_eq!(dirs(&world), [name("0"), name("1"), name("2_3"), name("2_5")]);
    let ends = world.interrupt(JobId(1), 7.0);
    world.set_time(Time::from_seconds(100.0));
    world.step(ends);
    assert_eq!(dirs(&world).last(), Some(&name("1")), "after it was requeued");
    assert_eq!(views::detail(&world.dispatcher, JobId(3)).unwrap().checkpoint_dir, name("2_5").0);

    world.dispatcher.jobs.checkpoints.root = "/scratch/%u/ckpt".to_owned();
    let ends = world.exit(JobId(0), 0);
    world.step(ends);
    world.submit(vec![one.clone()]);
    assert_eq!(dirs(&world).last().unwrap().0, "/scratch/ann/ckpt/4-1700000100000");
    let ends = world.exit(JobId(1), 0);
    world.step(ends);
    let checkpoint = Some(Checkpoint { dir: "/models/%x-%j".into(), ..Checkpoint::default() });
    world.submit(vec![JobSpec { checkpoint, ..one }]);
    assert_eq!(dirs(&world).last(), Some(&("/models/train-5".to_owned(), false)));
    // Those that the head chose are removed in time, by a worker that knows them.
    let released: Vec<String> = world.released.iter().map(|released| released.dir.clone()).collect();
    assert_eq!(released, ["/scratch/ann/ckpt/0-1700000000000", "/scratch/ann/ckpt/1-1700000000000"]);
    let ends = world.exit(JobId(5), 0);
    world.step(ends);
    assert_eq!(world.released.len(), 2);
}
