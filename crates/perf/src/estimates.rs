//! What the planner says of jobs whose model no profile knows.
//!
//! Each figure is worked out when it is first asked for and kept: the lists below only grow, so that they can be shared without locks
//! and the answers do not depend on who asks first.

use std::sync::{Arc, OnceLock};

use wharf_core::Plan;

use crate::profile::{Locality, Profile};
use wharf_planner::calibration::{Calibration, Run};
use wharf_planner::{Degrees, Gang, Hardware, Model, Options, families, plans};

/// Numbers of devices that are checked one by one; beyond them powers of two only.
const EACH_MAX: u32 = 64;
/// Most devices.
const DEVICES_MAX: u32 = 1024;
/// Default number of devices of a node.
const PER_NODE: u32 = 8;
/// Lists of rows: enough that each is short.
const LISTS: usize = 256;

/// What is expected of a job on so many devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Expected {
    /// 0 where it does not fit, or cannot be divided so.
    pub(crate) iterations_per_s: f64,
    /// The best plan, where one fits.
    pub(crate) plan: Option<Plan>,
    /// The same where the gang is divided by samples only.
    pub(crate) data_parallel: f64,
}

/// Where a job would run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Where<'a> {
    pub(crate) device_type: &'a str,
    pub(crate) per_node: Option<u32>,
    pub(crate) devices: u32,
}

/// Estimates beside a profile, whose measured times correct them.
#[derive(Debug)]
pub(crate) struct Estimates {
    profile: Profile,
    rows: Vec<OnceLock<Arc<Row>>>,
}

/// One workload on one type of devices.
#[derive(Debug)]
struct Row {
    model: Arc<str>,
    batch: u32,
    device_type: Arc<str>,
    per_node: u32,
    /// None where the planner does not know the type.
    known: Option<Known>,
    next: OnceLock<Arc<Self>>,
}

#[derive(Debug)]
struct Known {
    model: Model,
    hardware: Hardware,
    /// By [`slot`].
    cells: Vec<OnceLock<Expected>>,
    /// What was measured of the family on the type.
    calibration: OnceLock<Calibration>,
}

impl Estimates {
    pub(crate) fn new(profile: Profile) -> Self {
        Self { profile, rows: vec![OnceLock::new(); LISTS] }
    }

    /// The profile beside which they stand.
    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// What is expected of a workload; `None` where the planner does not know its model or the device type.
    pub(crate) fn expect(&self, model: &str, batch: u32, place: Where<'_>) -> Option<Expected> {
        if !families::is_known(model) {
            return None;
        }
        let row = self.row(model, batch, place);
        let known = row.known.as_ref()?;
        let plain = known.cell(batch, row.per_node, place.devices)?;
        let calibration =
            known.calibration.get_or_init(|| self.measured(&known.model.family, place.device_type));
        let gang = Gang { devices: place.devices, per_node: row.per_node.min(place.devices) };
        let run = Run::new(&known.model, place.device_type, gang, batch);
        let factor = calibration.correction(&run).factor;
        Some(Expected {
            iterations_per_s: plain.iterations_per_s / factor,
            data_parallel: plain.data_parallel / factor,
            ..plain
        })
    }

