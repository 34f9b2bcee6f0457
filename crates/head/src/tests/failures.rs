//! Why runs come to their end, and what follows from it.

use wharf_core::{ClusterSpec, Command, JobEnd, JobId, Phase, Time};
use wharf_proto::{Cause, Device, JobSpec, RetryRule, TaskEnded, TaskState, change_node_request};

use super::virtual_cluster::{VirtualCluster, regime};
use crate::dispatcher::Input;
use crate::query::views;

fn cluster() -> ClusterSpec {
    ClusterSpec::uniform("v100", 2, 1)
}

fn journal(folder: &tempfile::TempDir) -> std::path::PathBuf {
    folder.path().join("journal.sqlite")
}

fn world(folder: &tempfile::TempDir) -> VirtualCluster {
    VirtualCluster::new(&journal(folder), &cluster(), regime("fifo", 0))
}

fn job() -> JobSpec {
    JobSpec { name: "train".to_owned(), command: vec!["true".to_owned()], ..JobSpec::default() }
}

fn rules(rules: &[(Cause, u32)]) -> Vec<RetryRule> {
    rules.iter().map(|&(cause, count)| RetryRule { cause: cause.into(), count }).collect()
}

fn ended(exit_code: i32, cause: Cause) -> TaskEnded {
    let is_blameless = cause.is_infrastructure();
    TaskEnded { exit_code, cause: cause.into(), is_blameless, ..TaskEnded::default() }
}

/// Why the last run of a job ended. One that runs again has none.
#[track_caller]
fn cause(world: &VirtualCluster, job: u32) -> &'static str {
    let shown = views::summary(&world.dispatcher, JobId(job)).cause();
    if world.phase(job) != Phase::Running {
        return shown.word();
    }
    assert_eq!(shown, Cause::NoCause);
    world.dispatcher.log.state.failures[&job].cause().word()
}

/// How often each cause has struck.
fn counts(world: &VirtualCluster, job: u32) -> Vec<(&'static str, u32)> {
    let causes = views::summary(&world.dispatcher, JobId(job)).causes;
    causes.iter().map(|one| (one.cause().word(), one.count)).collect()
}

fn explain(world: &VirtualCluster, job: u32) -> String {
    views::explain(&world.dispatcher, JobId(job))
}

fn history(world: &VirtualCluster, job: u32) -> Vec<String> {
    let detail = views::detail(&world.dispatcher, JobId(job)).unwrap();
    detail.history.into_iter().map(|entry| entry.what).filter(|what| what.contains("job_caused")).collect()
}

fn set_time(world: &mut VirtualCluster, seconds: f64) {
    world.set_time(Time::from_seconds(seconds));
    world.step([]);
}

