//! Random cases on mixed devices, and a record of what the product did with them: who had what when, and how far each job was.
//!
//! Progress is worked out again from starts and stops, so that nothing that a policy was informed of it is taken on trust.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use wharf_core::{ClusterSpec, Gang, JobId, JobSpec, NodeShare, StageTimes, Time};
use wharf_perf::{Locality, Place, Profile, Workload};
use wharf_sim::{Allocation, Preset, Recorder, Round, RunSpec, Settings, run};
use wharf_trace::Trace;

use super::{cases, first_seed, pick};

pub(super) const RESTART_S: f64 = 30.0;
pub(super) const TYPES: [&str; 3] = ["alpha", "beta", "gamma"];

/// Nodes of one device type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    pub(super) nodes: usize,
    pub(super) size: usize,
    pub(super) price: f64,
}

impl Pool {
    pub(super) fn devices(self) -> usize {
        self.nodes * self.size
    }
}

/// What jobs train.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// Iterations per second on one device of each type; 0 where it does not fit.
    pub(super) speeds: Vec<f64>,
    /// The power of the number of devices that speed grows with.
    pub(super) scaling: f64,
    /// How much of a device it keeps busy.
    pub(super) load: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) model: usize,
    pub(super) submit_s: f64,
    pub(super) devices: usize,
    pub(super) devices_min: usize,
    pub(super) devices_max: usize,
    pub(super) iterations: f64,
    pub(super) weight: f64,
    pub(super) user: usize,
    pub(super) deadline_s: Option<f64>,
    /// Device types that it may run on; all where empty.
    pub(super) types: Vec<usize>,
    /// Milliseconds of an iteration on storage, device and network.
    pub(super) stages_ms: Option<[f64; 3]>,
    pub(super) priority: i32,
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) pools: Vec<Pool>,
    pub(super) models: Vec<Model>,
    pub(super) jobs: Vec<Job>,
    /// Whether jobs tell their speed by their stages, and no profile does.
    pub(super) is_told: bool,
}

impl Case {
    /// Iterations per second of a job by itself on so many devices of a type; 0 where it cannot run.
    pub(super) fn speed(&self, job: usize, kind: usize, count: usize) -> f64 {
        let (job, model) = (&self.jobs[job], &self.models[self.jobs[job].model]);
        let may = job.types.is_empty() || job.types.contains(&kind);
        let fits = count <= self.pools[kind].devices();
        if may && fits { model.speeds[kind] * (count as f64).powf(model.scaling) } else { 0.0 }
    }

    /// The part of its speed that a job keeps beside another one on the same devices.
    pub(super) fn kept(&self, job: usize, other: usize) -> f64 {
        kept(&self.models[self.jobs[job].model], &self.models[self.jobs[other].model])
    }

    /// Seconds of an iteration by itself, of a job that tells its stages.
    pub(super) fn solo_s(&self, job: usize) -> f64 {
        self.jobs[job].stages_ms.expect("stages").iter().sum::<f64>() / 1000.0
    }

    /// How many times longer an iteration takes beside others that are unaware of it: 5 % for switching; and where storage, device or
    /// network are wanted for more than all the time, as many times longer as the one that is wanted most.
    pub(super) fn slowdown(&self, job: usize, others: &[usize]) -> f64 {
        if others.is_empty() {
            return 1.0;
        }
        let wanted = |resource: usize| -> f64 {
            let share = |job: &usize| {
                self.jobs[*job].stages_ms.expect("stages")[resource] / 1000.0 / self.solo_s(*job)
            };
            std::iter::once(&job).chain(others).map(share).sum()
        };
        1.05 * (0..3).map(wanted).fold(1.0, f64::max)
    }

    fn profile(&self) -> Profile {
        let mut profile = Profile::default();
        let workload = |index: usize| Workload { model: format!("m{index}").into(), batch_size: None };
        for (kind, pool) in self.pools.iter().enumerate() {
            profile.set_price(TYPES[kind], pool.price);
            for devices in 1..=pool.devices() {
                let place = || Place {
                    device_type: TYPES[kind].into(),
                    devices: devices as u32,
                    locality: Locality::Packed,
                };
                let speed = |model: &Model| model.speeds[kind] * (devices as f64).powf(model.scaling);
                for (a, model) in self.models.iter().enumerate() {
                    profile.insert(workload(a), place(), speed(model));
                    for (b, other) in self.models.iter().enumerate().skip(a) {
                        let speeds = [speed(model) * kept(model, other), speed(other) * kept(other, model)];
                        profile.insert_pair(workload(a), workload(b), place(), speeds);
                    }
                }
            }
        }
        profile
    }