    /// The row of a workload on a type, which is added where it is not there yet.
    fn row(&self, model: &str, batch: u32, place: Where<'_>) -> &Row {
        let told = self.profile.cells().and_then(|cells| cells.device(place.device_type));
        let per_node = place.per_node.or(told.map(|device| device.per_node)).unwrap_or(PER_NODE).max(1);
        // Rows of one model and batch stand in one list.
        let number =
            model.bytes().fold(batch, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        let mut next = &self.rows[number as usize % LISTS];
        loop {
            let row = next.get_or_init(|| Arc::new(self.new_row(model, batch, place.device_type, per_node)));
            let is_it = *row.model == *model
                && (row.batch, row.per_node) == (batch, per_node)
                && *row.device_type == *place.device_type;
            if is_it {
                return row;
            }
            next = &row.next;
        }
    }

    fn new_row(&self, model: &str, batch: u32, device_type: &str, per_node: u32) -> Row {
        let known =
            families::find(model).ok().zip(Hardware::builtin(device_type)).map(|(model, hardware)| {
                let told = self.profile.cells().and_then(|cells| cells.device(device_type));
                let memory_gib = told.map_or(hardware.memory_gib, |device| device.memory_gb);
                let cells = vec![OnceLock::new(); slots()];
                Known {
                    model,
                    hardware: Hardware { memory_gib, ..hardware },
                    cells,
                    calibration: OnceLock::new(),
                }
            });
        let (model, device_type) = (model.into(), device_type.into());
        Row { model, batch, device_type, per_node, known, next: OnceLock::new() }
    }

    /// What was measured of a family on a type, against what would have been expected.
    fn measured(&self, family: &str, device_type: &str) -> Calibration {
        let mut calibration = Calibration::default();
        for (workload, place, entry) in self.profile.all_entries() {
            let is_measured = !entry.is_estimate && entry.iterations_per_s > 0.0;
            if !is_measured || *place.device_type != *device_type || place.locality != Locality::Packed {
                continue;
            }
            let Some(batch) = workload.batch_size.filter(|_| families::is_known(&workload.model)) else {
                continue;
            };
            let spot = Where { device_type, per_node: None, devices: place.devices };
            let row = self.row(&workload.model, batch, spot);
            let Some(known) = row.known.as_ref().filter(|known| *known.model.family == *family) else {
                continue;
            };
            let Some(cell) = known.cell(batch, row.per_node, place.devices) else { continue };
            let gang = Gang { devices: place.devices, per_node: row.per_node.min(place.devices) };
            let run = Run::new(&known.model, device_type, gang, batch);
            calibration.add(run, 1.0 / cell.iterations_per_s, 1.0 / entry.iterations_per_s);
        }
        calibration
    }
}

impl Known {
    /// What data sheets say, before anything measured corrects it.
    fn cell(&self, batch: u32, per_node: u32, devices: u32) -> Option<Expected> {
        let cell = self.cells.get(slot(devices)?)?;
        Some(*cell.get_or_init(|| {
            let gang = Gang { devices, per_node: per_node.min(devices) };
            let found = plans(&self.model, &self.hardware, gang, batch, Options::usual()).unwrap_or_default();
            let fitting = || found.iter().filter(|plan| plan.is_fitting);
            let speed = |time_s: f64| if time_s > 0.0 { 1.0 / time_s } else { 0.0 };
            let is_plain = |degrees: Degrees| (degrees.pipeline, degrees.tensor, degrees.expert) == (1, 1, 1);
            let copies = fitting().find(|plan| is_plain(plan.degrees));
            Expected {
                iterations_per_s: fitting().next().map_or(0.0, |plan| speed(plan.iteration_s)),
                plan: fitting().next().map(|plan| {
                    let Degrees { pipeline, data, tensor, .. } = plan.degrees;
                    Plan { stages: pipeline, data, tensor }
                }),
                data_parallel: copies.map_or(0.0, |plan| speed(plan.iteration_s)),
            }
        }))
    }
}

/// Where a number of devices is kept; `None` where it is not checked.
fn slot(devices: u32) -> Option<usize> {
    match devices {
        0 => None,
        1..=EACH_MAX => Some(devices as usize - 1),
        _ if devices.is_power_of_two() && devices <= DEVICES_MAX => {
            Some((EACH_MAX - 1 + devices.ilog2() - EACH_MAX.ilog2()) as usize)
        }
        _ => None,
    }
}

fn slots() -> usize {
    slot(DEVICES_MAX).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::*;
    use crate::profile::{Place, Workload};

    fn on(device_type: &str, devices: u32) -> Where<'_> {
        Where { device_type, per_node: Some(2), devices }
    }

    #[test]
    fn known_models_are_estimated_by_the_planner() {
        let estimates = Estimates::new(Profile::default());
        let two = estimates.expect("bert__1.3B", 128, on("a40", 2)).unwrap();
        assert!(two.iterations_per_s > 0.0 && two.data_parallel > 0.0);
        assert_eq!(estimates.expect("bert__1.3B", 128, on("a40", 2)), Some(two));
        let plan = estimates.expect("gpt-6.7b", 64, on("a40", 8)).unwrap();
        let Plan { stages, data, tensor } = plan.plan.unwrap();
        assert_eq!((stages * data * tensor, plan.data_parallel), (8, 0.0), "no copy fits a device");
        let none = estimates.expect("gpt-39b", 64, on("a40", 1)).unwrap();
        assert_eq!((none.iterations_per_s, none.plan), (0.0, None));
        for (model, place) in [("lm", on("a40", 2)), ("gpt-2.6b", on("tpu", 2)), ("gpt-2.6b", on("a40", 0))] {
            assert_eq!(estimates.expect(model, 64, place), None, "{model}");
        }
        assert!(estimates.expect("gpt-1.3b", 2048, on("h100", 1024)).unwrap().iterations_per_s > 0.0);
        assert_eq!(
            estimates.expect("gpt-1.3b", 2048, on("h100", 1000)),
            None,
            "only powers of two beyond 64"
        );
    }

    #[test]
    fn measurements_of_a_family_correct_its_estimates() {
        let plain = Estimates::new(Profile::default()).expect("bert-2.6b", 128, on("a40", 4)).unwrap();
        let mut profile = Profile::default();
        let workload = Workload { model: "bert__1.3B".into(), batch_size: Some(128) };
        let place = Place { device_type: "a40".into(), devices: 4, locality: Locality::Packed };
        let like = Estimates::new(Profile::default()).expect("bert-1.3b", 128, on("a40", 4)).unwrap();
        profile.insert(workload, place, like.iterations_per_s / 2.0);
        let estimates = Estimates::new(profile);
        let corrected = estimates.expect("bert-2.6b", 128, on("a40", 4)).unwrap();
        let ratio = plain.iterations_per_s / corrected.iterations_per_s;
        assert!(ratio > 1.3 && ratio < 2.0, "{ratio}");
        assert_eq!(plain.plan, corrected.plan);
        let other = |estimates: &Estimates| estimates.expect("gpt-2.6b", 128, on("a40", 4));
        assert_eq!(other(&estimates), other(&Estimates::new(Profile::default())));
    }
}
