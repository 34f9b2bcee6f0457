//! Fair shares: who gets how much of a busy cluster, whatever their jobs look like.

use std::collections::BTreeMap;

use wharf_core::{ClusterSpec, JobId, JobSpec, NodeShare, Time};
use wharf_sim::{Preset, Recorder, RunSpec, Settings, run};
use wharf_trace::Trace;

const HOUR_S: f64 = 3600.0;
const NODES: u32 = 8;
const NODE_SIZE: u32 = 8;
const DEVICES: f64 = (NODES * NODE_SIZE) as f64;

/// What one user submits: gangs drawn from a list, lengths between two bounds, evenly on a logarithmic scale.
#[derive(Clone, Copy)]
struct Load {
    user: &'static str,
    gangs: &'static [u32],
    minutes: (f64, f64),
    /// Hours in which jobs are submitted.
    hours: (f64, f64),
    /// How many times the whole cluster's work is submitted.
    load: f64,
}

const SMALL: &[u32] = &[1, 1, 1, 2];
const MIXED: &[u32] = &[1, 1, 2, 3, 4, 8];
const LARGE: &[u32] = &[4, 8, 8];

impl Load {
    const fn of(user: &'static str, gangs: &'static [u32], minutes: (f64, f64), until_h: f64) -> Self {
        Self { user, gangs, minutes, hours: (0.0, until_h), load: 1.5 }
    }
}

struct Draw(u64);

impl Draw {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn trace(loads: &[Load], seed: u64) -> Trace {
    let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut jobs = Vec::new();
    for load in loads {
        let (from_h, until_h) = load.hours;
        let mut submit_s = from_h * HOUR_S;
        while submit_s < until_h * HOUR_S {
            let gang = load.gangs[(draw.unit() * load.gangs.len() as f64) as usize];
            let (least, most) = load.minutes;
            let solo_s = 60.0 * least * (most / least).powf(draw.unit());
            let mut job = JobSpec::new("", Time::from_seconds(submit_s), gang, solo_s * 10.0, 100.0);
            job.user = Some(load.user.into());
            jobs.push(job);
            // On average as far apart as the cluster would need for the job; between 0 and twice that.
            submit_s += 2.0 * draw.unit() * solo_s * f64::from(gang) / DEVICES / load.load;
        }
    }
    jobs.sort_by_key(|job| job.submit);
    for (index, job) in jobs.iter_mut().enumerate() {
        job.name = index.to_string().into();
    }
    Trace { name: "shares".into(), jobs }
}

/// Device-seconds of each user, hour by hour.
struct Meter<'a> {
    jobs: &'a [JobSpec],
    since: BTreeMap<JobId, Time>,
    hourly: BTreeMap<&'a str, Vec<f64>>,
}

impl<'a> Meter<'a> {
    fn close(&mut self, time: Time, job: JobId) {
        let Some(since) = self.since.remove(&job) else { return };
        let spec = &self.jobs[job.index()];
        let hourly = self.hourly.entry(spec.user.as_deref().unwrap_or_default()).or_default();
        let (mut from_s, until_s) = (since.seconds(), time.seconds());
        while from_s < until_s {
            let hour = (from_s / HOUR_S).floor();
            let next_s = ((hour + 1.0) * HOUR_S).min(until_s);
            if hourly.len() <= hour as usize {
                hourly.resize(hour as usize + 1, 0.0);
            }
            hourly[hour as usize] += (next_s - from_s) * f64::from(spec.gang.devices);
            from_s = next_s;
        }
    }

    fn device_h(&self, user: &str, hours: std::ops::Range<usize>) -> f64 {
        let hourly = self.hourly.get(user).map_or(&[][..], Vec::as_slice);
        hourly.iter().skip(hours.start).take(hours.len()).sum::<f64>() / HOUR_S
    }
}

impl Recorder for Meter<'_> {
    fn started(&mut self, time: Time, job: JobId, _placement: &[NodeShare], _group: &[JobId]) {
        self.since.insert(job, time);
    }

    fn preempted(&mut self, time: Time, job: JobId) {
        self.close(time, job);
    }

    fn finished(&mut self, time: Time, job: JobId) {
        self.close(time, job);
    }
}

fn metered<'a>(trace: &'a Trace, settings: &[&str], seed: u64) -> Meter<'a> {
    let preset = Preset::load("wharf").expect("built in");
    let settings = Settings::parse(settings.iter().copied()).expect("key=value");
    let cluster = ClusterSpec::uniform("gpu", NODES, NODE_SIZE);
    let spec = RunSpec {
        trace,
        cluster: &cluster,
        policy: "fair",
        preset: &preset,
        settings: &settings,
        seed,
        profile: None,
        rounds: None,
        failures: None,
    };
    let mut meter = Meter { jobs: &trace.jobs, since: BTreeMap::new(), hourly: BTreeMap::new() };
    run(&spec, &mut meter).expect("a run");
    meter
}

