//! What devices were measured to reach, as a description for `wharf plan --hardware`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use wharf_planner::Hardware;
use wharf_planner::estimate::{TRAFFIC_SHARE, product_share};
use wharf_planner::links::Link;
use wharf_planner::model::Precision;
use wharf_profile::database;
use wharf_profile::measured::{Measured, Reached};

use super::measure::Offer;
use crate::error::{CliError, translate};
use crate::output::Terminal;
use wharf_staging::StagedFile;

/// From this share on, all devices of a node work at the same time: a bus or a power supply that they share costs less.
const ALL_SHARE: f64 = 0.9;

/// Writes it from what was measured of the tasks that the profiler offers now, and the links that the database has.
pub(super) fn write(
    target: &Path,
    profile: &Path,
    device_type: &str,
    offer: &Offer,
    rows: &[&Measured],
    terminal: &Terminal,
) -> Result<(), CliError> {
    let own = |devices: u32| rows.iter().copied().filter(move |one| one.subject.devices == devices);
    let reached = Reached::of(own(offer.devices)).ok_or_else(|| {
        CliError::input(format!("no operators of {} were measured on {device_type}", offer.name))
            .hint("measure them: `--what operators,collectives`")
    })?;
    let records = database::read(profile).map_err(|error| translate::profile(&error))?;
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
    match memory_gib {
        Some(memory_gib) => device["memory_gib"] = json!(memory_gib),
        None => terminal
            .warn(&format!("the devices report no memory size: set `memory_gib` in `{}`", target.display())),
    }
    if let Some(at_once) = at_once(own(1), own(offer.devices), f64::from(offer.devices)) {
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
    Ok(file.commit()?)
}
