//! How far off the planner is from a table of measurements.
//!
//! A table has a header and a row for each measured iteration; [`COLUMNS`] names its columns, in any order. What a table does not say is
//! as the caller has it.

use std::collections::BTreeMap;

use crate::estimate::{Estimate, Gang};
use crate::families::{self, Architecture, Mixture, Transformer, UnknownModel};
use crate::framework::Framework;
use crate::hardware::Hardware;
use crate::model::{Model, Precision};
use crate::options::{Attention, Options, Recompute};
use crate::search::{PlanError, plans};

/// Groups of at least so many plans are ranked.
const RANKED: usize = 4;
/// A chosen plan counts as good as the best within this share.
const AS_GOOD: f64 = 0.05;
/// Rows of the same plan whose times differ by more than this factor contradict each other.
const CONTRADICTING: f64 = 1.25;
/// Words of a model whose table does not tell: GPT-2's, padded.
const VOCABULARY: u32 = 50_304;

/// Columns: the name, other names that are read as well, and what it means.
pub const COLUMNS: &[(&str, &[&str], &str)] = &[
    (
        "time_s",
        &["iteration time (ms)", "time_ms"],
        "measured seconds of an iteration (ms under the other names)",
    ),
    ("devices", &["# gpus", "gpus"], "number of devices"),
    ("batch", &["global batch"], "samples of an iteration"),
    ("mb", &["micro batch", "microbatch"], "samples of a microbatch"),
    ("tp", &["tensor parallelism"], "tensor parallelism"),
    ("dp", &["data parallelism"], "data parallelism"),
    ("pp", &["pipeline parallelism"], "pipeline parallelism"),
    ("cp", &["context parallelism"], "context parallelism"),
    ("ep", &["expert parallelism"], "expert parallelism"),
    ("vp", &["virtual pipeline"], "chunks of layers on each stage"),
    ("model", &[], "a built-in model, instead of its sizes"),
    ("layers", &["# layers"], "layers"),
    ("hidden", &["hidden size"], "width of a token"),
    ("heads", &["attention heads"], "heads of attention"),
    ("key_heads", &[], "heads of keys and values"),
    ("tokens", &["sequence length"], "tokens of a sample"),
    ("vocabulary", &[], "words"),
    ("inner", &[], "width of the perceptron"),
    ("gated", &[], "whether the perceptron has a gate: 0 or 1"),
    ("experts", &[], "experts of every layer that has some"),
    ("chosen", &["top_k"], "experts of a token"),
    ("every", &[], "every so many layers has experts"),
    ("device", &["device_type"], "a device type"),
    ("per_node", &[], "devices of a node"),
    ("network", &[], "what a node sends to others, in 10⁹ bytes a second"),
    ("framework", &[], "a framework"),
    ("precision", &[], "fp32, bf16, fp16, fp8, fp4"),
    ("recompute", &[], "none, selective, full"),
    ("attention", &[], "unfused, fused"),
    ("sequence_parallel", &[], "0 or 1"),
    ("overlap", &[], "whether gradients are reduced meanwhile: 0 or 1"),
    ("tp_overlap", &[], "whether sums within layers go on meanwhile: 0 or 1"),
    ("zero", &[], "ZeRO stage"),
    ("memory_gib", &["peak memory (gib)"], "measured memory of the fullest device"),
    ("parameters", &["parameters (billion)"], "not used"),
];

