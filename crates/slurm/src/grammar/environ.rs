//! The `SLURM_*` variables of jobs and steps.

use super::export::Variables;
use super::{Request, array::Array, hostlist, shape::Shape};

/// What is known where a job is submitted.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// The folder.
    pub folder: &'a str,
    /// The machine.
    pub host: &'a str,
    /// The array that it is.
    pub array: Option<&'a Array>,
    /// What `--export` says, where it is not everything.
    pub export: Option<&'a str>,
    /// The owner's numbers.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
}

/// Variables that follow from what a job asks for.
#[must_use]
pub fn submitted(request: &Request, shape: &Shape, facts: &Submission<'_>) -> Variables {
    let mut all = Variables::new();
    let mut set = |name: &str, value: String| drop(all.insert(name.to_owned(), value));
    set("SLURM_SUBMIT_DIR", facts.folder.to_owned());
    set("SLURM_SUBMIT_HOST", facts.host.to_owned());
    set("SLURM_JOB_UID", facts.uid.to_string());
    set("SLURM_JOB_GID", facts.gid.to_string());
    set("SLURM_PRIO_PROCESS", "0".to_owned());
    set("SLURM_NODE_ALIASES", "(null)".to_owned());
    set("ENVIRONMENT", "BATCH".to_owned());
    if request.has("ntasks") || request.has("ntasks-per-node") {
        set("SLURM_NTASKS", shape.tasks.to_string());
        set("SLURM_NPROCS", shape.tasks.to_string());
    }
    for (option, name) in [
        ("ntasks-per-node", "SLURM_NTASKS_PER_NODE"),
        ("cpus-per-task", "SLURM_CPUS_PER_TASK"),
        ("gpus", "SLURM_GPUS"),
        ("gpus-per-node", "SLURM_GPUS_PER_NODE"),
        ("gpus-per-task", "SLURM_GPUS_PER_TASK"),
        ("cpus-per-gpu", "SLURM_CPUS_PER_GPU"),
        ("dependency", "SLURM_JOB_DEPENDENCY"),
        ("account", "SLURM_JOB_ACCOUNT"),
        ("reservation", "SLURM_JOB_RESERVATION"),
        ("distribution", "SLURM_DISTRIBUTION"),
    ] {
        if let Some(value) = request.get(option) {
            set(name, value.to_owned());
        }
    }
    for (option, name) in [
        ("mem", "SLURM_MEM_PER_NODE"),
        ("mem-per-cpu", "SLURM_MEM_PER_CPU"),
        ("mem-per-gpu", "SLURM_MEM_PER_GPU"),
    ] {
        if let Some(amount) = request.memory(option).filter(|amount| *amount > 0) {
            set(name, amount.to_string());
        }
    }
    if request.has("overcommit") {
        set("SLURM_OVERCOMMIT", "1".to_owned());
    }
    if let Some(export) = facts.export {
        set("SLURM_EXPORT_ENV", export.to_owned());
    }
    if let Some(array) = facts.array {
        let (first, last) = (array.indexes.first().unwrap_or(&0), array.indexes.last().unwrap_or(&0));
        set("SLURM_ARRAY_TASK_COUNT", array.indexes.len().to_string());
        set("SLURM_ARRAY_TASK_MIN", first.to_string());
        set("SLURM_ARRAY_TASK_MAX", last.to_string());
        set("SLURM_ARRAY_TASK_STEP", array.step.to_string());
    }
    all
}

/// A job's place, as one of its nodes sees it.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The job's id.
    pub job: u32,
    /// The array's id and the element's index.
    pub array: Option<(u32, u32)>,
    /// The job's name.
    pub name: &'a str,
    /// Its owner.
    pub user: &'a str,
    /// The partition that it runs in.
    pub partition: &'a str,
    /// The cluster's name.
    pub cluster: &'a str,
    /// The nodes of its gang.
    pub nodes: &'a [String],
    /// Processors on each.
    pub cpus: &'a [u32],
    /// All tasks; 0: as many as there are processors.
    pub tasks: u32,
    /// Processors of each task.
    pub cpus_per_task: u32,
    /// The GPUs on this node.
    pub gpus: &'a [u32],
    /// Which of the nodes this is.
    pub rank: usize,
    /// How often it was started before.
    pub restarts: u32,
}

