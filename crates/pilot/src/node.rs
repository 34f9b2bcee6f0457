//! A pilot on one of its nodes: from what Slurm says in the environment to the worker's command line.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use crate::error::PilotError;

/// One of a pilot's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEntry {
    /// Its name in the cluster.
    pub name: String,
    /// Where its worker's token is.
    pub token_file: PathBuf,
}

/// What a pilot's nodes have to know. It holds no secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Where the head is.
    pub head: String,
    /// The nodes, in Slurm's order.
    pub nodes: Vec<NodeEntry>,
    /// Devices of each node.
    pub devices: u32,
    /// Whether they are Slurm's to hand out; otherwise they are slots.
    pub is_gres: bool,
    /// What they are declared as; none: what the worker finds.
    pub device_type: Option<String>,
    /// The pool of the nodes.
    pub pool: String,
    /// Memory of each node; 0: all that the machine has.
    pub memory_mib: u64,
    /// It ends when it has had nothing to do for so long; none: it does not.
    pub idle_s: Option<f64>,
    /// How long the allocation lasts.
    pub limit_s: f64,
    /// Its jobs are requested to leave so long before.
    pub leave_before_s: f64,
    /// A folder on the node's own disk.
    pub scratch: PathBuf,
}

impl NodeSpec {
    /// Reads what was written down for a pilot.
    ///
    /// # Errors
    /// [`PilotError`] where it cannot be read.
    pub fn read(path: &Path) -> Result<Self, PilotError> {
        let text = fs::read_to_string(path).map_err(PilotError::file("read", path))?;
        serde_json::from_str(&text).map_err(|source| PilotError::Malformed { path: path.to_owned(), source })
    }
}

/// Where a pilot's worker runs, as far as that has to be known.
#[derive(Clone, Debug)]
pub struct WorkerPlace<'a> {
    /// The environment.
    pub env: &'a BTreeMap<String, String>,
    /// Seconds since the Unix epoch.
    pub now_s: f64,
    /// What the machine calls itself.
    pub host: &'a str,
    /// The worker's own folder.
    pub home: &'a Path,
}

/// Which of the pilot's nodes this is, and the id of its Slurm job.
///
/// # Errors
/// [`PilotError::Outside`] where Slurm has not started it.
pub fn identity(env: &BTreeMap<String, String>) -> Result<(String, usize), PilotError> {
    let job = env.get("SLURM_JOB_ID").ok_or(PilotError::Outside { variable: "SLURM_JOB_ID" })?;
    let index = env.get("SLURM_NODEID").and_then(|text| text.parse().ok());
    let index = index.ok_or(PilotError::Outside { variable: "SLURM_NODEID" })?;
    Ok((job.clone(), index))
}

/// The words of the worker's command line.
///
/// # Errors
/// [`PilotError`] if Slurm has not granted the request.
pub fn worker_words(spec: &NodeSpec, place: &WorkerPlace<'_>) -> Result<Vec<String>, PilotError> {
    let (_, index) = identity(place.env)?;
    let node = spec.nodes.get(index).ok_or_else(|| PilotError::Setting {
        setting: "nodes",
        reason: format!("this is node {index} of an allocation, and the pilot has {}", spec.nodes.len()),
    })?;
    let mut words = vec!["worker".to_owned()];
    let mut add = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    add("home", place.home.to_string_lossy().into_owned());
    add("head", spec.head.clone());
    add("join-token-file", node.token_file.to_string_lossy().into_owned());
    add("node", node.name.clone());
    add("address", address(&spec.head, place.host).to_owned());
    let numbers = if spec.is_gres { device_numbers(place.env, spec.devices)? } else { vec![] };
    let declared = spec.device_type.clone().or_else(|| (!spec.is_gres).then(|| "cpu".to_owned()));
    if let Some(kind) = declared {
        add("devices", format!("{kind}:{}", spec.devices));
    }
    if !numbers.is_empty() {
        add("device-numbers", numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    }
    if !spec.pool.is_empty() {
        add("pool", spec.pool.clone());
    }
    if let Some(cpus) = place.env.get("SLURM_CPUS_ON_NODE").filter(|cpus| cpus.parse::<u32>().is_ok()) {
        add("cpus", cpus.clone());
    }
    if spec.memory_mib > 0 {
        add("memory", format!("{}M", spec.memory_mib));
    }
    if let Some(idle_s) = spec.idle_s {
        add("leave-when-idle", format!("{idle_s}s"));
    }
    add("leave-at", format!("{:.0}", end_s(spec, place) - spec.leave_before_s));
    words.push("--leave".to_owned());
    Ok(words)
}

/// When Slurm takes the node away.
fn end_s(spec: &NodeSpec, place: &WorkerPlace<'_>) -> f64 {
    let moment = |name: &str| place.env.get(name)?.parse::<f64>().ok().filter(|at_s| *at_s > 0.0);
    let begun = moment("SLURM_JOB_START_TIME").unwrap_or(place.now_s);
    moment("SLURM_JOB_END_TIME").unwrap_or(begun + spec.limit_s)
}

/// Where others of a gang reach this node. A head that only this machine reaches has no workers elsewhere.
fn address<'a>(head: &str, host: &'a str) -> &'a str {
    let is_local = ["127.", "localhost:", "[::1]:"].iter().any(|start| head.starts_with(start));
    if is_local { "127.0.0.1" } else { host }
}

