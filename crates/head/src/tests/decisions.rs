//! What was simulated is what will run: the head's dispatcher, on a virtual clock, launches and preempts exactly as the
//! simulator does.

use wharf_core::{ClusterSpec, JobId, JobSpec, NodeShare, Time};
use wharf_policy::Settings;
use wharf_proto::{Gang, JobSpec as WireSpec, Stages};
use wharf_sim::{Preset, Recorder, RunSpec};
use wharf_trace::{GangMix, GeneratorSettings, Rate, Trace, generate};

use super::virtual_cluster::{EPOCH_UNIX_S, VirtualCluster, regime};
use crate::journal::record::{Record, of_shares};

const SEED: u64 = 11;

/// Jobs that are enough where decisions take long.
const ELASTIC_JOBS: usize = 80;

/// A preemption, or a launch with its devices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Preempt(u32),
    Launch(u32, Vec<(u32, Vec<u32>)>),
}

#[derive(Default)]
struct Acts(Vec<(Time, Act)>);

impl Recorder for Acts {
    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], _group: &[JobId]) {
        self.0.push((time, Act::Launch(job.0, of_shares(placement))));
    }

    fn preempted(&mut self, time: Time, job: JobId) {
        self.0.push((time, Act::Preempt(job.0)));
    }
}

pub(super) fn trace() -> Trace {
    let settings = GeneratorSettings {
        seed: SEED,
        job_count: 200,
        rate: Rate::Load { devices: 32, load: 1.2 },
        gangs: GangMix::philly().at_most(16).unwrap(),
        ..GeneratorSettings::default()
    };
    generate(&settings).unwrap()
}

fn wire(spec: &JobSpec) -> WireSpec {
    WireSpec {
        name: spec.name.to_string(),
        user: spec.user.as_deref().unwrap_or_default().to_owned(),
        gang: Some(Gang {
            devices: spec.gang.devices,
            devices_min: spec.gang.devices_min,
            devices_max: spec.gang.devices_max,
            device_types: spec.gang.device_types.iter().map(|name| name.to_string()).collect(),
            ..Gang::default()
        }),
        deadline_s: spec.deadline.map_or(0.0, |deadline| EPOCH_UNIX_S + deadline.seconds()),
        command: vec!["train".to_owned()],
        iterations: spec.iterations,
        iteration_ms: spec.iteration_ms,
        model: spec.model.as_deref().unwrap_or_default().to_owned(),
        batch_size: spec.batch_size.unwrap_or_default(),
        priority: spec.priority,
        stages: spec.stages.map(|stages| Stages {
            data_ms: stages.data_ms,
            compute_ms: stages.compute_ms,
            network_ms: stages.network_ms,
        }),
        ..WireSpec::default()
    }
}

fn simulated(trace: &Trace, cluster: &ClusterSpec, preset: &Preset, policy: &str) -> Vec<(Time, Act)> {
    let settings = Settings::default();
    let spec = RunSpec {
        trace,
        cluster,
        policy,
        preset,
        settings: &settings,
        seed: SEED,
        profile: None,
        rounds: None,
        failures: None,
    };
    let mut acts = Acts::default();
    wharf_sim::run(&spec, &mut acts).unwrap();
    acts.0
}

fn dispatched(trace: &Trace, cluster: &ClusterSpec, policy: &str) -> Vec<(Time, Act)> {
    let rules = regime(policy, SEED);
    let folder = tempfile::tempdir().unwrap();
    let mut world = VirtualCluster::new(&folder.path().join("journal.sqlite"), cluster, rules);
    play(&mut world, trace, |_| ());
    assert_eq!(world.dispatcher.engine.violations(), []);
    drop(world);
    acts_of(&folder.path().join("journal.sqlite"))
}

/// Hands a trace to a head and lets it end; `meddle` is called after every moment.
pub(super) fn play(world: &mut VirtualCluster, trace: &Trace, mut meddle: impl FnMut(&mut VirtualCluster)) {
    let mut arrivals = trace.jobs.iter().peekable();
    loop {
        let arrival = arrivals.peek().map(|job| job.submit);
        let counts = world.dispatcher.engine.state().counts();
        let has_live = counts.waiting + counts.placed + counts.stopping > 0;
        if arrival.is_none() && !has_live {
            break;
        }
        let decision = world.dispatcher.next_deadline();
        let moments = [arrival, world.next_end(), decision];
        world.set_time(moments.into_iter().flatten().min().expect("something happens next"));
        let mut inputs = world.take_ends();
        let mut specs = Vec::new();
        while let Some(job) = arrivals.next_if(|job| job.submit <= world.now()) {
            specs.push(wire(job));
        }
        let (reply, _receiver) = tokio::sync::oneshot::channel();
        inputs.push(crate::dispatcher::Input::Submit { specs, key: None, reply });
        world.step(inputs);
        meddle(world);
    }
}