    fn spec(&self, index: usize) -> JobSpec {
        let job = &self.jobs[index];
        let part = |ms: [f64; 3]| StageTimes { data_ms: ms[0], compute_ms: ms[1], network_ms: ms[2] };
        let iteration_ms = job.stages_ms.map_or(1000.0, |ms| ms.iter().sum());
        let submit = Time::from_seconds(job.submit_s);
        JobSpec {
            gang: Gang {
                device_types: job.types.iter().map(|&kind| TYPES[kind].into()).collect(),
                devices_min: job.devices_min as u32,
                devices_max: job.devices_max as u32,
                ..Gang::fixed(job.devices as u32)
            },
            model: (!self.is_told).then(|| format!("m{}", job.model).into()),
            user: Some(format!("u{}", job.user).into()),
            weight: job.weight,
            deadline: job.deadline_s.map(Time::from_seconds),
            stages: job.stages_ms.map(part),
            priority: job.priority,
            ..JobSpec::new(&index.to_string(), submit, job.devices as u32, job.iterations, iteration_ms)
        }
    }

    pub(super) fn shown(&self) -> String {
        let mut text = String::new();
        for (kind, Pool { nodes, size, price }) in self.pools.iter().enumerate() {
            writeln!(text, "{}: {nodes} x {size}, price {price}", TYPES[kind]).expect("a string");
        }
        for (index, job) in self.jobs.iter().enumerate() {
            writeln!(text, "job {index}: {job:?}\n  {:?}", self.models[job.model]).expect("a string");
        }
        text
    }
}

fn kept(own: &Model, other: &Model) -> f64 {
    (1.0 - 0.2 * other.load) / (own.load + other.load).max(1.0)
}

/// What cases are to be like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) jobs_max: usize,
    pub(super) devices_max: usize,
    /// Whether jobs may have more devices than they ask for.
    pub(super) is_elastic: bool,
    /// Largest node; types have one or two.
    pub(super) size_max: usize,
    pub(super) nodes_max: usize,
    /// Seconds between submissions at most.
    pub(super) gap_s: f64,
}

/// One to three types, some of which do not suit every model; weights, users, deadlines.
pub(super) fn case(shape: Shape, seed: u64) -> Case {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let kinds = rng.random_range(1..=TYPES.len());
    let pool = |rng: &mut ChaCha8Rng| Pool {
        nodes: rng.random_range(1..=shape.nodes_max),
        size: rng.random_range(1..=shape.size_max),
        price: pick(rng, &[1.0, 0.5, 3.0, 2.2]),
    };
    let pools: Vec<Pool> = (0..kinds).map(|_| pool(rng)).collect();
    let model = |rng: &mut ChaCha8Rng| {
        let speed = |rng: &mut ChaCha8Rng| match rng.random_range(0..6) {
            0 => 0.0,
            1 => 1.0,
            _ => rng.random_range(0.2..8.0),
        };
        let mut speeds: Vec<f64> = (0..kinds).map(|_| speed(rng)).collect();
        if speeds.iter().all(|&speed| speed == 0.0) {
            speeds.fill(1.0);
        }
        Model { speeds, scaling: rng.random_range(0.4..1.0), load: rng.random_range(0.2..1.0) }
    };
    let models: Vec<Model> = (0..rng.random_range(1..=4)).map(|_| model(rng)).collect();
    let mut submit_s = 0.0;
    let count = rng.random_range(1..=shape.jobs_max);
    let mut job = |rng: &mut ChaCha8Rng| {
        if rng.random_bool(0.5) {
            submit_s += (rng.random_range(0.0..=shape.gap_s)).round();
        }
        let model = rng.random_range(0..models.len());
        let runs: Vec<usize> = (0..kinds).filter(|&kind| models[model].speeds[kind] > 0.0).collect();
        let home = pick(rng, &runs);
        let devices = rng.random_range(1..=pools[home].devices().min(shape.devices_max));
        let all: usize = pools.iter().map(|pool| pool.devices()).max().unwrap_or(1);
        let devices_max =
            if shape.is_elastic { rng.random_range(devices..=all.max(devices)) } else { devices };
        let length_s = pick(rng, &[60.0, 300.0, 1000.0, 1000.0, 4000.0, 9000.0]);
        let iterations = f64::max(1.0, (length_s * models[model].speeds[home]).round());
        let deadline_s = rng.random_bool(0.3).then(|| submit_s + length_s * rng.random_range(0.5..6.0));
        Job {
            model,
            submit_s,
            devices,
            devices_min: if shape.is_elastic { rng.random_range(1..=devices) } else { devices },
            devices_max,
            iterations,
            weight: pick(rng, &[1.0, 1.0, 2.0, 0.5]),
            user: rng.random_range(0..3),
            deadline_s,
            types: if rng.random_bool(0.2) { vec![home] } else { Vec::new() },
            stages_ms: None,
            priority: 0,
        }
    };
    let jobs = (0..count).map(|_| job(rng)).collect();
    Case { pools, models, jobs, is_told: false }
}

