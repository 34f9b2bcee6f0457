//! Runs of the published simulator as they were recorded, and the same runs here.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wharf_core::{ClusterSpec, NodeShare};
use wharf_perf::Profile;
use wharf_sim::{Outcome, Preset, Recorder, Round, RunSpec, Settings};
use wharf_trace::Trace;

use crate::gavel::data::cluster;

#[derive(Deserialize)]
pub(crate) struct Meta {
    pub(crate) policy: String,
    pub(crate) trace: String,
    pub(crate) cluster: String,
    pub(crate) gpus_per_server: String,
    pub(crate) seed: u64,
    pub(crate) throughputs: String,
    pub(crate) makespan: f64,
    pub(crate) lease_ext: [u64; 2],
    pub(crate) utilization: Option<f64>,
}

/// A round: when it began, and the keys with their devices in the order in which they were placed.
pub(crate) type Placed = (f64, Vec<(String, Vec<u32>)>);

#[derive(Deserialize)]
pub(crate) struct Recording {
    pub(crate) meta: Meta,
    /// Completion times by job; none for dropped jobs.
    pub(crate) jct: BTreeMap<String, Option<f64>>,
    pub(crate) rounds: Vec<Placed>,
}

/// Everything that a recorded run was made with.
pub(crate) struct Inputs {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) recording: Recording,
    pub(crate) trace: Trace,
    pub(crate) cluster: ClusterSpec,
}

/// The recordings, by name.
pub(crate) fn recordings(data: &Path) -> Vec<Inputs> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(data.join("goldens"))
        .expect("recordings")
        .map(|entry| entry.expect("one").path())
        .collect();
    paths.sort();
    paths.into_iter().map(|path| inputs(data, path)).collect()
}

fn inputs(data: &Path, path: PathBuf) -> Inputs {
    let mut text = String::new();
    let file = std::fs::File::open(&path).expect("a recording");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("text");
    let mut recording: Recording = serde_json::from_str(&text).expect("a recording");
    // Moments at which nothing was placed are no rounds here.
    recording.rounds.retain(|(_, placed)| !placed.is_empty());
    let meta = &recording.meta;
    let file = Path::new(&meta.trace).file_name().expect("a file");
    let trace = ["traces_physical", "traces_generated"].map(|folder| data.join(folder).join(file));
    let trace = trace.iter().find(|path| path.exists()).expect("a trace");
    let trace = wharf_trace::read_trace(trace, None).expect("a trace");
    let name = path.file_name().expect("a file").to_string_lossy().trim_end_matches(".json.gz").to_owned();
    let cluster = cluster(&meta.cluster, &meta.gpus_per_server);
    Inputs { name, path, recording, trace, cluster }
}

/// Notes rounds as they were recorded.
pub(crate) struct Notes {
    /// The number of each node's first device.
    first: Vec<u32>,
    pub(crate) rounds: Vec<Placed>,
}

impl Notes {
    pub(crate) fn new(cluster: &ClusterSpec) -> Self {
        let mut order: Vec<usize> = (0..cluster.nodes.len()).collect();
        order.sort_by(|&a, &b| cluster.nodes[a].device_type.cmp(&cluster.nodes[b].device_type));
        let mut first = vec![0; order.len()];
        let mut next = 0;
        for node in order {
            first[node] = next;
            next += cluster.nodes[node].devices;
        }
        Self { first, rounds: Vec::new() }
    }

    fn workers(&self, nodes: &[NodeShare]) -> Vec<u32> {
        let device = |share: &NodeShare| {
            let first = self.first[share.node.index()];
            share.devices.iter().map(move |device| first + device).collect::<Vec<u32>>()
        };
        nodes.iter().flat_map(device).collect()
    }
}

impl Recorder for Notes {
    fn wants_rounds(&self) -> bool {
        true
    }

    fn round(&mut self, round: &Round) {
        let keys =
            round.running.iter().filter(|running| running.beside.iter().all(|other| running.job < *other));
        let placed = keys.map(|running| {
            let jobs = std::iter::once(&running.job).chain(&running.beside);
            let names: Vec<String> = jobs.map(|job| job.0.to_string()).collect();
            (names.join(","), self.workers(&running.nodes))
        });
        self.rounds.push((round.time.seconds(), placed.collect()));
    }
}

/// Runs what was recorded.
pub(crate) fn run(inputs: &Inputs, profile: &Profile, settings: &[(&str, &str)]) -> (Outcome, Notes) {
    let preset = Preset::load("gavel").expect("it is built in");
    let mut chosen = Settings::default();
    settings.iter().for_each(|(key, value)| chosen.set(key, value));
    let meta = &inputs.recording.meta;
    let spec = RunSpec {
        trace: &inputs.trace,
        cluster: &inputs.cluster,
        policy: &meta.policy.replace('_', "-"),
        preset: &preset,
        settings: &chosen,
        seed: meta.seed,
        profile: Some(profile),
        rounds: None,
        failures: None,
    };
    let mut notes = Notes::new(&inputs.cluster);
    let outcome =
        wharf_sim::run(&spec, &mut notes).unwrap_or_else(|error| panic!("{}: {error}", inputs.name));
    (outcome, notes)
}
