//! All ways to split a model over a gang, and the best of them.

use std::cmp::Ordering;

use super::estimate::{Degrees, Estimate, Gang, Question};
use super::hardware::Hardware;
use super::model::Model;
use super::options::Options;

/// More of them make bubbles no smaller to speak of.
const MICROBATCHES_MAX: u32 = 1024;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// There is nothing to compute, or nothing to compute it on.
    #[error("{what} must be at least 1")]
    Nothing {
        /// What of.
        what: &'static str,
    },
    /// The samples cannot be shared out.
    #[error(
        "{batch} samples cannot be split over {devices} devices in {microbatches} microbatches; a multiple of {multiple} can"
    )]
    Batch {
        /// Samples.
        batch: u32,
        /// Devices.
        devices: u32,
        /// What was asked for.
        microbatches: u32,
        /// A number of samples that works.
        multiple: u32,
    },
    /// No way to split it uses all devices.
    #[error("no way to split {model} uses all of {devices} devices; {nearest} can be used")]
    Devices {
        /// The model.
        model: String,
        /// Devices.
        devices: u32,
        /// Fewer of them.
        nearest: u32,
    },
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
    let question = Question { model, hardware, gang, batch, options };
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
    match question.options.microbatches {
        Some(microbatches) => estimate(microbatches),
        None => powers(per_replica.min(MICROBATCHES_MAX)).filter_map(estimate).min_by(order),
    }
}

fn powers(most: u32) -> impl Iterator<Item = u32> {
    (0..u32::BITS).map(|power| 1_u32 << power).take_while(move |value| *value <= most)
}

/// All ways to split over all devices.
fn degrees(question: &Question<'_>) -> Vec<Degrees> {
    let Question { model, gang, options, .. } = *question;
    let devices = gang.devices;
    let shared_max = if options.is_tensor_between_nodes { devices } else { gang.per_node };
    let layers = u32::try_from(model.layers.len()).unwrap_or(u32::MAX);
    let divisors = |of: u32| (1..=of).filter(move |divisor| of.is_multiple_of(*divisor));
    let mut found = Vec::new();
    for pipeline in divisors(devices).filter(|pipeline| *pipeline <= layers) {
        let can_share = |tensor: &u32| *tensor <= shared_max && model.splits.is_multiple_of(*tensor);
        for tensor in divisors(devices / pipeline).filter(can_share) {
            let data = devices / pipeline / tensor;
            found.push(Degrees { pipeline, data, tensor, expert: 1 });
            if data > 1 && model.experts > 0 && model.experts.is_multiple_of(data) {
                found.push(Degrees { pipeline, data, tensor, expert: data });
            }
        }
    }
    found
}

/// What keeps a model from every plan.
fn refusal(question: &Question<'_>) -> PlanError {
    let Question { model, gang, batch, options, .. } = *question;
    let ways = degrees(question);
    let fewest = ways.iter().map(|way| way.data).min();
    if let Some(data) = fewest {
        let microbatches = options.microbatches.unwrap_or(1);
        let multiple = data.saturating_mul(microbatches);
        return PlanError::Batch { batch, devices: gang.devices, microbatches, multiple };
    }
    let can = |devices: &u32| {
        !degrees(&Question { gang: Gang { devices: *devices, ..gang }, ..*question }).is_empty()
    };
    let nearest = (1..gang.devices).rev().find(can).unwrap_or(1);
    PlanError::Devices { model: model.name.to_string(), devices: gang.devices, nearest }
}
