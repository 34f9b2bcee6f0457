//! What they do in particular cases, and that the work adds up where nothing fails.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wharf_core::{ClusterSpec, Gang, JobId, JobSpec, NodeShare, PerfModel, Time, Topology};
use wharf_perf::{Locality, Model, Order, Place, Profile, Sharing, Workload};
use wharf_sim::{Outcome, Preset, Recorder, RunSpec, Settings, run};
use wharf_trace::Trace;

/// A cluster of `type:nodes x devices`.
pub(crate) fn cluster(parts: &[(&str, u32, u32)]) -> ClusterSpec {
    let nodes =
        parts.iter().flat_map(|&(kind, nodes, devices)| ClusterSpec::uniform(kind, nodes, devices).nodes);
    ClusterSpec::of(nodes.collect())
}

/// A job of model `m` that runs on `min` to `max` devices and takes `solo_s` on one.
pub(crate) fn job(name: &str, submit: f64, min: u32, max: u32, solo_s: f64) -> JobSpec {
    let mut job = JobSpec::new(name, Time::from_seconds(submit), min, solo_s, 1000.0);
    job.gang = Gang { devices_max: max, ..Gang::fixed(min) };
    job.model = Some("m".into());
    job
}

/// Speeds of model `m`: so many times as fast on each type, linear in the devices.
pub(crate) fn profile(types: &[(&str, f64)]) -> Profile {
    let mut profile = Profile::default();
    for &(kind, speed) in types {
        for devices in [1, 2, 4, 8, 16] {
            let workload = Workload { model: "m".into(), batch_size: None };
            let place = Place { device_type: kind.into(), devices, locality: Locality::Packed };
            profile.insert(workload, place, speed * f64::from(devices));
        }
    }
    profile
}

/// When a job started, its name, and the type and number of its devices.
type Start = (f64, String, String, u32);

/// What a job runs on, since when.
type Stay = (f64, Vec<NodeShare>);

/// Notes starts, checks devices, and adds up the work of each stay.
struct Watcher<'a> {
    topology: Topology,
    jobs: &'a [JobSpec],
    model: &'a Model,
    running: BTreeMap<JobId, Stay>,
    taken: BTreeMap<(u32, u32), JobId>,
    /// Iterations that each job must have made.
    done: Vec<f64>,
    starts: Vec<Start>,
    errors: Vec<String>,
}

impl<'a> Watcher<'a> {
    fn new(cluster: &ClusterSpec, jobs: &'a [JobSpec], model: &'a Model) -> Self {
        Self {
            topology: Topology::new(cluster),
            jobs,
            model,
            running: BTreeMap::new(),
            taken: BTreeMap::new(),
            done: vec![0.0; jobs.len()],
            starts: Vec::new(),
            errors: Vec::new(),
        }
    }

    fn leave(&mut self, time: Time, job: JobId) {
        let Some((since, placement)) = self.running.remove(&job) else {
            self.errors.push(format!("{job} leaves and does not run"));
            return;
        };
        self.taken.retain(|_, holder| *holder != job);
        let spec = &self.jobs[job.index()];
        let useful_s = time.seconds() - since - self.model.restart_s(spec);
        if useful_s > 0.0 {
            let iteration_s = self.model.iteration_s(&self.topology, spec, &placement, &[]);
            self.done[job.index()] += useful_s / iteration_s;
        }
    }
}

impl Recorder for Watcher<'_> {
    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], _group: &[JobId]) {
        let spec = &self.jobs[job.index()];
        let count: u32 = placement.iter().map(|share| share.devices.len()).sum();
        if !(spec.gang.devices_min..=spec.gang.devices_max).contains(&count) {
            self.errors.push(format!("{job} got {count} devices"));
        }
        let kind = |share: &NodeShare| self.topology.node(share.node).spec.device_type.clone();
        let kinds: Vec<_> = placement.iter().map(kind).collect();
        if kinds.windows(2).any(|pair| pair[0] != pair[1]) {
            self.errors.push(format!("{job} got devices of several types"));
        }
        for share in placement {
            for device in share.devices.iter() {
                if let Some(other) = self.taken.insert((share.node.0, device), job) {
                    self.errors.push(format!("{job} got a device of {other}"));
                }
            }
        }
        self.starts.push((time.seconds(), spec.name.to_string(), kinds[0].to_string(), count));
        self.running.insert(job, (time.seconds(), placement.to_vec()));
    }

    fn preempted(&mut self, time: Time, job: JobId) {
        self.leave(time, job);
    }

    fn finished(&mut self, time: Time, job: JobId) {
        self.leave(time, job);
    }
}

