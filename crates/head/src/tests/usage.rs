//! What the journal says was used is what was used: figures against a look at every second.

use std::collections::BTreeMap;

use wharf_core::{ClusterSpec, Command, JobEnd, JobId, Phase, Regime, Time};
use wharf_proto::usage_request::By;
use wharf_proto::{Cause, Gang, JobSpec, TaskEnded, TaskId, TaskState, UsageReply, UsageRequest, UsageRow};

use super::virtual_cluster::{EPOCH_UNIX_S, VirtualCluster, regime};
use crate::journal::Reader;
use crate::query::usage::usage;

/// Seconds of each random history.
const LENGTH: u32 = 150;
const SEEDS: u64 = 24;

/// Seconds of one thing by one property: starting, running, stopping, waiting, held.
type Seconds = [f64; 5];
/// What was seen in each second, by user, account and type.
type Seen = Vec<[BTreeMap<String, Seconds>; 3]>;

/// Random numbers that are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn cluster() -> ClusterSpec {
    let mut cluster = ClusterSpec::uniform("v100", 2, 2);
    cluster.nodes.extend(ClusterSpec::uniform("a40", 2, 2).nodes);
    cluster
}

fn rules() -> Regime {
    regime("srtf", 0)
}

fn job(dice: &mut Dice) -> JobSpec {
    let accounts = ["", "lab", "guests"];
    JobSpec {
        name: "random".to_owned(),
        user: ["ann", "bob"][dice.below(2) as usize].to_owned(),
        account: accounts[dice.below(3) as usize].to_owned(),
        command: vec!["true".to_owned()],
        gang: Some(Gang { devices: 1 + dice.below(3) as u32, ..Gang::default() }),
        iterations: (1 + dice.below(100)) as f64,
        iteration_ms: 1000.0,
        retries: dice.below(3) as u32,
        retry_delay_s: Some(dice.below(4) as f64),
        time_limit_s: if dice.below(5) == 0 { 20.0 } else { 0.0 },
        ..JobSpec::default()
    }
}

/// Lets something happen.
fn act(world: &mut VirtualCluster, dice: &mut Dice) {
    if dice.below(3) == 0 {
        let spec = job(dice);
        world.submit(vec![spec]);
    }
    let count = world.dispatcher.engine.state().next_job().0;
    if count == 0 {
        return;
    }
    let chosen = JobId(dice.below(count.into()) as u32);
    let is_running = world.phase(chosen.0) == Phase::Running && world.runs(chosen);
    let node = wharf_core::NodeId(dice.below(4) as u32);
    let command = match dice.below(16) {
        0 | 1 if is_running => return end(world, chosen, 0, Cause::NoCause),
        2 if is_running => return end(world, chosen, 3, Cause::NoCause),
        3 if is_running => return end(world, chosen, 137, Cause::OutOfMemory),
        4 if is_running => return end(world, chosen, -1, Cause::LostWorker),
        5 => Command::RequeueJob(chosen),
        6 => Command::CancelJob(chosen),
        7 => Command::HoldJob(chosen),
        8 | 9 => Command::ReleaseJob(chosen),
        10 => Command::LoseNode(node),
        11 | 12 => Command::ReturnNode(node),
        13 => return world.catch_up(true),
        14 => return world.catch_up(false),
        _ => return,
    };
    let is_there = world.dispatcher.engine.state().schedule().is_there(node);
    // A node is lost, or comes back, once.
    if matches!(command, Command::ReturnNode(_)) && is_there
        || matches!(command, Command::LoseNode(_)) && !is_there
    {
        return;
    }
    world.dispatcher.engine_command(command);
    world.step([]);
}

fn end(world: &mut VirtualCluster, job: JobId, exit_code: i32, cause: Cause) {
    let is_blameless = cause.is_infrastructure();
    let how = TaskEnded { exit_code, cause: cause.into(), is_blameless, ..TaskEnded::default() };
    let said = world.end(job, &how);
    world.step(said);
}

/// The same head and workers after the head was restarted.
fn restarted(world: VirtualCluster, path: &std::path::Path, now: Time) -> VirtualCluster {
    let mut world = world;
    // So that the journal's last event is from now.
    world.submit(vec![job(&mut Dice(1))]);
    world.catch_up(false);
    let state = world.dispatcher.engine.state();
    let run = |(job, _, life): (JobId, _, &wharf_core::JobState)| {
        let shares = match life.phase {
            Phase::Placed | Phase::Running => state.schedule().placement(job)?,
            Phase::Stopping => life.leaving(),
            _ => return None,
        };
        let sessions: Vec<u64> = shares.iter().map(|share| share.node.0.into()).collect();
        Some((job, life.process_generation(), sessions))
    };
    let runs: Vec<(JobId, u32, Vec<u64>)> = state.jobs().filter_map(run).collect();
    drop(world);
    let has = |session: u64| {
        let here = runs.iter().filter(|(_, _, sessions)| sessions.contains(&session));
        let task = |(job, generation, _): &(JobId, u32, Vec<u64>)| {
            let task = Some(TaskId { job_id: job.0, generation: *generation });
            TaskState { task, ..TaskState::default() }
        };
        here.map(task).collect()
    };
    let mut world = VirtualCluster::after_restart(path, &cluster(), rules(), has);
    world.set_time(now);
    for (job, generation, sessions) in runs {
        world.adopt(job, generation, sessions);
    }
    world
}