type Jobs = (&'static [u32], (f64, f64));

/// Hours in which every user has more work than the cluster can do.
const WINDOW_H: usize = 7 * 24;

fn shares(ann: Load, bob: Load, settings: &[&str], seed: u64) -> (f64, f64) {
    let trace = trace(&[ann, bob], seed);
    let meter = metered(&trace, settings, seed);
    (meter.device_h("ann", 0..WINDOW_H), meter.device_h("bob", 0..WINDOW_H))
}

const CASES: [(&str, Jobs, Jobs); 5] = [
    ("alike", (MIXED, (10.0, 240.0)), (MIXED, (10.0, 240.0))),
    ("long and short", (MIXED, (120.0, 600.0)), (MIXED, (5.0, 30.0))),
    ("large and small", (LARGE, (30.0, 240.0)), (SMALL, (30.0, 240.0))),
    ("large, long and small, short", (LARGE, (120.0, 600.0)), (SMALL, (5.0, 30.0))),
    ("large, short and small, long", (LARGE, (5.0, 30.0)), (SMALL, (120.0, 600.0))),
];

/// Runs all cases and tells by how much the first user's part differs from `fair`, relative to it.
fn check_shares(settings: &[&str], seeds: std::ops::Range<u64>, fair: f64, differ_max: f64) {
    let until = WINDOW_H as f64;
    for (what, ann, bob) in CASES {
        for seed in seeds.clone() {
            let ann = Load::of("ann", ann.0, ann.1, until);
            let bob = Load::of("bob", bob.0, bob.1, until);
            let (a, b) = shares(ann, bob, settings, seed);
            let (busy, differ) = ((a + b) / (DEVICES * until), (a / b / fair - 1.0).abs());
            let what = format!("{what}, seed {seed}: {a:.0} and {b:.0} device-hours");
            assert!(differ < differ_max, "{what}");
            assert!(busy > 0.88, "{what}: the cluster is busy {busy:.3} of the time");
        }
    }
}

#[test]
fn users_of_equal_weight_get_equal_device_hours() {
    check_shares(&[], 1..4, 1.0, 0.05);
    check_shares(&["half_life_s=0"], 4..6, 1.0, 0.05);
}

#[test]
fn device_hours_follow_weights() {
    check_shares(&["weights=ann=2"], 1..3, 2.0, 0.05);
    check_shares(&["groups=ann=lab,bob=ops", "group_weights=ops=2"], 1..2, 0.5, 0.05);
}

#[test]
fn preemption_keeps_the_shares() {
    check_shares(&["preempt=on", "min_run_s=600"], 1..3, 1.0, 0.05);
}

/// A user who returns after a long time has used less than the others, and goes first, but not for longer than it takes until
/// both have used the same: at most a half-life.
#[test]
fn return_of_an_idle_user_does_not_lock_out_the_others() {
    let half_life_h = 24;
    let (back_h, until_h) = (120, 240);
    let (ann, bob) = ((MIXED, (10.0, 120.0)), (MIXED, (10.0, 120.0)));
    for seed in 1..4 {
        let ann = Load::of("ann", ann.0, ann.1, until_h as f64);
        let bob = Load { hours: (back_h as f64, until_h as f64), ..Load::of("bob", bob.0, bob.1, 0.0) };
        let trace = trace(&[ann, bob], seed);
        let meter = metered(&trace, &[&format!("half_life_s={}", half_life_h * 3600)], seed);
        let part = |hours: std::ops::Range<usize>| {
            meter.device_h("ann", hours.clone()) / (DEVICES * hours.len() as f64)
        };
        assert!(part(24..back_h) > 0.9, "seed {seed}: alone, a user gets everything");
        let later = back_h + half_life_h + 2;
        assert!(part(back_h..later) < 0.25, "seed {seed}: who returns goes first");
        for from in (later..until_h - 12).step_by(12) {
            let part = part(from..from + 12);
            assert!((0.4..0.6).contains(&part), "seed {seed}: {part} from hour {from} on");
        }
    }
}

/// Users share what their group gets.
#[test]
fn users_of_a_group_share_its_part() {
    let until = WINDOW_H as f64;
    let load = |user| Load::of(user, MIXED, (10.0, 120.0), until);
    let trace = trace(&["ann", "bob", "eve"].map(load), 1);
    let meter = metered(&trace, &["groups=ann=lab,bob=lab", "weights=ann=3"], 1);
    let total = DEVICES * until;
    for (user, expected) in [("ann", 0.375), ("bob", 0.125), ("eve", 0.5)] {
        let part = meter.device_h(user, 0..WINDOW_H) / total;
        assert!((part / expected - 1.0).abs() < 0.1, "{user} got {part}, not {expected}");
    }
}