/// Why a table cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// There is no row.
    #[error("the table has no measurements; it needs a header and a row for each")]
    Empty,
    /// A column is not known.
    #[error("unknown column `{name}`; known are {}", COLUMNS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", "))]
    Column {
        /// Its name.
        name: String,
    },
    /// A column is missing.
    #[error("line {line}: `{name}` is missing")]
    Missing {
        /// The line.
        line: usize,
        /// The column.
        name: &'static str,
    },
    /// A value is none.
    #[error("line {line}: `{name}` is `{value}`, expected {expected}")]
    Value {
        /// The line.
        line: usize,
        /// The column.
        name: &'static str,
        /// What is there.
        value: String,
        /// What can be there.
        expected: String,
    },
    /// A model is not known.
    #[error("line {line}: {source}")]
    Model {
        /// The line.
        line: usize,
        /// Why.
        source: UnknownModel,
    },
    /// A plan cannot be.
    #[error("line {line}: {source}")]
    Plan {
        /// The line.
        line: usize,
        /// Why.
        source: PlanError,
    },
    /// Two rows of one plan.
    #[error(
        "lines {one} and {other} measure the same plan and differ: {one_s} s and {other_s} s; keep the one that is right"
    )]
    Contradiction {
        /// A line.
        one: usize,
        /// Another.
        other: usize,
        /// What the first says.
        one_s: f64,
        /// What the other says.
        other_s: f64,
    },
}

/// What a table does not say.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// The devices.
    pub hardware: Hardware,
    /// Devices of a node.
    pub per_node: u32,
    /// Numbers.
    pub precision: Precision,
    /// How training is done.
    pub options: Options,
}

/// A measured iteration.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Its line in the table.
    pub line: usize,
    /// What is trained.
    pub model: Model,
    /// On which devices.
    pub hardware: Hardware,
    /// How many.
    pub gang: Gang,
    /// Samples of an iteration.
    pub batch: u32,
    /// How, with all degrees fixed.
    pub options: Options,
    /// Measured seconds.
    pub time_s: f64,
    /// Measured memory of the fullest device.
    pub memory_gib: Option<f64>,
    /// Model, devices and batch: measurements that differ in the plan alone have the same.
    pub group: String,
}

impl Measurement {
    /// What the planner expects.
    ///
    /// # Errors
    /// [`JudgeError::Plan`] where the plan cannot be.
    pub fn estimate(&self) -> Result<Estimate, JudgeError> {
        let found = plans(&self.model, &self.hardware, self.gang, self.batch, self.options);
        let found = found.map_err(|source| JudgeError::Plan { line: self.line, source })?;
        found.into_iter().next().ok_or(JudgeError::Missing { line: self.line, name: "plan" })
    }
}

/// A measurement and what was expected.
#[derive(Clone, Debug)]
pub struct Judged {
    /// What was measured.
    pub measurement: Measurement,
    /// What was expected.
    pub estimate: Estimate,
}

impl Judged {
    /// How far off, as a share of the measured time.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.estimate.iteration_s / self.measurement.time_s - 1.0
    }

    fn is_covered(&self) -> bool {
        let (low, high) = self.estimate.interval_s();
        (low..=high).contains(&self.measurement.time_s)
    }
}

/// How far off a number of estimates is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Measurements.
    pub count: usize,
    /// Middle of the sizes of the errors.
    pub median: f64,
    /// Their mean.
    pub mean: f64,
    /// What nine of ten are below.
    pub p90: f64,
    /// Middle of the errors with their signs.
    pub bias: f64,
    /// Middle of the sizes of the errors of memory, where it was measured.
    pub memory: Option<f64>,
    /// Groups of at least four plans.
    pub groups: usize,
    /// Share of them where the chosen plan is within 5 % of the best.
    pub chosen: f64,
    /// Kendall's tau within groups, in the mean.
    pub tau: f64,
    /// Share of measured times that are within the estimates' intervals.
    pub coverage: f64,
    /// Middle of half the intervals' widths, as a share of the estimate.
    pub half_width: f64,
    /// Measured plans that were expected not to fit.
    pub impossible: usize,
}

