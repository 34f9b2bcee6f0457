//! The cluster file of Ray 2.60, key by key, with Wharf's additions: `nodes`, `devices`, `wharf`, `ssh_port`, `ssh_options`.

use std::path::Path;
use std::time::Duration;

use wharf_document::decode::Problem;
use wharf_document::node::{Node as Tree, Value};

use super::container::Containers;
use super::machines::{self, Machines};
use super::mounts::{self, Mount};
use super::nodes::{self, Node, Role, SSH_KEYS, Ssh, address, word};
use super::section::Section;
use super::value_error::ValueError;
use super::{Cluster, Findings, Provider, Runtime, START_TIMEOUT, WharfRuntime, legacy, placeholders, steps};

const KEYS: [&str; 28] = [
    "cluster_name",
    "max_workers",
    "min_workers",
    "upscaling_speed",
    "idle_timeout_minutes",
    "provider",
    "auth",
    "docker",
    "available_node_types",
    "head_node_type",
    "file_mounts",
    "cluster_synced_files",
    "file_mounts_sync_continuously",
    "rsync_exclude",
    "rsync_filter",
    "initialization_commands",
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
    "metadata",
    "no_restart",
    // Wharf's own.
    "nodes",
    "devices",
    "wharf",
    "steps",
    "start_timeout_s",
];

/// What Ray starts where only one of both lists is given.
const RAY_HEAD: [&str; 2] = ["ray stop", "ulimit -c unlimited; ray start --head --port=6379"];
const RAY_WORKER: [&str; 2] = ["ray stop", "ray start --address=$RAY_HEAD_IP:6379"];

/// Where a head listens by default.
const PORT: u16 = 7717;
/// Workers of the provider `process` by default.
const PROCESS_WORKERS: u32 = 1;
/// Nodes that are processes share this machine: one slot each, by default.
const PROCESS_DEVICES: &str = "cpu:1";

/// The document's cluster; `None` where too little of it can be made out, and then there are problems.
pub(super) fn cluster(document: Tree, folder: &Path, findings: &mut Findings) -> Option<Cluster> {
    placeholders::refuse(&document, "", findings);
    let unfilled = std::mem::take(&mut findings.problems);
    let cluster = checked(document, folder, findings);
    // Other problems of a placeholder follow from it.
    findings.problems.retain(|problem| !unfilled.iter().any(|other| other.place == problem.place));
    findings.problems.extend(unfilled);
    cluster
}

fn checked(mut document: Tree, folder: &Path, findings: &mut Findings) -> Option<Cluster> {
    legacy::convert(&mut document, findings);
    let document = &document;
    let top = Section::new(document, "", &KEYS, findings);
    if top.get("cluster_name").is_none() {
        findings.problems.push(Problem::new(document, "cluster_name", "the cluster needs a name"));
    }
    let name = top.checked("cluster_name", findings, |name: &String| check_name(name));
    refuse_what_is_missing(&top, findings);
    let Some(provider_node) = top.get("provider") else {
        let message = "expected the nodes, as in `provider: {type: local, head_ip: ..., worker_ips: [...]}`";
        findings.problems.push(Problem::new(document, "provider", message));
        return None;
    };
    let (provider, machines, mut nodes) = provided(&top, provider_node, folder, findings)?;
    let auth_keys: Vec<&str> =
        SSH_KEYS.into_iter().chain(["ssh_public_key", "ssh_proxy_use_node_id"]).collect();
    let common = match top.get("auth") {
        Some(node) => nodes::ssh(&Section::new(node, "auth", &auth_keys, findings), folder, findings),
        None => Ssh::default(),
    };
    let devices = top.checked("devices", findings, |text: &String| nodes::devices(text));
    let commands = Commands::read(&top, findings);
    let containers = Containers::read(&top, findings);
    for node in &mut nodes {
        node.container = containers.as_ref().map(|containers| containers.of(node.role));
        node.ssh = common.clone();
        let own = node.devices.take();
        // What is said of a type counts more than what is said of all; what a provider assumes counts less.
        node.devices =
            if node.kind.is_empty() { devices.clone().or(own) } else { own.or_else(|| devices.clone()) };
        commands.give(node);
    }
    machines::give_type_own(&top, containers.as_ref(), &mut nodes, findings);
    if let Some(node) = top.get("nodes") {
        nodes::override_each(&Section::open(node, "nodes", findings), folder, &mut nodes, findings);
    }
    nodes::refuse_twins(&nodes, provider_node, findings);
    let region = match &machines {
        Machines::Aws(aws) => aws.region.as_deref(),
        _ => None,
    };
    let (steps, steps_before) =
        top.get("steps").map(|node| steps::read(node, region, findings)).unwrap_or_default();
    Some(Cluster {
        name: name?,
        steps,
        steps_before,
        provider,
        machines,
        min_workers: min_workers(&top, &nodes, document, findings),
        nodes,
        mounts: file_mounts(&top, folder, provider, containers.is_some(), findings),
        synced: synced(&top, findings),
        exclude: top.take("rsync_exclude", findings).unwrap_or_default(),
        filter: top.take("rsync_filter", findings).unwrap_or_default(),
        runtime: runtime(&top, provider, findings),
        start_timeout: start_timeout(&top, findings),
        warnings: vec![],
        blockers: vec![],
    })
}

