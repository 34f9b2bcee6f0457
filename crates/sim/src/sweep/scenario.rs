//! Scenario files: what a person writes down to have run, read and checked for form.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wharf_trace::GeneratorSettings;

use super::document::{Item, Place, Section, Source};
use super::error::ScenarioError;
use super::generator;
use crate::Settings;

/// A scenario file with everything that it includes.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is called: names the folder of its results.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// What to run: those of included files first.
    pub matrices: Vec<Matrix>,
}

/// All combinations of some policies, traces, clusters, presets and seeds.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// What the combinations show.
    pub label: String,
    /// The policies, with their settings.
    pub policies: Vec<PolicyEntry>,
    /// The traces.
    pub traces: Vec<TraceEntry>,
    /// The clusters.
    pub clusters: Vec<ClusterEntry>,
    /// The presets.
    pub presets: Vec<PresetEntry>,
    /// The seeds.
    pub seeds: Vec<u64>,
}

/// A policy with settings.
#[derive(Clone, Debug)]
pub struct PolicyEntry {
    /// Where it is named.
    pub place: Place,
    /// The policy.
    pub policy: String,
    /// Its settings.
    pub settings: Settings,
    /// What tables call it.
    pub label: String,
}

/// A trace.
#[derive(Clone, Debug)]
pub struct TraceEntry {
    /// Where it is named.
    pub place: Place,
    /// Where it comes from.
    pub source: TraceSource,
}

/// Where a trace comes from.
#[derive(Clone, Debug)]
pub enum TraceSource {
    /// A file, relative to the data directory.
    File(String),
    /// The generator.
    Generated {
        /// What tables call it, where the scenario says.
        name: Option<String>,
        /// What to generate.
        settings: Box<GeneratorSettings>,
        /// Whether every seed of the matrix gets a trace of its own.
        is_each: bool,
    },
}

/// A cluster: a file relative to the data directory, or a short form.
#[derive(Clone, Debug)]
pub struct ClusterEntry {
    /// Where it is named.
    pub place: Place,
    /// The file or the short form.
    pub cluster: String,
}

/// A preset: a built-in name, or a file relative to the scenario file.
#[derive(Clone, Debug)]
pub struct PresetEntry {
    /// Where it is named.
    pub place: Place,
    /// The name or the file.
    pub preset: String,
}

/// Stands for every policy.
const ALL: &str = "all";

const SCENARIO_KEYS: &[&str] = &["name", "about", "include", "matrix"];
const MATRIX_KEYS: &[&str] = &["label", "policies", "traces", "clusters", "presets", "seeds"];
const POLICY_KEYS: &[&str] = &["policy", "set", "label"];
const TRACE_KEYS: &[&str] = &["generate", "name"];

impl Scenario {
    /// Reads a scenario file and the files that it includes.
    ///
    /// # Errors
    /// The first mistake, with its place; a file that includes itself, however indirectly, with the chain.
    pub fn load(file: &Path) -> Result<Self, ScenarioError> {
        let mut loader = Loader::default();
        let (name, about) = loader.load(file)?;
        if loader.matrices.is_empty() {
            return Err(ScenarioError::NoMatrix { file: file.to_owned() });
        }
        Ok(Self { name, about, matrices: loader.matrices })
    }
}

/// Reads files depth first.
#[derive(Default)]
struct Loader {
    /// The files being read, outermost first: as named, and as the file system knows them.
    open: Vec<(PathBuf, PathBuf)>,
    /// Files that were read to the end: a file that two others include counts once.
    done: Vec<PathBuf>,
    matrices: Vec<Matrix>,
}

impl Loader {
    fn load(&mut self, file: &Path) -> Result<(String, String), ScenarioError> {
        let failed = |source| ScenarioError::Read { file: file.to_owned(), source };
        let real = fs::canonicalize(file).map_err(failed)?;
        let text = fs::read_to_string(file).map_err(failed)?;
        let shared: Arc<Path> = file.into();
        let mut section = Source { file: &shared, text: &text }.parse()?;
        section.check_keys(SCENARIO_KEYS)?;
        let name = match section.take("name") {
            Some(item) => checked_name(&item)?,
            None => file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        };
        let about = section.take("about").map(|item| item.text().map(str::to_owned)).transpose()?;
        self.open.push((file.to_owned(), real.clone()));
        for item in section.take("include").map(Item::list).transpose()?.unwrap_or_default() {
            self.include(file, &item)?;
        }
        for item in section.take("matrix").map(Item::list).transpose()?.unwrap_or_default() {
            self.matrices.push(matrix(item.section("[[matrix]]")?, file)?);
        }
        self.open.pop();
        self.done.push(real);
        Ok((name, about.unwrap_or_default()))
    }

