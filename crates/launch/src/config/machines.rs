//! Machines that a provider makes: what the file says of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value as Json;
use wharf_document::decode::Problem;
use wharf_document::node::{Node as Tree, Value};

use super::Findings;
use super::container::Containers;
use super::mounts::expand;
use super::nodes::{self, Node, Role, word};
use super::ray::bare;
use super::section::Section;
use super::value_error::ValueError;

/// More is a slip of the keyboard.
pub(super) const NODES_MAX: u32 = 10_000;
/// How long jobs of a Slurm may wait in its queue, by default.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(600);

/// What machines are made from.
#[derive(Clone, Debug, PartialEq)]
pub enum Machines {
    /// They are there.
    Given,
    /// By a program of the user's.
    Exec(ExecConfig),
    /// As jobs of a Slurm.
    Slurm(SlurmConfig),
    /// By Amazon's cloud.
    Aws(AwsConfig),
}

/// A program that makes machines.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecConfig {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What it is told each time, as the file has it.
    pub config: Json,
}

/// How allocations of a Slurm are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By steps of the job.
    Srun,
    /// By ssh, where the site lets owners of jobs in.
    Ssh,
}

/// How jobs of a Slurm are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmConfig {
    /// Options of sbatch.
    pub options: Vec<String>,
    /// How nodes are reached.
    pub reach: Reach,
    /// How long they may wait in the queue.
    pub queue_timeout: Duration,
}

/// How machines of Amazon's cloud are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct AwsConfig {
    /// Where, unless the user's settings say it.
    pub region: Option<String>,
    /// Zones to try, one after the other, for types that name none.
    pub zones: Vec<String>,
    /// Whether the launcher reaches machines where they reach each other.
    pub use_internal_ips: bool,
    /// Networks with access by ssh, if a group is created: as `ADDRESS/BITS`.
    pub ssh_from: Vec<String>,
    /// What each type of node is made from: the fields of RunInstances.
    pub types: BTreeMap<String, Json>,
}

/// A part of the document as JSON, for a provider.
pub(super) fn json(node: &Tree) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.clone())),
        Value::Text(text) => Json::String(text.clone()),
        Value::List(items) => Json::Array(items.iter().map(json).collect()),
        Value::Map(entries) => {
            Json::Object(entries.iter().map(|entry| (entry.key.clone(), json(&entry.value))).collect())
        }
    }
}

fn hash(parts: &[&str]) -> String {
    let mut hasher = crate::hash::Hasher::new();
    parts.iter().for_each(|part| {
        hasher.add(part);
    });
    hasher.finish()[..16].to_owned()
}

/// A head and so many workers, of one kind.
pub(super) fn alike(section: &Section<'_>, usual: u32, findings: &mut Findings) -> Vec<Node> {
    let in_range = |&count: &u32| {
        if count <= NODES_MAX { Ok(()) } else { Err(ValueError::TooManyNodes { limit: NODES_MAX }) }
    };
    let workers = section.checked("workers", findings, in_range).unwrap_or(usual);
    let names = (1..=workers).map(|index| (format!("worker-{index}"), Role::Worker));
    let all = std::iter::once(("head".to_owned(), Role::Head)).chain(names);
    all.map(|(name, role)| bare(name, role, "")).collect()
}

/// Machines that a program makes.
pub(super) fn exec(node: &Tree, folder: &Path, findings: &mut Findings) -> (Machines, Vec<Node>) {
    let section = Section::new(node, "provider", &["type", "command", "workers", "config"], findings);
    let mut command: Vec<String> = section.take("command", findings).unwrap_or_default();
    match command.first_mut() {
        None => {
            let message = "name the program that makes machines, as in `command: [./machines, --fast]`";
            findings.problems.push(section.problem(node, "command", message));
        }
        // A path is the file's neighbour; a bare name is searched for where programs are.
        Some(program) if program.contains('/') => {
            let path: PathBuf = folder.join(expand(program));
            if !path.is_file() {
                let message = format!("there is no program `{}`", path.display());
                findings.problems.push(section.problem(node, "command", message));
            }
            *program = std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned();
        }
        Some(_) => {}
    }
    let config = section.get("config").map_or(Json::Null, json);
    let launch = hash(&["exec", &config.to_string()]);
    let nodes = alike(&section, 1, findings);
    let nodes = nodes.into_iter().map(|node| Node { launch: launch.clone(), ..node });
    (Machines::Exec(ExecConfig { command, config }), nodes.collect())
}

