//! What devices were measured to reach, as a description for `wharf plan --hardware`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use wharf_perf::planner::Hardware;
use wharf_perf::planner::estimate::{MATRIX_SHARE, TRAFFIC_SHARE};
use wharf_perf::planner::links::Link;
use wharf_profile::database;
use wharf_profile::measured::{Measured, Reached, Subject};

use super::measure::Offer;
use crate::error::{CliError, translate};
use crate::staging::StagedFile;

/// From this share on, all devices of a node work at the same time: a bus or a power supply that they share costs less.
const ALL_SHARE: f64 = 0.9;

/// Writes it from what the database has.
pub(super) fn write(target: &Path, profile: &Path, device_type: &str, offer: &Offer) -> Result<(), CliError> {
    let rows = database::measurements(profile).map_err(|error| translate::profile(&error))?;
    let own = |devices: u32| {
        rows.iter().filter(move |one| {
            let Subject { model, device_type: on, devices: at_work, .. } = &one.subject;
            on == device_type && *model == offer.name && *at_work == devices
        })
    };
    let reached = Reached::of(own(offer.devices)).ok_or_else(|| {
        CliError::input(format!(
            "`{}` has no operators of {} on {device_type}",
            profile.display(),
            offer.name
        ))
        .hint("measure them: `--what operators,collectives`")
    })?;
    let records = database::read(profile).map_err(|error| translate::profile(&error))?;
    let builtin = Hardware::builtin(device_type).or_else(|| Hardware::builtin("cpu"));
    let links = builtin.map(|known| known.links.measured(&records.comm, device_type));
    // The planner counts on a share of peak and of traffic: what is measured already has that in it.
    let tflops = reached.product_flop_per_s / MATRIX_SHARE / 1e12;
    let link = |link: Link| json!({ "gb_per_s": link.gb_per_s, "latency_us": link.latency_s * 1e6 });
    let at_once = at_once(own(1), own(offer.devices), f64::from(offer.devices));
    let mut device = json!({
        "name": device_type,
        "half_tflops": tflops,
        "single_tflops": tflops,
        "memory_gb_per_s": reached.bytes_per_s * TRAFFIC_SHARE / 1e9,
        "memory_gib": offer.memory_gib.unwrap_or(1.0),
        "per_node": offer.devices,
        "kernel_us": reached.kernel_s * 1e6,
        "workspace_gib": 0.0,
    });
    if let Some(at_once) = at_once {
        device["at_once"] = json!(at_once);
    }
    if let Some(links) = links {
        device["links"] = json!({ "near": link(links.near), "send_near": link(links.send_near) });
    }
    save(target, &json!({ "devices": [device] }))
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

fn save(target: &Path, description: &Value) -> Result<(), CliError> {
    let mut file = StagedFile::create(target)?;
    let text = format!("{description:#}\n");
    file.write_all(text.as_bytes()).map_err(|error| CliError::write(target, error))?;
    file.commit()
}