impl Placed<'_> {
    /// Tasks on each node: spread evenly, the first ones have more.
    #[must_use]
    pub fn tasks_per_node(&self) -> Vec<u32> {
        if self.tasks == 0 {
            let each = self.cpus_per_task.max(1);
            return self.cpus.iter().map(|cpus| (cpus / each).max(1)).collect();
        }
        evenly(self.tasks, self.nodes.len())
    }

    /// The variables.
    #[must_use]
    pub fn variables(&self) -> Variables {
        let mut all = Variables::new();
        let mut set = |name: &str, value: String| drop(all.insert(name.to_owned(), value));
        let node = self.nodes.get(self.rank).map_or("", String::as_str);
        for name in ["SLURM_JOB_ID", "SLURM_JOBID"] {
            set(name, self.job.to_string());
        }
        for name in ["SLURM_JOB_NODELIST", "SLURM_NODELIST"] {
            set(name, hostlist::compress(self.nodes));
        }
        for name in ["SLURM_JOB_NUM_NODES", "SLURM_NNODES"] {
            set(name, self.nodes.len().to_string());
        }
        for name in ["SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR"] {
            set(name, node.to_owned());
        }
        for name in ["SLURM_CLUSTER_NAME", "SLURM_WORKING_CLUSTER"] {
            set(name, self.cluster.to_owned());
        }
        set("SLURM_TOPOLOGY_ADDR_PATTERN", "node".to_owned());
        set("SLURM_JOB_NAME", self.name.to_owned());
        set("SLURM_JOB_USER", self.user.to_owned());
        set("SLURM_JOB_PARTITION", self.partition.to_owned());
        set("SLURM_JOB_CPUS_PER_NODE", compact(self.cpus));
        set("SLURM_CPUS_ON_NODE", self.cpus.get(self.rank).copied().unwrap_or(1).to_string());
        set("SLURM_TASKS_PER_NODE", compact(&self.tasks_per_node()));
        set("SLURM_NODEID", self.rank.to_string());
        for name in ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_GTIDS"] {
            set(name, "0".to_owned());
        }
        if !self.gpus.is_empty() {
            let indexes: Vec<String> = self.gpus.iter().map(u32::to_string).collect();
            set("SLURM_GPUS_ON_NODE", indexes.len().to_string());
            set("SLURM_JOB_GPUS", indexes.join(","));
        }
        if let Some((array, index)) = self.array {
            set("SLURM_ARRAY_JOB_ID", array.to_string());
            set("SLURM_ARRAY_TASK_ID", index.to_string());
        }
        if self.restarts > 0 {
            set("SLURM_RESTART_COUNT", self.restarts.to_string());
        }
        all
    }
}

/// So many tasks on so many nodes, as evenly as can be, the first ones more.
#[must_use]
pub fn evenly(tasks: u32, nodes: usize) -> Vec<u32> {
    let count = u32::try_from(nodes.max(1)).unwrap_or(u32::MAX);
    (0..count).map(|node| tasks / count + u32::from(node < tasks % count)).collect()
}

/// Numbers of nodes, equal ones together: `72(x2),36`.
#[must_use]
pub fn compact(numbers: &[u32]) -> String {
    let groups = numbers.chunk_by(|left, right| left == right);
    let group = |group: &[u32]| match group.len() {
        1 => group[0].to_string(),
        count => format!("{}(x{count})", group[0]),
    };
    groups.map(group).collect::<Vec<_>>().join(",")
}

/// The numbers that [`compact`] has put together; none where the text is no such list.
#[must_use]
pub fn spread(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for group in text.split(',') {
        let (number, count) = match group.split_once("(x") {
            Some((number, count)) => (number, count.strip_suffix(')')?.parse::<usize>().ok()?),
            None => (group, 1),
        };
        numbers.extend(std::iter::repeat_n(number.parse::<u32>().ok()?, count.min(100_000)));
    }
    Some(numbers)
}

/// A step of a job: a command that runs once or several times on some of its nodes.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Its number within the job.
    pub id: u32,
    /// The nodes that it runs on.
    pub nodes: &'a [String],
    /// Tasks on each.
    pub tasks: &'a [u32],
}

impl Step<'_> {
    /// The variables of one of its tasks: the `local`-th on the `node`-th node.
    #[must_use]
    pub fn variables(&self, node: usize, local: u32) -> Variables {
        let before: u32 = self.tasks.iter().take(node).sum();
        let own = self.tasks.get(node).copied().unwrap_or(1);
        let all: u32 = self.tasks.iter().sum();
        let ranks: Vec<String> = (before..before + own).map(|rank| rank.to_string()).collect();
        [
            ("SLURM_STEP_ID", self.id.to_string()),
            ("SLURM_STEPID", self.id.to_string()),
            ("SLURM_STEP_NODELIST", hostlist::compress(self.nodes)),
            ("SLURM_STEP_NUM_NODES", self.nodes.len().to_string()),
            ("SLURM_NNODES", self.nodes.len().to_string()),
            ("SLURM_STEP_NUM_TASKS", all.to_string()),
            ("SLURM_STEP_TASKS_PER_NODE", compact(self.tasks)),
            ("SLURM_NTASKS", all.to_string()),
            ("SLURM_NPROCS", all.to_string()),
            ("SLURM_PROCID", (before + local).to_string()),
            ("SLURM_NODEID", node.to_string()),
            ("SLURM_LOCALID", local.to_string()),
            ("SLURM_GTIDS", ranks.join(",")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}