/// Reads a table.
///
/// # Errors
/// [`JudgeError`] with the line and what would be valid.
pub fn measurements(text: &str, defaults: &Defaults) -> Result<Vec<Measurement>, JudgeError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, header) = lines.next().ok_or(JudgeError::Empty)?;
    let columns: Vec<(&'static str, f64)> = header.split(',').map(column).collect::<Result<_, _>>()?;
    let mut found = Vec::new();
    let mut known: BTreeMap<String, (usize, f64)> = BTreeMap::new();
    for (index, text) in lines {
        let row = Row {
            line: index + 1,
            fields: columns.iter().copied().zip(text.split(',').map(str::trim)).collect(),
        };
        let one = row.measurement(defaults)?;
        let key = row.key();
        if let Some(&(other, other_s)) = known.get(&key)
            && (one.time_s / other_s).max(other_s / one.time_s) > CONTRADICTING
        {
            let (one, one_s) = (other, other_s);
            let time_s = row.time_s()?;
            return Err(JudgeError::Contradiction { one, other: row.line, one_s, other_s: time_s });
        }
        known.insert(key, (row.line, one.time_s));
        found.push(one);
    }
    if found.is_empty() { Err(JudgeError::Empty) } else { Ok(found) }
}

/// A column's name, and what its values are multiplied by.
fn column(name: &str) -> Result<(&'static str, f64), JudgeError> {
    let name = name.trim().trim_start_matches('\u{feff}').to_lowercase();
    let is_it = |(own, others, _): &&(&str, &[&str], &str)| *own == name || others.contains(&name.as_str());
    let (own, ..) = COLUMNS.iter().find(is_it).ok_or_else(|| JudgeError::Column { name: name.clone() })?;
    Ok((own, if name.ends_with("ms)") || name.ends_with("_ms") { 1e-3 } else { 1.0 }))
}

/// A row of a table.
struct Row<'a> {
    line: usize,
    fields: Vec<((&'static str, f64), &'a str)>,
}

