//! Every policy under Wharf's own rules, watched by a checker that knows nothing of the engine's bookkeeping.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use wharf_core::{
    ClusterSpec, JobId, JobSpec, Needs, NodeId, NodeShare, NodeSpec, Request, StageTimes, Time,
};
use wharf_sim::{Outcome, Preset, Recorder, RunSpec, Settings, run};
use wharf_trace::Trace;

const RESTART_S: f64 = 30.0;
const NODE_SIZE: u32 = 8;

/// What a run looks like from outside, and what was wrong with it.
struct Checker<'a> {
    jobs: &'a [JobSpec],
    cluster: &'a ClusterSpec,
    slots: usize,
    running: BTreeMap<JobId, Vec<NodeShare>>,
    load: BTreeMap<(NodeId, u32), usize>,
    out: Vec<bool>,
    ends: Vec<u32>,
    /// Jobs that shared a device, or were spread over more nodes than they need.
    disturbed: Vec<bool>,
    /// When each running job started, and for how long it must not be stopped; that does not hold if nodes fail.
    since: BTreeMap<JobId, Time>,
    min_run_s: f64,
    last: Time,
    events: Vec<(u64, u32, &'static str)>,
    errors: Vec<String>,
}

impl<'a> Checker<'a> {
    fn new(jobs: &'a [JobSpec], cluster: &'a ClusterSpec, slots: usize, min_run_s: f64) -> Self {
        Self {
            jobs,
            cluster,
            slots,
            min_run_s,
            since: BTreeMap::new(),
            running: BTreeMap::new(),
            load: BTreeMap::new(),
            out: vec![false; cluster.nodes.len()],
            ends: vec![0; jobs.len()],
            disturbed: vec![false; jobs.len()],
            last: Time::ZERO,
            events: Vec::new(),
            errors: Vec::new(),
        }
    }

    fn is_mixed(&self) -> bool {
        self.cluster.nodes.windows(2).any(|pair| pair[0].device_type != pair[1].device_type)
    }

    fn note(&mut self, time: Time, id: u32, what: &'static str) {
        if time < self.last {
            self.errors.push(format!("{what} of {id} at {time:?}, after {:?}", self.last));
        }
        self.last = time;
        self.events.push((time.to_bits(), id, what));
    }

    fn expect(&mut self, is_right: bool, job: JobId, rule: &str) {
        if !is_right {
            self.errors.push(format!("{job} at {:?}: {rule}", self.last));
        }
    }

    fn release(&mut self, job: JobId) {
        for share in self.running.remove(&job).unwrap_or_default() {
            for device in share.devices.iter() {
                if let Some(load) = self.load.get_mut(&(share.node, device)) {
                    *load -= 1;
                }
            }
        }
    }
}

