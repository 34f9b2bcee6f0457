//! What people ask about nodes.

use serde::Serialize;
use wharf_proto::change_node_request::Change;
use wharf_proto::{ChangeNodeRequest, NodeSummary, node_summary};

use super::connect::with;
use crate::args::{NodeArgs, NodeChangeArgs, NodeCommand, NodesArgs, OutputFormat};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// A node as JSON.
#[derive(Serialize)]
struct NodeRow {
    name: String,
    health: &'static str,
    reason: String,
    device_type: String,
    devices: u32,
    free: u32,
    job_ids: Vec<u32>,
    pool: String,
    address: String,
    cpus: u32,
    memory_gib: u32,
    switch: u32,
    version: String,
    disk: Option<DiskRow>,
    device: Vec<DeviceRow>,
}

/// The file system of a worker's state directory as JSON.
#[derive(Serialize)]
struct DiskRow {
    path: String,
    total_bytes: u64,
    available_bytes: u64,
}

/// A device as JSON; what its worker cannot tell is null.
#[derive(Serialize)]
struct DeviceRow {
    index: u32,
    uuid: String,
    model: String,
    problem: String,
    memory_mib: u64,
    memory_used_mib: Option<u64>,
    utilisation: Option<f64>,
    temperature_c: Option<f64>,
}

impl From<NodeSummary> for NodeRow {
    fn from(node: NodeSummary) -> Self {
        let device = |device: wharf_proto::Device| DeviceRow {
            index: device.index,
            uuid: device.uuid,
            model: device.model,
            problem: device.problem,
            memory_mib: device.memory_mib,
            memory_used_mib: device.memory_used_mib,
            utilisation: device.utilisation,
            temperature_c: device.temperature_c,
        };
        let disk = |disk: wharf_proto::Disk| DiskRow {
            path: disk.path,
            total_bytes: disk.total_bytes,
            available_bytes: disk.available_bytes,
        };
        Self {
            health: health_name(&node),
            disk: node.disk.map(disk),
            device: node.device.into_iter().map(device).collect(),
            name: node.name,
            reason: node.reason,
            device_type: node.device_type,
            devices: node.devices,
            free: node.free,
            job_ids: node.job_ids,
            pool: node.pool,
            address: node.address,
            cpus: node.cpus,
            memory_gib: node.memory_gib,
            switch: node.switch,
            version: node.version,
        }
    }
}

impl NodeRow {
    /// What is available on its disk; empty where that is not known.
    fn disk(&self) -> String {
        const GIB: f64 = (1 << 30) as f64;
        let available = |disk: &DiskRow| format!("{:.1} GiB free", disk.available_bytes as f64 / GIB);
        self.disk.as_ref().map(available).unwrap_or_default()
    }

    fn jobs(&self) -> String {
        self.job_ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }
}

/// A node's health in a word.
pub(super) fn health_name(node: &NodeSummary) -> &'static str {
    match node.health() {
        node_summary::Health::Up => "up",
        node_summary::Health::Cordoned => "cordoned",
        node_summary::Health::Draining => "draining",
        node_summary::Health::Lost => "lost",
        node_summary::Health::Gone => "gone",
    }
}

