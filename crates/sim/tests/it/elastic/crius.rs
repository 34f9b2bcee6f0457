//! What Crius does, and what its variants never do.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wharf_core::{ClusterSpec, Gang, JobId, JobSpec, NodeId, NodeShare, Time};
use wharf_perf::Profile;
use wharf_sim::{Outcome, Preset, Recorder, RunSpec, Settings, run};
use wharf_trace::Trace;

use crate::elastic::scenarios::{cluster, job, profile};

/// One start: when, on what type, and so many devices on each node. `is_moved` where it ran elsewhere until that moment.
struct Stay {
    at_s: f64,
    kind: String,
    spots: BTreeMap<NodeId, u32>,
    is_moved: bool,
}

impl Stay {
    fn count(&self) -> u32 {
        self.spots.values().sum()
    }
}

struct Diary<'a> {
    cluster: &'a ClusterSpec,
    stays: BTreeMap<JobId, Vec<Stay>>,
    left: BTreeMap<JobId, Time>,
}

impl Recorder for Diary<'_> {
    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], _group: &[JobId]) {
        let kind = self.cluster.nodes[placement[0].node.index()].device_type.to_string();
        let spots = placement.iter().map(|share| (share.node, share.devices.len())).collect();
        let is_moved = self.left.get(&job) == Some(&time);
        let stay = Stay { at_s: time.seconds(), kind, spots, is_moved };
        self.stays.entry(job).or_default().push(stay);
    }

    fn preempted(&mut self, time: Time, job: JobId) {
        self.left.insert(job, time);
    }
}

fn simulate(
    variant: &str,
    cluster: &ClusterSpec,
    jobs: &[JobSpec],
    profile: &Profile,
) -> (Outcome, BTreeMap<JobId, Vec<Stay>>) {
    let preset = Preset::load("wharf").expect("built in");
    let mut words = variant.split(' ');
    let policy = words.next().expect("a policy");
    let settings = Settings::parse(words).expect("key=value");
    let trace = Trace { name: "crius".into(), jobs: jobs.to_vec() };
    let spec = RunSpec {
        trace: &trace,
        cluster,
        policy,
        preset: &preset,
        settings: &settings,
        seed: 5,
        profile: Some(profile),
        rounds: None,
        failures: None,
    };
    let mut diary = Diary { cluster, stays: BTreeMap::new(), left: BTreeMap::new() };
    let outcome = run(&spec, &mut diary).expect("a run");
    (outcome, diary.stays)
}

/// A job's starts as `seconds type x devices`.
fn starts(stays: &BTreeMap<JobId, Vec<Stay>>, job: u32) -> Vec<String> {
    let told = |stay: &Stay| format!("{} {}x{}", stay.at_s, stay.kind, stay.count());
    stays.get(&JobId(job)).map_or(Vec::new(), |stays| stays.iter().map(told).collect())
}

fn on(job: JobSpec, types: &[&str]) -> JobSpec {
    let gang = Gang { device_types: types.iter().map(|&name| name.into()).collect(), ..job.gang };
    JobSpec { gang, ..job }
}

#[test]
fn running_jobs_make_room_for_one_that_comes_and_grow_again() {
    let profile = profile(&[("a", 1.0), ("b", 3.0)]);
    let one = cluster(&[("a", 1, 4)]);
    let two = cluster(&[("a", 1, 4), ("b", 1, 4)]);
    let long = || job("0", 0.0, 1, 4, 40_000.0);
    let short = || job("1", 1000.0, 2, 2, 2000.0);
    // It shrinks for a job that comes, and has all devices again when that is done.
    let (_, stays) = simulate("crius", &one, &[long(), short()], &profile);
    assert_eq!(starts(&stays, 0), ["0 ax4", "1000 ax2", "2030 ax4"]);
    assert_eq!(starts(&stays, 1), ["1000 ax2"]);
    // It changes its type for one that can run on that type only.
    let only = on(job("1", 1000.0, 4, 4, 6000.0), &["b"]);
    let (_, stays) = simulate("crius", &two, &[long(), only.clone()], &profile);
    assert_eq!(starts(&stays, 0)[..2], ["0 bx4", "1000 ax4"]);
    assert_eq!(starts(&stays, 1), ["1000 bx4"]);
    // Where types may not be changed, it waits meanwhile, or the other does.
    let (_, stays) = simulate("crius-nh", &two, &[long(), only], &profile);
    assert!(starts(&stays, 0).iter().all(|start| start.contains("bx")), "{:?}", starts(&stays, 0));
}

