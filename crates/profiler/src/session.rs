//! A session with the profiler: measures what the database lacks, and stores every answer as it comes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;
use wharf_perf::{Locality, Place, Workload};
use wharf_planner::comm::{Operation, Route};
use wharf_profile::measured::{Measured, NOT_RECOMPUTING, Subject};
use wharf_profile::{Facts, Key, Records, database};

use crate::{Profiler, ProfilerError, now};

/// What to measure into which database.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// The database; created if it does not exist.
    pub into: PathBuf,
    /// Name of the device type; as the device reports if there is none.
    pub device_type: Option<String>,
    /// Number of repetitions; the shortest time counts.
    pub rounds: u32,
    /// Whether what is in the database is measured again.
    pub again: bool,
    /// Whether activations are stored instead of recomputed.
    pub no_recompute: bool,
}

/// What the profiler says of itself, and what it could measure.
#[derive(Debug, Deserialize)]
pub struct Offer {
    tasks: Vec<Task>,
    /// Name of the model.
    pub name: String,
    batch: u32,
    /// Number of devices.
    pub devices: u32,
    device_kind: String,
    /// The machine.
    pub machine: String,
    /// Versions of the programs that measure.
    pub versions: String,
    /// Memory of a device.
    pub memory_gib: Option<f64>,
}

/// Something that can be measured.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Task {
    kind: String,
    key: String,
    plan: String,
    devices: Option<u32>,
    operation: String,
    groups: String,
    elements: u64,
    times: u32,
    flop: f64,
    bytes: f64,
    is_product: bool,
}

/// A measurement, or why there is none.
#[derive(Debug, Deserialize)]
struct Answer {
    task: usize,
    seconds: Option<f64>,
    #[serde(default)]
    failed: String,
}

/// How many tasks of a kind were measured, known before, and failed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Measured now.
    pub measured: usize,
    /// In the database before.
    pub known: usize,
    /// Without an answer.
    pub failed: usize,
}

impl Offer {
    /// Receives the profiler's answer to a request to measure; `None` after an interruption.
    ///
    /// # Errors
    /// [`ProfilerError`] if the process fails, or the answer is malformed.
    pub fn receive(profiler: &mut Profiler) -> Result<Option<Self>, ProfilerError> {
        let Some(offer) = profiler.next_answer()? else { return Ok(None) };
        serde_json::from_value(offer).map(Some).map_err(|error| shape("offer", &error))
    }

    /// Whether there is something of a subject to measure.
    #[must_use]
    pub fn has(&self, subject: &str) -> bool {
        // One of them has the name of all but for its end.
        self.tasks.iter().any(|task| subject.starts_with(&task.kind))
    }
}

fn shape(what: &'static str, error: &serde_json::Error) -> ProfilerError {
    ProfilerError::Shape { what, reason: error.to_string() }
}

/// What the database has.
pub struct Known {
    records: Records,
    measured: BTreeMap<Subject, Measured>,
}

impl Known {
    /// Reads a database; one that does not exist is empty.
    ///
    /// # Errors
    /// [`ProfilerError`] if it cannot be read.
    pub fn read(path: &Path) -> Result<Self, ProfilerError> {
        // An empty file is a new database.
        if std::fs::metadata(path).map_or(true, |metadata| metadata.len() == 0) {
            return Ok(Self { records: Records::default(), measured: BTreeMap::new() });
        }
        let records = database::read(path)?;
        let rows = database::measurements(path)?;
        Ok(Self { records, measured: rows.into_iter().map(|one| (one.subject.clone(), one)).collect() })
    }
}

/// Measurements of what the profiler offers.
pub struct Session {
    settings: SessionSettings,
    offer: Offer,
    known: Known,
    device_type: String,
    counts: BTreeMap<String, Count>,
    failures: Vec<String>,
}

impl Session {
    /// A session that has measured nothing yet.
    #[must_use]
    pub fn new(settings: SessionSettings, offer: Offer, known: Known) -> Self {
        let own = || offer.device_kind.to_lowercase().split_whitespace().collect::<Vec<_>>().join("-");
        let device_type = settings.device_type.as_ref().map_or_else(own, |name| name.to_lowercase());
        Self { settings, offer, known, device_type, counts: BTreeMap::new(), failures: vec![] }
    }

