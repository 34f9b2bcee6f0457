//! How long one decision takes on mixed clusters: ten thousand waiting jobs on ten thousand devices of six types, from what is
//! known of them to placements.

#![expect(clippy::disallowed_types, reason = "a benchmark measures time")]

use std::time::Instant;

use wharf_core::{Cadence, ClusterSpec, Command, Engine, Gang, JobSpec, Regime, Time};
use wharf_perf::{Costs, Locality, Model, Order, Place, Profile, Workload};
use wharf_policy::{BuildArgs, Settings, Strategy};

const TYPES: [(&str, u32, u32, f64); 6] = [
    ("k80", 500, 4, 1.0),
    ("p100", 200, 8, 2.1),
    ("v100", 200, 8, 4.0),
    ("t4", 400, 4, 1.6),
    ("a100", 300, 8, 9.0),
    ("h100", 100, 8, 16.0),
];
const MODELS: u32 = 20;
const POLICIES: [&str; 14] = [
    "gavel/fifo",
    "fifo-perf",
    "isolated",
    "max-min-fairness-perf",
    "max-min-fairness-packed",
    "max-min-fairness-water-filling-perf",
    "finish-time-fairness-perf",
    "finish-time-fairness-packed",
    "min-total-duration-perf",
    "max-sum-throughput-perf",
    "allox",
    "gandiva",
    "sia",
    "pollux",
];

/// A part of the cluster: `1 / part` of the nodes of each type.
fn cluster(part: u32) -> ClusterSpec {
    let nodes = TYPES.iter().flat_map(|&(kind, nodes, devices, _)| {
        ClusterSpec::uniform(kind, nodes.div_ceil(part), devices).nodes
    });
    ClusterSpec::of(nodes.collect())
}

/// Every model gains differently by devices and types.
fn profile() -> Profile {
    let mut profile = Profile::default();
    for model in 0..MODELS {
        let (scaling, spread) = (0.6 + 0.02 * f64::from(model), 0.5 + 0.03 * f64::from(model % 7));
        for (kind, _, _, speed) in TYPES {
            for devices in [1, 2, 4, 8, 16, 32, 64] {
                let workload = Workload { model: format!("m{model}").into(), batch_size: None };
                let place = Place { device_type: kind.into(), devices, locality: Locality::Packed };
                let speed = f64::powf(speed, spread) * f64::from(devices).powf(scaling);
                profile.insert(workload, place, speed);
            }
        }
    }
    profile
}

fn jobs(count: u32) -> Vec<JobSpec> {
    let gangs = [(1, 1), (1, 8), (2, 2), (1, 64), (4, 4), (2, 16), (8, 8), (1, 4)];
    (0..count)
        .map(|index| {
            let (min, max) = gangs[index as usize % gangs.len()];
            let mut job = JobSpec::new(&index.to_string(), Time::ZERO, min, 1e4, 500.0);
            job.gang = Gang { devices_max: max, ..Gang::fixed(min) };
            job.model = Some(format!("m{}", index / 3 % MODELS).into());
            job
        })
        .collect()
}

fn regime(policy: &str, profile: &Profile) -> Regime {
    let settings = Settings::default();
    let args = BuildArgs { settings: &settings, placement: Strategy::default(), seed: 1 };
    let info = wharf_policy::find(policy).expect("registered");
    let costs = Costs {
        restart_s: 30.0,
        spread_slowdown: 0.3,
        switch_slowdown: 0.1,
        interleave_factors: [1.1, 1.2, 1.3],
    };
    let perf = Model::new(costs, info.sharing, Order::Best).with_profile(profile.clone());
    Regime {
        policy: (info.build)(&args).expect("defaults"),
        perf: Box::new(perf),
        cadence: Cadence::Events,
        slots: info.slots,
        access: wharf_core::Access::default(),
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark reports")]
fn main() {
    let profile = profile();
    for (count, part) in [(160, 64), (1000, 10), (10_000, 1)] {
        let cluster = cluster(part);
        for policy in POLICIES {
            let mut engine = Engine::new(&cluster, regime(policy, &profile));
            let start = Instant::now();
            for job in jobs(count) {
                engine.handle(Time::ZERO, Command::SubmitJob(job), &mut ()).expect("a job");
            }
            let submitted_s = start.elapsed().as_secs_f64();
            engine.settle(Time::ZERO, &mut ());
            let decided_s = start.elapsed().as_secs_f64() - submitted_s;
            let notes = engine.rounds().expect("it has rounds");
            println!(
                "{policy:38} {count:6} jobs, {:6} devices: known {:8.1} ms, decision {:8.1} ms, {} placed, {} free, {} approximated",
                cluster.device_count(),
                submitted_s * 1e3,
                decided_s * 1e3,
                engine.state().schedule().placed_count(),
                engine.state().schedule().free_count(),
                notes.fallbacks,
            );
            assert!(engine.violations().is_empty());
        }
    }
}
