//! Oracles for policies under the default preset: slow, obvious restatements that share nothing with the product, compared with it
//! on random traces.
//!
//! `WHARF_ORACLE_CASES` is the number of traces per policy, `WHARF_ORACLE_FIRST` the seed of the first. A disagreement is reduced to as few jobs as possible and shown as the
//! starts of both sides.

mod crius;
mod elastic;
mod fair;
mod matching;
mod mixed;
mod muri;
mod pairs;
mod place;
mod queue;
mod room;
mod shares;
mod sharing;
mod simplex;
mod themis;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use wharf_core::{ClusterSpec, Gang, JobId, JobSpec, NodeShare, NodeSpec, Time};
use wharf_sim::{FailureList, Preset, Recorder, RunSpec, Settings, run};
use wharf_trace::Trace;

use fair::Fair;
use place::Strategy;
use queue::{Backfill, Order, Queue};
use themis::Themis;
use world::{Job, Node, NodeEvent, Phase, Placement, Rule, Start, World};

/// Seconds between checkpoints, where nodes fail.
const CHECKPOINT_S: f64 = 60.0;

#[derive(Clone, Debug)]
struct Case {
    nodes: Vec<Node>,
    jobs: Vec<Job>,
    failures: Vec<NodeEvent>,
}

/// What a run came to: starts in order, and when each job was done.
#[derive(Clone, Debug)]
struct Schedule {
    starts: Vec<Start>,
    ends: Vec<Option<f64>>,
}

fn cases() -> u64 {
    std::env::var("WHARF_ORACLE_CASES").map_or(60, |text| text.parse().expect("a number of cases"))
}

/// The seed of the first case.
fn first_seed() -> u64 {
    std::env::var("WHARF_ORACLE_FIRST").map_or(0, |text| text.parse().expect("a seed"))
}

fn pick<T: Clone>(rng: &mut ChaCha8Rng, choices: &[T]) -> T {
    choices[rng.random_range(0..choices.len())].clone()
}

/// A small cluster and a trace with bursts, ties, gangs of every size that fits, priorities and, now and then, failures or a second
/// device type.
fn case(seed: u64) -> Case {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let (count, size) = pick(rng, &[(1, 1), (1, 4), (1, 8), (2, 4), (3, 2), (4, 4), (4, 1)]);
    let is_mixed = count == 4 && rng.random_bool(0.4);
    let has_switches = count == 4 && rng.random_bool(0.5);
    let node = |index: usize| Node {
        size,
        kind: if is_mixed && index >= 2 { "beta" } else { "alpha" },
        switch: if has_switches { index as u32 / 2 } else { 0 },
    };
    let nodes: Vec<Node> = (0..count).map(node).collect();
    let together = nodes.iter().filter(|node| (node.kind, node.switch) == (nodes[0].kind, nodes[0].switch));
    let devices_max = together.map(|node| node.size).sum::<usize>();
    let job_count = rng.random_range(1..24);
    let mut submit_s = 0.0;
    let mut jobs = Vec::new();
    for _ in 0..job_count {
        submit_s += pick(rng, &[0.0, 0.0, 0.0, 1.0, 50.0, 50.0, 100.0, 400.0]);
        let types: &[&[&str]] =
            if is_mixed { &[&[], &[], &["beta"], &["alpha"], &["beta", "alpha"]] } else { &[&[]] };
        let devices = match rng.random_range(0..4) {
            0 => devices_max,
            1 => rng.random_range(1..=devices_max),
            _ => rng.random_range(1..=devices_max.min(2)),
        };
        let work_s = pick(rng, &[1.0, 10.0, 10.0, 50.0, 100.0, 100.0, 500.0, 1000.0, 3000.0, 20_000.0]);
        let priority = pick(rng, &[0, 0, 0, 1, -1]);
        let user = (seed as usize + jobs.len() * jobs.len()) % 3;
        jobs.push(Job { submit_s, devices, work_s, priority, user, types: pick(rng, types).to_vec() });
    }
    let mut failures = Vec::new();
    if rng.random_bool(0.2) {
        let mut at_s = 0.0;
        for _ in 0..rng.random_range(1..6) {
            at_s += pick(rng, &[10.0, 100.0, 500.0]);
            let node = rng.random_range(0..count);
            failures.push(NodeEvent { at_s, node, is_up: false });
            at_s += pick(rng, &[5.0, 200.0]);
            failures.push(NodeEvent { at_s, node, is_up: true });
        }
    }
    Case { nodes, jobs, failures }
}