/// One type; jobs that tell their stages, all submitted at once where `gap_s` is 0; some have a negative priority.
pub(super) fn told_case(shape: Shape, seed: u64) -> Case {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let profiles: Vec<[f64; 3]> = (0..rng.random_range(1..=4))
        .map(|_| {
            [0; 3].map(|_| pick(rng, &[0.0, 20.0, 100.0, 250.0, 400.0]) + f64::from(rng.random_range(1..9)))
        })
        .collect();
    let (nodes, size) = (rng.random_range(1..=shape.nodes_max), rng.random_range(1..=shape.size_max));
    let mut submit_s = 0.0;
    let mut job = |rng: &mut ChaCha8Rng| {
        if rng.random_bool(0.5) {
            submit_s += (rng.random_range(0.0..=shape.gap_s)).round();
        }
        let devices = rng.random_range(1..=shape.devices_max.min(nodes * size));
        Job {
            model: 0,
            submit_s,
            devices,
            devices_min: devices,
            devices_max: devices,
            iterations: f64::from(rng.random_range(200..20_000)),
            weight: 1.0,
            user: 0,
            deadline_s: None,
            types: Vec::new(),
            stages_ms: Some(pick(rng, &profiles)),
            priority: pick(rng, &[0, -1]),
        }
    };
    let jobs = (0..rng.random_range(1..=shape.jobs_max)).map(|_| job(rng)).collect();
    let models = vec![Model { speeds: vec![1.0], scaling: 1.0, load: 1.0 }];
    Case { pools: vec![Pool { nodes, size, price: 1.0 }], models, jobs, is_told: true }
}

/// Devices that a job has.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Holding {
    pub(super) kind: usize,
    pub(super) devices: BTreeSet<(usize, usize)>,
    pub(super) since_s: f64,
}

#[derive(Clone, Debug, Default)]
struct Life {
    is_here: bool,
    is_over: bool,
    done: f64,
    starts: u32,
    held: Option<Holding>,
    /// What it had last, and when it left that.
    left: Option<(f64, Holding)>,
}

/// A job at a decision.
#[derive(Clone, Debug)]
pub(super) struct Present {
    pub(super) job: usize,
    pub(super) elapsed_s: f64,
    pub(super) remaining: f64,
    /// Starts before this decision.
    pub(super) starts: u32,
    pub(super) before: Option<Holding>,
    pub(super) after: Option<Holding>,
}

/// Shares of time for jobs, or pairs of jobs, on each type.
pub(super) type Shares = Vec<(Vec<usize>, Vec<f64>)>;

/// A time at which something happened: all jobs that are there, and the shares where some were computed.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) time_s: f64,
    pub(super) is_round: bool,
    pub(super) jobs: Vec<Present>,
    pub(super) shares: Option<Shares>,
}

