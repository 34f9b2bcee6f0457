//! What a request means on a cluster: how many devices of which type, on which nodes.
//!
//! On nodes of device type `cpu` a device is a processor, and tasks times processors of a task are asked for. On other nodes the
//! GPUs are the devices, and processors and memory are shared out among them. A job without GPUs only goes to `cpu` nodes. Every
//! node of a gang has equally many devices, so tasks are spread evenly.

use std::collections::{BTreeMap, BTreeSet};

use super::gres::{self, Gpus};
use super::{Refusal, Request, hostlist};

/// The device type whose devices are processors.
pub const CPU: &str = "cpu";
/// What squeue calls the nodes that belong to no pool.
pub const PARTITION: &str = "main";

/// What matters about a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// The partition that it is in.
    pub partition: String,
    /// The type of its devices.
    pub device_type: String,
    /// How many it has.
    pub devices: u32,
    /// Processors.
    pub cpus: u32,
    /// Main memory.
    pub memory_mib: u64,
    /// What it is said to have.
    pub features: Vec<String>,
}

/// What a job needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// On so many nodes.
    pub nodes: u32,
    /// All devices together.
    pub devices: u32,
    /// Types that will do.
    pub device_types: Vec<String>,
    /// The only nodes that will do; empty: any.
    pub names: Vec<String>,
    /// Processors for each device; 0: that does not matter.
    pub cpus: u32,
    /// Memory for each device; 0: that does not matter.
    pub memory_mib: u64,
    /// All tasks; 0: as many as there are processors.
    pub tasks: u32,
    /// Processors of each task.
    pub cpus_per_task: u32,
}

/// Why a cluster can never run a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// There is no such partition.
    #[error("Invalid partition name specified")]
    Partition,
    /// There is no such node.
    #[error("Invalid node name specified")]
    Node,
    /// No node has such a feature.
    #[error("Invalid feature specification")]
    Feature,
    /// No nodes are of that kind.
    #[error("Requested node configuration is not available")]
    Configuration,
    /// It asks for no GPUs, and there are only nodes with GPUs.
    #[error(
        "Requested node configuration is not available: a job without GPUs needs a node of device type cpu"
    )]
    NoCpuNodes,
    /// What it asks for makes no sense.
    #[error("{0}")]
    Refused(#[from] Refusal),
}

/// Finds out what a request means on these nodes.
///
/// # Errors
/// [`Unfit`] where they can never run it.
pub fn shape(request: &Request, nodes: &[NodeFacts]) -> Result<Shape, Unfit> {
    let (candidates, is_restricted, named) = candidates(request, nodes)?;
    let mut tasks = Tasks::of(request, named);
    let gpus = Wanted::of(request, &tasks)?;
    if let (Some(each), Some(gpus)) = (request.count("ntasks-per-gpu"), &gpus) {
        tasks.follow(each, gpus);
    }
    let mut shape = match gpus {
        Some(gpus) => on_gpus(request, &candidates, &tasks, &gpus)?,
        None => on_processors(request, &candidates, &tasks)?,
    };
    if named > 0 && shape.nodes != named {
        return Err(Unfit::Configuration);
    }
    let fitting: Vec<&NodeFacts> = fitting(&candidates, &shape).collect();
    if fitting.len() < shape.nodes as usize {
        return Err(Unfit::Configuration);
    }
    if request.has("exclusive") {
        return whole_nodes(request, shape, &fitting);
    }
    if is_restricted {
        shape.names = fitting.iter().map(|node| node.name.clone()).collect();
    }
    Ok(shape)
}

/// Nodes that the request allows, whether it excludes any, and how many it names.
fn candidates<'a>(
    request: &Request,
    nodes: &'a [NodeFacts],
) -> Result<(Vec<&'a NodeFacts>, bool, u32), Unfit> {
    let mut all: Vec<&NodeFacts> = nodes.iter().collect();
    let hosts = |option: &str| -> Result<BTreeSet<String>, Unfit> {
        let names = hostlist::expand(request.get(option).unwrap_or_default()).map_err(|_| Unfit::Node)?;
        let is_known = |name: &String| nodes.iter().any(|node| node.name == *name);
        if names.iter().all(is_known) { Ok(names.into_iter().collect()) } else { Err(Unfit::Node) }
    };
    let mut is_restricted = false;
    if let Some(partitions) = request.get("partition") {
        let wanted: Vec<&str> = partitions.split(',').collect();
        if wanted.iter().any(|name| !nodes.iter().any(|node| node.partition == *name)) {
            return Err(Unfit::Partition);
        }
        all.retain(|node| wanted.contains(&node.partition.as_str()));
        // One pool is asked for by its name; that of no name, and several, by their nodes.
        is_restricted = (wanted.len() > 1 || wanted == [PARTITION]) && all.len() < nodes.len();
    }
    let (named, excluded) = (hosts("nodelist")?, hosts("exclude")?);
    if !named.is_empty() {
        all.retain(|node| named.contains(&node.name));
    }
    all.retain(|node| !excluded.contains(&node.name));
    let constraint = request.constraint()?;
    if let Some(constraint) = &constraint {
        let is_known = |name: &&str| nodes.iter().any(|node| node.features.iter().any(|own| own == name));
        if !constraint.names().iter().all(is_known) {
            return Err(Unfit::Feature);
        }
        all.retain(|node| constraint.allows(&node.features));
    }
    is_restricted |= !named.is_empty() || !excluded.is_empty() || constraint.is_some();
    let count = u32::try_from(named.len()).unwrap_or(u32::MAX);
    Ok((all, is_restricted, count))
}

