//! `wharf profile run`: asks what can be measured, has measured what the database lacks, and notes it as it comes.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use wharf_perf::comm::{Operation, Route};
use wharf_perf::{Locality, Place, Workload};
use wharf_profile::measured::{Measured, NOT_RECOMPUTING, Subject};
use wharf_profile::{Facts, Key, Records, database};

use super::exchange::now;
use super::hardware;
use super::profiler::Profiler;
use crate::args::{OutputFormat, ProfileRunArgs, ProfileSubjectArg};
use crate::error::{CliError, ErrorKind, translate};
use crate::exit::Exit;
use crate::interrupt;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// What the profiler says of itself, and what it could measure.
#[derive(Debug, Deserialize)]
pub(super) struct Offer {
    tasks: Vec<Task>,
    pub(super) name: String,
    batch: u32,
    pub(super) devices: u32,
    device_kind: String,
    machine: String,
    versions: String,
    pub(super) memory_gib: Option<f64>,
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

/// How it went, by kind of task.
#[derive(Default)]
struct Count {
    measured: usize,
    known: usize,
    failed: usize,
}

/// Measures.
pub(super) fn run(args: &ProfileRunArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let known = Known::read(&args.into)?;
    let mut profiler = Profiler::start(&args.profiler.python)?;
    profiler.say(&request(args));
    let Some(offer) = profiler.next()? else { return Ok(interrupt::handled().unwrap_or(Exit::Internal)) };
    let offer: Offer = serde_json::from_value(offer)
        .map_err(|error| CliError::new(ErrorKind::Internal, format!("the profiler's offer: {error}")))?;
    let mut session = Session::new(args, offer, known);
    session.measure(&mut profiler, terminal)?;
    session.show(terminal)?;
    if let Some(signal) = interrupt::handled() {
        terminal.note("interrupted; what was measured is kept, and the same command goes on from there");
        return Ok(signal);
    }
    if let Some(target) = &args.hardware {
        hardware::write(target, &args.into, &session.device_type, &session.offer)?;
    }
    match session.failures.len() {
        0 => Ok(Exit::Ok),
        failed => Err(CliError::input(format!("{failed} measurements failed; all others are kept"))),
    }
}

fn request(args: &ProfileRunArgs) -> Value {
    let subjects = if args.what.is_empty() {
        let mut subjects = vec![ProfileSubjectArg::Collectives];
        if args.model.is_some() {
            subjects.extend([ProfileSubjectArg::Operators, ProfileSubjectArg::Layers]);
        }
        subjects.extend((!args.plans.is_empty()).then_some(ProfileSubjectArg::Plans));
        subjects
    } else {
        args.what.clone()
    };
    json!({
        "do": "measure",
        "what": subjects.iter().map(|subject| subject.name()).collect::<Vec<_>>(),
        "model": args.model,
        "plans": args.plans,
        "batch": args.batch,
        "devices": args.devices,
        "host_devices": args.profiler.host_devices,
        "no_recompute": args.no_recompute,
    })
}

/// What the database has.
struct Known {
    records: Records,
    measured: BTreeMap<Subject, Measured>,
}

impl Known {
    fn read(path: &Path) -> Result<Self, CliError> {
        if !path.exists() {
            return Ok(Self { records: Records::default(), measured: BTreeMap::new() });
        }
        let failed = |error| translate::profile(&error);
        let records = database::read(path).map_err(failed)?;
        let rows = database::measurements(path).map_err(failed)?;
        Ok(Self { records, measured: rows.into_iter().map(|one| (one.subject.clone(), one)).collect() })
    }
}

struct Session<'a> {
    args: &'a ProfileRunArgs,
    offer: Offer,
    known: Known,
    device_type: String,
    counts: BTreeMap<String, Count>,
    failures: Vec<String>,
}

impl<'a> Session<'a> {
    fn new(args: &'a ProfileRunArgs, offer: Offer, known: Known) -> Self {
        let own = || offer.device_kind.to_lowercase().split_whitespace().collect::<Vec<_>>().join("-");
        let device_type = args.device_type.as_ref().map_or_else(own, |name| name.to_lowercase());
        Self { args, offer, known, device_type, counts: BTreeMap::new(), failures: vec![] }
    }

