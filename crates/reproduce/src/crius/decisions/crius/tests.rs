//! The parts of the search on small tables.

use std::sync::Arc;

use super::super::job::{Job, Quota};
use super::super::query::{Lookup, Question, Source, doubling_shapes};
use super::super::site::{Kind, Shape, Site};
use super::super::table::{Owner, Table};
use super::super::world::{Options, World};
use super::super::{Rules, Variant};
use super::judge::Wish;
use super::seek::Seeker;
use super::shuffle::Shuffle;
use super::swaps;

const FAST: Kind = Kind(0);

/// A device of the first type is worth ten, of the second seven; every node after the first costs three.
struct Speeds;

impl Source for Speeds {
    fn throughput(&self, _question: Question, kind: Kind, shape: Shape) -> f64 {
        let each = if kind == FAST { 10.0 } else { 7.0 };
        each * f64::from(shape.devices()) - 3.0 * f64::from(shape.hosts - 1)
    }
}

/// Nodes of two devices.
fn world(fast: usize, slow: usize) -> World {
    let nodes = std::iter::repeat_n(("a100", 2), fast).chain(std::iter::repeat_n(("a40", 2), slow));
    let mut lookup = Lookup::new(2);
    for _ in 0..4 {
        lookup.add(&doubling_shapes(16), &Speeds);
    }
    let options = variant("crius").options(Options::default());
    World::new(Arc::new(Site::new(nodes)), lookup, options)
}

fn job(world: &mut World, workload: u32, devices: u32) -> u32 {
    let quota = Quota::new(FAST, world.site().best(FAST, devices));
    world.jobs.push(Job::new(workload, 1.0, quota, 0.0, 100.0));
    world.jobs.len() as u32 - 1
}

fn variant(name: &str) -> &'static Variant {
    Variant::find(name).expect("a policy")
}

fn rules(name: &str) -> Box<dyn Rules> {
    (variant(name).build)(&Options::default())
}

fn arrive(world: &mut World, rules: &mut dyn Rules, jobs: &[u32]) {
    world.submitted = jobs.to_vec();
    rules.on_arrivals(world);
    world.submitted.clear();
}

fn end(world: &mut World, rules: &mut dyn Rules, job: u32) {
    world.running.retain(|other| *other != job);
    world.ended = vec![job];
    rules.on_ends(world);
    world.ended.clear();
}

/// The owners of all devices of a table, node by node; `.` where idle.
fn shown(table: &Table) -> String {
    let site = table.site();
    let node = |node: u32| -> String {
        let name = |device| table.owner(device).as_job().map_or('.', |job| (b'a' + job as u8) as char);
        site.devices(node).map(name).collect()
    };
    (0..site.node_count()).map(node).collect::<Vec<_>>().join(" ")
}

fn table(world: &World, owners: &str) -> Table {
    let mut table = world.table.clone();
    for (device, owner) in owners.bytes().filter(|byte| *byte != b' ').enumerate() {
        if owner != b'.' {
            table.set(device, true, Owner::job(u32::from(owner - b'a')));
        }
    }
    table
}

#[test]
fn rearranging_brings_idle_devices_together() {
    let world = world(4, 0);
    for (before, devices, rounds, after) in [
        ("a. b. cc cc", 2, Some(1), "ab .. cc cc"),
        ("a. .. bb bb", 2, Some(0), "a. .. bb bb"),
        // A job on both of a pair is merged if it is on no other node.
        ("a. a. cc cc", 2, Some(1), "aa .. cc cc"),
        ("a. a. a. a.", 2, None, "a. a. a. a."),
        ("a. b. cc cc", 4, None, "ab .. cc cc"),
    ] {
        let mut table = table(&world, before);
        let found = Shuffle::default().arrange(&mut table, FAST, devices, 256, None);
        assert_eq!((found, &*shown(&table)), (rounds, after), "{before} for {devices}");
    }
}

#[test]
fn unarrangeable_pair_is_put_back_in_a_copy() {
    let world = world(4, 0);
    let mut table = table(&world, "a. a. a. a.");
    let mut torn = None;
    assert_eq!(Shuffle::default().arrange(&mut table, FAST, 2, 256, Some(&mut torn)), None);
    assert_eq!(shown(&table), "a. a. a. a.");
    assert_eq!(shown(&torn.expect("a pair that was put back")), ".. .. a. a.");
}

#[test]
fn a_place_is_sought_together_and_then_apart() {
    let mut world = world(4, 0);
    for _ in 0..4 {
        job(&mut world, 0, 2);
    }
    let last = Wish::of(&world, 3);
    for (before, devices, after, is_relaxed) in [
        ("a. .. .. bb", 1, "a. d. .. bb", false),
        ("a. a. a. a.", 2, "ad ad a. a.", true),
        ("aa bb bb aa", 2, "aa bb bb aa", false),
    ] {
        let mut table = table(&world, before);
        let found = Seeker::default().seek(&world, &mut table, last.with(FAST, devices), 4096, None);
        assert_eq!((&*shown(&table), found.is_relaxed), (after, is_relaxed), "{before}");
        assert_eq!(found.budget, if is_relaxed { 4096 - 256 } else { 4096 });
    }
}