/// What each job has and does, for one second.
fn look(world: &VirtualCluster) -> [BTreeMap<String, Seconds>; 3] {
    let mut seen: [BTreeMap<String, Seconds>; 3] = Default::default();
    let state = world.dispatcher.engine.state();
    let named = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    for (job, spec, life) in state.jobs() {
        let (what, shares) = match life.phase {
            Phase::Placed => (0, state.schedule().placement(job).unwrap()),
            Phase::Running => (1, state.schedule().placement(job).unwrap()),
            Phase::Stopping => (2, life.leaving()),
            Phase::Waiting => (3, &[][..]),
            Phase::Held => (4, &[][..]),
            Phase::Ended(_) => continue,
        };
        let devices: u32 = shares.iter().map(|share| share.devices.len()).sum();
        let amount = if what < 3 { f64::from(devices) } else { 1.0 };
        let user = named(spec.user.as_deref().unwrap_or_default());
        let account = named(world.dispatcher.log.state.account(job.0));
        seen[0].entry(user).or_default()[what] += amount;
        seen[1].entry(account).or_default()[what] += amount;
        for share in shares {
            let kind = state.topology().node(share.node).spec.device_type.to_string();
            seen[2].entry(kind).or_default()[what] += f64::from(share.devices.len());
        }
        if what >= 3 {
            seen[2].entry("-".to_owned()).or_default()[what] += 1.0;
        }
    }
    seen
}

fn figures(world: &VirtualCluster, by: By, window: Option<(u32, u32)>) -> UsageReply {
    let reader = Reader::open(world.dispatcher.log.journal.path()).unwrap();
    let at = |seconds: u32| EPOCH_UNIX_S + f64::from(seconds);
    let (since_s, until_s) = window.map(|(since, until)| (at(since), at(until))).unzip();
    let request = UsageRequest { since_s, until_s, by: by.into() };
    usage(&reader, &request, world.now().seconds(), EPOCH_UNIX_S).unwrap()
}

fn assert_same(reply: &UsageReply, seen: &Seen, property: usize, (since, until): (u32, u32), seed: u64) {
    let mut expected: BTreeMap<&str, Seconds> = BTreeMap::new();
    for second in &seen[since as usize..until as usize] {
        for (key, seconds) in &second[property] {
            let sums = expected.entry(key).or_default();
            sums.iter_mut().zip(seconds).for_each(|(sum, more)| *sum += more);
        }
    }
    expected.retain(|_, seconds| seconds.iter().any(|sum| *sum > 0.0));
    let told = |row: &UsageRow| {
        [row.starting_h, row.running_h, row.stopping_h, row.waiting_h, row.held_h].map(|hours| hours * 3600.0)
    };
    let mut found: BTreeMap<&str, Seconds> =
        reply.rows.iter().map(|row| (row.key.as_str(), told(row))).collect();
    found.retain(|_, seconds| seconds.iter().any(|sum| *sum > 1e-6));
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>(),
        "seed {seed}, {since} to {until}"
    );
    for (key, seconds) in &found {
        for (one, other) in seconds.iter().zip(&expected[key]) {
            assert!(
                (one - other).abs() < 1e-6,
                "seed {seed}, {since} to {until}, {key}: {found:?} {expected:?}"
            );
        }
    }
    for row in &reply.rows {
        let parts = row.starting_h + row.running_h + row.stopping_h;
        assert!((row.allocated_h - parts).abs() < 1e-9);
        assert!(row.lost_h <= row.running_h + 1e-9 && row.unwatched_h <= row.running_h + 1e-9, "{row:?}");
    }
}

