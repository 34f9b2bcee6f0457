//! The devices of this machine: found or declared, watched, and shared.
//!
//! A node has devices of one type, numbered from 0 without gaps: that is how the head counts them. A runtime such as CUDA numbers what
//! it finds; [`visible`] translates.

mod dcgm;
mod health;
mod kind;
mod mps;
mod nodes;
mod nvml;
mod rocm;
mod run;
mod smi;
mod source;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use wharf_proto::Device;

pub(crate) use health::watch;
pub(crate) use mps::Sharing;
pub(crate) use nodes::DeviceNodes;
use source::Reader;
pub use source::Source;

use crate::WorkerConfig;

/// What a worker offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Inventory {
    /// The type of all its devices.
    pub device_type: String,
    /// Its devices, with the numbers that their runtime gives them.
    pub devices: Vec<Device>,
    /// Where it learned of them.
    pub source: Source,
    /// Devices of other types, which are not offered: a node has one type.
    pub left_out: Vec<Device>,
}

impl Inventory {
    /// Searches for devices: NVIDIA's, else AMD's, else a slot for each processor. At most `max` are offered.
    pub async fn discover(max: u32) -> Self {
        for source in [Source::Nvml, Source::NvidiaSmi, Source::Rocm { sys: PathBuf::from("/sys") }] {
            let Some(reader) = Reader::open(&source).await else { continue };
            // A source that does not work here is like one that is not there: the next one may.
            if let Ok(found) = reader.read().await
                && !found.is_empty()
            {
                return Self::of_found(found, source, max);
            }
        }
        let count = processors().clamp(1, max);
        let slot = |index| Device { index, model: "cpu".to_owned(), ..Device::default() };
        Self {
            device_type: "cpu".to_owned(),
            devices: (0..count).map(slot).collect(),
            source: Source::Processors,
            left_out: Vec::new(),
        }
    }

    /// The most frequent type, the first of several that are equally frequent.
    fn of_found(found: Vec<Device>, source: Source, max: u32) -> Self {
        let type_of = |device: &Device| kind::device_type(&device.model);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        found.iter().for_each(|device| *counts.entry(type_of(device)).or_default() += 1);
        let most = counts.values().max().copied().unwrap_or(0);
        let chosen = found.iter().map(type_of).find(|name| counts.get(name) == Some(&most));
        let device_type = chosen.unwrap_or_default();
        let (mut devices, mut left_out): (Vec<Device>, Vec<Device>) =
            found.into_iter().partition(|device| type_of(device) == device_type);
        left_out.extend(devices.split_off(devices.len().min(max as usize)));
        Self { device_type, devices, source, left_out }
    }
}

/// How a worker knows its devices, and how it finds out that one is broken.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Where it learns of them.
    pub source: Source,
    /// The devices, with the numbers that their runtime gives them; empty where they are only declared.
    pub devices: Vec<Device>,
    /// How often it looks after them.
    pub interval: Duration,
    /// A program and its arguments that state whether this node is well; empty for none.
    pub command: Vec<String>,
    /// How long that program may take.
    pub command_limit: Duration,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            source: Source::Declared,
            devices: Vec::new(),
            interval: Duration::from_secs(10),
            command: Vec::new(),
            command_limit: Duration::from_secs(60),
        }
    }
}

/// All devices as the head knows them: numbered from 0.
pub(crate) fn offered(config: &WorkerConfig) -> Vec<Device> {
    let declared = |index| Device { index, model: config.device_type.clone(), ..Device::default() };
    let found = |index: u32| config.watch.devices.get(index as usize).cloned();
    (0..config.devices)
        .map(|index| Device { index, ..found(index).unwrap_or_else(|| declared(index)) })
        .collect()
}

/// The numbers that their runtime gives devices.
pub(crate) fn numbers(config: &WorkerConfig, devices: &[u32]) -> Vec<u32> {
    let number = |&index: &u32| config.watch.devices.get(index as usize).map_or(index, |found| found.index);
    devices.iter().map(number).collect()
}

/// Whether the devices are more than slots for processes.
pub(crate) fn are_gpus(config: &WorkerConfig) -> bool {
    config.device_type != "cpu"
}