#[test]
fn moves_pay_for_their_restarts() {
    let profile = profile(&[("a", 1.0), ("b", 1.05)]);
    let cluster = cluster(&[("a", 1, 1), ("b", 1, 1)]);
    let jobs = |left_s: f64| {
        let first = on(job("0", 0.0, 1, 1, 100.0), &["b"]);
        [first, job("1", 0.0, 1, 1, 100.0 + left_s)]
    };
    // Five percent of what is left: more than thirty seconds, or less.
    for (left_s, is_moved) in [(3000.0, true), (300.0, false)] {
        let (_, stays) = simulate("crius restart_horizon_s=100000", &cluster, &jobs(left_s), &profile);
        let moves = starts(&stays, 1).len() > 1;
        assert_eq!(moves, is_moved, "{left_s}: {:?}", starts(&stays, 1));
    }
}

#[test]
fn later_jobs_run_out_of_turn_only_where_that_is_allowed() {
    let profile = profile(&[("a", 1.0)]);
    let cluster = cluster(&[("a", 1, 4)]);
    // Two devices are free; the first of those that wait needs all four and would be done soonest.
    let jobs = [job("0", 0.0, 2, 2, 20_000.0), job("1", 100.0, 4, 4, 400.0), job("2", 200.0, 1, 1, 30_000.0)];
    let (_, stays) = simulate("crius min_run_s=1000000", &cluster, &jobs, &profile);
    assert_eq!(starts(&stays, 2), ["200 ax1"]);
    let (_, stays) = simulate("crius-no min_run_s=1000000", &cluster, &jobs, &profile);
    assert!(stays[&JobId(2)][0].at_s >= stays[&JobId(1)][0].at_s, "{:?}", starts(&stays, 2));
    // What is lent is given back.
    let lent = [job("0", 0.0, 2, 2, 20_000.0), job("1", 100.0, 4, 4, 400.0)];
    let (outcome, stays) = simulate("crius", &cluster, &lent, &profile);
    assert_eq!(starts(&stays, 1), ["100 ax4"]);
    assert_eq!(outcome.jobs[0].preemptions, 1);
}

fn jobs_strategy() -> impl Strategy<Value = Vec<JobSpec>> {
    let gang = prop::sample::select(vec![(1, 1), (1, 4), (2, 8), (1, 8), (4, 4), (2, 2)]);
    let types = prop::sample::select(vec![&[][..], &["a"], &["b", "a"], &["a", Gang::OTHERS]]);
    let row = (gang, 0..20_u32, 1..60_u32, types, prop::option::of(1..90_u32));
    prop::collection::vec(row, 1..25).prop_map(|rows| {
        let mut jobs: Vec<JobSpec> = rows
            .into_iter()
            .map(|((min, max), submit, length, types, deadline)| {
                let submit_s = f64::from(submit) * 120.0;
                let mut job = on(job("", submit_s, min, max, f64::from(length) * 100.0), types);
                job.deadline = deadline.map(|minutes| job.submit.plus(60.0 * f64::from(minutes)));
                job
            })
            .collect();
        jobs.sort_by_key(|job| job.submit);
        for (index, job) in jobs.iter_mut().enumerate() {
            job.name = index.to_string().into();
        }
        jobs
    })
}

/// Whether one of two places is a part of the other, node by node.
fn is_in_place(one: &Stay, other: &Stay) -> bool {
    let within = |few: &Stay, many: &Stay| few.spots.keys().all(|node| many.spots.contains_key(node));
    within(one, other) || within(other, one)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn variants_never_do_what_they_forbid(jobs in jobs_strategy()) {
        let cluster = cluster(&[("a", 3, 4), ("b", 2, 8)]);
        let profile = profile(&[("a", 1.0), ("b", 2.0)]);
        for variant in ["crius-ns", "crius-nh", "crius-nm", "crius-ddl"] {
            let (outcome, stays) = simulate(variant, &cluster, &jobs, &profile);
            for (job, stays) in &stays {
                for pair in stays.windows(2) {
                    let (one, other) = (&pair[0], &pair[1]);
                    let is_kept = match variant {
                        "crius-ns" => one.count() == other.count(),
                        "crius-nh" => one.kind == other.kind,
                        "crius-nm" => !other.is_moved || one.kind != other.kind || is_in_place(one, other),
                        _ => true,
                    };
                    prop_assert!(is_kept, "{variant}: {job} at {}", other.at_s);
                }
                if let Some(deadline) = jobs[job.index()].deadline.filter(|_| variant == "crius-ddl") {
                    let end = outcome.jobs[job.index()].end;
                    prop_assert!(end.is_some_and(|end| end <= deadline), "{job}: {end:?} after {deadline}");
                }
            }
        }
    }
}