impl Recorder for Checker<'_> {
    fn submitted(&mut self, time: Time, job: JobId) {
        self.note(time, job.0, "submitted");
        self.expect(time == self.jobs[job.index()].submit, job, "submitted at its time");
    }

    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], group: &[JobId]) {
        self.note(time, job.0, "started");
        let gang = self.jobs[job.index()].gang.devices;
        let given: u32 = placement.iter().map(|share| share.devices.len()).sum();
        self.expect(given == gang, job, "its gang is whole");
        self.expect(!self.running.contains_key(&job), job, "it does not run twice");
        self.expect(self.ends[job.index()] == 0, job, "it is not over");
        self.expect(time >= self.jobs[job.index()].submit, job, "it has been submitted");
        for (index, share) in placement.iter().enumerate() {
            self.expect(!self.out[share.node.index()], job, "its nodes work");
            self.expect(
                placement[..index].iter().all(|other| other.node != share.node),
                job,
                "one share per node",
            );
            for device in share.devices.iter() {
                let load = self.load.entry((share.node, device)).or_default();
                *load += 1;
                let is_free = *load <= self.slots;
                self.expect(is_free && device < NODE_SIZE, job, "its devices exist and have a free slot");
            }
        }
        let types = placement.iter().map(|share| &self.cluster.nodes[share.node.index()].device_type);
        let is_of_one_type = types.clone().zip(types.skip(1)).all(|(one, other)| one == other);
        self.expect(is_of_one_type, job, "its devices are of one type");
        let is_spread = placement.len() > gang.div_ceil(NODE_SIZE) as usize;
        self.disturbed[job.index()] |= is_spread;
        if group.len() > 1 {
            for member in group {
                self.disturbed[member.index()] = true;
            }
        }
        self.running.insert(job, placement.to_vec());
        self.since.insert(job, time);
    }

    fn preempted(&mut self, time: Time, job: JobId) {
        self.note(time, job.0, "preempted");
        self.expect(self.running.contains_key(&job), job, "what is stopped runs");
        // Moments within a microsecond are one.
        let has_run = self.since.get(&job).is_some_and(|&since| time.since(since) > self.min_run_s - 1e-6);
        self.expect(has_run, job, "it was left alone for its minimum run time");
        self.release(job);
    }

    fn finished(&mut self, time: Time, job: JobId) {
        self.note(time, job.0, "finished");
        self.expect(self.running.contains_key(&job), job, "what ends runs");
        self.release(job);
        self.ends[job.index()] += 1;
    }

    fn node_lost(&mut self, time: Time, node: NodeId) {
        self.note(time, node.0, "lost");
        self.out[node.index()] = true;
        let is_empty = self.load.iter().all(|(&(other, _), &load)| other != node || load == 0);
        if !is_empty {
            self.errors.push(format!("{node} was lost with jobs on it"));
        }
    }

    fn node_returned(&mut self, time: Time, node: NodeId) {
        self.note(time, node.0, "returned");
        self.out[node.index()] = false;
    }
}

/// All policies with their defaults, and the variants that take other paths.
fn variants() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut variants: Vec<_> = wharf_reproduce::policies().map(|policy| (policy.name, vec![])).collect();
    variants.extend([
        ("fifo", vec!["backfill=greedy"]),
        ("fifo", vec!["backfill=easy"]),
        ("fifo", vec!["backfill=greedy", "age_s=100"]),
        ("fair", vec!["half_life_s=60", "reserve_after_s=100"]),
        ("fair", vec!["preempt=on", "preempt_ratio=1", "half_life_s=600", "ahead_s=0"]),
        ("fair", vec!["preempt=on", "min_run_s=120", "groups=ann=lab,bob=lab", "age_s=50"]),
        ("srtf", vec!["preempt_ratio=1", "min_run_s=300"]),
        ("srsf", vec!["preempt_ratio=1"]),
        ("srsf", vec!["preempt_ratio=1", "victims=cheap", "checkpoint_interval_s=200"]),
        ("tiresias", vec!["victims=cheap", "queue_limits_s=100:1000", "min_run_s=90"]),
        ("srsf", vec!["preempt_ratio=1", "min_run_s=45"]),
        ("las", vec!["quantum_s=60", "min_run_s=130"]),
        ("tiresias", vec!["queue_limits_s=100:1000", "min_run_s=200"]),
        ("gittins", vec!["preempt_ratio=1", "min_run_s=200"]),
        ("themis", vec!["lease_s=120", "fairness_knob=0", "min_run_s=300"]),
        ("muri-s", vec!["preempt_ratio=1", "round_s=60", "min_run_s=250"]),
        ("muri-l", vec!["round_s=60", "min_run_s=250"]),
        ("sjf-ffs", vec!["preempt_ratio=1", "min_run_s=200"]),
        ("sjf-bsbfs", vec!["preempt_ratio=1", "min_run_s=200"]),
        ("muri-s", vec!["ordering=worst"]),
        ("muri-s", vec!["blossom=off"]),
        ("muri-s", vec!["autopack=off", "preempt_ratio=1", "round_s=100"]),
        ("muri-s", vec!["packing_num=1"]),
        ("muri-l", vec!["packing_num=3", "round_s=60"]),
        ("muri-l", vec!["queues=tiresias"]),
        ("muri-s", vec!["mechanism=rounds"]),
        ("themis", vec!["lease_s=120", "fairness_knob=0"]),
        ("antman", vec!["placement=best-fit"]),
        ("sjf-ffs", vec!["preempt=off"]),
        ("sjf-bsbf", vec!["preempt=off"]),
        ("sjf-bsbfs", vec!["device_memory_mb=1000", "preempt_ratio=1"]),
        ("sjf-ffss", vec!["placement=topology-aware"]),
        ("sia", vec!["min_run_s=200", "round_s=100", "solver_steps=1000"]),
        ("sia", vec!["p=0.5", "placement=best-fit"]),
        ("pollux", vec!["types=aware", "min_run_s=150", "population=8", "generations=3"]),
        ("max-min-fairness-perf", vec!["lease_s=60", "sticky_s=0", "min_run_s=200"]),
        ("max-min-fairness", vec!["fairness=users", "user_weights=ann=2"]),
        ("gandiva", vec!["lease_s=100", "min_run_s=150"]),
    ]);
    variants
}