/// The variables that show a task its devices and no others.
pub(crate) fn visible(config: &WorkerConfig, devices: &[u32]) -> Vec<(&'static str, String)> {
    let indexes = joined(numbers(config, devices).into_iter());
    if !are_gpus(config) {
        return Vec::new();
    }
    if kind::is_amd(&config.device_type) {
        // The upper layer counts what the lower one has left over: the same numbers twice would leave nothing.
        let left_over = joined(0..devices.len() as u32);
        return vec![("ROCR_VISIBLE_DEVICES", indexes), ("HIP_VISIBLE_DEVICES", left_over)];
    }
    let mut variables = vec![
        ("CUDA_VISIBLE_DEVICES", indexes.clone()),
        ("ROCR_VISIBLE_DEVICES", indexes.clone()),
        ("HIP_VISIBLE_DEVICES", indexes),
    ];
    if config.watch.source.is_nvidia() {
        // CUDA's own order is by speed, unless set to count as the driver does.
        variables.push(("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()));
    }
    variables
}

fn joined(indexes: impl Iterator<Item = u32>) -> String {
    indexes.map(|index| index.to_string()).collect::<Vec<_>>().join(",")
}

/// How many processors this process may use.
pub fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

/// This machine's memory in GiB, rounded down; 0 where that is not known.
pub fn memory_gib() -> u32 {
    std::fs::read_to_string("/proc/meminfo").map_or(0, |text| total_gib(&text))
}

fn total_gib(meminfo: &str) -> u32 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.and_then(|kib| u32::try_from(kib / (1024 * 1024)).ok()).unwrap_or(0)
}

/// What uncorrectable memory errors mean for a device; nothing where there are none.
fn memory_errors(count: u64) -> String {
    match count {
        0 => String::new(),
        1 => "1 uncorrectable memory error since the driver was loaded".to_owned(),
        _ => format!("{count} uncorrectable memory errors since the driver was loaded"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(index: u32, model: &str) -> Device {
        Device { index, model: model.to_owned(), ..Device::default() }
    }

    #[test]
    fn of_found_takes_the_most_frequent_type() {
        let found = vec![device(0, "Quadro P400"), device(1, "NVIDIA A40"), device(2, "NVIDIA A40")];
        let inventory = Inventory::of_found(found, Source::NvidiaSmi, 128);
        assert_eq!(inventory.device_type, "a40");
        let indexes: Vec<u32> = inventory.devices.iter().map(|device| device.index).collect();
        assert_eq!(indexes, [1, 2]);
        assert_eq!(inventory.left_out, [device(0, "Quadro P400")]);
    }

    #[test]
    fn of_found_at_most_so_many_are_offered() {
        let found = (0..5).map(|index| device(index, "Tesla T4")).collect();
        let inventory = Inventory::of_found(found, Source::Nvml, 3);
        assert_eq!((inventory.devices.len(), inventory.left_out.len()), (3, 2));
    }

    #[test]
    fn visible_translates_to_the_runtimes_numbers() {
        let mut config = crate::testing::config("a40");
        config.watch.devices = vec![device(1, "NVIDIA A40"), device(3, "NVIDIA A40")];
        config.watch.source = Source::NvidiaSmi;
        let variables = visible(&config, &[1]);
        assert!(variables.contains(&("CUDA_VISIBLE_DEVICES", "3".to_owned())));
        assert!(variables.contains(&("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned())));
        config.device_type = "mi250x".to_owned();
        let expected = [("ROCR_VISIBLE_DEVICES", "3".to_owned()), ("HIP_VISIBLE_DEVICES", "0".to_owned())];
        assert_eq!(visible(&config, &[1]), expected);
        config.device_type = "cpu".to_owned();
        assert!(visible(&config, &[1]).is_empty());
    }

    #[test]
    fn total_gib_reads_meminfo() {
        assert_eq!(total_gib("MemTotal:       65843060 kB\nMemFree:        1 kB\n"), 62);
        assert_eq!(total_gib("nothing"), 0);
        assert!(memory_gib() > 0 || total_gib("MemTotal: 1 kB") == 0);
    }
}
