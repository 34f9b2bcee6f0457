//! Jobs that make no progress any more, and nodes that do not answer.

use wharf_core::{ClusterSpec, JobEnd, JobId, Phase, Time};
use wharf_proto::{
    Cause, Gang, JobSpec, OnStall, StoppedProcess, TaskId, TaskInspected, TaskProgress, from_worker,
};

use super::virtual_cluster::{VirtualCluster, input, regime};
use crate::dispatcher::Input;
use crate::query::views;

fn world(folder: &tempfile::TempDir, on_stall: OnStall, timeout_s: Option<f64>) -> VirtualCluster {
    let cluster = ClusterSpec::uniform("v100", 2, 4);
    let mut world = VirtualCluster::new(&folder.path().join("journal.sqlite"), &cluster, regime("fifo", 0));
    let gang = Some(Gang { devices: 8, ..Gang::default() });
    let (name, command) = ("train".to_owned(), vec!["train".to_owned()]);
    let (on_stall, stall_timeout_s) = (on_stall.into(), timeout_s);
    world.submit(vec![JobSpec { name, command, gang, on_stall, stall_timeout_s, ..JobSpec::default() }]);
    world
}

fn at(world: &mut VirtualCluster, time_s: f64) {
    world.set_time(Time::from_seconds(time_s));
    world.step([]);
}

fn report(world: &mut VirtualCluster, time_s: f64, generation: u32, session: u64, iterations: f64) {
    world.set_time(Time::from_seconds(time_s));
    let task = Some(TaskId { job_id: 0, generation });
    let progress = TaskProgress { task, iterations, ..TaskProgress::default() };
    world.step([input((session, from_worker::Message::Progress(progress)))]);
}

fn explained(world: &VirtualCluster) -> String {
    views::explain(&world.dispatcher, JobId(0))
}

#[test]
fn stopped_rank_is_named_when_the_job_stalls() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, OnStall::StallReport, Some(45.0));
    for session in 0..2 {
        report(&mut world, 1.0, 1, session, 10.0);
    }
    at(&mut world, 45.0);
    assert_eq!(explained(&world), "it runs");
    at(&mut world, 46.0);
    assert_eq!(world.inspections, 2, "both workers are asked");
    let task = Some(TaskId { job_id: 0, generation: 1 });
    let stopped = vec![StoppedProcess { pid: 77, rank: Some(1) }];
    world.step([input((1, from_worker::Message::Inspected(TaskInspected { task, stopped })))]);
    let text = "no progress for 45 s: rank 1 on n1 is stopped (process 77)";
    let name =
        world.dispatcher.node_name(world.dispatcher.tasks.execution(JobId(0)).unwrap().tasks[1].share.node);
    let text = text.replace("n1", &name);
    assert_eq!(explained(&world), format!("it runs; {text}"));
    assert_eq!(views::summary(&world.dispatcher, JobId(0)).reason, text);
    at(&mut world, 50.0);
    assert_eq!(stalls_in_history(&world), 1);
    // It gets on.
    for session in 0..2 {
        report(&mut world, 51.0, 1, session, 11.0);
    }
    inspected(&mut world, 51.0, 1, &[]);
    assert_eq!(explained(&world), "it runs");
    assert_eq!(world.phase(0), Phase::Running);
}

/// A worker reports the stopped processes of its task.
fn inspected(world: &mut VirtualCluster, time_s: f64, session: u64, pids: &[u32]) {
    world.set_time(Time::from_seconds(time_s));
    let task = Some(TaskId { job_id: 0, generation: 1 });
    let rank = u32::try_from(session).ok();
    let stopped = pids.iter().map(|&pid| StoppedProcess { pid, rank }).collect();
    world.step([input((session, from_worker::Message::Inspected(TaskInspected { task, stopped })))]);
}

fn stalls_in_history(world: &VirtualCluster) -> usize {
    let history = views::detail(&world.dispatcher, JobId(0)).unwrap().history;
    history.iter().filter(|entry| entry.what.contains("job_stalled")).count()
}

