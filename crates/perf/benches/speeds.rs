//! How many speeds a second can be asked for, by how they are found: `cargo bench -p wharf-perf --bench speeds`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::disallowed_types, reason = "a benchmark needs a clock")]

use std::hint::black_box;
use std::time::Instant;

use wharf_core::{ClusterSpec, DeviceSet, JobSpec, NodeId, NodeShare, PerfModel as _, Time, Topology};
use wharf_perf::{Costs, Locality, Model, Order, Place, Profile, Sharing, Workload, analytic};

/// The best of so many goes counts, each too short to be interrupted.
const GOES: u32 = 2000;
const ROUNDS: u32 = 2000;

/// The built-in profile as if it were measured, with as many models as published tables have.
fn measured() -> Profile {
    let mut profile = Profile::default();
    let builtin = analytic::profile();
    for (workload, place, speed) in builtin.entries() {
        profile.insert(workload.clone(), place.clone(), speed);
    }
    for (first, second, place, speeds) in builtin.pairs() {
        profile.insert_pair(first.clone(), second.clone(), place.clone(), speeds);
    }
    for filler in 0..100 {
        let workload = Workload { model: format!("model-{filler}").into(), batch_size: Some(filler + 1) };
        let place = Place { device_type: "v100".into(), devices: 1, locality: Locality::Packed };
        profile.insert(workload, place, 1.0);
    }
    profile
}

fn job(model: &str, batch_size: u32, devices: u32) -> JobSpec {
    JobSpec {
        model: Some(model.into()),
        batch_size: Some(batch_size),
        ..JobSpec::new("j", Time::ZERO, devices, 1.0, 100.0)
    }
}

fn time(what: &str, mut ask: impl FnMut() -> f64) {
    let mut go = |_| {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            black_box(ask());
        }
        start.elapsed().as_secs_f64() / f64::from(ROUNDS) * 1e9
    };
    let each_ns = (0..GOES).map(&mut go).fold(f64::INFINITY, f64::min);
    println!("{what:<48} {each_ns:>7.0} ns {:>7.1} million/s", 1000.0 / each_ns);
}

fn main() {
    let mut cluster = ClusterSpec::uniform("v100", 4, 4);
    cluster.nodes.extend(ClusterSpec::uniform("p100", 4, 4).nodes);
    cluster.nodes.extend(ClusterSpec::uniform("k80", 4, 4).nodes);
    let topology = Topology::new(&cluster);
    let k80 = topology.type_id("k80").expect("in the cluster");
    let costs =
        Costs { restart_s: 0.0, spread_slowdown: 0.2, switch_slowdown: 0.1, interleave_factors: [1.0; 3] };
    let plain = Model::new(costs, Sharing::Interference, Order::Best);
    let model = plain.clone().with_profile(measured());
    let builtin = plain.clone().with_builtin();
    let resnet = black_box(job("resnet50", 64, 1));
    let odd = black_box(job("resnet50", 100, 1));
    let stranger = black_box(job("unknown-model", 64, 1));
    let dlrm = black_box(job("dlrm", 2048, 1));
    let placement = [NodeShare::new(NodeId(9), DeviceSet::first(1))];
    time("told, without a profile", || plain.speed(&topology, &resnet, k80, 1, &[]));
    time("measured", || model.speed(&topology, &resnet, k80, 1, &[]));
    time("measured, where it is placed", || model.iteration_s(&topology, &resnet, &placement, &[]));
    time("measured pair", || model.speed(&topology, &resnet, k80, 1, &[&dlrm]));
    time("between two counts", || model.speed(&topology, &resnet, k80, 3, &[]));
    time("scaled by the nearest batch size", || model.speed(&topology, &odd, k80, 1, &[]));
    time("scaled by the mean of types", || model.speed(&topology, &stranger, k80, 1, &[]));
    time("built-in profile, mixed cluster", || builtin.speed(&topology, &resnet, k80, 1, &[]));
    let start = Instant::now();
    black_box(plain.with_profile(measured()));
    println!("making a table: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
}
