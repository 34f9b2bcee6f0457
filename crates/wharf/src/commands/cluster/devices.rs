//! What a worker offers: its declared devices, or those that it finds.

use std::path::Path;

use wharf_core::DEVICES_PER_NODE_MAX;
use wharf_proto::Device;
use wharf_worker::{Inventory, Source, Watch};

use crate::args::WorkerArgs;
use crate::error::CliError;
use crate::input;
use crate::output::Terminal;

/// Type and number of the devices, and how they are looked after.
pub(super) async fn offered(
    args: &WorkerArgs,
    terminal: &Terminal,
) -> Result<(String, u32, Watch), CliError> {
    let watch = Watch { command: args.health_check.clone(), ..Watch::default() };
    if let Some(declared) = &args.devices {
        let (device_type, count) = input::devices(declared)?;
        if !args.device_numbers.is_empty() && args.device_numbers.len() != count as usize {
            return Err(CliError::usage(format!(
                "`--device-numbers` must have {count} numbers, one per device"
            )));
        }
        let device = |&index: &u32| Device { index, model: device_type.clone(), ..Device::default() };
        let devices = args.device_numbers.iter().map(device).collect();
        return Ok((device_type, count, Watch { devices, ..watch }));
    }
    let mut found = Inventory::discover(DEVICES_PER_NODE_MAX).await;
    if !args.device_numbers.is_empty() {
        // What else the machine has is not this worker's.
        found.devices.retain(|device| args.device_numbers.contains(&device.index));
        found.left_out.retain(|device| args.device_numbers.contains(&device.index));
        if found.devices.is_empty() {
            return Err(CliError::usage("no detected device has one of these numbers")
                .hint("declare them with `--devices TYPE:COUNT`"));
        }
    }
    let count = u32::try_from(found.devices.len()).unwrap_or(DEVICES_PER_NODE_MAX);
    let by = match found.source {
        Source::Nvml => "by NVML",
        Source::NvidiaSmi => "by nvidia-smi",
        Source::Rocm { .. } => "by the ROCm driver",
        Source::Declared | Source::Processors => "as slots, because there is no GPU",
    };
    terminal.note(&format!("offers {}:{count}, found {by}", found.device_type));
    if let Some(notice) = without_nvml(&found.source) {
        terminal.warn(notice);
    }
    for device in &found.left_out {
        terminal.warn(&format!(
            "device {} ({}) is left out: a node has devices of one type, {} here, and at most {DEVICES_PER_NODE_MAX}",
            device.index, device.model, found.device_type
        ));
    }
    Ok((found.device_type, count, Watch { source: found.source, devices: found.devices, ..watch }))
}

/// What a statically linked program has to say about NVIDIA's devices.
fn without_nvml(source: &Source) -> Option<&'static str> {
    let has_driver = Path::new("/dev/nvidiactl").exists();
    match source {
        _ if !wharf_worker::is_static() => None,
        Source::NvidiaSmi => Some(
            "this program is statically linked and cannot load NVML: nvidia-smi watches the devices instead, which \
             tells less about their errors",
        ),
        Source::Processors if has_driver => Some(
            "there are NVIDIA devices, but this program is statically linked and cannot load NVML, and nvidia-smi \
             does not answer: put it on the PATH, or declare the devices with `--devices`",
        ),
        _ => None,
    }
}