struct Starts(Vec<Start>);

impl Recorder for Starts {
    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], _group: &[JobId]) {
        let share = |share: &NodeShare| {
            (share.node.index(), share.devices.iter().map(|device| device as usize).collect::<BTreeSet<_>>())
        };
        self.0.push((time.seconds(), job.index(), placement.iter().map(share).collect()));
    }
}

/// What the product makes of a case.
fn simulated(case: &Case, policy: &str, settings: &[&str]) -> Schedule {
    let node = |(index, node): (usize, &Node)| NodeSpec {
        name: format!("n{index}").into(),
        switch: node.switch,
        ..ClusterSpec::uniform(node.kind, 1, node.size as u32).nodes.remove(0)
    };
    let cluster = ClusterSpec::of(case.nodes.iter().enumerate().map(node).collect());
    let job = |(index, job): (usize, &Job)| JobSpec {
        priority: job.priority,
        user: Some(format!("u{}", job.user).into()),
        gang: Gang {
            device_types: job.types.iter().map(|&kind| kind.into()).collect(),
            ..Gang::fixed(job.devices as u32)
        },
        ..JobSpec::new(&index.to_string(), Time::from_seconds(job.submit_s), 1, job.work_s, 1000.0)
    };
    let trace = Trace { name: "random".into(), jobs: case.jobs.iter().enumerate().map(job).collect() };
    let mut settings = Settings::parse(settings.iter().copied()).expect("key=value");
    settings.set("spread_slowdown", "0");
    settings.set("switch_slowdown", "0");
    settings.set("checkpoint_interval_s", &CHECKPOINT_S.to_string());
    let change = |event: &NodeEvent| {
        let word = if event.is_up { "up" } else { "down" };
        format!("{},n{},{word}\n", event.at_s, event.node)
    };
    let text = format!("time_s,node,event\n{}", case.failures.iter().map(change).collect::<String>());
    let failures = FailureList::parse("failures.csv", &text, &cluster).expect("valid lines");
    let preset = Preset::load("wharf").expect("built in");
    let spec = RunSpec {
        trace: &trace,
        cluster: &cluster,
        policy,
        preset: &preset,
        settings: &settings,
        seed: 0,
        profile: None,
        rounds: None,
        failures: (!case.failures.is_empty()).then_some(&failures),
    };
    let mut starts = Starts(Vec::new());
    let outcome = run(&spec, &mut starts).unwrap_or_else(|error| panic!("{error}: {case:?}"));
    Schedule { starts: starts.0, ends: outcome.jobs.iter().map(|job| job.end.map(Time::seconds)).collect() }
}

/// What an oracle makes of a case.
fn restated(case: &Case, rule: &mut dyn Rule) -> Schedule {
    let mut world = World::new(&case.jobs, &case.nodes, CHECKPOINT_S);
    world.run(rule, &case.failures);
    let end = |life: &world::Life| if let Phase::Over(time) = life.phase { Some(time) } else { None };
    Schedule { ends: world.lives.iter().map(end).collect(), starts: world.starts }
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-3
}

/// Where devices are drawn at random: as many of the same type.
fn is_alike(nodes: &[Node], one: &Placement, other: &Placement) -> bool {
    let kind = |placement: &Placement| nodes[placement[0].0].kind;
    let count = |placement: &Placement| placement.iter().map(|(_, devices)| devices.len()).sum::<usize>();
    kind(one) == kind(other) && count(one) == count(other)
}

