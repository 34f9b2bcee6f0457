//! All ways to split a model over a gang, and the best of them.

use std::cmp::Ordering;
use std::ops::Range;

use crate::estimate::{Degrees, Estimate, Gang, Question};
use crate::hardware::Hardware;
use crate::memory::Rows;
use crate::model::Model;
use crate::options::Options;

/// More of them make bubbles no smaller to speak of.
const MICROBATCHES_MAX: u32 = 1024;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// What is fixed cannot be.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
    /// There is nothing to compute, or nothing to compute it on.
    #[error("{what} must be at least 1")]
    Nothing {
        /// What of.
        what: &'static str,
    },
    /// The samples cannot be shared out.
    #[error(
        "{batch} samples cannot be split over {devices} devices in {microbatches} microbatches; a multiple of {multiple} can{}",
        .fewer.map_or_else(String::new, |fewer| format!(", and {batch} over {fewer} devices"))
    )]
    Batch {
        /// Samples.
        batch: u32,
        /// Devices.
        devices: u32,
        /// The request.
        microbatches: u32,
        /// A number of samples that works.
        multiple: u32,
        /// A number of devices that works, where one below does.
        fewer: Option<u32>,
    },
}

/// Degrees that cannot be together, and what could be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// The product of the degrees is not the number of devices.
    #[error("{degrees} need {product} devices or a multiple, and there are {devices}; {valid}")]
    Devices {
        /// As the user gave them.
        degrees: String,
        /// Their product.
        product: u64,
        /// Devices.
        devices: u32,
        /// What would be valid.
        valid: String,
    },
    /// Something cannot be split into so many equal parts.
    #[error("{name}={value} does not divide {number} {what}; valid are {}", list(.valid))]
    Parts {
        /// The degree.
        name: &'static str,
        /// Its value.
        value: u32,
        /// How many there are.
        number: u32,
        /// Of what.
        what: &'static str,
        /// Values that do.
        valid: Vec<u32>,
    },
    /// There are fewer layers than stages.
    #[error(
        "{name}={value} needs {value} layers for each of {per} stages, and there are {layers} layers; at most {name}={most}"
    )]
    Layers {
        /// The degree.
        name: &'static str,
        /// Its value.
        value: u32,
        /// Stages that have so many each; 1 for the stages themselves.
        per: u32,
        /// Layers.
        layers: u32,
        /// The largest value.
        most: u32,
    },
    /// Interleaved stages take microbatches in rounds.
    #[error(
        "vp={chunks} takes microbatches in rounds of pp={pipeline}, and no number of microbatches of {samples} samples is a multiple; use vp=1, or samples that are"
    )]
    Rounds {
        /// Chunks.
        chunks: u32,
        /// Stages.
        pipeline: u32,
        /// Samples of a replica.
        samples: u32,
    },
}

