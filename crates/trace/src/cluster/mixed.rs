//! Nodes with everything that they have: `2x(a100:2+t4:4,cpus=64,memory=512G,scratch=800);4x(cpus=32);licence:matlab=2`.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_core::{ClusterSpec, DEVICES_PER_NODE_MAX, NodeDetails, NodeSpec, is_slice};

use super::DEVICES_MAX;
use super::short::{ShortFormError, check_name, parse_count};

/// Devices of one type in a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceGroup {
    pub(super) device_type: Arc<str>,
    pub(super) count: u32,
}

/// A machine as it is declared.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    pub(super) groups: Vec<DeviceGroup>,
    pub(super) cpus: Option<u32>,
    pub(super) memory_gib: Option<u32>,
    pub(super) switch: u32,
    pub(super) pool: Arc<str>,
    /// Its memory of devices, resources, block and domain.
    pub(super) details: NodeDetails,
}

impl Machine {
    /// Its nodes: one for each device group, or one without devices.
    pub(super) fn nodes(&self, name: &Arc<str>) -> Vec<NodeSpec> {
        let devices: u32 = self.groups.iter().map(|group| group.count).sum();
        let cpus = self.cpus.unwrap_or(NodeSpec::CPUS_PER_DEVICE * devices);
        let memory_gib = self.memory_gib.unwrap_or(NodeSpec::MEMORY_GIB_PER_DEVICE * devices);
        let none = DeviceGroup { device_type: NodeSpec::NO_DEVICES.into(), count: 0 };
        let groups = if self.groups.is_empty() { std::slice::from_ref(&none) } else { &self.groups };
        let node = |(index, group): (usize, &DeviceGroup)| {
            let is_first = index == 0;
            let details = NodeDetails {
                host: (!is_first).then(|| name.clone()),
                resources: if is_first { self.details.resources.clone() } else { Vec::new() },
                ..self.details.clone()
            };
            NodeSpec {
                name: if is_first { name.clone() } else { NodeSpec::group_name(name, &group.device_type) },
                device_type: group.device_type.clone(),
                devices: group.count,
                cpus: if is_first { cpus } else { 0 },
                memory_gib: if is_first { memory_gib } else { 0 },
                switch: self.switch,
                pool: self.pool.clone(),
                details: (details != NodeDetails::default()).then(|| Arc::new(details)),
            }
        };
        groups.iter().enumerate().map(node).collect()
    }

    /// Checks that one machine has no more devices than are handled, and each type once.
    pub(super) fn check(&self) -> Result<(), ShortFormError> {
        let devices: u64 = self.groups.iter().map(|group| u64::from(group.count)).sum();
        if devices > DEVICES_PER_NODE_MAX.into() {
            return Err(ShortFormError::NodeDevices { devices });
        }
        for (index, group) in self.groups.iter().enumerate() {
            if self.groups[..index].iter().any(|other| other.device_type == group.device_type) {
                return Err(ShortFormError::RepeatedType { device_type: group.device_type.to_string() });
            }
        }
        Ok(())
    }
}

/// The cluster that such a form describes, or what is wrong, to be read after "as a short form".
pub(super) fn parse(text: &str) -> Result<ClusterSpec, ShortFormError> {
    let mut cluster = ClusterSpec::default();
    let mut parts: Vec<(u32, Machine)> = Vec::new();
    for part in text.split(';').map(str::trim) {
        match part.strip_prefix("licence:") {
            Some(licence) => cluster.licences.push(named(licence, "licence")?),
            None => parts.push(machines(part)?),
        }
    }
    check_size(&parts)?;
    let mut indexes: BTreeMap<&str, u32> = BTreeMap::new();
    for (count, machine) in &parts {
        let first = machine.groups.first().map_or(NodeSpec::NO_DEVICES, |group| &*group.device_type);
        let index = indexes.entry(first).or_default();
        for _ in 0..*count {
            cluster.nodes.extend(machine.nodes(&format!("{first}-{index}").into()));
            *index += 1;
        }
    }
    if cluster.nodes.is_empty() {
        return Err(ShortFormError::NoNodes);
    }
    Ok(cluster)
}

/// Checks that there are no more nodes and devices than are handled.
fn check_size(parts: &[(u32, Machine)]) -> Result<(), ShortFormError> {
    let sum = |of: fn(&Machine) -> u64| {
        parts.iter().map(|(count, machine)| u64::from(*count) * of(machine)).sum::<u64>()
    };
    let nodes: u64 = sum(|_| 1);
    let devices: u64 = sum(|machine| machine.groups.iter().map(|group| u64::from(group.count)).sum());
    if nodes > DEVICES_MAX.into() {
        return Err(ShortFormError::TooManyNodes { total: nodes });
    }
    if devices > DEVICES_MAX.into() {
        return Err(ShortFormError::TooManyDevices { total: devices });
    }
    Ok(())
}