/// Starts of each job, so that the order of those at one moment does not matter.
fn is_equal(a: &Schedule, b: &Schedule, is_same_place: impl Fn(&Placement, &Placement) -> bool) -> bool {
    let of = |schedule: &Schedule, job: usize| -> Vec<(f64, Placement)> {
        let starts = schedule.starts.iter().filter(|start| start.1 == job);
        starts.map(|(time, _, placement)| (*time, placement.clone())).collect()
    };
    (0..a.ends.len()).all(|job| {
        let (one, other) = (of(a, job), of(b, job));
        let is_same = |(one, other): (&(f64, Placement), &(f64, Placement))| {
            is_near(one.0, other.0) && is_same_place(&one.1, &other.1)
        };
        let is_end_same = match (a.ends[job], b.ends[job]) {
            (Some(one), Some(other)) => is_near(one, other),
            (one, other) => one == other,
        };
        one.len() == other.len() && one.iter().zip(&other).all(is_same) && is_end_same
    })
}

/// Both schedules side by side.
fn shown(case: &Case, product: &Schedule, oracle: &Schedule) -> String {
    let mut text = String::new();
    for (index, node) in case.nodes.iter().enumerate() {
        writeln!(text, "node {index}: {} x {}, switch {}", node.size, node.kind, node.switch)
            .expect("a string");
    }
    for (index, job) in case.jobs.iter().enumerate() {
        let Job { submit_s, devices, work_s, priority, user, types } = job;
        writeln!(
            text,
            "job {index}: at {submit_s}, {devices} devices {types:?}, {work_s} s, priority {priority}, user {user}"
        )
        .expect("a string");
    }
    for event in &case.failures {
        writeln!(text, "{event:?}").expect("a string");
    }
    let line = |start: Option<&Start>| {
        start.map_or(String::new(), |(time, job, placement)| format!("{time}: {job} on {placement:?}"))
    };
    writeln!(text, "{:<60} | oracle", "product").expect("a string");
    for index in 0..product.starts.len().max(oracle.starts.len()) {
        let (left, right) = (line(product.starts.get(index)), line(oracle.starts.get(index)));
        writeln!(text, "{left:<60} | {right}").expect("a string");
    }
    writeln!(text, "{:?}\n{:?}", product.ends, oracle.ends).expect("a string");
    text
}

/// Compares a policy with its oracle on random traces.
fn agree(policy: &str, settings: &[&str], rule: impl Fn() -> Box<dyn Rule>) {
    agree_on(case, policy, settings, rule);
}

/// A case whose gangs have 1, 2, 4 or 8 devices: service that is divided by them stays exact, and with it ties.
fn even_case(seed: u64) -> Case {
    let mut case = case(seed);
    for job in &mut case.jobs {
        job.devices = 1 << job.devices.ilog2();
    }
    case
}

/// A case on nodes of eight devices with many gangs of 3, 5, 6 and 7, by which service is not divided exactly.
fn odd_case(seed: u64) -> Case {
    let mut case = case(seed);
    for node in &mut case.nodes {
        node.size = 8;
    }
    for (index, job) in case.jobs.iter_mut().enumerate() {
        job.devices = [7, 3, 1, 7, 5, 2, 6][(seed as usize + index * index) % 7];
    }
    case
}

/// Both schedules of a case, where they differ.
fn difference(
    case: &Case,
    policy: &str,
    settings: &[&str],
    rule: &dyn Fn() -> Box<dyn Rule>,
) -> Option<String> {
    let (product, oracle) = (simulated(case, policy, settings), restated(case, &mut *rule()));
    let is_drawn = settings.contains(&"placement=random");
    let is_same = is_equal(&product, &oracle, |one, other| {
        one == other || is_drawn && is_alike(&case.nodes, one, other)
    });
    (!is_same).then(|| shown(case, &product, &oracle))
}

