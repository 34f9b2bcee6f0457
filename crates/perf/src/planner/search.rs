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
        "{batch} samples cannot be split over {devices} devices in {microbatches} microbatches; a multiple of {multiple} can{}",
        .fewer.map_or_else(String::new, |fewer| format!(", and {batch} over {fewer} devices"))
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
        /// A number of devices that works, where one below does.
        fewer: Option<u32>,
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
    let times = model.measured.get(&hardware.name);
    let question = Question { model, hardware, gang, batch, options, times };
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

/// What keeps a model from every plan: there is always a way to split it, over replicas if over nothing else, but not the samples.
fn refusal(question: &Question<'_>) -> PlanError {
    let Question { gang, batch, options, .. } = *question;
    let microbatches = options.microbatches.unwrap_or(1);
    let ways = |devices: u32| degrees(&Question { gang: Gang { devices, ..gang }, ..*question }).into_iter();
    let parts = |way: Degrees| way.data.saturating_mul(microbatches);
    let can = |devices: &u32| ways(*devices).any(|way| batch.is_multiple_of(parts(way)));
    PlanError::Batch {
        batch,
        devices: gang.devices,
        microbatches,
        multiple: ways(gang.devices).map(parts).min().unwrap_or(microbatches),
        fewer: (1..gang.devices).rev().find(can),
    }
}
