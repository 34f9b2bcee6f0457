//! The built-in profile: estimated speeds from public data of models and devices.
//!
//! One iteration of a model over B samples on n devices of a type, each with b = B/n of them:
//!
//! * reading: b × the model's time to read and preprocess a sample;
//! * computing: b × operations / (0.4 × peak) + b × memory traffic / bandwidth + 2 ms for starting kernels;
//! * exchanging: 2(n-1)/n × 4 bytes of gradient per parameter / link, where the link is that within a node for up to 8 devices
//!   on as few nodes as hold them, and the network's 10 GB/s otherwise.
//!
//! The longest of the three hides two thirds of the others. A model fits where 16 bytes per parameter, the activations of b
//! samples and 1 GiB are no more than the device's memory. Two models on the same devices slow each other down as
//! [`interference`] says, if both fit together.

mod models;

use std::sync::{Arc, LazyLock};

use wharf_core::{ClusterSpec, JobSpec, StageTimes, Time};

use crate::interference;
use crate::profile::{Entry, Locality, PairEntry, Place, Profile, Workload};
use crate::speed::Speeds;
pub use models::{Model, models};
use wharf_planner::devices;
pub use wharf_planner::devices::{Device, devices};

/// The type that jobs mean that tell their speed and no type.
pub const REFERENCE: &str = "v100";

/// What of the peak a training step reaches.
const EFFICIENCY: f64 = 0.4;
/// Starting the kernels of one iteration.
const START_S: f64 = 0.002;
/// Devices within a node.
const NODE_DEVICES: u32 = 8;
/// What a device sends to another node, in 10⁹ bytes a second.
const NETWORK_GB_PER_S: f64 = 10.0;
/// What the longest stage does not hide of the others.
const EXPOSED_SHARE: f64 = 1.0 / 3.0;
/// Weights, gradients and the optimizer's state, per parameter.
const STATE_BYTES: f64 = 16.0;
/// Gradients, per parameter.
const GRADIENT_BYTES: f64 = 4.0;
/// What the framework takes of a device's memory.
const WORKSPACE_GIB: f64 = 1.0;

const GIB: f64 = 1_073_741_824.0;

/// Numbers of devices that the table has.
const COUNTS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Most devices on which pairs are in the table.
const PAIR_DEVICES_MAX: u32 = 8;
/// How many times more or fewer samples than usual for so many devices the table has.
const BATCH_RATIO_MAX: u32 = 4;

/// One iteration, in seconds, before anything is hidden.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stages {
    /// Reading and preprocessing samples.
    pub data_s: f64,
    /// Forward and backward passes.
    pub compute_s: f64,
    /// Gradient exchange.
    pub network_s: f64,
}

impl Stages {
    /// The whole iteration.
    pub fn iteration_s(self) -> f64 {
        let Self { data_s, compute_s, network_s } = self;
        let longest = data_s.max(compute_s).max(network_s);
        longest + EXPOSED_SHARE * (data_s + compute_s + network_s - longest)
    }
}

/// The stages of an iteration over `batch_size` samples on `devices` devices.
pub fn stages(model: &Model, device: &Device, batch_size: u32, devices: u32, locality: Locality) -> Stages {
    let count = f64::from(devices.max(1));
    let each = f64::from(batch_size) / count;
    let is_within = locality == Locality::Packed && devices <= NODE_DEVICES;
    let link = if is_within { device.link_gb_per_s } else { device.link_gb_per_s.min(NETWORK_GB_PER_S) };
    let compute_s = each * model.gflop / (EFFICIENCY * device.peak_tflops * 1000.0);
    let memory_s = each * model.traffic_mb / (device.memory_gb_per_s * 1000.0);
    let gradient_gb = GRADIENT_BYTES * model.parameters_m / 1000.0;
    Stages {
        data_s: each * model.read_ms / 1000.0,
        compute_s: compute_s + memory_s + START_S,
        network_s: 2.0 * (count - 1.0) / count * gradient_gb / link,
    }
}

/// GiB that a model takes of each device.
pub fn memory_gib(model: &Model, batch_size: u32, devices: u32) -> f64 {
    let each = f64::from(batch_size) / f64::from(devices.max(1));
    let state = STATE_BYTES * model.parameters_m * 1e6;
    (state + each * model.activation_mb * 1e6) / GIB + WORKSPACE_GIB
}

/// Iterations per second; 0 where it does not fit.
pub fn speed(model: &Model, device: &Device, batch_size: u32, devices: u32, locality: Locality) -> f64 {
    if memory_gib(model, batch_size, devices) > device.memory_gib {
        return 0.0;
    }
    1.0 / stages(model, device, batch_size, devices, locality).iteration_s()
}

