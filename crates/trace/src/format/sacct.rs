//! Slurm's accounting: the output of `sacct --parsable2` (or `--parsable`), with any columns.
//!
//! A row is a job, an element of a job array, or a step of one; steps are left out. A job that was requeued has a row for each
//! run where the dump was made with `--duplicates`.

use std::collections::{BTreeMap, HashMap, HashSet};

use wharf_core::{ArrayElement, JobSpec};

use super::log::{self, Logged};
use super::{Codec, LogSource, Recognise, Roles, Shared, Syntax};
use crate::csv::Separator;
use crate::finding::{Note, Rule};
use crate::row::{Alternatives, Column, RowCheck, Schema, UnknownColumns};
use crate::text::shown;

pub(super) static GPUS: Codec = Codec {
    name: "sacct",
    about: "Slurm's accounting from `sacct --parsable2`, GPUs as devices",
    schema: &GPU_SCHEMA,
    roles: Roles { devices: ALLOC_TRES, device_types: Some(REQ_TRES), ..ROLES },
    decode: |row, shared| {
        let types = requested_types(row);
        decode(row, shared, gpus, types)
    },
    recognise: Recognise::Text(is_table),
    log: Some(LogSource { if_empty: NO_GPUS, ..LogSource::ROWS }),
    ..BASE
};

pub(super) static CPUS: Codec = Codec {
    name: "sacct-cpus",
    about: "Slurm's accounting, CPUs as devices",
    schema: &CPU_SCHEMA,
    roles: Roles { devices: NCPUS, ..ROLES },
    decode: |row, shared| decode(row, shared, |row| counted(row, &[ALLOC_CPUS, NCPUS], "cpu"), None),
    ..BASE
};

pub(super) static NODES: Codec = Codec {
    name: "sacct-nodes",
    about: "Slurm's accounting, nodes as devices",
    schema: &NODE_SCHEMA,
    roles: Roles { devices: NNODES, ..ROLES },
    decode: |row, shared| decode(row, shared, |row| counted(row, &[ALLOC_NODES, NNODES], "node"), None),
    ..BASE
};

const NO_GPUS: &str = "`wharf trace lint` says why; on a cluster without GPUs, read CPUs or nodes as devices: format `sacct-cpus` \
     or `sacct-nodes`";

/// Fields that the three formats share.
const BASE: Codec = Codec {
    name: "",
    about: "",
    extension: "txt",
    syntax: Syntax::Csv(Separator::Bar),
    schema: &GPU_SCHEMA,
    roles: ROLES,
    merge: Some(merge),
    decode: |_, _| None,
    recognise: Recognise::ByName,
    log: Some(LogSource::ROWS),
    encode: None,
};

const ROLES: Roles =
    Roles { id: JOB_ID, submit: SUBMIT, devices: ALLOC_TRES, device_types: None, model: 0, stages: 0 };

const JOB_ID: usize = 0;
const JOB_ID_RAW: usize = 1;
const USER: usize = 2;
const PARTITION: usize = 3;
const SUBMIT: usize = 4;
const START: usize = 5;
const END: usize = 6;
const ELAPSED: usize = 7;
const ELAPSED_RAW: usize = 8;
const STATE: usize = 9;
const ALLOC_TRES: usize = 10;
const REQ_TRES: usize = 11;
const ALLOC_GRES: usize = 12;
const REQ_GRES: usize = 13;
const NNODES: usize = 14;
const ALLOC_NODES: usize = 15;
const NCPUS: usize = 16;
const ALLOC_CPUS: usize = 17;
const TIMELIMIT: usize = 18;
const TIMELIMIT_RAW: usize = 19;

