//! What holds under every elastic policy, on random mixed clusters whose nodes fail: work is conserved through every resize and
//! migration, no job is on two types at once, deadlines are accounted right, and no job waits beyond a stated bound.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wharf_core::{
    ClusterSpec, DeviceSet, Gang, JobId, JobSpec, NodeId, NodeShare, PerfModel, Reshape, Reshapes, Time,
    Topology,
};
use wharf_perf::{Model, Order, Profile, Sharing};
use wharf_policy::PolicyInfo;
use wharf_sim::{Deadlines, Outcome, Preset, Recorder, RunSpec, Settings, run};
use wharf_trace::Trace;

use crate::elastic::scenarios::{cluster, job, profile};

/// Seconds between checkpoints, so short that failures cost more than the last one.
const CHECKPOINT_S: f64 = 100.0;

/// The registered policies that resize jobs or change their types, variants included.
fn elastic() -> impl Iterator<Item = &'static PolicyInfo> {
    let family = |name: &str| name.split(['-', '/']).next().unwrap_or_default().to_owned();
    let is_elastic = move |info: &&PolicyInfo| {
        ["sia", "pollux", "crius", "elasticflow"].contains(&family(info.name).as_str())
    };
    wharf_reproduce::policies().filter(is_elastic)
}

/// A job on its devices.
#[derive(Clone)]
struct Stay {
    ready: Time,
    placement: Vec<NodeShare>,
    /// Iterations that were safe when it began.
    before: f64,
}

/// A stop whose cause is not known yet.
struct Stop {
    time: Time,
    job: JobId,
    stay: Stay,
    done: f64,
}

/// A second account of everything, kept from what is informed of starts and stops alone.
struct Books<'a> {
    topology: Topology,
    jobs: &'a [JobSpec],
    model: Model,
    running: BTreeMap<JobId, Stay>,
    taken: BTreeMap<(NodeId, u32), JobId>,
    /// Iterations that are safe.
    safe: Vec<f64>,
    last_placement: Vec<Vec<NodeShare>>,
    reshapes: Reshapes,
    stops: Vec<Stop>,
    /// Since when jobs have waited, and the longest wait that has ended, and whose.
    waiting: BTreeMap<JobId, Time>,
    longest_wait: (f64, JobId),
    now: Time,
    /// When enough has been seen: a job that is refused waits indefinitely.
    until: Time,
    /// Jobs need not be done by then.
    may_be_open: bool,
    errors: Vec<String>,
}

impl<'a> Books<'a> {
    fn new(cluster: &ClusterSpec, jobs: &'a [JobSpec], model: Model, until: Time) -> Self {
        Self {
            topology: Topology::new(cluster),
            jobs,
            model,
            running: BTreeMap::new(),
            taken: BTreeMap::new(),
            safe: vec![0.0; jobs.len()],
            last_placement: vec![Vec::new(); jobs.len()],
            reshapes: Reshapes::default(),
            stops: Vec::new(),
            waiting: BTreeMap::new(),
            longest_wait: (0.0, JobId(0)),
            now: Time::ZERO,
            until,
            may_be_open: false,
            errors: Vec::new(),
        }
    }

    fn iteration_s(&self, job: JobId, placement: &[NodeShare]) -> f64 {
        self.model.iteration_s(&self.topology, &self.jobs[job.index()], placement, &[])
    }

    /// Takes a job off its devices; gives what it was and had done.
    fn leave(&mut self, time: Time, job: JobId) -> Option<(Stay, f64)> {
        let Some(stay) = self.running.remove(&job) else {
            self.errors.push(format!("{job} leaves and does not run"));
            return None;
        };
        self.taken.retain(|_, holder| *holder != job);
        let made = time.since(stay.ready).max(0.0) / self.iteration_s(job, &stay.placement);
        let done = stay.before + made;
        Some((stay, done))
    }

    /// Iterations that a lost node leaves of a run: those up to its last checkpoint.
    fn checkpointed(&self, stop: &Stop) -> f64 {
        let each = CHECKPOINT_S / self.iteration_s(stop.job, &stop.stay.placement);
        stop.stay.before + ((stop.done - stop.stay.before) / each).floor() * each
    }

