//! Requests for more than devices under every policy, watched by a checker that adds up what jobs have of each machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use wharf_core::{
    Amounts, ClusterSpec, Gang, JobId, JobSpec, Level, Needs, NodeId, NodeShare, Request, Time, Within,
    is_slice,
};
use wharf_sim::{Preset, Recorder, RunError, RunSpec, Settings, check, run};
use wharf_trace::{Trace, parse_cluster};

/// Machines of several kinds: two types of GPU, slices, none, one type on another switch and in another block.
const CLUSTER: &str = "2x(a100:2+t4:4,cpus=32,memory=128G,scratch=100);2x(a30:1[1g.6gb:4],cpus=16,memory=64G,switch=1);\
    2x(cpus=24,memory=96G,switch=1);2x(v100:4,cpus=32,memory=128G,switch=2,block=1,domain=2);licence:matlab=3";

/// What one machine has, and what is used of it.
#[derive(Default)]
struct Used {
    cpu_milli: u64,
    memory_mib: u64,
    scratch: u64,
    jobs: Vec<JobId>,
    alone: Vec<JobId>,
}

/// Sums from first principles, after every start.
struct Ledger<'a> {
    jobs: &'a [JobSpec],
    cluster: &'a ClusterSpec,
    /// Most jobs that take turns on a device.
    slots: u32,
    running: BTreeMap<JobId, Vec<NodeShare>>,
    finished: usize,
    errors: Vec<String>,
}

impl Ledger<'_> {
    fn group(&self, job: JobId, share: &NodeShare) -> Gang {
        let gang = &self.jobs[job.index()].gang;
        match share.group {
            0 => gang.clone(),
            group => gang.needs.as_ref().expect("it has groups").groups[group as usize - 1].clone(),
        }
    }

    /// The position of a node's machine: a further device group names it.
    fn machine(&self, node: NodeId) -> usize {
        let name = self.cluster.nodes[node.index()].machine();
        self.cluster.nodes.iter().position(|node| &*node.name == name).expect("machines come first")
    }

    fn check(&mut self, time: Time) {
        let mut machines: BTreeMap<usize, Used> = BTreeMap::new();
        let mut parts: BTreeMap<(NodeId, u32), u32> = BTreeMap::new();
        let mut whole: BTreeMap<(NodeId, u32), u32> = BTreeMap::new();
        let mut matlab = 0;
        for (&job, shares) in &self.running {
            matlab += self.jobs[job.index()]
                .gang
                .needs
                .as_ref()
                .map_or(0, |needs| needs.request.licences.iter().map(|(_, count)| *count).sum::<u64>());
            for share in shares {
                let gang = self.group(job, share);
                let plain = Needs::default();
                let request = &gang.needs.as_deref().unwrap_or(&plain).request;
                let tasks = match request.devices {
                    0 => u64::from(share.tasks),
                    each => u64::from(share.devices.len() / each),
                };
                let used = machines.entry(self.machine(share.node)).or_default();
                used.cpu_milli += tasks * request.task.cpu_milli + request.node.cpu_milli;
                used.memory_mib += tasks * request.task.memory_mib + request.node.memory_mib;
                used.scratch += tasks * request.task.named.iter().map(|(_, count)| *count).sum::<u64>();
                used.jobs.push(job);
                used.alone.extend(request.is_exclusive.then_some(job));
                for device in share.devices.iter() {
                    let count = self.cluster.nodes[share.node.index()].devices;
                    if device >= count {
                        self.errors.push(format!("{job} has device {device} of {count} at {time}"));
                    }
                    match request.device_milli {
                        0 => *whole.entry((share.node, device)).or_default() += 1,
                        milli => *parts.entry((share.node, device)).or_default() += milli,
                    }
                }
            }
        }
        for (index, used) in &machines {
            let spec = &self.cluster.nodes[*index];
            let scratch =
                spec.details.iter().flat_map(|details| &details.resources).map(|(_, count)| *count).sum();
            let is_within = used.cpu_milli <= u64::from(spec.cpus) * 1000
                && used.memory_mib <= u64::from(spec.memory_gib) * 1024
                && used.scratch <= scratch;
            let is_alone = used.alone.is_empty() || used.jobs.iter().all(|job| *job == used.alone[0]);
            if !is_within || !is_alone {
                let Used { cpu_milli, memory_mib, scratch, jobs, alone } = used;
                self.errors.push(format!(
                    "{} at {time}: {cpu_milli} CPU milli, {memory_mib} MiB, {scratch} scratch, jobs {jobs:?}, alone {alone:?}",
                    spec.name
                ));
            }
        }
        for (device, milli) in &parts {
            if *milli > 1000 || whole.contains_key(device) {
                self.errors.push(format!(
                    "{milli} thousandths of {device:?} at {time}, with {:?}",
                    whole.get(device)
                ));
            }
        }
        let crowded = whole.iter().filter(|(_, count)| **count > self.slots);
        self.errors.extend(crowded.map(|(device, count)| format!("{count} jobs on {device:?} at {time}")));
        if matlab > 3 {
            self.errors.push(format!("{matlab} licences at {time}"));
        }
    }
}