#[test]
fn figures_are_what_was_seen_through_restarts_and_dropped_events() {
    let mut all = Seconds::default();
    for seed in 0..SEEDS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.sqlite");
        let mut dice = Dice(seed);
        let mut world = VirtualCluster::new(&path, &cluster(), rules());
        let mut seen = Seen::new();
        let restart_at = 40 + dice.below(60) as u32;
        let drop_at = 80 + dice.below(40) as u32;
        let mut known_from = 0;
        for second in 0..LENGTH {
            let now = Time::from_seconds(second.into());
            world.set_time(now);
            world.step([]);
            for _ in 0..dice.below(4) {
                act(&mut world, &mut dice);
            }
            if second == restart_at {
                world = restarted(world, &path, now);
            }
            if seed % 2 == 0 && second == drop_at {
                let dispatcher = &mut world.dispatcher;
                dispatcher.log.journal.history_s = 30.0;
                dispatcher
                    .log
                    .journal
                    .snapshot(dispatcher.engine.state(), &dispatcher.log.state, now)
                    .unwrap();
                known_from = drop_at - 30;
            }
            seen.push(look(&world));
        }
        world.set_time(Time::from_seconds(LENGTH.into()));
        for _ in 0..6 {
            let since = known_from + dice.below((LENGTH - known_from).into()) as u32;
            let until = since + dice.below(u64::from(LENGTH - since) + 1) as u32;
            for (property, by) in [By::User, By::Account, By::Type].into_iter().enumerate() {
                let reply = figures(&world, by, Some((since, until)));
                assert!(reply.known_from_s <= EPOCH_UNIX_S + f64::from(known_from), "seed {seed}");
                assert_same(&reply, &seen, property, (since, until), seed);
            }
        }
        if known_from == 0 {
            assert_ends(&world, seed);
        }
        for seconds in seen.iter().flat_map(|second| second[0].values()) {
            all.iter_mut().zip(seconds).for_each(|(sum, more)| *sum += more);
        }
    }
    assert!(all.iter().all(|seconds| *seconds > 100.0), "there was some of everything: {all:?}");
}

/// How jobs ended and what struck them is what the engine and the head know.
fn assert_ends(world: &VirtualCluster, seed: u64) {
    let state = world.dispatcher.engine.state();
    let ended = |is: fn(JobEnd) -> bool| {
        let ends = state.jobs().filter(|(_, _, life)| matches!(life.phase, Phase::Ended(end) if is(end)));
        ends.count() as u32
    };
    for by in [By::User, By::Job, By::Cause] {
        let total = figures(world, by, None).total.unwrap();
        assert_eq!(total.submitted, state.next_job().0, "seed {seed}");
        assert_eq!(total.finished, ended(|end| end == JobEnd::Finished), "seed {seed}");
        assert_eq!(total.failed, ended(|end| matches!(end, JobEnd::Failed { .. })), "seed {seed}");
        assert_eq!(total.cancelled, ended(|end| end == JobEnd::Cancelled), "seed {seed}");
        assert_eq!(total.timed_out, ended(|end| end == JobEnd::TimedOut), "seed {seed}");
        for cause in Cause::ALL {
            let struck =
                world.dispatcher.log.state.failures.values().map(|struck| struck.count(cause)).sum::<u32>();
            let told = total.interrupted.iter().find(|one| one.cause() == cause).map_or(0, |one| one.count);
            assert_eq!(told, struck, "seed {seed}: {}", cause.word());
        }
    }
}

#[test]
fn idle_and_lost_hours_are_reported_of_the_run_that_had_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = VirtualCluster::new(&folder.path().join("journal.sqlite"), &cluster(), rules());
    let spec = JobSpec { iterations: 1e6, iteration_ms: 1000.0, ..job(&mut Dice(0)) };
    let gang = Some(Gang { devices: 2, ..Gang::default() });
    world.submit(vec![JobSpec { gang, time_limit_s: 0.0, retries: 0, ..spec }]);
    let placed = world.dispatcher.engine.state().schedule().placement(JobId(0)).unwrap()[0];
    let device = |index, used| wharf_proto::Device { index, utilisation: Some(used), ..Default::default() };
    // Unwatched for 10 s, then it works for 20 s, then it does nothing for 30 s.
    for (at, uses) in [(10.0, [0.9, 0.8]), (30.0, [0.0, 0.01])] {
        world.set_time(Time::from_seconds(at));
        let devices = vec![device(0, uses[0]), device(1, uses[1])];
        world.dispatcher.on_devices(placed.node, devices);
        world.step([]);
    }
    world.set_time(Time::from_seconds(60.0));
    let said = world.interrupt(JobId(0), 25.0);
    world.step(said);
    let row = figures(&world, By::User, None).rows.remove(0);
    let seconds = |hours: f64| (hours * 3600.0).round();
    assert_eq!((seconds(row.running_h), seconds(row.idle_h)), (120.0, 60.0));
    assert_eq!(seconds(row.unwatched_h), 20.0);
    assert_eq!(row.lost_h, 0.0, "all that it made was saved");
    assert_eq!(figures(&world, By::Cause, None).rows[0].key, "preemption");

    world.set_time(Time::from_seconds(100.0));
    end(&mut world, JobId(0), -1, Cause::LostWorker);
    let rows = figures(&world, By::Cause, None).rows;
    let lost = rows.iter().find(|row| row.key == "lost-worker").unwrap();
    assert_eq!((seconds(lost.running_h), seconds(lost.lost_h)), (80.0, 80.0), "it saved nothing since");
}