    fn check_placement(&mut self, job: JobId, placement: &[NodeShare]) {
        let gang = &self.jobs[job.index()].gang;
        let count: u32 = placement.iter().map(|share| share.devices.len()).sum();
        if !(gang.devices_min..=gang.devices_max).contains(&count) {
            self.errors.push(format!("{job} got {count} devices"));
        }
        match self.topology.type_of(placement) {
            None => self.errors.push(format!("{job} is on several types at once")),
            Some(kind) if !gang.allows(&self.topology.types()[kind.index()]) => {
                self.errors.push(format!("{job} is on a type that it does not take"));
            }
            Some(_) => {}
        }
        for share in placement {
            for device in share.devices.iter() {
                if let Some(other) = self.taken.insert((share.node, device), job) {
                    self.errors.push(format!("{job} got a device of {other}"));
                }
            }
        }
    }

    /// The longest that a job has waited at a stretch, or waits now, and which.
    fn longest_wait(&self) -> (f64, JobId) {
        let now = self.waiting.iter().map(|(&job, &since)| (self.now.since(since), job));
        now.fold(self.longest_wait, |longest, wait| if wait.0 > longest.0 { wait } else { longest })
    }

    fn check(&self, outcome: &Outcome) -> Result<(), String> {
        if let Some(error) = self.errors.first() {
            return Err(error.clone());
        }
        for (record, safe) in outcome.jobs.iter().zip(&self.safe) {
            let spec = &self.jobs[record.job.index()];
            let is_off = (safe - spec.iterations).abs() > 1e-6 * spec.iterations + 1e-6;
            // A policy may refuse one that cannot be done in time.
            let is_left = record.end.is_none() && spec.deadline.is_none() && !self.may_be_open;
            if record.end.is_some() && is_off || is_left {
                return Err(format!(
                    "{} made {safe} of {} iterations: {record:?}",
                    record.job, spec.iterations
                ));
            }
        }
        if outcome.tally.reshapes != self.reshapes {
            return Err(format!("{:?} are told, {:?} were seen", outcome.tally.reshapes, self.reshapes));
        }
        let is_done = |record: &wharf_sim::JobRecord| record.end.is_some();
        let met = |record: &wharf_sim::JobRecord| {
            let deadline = self.jobs[record.job.index()].deadline?;
            Some(record.end.is_some_and(|end| end <= deadline))
        };
        let told: Vec<bool> = outcome.jobs.iter().filter_map(met).collect();
        let met = told.iter().filter(|met| **met).count() as u64;
        let expected = Deadlines { met, missed: told.len() as u64 - met };
        let is_right = match outcome.tally.deadlines {
            None => told.is_empty(),
            // One that was refused may have its time before it when the rest is done.
            Some(found) => found.met == met && (found == expected || !outcome.jobs.iter().all(is_done)),
        };
        if is_right { Ok(()) } else { Err(format!("{:?} instead of {expected:?}", outcome.tally.deadlines)) }
    }
}