fn uniform(nodes: u32) -> ClusterSpec {
    ClusterSpec::uniform("gpu", nodes, NODE_SIZE)
}

/// Two nodes of each type, so that every gang fits each.
fn mixed(types: &[&str]) -> ClusterSpec {
    ClusterSpec::of(types.iter().flat_map(|name| ClusterSpec::uniform(name, 2, NODE_SIZE).nodes).collect())
}

fn simulate(
    trace: &Trace,
    cluster: &ClusterSpec,
    policy: &str,
    settings: &[&str],
    failing: bool,
) -> Result<(), String> {
    let preset = Preset::load("wharf").expect("built in");
    let mut settings = Settings::parse(settings.iter().copied()).expect("key=value");
    if failing {
        for (key, value) in [("node_mtbf_h", "2"), ("node_repair_h", "0.2"), ("checkpoint_interval_s", "60")]
        {
            settings.set(key, value);
        }
    }
    let spec = RunSpec {
        trace,
        cluster,
        policy,
        preset: &preset,
        settings: &settings,
        seed: 3,
        profile: None,
        rounds: None,
        failures: None,
    };
    let slots = wharf_reproduce::find(policy).expect("registered").slots;
    let min_run_s =
        settings.get("min_run_s").filter(|_| !failing).map_or(0.0, |text| text.parse().expect("s"));
    let once = || {
        let mut checker = Checker::new(&trace.jobs, cluster, slots, min_run_s);
        let outcome = run(&spec, &mut checker).map_err(|error| format!("{error}: {error:?}"))?;
        check_work(trace, &outcome, &checker, failing)?;
        Ok::<_, String>((outcome, checker.events))
    };
    if once()? == once()? { Ok(()) } else { Err("two runs differ".into()) }
}

/// Every job ends once, after at least its own time, and after exactly that where nothing disturbed it.
fn check_work(trace: &Trace, outcome: &Outcome, checker: &Checker<'_>, failing: bool) -> Result<(), String> {
    if let Some(error) = checker.errors.first() {
        return Err(error.clone());
    }
    // No job is preempted again and again: that would be so many events that the work is never done.
    let events_max = 400 * trace.jobs.len() as u64 + if failing { 10_000 } else { 0 };
    if outcome.event_count > events_max {
        return Err(format!("{} events for {} jobs", outcome.event_count, trace.jobs.len()));
    }
    for record in &outcome.jobs {
        let job = record.job;
        let least_s = trace.jobs[job.index()].solo_s() + RESTART_S;
        let slack_s = 1e-6 * record.end.map_or(0.0, Time::seconds);
        if checker.ends[job.index()] != 1 || record.end.is_none() {
            return Err(format!("{job} ended {} times", checker.ends[job.index()]));
        }
        if checker.is_mixed() {
            // How long it takes depends on the types that it was given.
            continue;
        }
        if record.run_s < least_s - slack_s {
            return Err(format!("{job} ran {} s, but needs {least_s} s", record.run_s));
        }
        let most_s = least_s + RESTART_S * f64::from(record.preemptions);
        if !failing && !checker.disturbed[job.index()] && record.run_s > most_s + slack_s {
            return Err(format!("{job} ran {} s undisturbed, but needs {most_s} s", record.run_s));
        }
    }
    Ok(())
}