const COLUMNS: &[Column] = &[
    Column { name: "JobID", required: false },
    Column { name: "JobIDRaw", required: false },
    Column { name: "User", required: false },
    Column { name: "Partition", required: false },
    Column { name: "Submit", required: true },
    Column { name: "Start", required: false },
    Column { name: "End", required: false },
    Column { name: "Elapsed", required: false },
    Column { name: "ElapsedRaw", required: false },
    Column { name: "State", required: true },
    Column { name: "AllocTRES", required: false },
    Column { name: "ReqTRES", required: false },
    Column { name: "AllocGRES", required: false },
    Column { name: "ReqGRES", required: false },
    Column { name: "NNodes", required: false },
    Column { name: "AllocNodes", required: false },
    Column { name: "NCPUS", required: false },
    Column { name: "AllocCPUS", required: false },
    Column { name: "Timelimit", required: false },
    Column { name: "TimelimitRaw", required: false },
];

const IDS: Alternatives = &[&[JOB_ID], &[JOB_ID_RAW]];
const LENGTHS: Alternatives = &[&[ELAPSED_RAW], &[ELAPSED], &[START, END]];

static GPU_SCHEMA: Schema = Schema {
    columns: COLUMNS,
    any_of: &[IDS, LENGTHS, &[&[ALLOC_TRES], &[ALLOC_GRES], &[REQ_TRES], &[REQ_GRES, NNODES]]],
    unknown: UnknownColumns::Ignored,
};

static CPU_SCHEMA: Schema =
    Schema { any_of: &[IDS, LENGTHS, &[&[ALLOC_CPUS], &[NCPUS], &[ALLOC_TRES]]], ..GPU_SCHEMA_BASE };

static NODE_SCHEMA: Schema =
    Schema { any_of: &[IDS, LENGTHS, &[&[ALLOC_NODES], &[NNODES], &[ALLOC_TRES]]], ..GPU_SCHEMA_BASE };

const GPU_SCHEMA_BASE: Schema = Schema { columns: COLUMNS, any_of: &[], unknown: UnknownColumns::Ignored };

/// Whether a line is the header of such a dump, whatever separates its columns.
fn is_table(text: &str) -> bool {
    let line = text.lines().next().unwrap_or_default();
    let is_separator = |character: char| character.is_whitespace() || "|,;".contains(character);
    line.split(is_separator).any(|name| matches!(name, "JobID" | "JobIDRaw"))
}

/// Job steps, and the runs of jobs, that were met so far.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    jobs: HashSet<Box<str>>,
    /// By job, the steps that came before any row of the job.
    waiting: BTreeMap<Box<str>, EarlySteps>,
    runs: HashMap<Box<str>, Run>,
}

/// Steps of a job that has no row yet.
#[derive(Debug)]
struct EarlySteps {
    /// Line of the first.
    line: u64,
    /// The first one's id.
    first: Box<str>,
    count: usize,
}

/// One run of a job.
#[derive(Clone, Copy, Debug)]
struct Run {
    start_s: f64,
    end_s: f64,
    line: u64,
    is_requeued: bool,
    is_completed: bool,
}

impl Steps {
    /// Adds a job; returns its steps that came before it.
    fn add_job(&mut self, job: &str) -> Option<EarlySteps> {
        self.jobs.insert(job.into());
        self.waiting.remove(job)
    }

    /// Adds a step; returns whether its job has a row already.
    fn add_step(&mut self, job: &str, step: &str, line: u64) -> bool {
        let is_known = self.jobs.contains(job);
        if !is_known {
            let new = || EarlySteps { line, first: step.into(), count: 0 };
            self.waiting.entry(job.into()).or_insert_with(new).count += 1;
        }
        is_known
    }

    /// The jobs whose last run did not complete, with the lines of these runs.
    pub(crate) fn not_completed(&self) -> Vec<(u64, &str)> {
        let last = self.runs.iter().filter(|(_, run)| !run.is_completed);
        let mut jobs: Vec<(u64, &str)> = last.map(|(job, run)| (run.line, &**job)).collect();
        jobs.sort_unstable();
        jobs
    }