/// The numbers of the devices that Slurm has given, as programs have to name them here.
fn device_numbers(env: &BTreeMap<String, String>, wanted: u32) -> Result<Vec<u32>, PilotError> {
    // The first is what programs go by: where devices are fenced in, it counts again inside the fence.
    let names = ["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"];
    let numbers = |name: &&str| {
        let list = env.get(*name)?.split(',').map(|word| word.trim().parse::<u32>());
        list.collect::<Result<Vec<u32>, _>>().ok()
    };
    let found = names.iter().find_map(numbers).unwrap_or_default();
    if found.len() == wanted as usize {
        return Ok(found);
    }
    Err(PilotError::Setting {
        setting: "gres",
        reason: format!(
            "Slurm has given {} devices on this node, and pilots are to have {wanted}",
            found.len()
        ),
    })
}

/// Whether a variable is about the pilot's own Slurm job, and would mislead the jobs that run in it.
#[must_use]
pub fn is_of_the_pilot(name: &str) -> bool {
    const PREFIXES: [&str; 7] = ["SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "PMI_", "PMI2_", "PMIX_"];
    const NAMES: [&str; 6] = [
        "CUDA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "ZE_AFFINITY_MASK",
        "ENVIRONMENT",
    ];
    // Where Slurm is configured is the site's, not the pilot's.
    name != "SLURM_CONF" && (PREFIXES.iter().any(|start| name.starts_with(start)) || NAMES.contains(&name))
}

/// What one node of a pilot tells the others of itself, by a file beside what they all have read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Its worker was started.
    Up,
    /// Its worker is gone; with the exit code.
    Gone,
}

impl Mark {
    fn path(self, spec: &Path, index: usize) -> PathBuf {
        let word = if self == Self::Up { "up" } else { "gone" };
        spec.with_file_name(format!("{index}.{word}"))
    }
}

/// Leaves a mark.
///
/// # Errors
/// [`PilotError::File`]
pub fn mark(spec: &Path, mark: Mark, index: usize, text: &str) -> Result<(), PilotError> {
    let path = mark.path(spec, index);
    // Whole or not at all: others read it at any time.
    let written = wharf_staging::write(&path, text).map_err(io::Error::from);
    written.map_err(PilotError::file("write", &path))
}

/// What the nodes' marks say, in their order, as far as they are there.
#[must_use]
pub fn marked(spec: &Path, mark: Mark) -> Vec<String> {
    (0..).map_while(|index| fs::read_to_string(mark.path(spec, index)).ok()).collect()
}