    fn include(&mut self, from: &Path, item: &Item<'_>) -> Result<(), ScenarioError> {
        let file = beside(from, item.text()?);
        let real = fs::canonicalize(&file).map_err(|_| ScenarioError::NotFound {
            place: item.place(),
            what: "scenario",
            name: file.display().to_string(),
            tried: vec![],
        })?;
        if let Some(first) = self.open.iter().position(|(_, open)| *open == real) {
            let mut chain: Vec<PathBuf> = self.open[first..].iter().map(|(named, _)| named.clone()).collect();
            chain.push(chain[0].clone());
            return Err(ScenarioError::IncludeCycle { place: item.place(), chain });
        }
        if !self.done.contains(&real) {
            self.load(&file)?;
        }
        Ok(())
    }
}

/// A path relative to the file that names it.
fn beside(file: &Path, name: &str) -> PathBuf {
    file.parent().unwrap_or_else(|| Path::new("")).join(name)
}

/// The scenario's name becomes a folder.
fn checked_name(item: &Item<'_>) -> Result<String, ScenarioError> {
    let name = item.text()?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
        return Err(
            item.bad(format!("`name` is `{name}`, but may only have letters, digits, `-`, `_` and `.`"))
        );
    }
    Ok(name.to_owned())
}

fn matrix(mut section: Section<'_>, file: &Path) -> Result<Matrix, ScenarioError> {
    section.check_keys(MATRIX_KEYS)?;
    let label = section.take("label").map(|item| item.text().map(str::to_owned)).transpose()?;
    let policies = entries(section.require("policies")?, "policies", policy_entries)?.concat();
    let traces = entries(section.require("traces")?, "traces", trace_entry)?;
    let clusters = entries(section.require("clusters")?, "clusters", |item| {
        Ok(ClusterEntry { place: item.place(), cluster: item.text()?.to_owned() })
    })?;
    let place = section.place();
    let presets = match section.take("presets") {
        Some(item) => entries(item, "presets", |item| preset_entry(&item, file))?,
        None => vec![PresetEntry { place, preset: "wharf".to_owned() }],
    };
    let seeds = match section.take("seeds") {
        Some(item) => entries(item, "seeds", |item| item.whole())?,
        None => vec![0],
    };
    Ok(Matrix { label: label.unwrap_or_default(), policies, traces, clusters, presets, seeds })
}

fn entries<'t, T>(
    item: Item<'t>,
    key: &'static str,
    read: impl Fn(Item<'t>) -> Result<T, ScenarioError>,
) -> Result<Vec<T>, ScenarioError> {
    let place = item.place();
    let list = item.list()?;
    if list.is_empty() {
        return Err(ScenarioError::EmptyList { place, key });
    }
    list.into_iter().map(read).collect()
}

/// One policy, or every policy of Wharf's own rules where the text is `all`.
fn policy_entries(item: Item<'_>) -> Result<Vec<PolicyEntry>, ScenarioError> {
    if !item.is_text() || item.text()? != ALL {
        return Ok(vec![policy_entry(item)?]);
    }
    let entry = |policy: &str| PolicyEntry {
        place: item.place(),
        label: policy.to_owned(),
        policy: policy.to_owned(),
        settings: Settings::default(),
    };
    Ok(wharf_reproduce::policies().map(|info| entry(info.name)).collect())
}

fn policy_entry(item: Item<'_>) -> Result<PolicyEntry, ScenarioError> {
    let place = item.place();
    if item.is_text() {
        let policy = item.text()?.to_owned();
        return Ok(PolicyEntry { place, label: policy.clone(), policy, settings: Settings::default() });
    }
    let mut section = item.section("a policy")?;
    section.check_keys(POLICY_KEYS)?;
    let policy = section.require("policy")?.text()?.to_owned();
    let mut settings = Settings::default();
    if let Some(item) = section.take("set") {
        for value in item.section("`set`")?.take_rest() {
            settings.set(value.key(), &value.setting()?);
        }
    }
    let label = match section.take("label") {
        Some(item) => item.text()?.to_owned(),
        None => label(&policy, &settings),
    };
    Ok(PolicyEntry { place, policy, settings, label })
}

/// What tables call a policy with settings: `muri-l ordering=worst`.
pub(crate) fn label(policy: &str, settings: &Settings) -> String {
    let settings = settings.iter().map(|(key, value)| format!(" {key}={value}"));
    std::iter::once(policy.to_owned()).chain(settings).collect()
}

fn trace_entry(item: Item<'_>) -> Result<TraceEntry, ScenarioError> {
    let place = item.place();
    if item.is_text() {
        return Ok(TraceEntry { place, source: TraceSource::File(item.text()?.to_owned()) });
    }
    let mut section = item.section("a trace")?;
    section.check_keys(TRACE_KEYS)?;
    let (settings, is_each) = generator::settings(section.require("generate")?.section("`generate`")?)?;
    let name = section.take("name").map(|item| item.text().map(str::to_owned)).transpose()?;
    Ok(TraceEntry { place, source: TraceSource::Generated { name, settings: Box::new(settings), is_each } })
}

fn preset_entry(item: &Item<'_>, file: &Path) -> Result<PresetEntry, ScenarioError> {
    let text = item.text()?;
    let relative = beside(file, text);
    let preset = if relative.is_file() { relative.display().to_string() } else { text.to_owned() };
    Ok(PresetEntry { place: item.place(), preset })
}