/// How many tasks, on how many nodes as far as that is said.
struct Tasks {
    nodes: Option<u32>,
    tasks: Option<u32>,
    per_node: Option<u32>,
    cpus_each: u32,
    is_overcommitted: bool,
}

impl Tasks {
    fn of(request: &Request, named: u32) -> Self {
        let nodes = request.nodes().map(|count| count.min.max(1));
        let nodes = nodes.max((named > 0).then_some(named));
        let per_node = request.count("ntasks-per-node");
        let tasks = request.count("ntasks").or_else(|| Some(nodes.unwrap_or(1).saturating_mul(per_node?)));
        let nodes = nodes.or_else(|| Some(tasks?.div_ceil(per_node?)));
        Self {
            nodes,
            tasks,
            per_node,
            cpus_each: request.count("cpus-per-task").unwrap_or(1),
            is_overcommitted: request.has("overcommit"),
        }
    }

    /// So many tasks for each GPU, where their number is not given.
    fn follow(&mut self, each: u32, gpus: &Wanted) {
        let count = match gpus.count {
            Count::PerNode(count) => count.saturating_mul(self.nodes.unwrap_or(1)),
            Count::Total(count) => count,
        };
        self.tasks = self.tasks.or(Some(count.saturating_mul(each)));
    }

    fn all(&self, nodes: u32) -> u32 {
        self.tasks.unwrap_or(nodes)
    }

    /// Processors on each of so many nodes.
    fn cpus(&self, nodes: u32) -> u32 {
        if self.is_overcommitted { 1 } else { self.all(nodes).div_ceil(nodes).saturating_mul(self.cpus_each) }
    }
}

/// GPUs that are asked for.
struct Wanted {
    kind: String,
    count: Count,
}

enum Count {
    PerNode(u32),
    Total(u32),
}

impl Wanted {
    fn of(request: &Request, tasks: &Tasks) -> Result<Option<Self>, Unfit> {
        let read = |option: &str, read: fn(&str) -> Result<Vec<Gpus>, Refusal>| {
            request.get(option).map_or(Ok(Vec::new()), read)
        };
        let per_node = [read("gres", gres::of_gres)?, read("gpus-per-node", gres::of_gpus)?].concat();
        let (total, per_task) = (read("gpus", gres::of_gpus)?, read("gpus-per-task", gres::of_gpus)?);
        let is_total = per_node.is_empty();
        let mut all = if is_total { total.clone() } else { per_node };
        // `-n 8 --ntasks-per-gpu=2`: 4 GPUs.
        if let (true, Some(each), Some(count)) = (
            all.is_empty() && per_task.is_empty(),
            request.count("ntasks-per-gpu").filter(|each| *each > 0),
            request.count("ntasks"),
        ) {
            return Ok(Some(Self { kind: String::new(), count: Count::Total(count.div_ceil(each)) }));
        }
        if all.is_empty() {
            let times = tasks.all(tasks.nodes.unwrap_or(1));
            let each = |gpus: Gpus| Gpus { count: gpus.count.saturating_mul(times), ..gpus };
            all = per_task.into_iter().map(each).collect();
        }
        all.retain(|gpus| gpus.count > 0);
        match all.as_slice() {
            [] => Ok(None),
            [gpus] => {
                let count = if is_total { Count::Total(gpus.count) } else { Count::PerNode(gpus.count) };
                Ok(Some(Self { kind: gpus.kind.clone(), count }))
            }
            // All devices of a node are of one type.
            _ => Err(Unfit::Configuration),
        }
    }
}