fn list(values: &[u32]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Why the degrees that are fixed cannot be; none where each alone and all together can.
fn contradiction(question: &Question<'_>) -> Option<Contradiction> {
    let Question { model, gang, batch, options, .. } = *question;
    let fixed = options.fixed;
    let given = [("tp", fixed.tensor), ("pp", fixed.pipeline), ("dp", fixed.data), ("cp", fixed.context)];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let product: u64 = given.clone().map(|(_, value)| u64::from(value)).product();
    let is_whole = given.clone().count() == 4
        || (fixed.tensor.is_some() && fixed.pipeline.is_some() && fixed.data.is_some());
    let devices = u64::from(gang.devices);
    if product == 0 || !devices.is_multiple_of(product) || (is_whole && product != devices) {
        let degrees = given.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ");
        let others = product / u64::from(fixed.data.unwrap_or(1).max(1));
        let valid = if others > 0 && devices.is_multiple_of(others) {
            format!("dp={} would use them", devices / others)
        } else {
            format!("degrees divide {devices}: {}", list(&divisors(gang.devices)))
        };
        return Some(Contradiction::Devices { degrees, product, devices: gang.devices, valid });
    }
    let part = |name, value: Option<u32>, number: u32, what| {
        let value = value.filter(|value| *value == 0 || !number.is_multiple_of(*value))?;
        Some(Contradiction::Parts { name, value, number, what, valid: divisors(number) })
    };
    let layers = stages_max(question);
    let tokens = model.shape.as_ref().map_or(1, |shape| shape.base.tokens);
    let too_deep = fixed.pipeline.filter(|pipeline| *pipeline > layers);
    part("tp", fixed.tensor, parts(question), "heads")
        .or_else(|| part("cp", fixed.context, tokens, "tokens of a sequence"))
        .or_else(|| part("ep", fixed.expert.filter(|expert| *expert > 1), model.experts, "experts"))
        .or_else(|| {
            Some(Contradiction::Layers { name: "pp", value: too_deep?, per: 1, layers, most: layers })
        })
        .or_else(|| part("dp", fixed.data, batch, "samples"))
        .or_else(|| {
            let replica = batch / fixed.data?.max(1);
            part("mb", fixed.samples, replica, "samples of a replica")
        })
        .or_else(|| {
            let (chunks, pipeline) = (options.chunks, fixed.pipeline.filter(|_| options.chunks > 1)?);
            if layers / pipeline < chunks {
                let most = layers / pipeline;
                return Some(Contradiction::Layers {
                    name: "vp",
                    value: chunks,
                    per: pipeline,
                    layers,
                    most,
                });
            }
            let samples = batch / fixed.data?.max(1);
            let counts = samples / fixed.samples.unwrap_or(1).max(1);
            (!counts.is_multiple_of(pipeline)).then_some(Contradiction::Rounds { chunks, pipeline, samples })
        })
}

/// Plans of a model on a gang, the best first: those that fit by their time, then the others by how much memory they need.
///
/// # Errors
/// [`PlanError`] where there is no way at all.
pub fn plans(
    model: &Model,
    hardware: &Hardware,
    gang: Gang,
    batch: u32,
    options: Options,
) -> Result<Vec<Estimate>, PlanError> {
    plans_cut(model, hardware, gang, batch, options, None)
}

/// The same with the layers of each stage decided.
///
/// # Errors
/// [`PlanError`] where there is no way at all.
pub fn plans_cut(
    model: &Model,
    hardware: &Hardware,
    gang: Gang,
    batch: u32,
    options: Options,
    cuts: Option<&[Range<usize>]>,
) -> Result<Vec<Estimate>, PlanError> {
    for (what, value) in [
        ("the number of samples", batch),
        ("the number of devices", gang.devices),
        ("the number of devices of a node", gang.per_node),
        ("the number of microbatches", options.microbatches.unwrap_or(1)),
    ] {
        if value == 0 {
            return Err(PlanError::Nothing { what });
        }
    }
    let options = options.resolved(hardware);
    let times = model.measured.get(&hardware.name);
    let rows = Rows::of(&model.layers);
    let question = Question { model, hardware, gang, batch, options, cuts, rows: &rows, times };
    if let Some(contradiction) = contradiction(&question) {
        return Err(contradiction.into());
    }
    let mut found: Vec<Estimate> =
        degrees(&question).into_iter().filter_map(|degrees| best(&question, degrees)).collect();
    if found.is_empty() {
        return Err(refusal(&question));
    }
    found.sort_by(order);
    Ok(found)
}

/// The better plan first; equal ones by their degrees, so that the order is always the same.
fn order(one: &Estimate, other: &Estimate) -> Ordering {
    let by_value = |value: fn(&Estimate) -> f64| value(one).total_cmp(&value(other));
    let quality = match (one.is_fitting, other.is_fitting) {
        (true, true) => by_value(|plan| plan.iteration_s),
        (false, false) => by_value(|plan| plan.memory_gib),
        (is_fitting, _) => return if is_fitting { Ordering::Less } else { Ordering::Greater },
    };
    quality
        .then_with(|| one.degrees.cmp(&other.degrees))
        .then_with(|| one.microbatches.cmp(&other.microbatches))
}

/// The best number of microbatches for a way to split.
fn best(question: &Question<'_>, degrees: Degrees) -> Option<Estimate> {
    let per_replica = question.batch.checked_div(degrees.data)?;
    let estimate = |microbatches| question.estimate(degrees, microbatches);
    match (question.options.microbatches, question.options.fixed.samples) {
        (Some(microbatches), _) => estimate(microbatches),
        (None, Some(samples)) => {
            estimate(per_replica.checked_div(samples).filter(|count| count * samples == per_replica)?)
        }
        (None, None) => {
            let counts = divisors(per_replica).into_iter().filter(|count| *count <= MICROBATCHES_MAX);
            counts.filter_map(estimate).min_by(order)
        }
    }
}

/// All divisors, the smallest first.
fn divisors(of: u32) -> Vec<u32> {
    let small: Vec<u32> = (1..=of.isqrt()).filter(|divisor| of.is_multiple_of(*divisor)).collect();
    let large = small.iter().rev().map(|divisor| of / divisor).filter(|divisor| *divisor > of.isqrt());
    small.iter().copied().chain(large).collect()
}

/// Whether so many devices can share a layer: equal parts of it, and, unless the network is as fast, none with members on two nodes.
fn can_share(question: &Question<'_>, tensor: u32) -> bool {
    let Question { model, gang, options, .. } = *question;
    let on_node = gang.per_node.min(gang.devices);
    let is_between_nodes = options.is_tensor_between_nodes || options.fixed.tensor == Some(tensor);
    parts(question).is_multiple_of(tensor)
        && (is_between_nodes || tensor <= on_node && on_node.is_multiple_of(tensor))
        && (tensor <= model.splits || options.fixed.tensor.is_some())
}

/// Equal parts that a layer can be split into: heads of keys can be copied, those of queries cannot.
fn parts(question: &Question<'_>) -> u32 {
    let Question { model, options, .. } = *question;
    match (&model.shape, options.framework.host()) {
        (Some(shape), Some(_)) => shape.base.heads,
        _ => model.splits,
    }
}

/// Stages that there can be at most.
fn stages_max(question: &Question<'_>) -> u32 {
    u32::try_from(question.model.layers.len()).unwrap_or(u32::MAX)
}

/// Whether a degree may have a value.
fn may(fixed: Option<u32>) -> impl Fn(&u32) -> bool {
    move |value| fixed.is_none_or(|fixed| fixed == *value)
}

/// All ways to split over all devices.
fn degrees(question: &Question<'_>) -> Vec<Degrees> {
    let Question { gang, options, .. } = *question;
    let fixed = options.fixed;
    let context = fixed.context.unwrap_or(1);
    let mut found = Vec::new();
    if context == 0 || !gang.devices.is_multiple_of(context) {
        return found;
    }
    let (most, rest) = (stages_max(question), gang.devices / context);
    for pipeline in
        divisors(rest).into_iter().filter(|pipeline| *pipeline <= most).filter(may(fixed.pipeline))
    {
        let each = rest / pipeline;
        let shares = divisors(each).into_iter().filter(|tensor| can_share(question, *tensor));
        for tensor in shares.filter(may(fixed.tensor)) {
            let data = each / tensor;
            if may(fixed.data)(&data) {
                let experts = experts(question, data);
                found.extend(experts.into_iter().map(|expert| Degrees {
                    pipeline,
                    data,
                    tensor,
                    context,
                    expert,
                }));
            }
        }
    }
    found
}

/// Over how many of so many replicas experts can be shared out.
fn experts(question: &Question<'_>, data: u32) -> Vec<u32> {
    let Question { model, options, .. } = *question;
    let can = |expert: &u32| {
        *expert == 1
            || model.experts > 0 && model.experts.is_multiple_of(*expert) && data.is_multiple_of(*expert)
    };
    match options.fixed.expert {
        Some(expert) => [expert].into_iter().filter(can).collect(),
        None if data > 1 => [1, data].into_iter().filter(can).collect(),
        None => vec![1],
    }
}

/// What keeps a model from every plan: there is always a way to split it, over replicas if over nothing else, but not the samples.
fn refusal(question: &Question<'_>) -> PlanError {
    let Question { gang, batch, options, .. } = *question;
    let microbatches = options.microbatches.unwrap_or(1);
    let parts = |way: Degrees| way.data.saturating_mul(microbatches);
    PlanError::Batch {
        batch,
        devices: gang.devices,
        microbatches,
        multiple: degrees(question).into_iter().map(parts).min().unwrap_or(microbatches),
        fewer: fewer(question, microbatches),
    }
}

/// The most devices below those asked for over which the samples can be split: as many stages as there can be, for each number of
/// replicas and of devices that share layers.
fn fewer(question: &Question<'_>, microbatches: u32) -> Option<u32> {
    let Question { model, gang, batch, .. } = *question;
    if !batch.is_multiple_of(microbatches) {
        return None;
    }
    let (replicas, most) = (divisors(batch / microbatches), gang.devices - 1);
    let shares = divisors(model.splits).into_iter().filter(|tensor| can_share(question, *tensor));
    let ways = shares.flat_map(|tensor| replicas.iter().map(move |data| tensor.saturating_mul(*data)));
    ways.filter(|stage| *stage <= most)
        .map(|stage| stage * (most / stage).min(stages_max(question)))
        .filter(|devices| *devices > 0)
        .max()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::*;
    use crate::families;

    #[test]
    fn divisors_are_all_that_divide() {
        for number in [1, 2, 9, 12, 16, 97, 360] {
            let all: Vec<u32> = (1..=number).filter(|divisor| number % divisor == 0).collect();
            assert_eq!(divisors(number), all, "{number}");
        }
    }

    /// What every number of devices below was tried for once.
    #[test]
    fn fewer_devices_are_the_most_that_can_be_used() {
        let model = families::find("gpt-125m").unwrap();
        let hardware = Hardware::builtin("a40").unwrap();
        let ask = |devices, batch, microbatches| {
            let options = Options { microbatches, ..Options::default() };
            plans(&model, &hardware, Gang { devices, per_node: devices.min(8) }, batch, options)
        };
        for (devices, batch, microbatches) in
            [(64, 1, None), (97, 3, None), (100, 6, Some(2)), (512, 5, None)]
        {
            let Err(PlanError::Batch { fewer, multiple, .. }) = ask(devices, batch, microbatches) else {
                panic!("{devices} devices for {batch}")
            };
            let tried = (1..devices).rev().find(|fewer| ask(*fewer, batch, microbatches).is_ok());
            assert_eq!(fewer, tried, "{devices} devices for {batch}");
            assert!(ask(devices, multiple, microbatches).is_ok());
        }
        let many = ask(u32::MAX - 4, 1, None);
        assert!(matches!(many, Err(PlanError::Batch { fewer: Some(_), .. })), "{many:?}");
    }

    #[test]
    fn no_layer_is_shared_between_nodes_by_default() {
        let model = families::find("gpt-1.3b").unwrap();
        let hardware = Hardware::builtin("a100").unwrap();
        let shared = |is_tensor_between_nodes| {
            let options = Options { is_tensor_between_nodes, ..Options::default() };
            let gang = Gang { devices: 12, per_node: 6 };
            let found = plans(&model, &hardware, gang, 96, options).unwrap();
            found.into_iter().any(|plan| plan.degrees.tensor == 4)
        };
        assert!(!shared(false), "devices 4 to 7 are on two nodes");
        assert!(shared(true));
    }

    /// Cutting takes no time to speak of for each layer that a stage could have: what is quadratic in layers would take a minute here.
    #[test]
    fn very_deep_models_are_planned() {
        let mut model = families::find("gpt-1.3b").unwrap();
        model.layers = model.layers.iter().copied().cycle().take(4000).collect();
        let hardware = Hardware::builtin("h100").unwrap();
        let gang = Gang { devices: 16, per_node: 8 };
        let found = plans(&model, &hardware, gang, 1024, Options::default()).unwrap();
        assert!(found.iter().all(|plan| plan.stages.last().is_some_and(|last| last.end == 4000)));
    }

    /// With half of its cores for all devices, a machine is at most as much faster as it has cores, however layers are cut.
    #[test]
    fn devices_that_share_cores_are_as_fast_as_these_are() {
        let model = families::find("gpt-125m").unwrap();
        let mut hardware = Hardware::builtin("cpu").unwrap();
        (hardware.per_node, hardware.at_once) = (Some(8), Some(4.0));
        let all = |devices| {
            let gang = Gang { devices, per_node: devices };
            plans(&model, &hardware, gang, 64, Options::default()).unwrap()
        };
        let time_s = |devices| all(devices)[0].iteration_s;
        for plan in all(8) {
            assert!(all(1)[0].parts.compute_s <= 4.0 * plan.iteration_s, "{:?}", plan.degrees);
        }
        let [one, two, four, eight] = [1, 2, 4, 8].map(time_s);
        assert!(one / eight <= 4.0 && one / eight > 3.0, "{}", one / eight);
        assert!(one / two > 1.9 && two / four > 1.9 && four / eight < 1.1, "{one} {two} {four} {eight}");
    }

    /// Sums that overlap are hidden, but not for nothing to compute, nor those of the first layer.
    #[test]
    fn gradient_sums_overlap_if_requested() {
        let model = families::find("gpt-1.3b").unwrap();
        let hardware = Hardware::builtin("a100").unwrap();
        let replicas = |is_overlapping, batch| {
            let options = Options {
                is_overlapping: Some(is_overlapping),
                zero: 1,
                microbatches: Some(1),
                ..Options::default()
            };
            let found = plans(&model, &hardware, Gang { devices: 8, per_node: 8 }, batch, options).unwrap();
            found.into_iter().find(|plan| plan.degrees.data == 8).unwrap()
        };
        let exposed = |batch| replicas(true, batch).parts.data_s / replicas(false, batch).parts.data_s;
        let layers = model.layers.len() as f64;
        assert!((exposed(512) - 1.0 / layers).abs() < 1e-9, "{}", exposed(512));
        assert!(exposed(8) > 2.0 / layers && exposed(8) < 1.0, "{}", exposed(8));
        let saved = replicas(false, 512).iteration_s - replicas(true, 512).iteration_s;
        assert!((saved - replicas(false, 512).parts.data_s * (1.0 - 1.0 / layers)).abs() < 1e-9);
    }
}
