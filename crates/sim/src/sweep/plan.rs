//! What a scenario comes down to: every input read once, every run checked, equal runs counted once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wharf_core::ClusterSpec;
use wharf_perf::Profile;
use wharf_trace::{
    Finding, Format, GeneratorSettings, Trace, generate, parse_cluster, parse_cluster_file, read_noted,
    write_trace,
};

use super::document::Place;
use super::error::ScenarioError;
use super::key::{ContentHash, RunKey};
use super::scenario::{Matrix, PolicyEntry, Scenario, TraceEntry, TraceSource};
use crate::preset::Preset;
use crate::run::{RunSpec, check};
use crate::{FailureList, RunError, Settings};

/// An input with the name that tables give it.
#[derive(Debug)]
pub struct Named<T> {
    /// The name.
    pub name: String,
    /// The input.
    pub value: T,
    hash: ContentHash,
}

/// One run: everything that determines it, and the key made of all that.
#[derive(Clone, Debug)]
pub struct PlannedRun {
    /// The key.
    pub key: RunKey,
    /// The policy.
    pub policy: String,
    /// Its settings.
    pub settings: Settings,
    /// The workload.
    pub trace: Arc<Named<Trace>>,
    /// The machines.
    pub cluster: Arc<Named<ClusterSpec>>,
    /// The rules.
    pub preset: Arc<Named<Preset>>,
    /// The seed.
    pub seed: u64,
    /// How fast models run on which devices.
    pub profile: Option<Profile>,
    /// The content of the failure file that the settings name.
    pub failures: Option<FailureList>,
}

impl PlannedRun {
    /// What the simulator is given.
    pub fn spec(&self) -> RunSpec<'_> {
        RunSpec {
            trace: &self.trace.value,
            cluster: &self.cluster.value,
            policy: &self.policy,
            preset: &self.preset.value,
            settings: &self.settings,
            seed: self.seed,
            profile: self.profile.as_ref(),
            rounds: None,
            failures: self.failures.as_ref(),
        }
    }

    /// A guess at how long it takes, for beginning with the longest: events touch what waits, and sharing policies
    /// match jobs in pairs.
    fn cost(&self) -> u128 {
        let jobs = self.trace.value.jobs.len() as u128;
        let weight = if self.policy.starts_with("muri") || self.policy == "themis" { 16 } else { 1 };
        jobs * jobs * weight
    }
}

/// A row of the result table: a run under a matrix, by the name that the scenario gives its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRow {
    /// The matrix, by position in [`SweepPlan::matrices`].
    pub matrix: usize,
    /// The run, by position in [`SweepPlan::runs`].
    pub run: usize,
    /// What the scenario calls the policy.
    pub label: String,
}

/// Everything that a scenario wants run.
#[derive(Debug)]
pub struct SweepPlan {
    /// The scenario's name.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// The labels of its matrices.
    pub matrices: Vec<String>,
    /// The runs, each one once.
    pub runs: Vec<PlannedRun>,
    /// The rows of the result table, in the scenario's order.
    pub rows: Vec<PlannedRow>,
    /// What was left out of traces, or changed in them.
    pub notes: Vec<Finding>,
}

impl SweepPlan {
    /// Reads every input and checks every run. `version` stands for the code that will run it.
    ///
    /// # Errors
    /// The first thing that is wrong, with the place in the scenario.
    pub fn new(scenario: &Scenario, data: &Path, version: &str) -> Result<Self, ScenarioError> {
        Self::profiled(scenario, data, version, None)
    }

    /// As [`SweepPlan::new`], with a profile for all runs.
    ///
    /// # Errors
    /// As [`SweepPlan::new`].
    pub fn profiled(
        scenario: &Scenario,
        data: &Path,
        version: &str,
        profile: Option<Profile>,
    ) -> Result<Self, ScenarioError> {
        let mut planner = Planner::new(data, version, profile);
        for matrix in &scenario.matrices {
            planner.add(matrix)?;
        }
        Ok(Self {
            name: scenario.name.clone(),
            about: scenario.about.clone(),
            matrices: scenario.matrices.iter().map(|matrix| matrix.label.clone()).collect(),
            runs: planner.runs,
            rows: planner.rows,
            notes: planner.notes,
        })
    }

    /// The runs by position, those that probably take longest first.
    pub fn longest_first(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.runs.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(self.runs[index].cost()));
        order
    }
}

