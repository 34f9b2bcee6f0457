//! AMD devices as the kernel tells them in sysfs, which needs no library.
//!
//! The topology of the compute driver (`class/kfd`) states which devices there are, in the order that ROCm counts them; the graphics
//! driver's folders (`class/drm`) state how they are.

use std::fs;
use std::path::{Path, PathBuf};

use wharf_proto::Device;

use super::source::ReadError;

const MIB: u64 = 1024 * 1024;

/// Product names by PCI device, for boards that do not tell theirs.
const PRODUCTS: [(u64, &str); 10] = [
    (0x66a0, "AMD Instinct MI60"),
    (0x66a1, "AMD Instinct MI50"),
    (0x738c, "AMD Instinct MI100"),
    (0x7408, "AMD Instinct MI250X"),
    (0x740c, "AMD Instinct MI250"),
    (0x740f, "AMD Instinct MI210"),
    (0x74a0, "AMD Instinct MI300A"),
    (0x74a1, "AMD Instinct MI300X"),
    (0x74a5, "AMD Instinct MI325X"),
    (0x75a0, "AMD Instinct MI350X"),
];

/// All devices below `sys`, which is `/sys` but in tests.
pub(super) fn read(sys: &Path) -> Result<Vec<Device>, ReadError> {
    let gpus = gpus(sys)?;
    Ok((0..).zip(&gpus).map(|(index, properties)| device(sys, index, properties)).collect())
}

/// The minor numbers of the devices' render nodes, by index.
pub(super) fn render_minors(sys: &Path) -> Vec<u64> {
    let gpus = gpus(sys).unwrap_or_default();
    gpus.iter().map(|properties| properties.get("drm_render_minor").unwrap_or(0)).collect()
}

fn gpus(sys: &Path) -> Result<Vec<Properties>, ReadError> {
    let nodes = sys.join("class/kfd/kfd/topology/nodes");
    let entries = fs::read_dir(&nodes).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ReadError::Absent,
        _ => ReadError::Failed(format!("cannot read {}: {error}", nodes.display())),
    })?;
    let mut numbered: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect();
    numbered.sort();
    let gpus = numbered.iter().filter_map(|(_, node)| Properties::read(&node.join("properties")));
    Ok(gpus.filter(|properties| properties.get("simd_count").is_some_and(|count| count > 0)).collect())
}

fn device(sys: &Path, index: u32, properties: &Properties) -> Device {
    let minor = properties.get("drm_render_minor").unwrap_or(0);
    let folder = sys.join(format!("class/drm/renderD{minor}/device"));
    let memory = |name: &str| number(&folder.join(name)).map(|bytes| bytes / MIB);
    let (temperature_c, critical_c) = temperature(&folder);
    let too_hot = temperature_c.zip(critical_c).filter(|(now, critical)| now >= critical);
    let problem = match too_hot {
        _ if !folder.exists() => "the graphics driver does not know it".to_owned(),
        Some((now, _)) => format!("too hot: {now} °C"),
        None => super::memory_errors(uncorrected(&folder)),
    };
    Device {
        index,
        uuid: uuid(&folder, properties),
        model: model(&folder, properties),
        memory_mib: memory("mem_info_vram_total").unwrap_or(0),
        problem,
        utilisation: number(&folder.join("gpu_busy_percent")).map(|percent| percent as f64 / 100.0),
        memory_used_mib: memory("mem_info_vram_used"),
        temperature_c,
    }
}

fn uuid(folder: &Path, properties: &Properties) -> String {
    let unique = text(&folder.join("unique_id"));
    let unique = unique.or_else(|| properties.get("unique_id").map(|id| format!("{id:x}")));
    // Boards without one are distinguished by their place.
    unique.filter(|id| id.chars().any(|c| c != '0')).map_or_else(
        || format!("pci-{:x}", properties.get("location_id").unwrap_or(0)),
        |unique| format!("GPU-{unique}"),
    )
}