/// Follows a run, and notes jobs that end before or after their work is done.
pub(super) struct Tracker<'a> {
    case: &'a Case,
    kinds: Vec<usize>,
    now_s: f64,
    lives: Vec<Life>,
    shares: Option<Shares>,
    is_round: bool,
    has_news: bool,
    pub(super) moments: Vec<Moment>,
    pub(super) preemptions: usize,
    pub(super) unfinished: usize,
    pub(super) errors: Vec<String>,
}

impl<'a> Tracker<'a> {
    fn new(case: &'a Case) -> Self {
        let kinds = case.pools.iter().enumerate().flat_map(|(kind, pool)| vec![kind; pool.nodes]).collect();
        Self {
            case,
            kinds,
            now_s: 0.0,
            lives: vec![Life::default(); case.jobs.len()],
            shares: None,
            is_round: false,
            has_news: false,
            moments: Vec::new(),
            preemptions: 0,
            unfinished: 0,
            errors: Vec::new(),
        }
    }

    /// How fast a job is on what it has: as fast as on the device where others slow it down most.
    fn speed(&self, job: usize, holding: &Holding) -> f64 {
        let on = |device: &(usize, usize)| {
            let beside: Vec<usize> = (0..self.lives.len())
                .filter(|&other| other != job)
                .filter(|&other| {
                    self.lives[other].held.as_ref().is_some_and(|held| held.devices.contains(device))
                })
                .collect();
            if self.case.is_told {
                return 1.0 / self.case.solo_s(job) / self.case.slowdown(job, &beside);
            }
            let alone = self.case.speed(job, holding.kind, holding.devices.len());
            beside.iter().fold(alone, |speed, &other| speed * self.case.kept(job, other))
        };
        holding.devices.iter().map(on).fold(f64::INFINITY, f64::min)
    }

    /// Something happens: what happened before this time is complete.
    fn advance(&mut self, time: Time) {
        let now_s = time.seconds();
        if now_s > self.now_s {
            self.close();
        }
        self.has_news = true;
        for job in 0..self.lives.len() {
            let Some(held) = &self.lives[job].held else { continue };
            let from_s = self.now_s.max(held.since_s + RESTART_S);
            if now_s > from_s {
                self.lives[job].done += (now_s - from_s) * self.speed(job, held);
            }
        }
        self.now_s = now_s;
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.has_news) {
            let shares = self.shares.take();
            let is_round = std::mem::take(&mut self.is_round);
            self.moments.push(Moment { shares, is_round, ..self.moment() });
        }
    }

    fn moment(&self) -> Moment {
        let present = |job: usize| {
            let life = &self.lives[job];
            let is_new = |held: &&Holding| held.since_s == self.now_s;
            let left = life.left.as_ref().filter(|(time_s, _)| *time_s == self.now_s);
            let before = match &life.held {
                Some(held) if !is_new(&held) => Some(held.clone()),
                _ => left.map(|(_, holding)| holding.clone()),
            };
            Present {
                job,
                elapsed_s: self.now_s - self.case.jobs[job].submit_s,
                remaining: (self.case.jobs[job].iterations - life.done).max(0.0),
                starts: life.starts - u32::from(life.held.as_ref().filter(is_new).is_some()),
                before,
                after: life.held.clone(),
            }
        };
        let here = |&job: &usize| self.lives[job].is_here && !self.lives[job].is_over;
        let jobs = (0..self.lives.len()).filter(here).map(present).collect();
        Moment { time_s: self.now_s, is_round: false, jobs, shares: None }
    }

    fn leave(&mut self, time: Time, job: usize) {
        self.advance(time);
        let life = &mut self.lives[job];
        // A job that is moved twice in one decision was last where it was before that decision.
        let is_old = |held: &Holding| held.since_s < time.seconds();
        if let Some(held) = life.held.take().filter(is_old) {
            life.left = Some((time.seconds(), held));
        }
    }
}