/// What a profile says, as one number.
fn hash_of(profile: &Profile) -> String {
    let mut hash = ContentHash::new();
    let mut add = |field: String| hash.add_field(&field);
    profile.all_entries().for_each(|entry| add(format!("{entry:?}")));
    profile.all_pairs().for_each(|pair| add(format!("{pair:?}")));
    profile.prices().for_each(|price| add(format!("{price:?}")));
    add(format!("{:?}", profile.told_reference()));
    hash.to_string()
}

struct Planner<'a> {
    data: &'a Path,
    version: &'a str,
    profile: Option<(Profile, String)>,
    traces: BTreeMap<String, Arc<Named<Trace>>>,
    clusters: BTreeMap<String, Arc<Named<ClusterSpec>>>,
    presets: BTreeMap<String, Arc<Named<Preset>>>,
    by_key: BTreeMap<RunKey, usize>,
    runs: Vec<PlannedRun>,
    rows: Vec<PlannedRow>,
    notes: Vec<Finding>,
    matrix_count: usize,
}

impl<'a> Planner<'a> {
    fn new(data: &'a Path, version: &'a str, profile: Option<Profile>) -> Self {
        Self {
            data,
            version,
            profile: profile.map(|profile| {
                let hash = hash_of(&profile);
                (profile, hash)
            }),
            traces: BTreeMap::new(),
            clusters: BTreeMap::new(),
            presets: BTreeMap::new(),
            by_key: BTreeMap::new(),
            runs: vec![],
            rows: vec![],
            notes: vec![],
            matrix_count: 0,
        }
    }

    fn add(&mut self, matrix: &Matrix) -> Result<(), ScenarioError> {
        let clusters = matrix.clusters.iter().map(|entry| self.cluster(&entry.place, &entry.cluster));
        let clusters = clusters.collect::<Result<Vec<_>, _>>()?;
        let presets = matrix.presets.iter().map(|entry| self.preset(&entry.place, &entry.preset));
        let presets = presets.collect::<Result<Vec<_>, _>>()?;
        for preset in &presets {
            for cluster in &clusters {
                for entry in &matrix.traces {
                    for &seed in &matrix.seeds {
                        let trace = self.trace(entry, seed, preset.value.trace_format())?;
                        for policy in &matrix.policies {
                            self.add_run(policy, &trace, cluster, preset, seed)?;
                        }
                    }
                }
            }
        }
        self.matrix_count += 1;
        Ok(())
    }

    fn add_run(
        &mut self,
        entry: &PolicyEntry,
        trace: &Arc<Named<Trace>>,
        cluster: &Arc<Named<ClusterSpec>>,
        preset: &Arc<Named<Preset>>,
        seed: u64,
    ) -> Result<(), ScenarioError> {
        let mut settings = entry.settings.clone();
        let mut hash = ContentHash::new();
        let mut failures = None;
        if let Some(file) = entry.settings.get(FailureList::SETTING) {
            let file = find(self.data, file, "failures", "failure file", &entry.place)?;
            let content = std::fs::read_to_string(&file)
                .map_err(|source| ScenarioError::Read { file: file.clone(), source })?;
            hash.add(content.as_bytes());
            let path = file.display().to_string();
            let list = FailureList::parse(&path, &content, &cluster.value);
            failures = Some(list.map_err(|error| ScenarioError::Run {
                place: entry.place.clone(),
                run: format!("`{}`", entry.label),
                source: Box::new(RunError::Failures(error)),
            })?);
            settings.set(FailureList::SETTING, &path);
        }
        let inputs = [trace.hash, cluster.hash, preset.hash].map(|hash| hash.to_string());
        inputs.iter().for_each(|input| hash.add_field(input));
        hash.add_field(self.version);
        if let Some((_, profile)) = &self.profile {
            hash.add_field(profile);
        }
        hash.add_field(&entry.policy);
        for (key, value) in entry.settings.iter() {
            hash.add_field(key);
            hash.add_field(value);
        }
        hash.add_field(&seed.to_string());
        let run = PlannedRun {
            key: RunKey(hash),
            policy: entry.policy.clone(),
            settings,
            trace: trace.clone(),
            cluster: cluster.clone(),
            preset: preset.clone(),
            seed,
            profile: self.profile.as_ref().map(|(profile, _)| profile.clone()),
            failures,
        };
        let index = match self.by_key.get(&run.key) {
            Some(&index) => index,
            None => {
                checked(entry, &run)?;
                self.by_key.insert(run.key, self.runs.len());
                self.runs.push(run);
                self.runs.len() - 1
            }
        };
        let row = PlannedRow { matrix: self.matrix_count, run: index, label: entry.label.clone() };
        if !self.rows.contains(&row) {
            self.rows.push(row);
        }
        Ok(())
    }