fn model(folder: &Path, properties: &Properties) -> String {
    let by_id = || {
        let id = properties.get("device_id")?;
        PRODUCTS.iter().find(|(known, _)| *known == id).map(|(_, name)| (*name).to_owned())
    };
    let by_target = || gfx(properties.get("gfx_target_version").unwrap_or(0));
    text(&folder.join("product_name"))
        .filter(|name| !name.is_empty())
        .or_else(by_id)
        .unwrap_or_else(by_target)
}

/// The compiler's name of an instruction set: 90010 is `gfx90a`.
fn gfx(version: u64) -> String {
    format!("gfx{}{:x}{:x}", version / 10_000, version / 100 % 100, version % 100)
}

/// Degrees now, and those at which the board gives up.
fn temperature(folder: &Path) -> (Option<f64>, Option<f64>) {
    let monitor = fs::read_dir(folder.join("hwmon")).ok().and_then(|mut all| all.next()?.ok());
    let degrees = |name: &str| {
        let thousandths = number(&monitor.as_ref()?.path().join(name))?;
        Some(thousandths as f64 / 1000.0)
    };
    (degrees("temp1_input"), degrees("temp1_emergency"))
}

/// Errors of the memory controller that could not be corrected.
fn uncorrected(folder: &Path) -> u64 {
    let counts = text(&folder.join("ras/umc_err_count")).unwrap_or_default();
    let count = counts.lines().find_map(|line| line.strip_prefix("ue:")?.trim().parse().ok());
    count.unwrap_or(0)
}

/// A file of lines with a name and a number each.
struct Properties(String);

impl Properties {
    fn read(path: &Path) -> Option<Self> {
        fs::read_to_string(path).ok().map(Self)
    }

    fn get(&self, name: &str) -> Option<u64> {
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
        self.0.lines().find_map(value)
    }
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, content) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    #[test]
    fn read_takes_gpus_in_their_order() {
        let root = tempfile::tempdir().unwrap();
        let node = |n: u32| format!("class/kfd/kfd/topology/nodes/{n}/properties");
        let gpu = |minor: u32, id: u32| {
            format!("simd_count 440\ndrm_render_minor {minor}\ndevice_id {id}\ngfx_target_version 90010\n")
        };
        write(
            root.path(),
            &[
                (&node(0), "cpu_cores_count 64\nsimd_count 0\n"),
                (&node(10), &gpu(130, 0x7408)),
                (&node(2), &gpu(128, 1)),
                (&node(3), &gpu(129, 1)),
                ("class/drm/renderD128/device/product_name", "AMD Instinct MI250X\n"),
                ("class/drm/renderD128/device/unique_id", "18f1a2\n"),
                ("class/drm/renderD128/device/mem_info_vram_total", "68702699520\n"),
                ("class/drm/renderD128/device/mem_info_vram_used", "10485760\n"),
                ("class/drm/renderD128/device/gpu_busy_percent", "25\n"),
                ("class/drm/renderD128/device/hwmon/hwmon4/temp1_input", "45000\n"),
                ("class/drm/renderD128/device/ras/umc_err_count", "ue: 0\nce: 7\n"),
                ("class/drm/renderD129/device/product_name", "\n"),
                ("class/drm/renderD129/device/ras/umc_err_count", "ue: 3\nce: 7\n"),
            ],
        );
        let devices = read(root.path()).unwrap();
        let models: Vec<&str> = devices.iter().map(|device| device.model.as_str()).collect();
        assert_eq!(models, ["AMD Instinct MI250X", "gfx90a", "AMD Instinct MI250X"]);
        let first = &devices[0];
        assert_eq!(
            (first.uuid.as_str(), first.memory_mib, first.problem.as_str()),
            ("GPU-18f1a2", 65520, "")
        );
        assert_eq!((first.utilisation, first.temperature_c), (Some(0.25), Some(45.0)));
        assert_eq!(first.memory_used_mib, Some(10));
        assert_eq!(devices[1].problem, "3 uncorrectable memory errors since the driver was loaded");
        assert_eq!(devices[2].problem, "the graphics driver does not know it");
    }

    #[test]
    fn read_without_driver_is_absent() {
        let root = tempfile::tempdir().unwrap();
        assert!(matches!(read(root.path()), Err(ReadError::Absent)));
    }
}
