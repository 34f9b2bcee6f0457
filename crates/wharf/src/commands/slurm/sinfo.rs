//! `wharf sinfo`

use wharf_slurm::getopt::{self, Opt, Order, Parsed, Takes};
use wharf_slurm::layout::Layout;
use wharf_slurm::shape::PARTITION;
use wharf_slurm::sinfo::{self, Node};
use wharf_slurm::{hostlist, squeue};

use super::{Fail, print, view, with};
use crate::args::HomeArgs;

use Takes::{Nothing, Value};

const OPTIONS: &[Opt] = &[
    Opt::new("Node", 'N', Nothing),
    Opt::new("all", 'a', Nothing),
    Opt::new("exact", 'e', Nothing),
    Opt::new("format", 'o', Value),
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

pub(super) fn execute(home: &HomeArgs, words: &[String]) -> Result<u8, Fail> {
    let parsed = getopt::parse(OPTIONS, words, Order::Anywhere)?;
    let nodes = with(home, async |client| Ok(client.list_nodes().await?))?;
    let mut nodes: Vec<Node> = nodes.iter().filter(|node| view::is_there(node)).map(view::node).collect();
    let value = |name: &str| parsed.given.iter().rev().find(|given| given.name == name)?.value.as_deref();
    let has = |name: &str| parsed.given.iter().any(|given| given.name == name);
    if let Some(names) = value("nodes") {
        let names = hostlist::expand(names).map_err(|error| Fail::failed(error.to_string()))?;
        nodes.retain(|node| names.contains(&node.name));
    }
    if let Some(partitions) = value("partition") {
        nodes.retain(|node| partitions.split(',').any(|name| name == node.partition));
    }
    if let Some(states) = value("states") {
        let is_it = |node: &Node, name: &str| {
            let (short, long) = node.state.names();
            [short, long]
                .iter()
                .any(|known| known.trim_end_matches('*').eq_ignore_ascii_case(name.trim_end_matches('*')))
        };
        nodes.retain(|node| states.split(',').any(|name| is_it(node, name)));
    }
    if has("list-reasons") {
        nodes.retain(|node| !node.reason.is_empty());
    }
    nodes.sort_by(|left, right| {
        (&left.partition, left.state, &left.name).cmp(&(&right.partition, right.state, &right.name))
    });
    print(&lines(&nodes, &format(&parsed), has("Node"), has("noheader")))?;
    Ok(0)
}

fn format(parsed: &Parsed) -> String {
    let has = |name: &str| parsed.given.iter().any(|given| given.name == name);
    let given =
        parsed.given.iter().rev().find(|given| given.name == "format").and_then(|given| given.value.clone());
    given.unwrap_or_else(|| {
        let usual = if has("list-reasons") {
            squeue::SINFO_REASONS
        } else if has("summarize") {
            squeue::SINFO_SUMMARY
        } else if has("Node") {
            squeue::SINFO_NODES
        } else if has("long") {
            squeue::SINFO_LONG
        } else {
            squeue::SINFO
        };
        usual.to_owned()
    })
}

/// The table.
fn lines(nodes: &[Node], format: &str, is_each: bool, is_bare: bool) -> Vec<String> {
    let layout = Layout::parse(format);
    let letters: Vec<char> = layout.letters().collect();
    let groups = sinfo::groups(nodes, &letters, PARTITION, is_each);
    let rows: Vec<Vec<String>> =
        groups.iter().map(|group| letters.iter().map(|letter| group.field(*letter)).collect()).collect();
    let titles: Vec<String> = letters.iter().map(|letter| sinfo::title(*letter).to_owned()).collect();
    layout.lines((!is_bare).then_some(&titles), &rows)
}