    fn trace(
        &mut self,
        entry: &TraceEntry,
        seed: u64,
        format: Option<Format>,
    ) -> Result<Arc<Named<Trace>>, ScenarioError> {
        let memo = match &entry.source {
            TraceSource::File(name) => format!("{name} {format:?}"),
            TraceSource::Generated { name, settings, is_each } => {
                format!("{name:?} {settings:?} {:?}", is_each.then_some(seed))
            }
        };
        if let Some(trace) = self.traces.get(&memo) {
            return Ok(trace.clone());
        }
        let failed = |source| ScenarioError::Trace { place: entry.place.clone(), source: Box::new(source) };
        let trace = match &entry.source {
            TraceSource::File(name) => {
                let path = find(self.data, name, "traces", "trace", &entry.place)?;
                let read = read_noted(&path, format).map_err(failed)?;
                self.notes.extend(read.notes);
                read.trace
            }
            TraceSource::Generated { name, settings, is_each } => {
                let seed = if *is_each { seed } else { settings.seed };
                let settings = GeneratorSettings { seed, ..(**settings).clone() };
                generated(entry, name.as_deref(), &settings)?
            }
        };
        let mut hash = ContentHash::new();
        hash.add_field(&trace.name);
        if trace.jobs.iter().any(|job| job.gang.needs.as_deref().is_some_and(|needs| !needs.is_plain())) {
            hash.add_field(&format!("{:?}", trace.jobs));
        } else {
            // A hash takes whatever is written to it.
            let _ = write_trace(&trace, Format::NATIVE_JSONL, &mut hash);
        }
        let named = Arc::new(Named { name: trace.name.clone(), value: trace, hash });
        self.traces.insert(memo, named.clone());
        Ok(named)
    }

    fn cluster(&mut self, place: &Place, text: &str) -> Result<Arc<Named<ClusterSpec>>, ScenarioError> {
        if let Some(cluster) = self.clusters.get(text) {
            return Ok(cluster.clone());
        }
        let failed = |source| ScenarioError::Cluster { place: place.clone(), source: Box::new(source) };
        // What looks like a file's name is meant to be one; anything else is a short form.
        let (name, cluster) = match find(self.data, text, "cluster", "cluster", place) {
            Ok(file) => {
                let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                (stem, parse_cluster_file(&file).map_err(failed)?)
            }
            Err(error) if text.contains(['.', '/']) => return Err(error),
            Err(_) => (text.to_owned(), parse_cluster(text).map_err(failed)?),
        };
        let hash = ContentHash::of(format!("{name} {cluster:?}").as_bytes());
        let named = Arc::new(Named { name, value: cluster, hash });
        self.clusters.insert(text.to_owned(), named.clone());
        Ok(named)
    }

    fn preset(&mut self, place: &Place, text: &str) -> Result<Arc<Named<Preset>>, ScenarioError> {
        if let Some(preset) = self.presets.get(text) {
            return Ok(preset.clone());
        }
        let failed = |source| ScenarioError::Preset { place: place.clone(), source: Box::new(source) };
        let preset = Preset::load(text).map_err(failed)?;
        let hash = ContentHash::of(format!("{preset:?}").as_bytes());
        let named = Arc::new(Named { name: preset.name.clone(), value: preset, hash });
        self.presets.insert(text.to_owned(), named.clone());
        Ok(named)
    }
}

fn generated(
    entry: &TraceEntry,
    name: Option<&str>,
    settings: &GeneratorSettings,
) -> Result<Trace, ScenarioError> {
    let mut trace = generate(settings).map_err(|error| ScenarioError::BadValue {
        place: entry.place.clone(),
        message: error.to_string(),
    })?;
    if let Some(name) = name {
        name.clone_into(&mut trace.name);
    }
    Ok(trace)
}

fn checked(entry: &PolicyEntry, run: &PlannedRun) -> Result<(), ScenarioError> {
    check(&run.spec()).map_err(|source| ScenarioError::Run {
        place: entry.place.clone(),
        run: format!(
            "`{}` on trace `{}`, cluster `{}`, preset `{}`",
            entry.label, run.trace.name, run.cluster.name, run.preset.name
        ),
        source: Box::new(source),
    })
}

/// The file of that name in the data directory, or in its subdirectory for this kind of file.
fn find(
    data: &Path,
    name: &str,
    folder: &str,
    what: &'static str,
    place: &Place,
) -> Result<PathBuf, ScenarioError> {
    let tried = vec![data.join(name), data.join(folder).join(name)];
    match tried.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(ScenarioError::NotFound { place: place.clone(), what, name: name.to_owned(), tried }),
    }
}
