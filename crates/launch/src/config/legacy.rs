//! Keys of older files, turned into today's: what is changed is warned of, so that the file can be brought up to date.

use wharf_document::decode::Problem;
use wharf_document::node::{Entry, Node, Place, Value};

use super::Findings;

/// What the node types are called that old files' sections become.
const HEAD_TYPE: &str = "head";
const WORKER_TYPE: &str = "worker";

/// Keys that today's Ray refuses and that never meant anything here.
const GONE: [(&str, &str); 2] = [
    ("autoscaling_mode", "the launcher starts all workers at once"),
    ("target_utilization_fraction", "the launcher starts all workers at once"),
];

/// Changes a document of an older version into one of today's.
pub(super) fn convert(document: &mut Node, findings: &mut Findings) {
    let Value::Map(entries) = &mut document.value else { return };
    for (key, why) in GONE {
        if let Some(entry) = remove(entries, key) {
            warn(findings, &entry, format!("it is ignored: {why}"));
        }
    }
    initial_workers(entries, findings);
    docker_pull(entries, findings);
    let head = section(entries, "head_node", findings);
    let workers = section(entries, "worker_nodes", findings);
    if head.is_none() && workers.is_none() {
        return;
    }
    let count = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| entry.value.clone());
    let (min, max) = (count("min_workers"), count("max_workers"));
    let place = head.as_ref().or(workers.as_ref()).map(|entry| entry.place).unwrap_or_default();
    let head_type = node_type(HEAD_TYPE, place, head, vec![]);
    let counts = [("min_workers", min), ("max_workers", max)];
    let counts = counts.into_iter().filter_map(|(key, value)| Some(entry(place, key, value?.value)));
    let worker_type = node_type(WORKER_TYPE, place, workers, counts.collect());
    entries.push(entry(place, "available_node_types", Value::Map(vec![head_type, worker_type])));
    entries.push(entry(place, "head_node_type", Value::Text(HEAD_TYPE.to_owned())));
}

fn warn(findings: &mut Findings, entry: &Entry, message: String) {
    findings.warnings.push(Problem { place: entry.place, field: entry.key.clone(), message, hint: None });
}

fn remove(entries: &mut Vec<Entry>, key: &str) -> Option<Entry> {
    let index = entries.iter().position(|entry| entry.key == key)?;
    Some(entries.remove(index))
}

fn entry(place: Place, key: &str, value: Value) -> Entry {
    Entry { place, key: key.to_owned(), value: Node { place, value } }
}

/// `initial_workers` is how many there should be at first, and nobody takes any away here.
fn initial_workers(entries: &mut Vec<Entry>, findings: &mut Findings) {
    let Some(initial) = remove(entries, "initial_workers") else { return };
    let number = |node: &Node| match &node.value {
        Value::Number(text) => text.parse::<u32>().ok(),
        _ => None,
    };
    let Some(wanted) = number(&initial.value) else {
        findings.problems.push(Problem::expected(&initial.value, &initial.key, "a whole number from 0 on"));
        return;
    };
    warn(findings, &initial, "it is an old key: `min_workers` is as large now".to_owned());
    match entries.iter_mut().find(|entry| entry.key == "min_workers") {
        Some(min) if number(&min.value).is_some_and(|min| min < wanted) => min.value = initial.value,
        Some(_) => {}
        None => entries.push(Entry { key: "min_workers".to_owned(), ..initial }),
    }
}

/// `docker.pull` is `pull_before_run` now.
fn docker_pull(entries: &mut [Entry], findings: &mut Findings) {
    let docker = entries.iter_mut().find(|entry| entry.key == "docker");
    let Some(Value::Map(docker)) = docker.map(|entry| &mut entry.value.value) else { return };
    let Some(mut pull) = remove(docker, "pull") else { return };
    pull.key = "docker.pull".to_owned();
    warn(findings, &pull, "it is an old key: it became `pull_before_run`".to_owned());
    if !docker.iter().any(|entry| entry.key == "pull_before_run") {
        docker.push(Entry { key: "pull_before_run".to_owned(), ..pull });
    }
}

/// An old section; an empty one is dropped.
fn section(entries: &mut Vec<Entry>, key: &str, findings: &mut Findings) -> Option<Entry> {
    let entry = remove(entries, key)?;
    match &entry.value.value {
        Value::Null => {}
        Value::Map(inner) if inner.is_empty() => {}
        Value::Map(_) => {
            let become_type = if key == "head_node" { HEAD_TYPE } else { WORKER_TYPE };
            warn(
                findings,
                &entry,
                format!("it is an old key: it became `available_node_types.{become_type}`"),
            );
            return Some(entry);
        }
        _ => findings.problems.push(Problem::expected(&entry.value, key, "a map of keys")),
    }
    warn(findings, &entry, "it is an old key and empty: it is ignored".to_owned());
    None
}

/// A node type from an old section, whose resources stood within.
fn node_type(name: &str, place: Place, section: Option<Entry>, mut fields: Vec<Entry>) -> Entry {
    let mut config = match section.map(|section| section.value.value) {
        Some(Value::Map(entries)) => entries,
        _ => vec![],
    };
    fields.extend(remove(&mut config, "resources"));
    fields.push(entry(place, "node_config", Value::Map(config)));
    entry(place, name, Value::Map(fields))
}
