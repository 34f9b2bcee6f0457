//! What is asked, and what the planner answers.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use wharf_perf::cells::Device;
use wharf_planner::describe::{self, DescriptionError};
use wharf_planner::families::{self, FAMILIES, UnknownModel};
use wharf_planner::model::Precision;
use wharf_planner::nodes::{self, Node};
use wharf_planner::{
    Calibration, Correction, Degrees, Estimate, Framework, Gang, Hardware, Model, Options, Recompute, Run,
    plans, plans_cut,
};
use wharf_profile::{Records, measured};

use super::judge::Fits;
use super::measured::{Timed, is_split_so, times};
use crate::args::{Devices, PlanArgs};
use crate::error::{CliError, ErrorKind, translate};
use crate::output::Terminal;

/// Devices of a node, where nothing is said.
const PER_NODE: u32 = 8;
/// How much longer an iteration takes with half of the network where that decides the answer.
const NETWORK_DECIDES: f64 = 1.1;
/// The most devices that are checked where fewer do not do: as many as can be asked about.
const DEVICES_MAX: u32 = 1 << 20;

/// A model, and what is known of devices.
pub(super) struct Question {
    pub(super) model: Model,
    pub(super) batch: u32,
    options: Options,
    per_node: Option<u32>,
    network: Option<f64>,
    /// What was learnt from a table of measurements.
    fits: Option<Fits>,
    cuts: Option<Vec<Range<usize>>>,
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
    /// What a run of just this took, where one was measured: under the best plan.
    pub(super) measured_s: Option<f64>,
    /// What runs took, under plans of this split and so many microbatches.
    measured_plans: Vec<(Degrees, u32, f64)>,
    /// Why there are no plans, where there are none.
    pub(super) refusal: Option<String>,
    /// What a plan may take of a device's memory.
    limit_gib: f64,
}

/// A measured run, and what would be expected of it.
pub(super) struct Expected {
    pub(super) run: Run,
    pub(super) gang: Gang,
    /// None where it would not fit.
    pub(super) estimated_s: Option<f64>,
}

impl Answer {
    /// The best plan that fits.
    pub(super) fn best(&self) -> Option<&Estimate> {
        self.plans.first().filter(|plan| plan.is_fitting)
    }

    /// What a run under a plan took, where one was measured.
    fn measured(&self, plan: &Estimate) -> Option<f64> {
        let is_same = |(degrees, microbatches, _): &&(Degrees, u32, f64)| {
            (*degrees, *microbatches) == (plan.degrees, plan.microbatches)
        };
        self.measured_plans.iter().find(is_same).map(|&(.., time_s)| time_s)
    }

    /// Seconds of an iteration, as far as is known.
    pub(super) fn iteration_s(&self, plan: &Estimate) -> f64 {
        self.measured(plan).unwrap_or(plan.iteration_s * self.correction.factor)
    }

    /// What a plan lacks of a device's memory.
    pub(super) fn shortfall_gib(&self, plan: &Estimate) -> f64 {
        (plan.memory_gib - self.limit_gib).max(0.0)
    }

    /// Between which times an iteration is in four of five cases.
    pub(super) fn interval_s(&self, plan: &Estimate) -> (f64, f64) {
        let time_s = self.iteration_s(plan);
        let spread = match (self.measured(plan), self.correction.runs) {
            (Some(_), _) => 0.0,
            (None, 0) => plan.spread,
            (None, _) => plan.spread.min(self.correction.error),
        };
        (time_s * (1.0 - spread), time_s * (1.0 + spread))
    }

    /// What plans may take of a device's memory.
    pub(super) fn allowed(&self) -> String {
        format!("may take {:.1} of {:.0}", self.limit_gib, self.hardware.memory_gib)
    }

