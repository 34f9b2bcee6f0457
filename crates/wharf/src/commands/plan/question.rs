//! What is asked, and what the planner answers.

use std::path::Path;

use wharf_perf::Workload;
use wharf_perf::cells::{Cell, Cells, Device};
use wharf_perf::planner::families::{self, FAMILIES, UnknownModel};
use wharf_perf::planner::{Calibration, Correction, Estimate, Gang, Hardware, Model, Options, Run, plans};
use wharf_profile::{Records, describe};

use crate::args::{Devices, PlanArgs};
use crate::error::{CliError, ErrorKind};
use crate::output::Terminal;

/// Devices of a node, where nothing is said.
const PER_NODE: u32 = 8;

/// A model, and what is known of devices.
pub(super) struct Question {
    pub(super) model: Model,
    pub(super) batch: u32,
    options: Options,
    per_node: Option<u32>,
    memory_gib: Option<f64>,
    /// Devices that the user describes.
    described: Vec<Hardware>,
    records: Records,
    calibration: Calibration,
}

/// Plans for some devices.
pub(super) struct Answer {
    pub(super) devices: Devices,
    pub(super) gang: Gang,
    pub(super) hardware: Hardware,
    pub(super) plans: Vec<Estimate>,
    pub(super) correction: Correction,
    /// What a run of just this took, where one was measured.
    pub(super) measured_s: Option<f64>,
}

impl Answer {
    /// The best plan that fits.
    pub(super) fn best(&self) -> Option<&Estimate> {
        self.plans.first().filter(|plan| plan.is_fitting)
    }

    /// Seconds of an iteration, as far as is known.
    pub(super) fn iteration_s(&self, plan: &Estimate) -> f64 {
        plan.iteration_s * self.correction.factor
    }

    /// How sure that is, in one word.
    pub(super) fn source(&self) -> &'static str {
        match (self.measured_s, self.correction.runs) {
            (Some(_), _) => "measured",
            (None, 0) => "estimated",
            (None, _) => "corrected",
        }
    }
}

impl Question {
    pub(super) fn new(args: &PlanArgs, terminal: &Terminal) -> Result<Self, CliError> {
        let model = model(args.model.as_deref().unwrap_or_default())?;
        if !(args.memory_share > 0.0 && args.memory_share <= 1.0) {
            return Err(CliError::usage("`--memory-share` takes a number above 0 and at most 1"));
        }
        if args.memory.is_some_and(|memory| !memory.is_finite() || memory <= 0.0) {
            return Err(CliError::usage("`--memory` takes a number of GiB above 0"));
        }
        let records = match &args.profile {
            Some(path) => crate::commands::profile::read(path, terminal)?,
            None => Records::default(),
        };
        let options = Options {
            microbatches: args.microbatches,
            schedule: args.schedule.into(),
            is_recomputing: !args.no_recompute,
            zero: args.zero,
            is_tensor_between_nodes: args.tensor_between_nodes,
            memory_share: args.memory_share,
        };
        let mut question = Self {
            model,
            batch: args.batch,
            options,
            per_node: args.per_node,
            memory_gib: args.memory,
            described: described(args)?,
            records,
            calibration: Calibration::default(),
        };
        question.learn();
        Ok(question)
    }

    fn times(&self) -> impl Iterator<Item = (&Workload, &Cell, f64)> {
        let cells = self.records.cells.iter();
        cells.flat_map(Cells::times).filter(|(.., time_s)| *time_s > 0.0)
    }

    fn device(&self, device_type: &str) -> Option<Device> {
        self.records.cells.as_ref()?.device(device_type)
    }

    /// Compares what was measured with what would be expected.
    fn learn(&mut self) {
        let mut calibration = Calibration::default();
        for (workload, cell, measured_s) in self.times() {
            let (Some(model), Some(batch)) = (self.model_of(&workload.model), workload.batch_size) else {
                continue;
            };
            if model.family != self.model.family {
                continue;
            }
            let gang = Gang { devices: cell.hosts * cell.per_host, per_node: cell.per_host };
            let Ok(hardware) = self.hardware(&cell.device_type) else { continue };
            let Ok(found) = plans(&model, &hardware, gang, batch, self.options) else { continue };
            if let Some(best) = found.first().filter(|plan| plan.is_fitting) {
                calibration.add(
                    Run::new(&model, &cell.device_type, gang, batch),
                    best.iteration_s,
                    measured_s,
                );
            }
        }
        self.calibration = calibration;
    }