fn job_strategy() -> impl Strategy<Value = JobSpec> {
    let gang = prop::sample::select(vec![1u32, 1, 1, 2, 4, 8, 16]);
    let stages = prop::option::weighted(0.7, (0.0..200.0f64, 1.0..200.0f64, 0.0..80.0f64));
    let model = prop::option::of(prop::sample::select(vec!["resnet50", "bert-base", "dlrm", "unheard-of"]));
    // Few distinct submission times and lengths, so that there are ties.
    let user = prop::option::of(prop::sample::select(vec!["ann", "bob", "eve"]));
    (gang, 0..12u32, 1..30u32, stages, -1..2i32, model, user).prop_map(
        |(gang, submit, length, stages, priority, model, user)| {
            let submit = Time::from_seconds(f64::from(submit) * 150.0);
            let iteration_ms = stages.map_or(100.0, |(data, compute, network)| data + compute + network);
            let iterations = f64::from(length * 100) * 100.0 / iteration_ms;
            let mut job = JobSpec::new("", submit, gang, iterations, iteration_ms);
            job.stages = stages.map(|(data_ms, compute_ms, network_ms)| StageTimes {
                data_ms,
                compute_ms,
                network_ms,
            });
            job.priority = priority;
            job.model = model.map(Into::into);
            job.user = user.map(Into::into);
            job
        },
    )
}

fn trace_strategy() -> impl Strategy<Value = Trace> {
    prop::collection::vec(job_strategy(), 1..40).prop_map(|mut jobs| {
        jobs.sort_by_key(|job| job.submit);
        for (index, job) in jobs.iter_mut().enumerate() {
            job.name = index.to_string().into();
        }
        Trace { name: "random".into(), jobs }
    })
}

/// As [`trace_strategy`], where some jobs ask for a number of nodes, processors or memory.
fn needy_trace_strategy() -> impl Strategy<Value = Trace> {
    let needs = (0..4u32, prop::sample::select(vec![0u32, 4, 16]), prop::sample::select(vec![0u64, 200_000]));
    (trace_strategy(), prop::collection::vec(needs, 40)).prop_map(|(mut trace, all)| {
        for (job, (which, cpus, memory_mib)) in trace.jobs.iter_mut().zip(all) {
            let devices = job.gang.devices;
            let nodes = (which == 0 && devices.is_multiple_of(2)).then_some(2);
            // What two nodes can offer, or the job would wait indefinitely.
            let each = devices.div_ceil(2).max(1);
            let cpus = cpus.min(NodeSpec::CPUS_PER_DEVICE * NODE_SIZE / each);
            let memory_mib =
                memory_mib.min(u64::from(NodeSpec::MEMORY_GIB_PER_DEVICE * NODE_SIZE / each) * 1024);
            let request = Request::per_device(cpus, memory_mib);
            let needs = Needs { nodes, request, ..Needs::default() };
            job.gang.needs = (which < 3).then(|| Arc::new(needs));
        }
        trace
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn every_policy_keeps_the_rules(trace in trace_strategy(), nodes in 2..4u32) {
        for (policy, settings) in variants() {
            let result = simulate(&trace, &uniform(nodes), policy, &settings, false);
            prop_assert_eq!(result, Ok(()), "{} {:?}", policy, settings);
        }
    }

    #[test]
    fn every_policy_gives_gangs_what_they_need(trace in needy_trace_strategy(), nodes in 2..4u32) {
        for (policy, settings) in variants() {
            let result = simulate(&trace, &uniform(nodes), policy, &settings, false);
            prop_assert_eq!(result, Ok(()), "{} {:?}", policy, settings);
        }
    }

    #[test]
    fn every_policy_keeps_the_rules_on_mixed_devices(
        trace in trace_strategy(),
        types in prop::sample::subsequence(vec!["v100", "p100", "k80", "anything"], 2..4),
        failing in prop::bool::weighted(0.3),
    ) {
        let cluster = mixed(&types);
        for (policy, settings) in variants() {
            let result = simulate(&trace, &cluster, policy, &settings, failing);
            prop_assert_eq!(result, Ok(()), "{} {:?}", policy, settings);
        }
    }

    #[test]
    fn every_policy_keeps_the_rules_while_nodes_fail(trace in trace_strategy(), nodes in 2..4u32) {
        for (policy, settings) in variants() {
            let result = simulate(&trace, &uniform(nodes), policy, &settings, true);
            prop_assert_eq!(result, Ok(()), "{} {:?}", policy, settings);
        }
    }
}