    /// How sure that is, in one word.
    pub(super) fn source_of(&self, plan: &Estimate) -> &'static str {
        match (self.measured(plan), self.correction.runs) {
            (Some(_), _) => "measured",
            (None, 0) => "estimated",
            (None, _) => "corrected",
        }
    }

    /// Puts plans into the order that measurements tell, as far as there are any. What was measured fits, whatever was expected.
    fn rank(&mut self) {
        let mut plans = std::mem::take(&mut self.plans);
        for plan in &mut plans {
            plan.is_fitting |= self.measured(plan).is_some();
        }
        // A run without a recorded plan was most likely split in the way that needs least memory.
        if self.measured_s.is_some() && plans.iter().all(|plan| !plan.is_fitting) {
            plans.first_mut().into_iter().for_each(|plan| plan.is_fitting = true);
        }
        let time_s = |plan: &Estimate| if plan.is_fitting { self.iteration_s(plan) } else { f64::INFINITY };
        plans.sort_by(|one, two| time_s(one).total_cmp(&time_s(two)));
        self.plans = plans;
    }

    /// How sure the whole answer is, in one word.
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
        // Where only measured models are asked about, any other will do.
        let model = trained_model(model(args.model.as_deref().unwrap_or("gpt-125m"))?, args)?;
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
        let node = args.node.as_deref().map(node).transpose()?;
        if args.network.is_some_and(|network| !network.is_finite() || network <= 0.0) {
            return Err(CliError::usage("`--network` takes a number of GB/s above 0"));
        }
        let options = options(args);
        let mut question = Self {
            model: measured_model(model, args)?,
            batch: args.batch,
            options,
            per_node: args.per_node.or(node.map(|node| node.per_node)),
            network: args.network.or(node.map(|node| node.network_gb_per_s)),
            fits: args.calibrate.as_ref().map(|table| Fits::read(args, table)).transpose()?,
            cuts: cuts(&args.stages),
            memory_gib: args.memory,
            described: described(args)?,
            records,
            calibration: Calibration::default(),
        };
        question.learn();
        Ok(question)
    }

    fn device(&self, device_type: &str) -> Option<Device> {
        self.records.cells.as_ref()?.device(device_type)
    }

    /// Compares what was measured of the model's family with what would be expected.
    fn learn(&mut self) {
        let mut calibration = Calibration::default();
        let family = self.model.family.clone();
        for timed in times(&self.records) {
            if self.model_of(timed.model).is_none_or(|model| model.family != family) {
                continue;
            }
            // The measurement had its own microbatches; those requested now do not apply.
            if let Some(Expected { run, estimated_s: Some(estimated_s), .. }) = self.expected(&timed, None) {
                calibration.add(run, estimated_s, timed.time_s);
            }
        }
        self.calibration = calibration;
    }

    /// What was measured.
    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    /// What would be expected of a measured run in so many microbatches, or the best number of them; nothing where its model or type is
    /// not known, or it cannot be split so.
    pub(super) fn expected(&self, timed: &Timed<'_>, microbatches: Option<u32>) -> Option<Expected> {
        let (model, hardware) = (self.model_of(timed.model)?, self.known_hardware(timed.device_type)?);
        let gang = timed.gang(self.per_node(&hardware));
        let options = Options { microbatches, ..self.options };
        let found = plans(&model, &hardware, gang, timed.batch, options).ok()?;
        let is_meant = |plan: &&Estimate| {
            plan.is_fitting && timed.plan.is_none_or(|told| is_split_so(plan.degrees, told))
        };
        let estimated_s = found.iter().find(is_meant).map(|plan| plan.iteration_s);
        Some(Expected { run: Run::new(&model, timed.device_type, gang, timed.batch), gang, estimated_s })
    }

    /// The assumed network, and whether it decides the answer: the best plan is another, or takes a tenth more, with half of it.
    pub(super) fn notes(&self, answer: &Answer) -> Vec<String> {
        let (gang, hardware) = (answer.gang, &answer.hardware);
        if gang.devices <= gang.per_node {
            return vec![];
        }
        let gb_per_s = hardware.links.far.gb_per_s;
        let mut notes = vec![format!("network: {gb_per_s:.1} GB/s between nodes of {}", gang.per_node)];
        let mut half = hardware.clone();
        half.links.far.gb_per_s /= 2.0;
        half.links.send_far.gb_per_s /= 2.0;
        let slower = plans_cut(&self.model, &half, gang, self.batch, self.options, self.cuts.as_deref());
        let slower = slower.ok().and_then(|plans| plans.into_iter().next());
        if let (Some(best), Some(slower)) = (answer.plans.first(), slower)
            && slower.iteration_s > best.iteration_s * NETWORK_DECIDES
        {
            let more = (slower.iteration_s / best.iteration_s - 1.0) * 100.0;
            notes.push(format!(
                "the network decides this answer: with half of it iterations take {more:.0} % longer; --network or --node describe yours"
            ));
        }
        notes
    }

    /// The microbatches that are asked for.
    pub(super) fn microbatches(&self) -> Option<u32> {
        self.options.microbatches
    }

    fn per_node(&self, hardware: &Hardware) -> u32 {
        self.per_node.or(hardware.per_node).unwrap_or(PER_NODE)
    }

    fn hardware(&self, device_type: &str) -> Result<Hardware, CliError> {
        self.known_hardware(device_type).ok_or_else(|| {
            let own = self.described.iter().map(|known| &*known.name);
            CliError::usage(format!("unknown device type `{device_type}`"))
                .hint_nearest(device_type, own.chain(Hardware::names()))
                .hint("`wharf plan --list` shows all types, `--hardware FILE` describes others")
        })
    }

    /// A device type: as the user describes it, or built in. What was measured of its links counts more than either.
    fn known_hardware(&self, device_type: &str) -> Option<Hardware> {
        let described = self.described.iter().find(|known| *known.name == *device_type);
        let mut hardware = described.cloned().or_else(|| Hardware::builtin(device_type))?;
        if let Some(gb_per_s) = self.network {
            hardware = hardware.on_network(gb_per_s);
        }
        hardware.links = hardware.links.measured(&self.records.comm, device_type);
        if described.is_none()
            && let Some(known) = self.device(device_type)
        {
            (hardware.memory_gib, hardware.per_node) = (known.memory_gb, Some(known.per_node));
        }
        hardware.memory_gib = self.memory_gib.unwrap_or(hardware.memory_gib);
        Some(match &self.fits {
            Some(fits) => fits.of(device_type).apply(&hardware),
            None => hardware,
        })
    }

    /// The model of a name in a profile.
    fn model_of(&self, name: &str) -> Option<Model> {
        if *name == *self.model.name { Some(self.model.clone()) } else { families::find(name).ok() }
    }

    pub(super) fn answer(&self, devices: &Devices) -> Result<Answer, CliError> {
        let hardware = self.hardware(&devices.device_type)?;
        let per_node = self.per_node(&hardware).min(devices.count).max(1);
        let gang = Gang { devices: devices.count, per_node };
        let unknown = |error| CliError::from_error(ErrorKind::Input, &error);
        hardware.check(self.model.precision).map_err(unknown)?;
        let found = plans_cut(&self.model, &hardware, gang, self.batch, self.options, self.cuts.as_deref());
        let (plans, refusal) = match found {
            Ok(plans) => (plans, None),
            Err(error) => (vec![], Some(error.to_string())),
        };
        let run = Run::new(&self.model, &devices.device_type, gang, self.batch);
        let is_same = |timed: &Timed<'_>| {
            timed.batch == self.batch
                && *timed.device_type == *devices.device_type
                && timed.gang(per_node) == gang
                && self.model_of(timed.model).is_some_and(|model| model.name == self.model.name)
        };
        let (planned, whole): (Vec<_>, Vec<_>) =
            times(&self.records).filter(is_same).partition(|timed| timed.plan.is_some());
        let best = planned.iter().chain(&whole).map(|timed| timed.time_s).reduce(f64::min);
        let mut answer = Answer {
            devices: devices.clone(),
            gang,
            measured_plans: self.measured_plans(&hardware, gang, &planned),
            limit_gib: hardware.memory_gib * self.options.memory_share,
            hardware,
            plans,
            correction: self.calibration.correction(&run),
            measured_s: whole.first().map(|timed| timed.time_s).or(best),
            refusal,
        };
        answer.rank();
        Ok(answer)
    }

    /// What was run, as far as that was noted: of all ways to share out experts and samples under the same degrees, most likely the best.
    fn measured_plans(
        &self,
        hardware: &Hardware,
        gang: Gang,
        planned: &[Timed<'_>],
    ) -> Vec<(Degrees, u32, f64)> {
        if planned.is_empty() {
            return vec![];
        }
        let options = Options { microbatches: None, ..self.options };
        let found = plans(&self.model, hardware, gang, self.batch, options).unwrap_or_default();
        let one = |timed: &Timed<'_>| {
            let told = timed.plan?;
            let plan = found.iter().find(|plan| is_split_so(plan.degrees, told))?;
            Some((plan.degrees, plan.microbatches, timed.time_s))
        };
        planned.iter().filter_map(one).collect()
    }

    /// That it fits nowhere, and what would.
    pub(super) fn nowhere(&self, answers: &[Answer]) -> CliError {
        let least = answers.iter().filter_map(|answer| Some((answer, answer.plans.first()?)));
        let least = least.min_by(|one, two| one.1.memory_gib.total_cmp(&two.1.memory_gib));
        let error = CliError::input(format!("{} fits on none of these devices", self.model.name));
        let Some((answer, plan)) = least else { return error };
        let counts = (1..=10).filter_map(|power| answer.devices.count.checked_mul(1 << power));
        let more = counts.take_while(|count| *count <= DEVICES_MAX).find(|count| {
            let devices = Devices { count: *count, ..answer.devices.clone() };
            self.answer(&devices).is_ok_and(|answer| answer.best().is_some())
        });
        let name = &answer.devices.device_type;
        let what = match more {
            Some(count) => format!("{count} of them would do"),
            None if self.options.zero < 3 => "try --zero 3 or devices with more memory".to_owned(),
            None => "try devices with more memory".to_owned(),
        };
        let allowed = answer.allowed();
        error.hint(format!("it needs {:.1} GiB of each {name}, and {allowed}; {what}", plan.memory_gib))
    }
}

