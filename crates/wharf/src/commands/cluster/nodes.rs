//! What people ask about nodes.

use wharf_proto::node_summary;

use super::client::with;
use crate::args::{NodesArgs, OutputFormat};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Lists nodes.
pub(in crate::commands) fn nodes(args: &NodesArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let nodes = with(&args.home, async |client| Ok(client.list_nodes().await?))?;
    let health = |node: &wharf_proto::NodeSummary| match node.health() {
        node_summary::Health::Up => "up",
        node_summary::Health::Cordoned => "cordoned",
        node_summary::Health::Draining => "draining",
        node_summary::Health::Lost => "lost",
    };
    if terminal.format == OutputFormat::Json {
        let rows: Vec<_> = nodes
            .iter()
            .map(|node| {
                serde_json::json!({
                    "name": node.name, "health": health(node), "device_type": node.device_type,
                    "devices": node.devices, "free": node.free, "job_ids": node.job_ids,
                })
            })
            .collect();
        terminal.json(&serde_json::json!({ "schema": 1, "nodes": rows }))?;
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new(["node", "health", "type", "devices", "free", "jobs"]);
    for node in &nodes {
        let jobs: Vec<String> = node.job_ids.iter().map(u32::to_string).collect();
        let (devices, free) = (node.devices.to_string(), node.free.to_string());
        grid.push([&node.name, health(node), &node.device_type, &devices, &free, &jobs.join(",")]);
    }
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}