fn on_gpus(
    request: &Request,
    candidates: &[&NodeFacts],
    tasks: &Tasks,
    wanted: &Wanted,
) -> Result<Shape, Unfit> {
    let is_it = |node: &&&NodeFacts| {
        node.device_type != CPU && (wanted.kind.is_empty() || node.device_type == wanted.kind)
    };
    let largest =
        candidates.iter().filter(is_it).map(|node| node.devices).max().ok_or(Unfit::Configuration)?;
    let (nodes, each) = match wanted.count {
        Count::PerNode(each) => (tasks.nodes.unwrap_or(1), each),
        Count::Total(all) => {
            let nodes = tasks.nodes.unwrap_or_else(|| all.div_ceil(largest.max(1))).max(1);
            (nodes, all.div_ceil(nodes))
        }
    };
    if each == 0 || matches!(wanted.count, Count::Total(all) if all % nodes != 0) {
        return Err(Unfit::Configuration);
    }
    let asks_cpus = tasks.tasks.is_some() || request.has("cpus-per-task");
    let cpus = match request.count("cpus-per-gpu") {
        Some(cpus) => cpus,
        None if asks_cpus => tasks.cpus(nodes).div_ceil(each),
        None => 0,
    };
    let memory_mib =
        match (request.memory("mem"), request.memory("mem-per-cpu"), request.memory("mem-per-gpu")) {
            (Some(all), ..) => all.div_ceil(u64::from(each)),
            (_, Some(of_cpu), _) => {
                of_cpu.saturating_mul(u64::from(tasks.cpus(nodes))).div_ceil(u64::from(each))
            }
            (.., of_gpu) => of_gpu.unwrap_or(0),
        };
    let types: BTreeSet<String> =
        candidates.iter().filter(is_it).map(|node| node.device_type.clone()).collect();
    Ok(Shape {
        nodes,
        devices: nodes.saturating_mul(each),
        device_types: types.into_iter().collect(),
        names: Vec::new(),
        cpus,
        memory_mib,
        tasks: tasks.all(nodes),
        cpus_per_task: tasks.cpus_each,
    })
}

fn on_processors(request: &Request, candidates: &[&NodeFacts], tasks: &Tasks) -> Result<Shape, Unfit> {
    if candidates.is_empty() {
        return Err(Unfit::Configuration);
    }
    let sizes = candidates.iter().filter(|node| node.device_type == CPU).map(|node| node.devices);
    let largest = sizes.max().ok_or(Unfit::NoCpuNodes)?;
    let nodes = tasks.nodes.unwrap_or_else(|| {
        let fitting = if tasks.is_overcommitted { u32::MAX } else { (largest / tasks.cpus_each).max(1) };
        let fitting = tasks.per_node.map_or(fitting, |per_node| fitting.min(per_node));
        tasks.all(1).div_ceil(fitting)
    });
    let each = tasks.cpus(nodes);
    let memory_mib = match (request.memory("mem"), request.memory("mem-per-cpu")) {
        (Some(all), _) => all.div_ceil(u64::from(each)),
        (None, of_cpu) => of_cpu.unwrap_or(0),
    };
    Ok(Shape {
        nodes,
        devices: nodes.saturating_mul(each),
        device_types: vec![CPU.to_owned()],
        names: Vec::new(),
        cpus: 0,
        memory_mib,
        tasks: tasks.all(nodes),
        cpus_per_task: tasks.cpus_each,
    })
}

/// Candidates that have what each node of the gang needs.
fn fitting<'a>(candidates: &[&'a NodeFacts], shape: &Shape) -> impl Iterator<Item = &'a NodeFacts> {
    let each = shape.devices / shape.nodes.max(1);
    candidates.iter().copied().filter(move |node| {
        shape.device_types.contains(&node.device_type)
            && node.devices >= each
            && u64::from(node.cpus) >= u64::from(shape.cpus) * u64::from(each)
            && node.memory_mib >= shape.memory_mib.saturating_mul(u64::from(each))
    })
}

/// All devices of nodes that are alike, of which there are most.
fn whole_nodes(request: &Request, shape: Shape, fitting: &[&NodeFacts]) -> Result<Shape, Unfit> {
    let mut kinds: BTreeMap<(&str, u32), Vec<&NodeFacts>> = BTreeMap::new();
    for &node in fitting {
        kinds.entry((&node.device_type, node.devices)).or_default().push(node);
    }
    let enough = kinds.into_iter().filter(|(_, nodes)| nodes.len() >= shape.nodes as usize);
    let ((kind, each), nodes) = enough.max_by_key(|(_, nodes)| nodes.len()).ok_or(Unfit::Configuration)?;
    let before = shape.devices / shape.nodes.max(1);
    let says_tasks = request.has("ntasks") || request.has("ntasks-per-node");
    Ok(Shape {
        devices: shape.nodes.saturating_mul(each),
        device_types: vec![kind.to_owned()],
        names: nodes.iter().map(|node| node.name.clone()).collect(),
        // The same memory for each node, shared out among more devices.
        memory_mib: (shape.memory_mib * u64::from(before)).div_ceil(u64::from(each.max(1))),
        cpus: 0,
        tasks: if says_tasks { shape.tasks } else { 0 },
        ..shape
    })
}
