//! The models that generated jobs train, and how long their stages take.
//!
//! None of this is measured. Each model has a size and the two times of one device; a formula gives the rest,
//! so that models differ in what holds them up: reading (`dlrm`, `a3c`), computing (`bert-base`,
//! `gpt2-medium`), exchanging gradients (`vgg19`).

use wharf_core::StageTimes;

/// A model of the generator's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeneratorModel {
    /// Its name in traces.
    pub name: &'static str,
    /// Samples per iteration on one device.
    pub batch_size: u32,
    /// Reading and preprocessing one device's samples.
    pub data_ms: f64,
    /// Forward and backward pass on one device.
    pub compute_ms: f64,
    /// Gradients that the devices exchange each iteration.
    pub gradient_mb: f64,
    /// How often jobs train it, relative to the others.
    pub weight: f64,
}

const MODELS: &[GeneratorModel] = &[
    model("resnet50", 64, 95.0, 120.0, 100.0, 3.0),
    model("bert-base", 16, 2.0, 150.0, 420.0, 3.0),
    model("gpt2-medium", 8, 1.5, 290.0, 1400.0, 2.0),
    model("vgg19", 32, 60.0, 90.0, 560.0, 1.0),
    model("dlrm", 2048, 180.0, 25.0, 60.0, 1.0),
    model("vit-b", 32, 70.0, 165.0, 340.0, 2.0),
    model("t5-small", 32, 3.0, 110.0, 240.0, 1.0),
    model("a3c", 128, 240.0, 12.0, 10.0, 1.0),
];

const fn model(
    name: &'static str,
    batch_size: u32,
    data_ms: f64,
    compute_ms: f64,
    gradient_mb: f64,
    weight: f64,
) -> GeneratorModel {
    GeneratorModel { name, batch_size, data_ms, compute_ms, gradient_mb, weight }
}

/// The models that generated jobs train.
pub fn generator_models() -> &'static [GeneratorModel] {
    MODELS
}

impl GeneratorModel {
    /// One iteration on a gang, in milliseconds, and its stages; to a tenth of a millisecond.
    ///
    /// Gradients go round a ring: each device sends 2(n-1)/n of them, inside a node of 8 at 20 MB a millisecond,
    /// across nodes at 4. The longest stage hides two thirds of the others.
    pub fn profile(&self, devices: u32) -> (f64, StageTimes) {
        const NODE_DEVICES: u32 = 8;
        const NODE_MB_PER_MS: f64 = 20.0;
        const NETWORK_MB_PER_MS: f64 = 4.0;
        const EXPOSED_SHARE: f64 = 1.0 / 3.0;
        let count = f64::from(devices.max(1));
        let mb_per_ms = if devices <= NODE_DEVICES { NODE_MB_PER_MS } else { NETWORK_MB_PER_MS };
        // Readers of one node share its disk and cores.
        let readers = f64::from(devices.clamp(1, NODE_DEVICES));
        let stages = StageTimes {
            data_ms: tenth(self.data_ms * (1.0 + 0.02 * (readers - 1.0))),
            compute_ms: tenth(self.compute_ms),
            network_ms: tenth(2.0 * (count - 1.0) / count * self.gradient_mb / mb_per_ms),
        };
        let StageTimes { data_ms, compute_ms, network_ms } = stages;
        let longest = data_ms.max(compute_ms).max(network_ms);
        let rest = data_ms + compute_ms + network_ms - longest;
        (tenth(longest + EXPOSED_SHARE * rest), stages)
    }
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
