//! Device memory: what a job takes of it, and whether two fit together.

use wharf_core::JobSpec;

/// Device memory in MB that models of the derived project's profile take.
const FOOTPRINTS_MB: [(&str, f64); 8] = [
    ("resnet18", 6432.0),
    ("shufflenet", 5252.0),
    ("vgg19", 4304.0),
    ("vgg16", 4224.0),
    ("dqn", 2230.0),
    ("a2c", 2094.0),
    ("bert", 8058.0),
    ("gpt2", 10532.0),
];

/// The memory of every device. It limits sharing only: a job alone is taken to fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Per device, in MB.
    pub device_mb: f64,
}

impl Memory {
    /// What a job takes on each of its devices; half of it where its model is not known.
    pub fn footprint_mb(&self, job: &JobSpec) -> f64 {
        let model = job.model.as_deref().unwrap_or_default();
        let known = FOOTPRINTS_MB.iter().find(|(name, _)| model.starts_with(name));
        known.map_or(self.device_mb / 2.0, |&(_, footprint)| footprint)
    }

    /// Whether two jobs fit on one device.
    pub fn holds(&self, a: &JobSpec, b: &JobSpec) -> bool {
        self.footprint_mb(a) + self.footprint_mb(b) <= self.device_mb
    }
}