impl Recorder for Tracker<'_> {
    fn wants_rounds(&self) -> bool {
        true
    }

    fn submitted(&mut self, time: Time, job: JobId) {
        self.advance(time);
        self.lives[job.index()].is_here = true;
    }

    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], _group: &[JobId]) {
        self.advance(time);
        let device = |share: &NodeShare| {
            let node = share.node.index();
            share.devices.iter().map(move |device| (node, device as usize)).collect::<Vec<_>>()
        };
        let devices: BTreeSet<_> = placement.iter().flat_map(device).collect();
        let kind = self.kinds[placement[0].node.index()];
        let life = &mut self.lives[job.index()];
        life.starts += 1;
        life.held = Some(Holding { kind, devices, since_s: time.seconds() });
    }

    fn preempted(&mut self, time: Time, job: JobId) {
        self.preemptions += 1;
        self.leave(time, job.index());
    }

    fn finished(&mut self, time: Time, job: JobId) {
        self.leave(time, job.index());
        let (life, asked) = (&mut self.lives[job.index()], self.case.jobs[job.index()].iterations);
        life.is_over = true;
        if (life.done - asked).abs() > 1e-6 * asked.max(1.0) {
            self.errors.push(format!("{job} ended after {} of {asked} iterations", life.done));
        }
    }

    fn allocated(&mut self, allocation: &Allocation) {
        self.advance(allocation.time);
        let fraction = |(jobs, parts): &(Vec<JobId>, Vec<f64>)| {
            (jobs.iter().map(|job| job.index()).collect(), parts.clone())
        };
        let names: Vec<&str> = allocation.device_types.iter().map(|name| &**name).collect();
        assert_eq!(names, TYPES[..self.case.pools.len()]);
        self.shares = Some(allocation.fractions.iter().map(fraction).collect());
    }

    fn round(&mut self, round: &Round) {
        self.advance(round.time);
        self.is_round = true;
    }
}

/// What the product makes of a case.
pub(super) fn follow<'a>(case: &'a Case, policy: &str, settings: &[&str]) -> Tracker<'a> {
    let pool = |(kind, pool): (usize, &Pool)| {
        ClusterSpec::uniform(TYPES[kind], pool.nodes as u32, pool.size as u32).nodes
    };
    let mut cluster = ClusterSpec::of(case.pools.iter().enumerate().flat_map(pool).collect());
    for (index, node) in cluster.nodes.iter_mut().enumerate() {
        node.name = format!("n{index}").into();
    }
    let trace =
        Trace { name: "random".into(), jobs: (0..case.jobs.len()).map(|job| case.spec(job)).collect() };
    let mut settings = Settings::parse(settings.iter().copied()).expect("key=value");
    settings.set("spread_slowdown", "0");
    settings.set("switch_slowdown", "0");
    let preset = Preset::load("wharf").expect("built in");
    let profile = (!case.is_told).then(|| case.profile());
    let spec = RunSpec {
        trace: &trace,
        cluster: &cluster,
        policy,
        preset: &preset,
        settings: &settings,
        seed: 3,
        profile: profile.as_ref(),
        rounds: None,
        failures: None,
    };
    let mut tracker = Tracker::new(case);
    let outcome =
        run(&spec, &mut tracker).unwrap_or_else(|error| panic!("{policy}: {error}\n{}", case.shown()));
    tracker.close();
    tracker.unfinished = outcome.jobs.iter().filter(|job| job.end.is_none()).count();
    tracker
}

/// Checks decisions of random cases until there were as many as asked for. `check` returns how many it checked, or what is
/// wrong; then the case is reduced to as few jobs as possible.
pub(super) fn hold(what: &str, case: impl Fn(u64) -> Case, check: impl Fn(&Case) -> Result<u64, String>) {
    let (mut checked, mut seed) = (0, first_seed());
    while checked < cases() {
        let mut case = case(seed);
        seed += 1;
        let mut text = match check(&case) {
            Ok(count) => {
                checked += count;
                assert!(seed < first_seed() + 100 + 100 * cases(), "{what}: too few decisions to check");
                continue;
            }
            Err(text) => text,
        };
        let mut index = 0;
        while index < case.jobs.len() {
            let mut smaller = case.clone();
            smaller.jobs.remove(index);
            match (!smaller.jobs.is_empty()).then(|| check(&smaller).err()).flatten() {
                Some(found) => (case, text) = (smaller, found),
                None => index += 1,
            }
        }
        panic!("{what} disagrees with its oracle, seed {}:\n{}{text}", seed - 1, case.shown());
    }
}
