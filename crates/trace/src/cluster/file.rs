//! Cluster files: Wharf's own CSV with a row for each node, the node lists of Alibaba's GPU log of 2023, and the specs of the Muri and
//! Crius simulators.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use wharf_core::{ClusterSpec, DEVICES_PER_NODE_MAX, NodeSpec};

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
        const DEVICES: usize = 2;
        let name = row.name(NAME);
        let device_type = row.name(1);
        let devices = devices_per_node(row, DEVICES);
        let cpus = row.count(3);
        let memory_gib = row.count(4);
        let switch = row.count(5).unwrap_or(0);
        let pool = row.text(6).unwrap_or_default();
        let (name, devices) = (name?, devices?);
        self.add_devices(row, DEVICES, u64::from(devices))?;
        let name = self.add_name(row, NAME, name);
        self.cluster.nodes.push(NodeSpec {
            name,
            device_type: self.device_types.get(device_type?),
            devices,
            cpus: cpus.unwrap_or(NodeSpec::CPUS_PER_DEVICE * devices),
            memory_gib: memory_gib.unwrap_or(NodeSpec::MEMORY_GIB_PER_DEVICE * devices),
            switch,
            pool: self.pools.get(pool),
        });
        Some(())
    }

    fn add_openb(&mut self, row: &mut RowCheck<'_>) -> Option<()> {
        const NAME: usize = 0;
        const DEVICES: usize = 3;
        let name = row.name(NAME);
        let cpus = whole(row, 1, 1000, "whole CPUs");
        let memory_gib = whole(row, 2, 1024, "whole GiB");
        let devices = devices_per_node(row, DEVICES);
        let device_type = row.name(4);
        let (name, devices) = (name?, devices?);
        self.add_devices(row, DEVICES, u64::from(devices))?;
        let name = self.add_name(row, NAME, name);
        self.cluster.nodes.push(NodeSpec {
            name,
            device_type: self.device_types.get(device_type?),
            devices,
            cpus: cpus?,
            memory_gib: memory_gib?,
            switch: 0,
            pool: NodeSpec::no_pool(),
        });
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

/// Writes a cluster as Wharf's own CSV.
pub fn write_cluster(cluster: &ClusterSpec, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let has_pools = cluster.has_pools();
    let width = NATIVE.columns.len() - usize::from(!has_pools);
    let names: Vec<_> = NATIVE.columns[..width].iter().map(|column| column.name).collect();
    writeln!(out, "{}", names.join(","))?;
    for node in &cluster.nodes {
        write_text(&mut out, &node.name)?;
        out.write_all(b",")?;
        write_text(&mut out, &node.device_type)?;
        write!(out, ",{},{},{},{}", node.devices, node.cpus, node.memory_gib, node.switch)?;
        if has_pools {
            out.write_all(b",")?;
            write_text(&mut out, &node.pool)?;
        }
        writeln!(out)?;
    }
    out.flush()
}
