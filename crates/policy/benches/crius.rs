//! How long Crius's decisions take: one about five thousand jobs on ten thousand devices of four types, and a thousand jobs that
//! come and go on 1,280 devices; and what the bounds of its search cost in throughput.

#![expect(clippy::disallowed_types, reason = "a benchmark measures time")]

use std::time::Instant;

use wharf_core::{Cadence, ClusterSpec, Command, Effect, Engine, Gang, JobId, JobSpec, Phase, Regime, Time};
use wharf_perf::{Costs, Locality, Model, Order, Place, Profile, Workload};
use wharf_policy::{BuildArgs, Settings, Strategy};

/// Types with their nodes, devices of each, and speed.
const TYPES: [(&str, u32, u32, f64); 4] =
    [("a100", 80, 4, 9.0), ("v100", 20, 16, 4.0), ("a40", 160, 2, 5.0), ("a10", 160, 2, 3.0)];
const MODELS: u32 = 20;
const BATCH: u32 = 256;

/// So many times Crius's cluster of 1,280 devices.
fn cluster(times: u32) -> ClusterSpec {
    let nodes = TYPES
        .iter()
        .flat_map(|&(kind, nodes, devices, _)| ClusterSpec::uniform(kind, nodes * times, devices).nodes);
    ClusterSpec::of(nodes.collect())
}

/// Models that scale differently, and gain differently by better types; the largest do not run on few devices.
fn profile() -> Profile {
    let mut profile = Profile::default();
    for model in 0..MODELS {
        let (scaling, spread) = (0.6 + 0.02 * f64::from(model), 0.5 + 0.03 * f64::from(model % 7));
        for (kind, _, _, speed) in TYPES {
            for devices in [1, 2, 4, 8, 16] {
                let workload = Workload { model: format!("m{model}").into(), batch_size: Some(BATCH) };
                let place = Place { device_type: kind.into(), devices, locality: Locality::Packed };
                let speed = f64::powf(speed, spread) * f64::from(devices).powf(scaling);
                profile.insert(workload, place, if devices < model % 5 { 0.0 } else { speed });
            }
        }
    }
    profile
}

fn job(index: u32, submit: Time) -> JobSpec {
    let iterations = 2e3 * f64::from(1 + index * 7919 % 97);
    let mut job = JobSpec::new(&index.to_string(), submit, 1 << (index % 5), iterations, 0.0);
    let asked = TYPES[index as usize * 31 % TYPES.len()].0;
    job.gang.devices_min = 1;
    job.gang.devices_max = 16;
    job.gang.device_types = [asked, Gang::OTHERS].iter().map(|&name| name.into()).collect();
    job.model = Some(format!("m{}", index * 13 % MODELS).into());
    job.batch_size = Some(BATCH);
    job
}

fn engine(cluster: &ClusterSpec, settings: &[&str]) -> Engine {
    let settings = Settings::parse(settings.iter().copied()).expect("key=value");
    let args = BuildArgs { settings: &settings, placement: Strategy::default(), seed: 1 };
    let info = wharf_policy::find("crius").expect("registered");
    let costs = Costs {
        restart_s: 30.0,
        spread_slowdown: 0.3,
        switch_slowdown: 0.1,
        interleave_factors: [1.1, 1.2, 1.3],
    };
    let perf = Model::new(costs, info.sharing, Order::Best).with_profile(profile());
    let regime = Regime {
        policy: (info.build)(&args).expect("settings"),
        perf: Box::new(perf),
        cadence: Cadence::Events,
        slots: info.slots,
        access: wharf_core::Access::default(),
    };
    Engine::new(cluster, regime)
}

/// Launches and stops at once.
fn answer(engine: &mut Engine, now: Time) {
    let mut effects = Vec::new();
    loop {
        engine.drain_effects(&mut effects);
        if effects.is_empty() {
            return;
        }
        for effect in effects.drain(..) {
            let command = match effect {
                Effect::Launch { job, generation } => {
                    Command::JobLaunched { job, generation, ready: now.plus(30.0) }
                }
                Effect::Stop { job, generation } => {
                    Command::JobStopped { job, generation, done: engine.state().job(job).done(now) }
                }
            };
            engine.handle(now, command, &mut ()).expect("no late answers");
        }
    }
}