/// Options that state what is said already, or which nodes there are.
const SBATCH_OWN: [&str; 10] =
    ["--job-name", "-J", "--comment", "--output", "-o", "--nodes", "-N", "--array", "-a", "--parsable"];

/// Machines that are jobs of a Slurm.
pub(super) fn slurm(node: &Tree, findings: &mut Findings) -> (Machines, Vec<Node>) {
    let keys = ["type", "workers", "options", "reach", "queue_timeout_s"];
    let section = Section::new(node, "provider", &keys, findings);
    let is_option = |options: &Vec<String>| {
        let own = |option: &&String| {
            SBATCH_OWN.iter().any(|own| *option == own || option.starts_with(&format!("{own}=")))
        };
        match options.iter().find(|option| !option.starts_with('-')) {
            Some(option) => Err(ValueError::SlurmOption { option: option.clone() }),
            None => match options.iter().find(own) {
                Some(option) => Err(ValueError::ReservedSlurmOption { option: option.clone() }),
                None => Ok(()),
            },
        }
    };
    let options = section.checked("options", findings, is_option).unwrap_or_default();
    let is_known = |reach: &String| match reach.as_str() {
        "srun" | "ssh" => Ok(()),
        _ => Err(ValueError::Reach { text: reach.clone() }),
    };
    let reach: Option<String> = section.checked("reach", findings, is_known);
    let reach = if reach.as_deref() == Some("ssh") { Reach::Ssh } else { Reach::Srun };
    let queue_timeout = section.checked("queue_timeout_s", findings, super::ray::seconds_in_range);
    let queue_timeout = queue_timeout.map_or(QUEUE_TIMEOUT, Duration::from_secs_f64);
    let mut parts = vec!["slurm"];
    parts.extend(options.iter().map(String::as_str));
    let launch = hash(&parts);
    let nodes = alike(&section, 1, findings);
    let nodes = nodes.into_iter().map(|node| Node { launch: launch.clone(), ..node }).collect();
    (Machines::Slurm(SlurmConfig { options, reach, queue_timeout }), nodes)
}

/// What only Ray does with machines of this cloud.
const AWS_IGNORED: [&str; 6] =
    ["cache_stopped_nodes", "key_pair", "security_group", "cloudwatch", "aws_credentials", "cloud_formation"];

/// Machines of Amazon's cloud, by type: as many of each as there are at least.
pub(super) fn aws(top: &Section<'_>, node: &Tree, findings: &mut Findings) -> (Machines, Vec<Node>) {
    let mut keys = vec!["type", "region", "availability_zone", "use_internal_ips", "ssh_from"];
    keys.extend(AWS_IGNORED);
    let section = Section::new(node, "provider", &keys, findings);
    for key in AWS_IGNORED {
        let Some(value) = section.get(key).filter(|value| value.value != Value::Bool(false)) else {
            continue;
        };
        let message = match key {
            "cache_stopped_nodes" => "machines are terminated, not stopped",
            "cloud_formation" => {
                "it is ignored: stacks are not deployed; run `aws cloudformation deploy` before `wharf up`"
            }
            "cloudwatch" => "it is ignored: agents, dashboards and alarms of CloudWatch are not set up",
            _ => "it is ignored; name keys and groups under `node_config`, and log in with `aws configure`",
        };
        findings.warnings.push(Problem::new(value, &section.path(key), message));
    }
    let region = section.checked("region", findings, |text: &String| word(text, "a region"));
    let zones: Option<String> = section.take("availability_zone", findings);
    let zones = zones.iter().flat_map(|zones| zones.split(',')).map(|zone| zone.trim().to_owned());
    let zones = zones.filter(|zone| !zone.is_empty()).collect();
    let use_internal_ips = section.take("use_internal_ips", findings).unwrap_or(false);
    let (types, nodes) = typed(top, node, findings);
    let are_networks = |networks: &Vec<String>| match networks.as_slice() {
        [] => Err(ValueError::NoNetwork),
        networks => networks.iter().try_for_each(|text| network(text).map(drop)),
    };
    let ssh_from = section.checked("ssh_from", findings, are_networks);
    let ssh_from = ssh_from.map(|list| list.iter().filter_map(|text| network(text).ok()).collect());
    let ssh_from = ssh_from.unwrap_or_else(|| {
        if types.values().any(|config| !crate::provider::aws::has_group(config)) {
            let message = "ssh to the machines is allowed from all addresses, with the key alone; \
                           name your network, as in `ssh_from: [203.0.113.0/24]`";
            findings.warnings.push(section.problem(node, "ssh_from", message));
        }
        vec!["0.0.0.0/0".to_owned()]
    });
    (Machines::Aws(AwsConfig { region, zones, use_internal_ips, ssh_from, types }), nodes)
}