    /// The first step of each job that has no row, by line, with an error.
    pub(crate) fn orphans(&self) -> Vec<(u64, Note)> {
        let mut orphans: Vec<(u64, Note)> = self
            .waiting
            .iter()
            .map(|(job, EarlySteps { line, first, .. })| {
                let message = format!("step {} has no row of its job {}", shown(first), shown(job));
                let note = Note::error(Rule::OrphanStep, message);
                (*line, note.hint("dump whole jobs without their steps: `sacct --allocations` (`-X`)"))
            })
            .collect();
        orphans.sort_by_key(|(line, _)| *line);
        orphans
    }
}

/// A count of devices, given as a function of the row; `None` where it was reported as an error.
type CountDevices = fn(&mut RowCheck<'_>) -> Option<u32>;

/// `types` are the device types that the job requested.
fn decode(
    row: &mut RowCheck<'_>,
    shared: &mut Shared,
    count_devices: CountDevices,
    types: Option<String>,
) -> Option<JobSpec> {
    const STEP: &str = "job steps: their jobs have rows of their own";
    const NO_DEVICE: &str = "no GPU allocated";
    let id_column = if row.has(JOB_ID) { JOB_ID } else { JOB_ID_RAW };
    let id = row.name(id_column)?;
    if let Some((job, _)) = id.split_once('.') {
        if shared.steps.add_step(job, id, row.row.line) {
            row.drop(id_column, STEP);
        }
        row.is_dropped = true;
        return None;
    }
    if let Some(EarlySteps { line, first, count }) = shared.steps.add_job(id) {
        (0..count).for_each(|_| row.findings.tally(Rule::DroppedRows, STEP, line, &first, None));
    }
    let times = decode_times(row);
    let declared_s = decode_limit(row);
    let devices = count_devices(row);
    if row.is_bad {
        return None;
    }
    let (times, devices) = (times?, devices?);
    let state = row.told(STATE).unwrap_or_default();
    let reason = times.problem(state).or((devices == 0).then_some(NO_DEVICE));
    if let Some(reason) = reason {
        row.drop(id_column, reason);
        return None;
    }
    let (submit_s, duration_s) = (times.submit_s?, times.duration_s?);
    let start_s = times.start_s.unwrap_or(submit_s);
    let (is_requeued, is_completed) = (is_requeued(state), first_word(state) == "COMPLETED");
    let (line, end_s) = (row.row.line, start_s + duration_s);
    let run = Run { start_s, end_s, line, is_requeued, is_completed };
    check_run(row, id_column, &mut shared.steps, id, run);
    if row.is_bad {
        return None;
    }
    let user = row.told(USER).map(|user| shared.names.get(user));
    let pool = row.told(PARTITION).map(|partition| shared.names.get(partition));
    let device_types = shared.list(types.as_deref());
    let array = id.split_once('_').and_then(|(array, index)| {
        Some(ArrayElement { array: shared.names.get(array), index: index.parse().ok()? })
    });
    let job = Logged::new(shared, id, submit_s, devices, duration_s, ELAPSED);
    Logged { user, pool, array, device_types, declared_s, ..job }.into_job(row)
}

/// When a job was submitted, started and ended, as far as the row tells.
struct Times {
    submit_s: Option<f64>,
    start_s: Option<f64>,
    duration_s: Option<f64>,
    has_start: bool,
}

impl Times {
    /// Why a job is left out, if it is.
    fn problem(&self, state: &str) -> Option<&'static str> {
        const RUNNING: [&str; 7] =
            ["RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "STOPPED", "SIGNALING"];
        let state = first_word(state);
        let is_unstarted = self.has_start && self.start_s.is_none();
        match self.duration_s {
            _ if self.submit_s.is_none() => Some(log::NO_SUBMIT),
            _ if is_unstarted || state == "PENDING" => Some(log::NEVER_STARTED),
            _ if RUNNING.contains(&state) => Some(log::NO_END),
            None => Some(log::NO_END),
            Some(duration_s) => log::length_problem(duration_s),
        }
    }
}

/// A state without what follows it, as in `CANCELLED by 1000`.
fn first_word(state: &str) -> &str {
    state.split([' ', '+']).next().unwrap_or_default()
}

/// Whether Slurm lets such a run be followed by another one of the same job.
fn is_requeued(state: &str) -> bool {
    matches!(first_word(state), "REQUEUED" | "PREEMPTED" | "NODE_FAIL" | "BOOT_FAIL" | "SPECIAL_EXIT")
}

fn decode_times(row: &mut RowCheck<'_>) -> Option<Times> {
    let [submit_s, start_s, end_s] = [SUBMIT, START, END].map(|column| moment(row, column));
    let elapsed_s = if row.told(ELAPSED_RAW).is_some() {
        row.length(ELAPSED_RAW)
    } else {
        span(row, ELAPSED, parse_span)
    };
    follows(row, START, "starts", submit_s.zip(start_s), "is submitted");
    follows(row, END, "ends", start_s.zip(end_s), "starts");
    let between_s = start_s.zip(end_s).map(|(start_s, end_s)| end_s - start_s);
    // Time in suspension is part of the span from start to end, but not of the elapsed time.
    let duration_s = elapsed_s.or(between_s);
    Some(Times { submit_s, start_s, duration_s, has_start: row.has_column(START) })
}

/// Reports a moment before the one that it follows.
fn follows(row: &mut RowCheck<'_>, column: usize, what: &str, times: Option<(f64, f64)>, before: &str) {
    if let Some((first_s, then_s)) = times
        && then_s < first_s
    {
        let found = row.raw(column).unwrap_or_default();
        let message = format!("the job {what} at {found}, {} s before it {before}", first_s - then_s);
        row.error(
            column,
            Note::error(Rule::TimesBackwards, message).hint("correct the row, or skip it: `--skip-invalid`"),
        );
    }
}

/// A date, or seconds since 1970 as `SLURM_TIME_FORMAT=%s` has it.
fn moment(row: &mut RowCheck<'_>, column: usize) -> Option<f64> {
    let text = row.told(column)?;
    if text.bytes().all(|byte| byte.is_ascii_digit()) { row.length(column) } else { row.date(column) }
}

/// A length of time that `parse` understands, or `None` where there is none.
fn span(row: &mut RowCheck<'_>, column: usize, parse: fn(&str) -> Option<f64>) -> Option<f64> {
    let text = row.told(column)?;
    let seconds = parse(text);
    if seconds.is_none() {
        let message = format!("found {}, expected [DAYS-]HOURS:MINUTES:SECONDS", shown(text));
        row.error(column, Note::error(Rule::NotANumber, message));
    }
    seconds
}

/// Seconds of `[DAYS-]HOURS:MINUTES:SECONDS[.FRACTION]` or `MINUTES:SECONDS`.
fn parse_span(text: &str) -> Option<f64> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<&str> = clock.split(':').collect();
    let is_number =
        |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !(2..=3).contains(&parts.len()) || !parts.iter().chain([&days]).all(is_number) {
        return None;
    }
    let mut seconds = 0.0;
    for part in &parts {
        seconds = seconds * 60.0 + part.parse::<f64>().ok()?;
    }
    Some(days.parse::<f64>().ok()? * 86_400.0 + seconds)
}