impl Row<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|((own, _), value)| *own == name && !value.is_empty())
            .map(|(_, value)| *value)
    }

    fn wrong(&self, name: &'static str, expected: impl Into<String>) -> JudgeError {
        let value = self.text(name).unwrap_or_default().to_owned();
        JudgeError::Value { line: self.line, name, value, expected: expected.into() }
    }

    fn number(&self, name: &'static str) -> Result<Option<u32>, JudgeError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let value =
            text.parse::<f64>().ok().filter(|value| value.fract() == 0.0 && (0.0..=1e9).contains(value));
        value.map(|value| Some(value as u32)).ok_or_else(|| self.wrong(name, "a whole number"))
    }

    fn count(&self, name: &'static str) -> Result<Option<u32>, JudgeError> {
        let number = self.number(name)?;
        if number == Some(0) { Err(self.wrong(name, "at least 1")) } else { Ok(number) }
    }

    fn need(&self, name: &'static str) -> Result<u32, JudgeError> {
        self.count(name)?.ok_or(JudgeError::Missing { line: self.line, name })
    }

    fn amount(&self, name: &'static str) -> Result<Option<f64>, JudgeError> {
        let field = self.fields.iter().find(|((own, _), value)| *own == name && !value.is_empty());
        let Some(((_, factor), text)) = field else { return Ok(None) };
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
        value.map(|value| Some(value * factor)).ok_or_else(|| self.wrong(name, "a number above 0"))
    }

    fn time_s(&self) -> Result<f64, JudgeError> {
        self.amount("time_s")?.ok_or(JudgeError::Missing { line: self.line, name: "time_s" })
    }

    fn flag(&self, name: &'static str) -> Result<Option<bool>, JudgeError> {
        match self.text(name) {
            None => Ok(None),
            Some("0") => Ok(Some(false)),
            Some("1") => Ok(Some(true)),
            Some(_) => Err(self.wrong(name, "0 or 1")),
        }
    }

    fn choice<T: Copy>(&self, name: &'static str, all: &[(&str, T)], otherwise: T) -> Result<T, JudgeError> {
        let Some(text) = self.text(name) else { return Ok(otherwise) };
        let known = || all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let found = all.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        found.map(|(_, value)| *value).ok_or_else(|| self.wrong(name, known()))
    }

    /// Everything but what was measured.
    fn key(&self) -> String {
        let is_measured = |name: &str| name == "time_s" || name == "memory_gib";
        let own = self.fields.iter().filter(|((name, _), _)| !is_measured(name));
        own.map(|((name, _), value)| format!("{name}={value} ")).collect()
    }

    /// What measurements that differ in the plan alone share.
    fn group(&self) -> String {
        const PLAN: &[&str] =
            &["mb", "tp", "dp", "pp", "cp", "ep", "vp", "recompute", "time_s", "memory_gib"];
        let own = self.fields.iter().filter(|((name, _), _)| !PLAN.contains(name));
        own.map(|((name, _), value)| format!("{name}={value} ")).collect()
    }

    fn measurement(&self, defaults: &Defaults) -> Result<Measurement, JudgeError> {
        let mut hardware = match self.text("device") {
            None => defaults.hardware.clone(),
            Some(name) => {
                Hardware::builtin(name).ok_or_else(|| self.wrong("device", Hardware::names().join(", ")))?
            }
        };
        if let Some(gb_per_s) = self.amount("network")? {
            hardware = hardware.on_network(gb_per_s);
        }
        let devices = self.need("devices")?;
        let per_node = self.count("per_node")?.unwrap_or(defaults.per_node).min(devices);
        let precision = self.precision(&hardware, defaults.precision)?;
        Ok(Measurement {
            line: self.line,
            model: self.model()?.in_precision(precision),
            hardware,
            gang: Gang { devices, per_node },
            batch: self.need("batch")?,
            options: self.options(&defaults.options)?,
            time_s: self.time_s()?,
            memory_gib: self.amount("memory_gib")?,
            group: self.group(),
        })
    }

    fn precision(&self, hardware: &Hardware, otherwise: Precision) -> Result<Precision, JudgeError> {
        let found = self.choice("precision", Precision::NAMES, otherwise)?;
        hardware.check(found).map_err(|error| self.wrong("precision", error.to_string()))?;
        Ok(found)
    }

    fn model(&self) -> Result<Model, JudgeError> {
        if let Some(name) = self.text("model") {
            return families::find(name).map_err(|source| JudgeError::Model { line: self.line, source });
        }
        let (hidden, heads) = (self.need("hidden")?, self.need("heads")?);
        let base = Transformer {
            layers: self.need("layers")?,
            hidden,
            heads,
            key_heads: self.count("key_heads")?.unwrap_or(heads),
            tokens: self.need("tokens")?,
            vocabulary: self.count("vocabulary")?.unwrap_or(VOCABULARY),
            inner: self.count("inner")?.unwrap_or(4 * hidden),
            is_gated: self.flag("gated")?.unwrap_or(false),
            is_tied: true,
        };
        if !hidden.is_multiple_of(heads) {
            return Err(self.wrong("heads", format!("a divisor of {hidden}")));
        }
        let architecture = match self.count("experts")? {
            None => Architecture::Transformer(base),
            Some(experts) => Architecture::Mixture(Mixture {
                base,
                experts,
                chosen: self.count("chosen")?.unwrap_or(2).min(experts),
                every: self.count("every")?.unwrap_or(1),
                group: 0,
            }),
        };
        Ok(architecture.model("measured", "gpt"))
    }

    fn options(&self, otherwise: &Options) -> Result<Options, JudgeError> {
        let frameworks = Framework::ALL.map(|framework| (framework.name(), framework));
        let attention =
            [("unfused", Attention::Unfused), ("fused", Attention::Fused), ("flash", Attention::Fused)];
        let mut options = Options {
            framework: self.choice("framework", &frameworks, otherwise.framework)?,
            recompute: self.choice("recompute", &Recompute::NAMES, otherwise.recompute)?,
            attention: self.choice(
                "attention",
                &attention.map(|(name, value)| (name, Some(value))),
                otherwise.attention,
            )?,
            is_sequence_parallel: self.flag("sequence_parallel")?.or(otherwise.is_sequence_parallel),
            is_overlapping: self.flag("overlap")?.or(otherwise.is_overlapping),
            is_tensor_overlapping: self.flag("tp_overlap")?.or(otherwise.is_tensor_overlapping),
            chunks: self.count("vp")?.unwrap_or(otherwise.chunks),
            zero: self.number("zero")?.map_or(otherwise.zero, |stage| stage.min(3) as u8),
            ..*otherwise
        };
        let fixed = &mut options.fixed;
        for (name, degree) in [
            ("tp", &mut fixed.tensor),
            ("pp", &mut fixed.pipeline),
            ("dp", &mut fixed.data),
            ("cp", &mut fixed.context),
            ("ep", &mut fixed.expert),
            ("mb", &mut fixed.samples),
        ] {
            *degree = self.count(name)?.or(*degree);
        }
        Ok(options)
    }
}

