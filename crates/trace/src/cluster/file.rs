//! Cluster files: Wharf's own CSV with a row for each node, the node lists of Alibaba's GPU log of 2023, and the specs of the Muri and
//! Crius simulators.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use wharf_core::{ClusterSpec, DEVICES_PER_NODE_MAX, NodeDetails, NodeSpec};

use super::mixed::{self, DeviceGroup, Machine};
use super::{ClusterError, DEVICE_TYPE, DEVICES_MAX, crius};
use crate::csv::{CsvRows, Separator, Step, write_text};
use crate::finding::{Findings, Note, Rule};
use crate::row::{Column, Row, RowCheck, Schema, UnknownColumns};
use crate::source::{self, SourceError};
use crate::text::{Interner, shown};

/// One row a node.
static NATIVE: Schema = Schema {
    columns: &[
        Column { name: "name", required: true },
        Column { name: "device_type", required: true },
        Column { name: "devices", required: true },
        Column { name: "cpus", required: false },
        Column { name: "memory_gib", required: false },
        Column { name: "switch", required: false },
        Column { name: "pool", required: false },
        Column { name: "resources", required: false },
        Column { name: "device_memory_gib", required: false },
        Column { name: "block", required: false },
        Column { name: "domain", required: false },
        Column { name: "licences", required: false },
    ],
    any_of: &[],
    unknown: UnknownColumns::Error,
};

/// One row a kind of node, as the Muri and Tiresias simulators have it.
static MURI: Schema = Schema {
    columns: &[
        Column { name: "num_switch", required: true },
        Column { name: "num_node_p_switch", required: true },
        Column { name: "num_gpu_p_node", required: true },
        Column { name: "num_cpu_p_node", required: true },
        Column { name: "mem_p_node", required: true },
    ],
    any_of: &[],
    unknown: UnknownColumns::Error,
};

/// One row a node, as Alibaba's GPU log of 2023 has it (`openb_node_list_*.csv`).
static OPENB: Schema = Schema {
    columns: &[
        Column { name: "sn", required: true },
        Column { name: "cpu_milli", required: true },
        Column { name: "memory_mib", required: true },
        Column { name: "gpu", required: true },
        Column { name: "model", required: true },
    ],
    any_of: &[],
    unknown: UnknownColumns::Error,
};

