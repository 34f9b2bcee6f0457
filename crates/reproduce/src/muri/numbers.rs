//! The numbers of a preset with `mechanism = "muri"`: its `[muri]` table.

use std::collections::BTreeMap;

use serde::Deserialize;
use wharf_perf::Interleaving;

/// The `[muri]` table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// Resources that grouped jobs take turns on.
    pub multi_resource: u32,
    /// Most jobs in a group, by default.
    pub packing_num: usize,
    /// Efficiency from which a pair is worth grouping, relative to full overlap.
    pub weight_lbd: f64,
    /// Whether slow groups are split again, by default.
    pub autopack: bool,
    /// GPU-seconds (or seconds) of service after which a job leaves each queue but the last.
    pub queue_limits: Vec<f64>,
    /// What running costs over the profiled iteration time.
    pub iteration_overhead: IterationOverhead,
    /// AntMan's utilisation model.
    pub antman: AntMan,
    /// What a (re)start costs.
    pub restart: Restart,
}

/// Factors on iteration times, all relative to the profile.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IterationOverhead {
    /// A job alone.
    pub solo: f64,
    /// A group of two.
    pub pair: f64,
    /// A group of three.
    pub triple: f64,
    /// A group of four.
    pub quad: f64,
    /// A group of four in the variant without Blossom.
    pub quad_without_blossom: f64,
}

/// AntMan's utilisation model.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AntMan {
    /// Utilisation of a device by a guaranteed job.
    pub guaranteed_util: f64,
    /// Utilisation of a device by an opportunistic job.
    pub opportunistic_util: f64,
    /// Devices at or above this utilisation take no opportunistic job.
    pub util_limit: f64,
    /// The part of a guaranteed job's utilisation that counts from its start, not from the reservation.
    pub reserve_util: f64,
}

/// Seconds until a (re)started job makes progress.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// For models and device counts that are not listed.
    pub default: f64,
    /// By device count.
    pub devices: Vec<DeviceRestart>,
}

/// Restart costs of jobs with one number of devices.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRestart {
    /// The number of devices.
    pub count: u32,
    /// Seconds by model.
    pub seconds: BTreeMap<String, f64>,
}

impl Numbers {
    /// The interleaving model; the variant without Blossom has its own factor for groups of four.
    pub(super) fn interleaving(&self, blossom: bool) -> Interleaving {
        let factors = self.iteration_overhead;
        let quad = if blossom { factors.quad } else { factors.quad_without_blossom };
        // Stage times come without the solo factor, so that each group factor is relative to it.
        Interleaving {
            resources: self.multi_resource,
            factors: [factors.pair / factors.solo, factors.triple / factors.solo, quad / factors.solo],
        }
    }
}

impl Restart {
    /// Seconds for a job of a model on a number of devices.
    pub fn seconds(&self, devices: u32, model: Option<&str>) -> f64 {
        let row = self.devices.iter().find(|row| row.count == devices);
        let seconds = row.zip(model).and_then(|(row, model)| row.seconds.get(model));
        seconds.copied().unwrap_or(self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Preset {
        muri: Numbers,
    }

    #[test]
    fn shipped_preset_parses_and_unknown_numbers_do_not() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../presets/muri.toml");
        let text = std::fs::read_to_string(path).expect("the preset is in the repository");
        let Preset { muri } = toml::from_str(&text).expect("its table parses");
        assert_eq!(muri.restart.seconds(8, Some("a2c")), 46.0);
        assert_eq!(muri.restart.seconds(64, Some("a2c")), 10.0);
        assert_eq!(muri.restart.seconds(8, None), 10.0);
        assert_eq!(muri.interleaving(false).factors[2], 1.3 / 1.015);
        let extra = text.replace("autopack = true", "autopack = true\nautopark = true");
        assert!(toml::from_str::<Preset>(&extra).is_err());
    }
}