/// A name that can be a folder's, a container's and a node's.
pub(super) fn check_name(name: &str) -> Result<(), ValueError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    let is_name =
        (1..=63).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with(['.', '-']);
    if is_name { Ok(()) } else { Err(ValueError::Name { name: name.to_owned() }) }
}

/// What the schema has and the launcher cannot do: better refused than silently left out.
fn refuse_what_is_missing(top: &Section<'_>, findings: &mut Findings) {
    let is_empty = |node: &Tree| {
        matches!(&node.value, Value::Map(entries) if entries.is_empty())
            || matches!(&node.value, Value::List(items) if items.is_empty())
    };
    for (key, message) in [("no_restart", "it is no key for a file; use `wharf up --no-restart`")] {
        if let Some(node) = top.get(key).filter(|node| !is_empty(node)) {
            findings.problems.push(Problem::new(node, key, message));
        }
    }
    if let Some(true) = top.take("file_mounts_sync_continuously", findings) {
        let warning = "files are copied by `wharf up`, not all the time";
        findings.warnings.extend(
            top.get("file_mounts_sync_continuously")
                .map(|node| Problem::new(node, "file_mounts_sync_continuously", warning)),
        );
    }
    // Read for their form only: they are of an autoscaler's.
    let _: (Option<f64>, Option<f64>) =
        (top.take("upscaling_speed", findings), top.take("idle_timeout_minutes", findings));
}

/// What the nodes are, and which.
fn provided(
    top: &Section<'_>,
    node: &Tree,
    folder: &Path,
    findings: &mut Findings,
) -> Option<(Provider, Machines, Vec<Node>)> {
    let section = Section::open(node, "provider", findings);
    let kind: Option<String> = section.take("type", findings);
    let Some(kind) = kind else {
        findings.problems.push(Problem::new(
            node,
            "provider.type",
            "it is missing; it can be `local`, `process`, `slurm`, `aws` or `exec`",
        ));
        return None;
    };
    let provider = match kind.as_str() {
        "local" => Provider::Local,
        "process" => Provider::Process,
        "aws" => Provider::Aws,
        "exec" => Provider::Exec,
        "slurm" => Provider::Slurm,
        _ => {
            let known = ["local", "process", "slurm", "aws", "exec"];
            let hint = wharf_document::nearest(&kind, known).map(|name| format!("did you mean `{name}`?"));
            let message = format!("the provider `{kind}` is unknown; expected one of {}", known.join(", "));
            findings.problems.push(Problem { hint, ..section.problem(node, "type", message) });
            return None;
        }
    };
    if provider != Provider::Aws
        && let Some(types) = top.get("available_node_types").filter(|types| types.value != Value::Map(vec![]))
    {
        let message = "this provider has no node types; set differences of single nodes under `nodes`";
        findings.problems.push(Problem::new(types, "available_node_types", message));
    }
    let (machines, nodes) = match provider {
        Provider::Local => (Machines::Given, local(node, findings)),
        Provider::Process => (Machines::Given, processes(node, findings)),
        Provider::Aws => machines::aws(top, node, findings),
        Provider::Exec => machines::exec(node, folder, findings),
        Provider::Slurm => machines::slurm(node, findings),
    };
    Some((provider, machines, nodes))
}