/// `ADDRESS/BITS`, as the cloud writes it: what is not of the network is 0, so that it is known again.
fn network(text: &str) -> Result<String, ValueError> {
    let parsed = text.split_once('/').and_then(|(address, bits)| {
        let bits: u32 = bits.parse().ok()?;
        let first: IpAddr = match address.parse().ok()? {
            IpAddr::V4(address) => {
                let rest = u32::MAX.checked_shr(bits).unwrap_or(0);
                (bits <= Ipv4Addr::BITS).then(|| Ipv4Addr::from_bits(address.to_bits() & !rest).into())
            }
            IpAddr::V6(address) => {
                let rest = u128::MAX.checked_shr(bits).unwrap_or(0);
                (bits <= Ipv6Addr::BITS).then(|| Ipv6Addr::from_bits(address.to_bits() & !rest).into())
            }
        }?;
        Some(format!("{first}/{bits}"))
    });
    parsed.ok_or_else(|| ValueError::Network { text: text.to_owned() })
}

/// Keys of a node type.
const TYPE_KEYS: [&str; 11] = [
    "node_config",
    "resources",
    "min_workers",
    "max_workers",
    "labels",
    "idle_timeout_s",
    "priority",
    "initialization_commands",
    "worker_setup_commands",
    "docker",
    "devices",
];

/// The head's type where the file names none, as in Ray's defaults.
pub(super) const HEAD_TYPE: &str = "ray.head.default";

/// The type of the head.
fn head_type(top: &Section<'_>, types: &Tree, names: &[&str], findings: &mut Findings) -> Option<String> {
    let said: Option<String> = top.take("head_node_type", findings);
    let (name, is_said) = (said.as_deref().unwrap_or(HEAD_TYPE), top.get("head_node_type").is_some());
    if names.contains(&name) {
        return Some(name.to_owned());
    }
    let message = match is_said {
        true => format!("`{name}` is not a node type: expected one of {}", names.join(", ")),
        false => format!(
            "it is missing, and no node type is named `{HEAD_TYPE}`: name one of {}",
            names.join(", ")
        ),
    };
    findings.problems.push(top.problem(types, "head_node_type", message));
    None
}

