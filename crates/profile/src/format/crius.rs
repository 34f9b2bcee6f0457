//! Crius's folder: `prof_database.json` (iteration times of the best plans), `dp_mem.json` (memory of a data-parallel copy) and
//! `hardware_specs.json` (devices and families of models).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use wharf_perf::Workload;
use wharf_perf::cells::{Cell, Cells, Device, Family, sized};

use super::text;
use crate::error::ProfileError;

/// The file that tells that a folder is Crius's.
pub(crate) const TIMES: &str = "prof_database.json";
const MEMORY: &str = "dp_mem.json";
const HARDWARE: &str = "hardware_specs.json";

/// All three.
pub(crate) const FILES: [&str; 3] = [TIMES, MEMORY, HARDWARE];

/// Most hosts of a cell, and most devices on one.
pub(crate) const COUNT_MAX: u32 = 1 << 15;

/// Longest name of a model or type.
const NAME_MAX: usize = 500;

#[derive(Deserialize)]
struct TimesFile {
    optimal: BTreeMap<String, BTreeMap<String, f64>>,
}

#[derive(Deserialize)]
struct HardwareFile {
    #[serde(rename = "NODE_CAPACITY")]
    per_node: BTreeMap<String, u32>,
    gpu_specs: BTreeMap<String, DeviceFile>,
    supported_model_cfgs: BTreeMap<String, FamilyFile>,
}

#[derive(Deserialize)]
struct DeviceFile {
    max_mem_gb: f64,
}

#[derive(Deserialize)]
struct FamilyFile {
    param_num: Vec<String>,
    batch_size: Vec<u32>,
}

/// Reads the three files of a folder.
pub(crate) fn read(folder: &Path) -> Result<Cells, ProfileError> {
    let mut cells = Cells::default();
    read_hardware(folder, &mut cells)?;
    read_times(folder, &mut cells)?;
    read_memory(folder, &mut cells)?;
    Ok(cells)
}

fn read_hardware(folder: &Path, cells: &mut Cells) -> Result<(), ProfileError> {
    let path = folder.join(HARDWARE);
    let hardware: HardwareFile = parse(&path)?;
    for (name, device) in hardware.gpu_specs {
        let Some(&per_node) = hardware.per_node.get(&name) else { continue };
        if per_node == 0 || !(device.max_mem_gb > 0.0 && device.max_mem_gb.is_finite()) {
            return Err(wrong(&path, &name, "expected at least one device on a node, with memory above 0"));
        }
        cells.set_device(&name, Device { memory_gb: device.max_mem_gb, per_node });
    }
    for (name, family) in hardware.supported_model_cfgs {
        cells.set_family(
            &name,
            Family {
                sizes: family.param_num.iter().map(|size| Arc::from(size.as_str())).collect(),
                batch_sizes: family.batch_size,
            },
        );
    }
    Ok(())
}

fn read_times(folder: &Path, cells: &mut Cells) -> Result<(), ProfileError> {
    let path = folder.join(TIMES);
    let times: TimesFile = parse(&path)?;
    for (key, row) in times.optimal {
        let workload = workload(&key).ok_or_else(|| wrong(&path, &key, "expected FAMILY_SIZE_BATCH"))?;
        for (place, time_s) in row {
            let cell =
                cell(&place).ok_or_else(|| wrong(&path, &place, "expected HOSTS_TYPE_HOSTS_n_DEVICES_d"))?;
            if !time_s.is_finite() {
                return Err(wrong(&path, &place, "expected seconds, or -1"));
            }
            cells.insert_time(workload.clone(), cell, time_s);
        }
    }
    Ok(())
}

fn read_memory(folder: &Path, cells: &mut Cells) -> Result<(), ProfileError> {
    let path = folder.join(MEMORY);
    let tables: Vec<BTreeMap<String, Vec<f64>>> = parse(&path)?;
    for (key, row) in tables.into_iter().flatten() {
        let workload = workload(&key).ok_or_else(|| wrong(&path, &key, "expected FAMILY_SIZE_BATCH"))?;
        cells.set_memory(workload, row);
    }
    Ok(())
}

fn parse<T: DeserializeOwned>(path: &Path) -> Result<T, ProfileError> {
    serde_json::from_str(&text(path)?)
        .map_err(|source| ProfileError::Unknown { path: path.display().to_string(), source: source.into() })
}

fn wrong(path: &Path, field: &str, problem: &str) -> ProfileError {
    ProfileError::Entry {
        path: path.display().to_string(),
        field: format!("`{field}`"),
        problem: problem.to_owned(),
    }
}

/// `wide_resnet_500M_256`.
pub(super) fn workload(key: &str) -> Option<Workload> {
    let (model, batch_size) = key.rsplit_once('_')?;
    let (family, size) = model.rsplit_once('_')?;
    let batch_size = batch_size.parse().ok().filter(|batch_size| *batch_size > 0)?;
    is_name(model).then(|| sized(family, size, batch_size))
}

/// Whether a text can be a name.
pub(super) fn is_name(text: &str) -> bool {
    (1..=NAME_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// `2_a40_2_n_4_d`: four devices on each of two hosts.
pub(super) fn cell(key: &str) -> Option<Cell> {
    let fields: Vec<&str> = key.split('_').collect();
    let &[_, device_type, hosts, "n", per_host, "d"] = fields.as_slice() else { return None };
    let count = |text: &str| text.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count));
    let (hosts, per_host) = (count(hosts)?, count(per_host)?);
    is_name(device_type).then(|| Cell { device_type: device_type.into(), hosts, per_host })
}