/// Runs a policy, given as `policy` or `policy setting=value ...`; tells the starts.
fn simulate(
    variant: &str,
    cluster: &ClusterSpec,
    jobs: &[JobSpec],
    profile: Option<&Profile>,
) -> Result<(Outcome, Vec<Start>), String> {
    let preset = Preset::load("wharf").expect("built in");
    let rules = preset.rules().expect("it is Wharf's own");
    let mut words = variant.split(' ');
    let policy = words.next().expect("a policy");
    let settings = Settings::parse(words).expect("key=value");
    let rules = rules.with(&settings).expect("numbers");
    let mut model = Model::new(rules.costs, Sharing::None, Order::Best);
    if let Some(profile) = profile {
        model = model.with_profile(profile.clone());
    }
    let trace = Trace { name: "elastic".into(), jobs: jobs.to_vec() };
    let spec = RunSpec {
        trace: &trace,
        cluster,
        policy,
        preset: &preset,
        settings: &settings,
        seed: 5,
        profile,
        rounds: None,
        failures: None,
    };
    let mut watcher = Watcher::new(cluster, jobs, &model);
    let outcome = run(&spec, &mut watcher).map_err(|error| format!("{error:?}"))?;
    if let Some(error) = watcher.errors.first() {
        return Err(error.clone());
    }
    for (record, done) in outcome.jobs.iter().zip(&watcher.done) {
        let wanted = jobs[record.job.index()].iterations;
        if record.end.is_none() || (done - wanted).abs() > 1e-6 * wanted + 1e-6 {
            return Err(format!("{} did {done} of {wanted} iterations: {record:?}", record.job));
        }
    }
    Ok((outcome, watcher.starts))
}

/// The starts of one job: `seconds: count x type`.
fn starts_of(starts: &[Start], name: &str) -> Vec<String> {
    let own = starts.iter().filter(|start| start.1 == name);
    own.map(|(time, _, kind, count)| format!("{time}: {count} x {kind}")).collect()
}

const POLICIES: [&str; 3] = ["sia", "pollux", "pollux types=aware"];

#[test]
fn a_job_gets_more_devices_when_others_leave() {
    let cluster = cluster(&[("gpu", 1, 4)]);
    let jobs =
        [job("long", 0.0, 1, 4, 4000.0), job("short", 0.0, 1, 2, 600.0), job("other", 0.0, 1, 1, 300.0)];
    for policy in POLICIES {
        let (outcome, starts) = simulate(policy, &cluster, &jobs, None).expect(policy);
        let long = starts_of(&starts, "long");
        assert!(long.len() >= 2 && long.last().expect("a start").ends_with("4 x gpu"), "{policy}: {long:?}");
        let rigid = starts_of(&starts, "other");
        assert!(rigid.iter().all(|start| start.ends_with("1 x gpu")), "{policy}: {rigid:?}");
        // On four devices it is done much sooner than on the one that it asks for.
        let jct_s = outcome.jobs[0].jct_s().expect("an end");
        assert!(jct_s < 2600.0, "{policy}: {jct_s}");
    }
}