#[test]
fn ends_have_causes() {
    // What the worker says, the job's end, its cause, and the entry in its history.
    let failed = |code| Phase::Ended(JobEnd::Failed { code });
    for (how, phase, expected) in [
        (ended(0, Cause::NoCause), Phase::Ended(JobEnd::Finished), ""),
        (ended(3, Cause::NoCause), failed(3), "user"),
        (ended(127, Cause::LaunchError), failed(127), "launch"),
        (ended(137, Cause::OutOfMemory), failed(137), "out-of-memory"),
        (ended(-1, Cause::LostWorker), Phase::Running, "lost-worker"),
        (ended(-1, Cause::NodeAway), Phase::Running, "node"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut world = world(&folder);
        world.submit(vec![job()]);
        let said = world.end(JobId(0), &how);
        world.step(said);
        assert_eq!((world.phase(0), cause(&world, 0)), (phase, expected), "{how:?}");
        assert_eq!(history(&world, 0).len(), usize::from(!expected.is_empty()), "{how:?}");
    }
}

#[test]
fn orders_to_stop_have_causes() {
    type Act = fn(&mut VirtualCluster);
    let rows: [(&str, Act); 5] = [
        ("request", |world| world.dispatcher.engine_command(Command::RequeueJob(JobId(0)))),
        ("request", |world| world.dispatcher.engine_command(Command::CancelJob(JobId(0)))),
        ("node", |world| {
            let node = world.node("v100-0");
            world.dispatcher.engine_command(Command::LoseNode(node));
        }),
        ("device", |world| {
            let node = world.node("v100-0");
            let broken = Device { problem: "hot".to_owned(), ..Device::default() };
            world.dispatcher.on_devices(node, vec![broken]);
        }),
        ("time-limit", |world| world.set_time(Time::from_seconds(61.0))),
    ];
    for (expected, act) in rows {
        let folder = tempfile::tempdir().unwrap();
        let mut world = world(&folder);
        world.submit(vec![JobSpec { time_limit_s: 60.0, ..job() }]);
        act(&mut world);
        world.step([]);
        assert_eq!(counts(&world, 0), [(expected, 1)]);
        assert_eq!(history(&world, 0).len(), 1);
        assert_eq!(cause(&world, 0), expected);
    }
}

#[test]
fn retries_are_counted_by_cause() {
    // The job's rules, what happens to it one after the other, and whether it still lives.
    let (user, memory, lost) = (Cause::UserError, Cause::OutOfMemory, Cause::LostWorker);
    let plain = || JobSpec { retries: 1, ..job() };
    let ruled = |list: &[(Cause, u32)]| JobSpec { retry: rules(list), retries: 1, ..job() };
    for (spec, causes, lives) in [
        (job(), vec![user], false),
        (plain(), vec![user], true),
        (plain(), vec![user, user], false),
        (plain(), vec![lost, lost, lost, user], true),
        (plain(), vec![memory, user], false),
        (ruled(&[(memory, 0)]), vec![memory], false),
        (ruled(&[(memory, 0)]), vec![user], true),
        (ruled(&[(memory, 1)]), vec![memory, user], true),
        (ruled(&[(lost, 1)]), vec![lost], true),
        (ruled(&[(lost, 1)]), vec![lost, lost], false),
        (ruled(&[(user, 2)]), vec![user, user], true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut world = world(&folder);
        world.submit(vec![JobSpec { retry_delay_s: Some(0.0), ..spec }]);
        for (step, &cause) in causes.iter().enumerate() {
            // Failures of machines long ago are not held against them.
            set_time(&mut world, 10_000.0 * (step + 1) as f64);
            let said = world.end(JobId(0), &ended(1, cause));
            world.step(said);
        }
        assert_eq!(world.phase(0) == Phase::Running, lives, "{causes:?}");
    }
}

#[test]
fn job_that_loses_nodes_too_often_fails_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder);
    world.submit(vec![JobSpec { retry: rules(&[(Cause::NodeAway, 0)]), ..job() }]);
    let node = world.node("v100-0");
    world.dispatcher.engine_command(Command::LoseNode(node));
    world.step([]);
    assert_eq!(world.phase(0), Phase::Ended(JobEnd::Failed { code: 1 }));
    assert_eq!(explain(&world, 0), "it failed after the loss of a node on v100-0");
}

#[test]
fn a_job_that_failed_waits_and_keeps_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = world(&folder);
    // Both devices are taken; the last two wait.
    first.submit(vec![JobSpec { retries: 5, retry_delay_s: Some(10.0), ..job() }, job(), job(), job()]);
    let said = first.end(JobId(0), &ended(3, Cause::NoCause));
    first.step(said);
    assert_eq!(first.phase(0), Phase::Held);
    assert_eq!(first.phase(2), Phase::Running, "it runs in the meantime");
    assert_eq!(explain(&first, 0), "retries in 10 s after exit code 3 on v100-0");
    assert_eq!(first.dispatcher.next_deadline(), Some(Time::from_seconds(10.0)));
    set_time(&mut first, 4.0);
    assert_eq!(explain(&first, 0), "retries in 6 s after exit code 3 on v100-0");
    drop(first);

    let running = |session: u64| {
        let job_id = if session == 0 { 2 } else { 1 };
        let task = wharf_proto::TaskId { job_id, generation: 1 };
        vec![TaskState { task: Some(task), ..TaskState::default() }]
    };
    let mut again = VirtualCluster::after_restart(&journal(&folder), &cluster(), regime("fifo", 0), running);
    assert_eq!(again.phase(0), Phase::Held, "a restart is no reason to hurry");
    set_time(&mut again, 9.0);
    assert_eq!(again.phase(0), Phase::Held);
    set_time(&mut again, 10.0);
    assert_eq!(again.phase(0), Phase::Waiting);
    again.dispatcher.engine_command(Command::CancelJob(JobId(1)));
    again.step([]);
    assert_eq!((again.phase(0), again.phase(3)), (Phase::Running, Phase::Waiting), "it goes first");
}

