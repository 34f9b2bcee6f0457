//! What devices were measured to reach, as a description for `wharf plan --hardware`.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use wharf_perf::planner::Hardware;
use wharf_perf::planner::estimate::{MATRIX_SHARE, TRAFFIC_SHARE};
use wharf_perf::planner::links::Link;
use wharf_profile::database;
use wharf_profile::measured::Reached;

use super::measure::Offer;
use crate::error::{CliError, translate};
use crate::staging::StagedFile;

/// Writes it from what the database has.
pub(super) fn write(target: &Path, profile: &Path, device_type: &str, offer: &Offer) -> Result<(), CliError> {
    let rows = database::measurements(profile).map_err(|error| translate::profile(&error))?;
    let own = rows.iter().filter(|one| {
        one.subject.device_type == device_type
            && one.subject.model == offer.name
            && one.subject.devices == offer.devices
    });
    let reached = Reached::of(own).ok_or_else(|| {
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
    if let Some(links) = links {
        device["links"] = json!({ "near": link(links.near), "send_near": link(links.send_near) });
    }
    save(target, &json!({ "devices": [device] }))
}

fn save(target: &Path, description: &Value) -> Result<(), CliError> {
    let mut file = StagedFile::create(target)?;
    let text = format!("{description:#}\n");
    file.write_all(text.as_bytes()).map_err(|error| CliError::write(target, error))?;
    file.commit()
}
