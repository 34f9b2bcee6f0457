//! What devices were measured to reach, as a description for `wharf plan --hardware`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use wharf_planner::Hardware;
use wharf_planner::estimate::{TRAFFIC_SHARE, product_share};
use wharf_planner::links::Link;
use wharf_planner::model::Precision;
use wharf_profile::database;
use wharf_profile::measured::{Measured, Reached};

use crate::{Offer, ProfilerError};

/// From this share on, all devices of a node work at the same time: a bus or a power supply that they share costs less.
const ALL_SHARE: f64 = 0.9;

/// A description, and whether the devices report how much memory they have.
#[derive(Clone, Debug)]
pub struct Described {
    /// The document.
    pub document: Value,
    /// It lacks `memory_gib`.
    pub lacks_memory: bool,
}

/// Describes a device type by measurements of the tasks that the profiler offers now, and the links in the database.
///
/// # Errors
/// [`ProfilerError`] if no operators were measured, or the database cannot be read.
pub fn describe(
    profile: &Path,
    device_type: &str,
    offer: &Offer,
    rows: &[&Measured],
) -> Result<Described, ProfilerError> {
    let own = |devices: u32| rows.iter().copied().filter(move |one| one.subject.devices == devices);
    let reached = Reached::of(own(offer.devices)).ok_or_else(|| ProfilerError::NoOperators {
        model: offer.name.clone(),
        device_type: device_type.to_owned(),
    })?;
    let records = database::read(profile)?;
    let builtin = Hardware::builtin(device_type);
    let memory_gib = offer.memory_gib.or_else(|| Some(builtin.as_ref()?.memory_gib));
    let links = builtin.or_else(|| Hardware::builtin("cpu"));
    let links = links.map(|known| known.links.measured(&records.comm, device_type));
    // The planner counts on a share of peak and of traffic: what is measured already has that in it.
    let tflops =
        |precision| reached.product_flop_per_s / product_share(reached.kind, precision, false) / 1e12;
    let link = |link: Link| json!({ "gb_per_s": link.gb_per_s, "latency_us": link.latency_s * 1e6 });
    let mut device = json!({
        "name": device_type,
        "half_tflops": tflops(Precision::Half),
        "single_tflops": tflops(Precision::Single),
        "rounding": false,
        "memory_gb_per_s": reached.bytes_per_s * TRAFFIC_SHARE / 1e9,
        "per_node": offer.devices,
        "kernel_us": reached.kernel_s * 1e6,
        "workspace_gib": 0.0,
    });
    if let Some(memory_gib) = memory_gib {
        device["memory_gib"] = json!(memory_gib);
    }
    if let Some(at_once) = at_once(own(1), own(offer.devices), f64::from(offer.devices)) {
        device["at_once"] = json!(at_once);
    }
    if let Some(links) = links {
        device["links"] = json!({ "near": link(links.near), "send_near": link(links.send_near) });
    }
    let lacks_memory = memory_gib.is_none();
    Ok(Described { document: json!({ "devices": [device] }), lacks_memory })
}

/// How many devices of the node compute as fast together as one does alone, where that is not all of them: from a step of one device
/// alone, and of all at the same time.
fn at_once<'a>(
    alone: impl Iterator<Item = &'a Measured>,
    together: impl Iterator<Item = &'a Measured>,
    devices: f64,
) -> Option<f64> {
    let steps = |rows: &mut dyn Iterator<Item = &'a Measured>| -> BTreeMap<&'a str, f64> {
        let steps = rows.filter(|one| one.subject.kind == "step");
        steps.map(|one| (one.subject.key.as_str(), one.seconds)).collect()
    };
    let (mut alone, mut together) = (alone, together);
    let (alone, together) = (steps(&mut alone), steps(&mut together));
    let share = together.iter().find_map(|(key, all_s)| Some(alone.get(key)? / all_s))?;
    let at_once = devices * share;
    (at_once < devices * ALL_SHARE).then(|| at_once.max(1.0))
}