impl Recorder for Ledger<'_> {
    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], _group: &[JobId]) {
        self.running.insert(job, placement.to_vec());
        for share in placement {
            let (gang, node) = (self.group(job, share), &self.cluster.nodes[share.node.index()]);
            let is_right = share.devices.is_empty()
                || gang.device_types.contains(&node.device_type)
                || gang.device_types.is_empty() && !is_slice(&node.device_type);
            if !is_right {
                self.errors.push(format!("{job} has devices of type {} at {time}", node.device_type));
            }
        }
        self.check(time);
    }

    fn preempted(&mut self, _time: Time, job: JobId) {
        self.running.remove(&job);
    }

    fn finished(&mut self, _time: Time, job: JobId) {
        self.running.remove(&job);
        self.finished += 1;
    }
}

/// A request of one of the kinds that there are.
fn gang(kind: u32, size: u32, milli: u32) -> Gang {
    let of_type =
        |name: &str, devices| Gang { device_types: Arc::from([name.into()]), ..Gang::fixed(devices) };
    let tasks =
        |tasks, cpu_milli: u64| Request::tasks(tasks, Amounts { cpu_milli, memory_mib: 2000, named: vec![] });
    let with =
        |gang: Gang, request| Gang { needs: Some(Arc::new(Needs { request, ..Needs::default() })), ..gang };
    let none = Gang::fixed(0);
    match kind {
        0 => Gang { devices_max: size * 2, ..Gang::fixed(size) },
        1 => with(none, tasks(size * 3, u64::from(milli) * 4)),
        2 => with(Gang::fixed(1), Request { device_milli: milli, ..Request::per_device(1, 4000) }),
        3 => of_type("1g.6gb", size),
        4 => with(Gang::fixed(size), Request::per_device(7, 20_000)),
        5 => with(Gang::fixed(1), Request { is_exclusive: true, ..Request::default() }),
        6 => {
            let beside = with(none, tasks(size, 6000));
            let needs =
                Needs { request: Request::per_device(2, 1000), groups: vec![beside], ..Needs::default() };
            Gang { needs: Some(Arc::new(needs)), ..Gang::fixed(size) }
        }
        7 => with(none, Request { licences: vec![("matlab".into(), size.min(3).into())], ..tasks(1, 1000) }),
        8 => {
            let named = vec![("scratch".into(), 30)];
            with(
                of_type("t4", size),
                Request { task: Amounts { named, ..Amounts::new(1, 10) }, ..Request::default() },
            )
        }
        9 => {
            let within = Some(Within { level: Level::Domain, is_required: true });
            with(Gang::fixed(size.min(2)), Request { within, ..Request::default() })
        }
        10 => {
            let needs = Needs { nodes: Some(2), request: tasks(size + 2, 5000), ..Needs::default() };
            Gang { needs: Some(Arc::new(needs)), ..none }
        }
        _ => {
            let within = Some(Within { level: Level::Rack, is_required: false });
            with(
                none,
                Request { is_exclusive: size == 1, tasks_per_node: 2, within, ..tasks(size + 1, 3000) },
            )
        }
    }
}

fn trace() -> impl Strategy<Value = Trace> {
    let job = (
        0..12u32,
        1..5u32,
        prop::sample::select(vec![100u32, 250, 333, 500, 900]),
        0..10u32,
        1..20u32,
        0..2i32,
    );
    prop::collection::vec(job, 1..40).prop_map(|mut jobs| {
        jobs.sort_by_key(|job| job.3);
        let job = |(index, (kind, size, milli, submit, length, priority)): (
            usize,
            (u32, u32, u32, u32, u32, i32),
        )| {
            let submit = Time::from_seconds(f64::from(submit) * 100.0);
            let spec = JobSpec::new(&index.to_string(), submit, 1, f64::from(length) * 100.0, 1000.0);
            JobSpec { gang: gang(kind, size, milli), priority, ..spec }
        };
        Trace { name: "requests".into(), jobs: jobs.into_iter().enumerate().map(job).collect() }
    })
}

fn simulate(trace: &Trace, policy: &str, settings: &[&str]) -> Result<(), String> {
    let cluster = parse_cluster(CLUSTER).expect("a short form");
    let preset = Preset::load("wharf").expect("built in");
    let settings = Settings::parse(settings.iter().copied()).expect("key=value");
    let spec = RunSpec {
        trace,
        cluster: &cluster,
        policy,
        preset: &preset,
        settings: &settings,
        seed: 5,
        profile: None,
        rounds: None,
        failures: None,
    };
    let slots = wharf_reproduce::find(policy).expect("registered").slots as u32;
    let mut ledger = Ledger {
        jobs: &trace.jobs,
        cluster: &cluster,
        slots,
        running: BTreeMap::new(),
        finished: 0,
        errors: Vec::new(),
    };
    let outcome = run(&spec, &mut ledger).map_err(|error| format!("{error}: {error:?}"))?;
    if let Some(error) = ledger.errors.first() {
        return Err(error.clone());
    }
    let left: Vec<_> = outcome.jobs.iter().filter(|job| job.end.is_none()).map(|job| job.job).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("unfinished: {left:?}")) }
}