/// A node of which nothing more is said.
pub(super) fn bare(name: String, role: Role, inner_address: &str) -> Node {
    Node {
        address: name.clone(),
        inner_address: inner_address.to_owned(),
        name,
        role,
        ssh: Ssh::default(),
        devices: None,
        kind: String::new(),
        launch: String::new(),
        machine: None,
        initialization: vec![],
        setup: vec![],
        container: None,
    }
}

/// Machines by their addresses.
fn local(node: &Tree, findings: &mut Findings) -> Vec<Node> {
    let keys = ["type", "head_ip", "worker_ips", "external_head_ip", "coordinator_address"];
    let section = Section::new(node, "provider", &keys, findings);
    if let Some(there) = section.get("coordinator_address") {
        let message = "automatic local clusters are not supported: Ray's coordinator server lends machines to clusters, and \
                       `wharf up` uses the machines that the file names";
        let hint = "name them with `head_ip` and `worker_ips` in place of `coordinator_address`; users share one such cluster, \
                    because its head schedules their jobs";
        let problem = Problem::new(there, "provider.coordinator_address", message);
        findings.problems.push(Problem { hint: Some(hint.to_owned()), ..problem });
        return vec![];
    }
    let is_address = |text: &String| address(text);
    let Some(head) = section.checked("head_ip", findings, is_address) else {
        if section.get("head_ip").is_none() {
            findings.problems.push(Problem::new(node, "provider.head_ip", "the head's address is missing"));
        }
        return vec![];
    };
    let outside = section.checked("external_head_ip", findings, is_address);
    let each = |addresses: &Vec<String>| addresses.iter().try_for_each(|text| address(text));
    let workers = section.checked("worker_ips", findings, each).unwrap_or_default();
    let mut first = bare(head.clone(), Role::Head, &head);
    first.address = outside.unwrap_or(head);
    let rest = workers.into_iter().map(|address| bare(address.clone(), Role::Worker, &address));
    std::iter::once(first).chain(rest).collect()
}

/// Folders and processes of this machine.
fn processes(node: &Tree, findings: &mut Findings) -> Vec<Node> {
    const HERE: &str = "127.0.0.1";
    let section = Section::new(node, "provider", &["type", "workers"], findings);
    let here =
        |node| Node { devices: Some(PROCESS_DEVICES.to_owned()), inner_address: HERE.to_owned(), ..node };
    machines::alike(&section, PROCESS_WORKERS, findings).into_iter().map(here).collect()
}

/// How many workers have to come up, of those that there are.
fn min_workers(top: &Section<'_>, nodes: &[Node], document: &Tree, findings: &mut Findings) -> usize {
    let workers = nodes.iter().filter(|node| node.role == Role::Worker).count();
    let wanted: Option<u32> = top.take("min_workers", findings);
    let max: Option<u32> = top.take("max_workers", findings);
    let wanted = wanted.map_or(workers, |count| count as usize);
    if let Some(max) = max.filter(|&max| (max as usize) < wanted.min(workers)) {
        let message = format!("it is {max}, below the {} workers that there have to be", wanted.min(workers));
        findings.problems.push(top.problem(document, "max_workers", message));
    }
    if wanted > workers {
        let message = format!("there are {workers} workers only");
        findings.warnings.push(top.problem(document, "min_workers", message));
    }
    wanted.min(workers)
}

/// How long something may be waited for.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "values are checked by reference")]
pub(super) fn seconds_in_range(seconds: &f64) -> Result<(), ValueError> {
    if (0.0..=86_400.0).contains(seconds) { Ok(()) } else { Err(ValueError::Seconds) }
}

fn start_timeout(top: &Section<'_>, findings: &mut Findings) -> Duration {
    let seconds = top.checked("start_timeout_s", findings, seconds_in_range);
    seconds.map_or(START_TIMEOUT, Duration::from_secs_f64)
}

