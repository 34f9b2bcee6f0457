//! Learning from runs: what was measured corrects what is estimated for runs like it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::estimate::Gang;
use crate::model::Model;

/// How much the estimate itself counts, beside measured runs.
const PRIOR_WEIGHT: f64 = 0.05;
/// How far estimates are off where nothing was measured, as a logarithm.
const PRIOR_SPREAD: f64 = 0.25;
/// What a doubling of the devices, of the samples of each, and of the parameters makes runs unlike.
const UNLIKE: [f64; 3] = [2.0, 0.3, 0.5];
/// Another number of nodes for the same number of devices.
const UNLIKE_SHAPE: f64 = 0.5;

/// Errors that differ by less than this are alike.
const WORSE: f64 = 1.1;
/// From so many runs on, leaving each out in turn decides whether they correct.
const JUDGED_RUNS: usize = 8;

/// A run, as far as speed goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    family: Arc<str>,
    device_type: Arc<str>,
    parameters: f64,
    gang: Gang,
    batch: u32,
}

impl Run {
    /// A run of a model with so many samples an iteration on a gang of a type.
    #[must_use]
    pub fn new(model: &Model, device_type: &str, gang: Gang, batch: u32) -> Self {
        Self {
            family: model.family.clone(),
            device_type: device_type.into(),
            parameters: model.parameters(),
            gang,
            batch,
        }
    }

    /// The family of its model.
    #[must_use]
    pub fn family(&self) -> &str {
        &self.family
    }

    /// How alike two runs are: 1 for the same, less the more they differ.
    fn likeness(&self, other: &Self) -> f64 {
        let doublings = |one: f64, two: f64| (one / two).log2().abs();
        let per_device = |run: &Self| f64::from(run.batch) / f64::from(run.gang.devices);
        let far = [
            doublings(self.gang.devices.into(), other.gang.devices.into()),
            doublings(per_device(self), per_device(other)),
            doublings(self.parameters, other.parameters),
        ];
        let far: f64 = far.iter().zip(UNLIKE).map(|(far, unlike)| far * unlike).sum();
        let nodes = |run: &Self| f64::from(run.gang.devices.div_ceil(run.gang.per_node));
        let is_spread = |run: &Self| nodes(run) > 1.0;
        let shape = if is_spread(self) == is_spread(other) { 0.0 } else { UNLIKE_SHAPE };
        (-(far + shape)).exp()
    }
}

/// What measured runs say of an estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correction {
    /// What the estimated time is to be multiplied by.
    pub factor: f64,
    /// How far the corrected time is off, usually: 0.1 means a tenth.
    pub error: f64,
    /// Measured runs of the same family and device type.
    pub runs: u32,
}

impl Correction {
    /// Where nothing was measured.
    pub const NONE: Self = Self { factor: 1.0, error: PRIOR_SPREAD, runs: 0 };
}

/// A run, and the logarithm of what it took of its estimate.
type Measured = (Run, f64);

/// Measured runs, by family and device type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration(BTreeMap<(Arc<str>, Arc<str>), Vec<Measured>>);

impl Calibration {
    /// Adds a run that took another time than was estimated. Times that are none are left out.
    pub fn add(&mut self, run: Run, estimated_s: f64, measured_s: f64) {
        let off = (measured_s / estimated_s).ln();
        if off.is_finite() {
            let key = (run.family.clone(), run.device_type.clone());
            self.0.entry(key).or_default().push((run, off));
        }
    }

    /// How a run's estimate is to be corrected.
    #[must_use]
    pub fn correction(&self, run: &Run) -> Correction {
        let key = (run.family.clone(), run.device_type.clone());
        let Some(known) = self.0.get(&key).filter(|known| !known.is_empty()) else { return Correction::NONE };
        let found = correction(run, known, None);
        if is_better(known) { found } else { Correction { factor: 1.0, ..found } }
    }
}

/// Whether corrections by all others are nearer than estimates alone, for runs of which each is left out in turn. Too few tell nothing: a
/// correction by them is cautious in itself.
fn is_better(known: &[Measured]) -> bool {
    if known.len() < JUDGED_RUNS {
        return true;
    }
    let left_out = |(index, (run, off)): (usize, &Measured)| {
        (off - correction(run, known, Some(index)).factor.ln()).abs()
    };
    let corrected: f64 = known.iter().enumerate().map(left_out).sum();
    corrected <= WORSE * known.iter().map(|(_, off)| off.abs()).sum::<f64>()
}

/// What runs say of an estimate, but for one of them.
fn correction(run: &Run, known: &[Measured], without: Option<usize>) -> Correction {
    let others = || known.iter().enumerate().filter(|(index, _)| Some(*index) != without);
    let weighted = || others().map(|(_, (other, off))| (run.likeness(other), *off));
    let weight: f64 = PRIOR_WEIGHT + weighted().map(|(likeness, _)| likeness).sum::<f64>();
    let mean = weighted().map(|(likeness, off)| likeness * off).sum::<f64>() / weight;
    let spread = |off: f64| (off - mean) * (off - mean);
    let variance = PRIOR_WEIGHT * PRIOR_SPREAD * PRIOR_SPREAD
        + weighted().map(|(likeness, off)| likeness * spread(off)).sum::<f64>();
    let runs = u32::try_from(known.len()).unwrap_or(u32::MAX);
    Correction { factor: mean.exp(), error: (variance / weight).sqrt().exp_m1(), runs }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::*;
    use crate::families;

    #[test]
    fn measurement_corrects_similar_estimates() {
        let model = families::find("gpt-1.3b").unwrap();
        let run = |devices, batch| Run::new(&model, "a40", Gang { devices, per_node: 2 }, batch);
        let mut calibration = Calibration::default();
        assert_eq!(calibration.correction(&run(2, 64)), Correction::NONE);
        calibration.add(run(2, 64), 10.0, 15.0);
        let (same, other) = (calibration.correction(&run(2, 64)), calibration.correction(&run(4, 128)));
        assert!(same.factor > 1.35 && same.factor < 1.5, "{same:?}");
        assert!(other.factor > 1.2 && other.factor < same.factor, "{other:?}");
        assert!(same.error < other.error, "{same:?} {other:?}");
        calibration.add(run(2, 64), 10.0, f64::NAN);
        assert_eq!(calibration.correction(&run(2, 64)).runs, 1);
        let elsewhere = Run::new(&model, "a100", Gang { devices: 2, per_node: 2 }, 64);
        assert_eq!(calibration.correction(&elsewhere), Correction::NONE);
    }
}