    /// A device type: as the user describes it, or built in. What was measured of its links counts more than either.
    fn hardware(&self, device_type: &str) -> Result<Hardware, CliError> {
        let described = self.described.iter().find(|known| *known.name == *device_type);
        let found = described.cloned().or_else(|| Hardware::builtin(device_type));
        let mut hardware = found.ok_or_else(|| {
            let own = self.described.iter().map(|known| &*known.name);
            CliError::usage(format!("nothing is known of the device type `{device_type}`"))
                .hint_nearest(device_type, own.chain(Hardware::names()))
                .hint("`wharf plan --list` shows all types, `--hardware FILE` describes others")
        })?;
        hardware.links = hardware.links.measured(&self.records.comm, device_type);
        if described.is_none()
            && let Some(known) = self.device(device_type)
        {
            (hardware.memory_gib, hardware.per_node) = (known.memory_gb, Some(known.per_node));
        }
        hardware.memory_gib = self.memory_gib.unwrap_or(hardware.memory_gib);
        Ok(hardware)
    }

    /// The model of a name in a profile.
    fn model_of(&self, name: &str) -> Option<Model> {
        if *name == *self.model.name { Some(self.model.clone()) } else { families::find(name).ok() }
    }

    pub(super) fn answer(&self, devices: &Devices) -> Result<Answer, CliError> {
        let hardware = self.hardware(&devices.device_type)?;
        let per_node = self.per_node.or(hardware.per_node).unwrap_or(PER_NODE).min(devices.count).max(1);
        let gang = Gang { devices: devices.count, per_node };
        let plans = plans(&self.model, &hardware, gang, self.batch, self.options)
            .map_err(|error| CliError::input(error.to_string()))?;
        let run = Run::new(&self.model, &devices.device_type, gang, self.batch);
        let measured = self.times().find(|(workload, cell, _)| {
            self.model_of(&workload.model).is_some_and(|model| model.name == self.model.name)
                && workload.batch_size == Some(self.batch)
                && *cell.device_type == *devices.device_type
                && cell.hosts * cell.per_host == devices.count
                && cell.per_host == per_node
        });
        Ok(Answer {
            devices: devices.clone(),
            gang,
            hardware,
            plans,
            correction: self.calibration.correction(&run),
            measured_s: measured.map(|(_, _, time_s)| time_s),
        })
    }

    /// That it fits nowhere, and what would.
    pub(super) fn nowhere(&self, answers: &[Answer]) -> CliError {
        let least = answers.iter().filter_map(|answer| Some((answer, answer.plans.first()?)));
        let least = least.min_by(|one, two| one.1.memory_gib.total_cmp(&two.1.memory_gib));
        let error = CliError::input(format!("{} fits on none of these devices", self.model.name));
        let Some((answer, plan)) = least else { return error };
        let more = (1..=10).map(|power| answer.devices.count << power).find(|count| {
            let devices = Devices { count: *count, ..answer.devices.clone() };
            self.answer(&devices).is_ok_and(|answer| answer.best().is_some())
        });
        let name = &answer.devices.device_type;
        error.hint(match more {
            Some(count) => {
                format!("it needs {:.0} GiB of each {name}; {count} of them would do", plan.memory_gib)
            }
            None => format!(
                "it needs {:.0} GiB of each {name}; try --zero 3 or devices with more memory",
                plan.memory_gib
            ),
        })
    }
}

/// The devices that the user describes.
pub(super) fn described(args: &PlanArgs) -> Result<Vec<Hardware>, CliError> {
    let Some(path) = &args.hardware else { return Ok(vec![]) };
    describe::hardware(path).map_err(|error| CliError::from_error(ErrorKind::Input, &error))
}

/// The model of a name, or that a file describes.
pub(super) fn model(name: &str) -> Result<Model, CliError> {
    if describe::is_file(name) {
        return describe::model(Path::new(name))
            .map_err(|error| CliError::from_error(ErrorKind::Input, &error));
    }
    families::find(name).map_err(|error| {
        let known: Vec<String> = FAMILIES
            .iter()
            .flat_map(|(family, sizes)| sizes.iter().map(move |(size, _)| format!("{family}-{size}")))
            .collect();
        let told = CliError::usage(error.to_string());
        match error {
            UnknownModel::Family { .. } => told
                .hint("`wharf plan --list` shows all models; a file that describes one ends with .yaml, .toml or .json"),
            UnknownModel::Size { .. } => told.hint_nearest(name, known.iter().map(String::as_str)),
        }
    })
}