#[test]
fn release_ends_the_retry_delay() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder);
    world.submit(vec![JobSpec { retries: 5, retry_delay_s: Some(100.0), ..job() }]);
    let said = world.end(JobId(0), &ended(3, Cause::NoCause));
    world.step(said);
    let change = wharf_proto::change_jobs_request::Change::Release.into();
    let request = wharf_proto::ChangeJobsRequest { change, job_ids: vec![0], ..Default::default() };
    assert_eq!(world.change(request), []);
    assert_eq!(world.phase(0), Phase::Running);
    set_time(&mut world, 200.0);
    assert_eq!(world.phase(0), Phase::Running);
}

fn resume(world: &mut VirtualCluster, name: &str) {
    let node = world.node(name);
    let (reply, _answer) = tokio::sync::oneshot::channel();
    assert_eq!(change_node_request::Change::Resume as i32, 2);
    let (command, reason) = (Command::OpenNode(node), String::new());
    world.step([Input::ChangeNode { command, node, reason, reply }]);
}

#[test]
fn a_node_that_fails_different_jobs_is_taken_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder);
    world.submit(vec![job(), job(), job()]);
    let lose = |world: &mut VirtualCluster, seconds: f64| {
        set_time(world, seconds);
        let state = world.dispatcher.engine.state();
        let on_first = state.jobs().map(|(job, _, _)| job).find(|&job| {
            state.job(job).phase == Phase::Running
                && state.schedule().placement(job).is_some_and(|shares| shares[0].node.0 == 0)
        });
        let said = world.end(on_first.unwrap(), &ended(-1, Cause::LostWorker));
        world.step(said);
    };
    lose(&mut world, 10.0);
    // Another one gets a turn there.
    world.dispatcher.engine_command(Command::CancelJob(JobId(0)));
    lose(&mut world, 20.0);
    let health = |world: &VirtualCluster| views::nodes(&world.dispatcher, false)[0].clone();
    assert_eq!(health(&world).reason, "");
    lose(&mut world, 30.0);
    let reason = health(&world).reason;
    assert!(reason.starts_with("taken out: 3 failures within 60 min"), "{reason}");
    assert!(world.dispatcher.engine.state().schedule().is_cordoned(world.node("v100-0")));
    assert!(world.warnings.lock().unwrap()[0].starts_with("node v100-0 is taken out"));
    drop(world);

    let mut again = VirtualCluster::new(&journal(&folder), &ClusterSpec::default(), regime("fifo", 0));
    assert_eq!(health(&again).reason, reason, "a restart does not forget why");
    resume(&mut again, "v100-0");
    assert_eq!(health(&again).reason, "");
    assert!(!again.dispatcher.engine.state().schedule().is_cordoned(again.node("v100-0")));
}

#[test]
fn a_device_that_breaks_again_and_again_stays_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder);
    let node = world.node("v100-0");
    let report = |world: &mut VirtualCluster, problem: &str| {
        let device = Device { problem: problem.to_owned(), ..Device::default() };
        world.dispatcher.on_devices(node, vec![device]);
        world.step([]);
    };
    let is_out = |world: &VirtualCluster| world.dispatcher.engine.state().schedule().broken(node).contains(0);
    for _ in 0..3 {
        report(&mut world, "");
        assert!(!is_out(&world));
        report(&mut world, "fell off the bus");
        assert!(is_out(&world));
    }
    report(&mut world, "");
    assert!(is_out(&world), "it seems well, as it did before");
    let shown = views::nodes(&world.dispatcher, false)[0].device[0].problem.clone();
    assert!(shown.contains("`wharf node resume v100-0`"), "{shown}");
    assert_eq!(world.warnings.lock().unwrap().len(), 1);
    resume(&mut world, "v100-0");
    assert!(!is_out(&world));
}