/// Lists nodes.
pub(in crate::commands) fn nodes(args: &NodesArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let (nodes, alerts) = with(&args.home, async |client| {
        let nodes = if args.all { client.list_all_nodes().await? } else { client.list_nodes().await? };
        Ok((nodes, client.info().await?.alerts))
    })?;
    for alert in &alerts {
        terminal.warn(&alert.text);
    }
    let rows: Vec<NodeRow> = nodes.into_iter().map(NodeRow::from).collect();
    if terminal.format == OutputFormat::Json {
        let alerts: Vec<&str> = alerts.iter().map(|alert| alert.text.as_str()).collect();
        terminal.json(&serde_json::json!({ "schema": 1, "nodes": rows, "alerts": alerts }))?;
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new(["node", "health", "type", "devices", "free", "jobs", "pool", "disk", "reason"]);
    for row in &rows {
        let (devices, free, jobs, disk) =
            (row.devices.to_string(), row.free.to_string(), row.jobs(), row.disk());
        let (name, kind, pool) = (&row.name, &row.device_type, &row.pool);
        grid.push([name, row.health, kind, &devices, &free, &jobs, pool, &disk, &row.reason]);
    }
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}

/// Shows one node, or changes it.
pub(in crate::commands) fn node(args: &NodeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    match &args.command {
        None => show(args, terminal),
        Some(NodeCommand::Cordon(args)) => change(args, Change::Cordon, terminal),
        Some(NodeCommand::Drain(args)) => change(args, Change::Drain, terminal),
        Some(NodeCommand::Resume(args)) => change(args, Change::Resume, terminal),
        Some(NodeCommand::Remove(args)) => change(args, Change::Remove, terminal),
    }
}

fn change(args: &NodeChangeArgs, change: Change, terminal: &Terminal) -> Result<Exit, CliError> {
    let request =
        ChangeNodeRequest { node: args.name.clone(), change: change.into(), reason: args.reason.clone() };
    with(&args.home, async |client| Ok(client.change_node(request).await?))?;
    let done = match change {
        Change::Cordon => "no new jobs start on it",
        Change::Drain => "no new jobs start on it, and those that run leave",
        Change::Resume => "jobs may start on it",
        Change::Remove => "it is not expected back; its jobs are requeued",
    };
    terminal.note(&format!("node `{}`: {done}", args.name));
    Ok(Exit::Ok)
}

fn show(args: &NodeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let name = args.name.as_deref().unwrap_or_default();
    let nodes = with(&args.home, async |client| Ok(client.list_all_nodes().await?))?;
    let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let found = nodes.into_iter().find(|node| node.name == name);
    let row = NodeRow::from(found.ok_or_else(|| {
        let unknown = CliError::usage(format!("there is no node `{name}`"));
        unknown.hint_nearest(name, names.iter().map(String::as_str)).hint("`wharf nodes` lists them all")
    })?);
    let document = serde_json::json!({ "schema": 1, "node": row });
    match terminal.format {
        OutputFormat::Json => terminal.json(&document)?,
        OutputFormat::Plain | OutputFormat::Csv => terminal.fields(&document)?,
        OutputFormat::Table => table(&row, terminal)?,
    }
    Ok(Exit::Ok)
}

/// The node's facts, and below them its devices.
fn table(row: &NodeRow, terminal: &Terminal) -> Result<(), CliError> {
    let known = |number: u32, unit: &str| if number == 0 { String::new() } else { format!("{number}{unit}") };
    let fields = [
        ("node", row.name.clone()),
        ("health", row.health.to_owned()),
        ("reason", row.reason.clone()),
        ("devices", format!("{} × {}, {} free", row.devices, row.device_type, row.free)),
        ("jobs", row.jobs()),
        ("pool", row.pool.clone()),
        ("address", row.address.clone()),
        ("processors", known(row.cpus, "")),
        ("memory", known(row.memory_gib, " GiB")),
        ("disk", row.disk()),
        ("version", row.version.clone()),
    ];
    let mut grid = Grid::new(["field", "value"]);
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        grid.push([name, value]);
    }
    terminal.grid(&grid)?;
    if row.device.is_empty() {
        return Ok(());
    }
    let mut grid = Grid::new(["device", "model", "health", "use", "memory MiB", "°C"]);
    for device in &row.device {
        let health = if device.problem.is_empty() { "well" } else { &device.problem };
        let used = device.utilisation.map(wharf_report::human::percent).unwrap_or_default();
        let memory = match device.memory_used_mib {
            Some(used) => format!("{used}/{}", device.memory_mib),
            None if device.memory_mib > 0 => device.memory_mib.to_string(),
            None => String::new(),
        };
        let warm = device.temperature_c.map(|degrees| format!("{degrees:.0}")).unwrap_or_default();
        grid.push([&device.index.to_string(), &device.model, health, &used, &memory, &warm]);
    }
    terminal.data("\n")?;
    terminal.grid(&grid)
}