#[test]
fn rank_without_progress_is_reported_while_others_continue() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, OnStall::StallReport, Some(45.0));
    let name =
        world.dispatcher.node_name(world.dispatcher.tasks.execution(JobId(0)).unwrap().tasks[1].share.node);
    for second in 1..=100_u32 {
        let time_s = f64::from(second);
        report(&mut world, time_s, 1, 0, time_s);
        // The other rank stops after 10 s and continues after 80 s.
        if second <= 10 || second >= 80 {
            report(&mut world, time_s, 1, 1, time_s);
        }
        let text = format!("it runs; no progress for {} s: rank 1 on {name}", second.saturating_sub(10));
        let is_stalled = (55..80).contains(&second);
        // It is noticed at the next look at all jobs.
        let expected = if is_stalled { text.as_str() } else { "it runs" };
        if second != 55 {
            assert_eq!(explained(&world), expected, "at {second} s");
        }
    }
    assert_eq!(stalls_in_history(&world), 1);
}

#[test]
fn rank_that_does_not_report_or_has_done_everything_is_no_stall() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, OnStall::StallFail, Some(45.0));
    // The other rank reports only that it began.
    report(&mut world, 1.0, 1, 1, 0.0);
    for second in 2..=200_u32 {
        report(&mut world, f64::from(second), 1, 0, f64::from(second));
        assert_eq!(explained(&world), "it runs", "at {second} s");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut world = self::world(&folder, OnStall::StallFail, Some(45.0));
    let task = Some(TaskId { job_id: 0, generation: 1 });
    for second in 1..=200_u32 {
        let done = |most: f64| f64::from(second).min(most);
        for (session, iterations) in [(0, done(300.0)), (1, done(20.0))] {
            world.set_time(Time::from_seconds(f64::from(second)));
            // The faster one has made all of its iterations.
            let iterations = if session == 1 && second >= 20 { 300.0 } else { iterations };
            let progress = TaskProgress { task, iterations, total: 300.0, ..TaskProgress::default() };
            world.step([input((session, from_worker::Message::Progress(progress)))]);
        }
        assert_eq!(explained(&world), "it runs", "at {second} s");
    }
    assert_eq!(world.phase(0), Phase::Running);
}

#[test]
fn stopped_process_of_a_rank_that_does_not_report_is_reported_and_acted_on() {
    for on_stall in [OnStall::StallReport, OnStall::StallRestart] {
        let folder = tempfile::tempdir().unwrap();
        let mut world = world(&folder, on_stall, Some(45.0));
        let name = world
            .dispatcher
            .node_name(world.dispatcher.tasks.execution(JobId(0)).unwrap().tasks[1].share.node);
        for second in 1..=70_u32 {
            let time_s = f64::from(second);
            let generation = world.launches.last().unwrap().task.unwrap().generation;
            report(&mut world, time_s, generation, 0, time_s);
            // Stopped for a moment, and later for good.
            if second % 5 == 0 {
                inspected(&mut world, time_s, 1, if second == 10 { &[] } else { &[77] });
            }
            if second < 60 {
                assert_eq!(explained(&world), "it runs", "at {second} s");
            }
        }
        if on_stall == OnStall::StallRestart {
            assert_eq!(world.launches.last().unwrap().task.unwrap().generation, 2);
            continue;
        }
        let text = format!("no progress for 55 s: rank 1 on {name} is stopped (process 77)");
        assert_eq!(explained(&world), format!("it runs; {text}"));
        assert_eq!(stalls_in_history(&world), 1);
        inspected(&mut world, 70.5, 1, &[]);
        assert_eq!(explained(&world), "it runs");
    }
}

#[test]
fn stopped_process_that_is_not_reported_again_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, OnStall::StallRestart, Some(45.0));
    for second in 1..=200_u32 {
        let time_s = f64::from(second);
        report(&mut world, time_s, 1, 0, time_s);
        // Not long enough, and then its worker is replaced by one that does not report it.
        if second % 5 == 0 && second <= 30 {
            inspected(&mut world, time_s, 1, &[77]);
        }
        // A later report does not continue the earlier one.
        if second == 80 {
            inspected(&mut world, time_s, 1, &[77]);
        }
        assert_eq!(explained(&world), "it runs", "at {second} s");
    }
    assert_eq!(stalls_in_history(&world), 0);
    assert_eq!(world.launches.last().unwrap().task.unwrap().generation, 1);
}