/// The time limit that the user asked for.
fn decode_limit(row: &mut RowCheck<'_>) -> Option<f64> {
    const NONE: [&str; 3] = ["UNLIMITED", "Partition_Limit", "INVALID"];
    let is_told = |row: &RowCheck<'_>, column| row.told(column).is_some_and(|text| !NONE.contains(&text));
    if is_told(row, TIMELIMIT) {
        span(row, TIMELIMIT, parse_span).filter(|limit_s| *limit_s > 0.0)
    } else if is_told(row, TIMELIMIT_RAW) {
        row.length(TIMELIMIT_RAW).map(|minutes| minutes * 60.0).filter(|limit_s| *limit_s > 0.0)
    } else {
        None
    }
}

/// GPUs: those that were allocated, or else requested. Only `ReqGRES` counts by node.
fn gpus(row: &mut RowCheck<'_>) -> Option<u32> {
    for (column, is_each) in [(ALLOC_TRES, false), (ALLOC_GRES, false), (REQ_TRES, false), (REQ_GRES, true)] {
        let Some(text) = row.told(column) else { continue };
        let mut sum = 0.0;
        let mut total = None;
        for gpu in gpu_entries(text) {
            let Some(count) = gpu.count else {
                let message = format!("found {}, expected a number of GPUs", shown(text));
                row.error(
                    column,
                    Note::error(Rule::NotANumber, message).hint("such as gres/gpu=2 or gres/gpu:a100=2"),
                );
                return None;
            };
            // The count of all types comes beside those of each type.
            if gpu.kind.is_none() { total = Some(count) } else { sum += count }
        }
        let nodes = if is_each { row.count(NNODES).unwrap_or(1) } else { 1 };
        return whole(row, column, total.unwrap_or(sum) * f64::from(nodes));
    }
    Some(0)
}

