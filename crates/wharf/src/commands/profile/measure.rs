//! `wharf profile run`: asks what can be measured, has measured what the database lacks, and notes it as it comes.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use wharf_perf::{Locality, Place, Workload};
use wharf_planner::comm::{Operation, Route};
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
    if args.what.contains(&ProfileSubjectArg::Plans) && args.plans.is_empty() {
        return Err(CliError::usage("`--what plans` requires plans")
            .hint("set them: `--plan pp2.dp4.mb8 --plan dp8`"));
    }
    let known = Known::read(&args.into)?;
    let mut profiler = Profiler::start(&args.profiler.python)?;
    profiler.say(&request(args));
    let Some(offer) = profiler.next()? else { return Ok(interrupt::handled().unwrap_or(Exit::Internal)) };
    let offer: Offer = serde_json::from_value(offer)
        .map_err(|error| CliError::new(ErrorKind::Internal, format!("the profiler's offer: {error}")))?;
    if let Some(lacking) = args.what.iter().find(|subject| !offer.has(**subject)) {
        return Err(nothing_to_measure(*lacking, &offer));
    }
    let mut session = Session::new(args, offer, known);
    session.measure(&mut profiler, terminal)?;
    session.show(terminal)?;
    if let Some(signal) = interrupt::handled() {
        terminal.note("interrupted; measurements are saved, and the same command continues");
        return Ok(signal);
    }
    if let Some(target) = &args.hardware {
        let (device_type, rows) = (&session.device_type, session.present());
        hardware::write(target, &args.into, device_type, &session.offer, &rows, terminal)?;
    }
    match session.failures.len() {
        0 => Ok(Exit::Ok),
        failed => Err(CliError::input(format!("{failed} measurements failed; all others are kept"))),
    }
}

impl Offer {
    fn has(&self, subject: ProfileSubjectArg) -> bool {
        // One of them has the name of all but for its end.
        self.tasks.iter().any(|task| subject.name().starts_with(&task.kind))
    }
}

/// That something was asked for of which there is nothing, and why.
fn nothing_to_measure(subject: ProfileSubjectArg, offer: &Offer) -> CliError {
    let name = subject.name();
    let error = CliError::input(format!("there are no {name} to measure"));
    match subject {
        ProfileSubjectArg::Layers => error.hint(format!(
            "layers are measured only for a wharf.profiler.Stack: return one from the function of {}",
            offer.name
        )),
        ProfileSubjectArg::Collectives => {
            error.hint("they need at least two devices: emulate some with `--host-devices 8`")
        }
        ProfileSubjectArg::Operators | ProfileSubjectArg::Plans => error,
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
        // An empty file is a new database.
        if std::fs::metadata(path).map_or(true, |metadata| metadata.len() == 0) {
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
        let (mut wanted, mut rounds) = (Vec::new(), Vec::new());
        for (index, task) in self.offer.tasks.iter().enumerate() {
            let missing = self.missing_rounds(task);
            self.counts.entry(task.kind.clone()).or_default().known += usize::from(missing == 0);
            if missing > 0 {
                wanted.push(index);
                rounds.push(missing);
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let steps = rounds.iter().map(|rounds| u64::from(*rounds)).sum();
        let progress = terminal.progress(steps, "measurements");
        profiler.say(&json!({ "rounds": rounds, "tasks": wanted }));
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
        database::add_measured(&self.args.into, &records, std::slice::from_ref(&measured))
            .map_err(|error| translate::profile(&error))?;
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
        if self.args.again {
            return self.args.rounds;
        }
        let is_in_table = || {
            let route = self.route(task).filter(|_| task.kind == "collective");
            let curve = route.and_then(|route| self.known.records.comm.curve(&route));
            curve.is_some_and(|curve| curve.points().any(|(elements, _)| elements == task.elements))
        };
        match self.known(task) {
            Some(measured) => self.args.rounds.saturating_sub(measured.rounds),
            // Another process may have measured it.
            None if is_in_table() => 0,
            None => self.args.rounds,
        }
    }

    /// What is known of what was offered now, and of nothing else that the database has.
    fn present(&self) -> Vec<&Measured> {
        self.offer.tasks.iter().filter_map(|task| self.known(task)).collect()
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

    /// What others than us can use: speeds under plans, and communication times. `before` is what the database said of the task.
    fn records(&self, task: &Task, measured: &Measured, before: Option<&Measured>) -> Records {
        let mut records = Records::default();
        match task.kind.as_str() {
            "collective" => {
                if let Some(route) = self.route(task) {
                    records.comm.insert(route, task.elements, measured.seconds);
                }
            }
            // An entry does not say that nothing was computed anew: who plans takes it for the usual way.
            "plan" if !self.args.no_recompute => {
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