/// `4x(MACHINE)`, or one `MACHINE`.
fn machines(text: &str) -> Result<(u32, Machine), ShortFormError> {
    let Some((count, rest)) = text.split_once("x(") else { return Ok((1, machine(text)?)) };
    let inner = rest.strip_suffix(')').ok_or_else(|| unclosed(text, "parenthesis"))?;
    Ok((parse_count(count, "nodes", DEVICES_MAX)?, machine(inner)?))
}

/// `a100:2+t4:4,cpus=64,memory=512G,NAME=COUNT`.
fn machine(text: &str) -> Result<Machine, ShortFormError> {
    let mut machine = Machine::default();
    for (index, field) in text.split(',').map(str::trim).enumerate() {
        match field.split_once('=') {
            None if index == 0 => machine.groups = device_groups(field, 0)?,
            None => return Err(ShortFormError::NoValue { text: field.to_owned() }),
            Some(("cpus", value)) => machine.cpus = Some(parse_count(value, "CPUs", u32::MAX)?),
            Some(("memory", value)) => machine.memory_gib = Some(memory_gib(value)?),
            Some(("switch", value)) => machine.switch = number(value, "the switch")?,
            Some(("block", value)) => machine.details.block = number(value, "the block")?,
            Some(("domain", value)) => {
                machine.details.domain = parse_count(value, "devices", DEVICES_PER_NODE_MAX)?
            }
            Some(("pool", value)) => machine.pool = value.into(),
            Some(_) => machine.details.resources.push(named(field, "resource")?),
        }
    }
    machine.check()?;
    Ok(machine)
}

/// `a100:2+t4:4`, with slices as `a100:2[1g.10gb:4/3g.40gb:1]`: each of the devices is divided so.
pub(super) fn device_groups(text: &str, device_memory_gib: u64) -> Result<Vec<DeviceGroup>, ShortFormError> {
    let mut groups = Vec::new();
    for part in text.split('+').map(str::trim) {
        let (plain, slices) = match part.split_once('[') {
            Some((plain, rest)) => {
                let inner = rest.strip_suffix(']').ok_or_else(|| unclosed(part, "bracket"))?;
                (plain, Some(inner))
            }
            None => (part, None),
        };
        let (device_type, count) = plain.split_once(':').unwrap_or((plain, "1"));
        check_name(device_type, "device type")?;
        let count = parse_count(count, "devices per node", DEVICES_PER_NODE_MAX)?;
        match slices {
            None => groups.push(DeviceGroup { device_type: device_type.into(), count }),
            Some(slices) => groups.extend(divided(device_type, count, slices, device_memory_gib)?),
        }
    }
    Ok(groups)
}

/// The slices of so many devices.
fn divided(
    device_type: &str,
    count: u32,
    slices: &str,
    memory_gib: u64,
) -> Result<Vec<DeviceGroup>, ShortFormError> {
    /// Compute slices of a device.
    const COMPUTE: u64 = 7;
    let (mut compute, mut memory) = (0_u64, 0_u64);
    let mut groups = Vec::new();
    for slice in slices.split('/') {
        let (profile, each) = slice.trim().split_once(':').unwrap_or((slice.trim(), "1"));
        let each = parse_count(each, "slices", DEVICES_PER_NODE_MAX)?;
        if !is_slice(profile) {
            return Err(ShortFormError::SliceProfile { text: profile.to_owned() });
        }
        let number = |text: &str| {
            text.bytes()
                .take_while(u8::is_ascii_digit)
                .fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
        };
        let (gpcs, rest) = profile.split_once("g.").unwrap_or_default();
        compute = number(gpcs).saturating_mul(each.into()).saturating_add(compute);
        memory = number(rest).saturating_mul(each.into()).saturating_add(memory);
        groups.push(DeviceGroup { device_type: profile.into(), count: each.saturating_mul(count) });
    }
    if compute > COMPUTE {
        let device_type = device_type.to_owned();
        return Err(ShortFormError::SliceParts { device_type, taken: compute, parts: COMPUTE });
    }
    if memory_gib > 0 && memory > memory_gib {
        let device_type = device_type.to_owned();
        return Err(ShortFormError::SliceMemory { device_type, taken: memory, memory: memory_gib });
    }
    Ok(groups)
}