    /// What the profiler offers.
    #[must_use]
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Name of the device type.
    #[must_use]
    pub fn device_type(&self) -> &str {
        &self.device_type
    }

    /// Results by kind of task.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<String, Count> {
        &self.counts
    }

    /// A sentence for each failed measurement.
    #[must_use]
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Tasks that are to be measured, and in how many rounds each.
    pub fn missing(&mut self) -> Vec<(usize, u32)> {
        let mut missing = Vec::new();
        for (index, task) in self.offer.tasks.iter().enumerate() {
            let rounds = self.missing_rounds(task);
            self.counts.entry(task.kind.clone()).or_default().known += usize::from(rounds == 0);
            if rounds > 0 {
                missing.push((index, rounds));
            }
        }
        missing
    }

    /// Measures tasks; `on_answer` is called after each answer.
    ///
    /// # Errors
    /// [`ProfilerError`] if the process fails, or the database cannot be written.
    pub fn measure(
        &mut self,
        profiler: &mut Profiler,
        missing: &[(usize, u32)],
        on_answer: &dyn Fn(),
    ) -> Result<(), ProfilerError> {
        let (tasks, rounds): (Vec<usize>, Vec<u32>) = missing.iter().copied().unzip();
        profiler.send(&json!({ "rounds": rounds, "tasks": tasks }));
        let mut found: BTreeMap<usize, Measured> = BTreeMap::new();
        while let Some(answer) = profiler.next_answer()? {
            let answer: Answer =
                serde_json::from_value(answer).map_err(|error| shape("measurement", &error))?;
            self.take(&answer, &mut found)?;
            on_answer();
        }
        for (kind, count) in &mut self.counts {
            let of_kind =
                |index: &&usize| self.offer.tasks.get(**index).is_some_and(|task| task.kind == *kind);
            count.measured = found.keys().filter(of_kind).count();
        }
        Ok(())
    }

    /// Notes one measurement, in the database too.
    fn take(&mut self, answer: &Answer, found: &mut BTreeMap<usize, Measured>) -> Result<(), ProfilerError> {
        let Some(task) = self.offer.tasks.get(answer.task) else { return Ok(()) };
        let Some(seconds) = answer.seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0) else {
            let failure = format!("{}: {}", self.subject(task).key, answer.failed);
            if !self.failures.contains(&failure) {
                self.failures.push(failure);
                self.counts.entry(task.kind.clone()).or_default().failed += 1;
            }
            return Ok(());
        };
        let subject = self.subject(task);
        // Rounds of an earlier run that was interrupted count too, unless everything is to be new.
        let before = found.get(&answer.task).or_else(|| match self.settings.again {
            true => None,
            false => self.known(task),
        });
        let measured = Measured {
            seconds: before.map_or(seconds, |before| before.seconds.min(seconds)),
            rounds: before.map_or(0, |before| before.rounds) + 1,
            times: task.times,
            flop: task.flop,
            bytes: task.bytes,
            is_product: task.is_product,
            machine: self.offer.machine.clone(),
            versions: self.offer.versions.clone(),
            recorded: now(),
            subject,
        };
        let before = self.known.measured.insert(measured.subject.clone(), measured.clone());
        let records = self.records(task, &measured, before.as_ref());
        for (key, facts) in records.entries() {
            self.known.records.insert(key.clone(), facts.clone());
        }
        database::add_measured(&self.settings.into, &records, std::slice::from_ref(&measured))?;
        found.insert(answer.task, measured);
        Ok(())
    }

    /// What the database has of a task: of the same name, and with the same amount of work. Who edits a model has another one.
    fn known(&self, task: &Task) -> Option<&Measured> {
        let work = |one: &Measured| (one.times, one.flop, one.bytes);
        let known = self.known.measured.get(&self.subject(task))?;
        (work(known) == (task.times, task.flop, task.bytes)).then_some(known)
    }

    /// In how many rounds a task is still to be visited.
    fn missing_rounds(&self, task: &Task) -> u32 {
        if self.settings.again {
            return self.settings.rounds;
        }
        let is_in_table = || {
            let route = self.route(task).filter(|_| task.kind == "collective");
            let curve = route.and_then(|route| self.known.records.comm.curve(&route));
            curve.is_some_and(|curve| curve.points().any(|(elements, _)| elements == task.elements))
        };
        match self.known(task) {
            Some(measured) => self.settings.rounds.saturating_sub(measured.rounds),
            // Another process may have measured it.
            None if is_in_table() => 0,
            None => self.settings.rounds,
        }
    }

    /// What is known of what was offered now, and of nothing else that the database has.
    #[must_use]
    pub fn present(&self) -> Vec<&Measured> {
        self.offer.tasks.iter().filter_map(|task| self.known(task)).collect()
    }

    fn subject(&self, task: &Task) -> Subject {
        let key = match task.kind.as_str() {
            "collective" => format!("{} {} {}", task.operation, task.groups, task.elements),
            "plan" => {
                let how = if self.settings.no_recompute { NOT_RECOMPUTING } else { "" };
                format!("{}, {} samples{how}", task.plan, self.offer.batch)
            }
            _ => task.key.clone(),
        };
        let model = if task.kind == "collective" { String::new() } else { self.offer.name.clone() };
        let devices = task.devices.unwrap_or(self.offer.devices);
        Subject { kind: task.kind.clone(), key, model, device_type: self.device_type.clone(), devices }
    }

    fn route(&self, task: &Task) -> Option<Route> {
        Some(Route {
            device_type: self.device_type.as_str().into(),
            hosts: 1,
            per_host: self.offer.devices,
            is_infiniband: false,
            operation: Operation::from_name(&task.operation)?,
            groups: task.groups.as_str().into(),
        })
    }

    /// What others than us can use: speeds under plans, and communication times. `before` is what the database said of the task.
    fn records(&self, task: &Task, measured: &Measured, before: Option<&Measured>) -> Records {
        let mut records = Records::default();
        match task.kind.as_str() {
            "collective" => {
                if let Some(route) = self.route(task) {
                    records.comm.insert(route, task.elements, measured.seconds);
                }
            }
            // An entry does not say that nothing was computed again: who plans takes it for the usual way.
            "plan" if !self.settings.no_recompute => {
                let degrees = task.plan.split(".mb").next().unwrap_or_default();
                let of_model = |one: &&Measured| (one.flop, one.bytes) == (task.flop, task.bytes);
                // Of several numbers of microbatches the fastest counts.
                let rows = self.of_plan(degrees).filter(of_model);
                let fastest = rows.min_by(|one, two| one.seconds.total_cmp(&two.seconds));
                let (key, facts) = self.entry(degrees, fastest.unwrap_or(measured));
                // What others have measured stays where it is faster; what we said of it before does not.
                let is_to_stay = |known: &Facts| {
                    let mut rows = self.of_plan(degrees).chain(before);
                    let is_own = rows.any(|one| known.iterations_per_s == 1.0 / one.seconds);
                    !known.is_estimate && known.iterations_per_s >= facts.iterations_per_s && !is_own
                };
                if !self.known.records.get(&key).is_some_and(is_to_stay) {
                    records.insert(key, facts);
                }
            }
            _ => {}
        }
        records
    }

    /// What we have measured under these degrees with as many samples as now.
    fn of_plan(&self, degrees: &str) -> impl Iterator<Item = &Measured> {
        let ending = format!(", {} samples", self.offer.batch);
        let start = format!("{degrees}.mb");
        self.known.measured.values().filter(move |one| {
            let Subject { kind, key, model, device_type, .. } = &one.subject;
            kind == "plan"
                && (model, device_type) == (&self.offer.name, &self.device_type)
                && key.starts_with(&start)
                && key.ends_with(&ending)
        })
    }

    fn entry(&self, plan: &str, measured: &Measured) -> (Key, Facts) {
        let key = Key {
            workload: Workload { model: self.offer.name.as_str().into(), batch_size: Some(self.offer.batch) },
            place: Place {
                device_type: self.device_type.as_str().into(),
                devices: measured.subject.devices,
                locality: Locality::Packed,
            },
            plan: plan.to_owned(),
            beside: vec![],
        };
        let facts = Facts {
            iterations_per_s: 1.0 / measured.seconds,
            memory_mib: None,
            is_estimate: false,
            source: format!("{}; {}", measured.machine, measured.versions),
            recorded: measured.recorded.clone(),
        };
        (key, facts)
    }
}