/// What a run of many events was like.
struct Run {
    /// Seconds that each decision took, ascending.
    decisions_s: Vec<f64>,
    /// Samples per second, on average.
    throughput: f64,
}

impl Run {
    fn percentile_ms(&self, part: f64) -> f64 {
        self.decisions_s[(self.decisions_s.len() as f64 * part) as usize] * 1e3
    }
}

/// Jobs come every minute until `count` have, and the run ends some hours later.
fn run(cluster: &ClusterSpec, settings: &[&str], count: u32, every_s: f64) -> Run {
    let mut engine = engine(cluster, settings);
    let mut decisions_s = Vec::new();
    let last = Time::from_seconds(f64::from(count) * every_s + 7200.0);
    let (mut now, mut next) = (Time::ZERO, 0);
    while now < last {
        let end = engine.state().jobs().filter_map(|(_, spec, life)| life.finish(spec.iterations)).min();
        let arrival = (next < count).then(|| Time::from_seconds(f64::from(next) * every_s));
        let Some(at) = [arrival, end, engine.next_decision()].into_iter().flatten().min() else { break };
        now = at;
        let over: Vec<(JobId, u32)> = engine
            .state()
            .jobs()
            .filter(|(_, spec, life)| life.finish(spec.iterations).is_some_and(|end| end <= now))
            .map(|(job, _, life)| (job, life.generation))
            .collect();
        for (job, generation) in over {
            engine.handle(now, Command::JobExited { job, generation, code: 0 }, &mut ()).expect("it runs");
        }
        if arrival.is_some_and(|arrival| arrival <= now) {
            engine.handle(now, Command::SubmitJob(job(next, now)), &mut ()).expect("a job");
            next += 1;
        }
        answer(&mut engine, now);
        let start = Instant::now();
        engine.settle(now, &mut ());
        decisions_s.push(start.elapsed().as_secs_f64());
        answer(&mut engine, now);
        assert!(engine.violations().is_empty(), "{:?}", engine.violations());
    }
    decisions_s.sort_by(f64::total_cmp);
    let done: f64 = engine.state().jobs().map(|(_, _, life)| life.done(now)).sum();
    Run { decisions_s, throughput: done * f64::from(BATCH) / now.seconds() }
}

#[expect(clippy::print_stdout, reason = "a benchmark reports")]
fn main() {
    let large = cluster(8);
    let mut engine = engine(&large, &[]);
    for index in 0..5000 {
        engine.handle(Time::ZERO, Command::SubmitJob(job(index, Time::ZERO)), &mut ()).expect("a job");
    }
    let start = Instant::now();
    engine.settle(Time::ZERO, &mut ());
    let waiting = engine.state().jobs().filter(|(.., life)| life.phase == Phase::Waiting).count();
    println!(
        "5000 jobs at once on {} devices: {:.1} ms, {waiting} wait, {} devices free",
        large.device_count(),
        start.elapsed().as_secs_f64() * 1e3,
        engine.state().schedule().free_count()
    );
    answer(&mut engine, Time::ZERO);
    let now = Time::from_seconds(300.0);
    let start = Instant::now();
    engine.handle(now, Command::SubmitJob(job(5000, now)), &mut ()).expect("a job");
    engine.settle(now, &mut ());
    println!("one more, and a round: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);

    let medium = cluster(1);
    let bounded = run(&medium, &[], 1000, 20.0);
    println!(
        "1000 jobs on {} devices: {} decisions, median {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
        medium.device_count(),
        bounded.decisions_s.len(),
        bounded.percentile_ms(0.5),
        bounded.percentile_ms(0.99),
        bounded.percentile_ms(0.9999)
    );
    let unbounded = ["depth=64", "budget=1000000000000", "pruning=off"];
    for (count, every_s) in [(200, 60.0), (400, 20.0)] {
        let (bounded, unbounded) =
            (run(&medium, &[], count, every_s), run(&medium, &unbounded, count, every_s));
        println!(
            "{count} jobs, one every {every_s} s: throughput {:.4} of that of the unbounded search, longest decision {:.1} of {:.1} ms",
            bounded.throughput / unbounded.throughput,
            bounded.percentile_ms(0.9999),
            unbounded.percentile_ms(0.9999)
        );
    }
}