#[test]
fn a_job_moves_to_the_faster_type_when_that_is_free() {
    let cluster = cluster(&[("slow", 1, 1), ("fast", 1, 1)]);
    let profile = profile(&[("slow", 1.0), ("fast", 4.0)]);
    let jobs = [job("first", 0.0, 1, 1, 2000.0), job("second", 70.0, 1, 1, 8000.0)];
    let (outcome, starts) = simulate("sia", &cluster, &jobs, Some(&profile)).expect("a run");
    let (first, second) = (starts_of(&starts, "first"), starts_of(&starts, "second"));
    assert_eq!(first, ["0: 1 x fast"]);
    assert_eq!(second.first().map(String::as_str), Some("70: 1 x slow"));
    assert_eq!(second.len(), 2, "{second:?}");
    assert!(second[1].ends_with("1 x fast"), "{second:?}");
    // It moves at the first round after the other has left.
    let left = outcome.jobs[0].end.expect("an end").seconds();
    let moved: f64 = second[1].split(':').next().expect("a time").parse().expect("a time");
    assert!(moved >= left && moved <= left + 60.0, "{moved} {left}");
}

#[test]
fn restarts_are_weighed_against_what_they_bring() {
    // Short jobs come and go beside a long one that scales: the more a restart costs, the rarer it is resized.
    let cluster = cluster(&[("gpu", 1, 4)]);
    let mut jobs = vec![job("long", 0.0, 1, 4, 20_000.0)];
    for index in 0..40 {
        jobs.push(job(&format!("short-{index}"), 100.0 + 150.0 * f64::from(index), 1, 1, 60.0));
    }
    let restarts = |restart_s: &str| {
        let variant = format!("sia restart_s={restart_s}");
        let (_, starts) = simulate(&variant, &cluster, &jobs, None).expect("a run");
        starts_of(&starts, "long").len()
    };
    let (cheap, dear) = (restarts("1"), restarts("120"));
    assert!(dear < cheap && dear <= 20, "{dear} starts with dear restarts, {cheap} with cheap ones");
}

#[test]
fn runs_on_any_thread_are_alike() {
    let cluster = cluster(&[("a", 2, 4), ("b", 1, 8)]);
    let profile = profile(&[("a", 1.0), ("b", 2.5)]);
    let jobs: Vec<JobSpec> = (0..30)
        .map(|index| job(&index.to_string(), f64::from(index) * 37.0, 1, 8, 500.0 + 90.0 * f64::from(index)))
        .collect();
    for policy in POLICIES {
        let here = simulate(policy, &cluster, &jobs, Some(&profile)).expect(policy);
        let there = std::thread::scope(|scope| {
            let runs: Vec<_> =
                (0..2).map(|_| scope.spawn(|| simulate(policy, &cluster, &jobs, Some(&profile)))).collect();
            runs.into_iter().map(|run| run.join().expect("no panic").expect(policy)).collect::<Vec<_>>()
        });
        assert!(there.iter().all(|run| *run == here), "{policy}");
        assert!(here.0.tally.rounds > 0, "rounds are told");
    }
}

fn jobs_strategy() -> impl Strategy<Value = Vec<JobSpec>> {
    let gang = prop::sample::select(vec![(1, 1), (1, 4), (2, 8), (1, 16), (4, 4), (3, 5), (8, 16), (2, 2)]);
    let types = prop::sample::select(vec![&[][..], &[], &["b"], &["c", "a"]]);
    prop::collection::vec((gang, 0..15_u32, 1..40_u32, types), 1..40).prop_map(|rows| {
        let mut jobs: Vec<JobSpec> = rows
            .into_iter()
            .map(|((min, max), submit, length, types)| {
                let mut job = job("", f64::from(submit) * 120.0, min, max, f64::from(length) * 100.0);
                job.gang.device_types = types.iter().map(|&name| name.into()).collect();
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn work_adds_up_on_mixed_clusters(jobs in jobs_strategy(), nodes in 2..4_u32) {
        let cluster = cluster(&[("a", nodes, 4), ("b", 2, 8), ("c", 1, 8)]);
        let profile = profile(&[("a", 1.0), ("b", 3.0), ("c", 1.7)]);
        for variant in [
            "sia",
            "sia p=0.5 round_s=120",
            "sia solver_steps=1",
            "sia min_run_s=300",
            "pollux",
            "pollux types=aware generations=5 population=10",
        ] {
            let once = simulate(variant, &cluster, &jobs, Some(&profile));
            prop_assert!(once.is_ok(), "{}: {:?}", variant, once.err());
            prop_assert_eq!(once, simulate(variant, &cluster, &jobs, Some(&profile)));
        }
    }
}