#[test]
fn rank_that_reports_rarely_is_no_stall_before_ten_of_its_own_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, OnStall::StallReport, Some(45.0));
    // One rank reports each step, the other one each epoch of 60 s, until it hangs after 300 s.
    for second in 1..=910_u32 {
        let time_s = f64::from(second);
        report(&mut world, time_s, 1, 0, time_s);
        if second % 60 == 0 && second <= 300 {
            report(&mut world, time_s, 1, 1, time_s);
        }
        if second < 900 {
            assert_eq!(explained(&world), "it runs", "at {second} s");
        }
    }
    assert!(
        explained(&world).starts_with("it runs; no progress for 610 s: rank 1 on "),
        "{}",
        explained(&world)
    );
    assert_eq!(stalls_in_history(&world), 1);
}

#[test]
fn stalled_job_is_restarted_or_fails_as_its_owner_wants() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, OnStall::StallRestart, Some(45.0));
    for generation in 1..=5 {
        let begin_s = f64::from(generation) * 100.0;
        report(&mut world, begin_s, generation, 0, f64::from(generation));
        report(&mut world, begin_s, generation, 1, f64::from(generation) - 0.5);
        at(&mut world, begin_s + 46.0);
        assert!(explained(&world).contains("is behind"), "{}", explained(&world));
        at(&mut world, begin_s + 50.0);
        assert_eq!(world.launches.last().unwrap().task.unwrap().generation, generation + 1);
        assert_eq!(world.phase(0), Phase::Running);
    }
    // Often enough.
    report(&mut world, 700.0, 6, 0, 9.0);
    at(&mut world, 746.0);
    at(&mut world, 750.0);
    assert_eq!(world.phase(0), Phase::Ended(JobEnd::Failed { code: 1 }));
    let summary = views::summary(&world.dispatcher, JobId(0));
    assert_eq!(summary.cause(), Cause::Stalled);
    assert!(summary.reason.starts_with("no progress for 5"), "{}", summary.reason);
    assert_eq!(summary.preemptions, 0);

    let folder = tempfile::tempdir().unwrap();
    let mut world = self::world(&folder, OnStall::StallFail, Some(45.0));
    report(&mut world, 1.0, 1, 0, 10.0);
    at(&mut world, 46.0);
    at(&mut world, 50.0);
    assert_eq!(world.phase(0), Phase::Ended(JobEnd::Failed { code: 1 }));
}

#[test]
fn healthy_jobs_with_long_pauses_do_not_stall() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, OnStall::StallRestart, None);
    // Steps of a second, with pauses to compile, to evaluate and to save that are 500 times as long, and later longer ones.
    let (mut time_s, mut step) = (0.0, 0.0);
    for pause_s in [500.0, 500.0, 1500.0, 4500.0] {
        for _ in 0..20 {
            time_s += 1.0;
            step += 1.0;
            report(&mut world, time_s, 1, 0, step);
        }
        let end_s = time_s + pause_s;
        while time_s < end_s {
            time_s += 10.0;
            at(&mut world, time_s);
            assert_eq!(explained(&world), "it runs", "at {time_s} s");
        }
    }
    // One that never reports cannot stall.
    let folder = tempfile::tempdir().unwrap();
    let mut world = self::world(&folder, OnStall::StallFail, Some(5.0));
    at(&mut world, 1e6);
    at(&mut world, 1e6 + 10.0);
    assert_eq!(explained(&world), "it runs");
}

#[test]
fn node_that_is_away_is_named_at_once_and_is_no_stall() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(&folder, OnStall::StallFail, Some(45.0));
    report(&mut world, 1.0, 1, 0, 10.0);
    world.step([Input::Detach { session: 1 }]);
    assert!(explained(&world).contains("does not answer; in "), "{}", explained(&world));
    let reason = views::summary(&world.dispatcher, JobId(0)).reason;
    assert!(reason.contains("does not answer"), "{reason}");
    at(&mut world, 100.0);
    at(&mut world, 110.0);
    assert_eq!(world.phase(0), Phase::Running);
    assert!(!explained(&world).contains("no progress"));
}
