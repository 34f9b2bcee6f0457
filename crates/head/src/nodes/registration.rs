//! Bounds of what a worker may report of its node.

use wharf_core::DEVICES_PER_NODE_MAX;
use wharf_job::check::{CheckError, check_label};
use wharf_proto::{Device, Register};

/// Bytes of a name, and of a text for people.
const NAME_BYTES_MAX: usize = 253;
const TEXT_BYTES_MAX: usize = 1000;
/// Far more than any machine has.
const CPUS_MAX: u32 = 100_000;
const MEMORY_GIB_MAX: u32 = 10_000_000;
const FEATURES_MAX: usize = 100;
const TASKS_MAX: usize = 100_000;

/// A registration that is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegistrationError {
    #[error("a worker needs a name and at least one device")]
    Empty,
    #[error("node `{node}` reports {found} {what}; at most {most} are allowed")]
    TooMany { node: String, found: u64, what: &'static str, most: u64 },
    #[error("the reason for leaving has more than {TEXT_BYTES_MAX} bytes")]
    LongReason,
    #[error("a worker's {what} has {bytes} bytes; at most {NAME_BYTES_MAX} are allowed")]
    LongName { what: &'static str, bytes: usize },
    #[error(transparent)]
    Name(#[from] CheckError),
}

/// Checks a registration.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check(register: &Register) -> Result<(), RegistrationError> {
    if register.node.is_empty() || register.devices == 0 {
        return Err(RegistrationError::Empty);
    }
    let names = [("node", &register.node), ("device type", &register.device_type), ("pool", &register.pool)];
    let others = [("address", &register.address), ("version", &register.version)];
    let features = register.features.iter().map(|feature| ("feature", feature));
    for (what, name) in names.into_iter().chain(others).chain(features) {
        check_name(what, name)?;
    }
    let amounts = [
        ("devices", u64::from(register.devices), u64::from(DEVICES_PER_NODE_MAX)),
        ("processors", register.cpus.into(), CPUS_MAX.into()),
        ("GiB of memory", register.memory_gib.into(), MEMORY_GIB_MAX.into()),
        ("device reports", register.device.len() as u64, u64::from(DEVICES_PER_NODE_MAX)),
        ("features", register.features.len() as u64, FEATURES_MAX as u64),
        ("tasks", register.tasks.len() as u64, TASKS_MAX as u64),
    ];
    for (what, found, most) in amounts {
        if found > most {
            return Err(RegistrationError::TooMany { node: register.node.clone(), found, what, most });
        }
    }
    if register.leaving.len() > TEXT_BYTES_MAX {
        return Err(RegistrationError::LongReason);
    }
    Ok(())
}

fn check_name(what: &'static str, name: &str) -> Result<(), RegistrationError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(RegistrationError::LongName { what, bytes: name.len() });
    }
    Ok(check_label(&format!("worker's {what}"), name)?)
}

/// Devices that the node has, each once and with texts of a bounded length.
pub(crate) fn within_bounds(devices: Vec<Device>, count: u32) -> Vec<Device> {
    let mut seen = std::collections::BTreeSet::new();
    let is_own = |device: &Device| device.index < count && seen.insert(device.index);
    let mut own: Vec<Device> = devices.into_iter().filter(is_own).collect();
    for device in &mut own {
        for text in [&mut device.uuid, &mut device.model, &mut device.problem] {
            text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register() -> Register {
        Register { node: "n1".into(), device_type: "a40".into(), devices: 8, ..Register::default() }
    }

    #[test]
    fn registration_beyond_bounds_is_refused() {
        assert_eq!(check(&register()), Ok(()));
        let refused: [(&str, Register); 6] = [
            ("100000 devices", Register { devices: 100_000, ..register() }),
            ("at least one device", Register { devices: 0, ..register() }),
            ("contains the control character", Register { node: "n\u{1b}]0;".into(), ..register() }),
            ("253 are allowed", Register { pool: "p".repeat(254), ..register() }),
            ("processors", Register { cpus: u32::MAX, ..register() }),
            ("features", Register { features: vec!["f".into(); 101], ..register() }),
        ];
        for (reason, register) in refused {
            let found = check(&register).unwrap_err().to_string();
            assert!(found.contains(reason), "{found}");
        }
    }

    #[test]
    fn devices_that_a_node_does_not_have_are_dropped() {
        let device = |index| Device { index, problem: "x".repeat(5000), ..Device::default() };
        let own = within_bounds(vec![device(0), device(0), device(7), device(8), device(u32::MAX)], 8);
        assert_eq!(own.iter().map(|device| device.index).collect::<Vec<_>>(), [0, 7]);
        assert_eq!(own[0].problem.len(), TEXT_BYTES_MAX);
    }
}