impl Recorder for Books<'_> {
    fn is_satisfied(&self) -> bool {
        self.now >= self.until
    }

    fn node_returned(&mut self, time: Time, _node: NodeId) {
        self.now = time;
    }

    fn submitted(&mut self, time: Time, job: JobId) {
        self.now = time;
        self.waiting.insert(job, time);
    }

    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], _group: &[JobId]) {
        self.now = time;
        if let Some(since) = self.waiting.remove(&job)
            && time.since(since) > self.longest_wait.0
        {
            self.longest_wait = (time.since(since), job);
        }
        self.check_placement(job, placement);
        let last = std::mem::replace(&mut self.last_placement[job.index()], placement.to_vec());
        if let Some(reshape) = Reshape::between(&self.topology, &last, placement) {
            self.reshapes.add(reshape);
        }
        let ready = time.plus(self.model.restart_s(&self.jobs[job.index()]));
        let stay = Stay { ready, placement: placement.to_vec(), before: self.safe[job.index()] };
        self.running.insert(job, stay);
    }

    fn preempted(&mut self, time: Time, job: JobId) {
        self.now = time;
        self.waiting.insert(job, time);
        self.stops.retain(|stop| stop.time == time);
        if let Some((stay, done)) = self.leave(time, job) {
            self.safe[job.index()] = done;
            self.stops.push(Stop { time, job, stay, done });
        }
    }

    /// Told after the stops that it brings.
    fn node_lost(&mut self, time: Time, node: NodeId) {
        let stops = std::mem::take(&mut self.stops);
        for stop in stops.iter().filter(|stop| stop.time == time) {
            if stop.stay.placement.iter().any(|share| share.node == node) {
                self.safe[stop.job.index()] = self.checkpointed(stop);
            }
        }
    }

    fn finished(&mut self, time: Time, job: JobId) {
        if let Some((_, done)) = self.leave(time, job) {
            self.safe[job.index()] = done;
        }
    }
}

/// What a run is made from.
#[derive(Clone, Copy)]
struct Scene<'a> {
    cluster: &'a ClusterSpec,
    jobs: &'a [JobSpec],
    profile: &'a Profile,
    seed: u64,
    until: Time,
    may_be_open: bool,
}

/// Runs a policy; gives the longest wait, in seconds, and whose it was.
fn simulate(policy: &str, settings: &[String], scene: Scene<'_>) -> Result<(f64, JobId), String> {
    let preset = Preset::load("wharf").expect("built in");
    let rules = preset.rules().expect("it is Wharf's own");
    let settings = Settings::parse(settings.iter().map(String::as_str)).expect("key=value");
    let rules = rules.with(&settings).expect("numbers");
    let model = Model::new(rules.costs, Sharing::None, Order::Best).with_profile(scene.profile.clone());
    let trace = Trace { name: "elastic".into(), jobs: scene.jobs.to_vec() };
    let spec = RunSpec {
        trace: &trace,
        cluster: scene.cluster,
        policy,
        preset: &preset,
        settings: &settings,
        seed: scene.seed,
        profile: Some(scene.profile),
        rounds: None,
        failures: None,
    };
    let mut books = Books::new(scene.cluster, scene.jobs, model, scene.until);
    books.may_be_open = scene.may_be_open;
    let outcome = run(&spec, &mut books).map_err(|error| format!("{error:?}"))?;
    books.check(&outcome)?;
    Ok(books.longest_wait())
}

/// Jobs that run on a range of devices, on some types or any, some of them with a deadline.
fn jobs_strategy(jobs_max: usize) -> impl Strategy<Value = Vec<JobSpec>> {
    let gang = prop::sample::select(vec![(1, 1), (1, 4), (2, 8), (1, 16), (4, 4), (8, 16), (2, 2)]);
    let types = prop::sample::select(vec![&[][..], &["a"], &["b"], &["c", "a"], &["a", Gang::OTHERS]]);
    let deadline = prop::option::of(1..60_u32);
    let row = (gang, 0..20_u32, 1..40_u32, types, deadline);
    prop::collection::vec(row, 1..jobs_max).prop_map(|rows| {
        let mut jobs: Vec<JobSpec> = rows.into_iter().map(elastic_job).collect();
        jobs.sort_by_key(|job| job.submit);
        for (index, job) in jobs.iter_mut().enumerate() {
            job.name = index.to_string().into();
        }
        jobs
    })
}

type Row = ((u32, u32), u32, u32, &'static [&'static str], Option<u32>);