/// Estimates all measurements.
///
/// # Errors
/// [`JudgeError::Plan`] where a plan cannot be.
pub fn judge(measurements: Vec<Measurement>) -> Result<Vec<Judged>, JudgeError> {
    let one = |measurement: Measurement| Ok(Judged { estimate: measurement.estimate()?, measurement });
    measurements.into_iter().map(one).collect()
}

/// How far off they are altogether.
#[must_use]
pub fn figures(all: &[Judged]) -> Figures {
    let sizes = || all.iter().map(|one| one.error().abs());
    let memory = all
        .iter()
        .filter_map(|one| Some((one.estimate.memory_gib / one.measurement.memory_gib? - 1.0).abs()));
    let memory: Vec<f64> = memory.collect();
    let count = all.len().max(1) as f64;
    let mut groups: BTreeMap<&str, Vec<&Judged>> = BTreeMap::new();
    for one in all {
        groups.entry(&one.measurement.group).or_default().push(one);
    }
    let ranked: Vec<&Vec<&Judged>> = groups.values().filter(|group| group.len() >= RANKED).collect();
    let of_groups = |value: fn(&[&Judged]) -> f64| {
        if ranked.is_empty() {
            1.0
        } else {
            ranked.iter().map(|group| value(group)).sum::<f64>() / ranked.len() as f64
        }
    };
    Figures {
        count: all.len(),
        median: quantile(sizes().collect(), 0.5),
        mean: sizes().sum::<f64>() / count,
        p90: quantile(sizes().collect(), 0.9),
        bias: quantile(all.iter().map(Judged::error).collect(), 0.5),
        memory: (!memory.is_empty()).then(|| quantile(memory, 0.5)),
        groups: ranked.len(),
        chosen: of_groups(|group| if is_as_good(group) { 1.0 } else { 0.0 }),
        tau: of_groups(tau),
        coverage: all.iter().filter(|one| one.is_covered()).count() as f64 / count,
        half_width: quantile(all.iter().map(|one| one.estimate.spread).collect(), 0.5),
        impossible: all.iter().filter(|one| !one.estimate.is_fitting).count(),
    }
}

/// Between the two nearest values.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let at = share * last as f64;
    let (below, above) = (values[at.floor() as usize], values[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

/// Whether the plan that is expected to be the fastest is nearly the fastest.
fn is_as_good(group: &[&Judged]) -> bool {
    let by = |value: fn(&Judged) -> f64| group.iter().min_by(|one, two| value(one).total_cmp(&value(two)));
    let (chosen, best) = (by(|one| one.estimate.iteration_s), by(|one| one.measurement.time_s));
    chosen
        .zip(best)
        .is_some_and(|(chosen, best)| chosen.measurement.time_s <= (1.0 + AS_GOOD) * best.measurement.time_s)
}

/// Kendall's tau: pairs in the same order less those in the other, of all.
fn tau(group: &[&Judged]) -> f64 {
    let (mut sum, mut pairs) = (0.0, 0.0);
    for (index, one) in group.iter().enumerate() {
        for two in &group[..index] {
            let order = |value: fn(&Judged) -> f64| value(one).partial_cmp(&value(two));
            let (expected, measured) =
                (order(|one| one.estimate.iteration_s), order(|one| one.measurement.time_s));
            let is_tie = |order| order == Some(std::cmp::Ordering::Equal);
            if !is_tie(expected) && !is_tie(measured) {
                sum += if expected == measured { 1.0 } else { -1.0 };
            }
            pairs += 1.0;
        }
    }
    if pairs > 0.0 { sum / pairs } else { 1.0 }
}