fn whole(row: &mut RowCheck<'_>, column: usize, count: f64) -> Option<u32> {
    if count.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&count) {
        return Some(count as u32);
    }
    row.error(
        column,
        Note::error(Rule::NotAnInteger, format!("found {count:e} devices, expected a whole number")),
    );
    None
}

/// GPUs of one type, or of any.
struct Gpus<'a> {
    kind: Option<&'a str>,
    count: Option<f64>,
}

/// The GPUs in `billing=4,gres/gpu=2,gres/gpu:a100=2` or in `gpu:a100:2(IDX:0-1)`.
fn gpu_entries(text: &str) -> impl Iterator<Item = Gpus<'_>> {
    text.split(',').filter_map(|entry| {
        let entry = entry.trim();
        if let Some((name, count)) = entry.strip_prefix("gres/").and_then(|entry| entry.split_once('=')) {
            let kind = name.strip_prefix("gpu")?;
            let kind = if kind.is_empty() { None } else { Some(kind.strip_prefix(':')?) };
            return Some(Gpus { kind, count: count.parse().ok() });
        }
        let rest = entry.strip_prefix("gpu")?;
        let rest = rest.split('(').next().unwrap_or_default();
        match rest
            .strip_prefix(':')
            .map(|rest| rest.rsplit_once(':').map_or((None, rest), |(kind, count)| (Some(kind), count)))
        {
            None => rest.is_empty().then_some(Gpus { kind: None, count: Some(1.0) }),
            Some((kind, count)) => match count.parse() {
                Ok(count) => Some(Gpus { kind, count: Some(count) }),
                // `gpu:a100` is one.
                Err(_) if kind.is_none() => Some(Gpus { kind: Some(count), count: Some(1.0) }),
                Err(_) => Some(Gpus { kind, count: None }),
            },
        }
    })
}

/// The types that the job asked for, `;` between them. What it was given is not what it asked for.
fn requested_types(row: &RowCheck<'_>) -> Option<String> {
    let text = row.told(REQ_TRES).or_else(|| row.told(REQ_GRES))?;
    let types: Vec<&str> = gpu_entries(text).filter_map(|gpu| gpu.kind).collect();
    (!types.is_empty()).then(|| types.join(";"))
}

/// A count in the first of some columns that has it, or as `name=COUNT` in `AllocTRES`.
fn counted(row: &mut RowCheck<'_>, columns: &[usize], name: &str) -> Option<u32> {
    for &column in columns {
        if row.told(column).is_some() {
            return row.count(column);
        }
    }
    let entries = row.told(ALLOC_TRES).unwrap_or_default();
    let count = entries.split(',').find_map(|entry| entry.trim().strip_prefix(name)?.strip_prefix('='));
    match count.map(str::parse::<f64>) {
        None => Some(0),
        Some(Ok(count)) => whole(row, ALLOC_TRES, count),
        Some(Err(_)) => {
            let message = format!("found {}, expected {name}=COUNT", shown(entries));
            row.error(ALLOC_TRES, Note::error(Rule::NotANumber, message));
            None
        }
    }
}