/// What the backward pass computes anew.
fn recompute(args: &PlanArgs) -> Recompute {
    if args.no_recompute { Recompute::None } else { args.recompute.into() }
}

/// How training is done.
pub(super) fn options(args: &PlanArgs) -> Options {
    // Profiles that Wharf measures, and those that it imports, are of compiled programs.
    let usual = if args.profile.is_some() { Framework::Jax } else { Framework::Megatron };
    let options = Options {
        framework: args.framework.map_or(usual, Into::into),
        microbatches: args.microbatches,
        schedule: args.schedule.into(),
        recompute: recompute(args),
        attention: args.attention.map(Into::into),
        zero: args.zero,
        is_tensor_between_nodes: args.tensor_between_nodes,
        is_sequence_parallel: args.sequence_parallel,
        is_overlapping: args.overlap,
        is_tensor_overlapping: args.tp_overlap,
        memory_share: args.memory_share,
        ..Options::default()
    };
    args.plan.map_or(options, |plan| plan.over(options))
}

/// Successive ranges of so many layers each.
fn cuts(stages: &[usize]) -> Option<Vec<Range<usize>>> {
    let mut from = 0;
    let one = |layers: &usize| {
        from += layers;
        from - layers..from
    };
    (!stages.is_empty()).then(|| stages.iter().map(one).collect())
}

