//! `wharf sinfo`

use crate::grammar::getopt::{self, Opt, Order, Parsed, Takes};
use crate::grammar::layout::Layout;
use crate::grammar::shape::PARTITION;
use crate::grammar::sinfo::{self, Node};
use crate::grammar::{hostlist, squeue};

use serde_json::json;

use super::{CommandError, Context, accounting_json, view};

use Takes::{Nothing, Value};

const OPTIONS: &[Opt] = &[
    Opt::new("Format", 'O', Value),
    Opt::new("Node", 'N', Nothing),
    Opt::new("all", 'a', Nothing),
    Opt::new("exact", 'e', Nothing),
    Opt::new("format", 'o', Value),
    Opt::new("json", ' ', Nothing),
    Opt::new("list-reasons", 'R', Nothing),
    Opt::new("long", 'l', Nothing),
    Opt::new("nodes", 'n', Value),
    Opt::new("noheader", 'h', Nothing),
    Opt::new("partition", 'p', Value),
    Opt::new("responding", 'r', Nothing),
    Opt::new("sort", 'S', Value),
    Opt::new("states", 't', Value),
    Opt::new("summarize", 's', Nothing),
    Opt::new("verbose", 'v', Nothing),
    Opt::new("version", 'V', Nothing),
];

pub(super) async fn execute(context: &Context, words: &[String]) -> Result<u8, CommandError> {
    let parsed = getopt::parse(OPTIONS, words, Order::Anywhere)?;
    let nodes = context.connect().await?.list_nodes().await?;
    let mut nodes: Vec<Node> = nodes.iter().filter(|node| view::is_there(node)).map(view::node).collect();
    if let Some(names) = parsed.value("nodes") {
        let names = hostlist::expand(names)?;
        nodes.retain(|node| names.contains(&node.name));
    }
    if let Some(partitions) = parsed.value("partition") {
        nodes.retain(|node| partitions.split(',').any(|name| name == node.partition));
    }
    if let Some(states) = parsed.value("states") {
        let is_it = |node: &Node, name: &str| {
            let (short, long) = node.state.names();
            [short, long]
                .iter()
                .any(|known| known.trim_end_matches('*').eq_ignore_ascii_case(name.trim_end_matches('*')))
        };
        nodes.retain(|node| states.split(',').any(|name| is_it(node, name)));
    }
    if parsed.has("list-reasons") {
        nodes.retain(|node| !node.reason.is_empty());
    }
    nodes.sort_by(|left, right| {
        (&left.partition, left.state, &left.name).cmp(&(&right.partition, right.state, &right.name))
    });
    if parsed.has("json") {
        context.print(&[document(&nodes).to_string()])?;
        return Ok(0);
    }
    let layout = match parsed.value("Format") {
        Some(names) => Layout::of_names(sinfo::NAMES, names).map_err(|unknown| {
            CommandError::failed(format!("Invalid node format specification: {unknown}"))
        })?,
        None => Layout::parse(&format(&parsed)),
    };
    context.print(&lines(&nodes, &layout, parsed.has("Node"), parsed.has("noheader")))?;
    Ok(0)
}

fn format(parsed: &Parsed) -> String {
    let usual = || {
        if parsed.has("list-reasons") {
            squeue::SINFO_REASONS
        } else if parsed.has("summarize") {
            squeue::SINFO_SUMMARY
        } else if parsed.has("Node") {
            squeue::SINFO_NODES
        } else if parsed.has("long") {
            squeue::SINFO_LONG
        } else {
            squeue::SINFO
        }
    };
    parsed.value("format").unwrap_or_else(usual).to_owned()
}

/// The document of `--json`, in the shape of Slurm's v0.0.38.
fn document(nodes: &[Node]) -> serde_json::Value {
    let one = |node: &Node| {
        let (cpus, used) = node.cpus;
        let state = node.state.names().1.trim_end_matches('*');
        json!({
            "name": node.name,
            "hostname": node.name,
            "address": node.address,
            "state": state,
            "partitions": [node.partition],
            "cpus": cpus,
            "alloc_cpus": used,
            "idle_cpus": cpus.saturating_sub(used),
            "real_memory": node.memory_mib,
            "gres": node.gres,
            "features": node.features,
            "active_features": node.features,
            "reason": node.reason,
            "tres": format!("cpu={cpus},mem={}M,billing={cpus}", node.memory_mib),
        })
    };
    let nodes: Vec<serde_json::Value> = nodes.iter().map(one).collect();
    json!({ "meta": accounting_json::meta(), "errors": [], "nodes": nodes })
}

/// The table.
fn lines(nodes: &[Node], layout: &Layout, is_each: bool, is_bare: bool) -> Vec<String> {
    let letters: Vec<char> = layout.letters().collect();
    let groups = sinfo::groups(nodes, &letters, PARTITION, is_each);
    let rows: Vec<Vec<String>> =
        groups.iter().map(|group| letters.iter().map(|letter| group.field(*letter)).collect()).collect();
    let titles: Vec<String> = letters.iter().map(|letter| sinfo::title(*letter).to_owned()).collect();
    layout.lines((!is_bare).then_some(&titles), &rows)
}