fn variants() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut variants: Vec<_> = wharf_reproduce::policies().map(|policy| (policy.name, vec![])).collect();
    variants.extend([
        ("fifo", vec!["backfill=greedy"]),
        ("fifo", vec!["backfill=easy"]),
        ("srsf", vec!["preempt_ratio=1"]),
        ("srtf", vec!["preempt_ratio=1", "placement=best-fit"]),
        ("srsf", vec!["preempt_ratio=1", "victims=cheap", "placement=topology-aware"]),
        ("fair", vec!["preempt=on", "preempt_ratio=1", "half_life_s=600", "ahead_s=0"]),
        ("sjf-bsbfs", vec!["preempt_ratio=1"]),
    ]);
    variants
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_policy_keeps_within_every_dimension(trace in trace()) {
        for (policy, settings) in variants() {
            let result = simulate(&trace, policy, &settings);
            prop_assert_eq!(result, Ok(()), "{} {:?}", policy, settings);
        }
    }

    #[test]
    fn every_policy_keeps_within_every_dimension_while_nodes_fail(trace in trace()) {
        for (policy, mut settings) in variants() {
            settings.extend(["node_mtbf_h=2", "node_repair_h=0.2", "checkpoint_interval_s=60"]);
            let result = simulate(&trace, policy, &settings);
            prop_assert_eq!(result, Ok(()), "{} {:?}", policy, settings);
        }
    }
}

#[test]
fn request_that_no_node_can_satisfy_is_refused_with_its_field_and_what_would_fit() {
    let with =
        |gang: Gang, request| Gang { needs: Some(Arc::new(Needs { request, ..Needs::default() })), ..gang };
    let none = Gang::fixed(0);
    let named = |name: &str| Request {
        task: Amounts { named: vec![(name.into(), 200)], ..Amounts::default() },
        ..Request::default()
    };
    let licence = |name: &str, count| Request { licences: vec![(name.into(), count)], ..Request::default() };
    let table = [
        (
            with(Gang::fixed(2), Request { device_milli: 500, ..Request::default() }),
            "`device_milli`: it asks for a part of 2 devices: a part is of one device",
        ),
        (
            with(Gang::fixed(1), Request { device_milli: 1500, ..Request::default() }),
            "`device_milli`: it asks for 1500 thousandths of a device, at most 1000 are a part",
        ),
        (
            Gang { device_types: Arc::from(["2g.10gb".into()]), ..Gang::fixed(1) },
            "`device_types`: slice profile `2g.10gb` is unknown: the cluster has 1g.6gb, a100, t4, v100",
        ),
        (
            with(Gang::fixed(1), licence("ansys", 1)),
            "`licences`: licence `ansys` is unknown: the cluster has matlab",
        ),
        (
            with(Gang::fixed(1), licence("matlab", 4)),
            "`licences`: it needs 4 of licence `matlab`, 3 are left",
        ),
        (
            with(none.clone(), Request::tasks(1, Amounts::new(33, 0))),
            "`cpus`: it needs 33 CPUs on a node, the most that a node which it may use has left is 32",
        ),
        (
            with(Gang::fixed(1), Request::per_device(1, 200_000)),
            "`memory`: it needs 200000 MiB of memory on a node, the most that a node which it may use has left is 131072",
        ),
        (
            with(Gang::fixed(1), named("scratch")),
            "`resources`: it needs 200 of resource `scratch` on a node, the most that a node which it may use has left is 100",
        ),
        (
            with(Gang::fixed(1), named("fpga")),
            "`resources`: resource `fpga` is unknown: the cluster has scratch",
        ),
    ];
    let cluster = parse_cluster(CLUSTER).expect("a short form");
    let preset = Preset::load("wharf").expect("built in");
    let settings = Settings::default();
    for (gang, expected) in table {
        let job = JobSpec { gang, ..JobSpec::new("a", Time::ZERO, 1, 1.0, 1000.0) };
        let trace = Trace { name: "bad".into(), jobs: vec![job] };
        let spec = RunSpec {
            trace: &trace,
            cluster: &cluster,
            policy: "fifo",
            preset: &preset,
            settings: &settings,
            seed: 0,
            profile: None,
            rounds: None,
            failures: None,
        };
        let error = check(&spec).expect_err("it can never run");
        assert!(matches!(error, RunError::Unmet { .. }), "{error}");
        let prefix = "job `a` (row 1 of the trace) can never run, because of ";
        assert_eq!(error.to_string().strip_prefix(prefix), Some(expected));
    }
}
