//! What unit tests share.

use crate::{ContainerSettings, TaskSettings, Watch, WorkerConfig};

/// A worker with four devices.
pub(crate) fn config(device_type: &str) -> WorkerConfig {
    WorkerConfig {
        head: "http://127.0.0.1:1".into(),
        token: "hush".into(),
        node: "n0".into(),
        device_type: device_type.into(),
        devices: 4,
        cpus: 16,
        memory_gib: 0,
        switch: 0,
        pool: String::new(),
        features: Vec::new(),
        address: "127.0.0.1".into(),
        state_dir: "/tmp/w".into(),
        supervisor_program: None,
        rehearsal: None,
        network_interface: None,
        watch: Watch::default(),
        containers: ContainerSettings::default(),
        tasks: TaskSettings::default(),
        lifetime: None,
    }
}