/// A node design by its name.
pub(super) fn node(name: &str) -> Result<&'static Node, CliError> {
    nodes::find(name).ok_or_else(|| {
        CliError::usage(format!("unknown node design `{name}`"))
            .hint_nearest(name, nodes::nodes().iter().map(|node| node.name))
            .hint("`wharf plan --list` shows all")
    })
}

/// A precision by its name.
pub(super) fn precision(name: &str) -> Result<Precision, CliError> {
    let found = Precision::NAMES.iter().find(|(known, _)| *known == name);
    found.map(|(_, precision)| *precision).ok_or_else(|| {
        CliError::usage(format!("unknown precision `{name}`; known are fp32, tf32, bf16, fp16, fp8 and fp4"))
    })
}

/// The model as it is trained: in the precision, with the sequences and the adapters that are asked for.
fn trained_model(mut model: Model, args: &PlanArgs) -> Result<Model, CliError> {
    if let Some(tokens) = args.sequence_length {
        model = model.with_tokens(tokens).ok_or_else(|| {
            CliError::usage(format!(
                "`--sequence-length` is for transformers of a built-in family, not {}",
                model.name
            ))
        })?;
    }
    if let Some(millions) = args.adapters {
        if !(millions > 0.0 && millions * 1e6 <= model.parameters()) {
            let most = model.parameters() / 1e6;
            return Err(CliError::usage(format!(
                "`--adapters` takes a number above 0 and at most {most:.0}"
            )));
        }
        model = model.with_adapters(millions * 1e6);
    }
    let layers: usize = args.stages.iter().sum();
    if !args.stages.is_empty() && (layers != model.layers.len() || args.stages.contains(&0)) {
        let own = model.layers.len();
        return Err(CliError::usage(format!(
            "`--stages` has {layers} layers, and the model has {own}; none may be empty"
        )));
    }
    Ok(match &args.precision {
        Some(name) => model.in_precision(precision(name)?),
        None => model,
    })
}

/// The model with what was measured of its layers, where a database states this.
fn measured_model(mut model: Model, args: &PlanArgs) -> Result<Model, CliError> {
    let Some(path) = &args.profile else { return Ok(model) };
    let rows = wharf_profile::measurements(path).map_err(|error| translate::profile(&error))?;
    let types: BTreeSet<&str> = rows.iter().map(|row| row.subject.device_type.as_str()).collect();
    for device_type in types {
        let times =
            measured::layer_times(&rows, &model.name, device_type, recompute(args) == Recompute::Full);
        model.measured.extend(times.map(|times| (device_type.into(), times)));
    }
    Ok(model)
}

/// The devices that the user describes.
pub(super) fn described(args: &PlanArgs) -> Result<Vec<Hardware>, CliError> {
    let Some(path) = &args.hardware else { return Ok(vec![]) };
    read(path, describe::hardware)
}

/// What a file describes.
fn read<T>(path: &Path, parse: fn(&Path, &str) -> Result<T, DescriptionError>) -> Result<T, CliError> {
    let text = std::fs::read_to_string(path).map_err(|error| CliError::read(path, error))?;
    parse(path, &text).map_err(|error| CliError::from_error(ErrorKind::Input, &error))
}

/// The model of a name, or that a file describes.
pub(super) fn model(name: &str) -> Result<Model, CliError> {
    if describe::is_file(name) {
        return read(Path::new(name), describe::model);
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