#[test]
fn room_is_made_by_moving_and_by_halving() {
    let mut world = world(2, 1);
    let mut rules = rules("crius");
    let jobs = [4, 2, 2].map(|devices| job(&mut world, 0, devices));
    arrive(&mut world, &mut *rules, &jobs[..1]);
    assert_eq!(shown(&world.table), "aa aa ..");
    // It asked for the first type and takes the second, because that is to be had.
    arrive(&mut world, &mut *rules, &jobs[1..2]);
    assert_eq!(shown(&world.table), "aa aa bb");
    arrive(&mut world, &mut *rules, &jobs[2..]);
    assert_eq!(shown(&world.table), "cc aa bb");
    assert_eq!(world.job(jobs[0]).quota, Quota::new(FAST, Shape::single(2)));
    // What ends makes room for growing.
    end(&mut world, &mut *rules, jobs[2]);
    assert_eq!(shown(&world.table), "aa aa bb");
    assert!(world.running.len() == 2 && world.pending.is_empty());
}

#[test]
fn later_jobs_run_while_an_earlier_one_waits() {
    let jobs = [(0, 1), (1, 16), (2, 1)];
    // Three steps do not make one device of sixteen, so the large one waits also where jobs may be halved.
    for name in ["crius", "crius-ns"] {
        let (mut world, mut rules) = (world(1, 0), rules(name));
        let jobs = jobs.map(|(workload, devices)| job(&mut world, workload, devices));
        let [first, large, small] = jobs;
        arrive(&mut world, &mut *rules, &jobs);
        assert_eq!(
            (&*world.running, &*world.pending),
            ([first, small].as_slice(), [large].as_slice()),
            "{name}"
        );
        assert!(world.job(small).is_opportunistic && world.job(large).is_blocker);
        end(&mut world, &mut *rules, small);
        assert!(!world.job(large).is_blocker, "nobody runs before it any more");
    }
    let (mut world, mut rules) = (world(1, 0), rules("crius-no"));
    let jobs = jobs.map(|(workload, devices)| job(&mut world, workload, devices));
    arrive(&mut world, &mut *rules, &jobs);
    assert_eq!(world.pending, jobs[1..], "without opportunism no job runs before it");
}

#[test]
fn an_opportunistic_job_gives_way() {
    let mut world = world(2, 0);
    let mut fixed = rules("crius-ns");
    let [first, large, small] =
        [(0, 2), (1, 4), (2, 2)].map(|(workload, devices)| job(&mut world, workload, devices));
    arrive(&mut world, &mut *fixed, &[first, large, small]);
    assert_eq!(shown(&world.table), "aa cc");
    world.job_mut(small).remaining = 60.0;
    end(&mut world, &mut *fixed, first);
    assert_eq!(shown(&world.table), "bb bb");
    assert_eq!((&*world.running, &*world.pending), ([large].as_slice(), [small].as_slice()));
    let state = world.job(small);
    assert_eq!((state.is_opportunistic, state.is_blocker, state.iterations), (false, false, 60.0));
    end(&mut world, &mut *fixed, large);
    assert_eq!(shown(&world.table), "cc ..");
}

#[test]
fn swaps_for_nothing_are_undone() {
    let mut world = world(3, 0);
    for (workload, devices) in [(0, 2), (1, 2), (2, 1)] {
        job(&mut world, workload, devices);
    }
    world.running = vec![0, 1, 2];
    for (before, after, undone) in [
        ("aa c. ..", "c. aa ..", "aa c. .."),
        ("aa bb ..", "bb aa ..", "aa bb .."),
        // A job that is new where the other was goes to where that one is.
        ("aa .. ..", "bb aa ..", "aa bb .."),
    ] {
        world.table = table(&self::world(3, 0), after);
        swaps::undo(&mut world, &table(&self::world(3, 0), before));
        assert_eq!(shown(&world.table), undone, "{before} to {after}");
    }
    // What is out of sight stays where it is.
    let before = table(&self::world(3, 0), "aa .. ..");
    world.table = table(&self::world(3, 0), ".. aa ..");
    world.table.set(0, true, Owner::OUT);
    swaps::undo(&mut world, &before);
    assert_eq!((&*shown(&world.table), world.table.owner(0)), (".. aa ..", Owner::OUT));
}

#[test]
fn a_split_job_is_brought_together_within_its_own_devices() {
    let mut world = world(4, 0);
    let mut rules = rules("crius-ns");
    for workload in 0..3 {
        job(&mut world, workload, 2);
    }
    world.table = table(&world, "a. a. bb cc");
    world.job_mut(0).quota.shape = Shape { hosts: 2, per_host: 1 };
    world.running = vec![0, 1];
    end(&mut world, &mut *rules, 2);
    // The node that has just become idle would have done as well, but is not checked.
    assert_eq!(shown(&world.table), ".. aa bb ..");
    assert_eq!(world.job(0).quota, Quota::new(FAST, Shape::single(2)));
}
