//! Nodes of devices in `/dev`: which a task may not open.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::numbers;
use crate::WorkerConfig;

/// How long a list of the machine's nodes is good for.
const LISTED: Duration = Duration::from_secs(10);
/// Where an index stands in the name of a node.
const INDEX: &str = "{}";
/// The group of terminals, which belong to sessions.
const TTY_GID: u32 = 5;
/// Nodes of accelerators begin with one of these, those that all devices of a driver share included.
const ACCELERATORS: [&str; 5] = ["/dev/nvidia", "/dev/dri/", "/dev/kfd", "/dev/accel", "/dev/davinci"];
/// Nodes that every task with a device of such a driver needs.
const SHARED: [&str; 6] = [
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
    "/dev/nvidia-caps/",
    "/dev/kfd",
];

/// The nodes of this machine that users can open, as last listed.
#[derive(Default)]
pub(crate) struct DeviceNodes {
    listed: Option<(Instant, Vec<PathBuf>)>,
}

impl DeviceNodes {
    /// The nodes that a task with these devices may not open.
    pub(crate) fn denied(&mut self, config: &WorkerConfig, devices: &[u32]) -> Vec<PathBuf> {
        let now = Instant::now();
        let listed = match self.listed.take().filter(|(at, _)| now - *at < LISTED) {
            Some(listed) => listed,
            None => (now, list(Path::new("/dev"))),
        };
        let nodes = &self.listed.insert(listed).1;
        let patterns = &config.tasks.device_files;
        let own = own_nodes(patterns, &numbers(config, devices), Path::new("/"));
        let are_given = !devices.is_empty() && super::are_gpus(config);
        denied(nodes, patterns, &own, are_given)
    }
}

fn denied(nodes: &[PathBuf], patterns: &[String], own: &BTreeSet<PathBuf>, are_given: bool) -> Vec<PathBuf> {
    let begins = |node: &Path, beginnings: &[&str]| {
        beginnings.iter().any(|beginning| node.to_string_lossy().starts_with(beginning))
    };
    let is_device =
        |node: &Path| begins(node, &ACCELERATORS) || patterns.iter().any(|pattern| is_of(pattern, node));
    let may = |node: &PathBuf| own.contains(node) || (are_given && begins(node, &SHARED));
    nodes.iter().filter(|node| is_device(node) && !may(node)).cloned().collect()
}

/// Whether a node has a name of that pattern.
fn is_of(pattern: &str, node: &Path) -> bool {
    let name = node.to_string_lossy();
    match pattern.split_once(INDEX) {
        None => name == pattern,
        Some((before, after)) => name
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after))
            .is_some_and(|index| !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit())),
    }
}

/// The nodes of devices, by the numbers that their runtime has for them.
fn own_nodes(patterns: &[String], numbers: &[u32], root: &Path) -> BTreeSet<PathBuf> {
    let nvidia = nvidia_minors(&root.join("proc/driver/nvidia/gpus"));
    let amd = super::rocm::render_minors(&root.join("sys"));
    let mut own = BTreeSet::new();
    for &number in numbers {
        let index = number as usize;
        let minor = nvidia.get(index).copied().unwrap_or(number);
        own.insert(PathBuf::from(format!("/dev/nvidia{minor}")));
        if let Some(minor) = amd.get(index) {
            own.insert(PathBuf::from(format!("/dev/dri/renderD{minor}")));
        }
        for name in ["/dev/accel/accel{}", "/dev/accel{}", "/dev/davinci{}"] {
            own.insert(PathBuf::from(name.replace(INDEX, &number.to_string())));
        }
        own.extend(patterns.iter().map(|pattern| PathBuf::from(pattern.replace(INDEX, &number.to_string()))));
    }
    own
}

/// The minor numbers of NVIDIA's devices, in the order of their places on the bus, which is that of their indexes.
fn nvidia_minors(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut places: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    places.sort();
    let minor = |place: &PathBuf| {
        let text = fs::read_to_string(place.join("information")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Device Minor:"))?.trim().parse().ok()
    };
    places.iter().filter_map(minor).collect()
}

/// The character devices below a folder that others than root can open. Other file systems below it, such as that of terminals, stay
/// as they are.
fn list(folder: &Path) -> Vec<PathBuf> {
    let Ok(device) = folder.symlink_metadata().map(|found| found.dev()) else { return Vec::new() };
    let (mut nodes, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            if found.is_dir() && found.dev() == device {
                folders.push(entry.path());
            } else if found.file_type().is_char_device() && can_others_open(found.mode(), found.gid()) {
                nodes.push(entry.path());
            }
        }
    }
    nodes.sort();
    nodes
}

fn can_others_open(mode: u32, gid: u32) -> bool {
    mode & 0o006 != 0 || (mode & 0o060 != 0 && gid != 0 && gid != TTY_GID)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn denied_are_devices_of_others() {
        let nodes = paths(&[
            "/dev/null",
            "/dev/nvidia0",
            "/dev/nvidia1",
            "/dev/nvidiactl",
            "/dev/dri/card0",
            "/dev/x7",
        ]);
        let pattern = ["/dev/x{}".to_owned()];
        let own = own_nodes(&pattern, &[1], Path::new("/nowhere"));
        assert_eq!(denied(&nodes, &[], &own, true), paths(&["/dev/nvidia0", "/dev/dri/card0"]));
        let all = ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/dri/card0", "/dev/x7"];
        assert_eq!(denied(&nodes, &pattern, &BTreeSet::new(), false), paths(&all));
        assert_eq!(denied(&paths(&["/dev/null"]), &pattern, &own, true), paths(&[]), "nothing to deny");
    }

    #[test]
    fn nvidia_minors_follow_the_bus() {
        let root = tempfile::tempdir().unwrap();
        for (place, minor) in [("0000:3b:00.0", 1), ("0000:18:00.0", 3)] {
            let folder = root.path().join(place);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("information"), format!("Model: X\nDevice Minor: \t {minor}\n")).unwrap();
        }
        assert_eq!(nvidia_minors(root.path()), [3, 1]);
    }

    #[test]
    fn nodes_for_root_alone_are_not_listed() {
        for (mode, gid, expected) in
            [(0o666, 0, true), (0o660, 44, true), (0o600, 0, false), (0o620, 5, false), (0o660, 0, false)]
        {
            assert_eq!(can_others_open(mode, gid), expected, "{mode:o} {gid}");
        }
    }
}
