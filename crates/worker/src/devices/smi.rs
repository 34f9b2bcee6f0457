//! Devices as `nvidia-smi` tells them.

use std::process::Stdio;
use std::time::Duration;

use wharf_proto::Device;

use super::run;
use super::source::ReadError;

/// The driver of a broken device can keep it waiting for long.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Only fields that drivers of many years know: one that is unknown fails the whole query.
const FIELDS: &str = "index,uuid,name,memory.total,memory.used,utilization.gpu,temperature.gpu,\
                      ecc.errors.uncorrected.volatile.total";

/// What stands in a field of a device that the driver cannot reach any more.
const BROKEN: [&str; 4] = ["gpu is lost", "unknown error", "err!", "reset required"];

/// All devices of this machine.
pub(super) async fn read() -> Result<Vec<Device>, ReadError> {
    let mut command = tokio::process::Command::new("nvidia-smi");
    command.arg(format!("--query-gpu={FIELDS}")).arg("--format=csv,noheader,nounits");
    command.stdin(Stdio::null());
    let said = run::to_end(command, TIME_LIMIT).await.map_err(|source| match source {
        run::RunError::Start(error) if error.kind() == std::io::ErrorKind::NotFound => ReadError::Absent,
        other => ReadError::Failed(format!("nvidia-smi {other}")),
    })?;
    // It fails as a whole where one device of several is lost, and tells of the others nevertheless.
    let devices = parse(&said.stdout);
    match said.code {
        Some(0) => Ok(devices),
        _ if !devices.is_empty() => Ok(devices),
        _ => Err(ReadError::Failed(format!("nvidia-smi fails: {}", said.last_line()))),
    }
}

fn parse(text: &str) -> Vec<Device> {
    text.lines().filter_map(device).collect()
}

/// One line; none for what is not about a device.
fn device(line: &str) -> Option<Device> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [index, uuid, name, total, used, busy, temperature, errors] = fields.as_slice() else { return None };
    let broken = fields.iter().find(|field| {
        let field = field.to_ascii_lowercase();
        BROKEN.iter().any(|text| field.contains(text))
    });
    let errors: u64 = errors.parse().unwrap_or(0);
    let problem = match broken {
        Some(field) => format!("nvidia-smi reports {}", field.trim_matches(['[', ']'])),
        None => super::memory_errors(errors),
    };
    Some(Device {
        index: index.parse().ok()?,
        uuid: (*uuid).to_owned(),
        model: (*name).to_owned(),
        // Whatever is no number was not told: `[N/A]`, `[Not Supported]`.
        memory_mib: total.parse().unwrap_or(0),
        problem,
        utilisation: busy.parse::<f64>().ok().map(|percent| percent / 100.0),
        memory_used_mib: used.parse().ok(),
        temperature_c: temperature.parse().ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "\
0, GPU-5f2a, NVIDIA A100-SXM4-40GB, 40960, 1024, 37, 41, 0
1, GPU-77c1, NVIDIA A100-SXM4-40GB, 40960, 0, 0, 39, 2
";

    #[test]
    fn parse_reads_facts_and_memory_errors() {
        let devices = parse(TWO);
        assert_eq!(devices.len(), 2);
        assert_eq!((devices[0].index, devices[0].uuid.as_str()), (0, "GPU-5f2a"));
        assert_eq!((devices[0].memory_mib, devices[0].memory_used_mib), (40960, Some(1024)));
        assert_eq!((devices[0].utilisation, devices[0].temperature_c), (Some(0.37), Some(41.0)));
        assert_eq!(devices[0].problem, "");
        assert_eq!(devices[1].problem, "2 uncorrectable memory errors since the driver was loaded");
    }

    #[test]
    fn parse_omits_unreported_values() {
        let lines = [
            ("0, GPU-1, Tesla K80, [N/A], [N/A], [Not Supported], [N/A], [N/A]", ""),
            ("0, GPU-1, Tesla K80, 11441, 0, [Unknown Error], 40, 0", "nvidia-smi reports Unknown Error"),
            ("0, GPU-1, Tesla K80, 11441, 0, 0, [GPU is lost], 0", "nvidia-smi reports GPU is lost"),
        ];
        for (line, problem) in lines {
            let devices = parse(line);
            assert_eq!((devices.len(), devices[0].problem.as_str()), (1, problem), "{line}");
            assert_eq!(devices[0].utilisation.unwrap_or(0.0), 0.0);
        }
        assert!(parse("No devices were found\n").is_empty());
        assert!(parse("Unable to determine the device handle for GPU 0000:3B:00.0\n").is_empty());
    }
}