/// Remembers a run. A job that is there already must have been requeued, and its runs must follow one another.
fn check_run(row: &mut RowCheck<'_>, id_column: usize, steps: &mut Steps, id: &str, run: Run) {
    const REQUEUED: &str = "requeued, with the lengths of the runs added up";
    let Some(&known) = steps.runs.get(id) else {
        steps.runs.insert(id.into(), run);
        return;
    };
    let (first, then) = if known.start_s <= run.start_s { (known, run) } else { (run, known) };
    let problem = if !first.is_requeued {
        "and was not requeued"
    } else if then.start_s < first.end_s {
        "and both run at the same time"
    } else {
        steps.runs.insert(id.into(), then);
        row.adapt(id_column, REQUEUED);
        return;
    };
    let message = format!("job {} is duplicated, first on line {}, {problem}", shown(id), known.line);
    let note = Note::error(Rule::DuplicateId, message);
    row.error(
        id_column,
        note.hint("a job is in the dump twice, or Slurm used its id again: dump a shorter period"),
    );
}

/// Adds a run to its job: the work of all, on as many devices as any had.
fn merge(job: &mut JobSpec, run: &JobSpec) {
    let is_declared = |job: &JobSpec| job.duration_s != Some(job.iterations);
    let declared_s = [&*job, run].into_iter().filter(|job| is_declared(job)).filter_map(|job| job.duration_s);
    let declared_s =
        declared_s.fold(None, |most: Option<f64>, limit| Some(most.map_or(limit, |most| most.max(limit))));
    job.submit = job.submit.min(run.submit);
    job.iterations += run.iterations;
    job.duration_s = Some(declared_s.unwrap_or(job.iterations));
    let devices = job.gang.devices.max(run.gang.devices);
    (job.gang.devices, job.gang.devices_min, job.gang.devices_max) = (devices, devices, devices);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_span_reads_what_slurm_prints() {
        for (text, expected) in [
            ("00:00:07", Some(7.0)),
            ("01:02:03", Some(3723.0)),
            ("2-03:04:05", Some(183_845.0)),
            ("05:30", Some(330.0)),
            ("00:00:01.500", Some(1.5)),
            ("100:00:00", Some(360_000.0)),
            ("7", None),
            ("1-", None),
            ("-1:00:00", None),
            ("a:b:c", None),
            ("1:2:3:4", None),
            ("", None),
        ] {
            assert_eq!(parse_span(text), expected, "{text}");
        }
    }

    #[test]
    fn gpu_entries_reads_tres_and_gres() {
        let shown = |text: &str| -> Vec<String> {
            gpu_entries(text).map(|gpu| format!("{}={:?}", gpu.kind.unwrap_or("*"), gpu.count)).collect()
        };
        for (text, expected) in [
            ("billing=4,cpu=8,gres/gpu=2,mem=16G,node=1", &["*=Some(2.0)"][..]),
            ("gres/gpu:a100=2,gres/gpu=2", &["a100=Some(2.0)", "*=Some(2.0)"]),
            ("gres/gpu:a100=4,gres/gpu:v100=2", &["a100=Some(4.0)", "v100=Some(2.0)"]),
            ("gres/gpumem=80G,gres/shard=4,license/x=1", &[]),
            ("gpu:4", &["*=Some(4.0)"]),
            ("gpu:tesla:2(IDX:0-1),craynetwork:1", &["tesla=Some(2.0)"]),
            ("gpu", &["*=Some(1.0)"]),
            ("gpu:a100", &["a100=Some(1.0)"]),
            ("gres/gpu=two", &["*=None"]),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