fn agree_on(case: impl Fn(u64) -> Case, policy: &str, settings: &[&str], rule: impl Fn() -> Box<dyn Rule>) {
    let compare = |case: &Case| difference(case, policy, settings, &rule);
    for seed in first_seed()..first_seed() + cases() {
        let mut case = case(seed);
        let Some(mut text) = compare(&case) else { continue };
        // Without as many jobs and failures as possible.
        let mut index = 0;
        while index < case.jobs.len() + case.failures.len() {
            let mut smaller = case.clone();
            if index < case.jobs.len() {
                smaller.jobs.remove(index);
            } else {
                smaller.failures.remove(index - case.jobs.len());
            }
            match (!smaller.jobs.is_empty()).then(|| compare(&smaller)).flatten() {
                Some(found) => (case, text) = (smaller, found),
                None => index += 1,
            }
        }
        panic!("{policy} {settings:?} disagrees with its oracle, seed {seed}:\n{text}");
    }
}

fn queue(order: Order, backfill: Backfill, strategy: Strategy) -> impl Fn() -> Box<dyn Rule> {
    move || Box::new(Queue { order: order.clone(), backfill, strategy })
}

const STRATEGIES: [(&str, Strategy); 3] = [
    ("placement=consolidated", Strategy::Consolidated),
    ("placement=best-fit", Strategy::BestFit),
    ("placement=topology-aware", Strategy::TopologyAware),
];

#[test]
fn fifo_on_random_traces_agrees_with_its_oracle() {
    for (placement, strategy) in STRATEGIES {
        for (setting, backfill) in [
            ("backfill=off", Backfill::Off),
            ("backfill=greedy", Backfill::Greedy),
            ("backfill=easy", Backfill::Easy),
        ] {
            let order = |age_s| Order::Fifo { age_s };
            agree("fifo", &[placement, setting], queue(order(0.0), backfill, strategy));
            agree("fifo", &[placement, setting, "age_s=75"], queue(order(75.0), backfill, strategy));
        }
    }
}

#[test]
fn random_placement_on_random_traces_starts_jobs_where_enough_devices_of_a_type_are_free() {
    // A failure stops the jobs of a node, which depend on the draw.
    let quiet = |seed| Case { failures: Vec::new(), ..case(seed) };
    for (setting, backfill) in [("backfill=off", Backfill::Off), ("backfill=greedy", Backfill::Greedy)] {
        let rule = queue(Order::Fifo { age_s: 0.0 }, backfill, Strategy::Any);
        agree_on(quiet, "fifo", &["placement=random", setting], rule);
    }
}

#[test]
fn fair_on_random_traces_agrees_with_its_oracle() {
    for (placement, strategy) in STRATEGIES {
        for (half_life_s, ahead_s, weights) in [
            ("604800", "3600", [1.0, 1.37, 0.71]),
            ("0", "100", [1.0, 2.0, 1.0]),
            ("500", "0", [0.43, 1.0, 3.9]),
        ] {
            let settings = [
                placement.to_owned(),
                format!("half_life_s={half_life_s}"),
                format!("ahead_s={ahead_s}"),
                format!("weights=u0={},u1={},u2={}", weights[0], weights[1], weights[2]),
                "reserve_after_s=1e9".to_owned(),
            ];
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            let number = |text: &str| text.parse().expect("a number");
            let (half_life_s, ahead_s) = (number(half_life_s), number(ahead_s));
            agree("fair", &settings, || Box::new(Fair::new(half_life_s, ahead_s, weights, strategy)));
        }
    }
}

#[test]
fn shortest_first_on_random_traces_agrees_with_its_oracle() {
    for (placement, strategy) in STRATEGIES {
        agree("sjf", &[placement], queue(Order::Sjf, Backfill::Greedy, strategy));
        for (policy, by_devices) in [("srtf", false), ("srsf", true)] {
            for (setting, ratio) in [("preempt_ratio=1", 1.0), ("preempt_ratio=2", 2.0)] {
                let order = Order::Shortest { by_devices, ratio };
                agree(policy, &[placement, setting], queue(order, Backfill::Greedy, strategy));
            }
        }
    }
}

