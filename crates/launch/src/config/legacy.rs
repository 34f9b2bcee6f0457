//! Keys of older files, turned into today's: what is changed is warned of, so that the file can be brought up to date.

use wharf_document::decode::Problem;
use wharf_document::node::{Entry, Node, Place, Value};

use super::Findings;

/// What the node types are called that old files' sections become.
const HEAD_TYPE: &str = "head";
const WORKER_TYPE: &str = "worker";

/// Keys that today's Ray refuses and that never meant anything here.
const GONE: [(&str, &str); 3] = [
    ("autoscaling_mode", "the launcher starts all workers at once"),
    ("target_utilization_fraction", "the launcher starts all workers at once"),
    ("worker_default_node_type", "the launcher starts as many workers of each type as its `min_workers`"),
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
    instance_types(entries, findings);
    let has_types = entries.iter().any(
        |entry| matches!(&entry.value.value, Value::Map(types) if entry.key == "available_node_types" && !types.is_empty()),
    );
    let head = section(entries, "head_node", has_types, findings);
    let workers = section(entries, "worker_nodes", has_types, findings);
    if head.is_none() && workers.is_none() {
        return;
    }
    if has_types {
        return fill_types(entries, head, workers);
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

/// `initial_workers` is the initial number, which is never reduced here.
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

/// `InstanceType: auto` of workers is the default among `provider.available_instance_types`.
fn instance_types(entries: &mut [Entry], findings: &mut Findings) {
    let provider = entries.iter_mut().find(|entry| entry.key == "provider");
    let Some(Value::Map(provider)) = provider.map(|entry| &mut entry.value.value) else { return };
    let Some(mut types) = remove(provider, "available_instance_types") else { return };
    types.key = "provider.available_instance_types".to_owned();
    let of_map = |node: &Node| if let Value::Map(entries) = &node.value { entries.clone() } else { vec![] };
    let is_default = |entry: &&Entry| {
        of_map(&entry.value)
            .iter()
            .any(|field| field.key == "default" && field.value.value == Value::Bool(true))
    };
    let default = of_map(&types.value).iter().find(is_default).map(|entry| entry.key.clone());
    let workers = entries.iter_mut().find(|entry| entry.key == "worker_nodes");
    let workers = workers.and_then(|entry| match &mut entry.value.value {
        Value::Map(fields) => fields.iter_mut().find(|field| field.key == "InstanceType"),
        _ => None,
    });
    let auto = workers.filter(|field| field.value.value == Value::Text("auto".to_owned()));
    match (auto, default) {
        (Some(field), Some(default)) => {
            warn(
                findings,
                &types,
                format!("it is an old key: workers are machines of its default type, `{default}`"),
            );
            field.value.value = Value::Text(default);
        }
        (Some(field), None) => {
            let message = "`auto` is none of the cloud's types, and `provider.available_instance_types` names no default";
            let hint = Some("write the type of the machines in its place".to_owned());
            let problem = Problem::new(&field.value, "worker_nodes.InstanceType", message);
            findings.problems.push(Problem { hint, ..problem });
        }
        (None, _) => {
            warn(findings, &types, "it is ignored: the launcher starts all workers at once".to_owned())
        }
    }
}

/// Old sections beside node types are defaults of those: fields that a type does not have itself.
fn fill_types(entries: &mut [Entry], head: Option<Entry>, workers: Option<Entry>) {
    let text = |entry: &Entry| match &entry.value.value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    };
    let head_type = entries.iter().find(|entry| entry.key == "head_node_type").and_then(text);
    let head_type = head_type.unwrap_or_else(|| super::machines::HEAD_TYPE.to_owned());
    let types = entries.iter_mut().filter(|entry| entry.key == "available_node_types");
    let types = types.filter_map(|entry| match &mut entry.value.value {
        Value::Map(types) => Some(types),
        _ => None,
    });
    for node_type in types.flatten() {
        let defaults = if node_type.key == head_type { &head } else { &workers };
        let (Some(defaults), Value::Map(fields)) = (defaults, &mut node_type.value.value) else { continue };
        let Value::Map(defaults) = &defaults.value.value else { continue };
        if !fields.iter().any(|field| field.key == "node_config") {
            fields.push(entry(node_type.place, "node_config", Value::Map(vec![])));
        }
        let config = fields.iter_mut().find(|field| field.key == "node_config");
        let Some(Value::Map(config)) = config.map(|field| &mut field.value.value) else { continue };
        let missing = defaults.iter().filter(|default| !config.iter().any(|field| field.key == default.key));
        let missing: Vec<Entry> = missing.cloned().collect();
        config.extend(missing);
    }
}

/// An old section; an empty one is dropped.
fn section(entries: &mut Vec<Entry>, key: &str, has_types: bool, findings: &mut Findings) -> Option<Entry> {
    let entry = remove(entries, key)?;
    match &entry.value.value {
        Value::Null => {}
        Value::Map(inner) if inner.is_empty() => {}
        Value::Map(_) => {
            let message = match (has_types, key) {
                (true, "head_node") => {
                    "it is an old key: it fills in `node_config` of the head's type".to_owned()
                }
                (true, _) => "it is an old key: it fills in `node_config` of the workers' types".to_owned(),
                (false, "head_node") => {
                    format!("it is an old key: it became `available_node_types.{HEAD_TYPE}`")
                }
                (false, _) => format!("it is an old key: it became `available_node_types.{WORKER_TYPE}`"),
            };
            warn(findings, &entry, message);
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
