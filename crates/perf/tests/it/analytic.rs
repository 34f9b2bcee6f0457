//! The built-in profile: what must hold of it, whatever its numbers are.
use proptest::prelude::*;
use wharf_core::{ClusterSpec, JobSpec, PerfModel as _, Time, Topology};
use wharf_perf::analytic::{self, Device, devices, memory_gib, models, speed};
use wharf_perf::{Costs, Locality, Model, Order, Place, Sharing, Source, Workload};

const PACKED: Locality = Locality::Packed;

fn any_model() -> impl Strategy<Value = &'static analytic::Model> {
    prop::sample::select(models().iter().collect::<Vec<_>>())
}

fn any_device() -> impl Strategy<Value = &'static Device> {
    prop::sample::select(devices().iter().collect::<Vec<_>>())
}

/// No worse in anything that speed depends on.
fn is_no_worse(a: &Device, b: &Device) -> bool {
    a.peak_tflops >= b.peak_tflops
        && a.memory_gb_per_s >= b.memory_gb_per_s
        && a.memory_gib >= b.memory_gib
        && a.link_gb_per_s >= b.link_gb_per_s
}

proptest! {
    #[test]
    fn better_device_is_never_slower(
        model in any_model(), a in any_device(), b in any_device(), times in 1_u32..64, count in 1_u32..64,
    ) {
        prop_assume!(is_no_worse(a, b));
        let batch = model.batch_size * times;
        for locality in [PACKED, Locality::Spread] {
            prop_assert!(speed(model, a, batch, count, locality) >= speed(model, b, batch, count, locality));
        }
    }

    #[test]
    fn more_devices_are_never_faster_than_linear(
        model in any_model(), device in any_device(), times in 1_u32..64, count in 1_u32..64, more in 1_u32..64,
    ) {
        let batch = model.batch_size * times;
        let (few, many) = (speed(model, device, batch, count, PACKED), speed(model, device, batch, count * more, PACKED));
        prop_assert!(few == 0.0 || many <= few * f64::from(more) * (1.0 + 1e-12));
    }

    #[test]
    fn spread_gang_is_never_faster_and_more_samples_never_take_less(
        model in any_model(), device in any_device(), times in 1_u32..32, more in 1_u32..8, count in 1_u32..64,
    ) {
        let batch = model.batch_size * times;
        let packed = speed(model, device, batch, count, PACKED);
        prop_assert!(speed(model, device, batch, count, Locality::Spread) <= packed);
        prop_assert!(speed(model, device, batch * more, count, PACKED) <= packed);
        prop_assert!(memory_gib(model, batch * more, count) >= memory_gib(model, batch, count));
    }
}

#[test]
fn neighbours_never_help() {
    let profile = analytic::profile();
    let mut pairs = 0;
    for (first, _, place, speeds) in profile.pairs() {
        let alone = profile.alone(first, place).unwrap();
        assert!(speeds[0] <= alone, "{} on {place:?}: {} beside, {alone} alone", first.label(), speeds[0]);
        pairs += 1;
    }
    assert_eq!(pairs, models().len() * models().len() * devices().len() * 4);
}

#[test]
fn order_of_types_is_that_of_their_makers() {
    let profile = analytic::profile();
    let on = |model: &analytic::Model, name: &str| {
        let workload = Workload { model: model.name.into(), batch_size: Some(model.batch_size) };
        let place = Place { device_type: name.into(), devices: 1, locality: PACKED };
        profile.alone(&workload, &place).unwrap()
    };
    for model in models() {
        let speeds = ["k80", "p100", "v100", "a100", "h100"].map(|name| on(model, name));
        assert!(speeds.is_sorted(), "{}: {speeds:?}", model.name);
        assert!(speeds[2] > 0.0, "{} does not fit the type that jobs mean", model.name);
    }
}

fn mixed(types: &[&str]) -> ClusterSpec {
    ClusterSpec::of(types.iter().flat_map(|name| ClusterSpec::uniform(name, 1, 8).nodes).collect())
}

#[test]
fn profile_applies_to_mixed_clusters_and_jobs_without_speed() {
    let told = [JobSpec::new("told", Time::ZERO, 1, 1.0, 5.0)];
    let untold = [JobSpec::new("untold", Time::ZERO, 1, 1.0, 0.0)];
    for (types, jobs, applies) in [
        (vec!["gpu"], &told, false),
        (vec!["v100"], &told, false),
        (vec!["v100", "gpu"], &told, false),
        (vec!["v100", "k80"], &told, true),
        (vec!["gpu"], &untold, true),
    ] {
        assert_eq!(analytic::profile_for(&mixed(&types), jobs).is_some(), applies, "{types:?}");
    }
    let only = analytic::profile_for(&mixed(&["a100"]), &untold).unwrap();
    assert_eq!(only.told_reference().map(|name| &**name), Some("a100"));
}

#[test]
fn declared_speed_holds_on_the_reference_type_and_scales_elsewhere() {
    let costs =
        Costs { restart_s: 0.0, spread_slowdown: 0.0, switch_slowdown: 0.0, interleave_factors: [1.0; 3] };
    let model = Model::new(costs, Sharing::None, Order::Best).with_profile(analytic::profile());
    let topology = Topology::new(&mixed(&["v100", "k80", "h100", "gpu"]));
    let job = JobSpec {
        model: Some("resnet50".into()),
        batch_size: Some(64),
        ..JobSpec::new("j", Time::ZERO, 1, 1.0, 140.0)
    };
    let on = |name: &str| model.speed(&topology, &job, topology.type_id(name).unwrap(), 1, &[]);
    assert_eq!(on("v100"), 1000.0 / 140.0);
    assert_eq!(on("gpu"), 1000.0 / 140.0);
    assert!(on("k80") < on("v100") && on("v100") < on("h100"));
    assert_eq!(model.estimate(&job, "k80", 1, PACKED, &[]).source, Source::Estimated);
    let mild = Model::new(costs, Sharing::None, Order::Best).with_builtin();
    for (types, is_scaled) in [(vec!["k80"], false), (vec!["k80", "gpu"], false), (vec!["k80", "v100"], true)]
    {
        let topology = Topology::new(&mixed(&types));
        let found = mild.speed(&topology, &job, topology.type_id("k80").unwrap(), 1, &[]);
        assert_eq!(found != 1000.0 / 140.0, is_scaled, "{types:?}");
        assert_eq!(mild.price_per_h(&topology, topology.type_id("k80").unwrap()), Some(0.45));
    }
    let stranger = JobSpec { model: Some("mine".into()), ..job.clone() };
    let found = model.estimate(&stranger, "k80", 1, PACKED, &[]);
    assert!(found.iterations_per_s < on("v100") && found.source == Source::Estimated);
}