#[test]
fn attained_service_on_random_traces_agrees_with_its_oracle() {
    for (placement, strategy) in STRATEGIES {
        for (setting, quantum_s) in [("quantum_s=3600", 3600.0), ("quantum_s=120", 120.0)] {
            let order = Order::Las { quantum_s };
            for case in [even_case, odd_case] {
                agree_on(
                    case,
                    "las",
                    &[placement, setting],
                    queue(order.clone(), Backfill::Greedy, strategy),
                );
            }
        }
        for (settings, limits_s, by_devices) in [
            (vec![], vec![3250.0, 7200.0], true),
            (vec!["queue_limits_s=120:1200"], vec![120.0, 1200.0], true),
            (vec!["queue_limits_s=120:1200", "gputime=off"], vec![120.0, 1200.0], false),
        ] {
            let order = Order::Tiresias { limits_s, by_devices };
            let settings = [vec![placement], settings].concat();
            for case in [case, odd_case] {
                agree_on(case, "tiresias", &settings, queue(order.clone(), Backfill::Greedy, strategy));
            }
        }
    }
}

#[test]
fn las_differences_of_service_below_a_millisecond_count_as_none() {
    // They shrink from one preemption to the next, to less than a millisecond after 20,000 s.
    let settings = ["placement=consolidated", "quantum_s=120"];
    let rule = queue(Order::Las { quantum_s: 120.0 }, Backfill::Greedy, Strategy::Consolidated);
    assert_eq!(difference(&even_case(2612), "las", &settings, &rule), None);
}

#[test]
fn gittins_jobs_that_reach_a_level_within_a_rounding_error_reach_it_together() {
    // At 1144.857 s two jobs with seven devices have had 240 device-seconds; their moments differ in the last bit.
    let order = Order::Gittins { ratio: 1.0, finished_s: Vec::new(), index: Vec::new(), lesson: 0 };
    let rule = queue(order, Backfill::Greedy, Strategy::Consolidated);
    let settings = ["placement=consolidated", "preempt_ratio=1"];
    assert_eq!(difference(&odd_case(398), "gittins", &settings, &rule), None);
}

#[test]
fn events_within_a_rounding_error_are_one_moment() {
    let cases = [
        ("a job ends, and another one that would preempt it reaches a level", 2830, 0),
        ("two jobs reach a level", 272, 1),
        ("a job ends, and one that goes first arrives", 2659, 0),
        ("a checkpoint is complete, and the node fails", 9037, 0),
    ];
    for (what, seed, placement) in cases {
        let (placement, strategy) = STRATEGIES[placement];
        let order = Order::Gittins { ratio: 1.0, finished_s: Vec::new(), index: Vec::new(), lesson: 0 };
        let rule = queue(order, Backfill::Greedy, strategy);
        let settings = [placement, "preempt_ratio=1"];
        assert_eq!(difference(&odd_case(seed), "gittins", &settings, &rule), None, "{what}");
    }
}

#[test]
fn gittins_on_random_traces_agrees_with_its_oracle() {
    for (placement, strategy) in STRATEGIES {
        for (setting, ratio) in [("preempt_ratio=1", 1.0), ("preempt_ratio=2", 2.0)] {
            let order = Order::Gittins { ratio, finished_s: Vec::new(), index: Vec::new(), lesson: 0 };
            for case in [case, odd_case] {
                let rule = queue(order.clone(), Backfill::Greedy, strategy);
                agree_on(case, "gittins", &[placement, setting], rule);
            }
        }
    }
}

#[test]
fn themis_on_random_traces_agrees_with_its_oracle() {
    for (placement, strategy) in STRATEGIES {
        for (settings, lease_s, knob) in [
            (vec![], 1200.0, 0.8),
            (vec!["lease_s=120", "fairness_knob=0"], 120.0, 0.0),
            (vec!["lease_s=90"], 90.0, 0.8),
        ] {
            let settings = [vec![placement], settings].concat();
            agree("themis", &settings, || {
                Box::new(Themis { lease_s, knob, strategy, boundary: None, leases: BTreeMap::new() })
            });
        }
    }
}