/// Adds what a row says.
type AddRow = fn(&mut Builder, &mut RowCheck<'_>) -> Option<()>;

/// How rows are read, by the first kind of file that has one of the header's columns; Wharf's own where there is none.
fn kind_of<'a>(names: impl Iterator<Item = &'a str> + Clone) -> (&'static Schema, AddRow) {
    let others: [(&'static Schema, AddRow); 2] = [(&MURI, Builder::add_group), (&OPENB, Builder::add_openb)];
    let has = |schema: &Schema| names.clone().any(|name| schema.find(name).is_some());
    others.into_iter().find(|(schema, _)| has(schema)).unwrap_or((&NATIVE, Builder::add_node))
}

/// Reads a cluster file, gzip-compressed or plain; which kind is detected from its header. JSON is the Crius simulator's.
///
/// Wharf's own has the columns `name,device_type,devices,cpus,memory_gib,switch,pool` and a row for each node; the
/// last four may be left out. The Muri simulator's has `num_switch,num_node_p_switch,num_gpu_p_node,
/// num_cpu_p_node,mem_p_node`; further rows add further nodes on further switches. Alibaba's node lists have `sn,cpu_milli,memory_mib,gpu,model`.
pub fn parse_cluster_file(path: &Path) -> Result<ClusterSpec, ClusterError> {
    let source = source::open(path)?;
    let file = source.file.clone();
    let head = String::from_utf8_lossy(&source.head).into_owned();
    if head.trim_start_matches('\u{feff}').trim_start().starts_with(['[', '{']) {
        let failed = |error| SourceError::Read { file: file.clone(), line: 1, source: error };
        let text = io::read_to_string(source.into_lines().into_reader()).map_err(failed)?;
        return crius::parse(text.trim_start_matches('\u{feff}'), &file);
    }
    let header = head.trim_start_matches('\u{feff}').trim_start().lines().next().unwrap_or_default();
    let (schema, add_row) = kind_of(header.split(',').map(|name| name.trim().trim_matches('"')));
    let mut findings = Findings::first_error(&file);
    let failed = |line, source| SourceError::Read { file: file.clone(), line, source };
    let mut rows = CsvRows::new(source.into_lines(), Separator::Comma, schema, &mut findings)
        .map_err(|error| failed(1, error))?;
    let mut builder = Builder::default();
    let mut row = Row::default();
    while !findings.is_full() {
        match rows.read(&mut row, &mut findings).map_err(|error| failed(rows.line(), error))? {
            Step::End => break,
            Step::Bad => {}
            Step::Row => {
                let mut check = RowCheck::new(&row, schema, &mut findings);
                let _ = add_row(&mut builder, &mut check);
            }
        }
    }
    if builder.cluster.nodes.is_empty() && findings.is_clean() {
        findings.push(rows.line().max(1), None, Note::error(Rule::NoRows, "the file has no nodes"));
    }
    match findings.into_first_error() {
        Some(finding) => Err(ClusterError::Invalid(Box::new(finding))),
        None => Ok(builder.cluster),
    }
}

#[derive(Default)]
struct Builder {
    cluster: ClusterSpec,
    device_count: u64,
    switch_count: u32,
    /// From a node's name to its line.
    lines: HashMap<Arc<str>, u64>,
    device_types: Interner,
    pools: Interner,
}

impl Builder {
    fn add_node(&mut self, row: &mut RowCheck<'_>) -> Option<()> {
        const NAME: usize = 0;
        const DEVICE_TYPE: usize = 1;
        const DEVICES: usize = 2;
        const DEVICE_MEMORY: usize = 8;
        let name = row.name(NAME);
        let device_memory_gib = row.count(DEVICE_MEMORY).unwrap_or(0);
        let groups = self.device_groups(row, (DEVICE_TYPE, DEVICES), device_memory_gib.into());
        let cpus = row.count(3);
        let memory_gib = row.count(4);
        let switch = row.count(5).unwrap_or(0);
        let pool = row.text(6).unwrap_or_default();
        let resources = named(row, 7);
        let block = row.count(9).unwrap_or(0);
        let domain = row.count(10).unwrap_or(0);
        for (licence, count) in named(row, 11) {
            match self.cluster.licences.iter_mut().find(|(known, _)| *known == licence) {
                Some((_, sum)) => *sum += count,
                None => self.cluster.licences.push((licence, count)),
            }
        }
        let (name, groups) = (name?, groups?);
        let devices: u64 = groups.iter().map(|group| u64::from(group.count)).sum();
        self.add_devices(row, DEVICES, devices)?;
        let name = self.add_name(row, NAME, name);
        let device_memory_mib = u64::from(device_memory_gib) * 1024;
        let details = NodeDetails { host: None, device_memory_mib, resources, block, domain };
        let machine = Machine { groups, cpus, memory_gib, switch, pool: self.pools.get(pool), details };
        if let Err(problem) = machine.check() {
            row.error(DEVICE_TYPE, Note::error(Rule::TooManyDevices, problem.to_string()));
            return None;
        }
        self.cluster.nodes.extend(machine.nodes(&name));
        Some(())
    }

    /// The device groups of a row: a type and a number, or several types with their numbers, `+` between them.
    fn device_groups(
        &mut self,
        row: &mut RowCheck<'_>,
        (device_type, devices): (usize, usize),
        memory_gib: u64,
    ) -> Option<Vec<DeviceGroup>> {
        let is_mixed = row.raw(device_type).is_some_and(|text| text.contains(':'));
        if row.raw(device_type) == Some(NodeSpec::NO_DEVICES) && row.raw(devices) == Some("0") {
            return Some(Vec::new());
        }
        if !is_mixed {
            let (name, count) = (row.name(device_type), devices_per_node(row, devices));
            return Some(vec![DeviceGroup { device_type: self.device_types.get(name?), count: count? }]);
        }
        let text = row.name(device_type)?;
        let groups = match mixed::device_groups(text, memory_gib) {
            Ok(groups) => groups,
            Err(problem) => {
                row.error(device_type, Note::error(Rule::DevicePart, problem.to_string()));
                return None;
            }
        };
        let sum: u32 = groups.iter().fold(0, |sum, group| sum.saturating_add(group.count));
        let told = row.required_count(devices)?;
        if told != sum {
            let message = format!("found {told}, but `device_type` has {sum} devices");
            row.error(devices, Note::error(Rule::GangRange, message));
            return None;
        }
        Some(groups)
    }

    fn add_openb(&mut self, row: &mut RowCheck<'_>) -> Option<()> {
        const NAME: usize = 0;
        const DEVICES: usize = 3;
        let name = row.name(NAME);
        let cpus = whole(row, 1, 1000, "whole CPUs");
        let memory_gib = whole(row, 2, 1024, "whole GiB");
        let groups = match row.raw(DEVICES) {
            Some("0") => Some(Vec::new()),
            _ => {
                let (count, name) = (devices_per_node(row, DEVICES), row.name(4));
                count.zip(name).map(|(count, name)| {
                    vec![DeviceGroup { device_type: self.device_types.get(name), count }]
                })
            }
        };
        let (name, groups) = (name?, groups?);
        self.add_devices(row, DEVICES, groups.iter().map(|group| u64::from(group.count)).sum())?;
        let name = self.add_name(row, NAME, name);
        let machine =
            Machine { groups, cpus: Some(cpus?), memory_gib: Some(memory_gib?), ..Machine::default() };
        self.cluster.nodes.extend(machine.nodes(&name));
        Some(())
    }

    /// A node's name, which no other has.
    fn add_name(&mut self, row: &mut RowCheck<'_>, column: usize, name: &str) -> Arc<str> {
        let name: Arc<str> = name.into();
        if let Some(line) = self.lines.insert(name.clone(), row.row.line) {
            let message = format!("node {} is duplicated, first on line {line}", shown(&name));
            row.error(column, Note::error(Rule::DuplicateNode, message).hint("give each node its own name"));
        }
        name
    }

    fn add_group(&mut self, row: &mut RowCheck<'_>) -> Option<()> {
        const NODES: usize = 1;
        let switches = positive_count(row, 0);
        let nodes = positive_count(row, NODES);
        let devices = devices_per_node(row, 2);
        let cpus = row.required_count(3);
        let memory_gib = row.required_count(4);
        let (switches, nodes, devices) = (switches?, nodes?, devices?);
        let node_count = u64::from(switches) * u64::from(nodes);
        self.add_devices(row, NODES, node_count.saturating_mul(devices.into()))?;
        let device_type = self.device_types.get(DEVICE_TYPE);
        for index in 0..node_count {
            self.cluster.nodes.push(NodeSpec {
                name: format!("{device_type}-{}", self.cluster.nodes.len()).into(),
                device_type: device_type.clone(),
                devices,
                cpus: cpus?,
                memory_gib: memory_gib?,
                switch: self.switch_count + (index / u64::from(nodes)) as u32,
                pool: NodeSpec::no_pool(),
                details: None,
            });
        }
        self.switch_count += switches;
        Some(())
    }

    fn add_devices(&mut self, row: &mut RowCheck<'_>, column: usize, count: u64) -> Option<()> {
        self.device_count = self.device_count.saturating_add(count);
        if self.device_count <= DEVICES_MAX.into() {
            return Some(());
        }
        let message =
            format!("the cluster has {} devices up to here, the limit is {DEVICES_MAX}", self.device_count);
        row.error(column, Note::error(Rule::TooManyDevices, message));
        None
    }
}

/// Named counts: `name:count` with `;` between them; a name alone is one.
fn named(row: &mut RowCheck<'_>, column: usize) -> Vec<(Arc<str>, u64)> {
    let Some(text) = row.list(column) else { return Vec::new() };
    let mut counts = Vec::new();
    for item in text.split(';') {
        let (name, count) = item.trim().split_once(':').unwrap_or((item.trim(), "1"));
        match count.parse::<u64>() {
            Ok(count) if count > 0 && !name.is_empty() => counts.push((name.into(), count)),
            _ => {
                let message = format!("found {}, expected NAME:COUNT", shown(item));
                row.error(column, Note::error(Rule::NotAnInteger, message));
            }
        }
    }
    counts
}

/// A count in a smaller unit, `per_unit` of which make one.
fn whole(row: &mut RowCheck<'_>, column: usize, per_unit: u32, unit: &str) -> Option<u32> {
    let count = row.required_count(column)?;
    if count % per_unit != 0 {
        let message = format!("found {count}, expected {unit}: a multiple of {per_unit}");
        row.error(column, Note::error(Rule::NotAnInteger, message));
        return None;
    }
    Some(count / per_unit)
}

fn positive_count(row: &mut RowCheck<'_>, column: usize) -> Option<u32> {
    let count = row.required_count(column)?;
    if count == 0 {
        row.error(column, Note::error(Rule::ZeroCount, "found 0, expected at least 1"));
        return None;
    }
    Some(count)
}

fn devices_per_node(row: &mut RowCheck<'_>, column: usize) -> Option<u32> {
    let devices = positive_count(row, column)?;
    if devices > DEVICES_PER_NODE_MAX {
        let message = format!("found {devices}, a node has at most {DEVICES_PER_NODE_MAX} devices");
        row.error(column, Note::error(Rule::TooManyDevices, message).hint("split it into several nodes"));
        return None;
    }
    Some(devices)
}

/// Writes a cluster as Wharf's own CSV. Columns that no node needs are left out.
pub fn write_cluster(cluster: &ClusterSpec, out: &mut dyn Write) -> io::Result<()> {
    const REQUIRED: usize = 6;
    let mut out = BufWriter::new(out);
    let rows: Vec<Vec<String>> =
        machines(cluster).enumerate().map(|(index, nodes)| cells(cluster, index, nodes)).collect();
    let is_used = |column: &usize| *column < REQUIRED || rows.iter().any(|row| !row[*column].is_empty());
    let columns: Vec<usize> = (0..NATIVE.columns.len()).filter(is_used).collect();
    let names: Vec<_> = columns.iter().map(|&column| NATIVE.columns[column].name).collect();
    writeln!(out, "{}", names.join(","))?;
    for row in &rows {
        for (place, &column) in columns.iter().enumerate() {
            if place > 0 {
                out.write_all(b",")?;
            }
            write_text(&mut out, &row[column])?;
        }
        writeln!(out)?;
    }
    out.flush()
}

/// The nodes of each machine.
fn machines(cluster: &ClusterSpec) -> impl Iterator<Item = &[NodeSpec]> {
    cluster.nodes.chunk_by(|before, node| {
        let host = node.details.as_deref().and_then(|details| details.host.as_deref());
        host.is_some_and(|host| host == before.machine())
    })
}

/// A machine's row. The first has the licences of the cluster.
fn cells(cluster: &ClusterSpec, index: usize, nodes: &[NodeSpec]) -> Vec<String> {
    let plain = NodeDetails::default();
    let first = &nodes[0];
    let details = first.details.as_deref().unwrap_or(&plain);
    let devices: u32 = nodes.iter().map(|node| node.devices).sum();
    let groups: Vec<String> =
        nodes.iter().map(|node| format!("{}:{}", node.device_type, node.devices)).collect();
    let counts = |counts: &[(Arc<str>, u64)]| {
        counts.iter().map(|(name, count)| format!("{name}:{count}")).collect::<Vec<_>>().join(";")
    };
    let number = |count: u64| if count == 0 { String::new() } else { count.to_string() };
    vec![
        first.name.to_string(),
        if nodes.len() == 1 { first.device_type.to_string() } else { groups.join("+") },
        devices.to_string(),
        first.cpus.to_string(),
        first.memory_gib.to_string(),
        first.switch.to_string(),
        first.pool.to_string(),
        counts(&details.resources),
        number(details.device_memory_mib / 1024),
        number(details.block.into()),
        number(details.domain.into()),
        if index == 0 { counts(&cluster.licences) } else { String::new() },
    ]
}