/// Makes the worker's own folder on the node's disk. One that is left from an earlier run of the same job is replaced.
///
/// # Errors
/// [`PilotError::File`], also if another user has a folder of that name.
pub fn make_home(scratch: &Path, job: &str, index: usize) -> Result<PathBuf, PilotError> {
    let uid = geteuid();
    let home = scratch.join(format!("wharf-pilot-{uid}-{job}-{index}"));
    let failed = |source| PilotError::File { what: "make", path: home.clone(), source };
    if let Ok(known) = fs::symlink_metadata(&home)
        && known.is_dir()
        && known.uid() == uid.as_raw()
    {
        fs::remove_dir_all(&home).map_err(failed)?;
    }
    // Tasks of other users, which only root can have, pass through it.
    let mode = if uid.is_root() { 0o711 } else { 0o700 };
    DirBuilder::new().mode(mode).create(&home).map_err(failed)?;
    Ok(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let base = [("SLURM_JOB_ID", "7"), ("SLURM_NODEID", "1")];
        base.iter().chain(pairs).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn spec() -> NodeSpec {
        let node =
            |index: u32| NodeEntry { name: format!("s-0-{index}"), token_file: format!("/p/{index}").into() };
        NodeSpec {
            head: "head1:7717".into(),
            nodes: vec![node(0), node(1)],
            devices: 2,
            is_gres: true,
            device_type: Some("v100".into()),
            limit_s: 3600.0,
            leave_before_s: 120.0,
            ..NodeSpec::default()
        }
    }

    fn words(spec: &NodeSpec, env: &BTreeMap<String, String>) -> Result<String, String> {
        let place = WorkerPlace { env, now_s: 1000.0, host: "n2", home: Path::new("/tmp/h") };
        worker_words(spec, &place).map(|words| words.join(" ")).map_err(|error| error.to_string())
    }

    #[test]
    fn worker_receives_the_devices_given_by_slurm() {
        let gpus = env(&[("CUDA_VISIBLE_DEVICES", "1,3"), ("SLURM_CPUS_ON_NODE", "8")]);
        let expected = "worker --home /tmp/h --head head1:7717 --join-token-file /p/1 --node s-0-1 --address n2 \
                        --devices v100:2 --device-numbers 1,3 --cpus 8 --leave-at 4480 --leave";
        assert_eq!(words(&spec(), &gpus).as_deref(), Ok(expected));
        let ended = env(&[("CUDA_VISIBLE_DEVICES", "1,3"), ("SLURM_JOB_END_TIME", "5000")]);
        assert!(words(&spec(), &ended).unwrap().contains("--leave-at 4880"));
        let found = NodeSpec { device_type: None, idle_s: Some(60.0), ..spec() };
        let found = words(&found, &env(&[("SLURM_JOB_GPUS", "0,1")])).unwrap();
        assert!(found.contains("--device-numbers 0,1") && !found.contains("--devices "), "{found}");
        assert!(found.contains("--leave-when-idle 60s"));
        let slots = NodeSpec { is_gres: false, device_type: None, head: "127.0.0.1:1".into(), ..spec() };
        let slots = words(&slots, &env(&[])).unwrap();
        assert!(slots.contains("--devices cpu:2") && slots.contains("--address 127.0.0.1"), "{slots}");
    }

    #[test]
    fn missing_slurm_resources_are_reported() {
        let few = words(&spec(), &env(&[("CUDA_VISIBLE_DEVICES", "1")])).unwrap_err();
        assert_eq!(few, "gres: Slurm has given 1 devices on this node, and pilots are to have 2");
        let outside = words(&spec(), &BTreeMap::new()).unwrap_err();
        assert!(outside.starts_with("`SLURM_JOB_ID` is not set"));
        let third = env(&[("SLURM_NODEID", "2")]);
        assert!(words(&spec(), &third).unwrap_err().contains("the pilot has 2"));
    }

    #[test]
    fn jobs_do_not_see_the_pilots_own_slurm_job() {
        for name in ["SLURM_JOB_ID", "SLURMD_NODENAME", "PMI_RANK", "CUDA_VISIBLE_DEVICES"] {
            assert!(is_of_the_pilot(name), "{name}");
        }
        for name in ["PATH", "SLURM_CONF", "HOME", "PMIXER"] {
            assert!(!is_of_the_pilot(name), "{name}");
        }
    }

    #[test]
    fn marks_are_counted_from_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let spec = folder.path().join("spec.json");
        mark(&spec, Mark::Up, 1, "").unwrap();
        assert_eq!(marked(&spec, Mark::Up).len(), 0, "the first is missing");
        mark(&spec, Mark::Up, 0, "").unwrap();
        assert_eq!(marked(&spec, Mark::Up).len(), 2);
        mark(&spec, Mark::Gone, 0, "3").unwrap();
        assert_eq!(marked(&spec, Mark::Gone), ["3"]);
    }

    #[test]
    fn home_is_recreated_and_never_that_of_another_user() {
        let scratch = tempfile::tempdir().unwrap();
        let home = make_home(scratch.path(), "7", 0).unwrap();
        fs::write(home.join("old"), "").unwrap();
        assert_eq!(make_home(scratch.path(), "7", 0).unwrap(), home);
        assert!(!home.join("old").exists());
        fs::remove_dir(&home).unwrap();
        std::os::unix::fs::symlink("/etc", &home).unwrap();
        assert!(make_home(scratch.path(), "7", 0).is_err(), "a symbolic link is not followed");
    }
}