fn file_mounts(
    top: &Section<'_>,
    folder: &Path,
    provider: Provider,
    has_containers: bool,
    findings: &mut Findings,
) -> Vec<Mount> {
    let Some(node) = top.get("file_mounts") else { return vec![] };
    let section = Section::open(node, "file_mounts", findings);
    mounts::read(&section, folder, provider, has_containers, findings)
}

/// Paths of the head, which workers get at the same places.
fn synced(top: &Section<'_>, findings: &mut Findings) -> Vec<String> {
    let are_paths = |paths: &Vec<String>| match paths.iter().find(|path| !mounts::is_target(path)) {
        Some(path) => Err(ValueError::MountTarget { path: path.clone() }),
        None => Ok(()),
    };
    top.checked("cluster_synced_files", findings, are_paths).unwrap_or_default()
}

/// Lines that nodes run.
struct Commands {
    initialization: Vec<String>,
    head_setup: Vec<String>,
    worker_setup: Vec<String>,
}

impl Commands {
    fn read(top: &Section<'_>, findings: &mut Findings) -> Self {
        let mut lines = |key: &str| -> Vec<String> { top.take(key, findings).unwrap_or_default() };
        let common = lines("setup_commands");
        let with = |more: Vec<String>| common.iter().cloned().chain(more).collect();
        Self {
            initialization: lines("initialization_commands"),
            head_setup: with(lines("head_setup_commands")),
            worker_setup: with(lines("worker_setup_commands")),
        }
    }

    fn give(&self, node: &mut Node) {
        node.initialization.clone_from(&self.initialization);
        node.setup = match node.role {
            Role::Head => self.head_setup.clone(),
            Role::Worker => self.worker_setup.clone(),
        };
    }
}

/// Ray's own launcher leaves a file on the head for its autoscaler, with a key to all nodes; this launcher does not.
fn warn_of_autoscaler(top: &Section<'_>, head: &[String], findings: &mut Findings) {
    let asks = head.iter().any(|line| line.contains("--autoscaling-config"));
    if let Some(node) = top.get("head_start_ray_commands").filter(|_| asks) {
        let message = "`--autoscaling-config` names a file that `wharf up` does not write: all workers are started, and Ray's \
                       autoscaler does not run; leave it out";
        findings.warnings.push(Problem::new(node, "head_start_ray_commands", message));
    }
}

/// Ray's commands where the file has any, else Wharf's own daemons.
fn runtime(top: &Section<'_>, provider: Provider, findings: &mut Findings) -> Runtime {
    let usual = |lines: [&str; 2]| lines.map(str::to_owned).to_vec();
    let head: Option<Vec<String>> = top.take("head_start_ray_commands", findings);
    let worker: Option<Vec<String>> = top.take("worker_start_ray_commands", findings);
    if head.is_some() || worker.is_some() {
        if let Some(node) = top.get("wharf") {
            let message = "the file starts other daemons, with `head_start_ray_commands` and `worker_start_ray_commands`";
            findings.problems.push(Problem::new(node, "wharf", message));
        }
        warn_of_autoscaler(top, head.as_deref().unwrap_or_default(), findings);
        let head = head.unwrap_or_else(|| usual(RAY_HEAD));
        return Runtime::Commands { head, worker: worker.unwrap_or_else(|| usual(RAY_WORKER)) };
    }
    let port = if provider == Provider::Process { 0 } else { PORT };
    let Some(node) = top.get("wharf") else {
        return Runtime::Wharf(WharfRuntime { program: None, port, policy: None });
    };
    let section = Section::new(node, "wharf", &["program", "port", "policy"], findings);
    let said: Option<u32> = section.checked("port", findings, |&port| nodes::port_number(port));
    Runtime::Wharf(WharfRuntime {
        program: section.checked("program", findings, |text: &String| word(text, "a program's path")),
        port: said.and_then(|port| u16::try_from(port).ok()).unwrap_or(port),
        policy: section.checked("policy", findings, |text: &String| word(text, "a policy's name")),
    })
}