#[test]
fn incremental_counts_equal_a_recount() {
    use wharf_proto::{ChangeJobsRequest, change_jobs_request::Change};
    let folder = tempfile::tempdir().unwrap();
    let cluster = ClusterSpec::uniform("v100", 8, 4);
    let rules = regime("srtf", SEED);
    let mut world = VirtualCluster::new(&folder.path().join("journal.sqlite"), &cluster, rules);
    let mut seen = std::collections::BTreeSet::new();
    let mut moment = 0;
    play(&mut world, &trace(), |world| {
        moment += 1;
        let change = match moment % 7 {
            3 => Change::Cancel,
            5 => Change::Hold,
            6 => Change::Release,
            _ => Change::Requeue,
        };
        let last = world.dispatcher.engine.state().next_job().0.saturating_sub(1);
        let job_ids = vec![last.saturating_sub(moment % 5)];
        world.change(ChangeJobsRequest { change: change.into(), job_ids, ..ChangeJobsRequest::default() });
        if moment % 7 == 6 {
            // Nothing stays held indefinitely.
            let job_ids = (0..=last).collect();
            world.change(ChangeJobsRequest {
                change: change.into(),
                job_ids,
                ..ChangeJobsRequest::default()
            });
        }
        let state = world.dispatcher.engine.state();
        for phase in crate::query::views::PHASES {
            let there = state.jobs().filter(|(_, _, life)| crate::query::views::phase(life) == phase).count();
            assert_eq!(
                crate::query::views::count(state.counts(), phase) as usize,
                there,
                "{phase:?} at moment {moment}"
            );
            if there > 0 {
                seen.insert(phase.word());
            }
        }
        // A job that is held indefinitely would never end.
        if state.counts().waiting + state.counts().placed + state.counts().stopping == 0
            && state.counts().held > 0
        {
            let job_ids = (0..=last).collect();
            let change = Change::Release.into();
            world.change(ChangeJobsRequest { change, job_ids, ..ChangeJobsRequest::default() });
        }
    });
    assert!(seen.len() >= 5, "many states were seen: {seen:?}");
}

/// What a journal says was launched and preempted.
fn acts_of(journal: &std::path::Path) -> Vec<(Time, Act)> {
    let connection = rusqlite::Connection::open(journal).unwrap();
    let mut query = connection.prepare("SELECT time, record FROM events ORDER BY sequence").unwrap();
    let rows = query.query_map([], |row| Ok((row.get::<_, f64>(0)?, row.get::<_, String>(1)?))).unwrap();
    let mut acts = Vec::new();
    let mut placements = std::collections::BTreeMap::new();
    for row in rows {
        let (time_s, text) = row.unwrap();
        let act = match serde_json::from_str(&text).unwrap() {
            Record::JobPlaced { job, shares, .. } => {
                placements.insert(job, shares);
                continue;
            }
            Record::JobLaunched { job, .. } => Act::Launch(job, placements[&job].clone()),
            Record::JobStopping { job, .. } => Act::Preempt(job),
            _ => continue,
        };
        acts.push((Time::from_seconds(time_s), act));
    }
    acts
}

/// As many devices of each of two types, of which the built-in profile knows how fast they are.
fn mixed() -> ClusterSpec {
    let mut cluster = ClusterSpec::uniform("v100", 2, 8);
    cluster.nodes.extend(ClusterSpec::uniform("p100", 2, 8).nodes);
    cluster
}

/// The same jobs, of which most take more or fewer devices than they ask for, some of either type, some by a deadline.
fn elastic(trace: &Trace) -> Trace {
    let job = |(index, spec): (usize, &JobSpec)| {
        let devices = spec.gang.devices;
        let (devices_min, devices_max) = if index % 4 == 0 { (devices, devices) } else { (1, 2 * devices) };
        let device_types: &[&str] = match index % 3 {
            0 => &[],
            1 => &["p100", wharf_core::Gang::OTHERS],
            _ => &["v100"],
        };
        let device_types = device_types.iter().map(|&name| name.into()).collect();
        // In whole seconds, which the wire does not round.
        let deadline = Time::from_seconds((spec.submit.seconds() + 3.0 * spec.solo_s()).ceil());
        let gang = wharf_core::Gang { devices_min, devices_max, device_types, ..spec.gang.clone() };
        JobSpec { gang, deadline: (index % 2 == 0).then_some(deadline), ..spec.clone() }
    };
    let jobs = trace.jobs.iter().take(ELASTIC_JOBS).enumerate().map(job).collect();
    Trace { name: trace.name.clone(), jobs }
}

const UNIFORM: &[&str] = &["fifo", "fair", "srtf", "tiresias", "muri-s"];
const MIXED: &[&str] = &["max-min-fairness-perf", "gandiva", "sia", "crius/fcfs"];
/// On devices of both types with jobs that can be resized. A policy joins by its name.
const ELASTIC: &[&str] = &["sia", "pollux", "crius", "crius/gavel"];

#[test]
fn head_and_simulator_make_the_same_decisions() {
    let uniform = ClusterSpec::uniform("v100", 4, 8);
    for (policies, trace, cluster) in
        [(UNIFORM, trace(), uniform), (MIXED, trace(), mixed()), (ELASTIC, elastic(&trace()), mixed())]
    {
        policies.iter().for_each(|policy| compare(policy, &trace, &cluster));
    }
}

fn compare(policy: &str, trace: &Trace, cluster: &ClusterSpec) {
    let preset = Preset::load("wharf").unwrap();
    let mut expected = simulated(trace, cluster, &preset, policy);
    let mut found = dispatched(trace, cluster, policy);
    // Workers answer side by side: what happens at one instant has no order.
    expected.sort();
    found.sort();
    let differs = expected.iter().zip(&found).position(|(left, right)| left != right);
    if let Some(at) = differs {
        let around = at.saturating_sub(3)..at + 4;
        let show = |acts: &[(Time, Act)]| {
            let shown = acts.iter().enumerate().filter(|(index, _)| around.contains(index));
            shown.map(|(index, act)| format!("{index}: {act:?}")).collect::<Vec<_>>().join("\n")
        };
        panic!("{policy}\nsimulator\n{}\nhead\n{}", show(&expected), show(&found));
    }
    assert_eq!(expected.len(), found.len(), "{policy}");
    assert!(expected.len() >= trace.jobs.len(), "{policy}");
    let preemptions = expected.iter().filter(|(_, act)| matches!(act, Act::Preempt(_))).count();
    assert_eq!(
        preemptions > 0,
        !matches!(policy, "fifo" | "fair" | "crius/fcfs"),
        "{policy} preempts {preemptions} times"
    );
}