fn typed(top: &Section<'_>, provider: &Tree, findings: &mut Findings) -> (BTreeMap<String, Json>, Vec<Node>) {
    let is_empty = |types: &&Tree| types.value == Value::Map(vec![]);
    let Some(types) = top.get("available_node_types").filter(|types| !is_empty(types)) else {
        let message = "it is missing: the type of the head's machine is not assumed";
        let hint = format!(
            "as in `available_node_types: {{{HEAD_TYPE}: {{node_config: {{InstanceType: m5.large, ImageId: ami-...}}}}}}`"
        );
        let problem = top.problem(provider, "available_node_types", message);
        findings.problems.push(Problem { hint: Some(hint), ..problem });
        return (BTreeMap::new(), vec![]);
    };
    let section = Section::open(types, "available_node_types", findings);
    let names: Vec<&str> = section.entries().map(|entry| entry.key.as_str()).collect();
    let head_type = head_type(top, types, &names, findings);
    let mut configs = BTreeMap::new();
    let mut nodes = Vec::new();
    for entry in section.entries() {
        let at = section.path(&entry.key);
        if let Err(error) = super::ray::check_name(&entry.key) {
            findings.problems.push(Problem::new(&entry.value, &at, error.message()));
        }
        let own = Section::new(&entry.value, &at, &TYPE_KEYS, findings);
        let min: u32 = own.take("min_workers", findings).unwrap_or_default();
        let max: Option<u32> = own.take("max_workers", findings);
        if max.is_some_and(|max| max < min) {
            let message = format!("it is below `min_workers`, {min}");
            findings.problems.push(own.problem(&entry.value, "max_workers", message));
        }
        let config = own.get("node_config").map_or_else(|| Json::Object(serde_json::Map::new()), json);
        let alike = Node {
            launch: hash(&["aws", &config.to_string()]),
            kind: entry.key.clone(),
            devices: own.checked("devices", findings, |text: &String| nodes::devices(text)),
            ..bare(String::new(), Role::Worker, "")
        };
        let named = |name: String, role| Node { address: name.clone(), name, role, ..alike.clone() };
        if head_type.as_ref() == Some(&entry.key) || min > 0 {
            check_image(&own, &entry.value, &config, findings);
        }
        if head_type.as_ref() == Some(&entry.key) {
            nodes.insert(0, named("head".to_owned(), Role::Head));
        }
        nodes.extend(
            (1..=min.min(NODES_MAX)).map(|index| named(format!("{}-{index}", entry.key), Role::Worker)),
        );
        configs.insert(entry.key.clone(), config);
    }
    (configs, nodes)
}

/// Ray fills in images that it has a table of; the cloud refuses a request without one.
fn check_image(own: &Section<'_>, node: &Tree, config: &Json, findings: &mut Findings) {
    let image = config.get("ImageId").and_then(Json::as_str);
    let message = match image {
        Some("latest_dlami") => "`latest_dlami` is a name of Ray's own: the cloud does not know it",
        None if config.get("LaunchTemplate").is_none() => "it is missing: `wharf up` has no default image",
        _ => return,
    };
    let hint = "name an image (`ami-...`), or `resolve:ssm:PARAMETER` for the newest of a series".to_owned();
    let at = format!("{}.ImageId", own.path("node_config"));
    let place = own.get("node_config").unwrap_or(node);
    findings.blockers.push(Problem { hint: Some(hint), ..Problem::new(place, &at, message) });
}

/// Overrides of a node type: setup commands and worker containers.
pub(super) fn give_type_own(
    top: &Section<'_>,
    containers: Option<&Containers>,
    nodes: &mut [Node],
    findings: &mut Findings,
) {
    let Some(types) = top.get("available_node_types") else { return };
    let section = Section::open(types, "available_node_types", findings);
    for entry in section.entries() {
        let own = Section::open(&entry.value, &section.path(&entry.key), findings);
        let initialization: Option<Vec<String>> = own.take("initialization_commands", findings);
        let setup: Option<Vec<String>> = own.take("worker_setup_commands", findings);
        let container = containers.and_then(|containers| containers.of_type(&own, findings));
        if let Some(docker) = own.get("docker").filter(|_| containers.is_none()) {
            let message = "it lies over the file's own `docker`, which names no image: nodes are used without containers";
            findings.warnings.push(Problem::new(docker, &own.path("docker"), message));
        }
        for node in nodes.iter_mut().filter(|node| node.kind == entry.key) {
            if let Some(lines) = &initialization {
                node.initialization.clone_from(lines);
            }
            if node.role == Role::Head {
                continue;
            }
            if let Some(lines) = &setup {
                node.setup.clone_from(lines);
            }
            if container.is_some() {
                node.container.clone_from(&container);
            }
        }
    }
}