/// Iterations per second of two models on the same devices; 0 where they do not fit together.
fn pair_speeds(pair: [&Model; 2], device: &Device, devices: u32) -> [f64; 2] {
    let batch = |model: &Model| model.batch_size * devices;
    let together: f64 = pair.iter().map(|model| memory_gib(model, batch(model), devices)).sum();
    if together > device.memory_gib {
        return [0.0, 0.0];
    }
    let jobs = pair.map(|model| {
        let stages = stages(model, device, batch(model), devices, Locality::Packed);
        let [data_ms, compute_ms, network_ms] =
            [stages.data_s, stages.compute_s, stages.network_s].map(|stage_s| 1000.0 * stage_s);
        JobSpec {
            stages: Some(StageTimes { data_ms, compute_ms, network_ms }),
            ..JobSpec::new(model.name, Time::ZERO, devices, 1.0, 1000.0 * stages.iteration_s())
        }
    });
    let beside = |own: usize, other: usize| {
        1000.0 / jobs[own].iteration_ms / interference::slowdown(&jobs[own], &[&jobs[other]])
    };
    [beside(0, 1), beside(1, 0)]
}

/// The built-in profile: every built-in model on every built-in device type, all of it estimated, with prices.
pub fn profile() -> Profile {
    speeds().profile().clone()
}

/// The built-in profile, made once.
pub(crate) fn speeds() -> &'static Speeds {
    static SPEEDS: LazyLock<Speeds> = LazyLock::new(|| Speeds::new(make()));
    &SPEEDS
}

fn make() -> Profile {
    let mut profile = Profile::default();
    profile.set_reference(REFERENCE);
    let names: Vec<Arc<str>> = models().iter().map(|model| model.name.into()).collect();
    let workload =
        |model: usize, batch_size| Workload { model: names[model].clone(), batch_size: Some(batch_size) };
    for device in devices() {
        let device_type: Arc<str> = device.name.into();
        let place = |devices, locality| Place { device_type: device_type.clone(), devices, locality };
        profile.set_price(device.name, device.price_per_h);
        for (index, model) in models().iter().enumerate() {
            for (devices, batch_size, locality) in points(model) {
                let iterations_per_s = speed(model, device, batch_size, devices, locality);
                let entry = Entry { iterations_per_s, is_estimate: true };
                profile.insert_entry(workload(index, batch_size), place(devices, locality), entry);
            }
            for (other, beside) in models().iter().enumerate().skip(index) {
                for devices in COUNTS.into_iter().filter(|devices| *devices <= PAIR_DEVICES_MAX) {
                    let iterations_per_s = pair_speeds([model, beside], device, devices);
                    profile.insert_pair_entry(
                        workload(index, model.batch_size * devices),
                        workload(other, beside.batch_size * devices),
                        place(devices, Locality::Packed),
                        PairEntry { iterations_per_s, is_estimate: true },
                    );
                }
            }
        }
    }
    profile
}

/// The numbers of devices, batch sizes and localities at which a model is in the table.
fn points(model: &Model) -> impl Iterator<Item = (u32, u32, Locality)> {
    let packed = COUNTS.into_iter().flat_map(move |devices| {
        let is_near =
            move |times: &u32| devices <= times * BATCH_RATIO_MAX && *times <= devices * BATCH_RATIO_MAX;
        let batches = COUNTS.into_iter().filter(is_near);
        batches.map(move |times| (devices, model.batch_size * times, Locality::Packed))
    });
    let spread = COUNTS.into_iter().filter(|devices| *devices > 1);
    packed.chain(spread.map(move |devices| (devices, model.batch_size * devices, Locality::Spread)))
}

/// Whether a cluster mixes device types of which the built-in profile knows several.
pub(crate) fn is_mixed<'a>(types: impl Iterator<Item = &'a str>) -> bool {
    let mut first = None;
    for name in types.filter(|name| devices::find(name).is_some()) {
        if *first.get_or_insert(name) != name {
            return true;
        }
    }
    false
}

/// The built-in profile as it is for a cluster without its own profile, where it applies: the cluster mixes
/// types of which it knows several, or a job does not state how fast it is.
///
/// In a cluster of one type, what jobs tell is taken to hold for that type.
pub fn profile_for(cluster: &ClusterSpec, jobs: &[JobSpec]) -> Option<Profile> {
    let types = || cluster.nodes.iter().map(|node| &*node.device_type);
    if is_mixed(types()) {
        return Some(profile());
    }
    jobs.iter().any(|job| job.iteration_ms == 0.0).then(|| {
        let mut profile = profile();
        if let Some(only) = types().find(|name| devices::find(name).is_some()) {
            profile.set_reference(only);
        }
        profile
    })
}