fn elastic_job(((min, max), submit, length, types, deadline): Row) -> JobSpec {
    let submit_s = f64::from(submit) * 120.0;
    let mut job = job("", submit_s, min, max, f64::from(length) * 100.0);
    job.gang.device_types = types.iter().map(|&name| name.into()).collect();
    job.deadline = deadline.map(|minutes| Time::from_seconds(submit_s + 60.0 * f64::from(minutes)));
    job
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn work_is_conserved_and_deadlines_are_accounted(
        jobs in jobs_strategy(25),
        nodes in (2..4_u32, 2..3_u32, 1..3_u32),
        mtbf_h in prop::sample::select(vec![0.0, 1.0, 4.0]),
        seed in 0..1000_u64,
    ) {
        let cluster = cluster(&[("a", nodes.0, 4), ("b", nodes.1, 8), ("c", nodes.2, 8)]);
        let profile = profile(&[("a", 1.0), ("b", 3.0), ("c", 1.7)]);
        // A gang of sixteen `a` would need more than there are; all others fit somewhere.
        let jobs: Vec<JobSpec> = jobs
            .into_iter()
            .filter(|job| job.gang.devices_min <= 4 || job.gang.allows("b"))
            .collect();
        prop_assume!(!jobs.is_empty());
        let settings = [
            format!("node_mtbf_h={mtbf_h}"),
            "node_repair_h=0.2".to_owned(),
            format!("checkpoint_interval_s={CHECKPOINT_S}"),
        ];
        for info in elastic() {
            // Far more than all of them need.
            let until = Time::from_seconds(1e6);
            let (profile, may_be_open) = (&profile, false);
            let scene = Scene { cluster: &cluster, jobs: &jobs, profile, seed, until, may_be_open };
            let checked = simulate(info.name, &settings, scene);
            prop_assert!(checked.is_ok(), "{} {mtbf_h}: {:?}", info.name, checked.err());
        }
    }

    #[test]
    fn no_job_waits_beyond_a_stated_bound(jobs in jobs_strategy(12), seed in 0..1000_u64) {
        let cluster = cluster(&[("a", 1, 4), ("b", 1, 8), ("c", 1, 8)]);
        let profile = profile(&[("a", 1.0), ("b", 3.0), ("c", 1.7)]);
        // Far longer than the bound, so that no job gets devices because another one ends.
        let jobs: Vec<JobSpec> = jobs
            .into_iter()
            .filter(|job| job.gang.devices_min <= 4 || job.gang.device_types.is_empty())
            .map(|job| JobSpec { iterations: job.iterations * 500.0, deadline: None, ..job })
            .collect();
        prop_assume!(!jobs.is_empty());
        for info in elastic().filter(|info| info.knobs.iter().any(|knob| knob.name == "patience_s")) {
            let (patience_s, round_s, restart_s) = (600.0, 120.0, 10.0);
            let settings = [
                format!("patience_s={patience_s}"),
                format!("round_s={round_s}"),
                format!("restart_s={restart_s}"),
            ];
            // Each of the others may have its turn first.
            let bound_s = jobs.len() as f64 * (patience_s + round_s + 2.0 * restart_s);
            let until = Time::from_seconds(2400.0 + 3.0 * bound_s);
            let (profile, may_be_open) = (&profile, true);
            let scene = Scene { cluster: &cluster, jobs: &jobs, profile, seed, until, may_be_open };
            let waited = simulate(info.name, &settings, scene);
            prop_assert!(
                waited.as_ref().is_ok_and(|&(longest_s, _)| longest_s <= bound_s),
                "{}: {waited:?} of {bound_s} s", info.name
            );
        }
    }
}

#[test]
fn books_notice_what_is_wrong() {
    let cluster = cluster(&[("a", 1, 4), ("b", 1, 4)]);
    let jobs = [job("0", 0.0, 1, 2, 100.0)];
    let preset = Preset::load("wharf").expect("built in");
    let rules = preset.rules().expect("it is Wharf's own");
    let model = || Model::new(rules.costs, Sharing::None, Order::Best);
    let share = |node, devices| NodeShare::new(NodeId(node), DeviceSet(devices));
    for (placement, expected) in [
        (vec![share(0, 0b1), share(1, 0b1)], "j0 is on several types at once"),
        (vec![share(0, 0b111)], "j0 got 3 devices"),
    ] {
        let mut books = Books::new(&cluster, &jobs, model(), Time::FAR);
        books.started(Time::ZERO, JobId(0), &placement, &[]);
        assert_eq!(books.errors, [expected]);
    }
}