/// `NAME=COUNT`.
fn named(text: &str, what: &'static str) -> Result<(Arc<str>, u64), ShortFormError> {
    let (name, count) = text.split_once('=').unwrap_or((text, "1"));
    check_name(name, what)?;
    Ok((name.into(), parse_count(count, "units", u32::MAX)?.into()))
}

fn number(text: &str, what: &'static str) -> Result<u32, ShortFormError> {
    text.parse().map_err(|_| ShortFormError::NoNumber { text: text.to_owned(), what })
}

fn unclosed(text: &str, what: &'static str) -> ShortFormError {
    ShortFormError::Unclosed { text: text.to_owned(), what }
}

/// Memory in GiB: a number with G or T.
fn memory_gib(text: &str) -> Result<u32, ShortFormError> {
    let upper = text.to_ascii_uppercase();
    let plain = upper.trim_end_matches("IB").trim_end_matches('B');
    let (digits, factor) = match plain.strip_suffix('T') {
        Some(digits) => (digits, 1024),
        None => (plain.strip_suffix('G').unwrap_or(plain), 1),
    };
    let count = parse_count(digits, "GiB of memory", u32::MAX)?;
    count.checked_mul(factor).ok_or_else(|| ShortFormError::Memory { text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{parse_cluster_file, write_cluster};

    const MIXED: &str = "2x(a100:2+t4:4,cpus=64,memory=512G,scratch=800,block=1,domain=2);\
        a100:2[1g.10gb:4/3g.40gb:1],cpus=16,pool=mig;2x(cpus=32,memory=1T);licence:matlab=2";

    #[test]
    fn short_form_of_mixed_nodes_has_a_node_for_each_device_group() {
        let cluster = parse(MIXED).unwrap();
        let shown: Vec<String> = cluster
            .nodes
            .iter()
            .map(|node| {
                let NodeSpec { name, device_type, devices, cpus, memory_gib, .. } = node;
                format!("{name} of {}: {devices} {device_type} {cpus} {memory_gib}", node.machine())
            })
            .collect();
        assert_eq!(
            shown,
            [
                "a100-0 of a100-0: 2 a100 64 512",
                "a100-0/t4 of a100-0: 4 t4 0 0",
                "a100-1 of a100-1: 2 a100 64 512",
                "a100-1/t4 of a100-1: 4 t4 0 0",
                "1g.10gb-0 of 1g.10gb-0: 8 1g.10gb 16 640",
                "1g.10gb-0/3g.40gb of 1g.10gb-0: 2 3g.40gb 0 0",
                "cpu-0 of cpu-0: 0 cpu 32 1024",
                "cpu-1 of cpu-1: 0 cpu 32 1024",
            ]
        );
        assert_eq!(cluster.licences, [("matlab".into(), 2)]);
    }

    #[test]
    fn cluster_file_of_mixed_nodes_reads_back() {
        let cluster = parse(MIXED).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        write_cluster(&cluster, &mut file.as_file()).unwrap();
        assert_eq!(parse_cluster_file(file.path()).unwrap(), cluster);
    }

    #[test]
    fn short_form_that_contradicts_itself_is_refused_with_the_reason() {
        for (text, reason) in [
            ("a100:2+a100:4", "a node has device type `a100` twice"),
            ("a100:100+t4:100", "a node has 200 devices, at most 128 are handled"),
            ("a100:2[1g.10gb:8]", "the slices of `a100` take 8 of its 7 parts"),
            ("a100:2[half:2]", "`half` is no slice profile, such as 1g.10gb"),
            ("a100:2,cpus", "`cpus` is no NAME=VALUE"),
            ("a100:2,cpus=many", "`many` is no number of CPUs"),
            ("2x(a100:2,cpus=4", "`2x(a100:2,cpus=4` has no closing parenthesis"),
            ("licence:matlab=2", "it has no nodes"),
            ("4000000x(cpus=1);1x(cpus=1)", "it has 4000001 nodes, at most 4000000 are handled"),
            ("40000x(a100:128)", "it has 5120000 devices, at most 4000000 are handled"),
            (
                "a100:1[99999999999999999999g.99999999999999999999gb:2]",
                "the slices of `a100` take 18446744073709551615 of its 7 parts",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), reason, "{text}");
        }
        let error = device_groups("a100:1[1g.10gb:5]", 40).unwrap_err();
        assert_eq!(error.to_string(), "the slices of `a100` take 50 GB of its 40 GB");
    }
}
