//! Learning what devices of a type reach from measured iterations: the speed of their hosts, what products and memory reach, what links
//! do. All have a physical meaning, so that they hold for other models and plans as well.
//!
//! A fit is used only where it predicts measurements better that it has not seen: each fifth of them is predicted by a fit of the others.

use crate::hardware::Hardware;
use crate::judge::{JudgeError, Measurement};
use crate::links::Link;

/// Factors that are tried for hosts, for devices, and for links.
const HOSTS: &[f64] = &[0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.8];
const DEVICES: &[f64] = &[0.6, 0.7, 0.8, 0.87, 0.93, 1.0, 1.07, 1.15, 1.3];
const LINKS: &[f64] = &[0.25, 0.5, 0.75, 1.0, 1.3, 1.7];
/// Parts of which each is predicted by the others.
const FOLDS: usize = 5;
/// Fewer measurements tell nothing.
const LEAST: usize = 4;
/// How much better, as a share of the error, a fit has to be on what it has not seen.
const BETTER: f64 = 0.95;
/// How much a factor far from 1 has to gain: an error this large for each natural logarithm.
const DISTRUST: f64 = 0.02;

/// What devices of a type reach, compared with what is built in or described.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Speed of the host.
    pub host: f64,
    /// What products and memory reach.
    pub device: f64,
    /// Bandwidth of links within and between nodes.
    pub links: f64,
    /// Measurements.
    pub runs: usize,
    /// Mean error on measurements that the fit has not seen, without it and with it.
    pub errors: [f64; 2],
}

impl Fit {
    /// The devices as they are.
    pub const NONE: Self = Self { host: 1.0, device: 1.0, links: 1.0, runs: 0, errors: [0.0; 2] };

    /// Whether it changes anything.
    #[must_use]
    pub fn is_used(&self) -> bool {
        [self.host, self.device, self.links] != [1.0; 3]
    }

    /// The devices as they were found to be.
    #[must_use]
    pub fn apply(&self, hardware: &Hardware) -> Hardware {
        let link = |link: Link| Link { gb_per_s: link.gb_per_s * self.links, ..link };
        let mut fitted = hardware.clone();
        fitted.host_speed *= self.host;
        fitted.product_share *= self.device;
        fitted.memory_gb_per_s *= self.device;
        let links = &mut fitted.links;
        links.near = link(links.near);
        links.far = link(links.far);
        links.send_near = link(links.send_near);
        links.send_far = link(links.send_far);
        links.rings = links.rings.faster(self.links);
        fitted
    }
}

/// The logarithms of estimates over measured times, for all factors: computed once, because every part of the measurements needs them.
#[derive(Clone, Debug)]
pub struct Errors {
    factors: Vec<[f64; 3]>,
    /// By factors, then by measurement.
    errors: Vec<Vec<f64>>,
    runs: usize,
}

impl Errors {
    /// Of measurements on one type of devices.
    ///
    /// # Errors
    /// [`JudgeError::Plan`] where a plan cannot be.
    pub fn of(measurements: &[Measurement]) -> Result<Self, JudgeError> {
        let factors: Vec<[f64; 3]> = HOSTS
            .iter()
            .flat_map(|host| DEVICES.iter().map(move |device| (*host, *device)))
            .flat_map(|(host, device)| LINKS.iter().map(move |links| [host, device, *links]))
            .collect();
        let mut errors = Vec::with_capacity(factors.len());
        for &[host, device, links] in &factors {
            let fit = Fit { host, device, links, ..Fit::NONE };
            let one = |measurement: &Measurement| {
                let hardware = fit.apply(&measurement.hardware);
                let estimate = Measurement { hardware, ..measurement.clone() }.estimate()?;
                Ok((estimate.iteration_s / measurement.time_s).ln().abs())
            };
            errors.push(measurements.iter().map(one).collect::<Result<Vec<f64>, JudgeError>>()?);
        }
        Ok(Self { factors, errors, runs: measurements.len() })
    }

    /// The fit of some measurements, if it is better on those of them that it has not seen.
    #[must_use]
    pub fn fit(&self, chosen: &[usize]) -> Fit {
        let known = Fit { runs: chosen.len(), ..Fit::NONE };
        if chosen.len() < LEAST {
            return known;
        }
        let unchanged = self.unchanged();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for fold in 0..FOLDS.min(chosen.len()) {
            let is_out = |place: usize| place % FOLDS == fold;
            let pick = |out: bool| -> Vec<usize> {
                let places = chosen.iter().enumerate().filter(|(place, _)| is_out(*place) == out);
                places.map(|(_, run)| *run).collect()
            };
            let best = self.best(&pick(false));
            for run in pick(true) {
                before.push(self.errors[unchanged][run]);
                after.push(self.errors[best][run]);
            }
        }
        let errors = [mean(&before), mean(&after)];
        let medians = [median(before), median(after)];
        let is_better = errors[1] <= BETTER * errors[0] && medians[1] <= medians[0];
        let [host, device, links] = self.factors[if is_better { self.best(chosen) } else { unchanged }];
        Fit { host, device, links, errors, ..known }
    }

    /// Of all measurements.
    #[must_use]
    pub fn fit_all(&self) -> Fit {
        self.fit(&(0..self.runs).collect::<Vec<_>>())
    }

    /// Sizes of the errors of some measurements, under a fit.
    #[must_use]
    pub fn sizes(&self, fit: &Fit, chosen: &[usize]) -> Vec<f64> {
        let is_it = |factors: &[f64; 3]| *factors == [fit.host, fit.device, fit.links];
        let row = self.factors.iter().position(is_it).unwrap_or_else(|| self.unchanged());
        chosen.iter().map(|run| self.errors[row][*run]).collect()
    }

    fn unchanged(&self) -> usize {
        self.factors.iter().position(|factors| *factors == [1.0; 3]).unwrap_or(0)
    }

    /// The factors with the least mean error, where those near 1 count as less: the mean of sizes is robust against single runs.
    fn best(&self, chosen: &[usize]) -> usize {
        let cost = |row: usize| {
            let far: f64 = self.factors[row].iter().map(|factor| factor.ln().abs()).sum();
            chosen.iter().map(|run| self.errors[row][*run]).sum::<f64>() / chosen.len() as f64
                + DISTRUST * far
        };
        let all = (0..self.factors.len()).map(|row| (row, cost(row)));
        all.min_by(|one, two| one.1.total_cmp(&two.1)).map_or_else(|| self.unchanged(), |(row, _)| row)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