    fn measure(&mut self, profiler: &mut Profiler, terminal: &Terminal) -> Result<(), CliError> {
        let mut wanted = Vec::new();
        for (index, task) in self.offer.tasks.iter().enumerate() {
            let is_known = !self.args.again && self.is_known(task);
            self.counts.entry(task.kind.clone()).or_default().known += usize::from(is_known);
            if !is_known {
                wanted.push(index);
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let steps = wanted.len() as u64 * u64::from(self.args.rounds);
        let progress = terminal.progress(steps, "measurements");
        profiler.say(&json!({ "rounds": self.args.rounds, "tasks": wanted }));
        let mut found: BTreeMap<usize, Measured> = BTreeMap::new();
        while let Some(answer) = profiler.next()? {
            let answer: Answer = serde_json::from_value(answer)
                .map_err(|error| CliError::new(ErrorKind::Internal, format!("a measurement: {error}")))?;
            self.take(&answer, &mut found)?;
            progress.add(1);
        }
        progress.finish();
        for (kind, count) in &mut self.counts {
            let of_kind =
                |index: &&usize| self.offer.tasks.get(**index).is_some_and(|task| task.kind == *kind);
            count.measured = found.keys().filter(of_kind).count();
        }
        self.failures.iter().for_each(|failure| terminal.warn(failure));
        Ok(())
    }

    /// Notes one measurement, in the database too.
    fn take(&mut self, answer: &Answer, found: &mut BTreeMap<usize, Measured>) -> Result<(), CliError> {
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
        let before = found.get(&answer.task).or_else(|| match self.args.again {
            true => None,
            false => self.known.measured.get(&subject),
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
        let records = self.records(task, &measured);
        for (key, facts) in records.entries() {
            self.known.records.insert(key.clone(), facts.clone());
        }
        database::add_measured(&self.args.into, &records, std::slice::from_ref(&measured))
            .map_err(|error| translate::profile(&error))?;
        found.insert(answer.task, measured);
        Ok(())
    }

    fn is_known(&self, task: &Task) -> bool {
        if let Some(measured) = self.known.measured.get(&self.subject(task)) {
            return measured.rounds >= self.args.rounds;
        }
        match task.kind.as_str() {
            "collective" => self.route(task).is_some_and(|route| {
                let curve = self.known.records.comm.curve(&route);
                curve.is_some_and(|curve| curve.points().any(|(elements, _)| elements == task.elements))
            }),
            _ => false,
        }
    }

    fn subject(&self, task: &Task) -> Subject {
        let key = match task.kind.as_str() {
            "collective" => format!("{} {} {}", task.operation, task.groups, task.elements),
            "plan" => {
                let how = if self.args.no_recompute { NOT_RECOMPUTING } else { "" };
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

    /// What others than us can use: speeds under plans, and communication times.
    fn records(&self, task: &Task, measured: &Measured) -> Records {
        let mut records = Records::default();
        match task.kind.as_str() {
            "collective" => {
                if let Some(route) = self.route(task) {
                    records.comm.insert(route, task.elements, measured.seconds);
                }
            }
            "plan" => {
                let degrees = task.plan.split(".mb").next().unwrap_or_default();
                let (key, facts) = self.entry(degrees, measured);
                // Of several numbers of microbatches the fastest counts.
                let is_slower =
                    |known: &Facts| !known.is_estimate && known.iterations_per_s >= facts.iterations_per_s;
                if !self.known.records.get(&key).is_some_and(is_slower) {
                    records.insert(key, facts);
                }
            }
            _ => {}
        }
        records
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

    fn show(&self, terminal: &Terminal) -> Result<(), CliError> {
        if terminal.format == OutputFormat::Json {
            let one = |(kind, count): (&String, &Count)| {
                let Count { measured, known, failed } = *count;
                json!({ "kind": kind, "measured": measured, "known": known, "failed": failed })
            };
            return terminal.json(&json!({
                "schema": 1,
                "profile": self.args.into.to_string_lossy(),
                "model": self.offer.name,
                "device_type": self.device_type,
                "devices": self.offer.devices,
                "machine": self.offer.machine,
                "versions": self.offer.versions,
                "results": self.counts.iter().map(one).collect::<Vec<_>>(),
            }));
        }
        let mut grid = Grid::new(["what", "measured", "known already", "failed"]);
        for (kind, Count { measured, known, failed }) in &self.counts {
            grid.push([kind.as_str(), &measured.to_string(), &known.to_string(), &failed.to_string()]);
        }
        terminal.grid(&grid)
    }
}
